#!/usr/bin/env python3
"""One MoE layer: PyTorch's _grouped_mm under a CUDA graph against this engine, in one run on one GPU.

    python3 moe_layer_vs_torch.py PROGRAM [--out FILE] [--shapes NAME,...] [--tokens N,...]

PROGRAM: moetune. Both sides do the same work in bf16: router product, softmax or sigmoid scores, top-k, the experts' gated
feed-forward, weighted sum; no shared expert, and routing as random inputs and weights give it. Inputs are random, outputs poisoned and checked, weights come from as many
distinct layers (at most 16) as fit, one after the other in a graph. Prints microseconds of a layer and the ratio; writes the
same as tab-separated values.
"""
import argparse
import json
import statistics
import subprocess
import sys

import torch

SHAPES = {
    # name: hidden, inner, experts, k, and the model that has it here
    "qwen3-30b": (2048, 768, 128, 8, "qwen3-30b-a3b:routing=0"),
    "mixtral": (4096, 14336, 8, 2, "mixtral-8x7b:routing=0"),
    "deepseek-v3": (7168, 2048, 256, 8, "deepseek-v3:groups=1,kept_groups=1,routing=0"),
}
WANTED_LAYERS = 16
SPARE_BYTES = 12 << 30  # activations of 4,096 tokens, graphs, the context


def layers_that_fit(hidden, inner, experts):
    layer_bytes = 2 * experts * (3 * inner + 1) * hidden
    free, _ = torch.cuda.mem_get_info()
    return max(1, min(WANTED_LAYERS, (free - SPARE_BYTES) // layer_bytes))


class Layer:
    def __init__(self, hidden, inner, experts):
        def random(*shape):
            return torch.empty(shape, dtype=torch.bfloat16, device="cuda").normal_(std=shape[-1] ** -0.5)

        self.router = random(experts, hidden)
        self.gate_up = random(experts, 2 * inner, hidden).transpose(1, 2)
        self.down = random(experts, hidden, inner).transpose(1, 2)

    def run(self, x, k):
        experts, inner = self.router.shape[0], self.down.shape[1]
        scores = torch.softmax((x @ self.router.t()).float(), dim=-1)
        weights, ids = torch.topk(scores, k)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        flat = ids.flatten()
        order = flat.argsort()
        counts = torch.zeros(experts, dtype=torch.int32, device="cuda").scatter_add_(0, flat, torch.ones_like(flat, dtype=torch.int32))
        offsets = counts.cumsum(0).to(torch.int32)
        both = torch._grouped_mm(x[order // k], self.gate_up, offs=offsets)
        hidden = torch.nn.functional.silu(both[:, :inner]) * both[:, inner:]
        rows = torch._grouped_mm(hidden, self.down, offs=offsets)
        unsorted = torch.empty_like(rows)
        unsorted[order] = rows
        return torch.bmm(weights.to(torch.bfloat16)[:, None, :], unsorted.view(x.shape[0], k, -1))[:, 0]


def torch_times(hidden, inner, experts, k, counts, runs):
    layers = [Layer(hidden, inner, experts) for _ in range(layers_that_fit(hidden, inner, experts))]
    times = {}
    for tokens in counts:
        x = torch.randn(tokens, hidden, dtype=torch.bfloat16, device="cuda")
        outputs = [torch.empty_like(x) for _ in layers]

        def chain():
            for layer, output in zip(layers, outputs):
                output.copy_(layer.run(x, k))

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            chain()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            chain()
        each = []
        for _ in range(runs):
            for output in outputs:
                output.fill_(float("nan"))
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            each.append(1e3 * start.elapsed_time(end) / len(layers))
        if not all(bool(torch.isfinite(output).all()) for output in outputs):
            sys.exit(f"{tokens} tokens: PyTorch left an output that is not finite")
        times[tokens] = statistics.median(each)
        del graph, outputs, x
    count = len(layers)
    del layers
    torch.cuda.empty_cache()
    return times, count


def our_times(program, model, counts, runs):
    command = [program, "measure", "--op", "routed", "--model", model, "--type", "bf16", "--tokens", ",".join(map(str, counts)),
               "--context", "1", "--runs", str(runs), "--device", "cuda", "--json"]
    document = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return {result["tokens"]: result for result in document["results"]}, document


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", default="moe_layer_vs_torch.tsv")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--tokens", default="1,4,16,64,256,1024,4096")
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    counts = [int(text) for text in options.tokens.split(",")]
    lines = []
    device = ""
    for name in options.shapes.split(","):
        if name not in SHAPES:
            parser.error(f"--shapes: no shape named '{name}' (accepted: {', '.join(SHAPES)})")
        hidden, inner, experts, k, model = SHAPES[name]
        theirs, their_layers = torch_times(hidden, inner, experts, k, counts, options.runs)
        ours, document = our_times(options.program, model, counts, options.runs)
        device = f"{document['device']}, driver {document['driver']}, {document['read_gb_per_s']:.0f} GB/s read, PyTorch {torch.__version__}"
        for tokens in counts:
            result = ours[tokens]
            lines.append([name, str(tokens), f"{theirs[tokens]:.1f}", f"{result['microseconds']:.1f}",
                          f"{theirs[tokens] / result['microseconds']:.2f}", f"{100 * result['read_share']:.0f}",
                          f"{1e-6 * result['flops'] / result['microseconds']:.0f}", f"{their_layers}/{result['distinct_layers']}"])
            print("{:12} T={:<5} torch {:>8} us  ours {:>8} us  ratio {:>5}  {:>3} % of read, {:>4} TFLOP/s, layers {}".format(*lines[-1]), flush=True)
    with open(options.out, "w", encoding="ascii") as file:
        file.write(f"# {device}; microseconds of one MoE layer in bf16, the median of {options.runs}\n")
        file.write("shape\ttokens\ttorch_us\tours_us\tratio\tread_percent\ttflops\tlayers_torch/ours\n")
        file.writelines("\t".join(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()
