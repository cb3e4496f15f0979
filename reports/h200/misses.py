#!/usr/bin/env python3
"""MISSES.md: what an expert costs that is not on the card, by the way it is handled, and whether a step takes what that predicts.

python3 reports/h200/misses.py           writes MISSES.md from the data
python3 reports/h200/misses.py --check   exit 1 when MISSES.md is not what the data says
python3 reports/h200/misses.py --of DIR  prints what the data in another folder says
python3 reports/h200/misses.py --compact FILE  what is kept of a `moetune trace --json`

Data, written by run_cache.sh: cache-miss.txt (cuda_cache_bench miss), trace-*.json and cache-*.txt (cuda_cache_size_bench), of which those that
begin with "# By a bench before" or "# Before" are of an older build: step times are then compared with what it predicted.
"""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEAD = ["shape", "type", "MB", "way", "layer_us", "missing_layer_us", "miss_us", "one_us", "cheaper"]
NAMES = {"qwen3": "Qwen3-30B-A3B", "v2lite": "DeepSeek-V2-Lite", "gptoss": "gpt-oss-120b", "mixtral": "Mixtral-8x7B", "v3": "DeepSeek-V3"}
CHOSEN = {"qwen3": 8, "v2lite": 6, "gptoss": 4, "mixtral": 2, "v3": 8}  # experts of a token
MOST_OFF_PERCENT = 10.0
MANY_HITS_PERCENT = 95.0
MOST_HIT_POINTS_OFF, MOST_STEP_PERCENT_OFF = 0.2, 5.0  # of what a trace predicts


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


class Size:
    """A line of cuda_cache_size_bench: one size of one cache."""

    def __init__(self, cells):
        self.miss, self.size = cells["miss"], cells["size"]
        self.ms = float(cells["ms"])
        self.hits = float(cells["hits"].rstrip("%"))
        self.off = None if cells["off by"] == "-" else float(cells["off by"].rstrip("%"))
        self.misses, self.layers = float(cells["misses"]), float(cells["layers"])
        self.expected = None if cells["expected"] == "-" else float(cells["expected"])

    def expect_copies_beside(self, costs):
        """Of cpu, in files of builds that left out the copy of one expert a layer beside: with it, as engine/miss_costs.h has it."""
        computed = 1e-3 * (self.layers * costs["cpu"]["layer"] + self.misses * costs["cpu"]["miss"])
        self.expected += max(0.0, 1e-3 * self.layers * costs["dma"]["miss"] - computed)
        self.off = 100 * (self.ms / self.expected - 1)


COSTS = re.compile(r"(\w+) +[\d.]+ us a layer \+ ([-\d.]+) a layer that misses \+ ([-\d.]+) a miss(, at least)?")


def sizes_in(path):
    """Lines of the table, and whether an older bench wrote it."""
    lines = path.read_text().splitlines()
    head, sizes, costs, has_beside = None, [], {}, False
    for line in lines:
        found = COSTS.match(line)
        if found:
            costs[found[1]] = {"layer": float(found[2]), "miss": float(found[3])}
            has_beside = has_beside or bool(found[4])
        elif line.startswith("miss "):
            head = re.split(r"\s{2,}", line.strip())
        elif head and line.split()[:1] and line.split()[0] in ("pull", "dma", "cpu"):
            sizes.append(Size(dict(zip(head, line.split()))))
            if sizes[-1].miss == "cpu" and sizes[-1].expected is not None and not has_beside:
                sizes[-1].expect_copies_beside(costs)
    return sizes, any(line.startswith(("# By a bench before", "# Before")) for line in lines)


def costs_in(path):
    """(shape, type) -> {way: cells}; empty where the file is of an older bench."""
    costs = {}
    lines = path.read_text().splitlines() if path.exists() else []
    if not lines or lines[0].split("\t") != HEAD:
        return costs
    for line in lines[1:]:
        cells = dict(zip(HEAD, line.split("\t")))
        costs.setdefault((cells["shape"], cells["type"]), {})[cells["way"]] = cells
    return costs


def cheaper_than(ways, way, other, most):
    """From how many missing experts on `way` costs a layer less: engine/miss_costs.h."""
    def us(name, missing):
        layer, once, each = (float(ways[name][key]) for key in ("layer_us", "missing_layer_us", "miss_us"))
        beside = float(ways["dma"]["miss_us"]) if name.startswith("cpu") else 0.0
        return layer + (max(beside, once + missing * each) if missing else 0.0)
    since = None
    for missing in range(most, -1, -1):
        if us(way, missing) >= us(other, missing):
            break
        since = missing
    return f"never than {other}" if since is None else f"than {other} from {since} of {most}"


def cost_rows(costs):
    threads = sorted({int(way.split(":")[1]) for ways in costs.values() for way in ways if ":" in way})
    head = ["model", "experts", "MB", "dma", "pull", *(f"cpu, {count}" for count in threads), "dma cheaper", "cpu cheaper"]

    def one_miss(ways, way):
        return f"{float(ways[way]['one_us']) - float(ways[way]['layer_us']):,.0f}" if way in ways else ""

    rows = []
    for (shape, kind), ways in costs.items():
        most = f"cpu:{threads[-1]}" if threads else ""
        rows.append([NAMES[shape], kind, f"{float(ways['dma']['MB']):.1f}", *(one_miss(ways, way) for way in ("dma", "pull")),
                     *(one_miss(ways, f"cpu:{count}") for count in threads), ways["dma"]["cheaper"] or "never",
                     ", ".join(cheaper_than(ways, most, other, CHOSEN[shape]) for other in ("dma", "pull")) if most in ways else ""])
    return table(head, rows)


def layer_words(costs):
    """What every layer pays, hit or miss: by ways, least to most over the models."""
    def span(way):
        values = [float(ways[way]["layer_us"]) for ways in costs.values() if way in ways]
        return f"{min(values):.1f} to {max(values):.1f}" if values else "?"
    return f"Every layer pays {span('dma')} us for a question (dma), {span('pull')} us for a lookup (pull), whether anything is missing or not."


def step_rows(folder):
    for name in ("qwen3", "v3", "v2lite", "mixtral", "gptoss"):
        path = folder / f"cache-{name}.txt"
        if not path.exists():
            continue
        sizes, is_old = sizes_in(path)
        for miss in ("pull", "dma", "cpu"):
            off = [size.off for size in sizes if size.miss == miss and size.off is not None]
            if off:
                worst = max(off, key=abs)
                hits = [size.hits for size in sizes if size.miss == miss]
                yield [NAMES[name], miss, str(len(off)), f"{min(hits):.1f} to {max(hits):.1f} %", f"{worst:+.1f} %",
                       "yes" if abs(worst) <= MOST_OFF_PERCENT else "no", "an older" if is_old else "this one"]


def race_rows(folder):
    for name in ("qwen3", "v2lite"):
        path = folder / f"cache-{name}.txt"
        sizes = sizes_in(path)[0] if path.exists() else []
        for pull in sizes:
            dma = next((size for size in sizes if size.miss == "dma" and size.size == pull.size), None)
            if pull.miss == "pull" and dma and pull.hits >= MANY_HITS_PERCENT:
                yield [NAMES[name], pull.size, f"{pull.hits:.1f} %", f"{pull.ms:.3f}", f"{dma.ms:.3f}", "pull" if pull.ms < dma.ms else "dma"]


def trace_rows(folder):
    for path in sorted(folder.glob("trace-*.json")):
        document = json.loads(path.read_text())
        for size in document["checked"]["sizes"]:
            hit, step = size["hit"], size["step_ms"]
            points, percent = 100 * (hit["predicted"] - hit["measured"]), 100 * (step["predicted"] / step["measured"] - 1)
            holds = abs(points) <= MOST_HIT_POINTS_OFF and abs(percent) <= MOST_STEP_PERCENT_OFF
            yield [document["model"], str(size["slots"]), f"{100 * hit['predicted']:.2f} %", f"{100 * hit['measured']:.2f} %",
                   f"{step['predicted']:.3f}", f"{step['measured']:.3f}", f"{percent:+.1f} %", "yes" if holds else "no"]


def compact(path):
    document = json.loads(pathlib.Path(path).read_text())
    return json.dumps({key: document[key] for key in ("model", "text", "trace", "checked")}, indent=1)


def text_of(folder):
    lines = ["# What a missing expert costs", "",
             "One H200, PCIe 5. A step over an expert cache is predicted to take the resident step + layers x a + layers that miss x b +",
             "misses x c (engine/miss_costs.h, decision 0019); a, b and c are measured one by one, in the shape in which the engine pays. With",
             "miss=cpu the last two are the copy of one expert for each layer that misses, where that is more.",
             "Written by `misses.py` from the files beside it, which `run_cache.sh` measures. Weights are generated.", "",
             "## One missing expert, by the way it is handled", ""]
    costs = costs_in(folder / "cache-miss.txt")
    if costs:
        lines += ["Microseconds that a layer takes longer for one missing expert; cpu: by threads of the processor, on a core each. The last two",
                  "columns: from how many missing experts of a token's choice on that way costs a layer less, with the most threads.",
                  layer_words(costs), "While the processor computes, one expert of the layer is copied for later steps: a layer that misses takes as long at least",
                  "(the copy is that of dma), which the last column takes into account.", "", *cost_rows(costs)]
    else:
        lines += ["Not measured with this build: cache-miss.txt is of one whose processor computed fp8 and mxfp4 experts one number at a time."]
    lines += ["", "## Steps against the prediction", "",
              "Means over tokens, one sequence; the farthest that any of the sizes is off.", "",
              *table(["model", "miss", "sizes", "hits", "off by", f"within {MOST_OFF_PERCENT:.0f} %", "build"], step_rows(folder)), "",
              f"## pull against dma at {MANY_HITS_PERCENT:.0f} % hits and more", "",
              *table(["model", "share of the experts in slots", "hits", "pull, ms a token", "dma, ms", "faster"], race_rows(folder)), "",
              "## Sizes of an lru cache that `trace` predicts, and then measures", ""]
    checked = list(trace_rows(folder))
    holds = f"within {MOST_HIT_POINTS_OFF} points and {MOST_STEP_PERCENT_OFF:.0f} %"
    lines += [*table(["model", "slots", "hits, predicted", "measured", "step, predicted, ms", "measured", "off by", holds], checked)] if checked else ["Not measured on this card."]
    lines += [""]
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--of"]:
        print(text_of(pathlib.Path(sys.argv[2])))
        sys.exit()
    if sys.argv[1:2] == ["--compact"]:
        print(compact(sys.argv[2]))
        sys.exit()
    target = HERE / "MISSES.md"
    text = text_of(HERE)
    if "--check" in sys.argv[1:]:
        if not target.exists() or target.read_text() != text:
            sys.exit(f"{target.name} is not what the data beside it says: run python3 reports/h200/misses.py")
    else:
        target.write_text(text)
