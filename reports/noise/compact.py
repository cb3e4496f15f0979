#!/usr/bin/env python3
"""Joins files of `moetune measure --samples-out` that measured the same, and keeps less of them.

usage: compact.py [--tokens N] FILE... > JOINED

Of the first N processes (3) every token's time is kept, of the others each run's mean. Files are joined in the order of the time
at which their first process began. Another model, workload, configuration or machine is refused.
"""

import argparse
import json
import sys


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def what_was_measured(header):
    hardware = header["hardware"]  # its measured rates differ a little from run to run
    names = {name: hardware.get(name) for name in ("device", "cpu", "gpu", "cpu_name", "gpu_name")}
    return names, [header[name] for name in ("model_hash", "workload", "configuration")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=3, metavar="N")
    parser.add_argument("files", nargs="+", metavar="FILE")
    arguments = parser.parse_args()

    recordings = sorted((lines_of(path) for path in arguments.files), key=lambda lines: lines[1]["started"])
    header = recordings[0][0]
    for recording in recordings:
        if what_was_measured(recording[0]) != what_was_measured(header):
            sys.exit("compact.py: the headers differ: different models, machines or configurations cannot be joined")
    header["recordings"] = len(recordings)
    print(json.dumps(header, separators=(",", ":"), sort_keys=True))
    processes = 0
    for recording in recordings:
        for line in recording[1:]:
            processes += "process" in line
            if processes > arguments.tokens:
                line.pop("token_ms", None)
            print(json.dumps(line, separators=(",", ":"), sort_keys=True))


if __name__ == "__main__":
    main()
