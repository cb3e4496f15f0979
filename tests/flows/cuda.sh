#!/usr/bin/env bash
# The commands on a GPU: front, profile, fingerprint; measure; logits with the same experts as on the CPU. The tuner's own
# process never opens the driver. Without a GPU or without GPU code: what is said then, and that the rest was not tested.
# flow: serial
source "$(dirname "$0")/support/flow.sh"
export XDG_CACHE_HOME=$PWD/cache

probe=$("$MOETUNE" gpu-probe) || fail "the probe fails"
python3 -c 'import json, sys; answer = json.loads(sys.argv[1]); assert ("gpu" in answer) != ("problem" in answer), answer' "$probe" ||
  fail "the probe's answer is not one line of JSON: $probe"

if [[ $probe != *'"gpu"'* ]]; then
  for command in "tune --max-trials 1" "measure" "tax" "logits --tokens 1 --out a.npy"; do
    # shellcheck disable=SC2086
    expect_exit 2 "$MOETUNE" $command --device cuda
    expect_in err.txt "--device: 'cuda': .+ \(accepted: auto, cpu\)"
  done
  expect_exit 0 "$MOETUNE" logits --tokens 1,2 --device auto --out a.npy
  skip "no GPU can be used here ($probe): the commands were not tested on one"
fi

# A short search; while it runs, its own process has no CUDA in it.
"$MOETUNE" tune --device cuda --run run --max-trials 6 --timing 0.3s >out.txt 2>err.txt </dev/null &
tuner=$!
until [[ -s run/trials.jsonl ]]; do kill -0 $tuner 2>/dev/null || { cat err.txt >&2; fail "the search ended without a trial"; }; done
# NVML, which the process does ask, looks into the driver's library too; a context needs this device.
! ls -l "/proc/$tuner/fd" | grep -q nvidia-uvm || { kill $tuner; fail "the tuner's own process has opened the GPU"; }
wait $tuner || { tail -n 20 out.txt err.txt >&2; fail "the search failed"; }
expect_in err.txt '^cuda: .+ x[0-9]+, compute capability '
expect_in err.txt 'left out on a GPU by this build: prefetch with miss=cpu, tensor_parallel above 1'
expect_in out.txt '^Launch: .*router=gpu'
expect_exit 0 "$MOETUNE" validate run
python3 - "$probe" <<'PY' || fail "the run does not say what it should"
import json, sys
gpu = json.loads(sys.argv[1])["gpu"]
hardware = json.load(open("run/hardware.json"))
assert hardware["device"] == gpu["name"] and hardware["gpu_count"] == gpu["count"], hardware
assert hardware["compute_capability"] == gpu["compute_capability"] and hardware["multiprocessors"] == gpu["multiprocessors"], hardware
assert 0.8 < hardware["memory_gb_per_s"] / gpu["read_gb_per_s"] < 1.25, (hardware, gpu)
assert hardware["link_gb_per_s"] > 1 and hardware["driver"], hardware
request = json.load(open("run/request.json"))
assert request["conditions"]["device"] == "cuda", request
trials = [json.loads(line) for line in open("run/trials.jsonl")]
trials = [trial for trial in trials if "final_round" not in trial and "recording" not in trial]
assert len(trials) == 6 and all(trial["outcome"] == "ok" for trial in trials), trials
first = trials[0]
assert first["configuration"]["router"] == "gpu" and first["configuration"]["expert_cache"] == 1, first
assert first["metrics"]["kl_mean"]["value"] < 1e-3, first["metrics"]["kl_mean"]
profile = json.load(open("run/profile.json"))
assert profile["hardware"]["device"] == gpu["name"], profile["hardware"]
PY

# The account of a token: parts add up, and every kernel belongs to an op. Without CUPTI it says where it was looked for.
code=0
"$MOETUNE" tax --device cuda --budget 1s --timeline timeline.json --json >out.txt 2>err.txt || code=$?
if [[ $code == 2 ]]; then
  expect_in err.txt 'libcupti\.so'
  echo "no CUPTI: the tax of a GPU was not tested" >&2
else
  [[ $code == 0 || $code == 5 ]] || { cat err.txt >&2; fail "tax --device cuda: exit code $code"; }
  python3 - <<'PY' || fail "tax --device cuda --json is not what it should be"
import json
document = json.load(open("out.txt"))
assert document["recording"]["unlabelled_kernels"] == 0, document["recording"]
for one in (document["decode"], document["prefill"]):
    if "refused" not in one:
        total = sum(one["exposed_ms"].values()) + one["unexplained_ms"]
        assert abs(total - one["token_ms"]) < 1e-6 * one["token_ms"], (total, one["token_ms"])
        assert one["rows_ms"]["router"] > 0 and one["rows_ms"]["gate_up"] > 0, one["rows_ms"]
PY
  expect_exit 0 "$MOETUNE" tax --import timeline.json
  expect_in out.txt 'Every kernel is known by its name'
fi

# Energy per token where the GPU counts it: ten times a second, and a process needs six of its steps.
expect_exit 0 "$MOETUNE" measure --device cuda --budget 25s --json
python3 - "$probe" <<'PY' || fail "measure --json is not what it should be"
import json, sys
gpu = json.loads(sys.argv[1])["gpu"]
metrics = json.load(open("out.txt"))["metrics"]
if gpu["power_problem"] == "":
    joules = metrics["joules_per_token"]
    watts = joules["value"] * metrics["tokens_per_s"]["value"]
    assert 0.2 * gpu["idle_watts"] < watts < 2000, (watts, gpu["idle_watts"])
    assert joules["low"] <= joules["value"] <= joules["high"], joules
else:
    assert "joules_per_token" not in metrics, metrics
PY

# What a GPU does not do in this build is refused by name; too little memory is told like on a CPU.
expect_exit 2 "$MOETUNE" measure --device cuda --set tensor_parallel=2
expect_exit 4 "$MOETUNE" measure --device cuda --device-memory 8MiB
expect_in err.txt 'MiB missing'

# Logits: with the same experts the GPU is the CPU but for bf16.
tokens=$(seq -s, 32 95)
expect_exit 0 "$MOETUNE" logits --device cpu --tokens "$tokens" --out cpu.npy --routing-out routing.safetensors
expect_exit 0 "$MOETUNE" logits --device cuda --tokens "$tokens" --out cuda.npy --routing-from routing.safetensors
expect_exit 0 "$MOETUNE" logits --device cuda --tokens "$tokens" --out watched.npy --routing-from routing.safetensors --routing-out again.safetensors
expect_exit 0 "$MOETUNE" logits --device cuda --feed prefill --tokens "$tokens" --out prefill.npy --routing-from routing.safetensors
python3 - <<'PY' || fail "logits of GPU and CPU differ"
import ast, array, json, math, struct

def npy(path):
    data = open(path, "rb").read()
    length = struct.unpack("<H", data[8:10])[0]
    assert ast.literal_eval(data[10:10 + length].decode())["descr"] == "<f4"
    return array.array("f", data[10 + length:])

def expert_ids(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    begin, end = json.loads(data[8:8 + length])["expert_ids"]["data_offsets"]
    return data[8 + length + begin:8 + length + end]

cpu = npy("cpu.npy")
for path in ("cuda.npy", "watched.npy", "prefill.npy"):
    gpu = npy(path)
    assert len(gpu) == len(cpu)
    error = math.sqrt(sum((a - b) ** 2 for a, b in zip(gpu, cpu)) / sum(b * b for b in cpu))
    print(f"{path}: relative error norm {error:.2e}")
    assert error <= 1e-2, (path, error)
assert expert_ids("again.safetensors") == expert_ids("routing.safetensors"), "the forced experts are not those that ran"
PY
