#!/usr/bin/env python3
"""Starts a real llama-server from the line that `moetune export` prints, and lets `moetune confirm` measure it.

Usage: llama_server.py MOETUNE LLAMA_SERVER [HIDDEN [BUDGET]]
Makes a Mixture-of-Experts GGUF with random weights (architecture llama, 8 experts, 2 of them per token), writes a profile for it,
exports it, starts the exported command and runs confirm; compares its TPOT with the server's own timing. Then the line of every
profile of the registry is started with that file, until the server says that it is ready. A development check: needs numpy and
gguf (PyPI). HIDDEN sets the size (default 2048: some 1.6 GB, tens of milliseconds per token on two cores), BUDGET the time that confirm
may take (default 40s).
"""
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import gguf
import numpy as np

LAYERS, EXPERTS, USED, WORDS = 8, 8, 2, 4096


def write_model(path, hidden):
    rng = np.random.default_rng(1)
    heads, inner = hidden // 64, hidden * 2
    words = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + [f"\u2581w{i}" for i in range(WORDS)]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * WORDS
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(4096)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(64)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * len(words))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    def add(name, *shape):
        weights = rng.standard_normal(shape, dtype=np.float32) / np.sqrt(shape[-1])
        writer.add_tensor(name, weights.astype(np.float16))

    add("token_embd.weight", len(words), hidden)
    head = rng.standard_normal((len(words), hidden), dtype=np.float32) / np.sqrt(hidden)
    head[: 3 + 256] = 0  # never the most likely: every token of the answer is a word, so that each comes as a piece of its own
    writer.add_tensor("output.weight", head.astype(np.float16))
    writer.add_tensor("output_norm.weight", np.ones(hidden, dtype=np.float32))
    for layer in range(LAYERS):
        name = f"blk.{layer}."
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{name}{norm}.weight", np.ones(hidden, dtype=np.float32))
        for matrix in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"{name}{matrix}.weight", hidden, hidden)
        writer.add_tensor(f"{name}ffn_gate_inp.weight", rng.standard_normal((EXPERTS, hidden), dtype=np.float32))
        add(f"{name}ffn_gate_exps.weight", EXPERTS, inner, hidden)
        add(f"{name}ffn_up_exps.weight", EXPERTS, inner, hidden)
        add(f"{name}ffn_down_exps.weight", EXPERTS, hidden, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def profile():
    return {
        "schema": 1, "model": {"name": "random-moe", "hash": ""}, "trial": 1,
        "configuration": {"kv_type": "f16", "prefix_cache": "off", "max_sequences": "1", "cpu_threads": "2"},
        "evidence": {"tpot_ms": {"value": 1.0, "n": 1, "origin": "predicted"}}, "reason": "", "gate": "none", "objectives": ["tpot_ms"], "front": [],
        "synthetic_weights": True, "study": {"space": "", "space_hash": "", "searcher": "", "seed": 1},
        "workload": {"name": "chat", "prompt_tokens": 64, "output_tokens": 64, "sequences": 1, "slo": {"metric": "tpot_p99", "limit_ms": 50}},
        "hardware": {"device": "cpu", "gpu_count": 0, "device_bytes": 0, "cpu_name": "", "cpu_cores": 2, "simd": "", "host_bytes": 0, "memory_gb_per_s": 0,
                     "link_gb_per_s": 0, "interconnect": "", "driver": "", "cuda": "", "os": "", "build": ""},
    }


class Server:
    """The command that export prints for `profile`, running on a port of its own until the block ends."""

    def __init__(self, moetune, server, profile, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [moetune, "export", profile, "--server", "llama.cpp", "--gguf", "model.gguf", "--served-name", "random moe"]
        known = subprocess.run([server, "--help"], capture_output=True, text=True).stdout
        if "--moe-cache-mib" not in known:  # a build from before b11480, which does not say its number
            command += ["--server-version", "b11434"]
        exported = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
        self.line = exported[exported.index("\nllama-server") + 1:]
        start = self.line.replace("llama-server", f"exec {server}", 1).rstrip("\n")
        (folder / "start.sh").write_text(f"{start} --port {self.port} --metrics --log-disable\n")
        self.folder = folder

    def __enter__(self):
        self.process = subprocess.Popen(["sh", "start.sh"], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def is_ready(self):
        for _ in range(600):
            if self.process.poll() is not None:
                print(f"llama-server ended with {self.process.returncode}")
                return False
            try:
                if urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).status == 200:
                    return True
            except OSError:
                time.sleep(0.5)
        print("llama-server did not become ready")
        return False

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def main():
    moetune, server = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
    hidden = int(sys.argv[3]) if len(sys.argv) > 3 else 2048
    budget = sys.argv[4] if len(sys.argv) > 4 else "40s"
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write_model(folder / "model.gguf", hidden)
        (folder / "profile.json").write_text(json.dumps(profile()))
        with Server(moetune, server, "profile.json", folder) as running:
            print(running.line)
            if not running.is_ready():
                return 1
            confirmed = subprocess.run([moetune, "confirm", "profile.json", "--url", f"http://127.0.0.1:{running.port}", "--budget", budget,
                                        "--json"], cwd=folder, capture_output=True, text=True)
        if confirmed.returncode not in (0, 3, 5):
            print(confirmed.stderr)
            return 1
        document = json.loads(confirmed.stdout)
        ours, theirs = document["metrics"]["tpot_ms"]["value"], document["server_tpot_ms"]
        print(f"confirm: exit code {confirmed.returncode}, model '{document['model']}', {document['verdict']}: {document['reason']}")
        print(f"TPOT {ours:.3f} ms by confirm, {theirs:.3f} ms by the server itself: {abs(ours - theirs):.3f} ms, {100 * abs(ours / theirs - 1):.2f} % apart")
        print(f"load: {document['load']}; {'; '.join(document['remarks'])}")
        version = subprocess.run([server, "--version"], capture_output=True, text=True)
        print((version.stdout + version.stderr).strip())
        good = abs(ours - theirs) <= max(0.3, 0.03 * theirs) and theirs >= 20
        print("agrees within 3 % or 0.3 ms at 20 ms or more per token" if good else "DOES NOT AGREE, or the model is too fast for the check")
        registry = json.loads(subprocess.run([moetune, "list", "profiles", "--json"], capture_output=True, check=True).stdout)
        for registered in registry:
            with Server(moetune, server, registered["file"], folder) as running:
                started = running.is_ready()
            print(f"{registered['name']}: {'started' if started else 'NOT STARTED'}")
            good = good and started
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
