#!/usr/bin/env python3
"""Do the own parsers of vLLM, SGLang and KTransformers (its SGLang) take what `moetune export` prints?

Usage: parse_exported.py MOETUNE vllm|sglang|ktransformers FOLDER [COUNT]
FOLDER holds the project's Python package (an unpacked source archive or wheel from PyPI). Nothing is installed and nothing runs
but the parser: modules that are missing and named in $STUBS become empty ones. Every profile of the registry and COUNT profiles
with random knobs are exported, with and without --nearest, and parsed; vLLM's engine and SGLang's server are not started. A
development check: it needs torch and transformers. Prints versions and counts; exit 1 when a line is refused.
"""
import argparse
import importlib.abc
import importlib.machinery
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import types

KNOBS = {
    "top_k": ["native", "1", "4", "6"], "expert_cache": ["1", "0.25", "12GiB"], "tensor_parallel": ["1", "2", "4"],
    "expert_quant": ["checkpoint", "bf16", "fp8", "int8", "int4", "mxfp4"], "router": ["gpu", "cpu"], "cuda_graph": ["on", "off"],
    "expert_parallel": ["1", "2", "4"], "kv_type": ["auto", "f16", "bf16", "fp8", "int8"], "prefill_chunk": ["auto", "512", "2048"],
    "max_sequences": ["auto", "1", "64"], "prefix_cache": ["on", "off"], "cpu_threads": ["auto", "16"], "miss": ["dma", "pull", "cpu"],
}


class Empty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of $STUBS: any name in them is a class without content."""

    names = set(os.environ.get("STUBS", "").split())

    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.names else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = lambda name: type(name, (), {}) if not name.startswith("__") else (_ for _ in ()).throw(AttributeError(name))
        return module

    def exec_module(self, module):
        pass


def vllm_parser():
    import vllm.platforms
    from vllm.platforms.cpu import CpuPlatform
    vllm.platforms._current_platform = CpuPlatform()  # the parser asks for defaults of the device
    from vllm.entrypoints.common.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    return make_arg_parser(FlexibleArgumentParser())


def sglang_parser():
    from sglang.srt.server_args import ServerArgs
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return parser


def random_profile(rng, model_hash):
    configuration = {knob: rng.choice(values) for knob, values in KNOBS.items() if rng.random() < 0.7}
    bytes_on_device = {"value": rng.uniform(10e9, 70e9), "n": 1, "origin": "measured"}
    return {
        "schema": 1, "model": {"name": "qwen3-30b-a3b", "hash": model_hash}, "trial": 1, "configuration": configuration,
        "evidence": {"tpot_ms": {"value": 5.0, "n": 40, "origin": "measured"}, "device_bytes": bytes_on_device}, "reason": "", "gate": "int8",
        "objectives": ["tpot_ms"], "front": [], "synthetic_weights": True, "study": {"space": "", "space_hash": "", "searcher": "", "seed": 1},
        "workload": {"name": "throughput", "prompt_tokens": 512, "output_tokens": 128, "sequences": rng.choice([1, 32, 256])},
        "hardware": {"device": "NVIDIA H200", "gpu_count": 1, "device_bytes": 150000000000, "cpu_name": "", "cpu_cores": 16, "simd": "", "host_bytes": 0,
                     "memory_gb_per_s": 0, "link_gb_per_s": 0, "interconnect": "", "driver": "", "cuda": "", "os": "", "build": ""},
    }


def main():
    moetune, server, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 200
    sys.meta_path.append(Empty())
    sys.path.insert(0, str(folder))
    parser = {"vllm": vllm_parser, "sglang": sglang_parser, "ktransformers": sglang_parser}[server]()
    models = json.loads(subprocess.run([moetune, "list", "models", "--json"], capture_output=True, check=True).stdout)
    model_hash = next(model["model_hash"] for model in models if model["name"] == "qwen3-30b-a3b")
    rng = random.Random(20261130)
    registry = json.loads(subprocess.run([moetune, "list", "profiles", "--json"], capture_output=True, check=True).stdout)
    refused, flags = [], set()

    def takes(file, nearest):
        command = [moetune, "export", file, "--server", server, "--json", "--server-model", "Qwen/Qwen3-30B-A3B", "--kt-weights", "/kt",
                   "--kt-method", "AMXINT4", "--served-name", "a name"] + (["--nearest"] if nearest else [])
        words = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["arguments"]
        flags.update(word for word in words if word.startswith("--"))
        try:
            unknown = parser.parse_known_args(words)[1]
        except SystemExit:
            unknown = ["refused"]
        if unknown:
            refused.append((words, unknown))
        return not unknown

    own = [takes(profile["file"], nearest) for profile in registry for nearest in (False, True)]
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / "profile.json"
        drawn = []
        for i in range(count):
            file.write_text(json.dumps(random_profile(rng, model_hash)))
            drawn.append(takes(str(file), i % 2 == 1))
    for words, unknown in refused[:5]:
        print("REFUSED", unknown, words)
    known = {option for action in parser._actions for option in action.option_strings if option.startswith("--")}
    table = json.loads((pathlib.Path(__file__).parents[2] / "tuner/export/flags" / f"{server}.json").read_text())
    print(f"{server} from {folder.name}: {sum(own)} of {len(own)} lines of the registry's {len(registry)} profiles and {sum(drawn)} of {count} of "
          f"random ones parsed, {len(flags)} different flags: {' '.join(sorted(flags))}")
    print(f"flags of this version: {len(known)}; of them in the table: {len(known & set(table['flags']))}; only in the table: {len(set(table['flags']) - known)}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
