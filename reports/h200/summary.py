#!/usr/bin/env python3
"""What the data beside this file comes to: shares of the floor and ratios to peers, as SUMMARY.md.

python3 reports/h200/summary.py          writes SUMMARY.md
python3 reports/h200/summary.py --check  exit 1 when SUMMARY.md is not what the data says

The floor of a decoded token is the time in which the card reads every weight of it once, at the 4,300 GB/s that a plain copy
reaches on it; of a step of 32 sequences (decode_bench: all were prefilled before), what `measure --op layer,head` counted as read:
weights, the experts that were touched, keys and values. Figures of peers: llama.cpp b7324 (release build, sm_90, CUDA graphs, flash attention) at 512 tokens of context, measured
on an H200 of the same kind.
"""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PRESETS = HERE.parent.parent / "engine" / "models" / "presets"
GB_PER_S = 4300.0
BF16 = 2.0
BYTES_PER_WEIGHT = {"bf16": BF16, "int4": 4.125 / 8}  # int4: groups of 128 with a scale of 16 bits

LLAMA_CPP = {"qwen3-24-layers": ("decode, bf16", 2.75), "qwen3-24-layers-int4": ("decode, q4_0", 2.04),
             "qwen3-24-layers-prompt": ("prompt of 2,048, bf16", 401.0),
             "qwen3-24-layers-int4-prompt": ("prompt of 2,048, q4_0", 149.0)}


def attention_weights(c):
    heads = c["num_attention_heads"]
    if "kv_lora_rank" in c:
        width = c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
        q = c["hidden_size"] * heads * width
        if c.get("q_lora_rank"):
            q = c["q_lora_rank"] * (c["hidden_size"] + heads * width)
        latent = c["kv_lora_rank"]
        return (q + c["hidden_size"] * (latent + c["qk_rope_head_dim"])
                + latent * heads * (c["qk_nope_head_dim"] + c["v_head_dim"]) + heads * c["v_head_dim"] * c["hidden_size"])
    width = c.get("head_dim") or c["hidden_size"] // heads
    return c["hidden_size"] * width * (2 * heads + 2 * c["num_key_value_heads"])


def floor_ms(preset, experts, dense="bf16", layers=None):
    """Milliseconds in which the weights of one token are read once."""
    c = json.loads((PRESETS / f"{preset}.json").read_text())["config"]
    layers = layers or c["num_hidden_layers"]
    inner = c.get("moe_intermediate_size") or c["intermediate_size"]
    chosen = c["num_experts_per_tok"] * 3 * c["hidden_size"] * inner
    all_experts = c.get("n_routed_experts") or c.get("num_local_experts") or c["num_experts"]
    shared = (c.get("n_shared_experts") or 0) * 3 * c["hidden_size"] * inner
    router = all_experts * c["hidden_size"] * BF16
    first_dense = c.get("first_k_dense_replace") or 0
    per_dense = BYTES_PER_WEIGHT[dense]
    total = c["vocab_size"] * c["hidden_size"] * per_dense
    for layer in range(layers):
        total += attention_weights(c) * per_dense
        if layer < first_dense:
            total += 3 * c["hidden_size"] * c["intermediate_size"] * per_dense
        else:
            total += chosen * BYTES_PER_WEIGHT[experts] + shared * per_dense + router
    return total / GB_PER_S / 1e6


def metric(name, key):
    path = HERE / f"measure-{name}.json"
    if not path.exists():
        return None
    document = json.loads(path.read_text())
    found = document["metrics"].get(key)
    return found["value"] if found else None


def decode_rows():
    yield "| model, routed experts | ms per token | floor, ms | share of the floor |"
    yield "|---|---|---|---|"
    for preset in ("mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2-lite"):
        for experts in ("bf16", "int4"):
            ms = metric(preset if experts == "bf16" else f"{preset}-int4", "tpot_ms")
            if ms:
                floor = floor_ms(preset, experts)
                yield f"| {preset}, {experts} | {ms:.3f} | {floor:.2f} | {100 * floor / ms:.0f} % |"


BATCH = "qwen3-30b-a3b, 32 sequences"


def batch_step_ms():
    """Milliseconds of a step; None: not measured."""
    path = HERE / "steps.txt"
    if not path.exists():
        return None
    found = re.search(rf"^{BATCH}: decode ([0-9.]+) ms per step,", path.read_text(), re.MULTILINE)
    if not found:
        sys.exit(f"{path}: no line '{BATCH}: decode ... ms per step, ...' of decode_bench")
    return float(found[1])


def batch_rows():
    ms = batch_step_ms()
    path = HERE / "ops-qwen3-30b-a3b.json"
    if not ms or not path.exists():
        return
    results = {r["op"]: r for r in json.loads(path.read_text())["results"] if r["tokens"] == 32}
    layers = json.loads((PRESETS / "qwen3-30b-a3b.json").read_text())["config"]["num_hidden_layers"]
    floor = (layers * results["layer"]["bytes"] + results["head"]["bytes"]) / GB_PER_S / 1e6
    yield ""
    yield (f"32 sequences of qwen3-30b-a3b, bf16, 512 to 576 tokens of context: {ms:.2f} ms a step; floor {floor:.2f} ms, "
           f"{100 * floor / ms:.0f} %.")


def prompt_rows():
    ms = metric("mixtral-8x7b-prompt", "ttft_ms")
    if ms:
        yield ""
        yield f"Prompt of 4,096 tokens on mixtral-8x7b, bf16: {ms:.0f} ms."


def peer_rows():
    yield "| Qwen3-30B-A3B cut to 24 layers | here, ms | llama.cpp, ms | times as fast |"
    yield "|---|---|---|---|"
    for name, (what, theirs) in LLAMA_CPP.items():
        ours = metric(name, "ttft_ms" if name.endswith("prompt") else "tpot_ms")
        if ours:
            yield f"| {what} | {ours:.2f} | {theirs:g} | {theirs / ours:.1f} |"


def torch_rows():
    path = HERE / "moe_layer_vs_torch.tsv"
    if not path.exists():
        yield "Not measured with these kernels yet."
        return
    head, _, *lines = path.read_text().splitlines()
    yield head.lstrip("# ") + "."
    yield ""
    yield "| shape | tokens | PyTorch, us | here, us | times as fast |"
    yield "|---|---|---|---|---|"
    for line in lines:
        shape, tokens, theirs, ours, ratio, *_ = line.split("\t")
        yield f"| {shape} | {tokens} | {theirs} | {ours} | {ratio} |"


def card():
    hardware = json.loads((HERE / "measure-mixtral-8x7b.json").read_text())["hardware"]
    return f"{hardware['device']}, driver {hardware['driver']}, built with CUDA {hardware['cuda']}."


def summary():
    lines = ["# What the H200 data comes to", "", card(), "",
             "Written by `summary.py` from the files beside it, which `run.sh` measures. Weights are generated; routing is synthetic",
             "(decision 0011).", "", "## One sequence, 512 + 128 tokens", "", *decode_rows(), *batch_rows(), *prompt_rows(), "",
             "## Beside llama.cpp, equal layers", "", *peer_rows(), "", "## One MoE layer beside PyTorch's `_grouped_mm` in a graph", "",
             *torch_rows(), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    text = summary()
    path = HERE / "SUMMARY.md"
    if "--check" in sys.argv[1:]:
        if not path.exists() or path.read_text() != text:
            sys.exit(f"{path.name} is not what the data beside it says: run python3 reports/h200/summary.py")
    else:
        path.write_text(text)
