#!/usr/bin/env python3
"""Writes the figures of reports/decisions/0015-routing-traces.md from reports/cpu/trace-tiny-moe.json, between its two
markers. With --check it changes nothing: exit 1 where they differ."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "reports/decisions/0015-routing-traces.md"
BEGIN, END = "<!-- tables begin: reports/cpu/trace_tables.py writes this part -->\n", "<!-- tables end -->\n"


def percent(share):
    return f"{100 * share:.1f} %"


def row(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def table(heading, rows):
    return row(heading) + row(["---"] * len(heading)) + "".join(map(row, rows)) + "\n"


def tables(data):
    statistics, replayed = data["statistics"], data["replayed"]
    text = f"{data['text']}; {data['trace']['decode_tokens']} decoded tokens. "
    text += f"Same expert at the next token {percent(statistics['same_as_last_token']['mean'])} (by chance {percent(statistics['by_chance'])}), "
    text += f"next layer foreseen by its gate {percent(statistics['next_layer_recall']['mean'])}, "
    text += f"prompt and answer {percent(statistics['prompt_and_answer'])}, "
    text += f"router mass of the first 4 of 8 experts {percent(statistics['router_mass_of_first'][3])}.\n\nHit rates, replayed:\n\n"
    text += table(["slots", "lru", "layer_lru", "lfu", "pinned", "static, with hindsight"],
                  [[point["slots"]] + [percent(point[name]) for name in ("lru", "layer_lru", "lfu", "pinned", "static")] for point in replayed["policies"][::2]])
    text += "Prefetch beside layer_lru, replayed; bytes per decoded token of the judged half:\n\n"
    tokens = data["trace"]["decode_tokens"] / 2
    text += table(["predictor", "cache", "recall", "hit", "fetched ahead", "in vain", "memory"],
                  [[score["predictor"], percent(score["cache_share"]), percent(score["recall"]), percent(score["hit"]),
                    f"{score['bytes_ahead'] / tokens / 1024:.0f} KiB", f"{score['bytes_in_vain'] / tokens / 1024:.0f} KiB",
                    f"{score['memory_bytes'] / 1024:.0f} KiB"] for score in replayed["prefetch"]])
    text += "An lru cache, predicted from the trace and measured:\n\n"
    text += table(["slots", "hit, predicted", "hit, measured", "step, predicted", "step, measured"],
                  [[size["slots"], f"{100 * size['hit']['predicted']:.2f} %", f"{100 * size['hit']['measured']:.2f} %",
                    f"{size['step_ms']['predicted']:.3f} ms", f"{size['step_ms']['measured']:.3f} ms"] for size in data["checked"]["sizes"]])
    text += "Groups of four experts that are chosen together, replayed:\n\n"
    text += table(["cache", "hit", "hit of layer_lru", "share of loads in vain"],
                  [[percent(score["cache_share"]), percent(score["hit"]), percent(score["layer_lru_hit"]), percent(score["share_in_vain"])]
                   for score in replayed["grouped_cache"]])
    sets = replayed["hot_sets"]
    text += f"Sets of {percent(sets['set_share'])} of the experts, share of a text's choices that they hold, replayed:\n\n"
    text += table(["text", "its own set", "set of all texts", "sets of other texts"],
                  [[kind, percent(hit["own"]), percent(hit["of_all_kinds"]), percent(hit["of_other_kinds"])] for kind, hit in sets["hit_of_sets"].items()])
    return text


def main():
    document = DOCUMENT.read_text()
    before, rest = document.split(BEGIN)
    after = rest.split(END)[1]
    written = before + BEGIN + tables(json.loads((ROOT / "reports/cpu/trace-tiny-moe.json").read_text())) + END + after
    if sys.argv[1:] == ["--check"]:
        if written != document:
            sys.exit(f"{DOCUMENT} differs from its data: python3 reports/cpu/trace_tables.py")
    else:
        DOCUMENT.write_text(written)


if __name__ == "__main__":
    main()
