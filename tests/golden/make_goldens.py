#!/usr/bin/env python3
"""Makes the checkpoints below tests/golden and the logits that transformers computes for them; start at make().

    python3 tests/golden/make_goldens.py            all cases, tiny_moe included
    python3 tests/golden/make_goldens.py mixtral    one case
    python3 tests/golden/make_goldens.py --check    recompute the logits of what is there and compare

Needs torch and transformers (made with 5.17 on a CPU). Everything is computed in float32 with eager attention, from the weights as
they stand on disk. <case>/expected.safetensors holds ids (tokens) int32 and logits (tokens, vocabulary) float32.
"""

import argparse
import json
import math
import pathlib
import shutil
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import cases

HERE = pathlib.Path(__file__).resolve().parent
TINY_MOE = HERE.parent.parent / "engine" / "models" / "tiny-moe"
TINY_MOE_TOKENS = 256
# A choice of experts that hangs on the last bits of a float may fall differently in another correct implementation.
SMALLEST_ROUTING_GAP = 1e-4


def initialise(model, generator):
    """Weights that keep activations and logits of order one, so that every part shows in the result."""
    for name, parameter in list(model.named_parameters()) + list(model.named_buffers()):
        if name.endswith("inv_freq"):
            continue
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("norm.weight"):
            value = 1.0 + 0.2 * noise
        elif name.endswith("e_score_correction_bias"):
            value = 0.1 * noise
        elif name.endswith(".bias"):
            value = 0.3 * noise
        elif name.endswith("embed_tokens.weight"):
            value = noise * (1.5 / math.sqrt(parameter.shape[-1]) if model.config.tie_word_embeddings else 1.0)
        else:  # matrices (out, in) and stacks of them
            value = noise * 1.5 / math.sqrt(parameter.shape[-1])
        parameter.data.copy_(value)


def old_spelling(config):
    """config.json as transformers 4 and the DeepSeek hub write it."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    rope["type"] = rope.pop("rope_type")
    config["rope_scaling"] = rope
    config["torch_dtype"] = config.pop("dtype")
    config.update(moe_layer_freq=1, scoring_func="sigmoid", topk_method="noaux_tc", ep_size=1, num_nextn_predict_layers=0)
    for name in ("head_dim", "qk_head_dim"):
        config.pop(name)
    config["transformers_version"] = "4.33.1"
    return config


def routing_gap(logits, module):
    """How far the last expert chosen is from the first one not chosen, over all tokens of one router's logits."""
    logits = logits.double()
    if not hasattr(module, "e_score_correction_bias"):
        best = logits.sort(dim=-1, descending=True).values
        return (best[:, module.top_k - 1] - best[:, module.top_k]).min().item()
    scores = logits.sigmoid() + module.e_score_correction_bias.double()
    grouped = scores.view(len(scores), module.num_group, -1)
    group_scores = grouped.topk(2, dim=-1).values.sum(-1)
    order = group_scores.sort(dim=-1, descending=True)
    gap = math.inf
    if module.topk_group < module.num_group:
        gap = (order.values[:, module.topk_group - 1] - order.values[:, module.topk_group]).min().item()
    kept = torch.zeros_like(group_scores).scatter(1, order.indices[:, : module.topk_group], 1).bool()
    best = grouped.masked_fill(~kept.unsqueeze(-1), -math.inf).flatten(1).sort(dim=-1, descending=True).values
    return min(gap, (best[:, module.top_k - 1] - best[:, module.top_k]).min().item())


def transformers_logits(directory, ids):
    """Logits, smallest routing gap and share of experts that were used, from the files on disk."""
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    gaps, used = [], []

    def watch(module, _, output):
        logits, _, chosen = output
        gaps.append(routing_gap(logits.reshape(-1, logits.shape[-1]), module))
        used.append(len(chosen.unique()) / logits.shape[-1])

    hooks = [m.register_forward_hook(watch) for n, m in model.named_modules() if n.endswith("mlp.gate")]
    with torch.no_grad():
        logits = model(ids[None].long()).logits[0].contiguous()
    for hook in hooks:
        hook.remove()
    return logits, min(gaps), min(used)


def write_expected(directory, ids, logits):
    save_file({"ids": ids.to(torch.int32), "logits": logits.float()}, directory / "expected.safetensors")


def save_checkpoint(case, model, directory):
    arguments = {"max_shard_size": case.shards} if case.shards else {}
    # The selection bias is float32 on hubs too, beside bf16 weights.
    bias_type = {n: p for n, p in model.named_buffers() if n.endswith("e_score_correction_bias")}
    model.to(getattr(torch, case.dtype))
    for name, buffer in bias_type.items():
        model.get_buffer(name).data = buffer.data.float()
    model.save_pretrained(directory, save_original_format=not case.fused, **arguments)
    (directory / "generation_config.json").unlink(missing_ok=True)
    if case.old_spelling:
        path = directory / "config.json"
        path.write_text(json.dumps(old_spelling(json.loads(path.read_text())), indent=2) + "\n")


def make(case):
    generator = torch.Generator().manual_seed(case.seed)
    model = AutoModelForCausalLM.from_config(case.config, dtype=torch.float32, attn_implementation="eager")
    initialise(model, generator)
    ids = torch.randint(0, case.config.vocab_size, (case.tokens,), generator=generator)
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch) / case.name
        save_checkpoint(case, model, directory)
        logits, gap, used = transformers_logits(directory, ids)
        print(f"{case.name}: logits std {logits.std():.2f}, routing gap {gap:.1e}, experts used {used:.0%}")
        if gap < SMALLEST_ROUTING_GAP:
            sys.exit(f"{case.name}: routing gap {gap:.1e} is below {SMALLEST_ROUTING_GAP:.0e}: choose another seed")
        if used < 0.7 or not 0.3 < logits.std() < 5:
            sys.exit(f"{case.name}: degenerate: experts used {used:.0%}, logits std {logits.std():.2f}")
        write_expected(directory, ids, logits)
        shutil.rmtree(HERE / case.name, ignore_errors=True)
        shutil.copytree(directory, HERE / case.name)


def make_tiny_moe():
    text = (TINY_MOE / "calibration.txt").read_bytes()[:TINY_MOE_TOKENS]
    ids = torch.tensor(list(text))
    logits, gap, used = transformers_logits(TINY_MOE, ids)
    print(f"tiny_moe: logits std {logits.std():.2f}, routing gap {gap:.1e}, experts used {used:.0%}")
    (HERE / "tiny_moe").mkdir(exist_ok=True)
    write_expected(HERE / "tiny_moe", ids, logits)


def check(name):
    expected = load_file(HERE / name / "expected.safetensors")
    directory = TINY_MOE if name == "tiny_moe" else HERE / name
    logits, _, _ = transformers_logits(directory, expected["ids"])
    difference = (logits - expected["logits"]).abs().max().item()
    print(f"{name}: largest difference {difference:.1e}")
    return difference < 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    known = {case.name: case for case in cases.CASES}
    names = arguments.names or [*known, "tiny_moe"]
    if unknown := set(names) - set(known) - {"tiny_moe"}:
        sys.exit(f"unknown: {', '.join(unknown)}; accepted: {', '.join(known)}, tiny_moe")
    if arguments.check:
        return 0 if all([check(name) for name in names]) else 1
    for name in names:
        make_tiny_moe() if name == "tiny_moe" else make(known[name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
