#!/usr/bin/env python3
# Measures the checkpoint on calibration.txt and writes evaluation.json. Start at evaluate().
# Usage: evaluate.py [--data build/tiny-moe-data] [--device cpu|cuda]  everything; minutes on a GPU, longer on a CPU
#        evaluate.py --verify        measures bits per byte again and compares with evaluation.json
#        evaluate.py --write README.md | --check README.md    puts the figures into the README | compares them
import argparse
import csv
import json
import lzma
import math
import pathlib
import sys

import readme_figures

HERE = pathlib.Path(__file__).resolve().parent
CONTEXT = 1024          # bytes of a window; the first byte of a window has no prediction and is not scored
WINDOWS_AT_ONCE = 8
ORDER = 3               # of the byte model compared with
GATES = [("lossless", 0.002, 0.98), ("int8", 0.02, 0.95), ("int4", 0.04, 0.93)]  # name, kl_mean at most, top-1 at least


def windows_of(text, context):
    """(windows, context) token ids: consecutive, not overlapping; a rest shorter than a window is left out."""
    import torch
    count = len(text) // context
    return torch.tensor(list(text[:count * context])).view(count, context)


def log_probabilities(model, windows, device):
    """Float32 log-probabilities (windows, context - 1, vocabulary), on the CPU, and the experts chosen per MoE layer."""
    import dense_experts
    import torch
    parts, chosen = [], []
    with torch.no_grad():
        for batch in windows.split(WINDOWS_AT_ONCE):
            logits = model(input_ids=batch.to(device), use_cache=False).logits[:, :-1]
            parts.append(logits.float().log_softmax(-1).cpu())
            chosen.append(torch.stack([block.chosen.view(*batch.shape, -1).cpu() for block in dense_experts.moe_blocks(model)]))
    return torch.cat(parts), torch.cat(chosen, 1)


def bits_per_byte(log_probability, windows):
    """Mean code length per scored byte."""
    scored = log_probability.gather(-1, windows[:, 1:].unsqueeze(-1)).squeeze(-1)
    return -scored.double().mean().item() / math.log(2), scored


def gate_of(kl_mean, top1_agreement):
    """The strictest gate that the figures pass, or "rejected"."""
    return next((name for name, kl, top1 in GATES if kl_mean <= kl and top1_agreement >= top1), "rejected")


def compare(reference, other):
    """KL(reference || other) in nats and top-1 agreement, over all scored positions."""
    kl = (reference.exp() * (reference - other)).sum(-1).double().mean().item()
    top1 = (reference.argmax(-1) == other.argmax(-1)).double().mean().item()
    return {"kl_mean": round(kl, 6), "top1_agreement": round(top1, 5), "gate": gate_of(kl, top1)}


def routing_facts(chosen, experts):
    """Per MoE layer, from chosen (layers, windows, context, top_k): locality against chance, and load."""
    import torch
    layers = []
    used = torch.nn.functional.one_hot(chosen, experts).sum(-2).bool()  # (layers, windows, context, experts)
    top_k = chosen.shape[-1]
    for layer in used:
        share = (layer[:, 1:] & layer[:, :-1]).sum(-1).double().mean().item() / top_k
        load = layer.flatten(0, 1).double().mean(0)  # share of the tokens that use each expert; adds up to top_k
        chance = (load.square().sum() / top_k).item()  # two tokens drawn independently with this layer's own loads
        layers.append({"same_expert_next_token": round(share, 4), "chance": round(chance, 4),
                       "ratio": round(share / chance, 3), "max_over_mean_load": round((load.max() / load.mean()).item(), 3),
                       "min_over_mean_load": round((load.min() / load.mean()).item(), 3)})
    return layers


def bits_by_kind(scored, text):
    """Bits per byte of each kind of text, by the passages of calibration_sources.tsv."""
    import torch
    kind_at = [""] * len(text)
    for row in csv.DictReader((HERE / "calibration_sources.tsv").open(), delimiter="\t"):
        start, size = int(row["first_byte"]), int(row["bytes"])
        kind_at[start:start + size] = [row["kind"]] * size
    count, width = scored.shape
    kinds = [kind_at[window * (width + 1) + 1 + position] for window in range(count) for position in range(width)]
    flat = scored.flatten().double()
    return {kind: round(-flat[torch.tensor([k == kind for k in kinds])].mean().item() / math.log(2), 4)
            for kind in sorted(set(kinds) - {""})}


def class_difference(model, windows, device):
    """Largest logit difference between the dense experts used here and the class's own forward, on two windows."""
    import model_files
    import torch
    untouched = model_files.load_model().to(device)
    with torch.no_grad():
        return (untouched(input_ids=windows[:2].to(device)).logits - model(input_ids=windows[:2].to(device)).logits).abs().max().item()


def load(device):
    import dense_experts
    import model_files
    import torch
    torch.set_float32_matmul_precision("highest")
    return dense_experts.use_dense_experts(model_files.load_model().to(device))


def evaluate(data_folder, device):
    """Every figure of evaluation.json."""
    import configurations
    import witten_bell
    text = (HERE / "calibration.txt").read_bytes()
    model = load(device)
    windows = windows_of(text, CONTEXT)
    reference, chosen = log_probabilities(model, windows, device)
    native_bits, scored = bits_per_byte(reference, windows)
    result = {
        "calibration_bytes": len(text), "context": CONTEXT, "scored_bytes": scored.numel(),
        "bits_per_byte": round(native_bits, 4), "bits_per_byte_by_kind": bits_by_kind(scored, text),
        "bits_per_byte_by_context": {}, "class_difference": round(class_difference(model, windows, device), 7),
    }
    for context in (256, 512, 1024, 2048, 4096):
        other = windows_of(text, context)
        result["bits_per_byte_by_context"][str(context)] = round(bits_per_byte(log_probabilities(model, other, device)[0], other)[0], 4)
    positions = [window * CONTEXT + at for window in range(len(windows)) for at in range(max(1, ORDER), CONTEXT)]
    train = lzma.decompress((data_folder / "train.bin.xz").read_bytes())
    yardstick = witten_bell.bits_per_byte(train, text, positions, ORDER)
    result["order3_bits_per_byte"] = round(yardstick, 4)
    result["below_order3_percent"] = round(100 * (1 - native_bits / yardstick), 1)
    result["routing"] = routing_facts(chosen, model.config.n_routed_experts)
    ratios = [layer["ratio"] for layer in result["routing"]]
    result["same_expert_over_chance_mean"] = round(sum(ratios) / len(ratios), 3)
    result["configurations"] = {}
    for name, knobs in configurations.configurations(model.config.num_experts_per_tok).items():
        with configurations.applied(model, **knobs):
            log_probability, _ = log_probabilities(model, windows, device)
        result["configurations"][name] = compare(reference, log_probability) | {
            "bits_per_byte": round(bits_per_byte(log_probability, windows)[0], 4)}
        print(name, result["configurations"][name], flush=True)
    result["requirements"] = requirements(result)
    return result


def requirements(result):
    """What the model must reach, each with its value and whether it does."""
    by_top_k = [figures["kl_mean"] for name, figures in result["configurations"].items() if name.startswith("top_k=") and " " not in name]
    gates = {figures["gate"] for figures in result["configurations"].values()}
    return {
        "bits_per_byte <= 1.6": result["bits_per_byte"] <= 1.6,
        "at least 35 % under the order-3 model": result["below_order3_percent"] >= 35,
        "KL strictly falling as top_k rises": all(small < large for small, large in zip(by_top_k, by_top_k[1:])),
        "a configuration in each gate class and one rejected": gates == {"lossless", "int8", "int4", "rejected"},
        "same expert at the next token >= 1.3 times chance": result["same_expert_over_chance_mean"] >= 1.3,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("build/tiny-moe-data"))
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cpu")
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--check", type=pathlib.Path)
    arguments = parser.parse_args()
    path = HERE / "evaluation.json"
    if arguments.write or arguments.check:
        facts = {"evaluation": json.loads(path.read_text()), "training": json.loads((HERE / "training.json").read_text()),
                 "corpus": json.loads((HERE / "corpus.json").read_text())}
        sys.exit(readme_figures.write(arguments.write, facts) if arguments.write else readme_figures.check(arguments.check, facts))
    if arguments.verify:
        recorded = json.loads(path.read_text())["bits_per_byte"]
        windows = windows_of((HERE / "calibration.txt").read_bytes(), CONTEXT)
        measured, _ = bits_per_byte(log_probabilities(load(arguments.device), windows, arguments.device)[0], windows)
        print(f"bits per byte {measured:.4f}, evaluation.json has {recorded:.4f}")
        sys.exit(0 if abs(measured - recorded) <= 1e-3 else 1)
    result = evaluate(arguments.data, arguments.device)
    path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    print(json.dumps(result["requirements"], indent=2))
    sys.exit(0 if all(result["requirements"].values()) else 1)


if __name__ == "__main__":
    main()
