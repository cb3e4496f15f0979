#!/usr/bin/env python3
"""What it would change if a prompt could take only a part of a layer's slots once the cache has served decode steps.

moetune trace --no-check --out trace.safetensors; python3 reports/cpu/prompt_share.py trace.safetensors

Replays layer_lru (engine/slot_directory.h), slot for slot: the column of the whole share is what `moetune trace` prints.
"""
import array
import json
import pathlib
import struct
import sys

SHARES = (1.0, 0.75, 0.5, 0.25)  # of a layer's slots, in a prompt's reach
SIZES = (0.383, 0.516, 0.656, 0.789, 0.93)  # of all experts


def tensors_of(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + length])
    for name in ("expert_ids", "steps", "decodes"):
        begin, end = head[name]["data_offsets"]
        values = array.array({"I32": "i", "U8": "B"}[head[name]["dtype"]])
        values.frombytes(data[8 + length + begin:8 + length + end])
        yield head[name]["shape"], values


class Layer:
    def __init__(self, experts, slots, k, reach):
        self.inside, self.where, self.last, self.clock = [-1] * slots, {}, [0] * experts, 0
        self.of_prompt = range(slots if reach >= 1 else max(k, int(slots * reach)))
        self.has_decoded = False

    def step(self, asked, decodes):
        """asked: distinct experts in order of appearance. Returns how many of them are there."""
        for expert in asked:
            self.clock += 1
            self.last[expert] = self.clock
        hits = sum(expert in self.where for expert in asked)
        usable = self.of_prompt if self.has_decoded and not decodes else range(len(self.inside))
        while asked:  # wave by wave
            held = {self.where[expert] for expert in asked if expert in self.where}
            left = []
            for expert in asked:
                if expert in self.where:
                    continue
                free = next((slot for slot in usable if self.inside[slot] < 0), None)
                slot = free if free is not None else min((slot for slot in usable if slot not in held),
                                                         key=lambda slot: self.last[self.inside[slot]], default=None)
                if slot is None:
                    left.append(expert)
                    continue
                self.where.pop(self.inside[slot], None)
                self.inside[slot], self.where[expert] = expert, slot
                held.add(slot)
            asked = left
        self.has_decoded = self.has_decoded or decodes
        return hits


def hit_rate(ids, shape, steps, decodes, experts, total, reach):
    tokens, layers, k = shape
    hits = lookups = 0
    for layer in range(layers):
        cache = Layer(experts, total // layers + (layer < total % layers), k, reach)
        begin = 0
        while begin < tokens:
            end = next((token for token in range(begin, tokens) if steps[token] != steps[begin]), tokens)
            chosen = (ids[(token * layers + layer) * k + rank] for token in range(begin, end) for rank in range(k))
            asked = list(dict.fromkeys(expert for expert in chosen if expert >= 0))
            there = cache.step(asked, bool(decodes[begin]))
            if decodes[begin]:
                hits, lookups = hits + there, lookups + len(asked)
            begin = end
    return hits / lookups


if __name__ == "__main__":
    (shape, ids), (_, steps), (_, decodes) = tensors_of(sys.argv[1])
    experts = max(ids) + 1
    print("slots  " + "".join(f"{100 * share:7.0f} %" for share in SHARES))
    for size in SIZES:
        total = round(size * shape[1] * experts)
        print(f"{total:5}  " + "".join(f"{100 * hit_rate(ids, shape, steps, decodes, experts, total, share):7.1f} %" for share in SHARES))
