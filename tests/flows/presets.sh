#!/usr/bin/env bash
# Presets: listed with their sizes, measured and tuned with generated weights, labelled synthetic wherever they appear.
# flow: serial
source "$(dirname "$0")/support/flow.sh"
export XDG_CACHE_HOME=$PWD/cache

expect_exit 0 "$MOETUNE" list models
expect_in out.txt '^deepseek-v3 .*61 +256 +8 +fp8'
expect_in out.txt '^gpt-oss-20b: synthetic weights; routing fitted to published statistics;'
expect_exit 0 "$MOETUNE" list models --json
python3 - <<'PY' || fail "list models --json does not say what the presets are"
import json
models = {m["name"]: m for m in json.load(open("out.txt"))}
for name in ("mixtral-8x7b", "qwen3-30b-a3b", "olmoe-1b-7b", "deepseek-v2-lite", "deepseek-v3", "deepseek-v4-flash",
             "deepseek-v4-pro", "gpt-oss-20b", "gpt-oss-120b", "hypothetical-v4", "llama-3-8b"):
    model = models[name]
    assert model["synthetic_weights"] and "https://" in model["source"], model
    if model["experts"]:
        assert 2.5 < model["bytes"]["bf16"]["total"] / model["bytes"]["int4"]["total"] < 4, model
# 46.7 and 12.9 billion parameters of two bytes.
mixtral = models["mixtral-8x7b"]["bytes"]["bf16"]
assert abs(mixtral["total"] / 93.4e9 - 1) < 0.01 and abs(mixtral["per_token"] / 25.5e9 - 1) < 0.01, mixtral
# What one token reads, against the floors that were computed by hand from the published shapes.
for name, bf16, int4 in (("mixtral-8x7b", 25.5, 8.76), ("qwen3-30b-a3b", 6.08, 3.39)):
    found = models[name]["bytes"]
    assert abs(found["bf16"]["per_token"] / bf16 / 1e9 - 1) < 0.01, (name, found)
    assert abs(found["int4"]["per_token"] / int4 / 1e9 - 1) < 0.01, (name, found)
assert not models["tiny-moe"]["synthetic_weights"]
PY

# One configuration of two real layers: no accuracy, its stand-ins, and the label.
small="vocabulary=512,context=256"
expect_exit 0 "$MOETUNE" measure --model "qwen3-30b-a3b:layers=2,experts=8,$small" --workload chat --budget 0.3s --json
expect_in err.txt 'synthetic weights have no known accuracy'
python3 - <<'PY' || fail "measure does not label synthetic weights"
import json
trial = json.load(open("out.txt"))
assert trial["outcome"] == "ok" and trial["synthetic_weights"] and trial["model_note"].startswith("synthetic weights"), trial
assert trial["model"] == "qwen3-30b-a3b:layers=2,experts=8,vocabulary=512,context=256", trial["model"]
metrics = trial["metrics"]
for unknown in ("kl_mean", "kl_p99", "top1_agreement", "perplexity_ratio", "route_flip_rate"):
    assert metrics[unknown] is None, metrics[unknown]
assert metrics["router_mass"]["value"] == 1 and metrics["output_snr_db"]["value"] > 100, metrics
assert metrics["tpot_ms"]["value"] > 0
PY
expect_exit 0 "$MOETUNE" measure --model "qwen3-30b-a3b:layers=2,experts=8,$small" --budget 0.3s --set expert_quant=int4 --set top_k=6
expect_in out.txt 'output_snr_db +[0-9]'
expect_in out.txt 'Accuracy: unknown, the weights are synthetic'
! grep -q kl_mean out.txt || fail "a KL of synthetic weights"

# Other types, attention and routing; a dense model; a folded one.
for model in "deepseek-v3:layers=2,dense_layers=1,experts=16,hidden=256,inner=128,dense_inner=256,heads=4,$small" \
             "deepseek-v4-flash:layers=2,experts=8,hidden=256,inner=128,heads=4,$small" \
             "gpt-oss-20b:layers=2,experts=8,hidden=256,inner=128,$small" \
             "llama-3-8b:layers=2,hidden=256,inner=256,$small"; do
  expect_exit 0 "$MOETUNE" measure --model "$model" --budget 0.3s
  expect_in out.txt "^${model%%:*}.*synthetic weights"
  expect_in out.txt 'tpot_ms'
done
expect_in err.txt 'no known accuracy'
expect_exit 0 "$MOETUNE" measure --model "qwen3-30b-a3b:layers=4,experts=8,hidden=256,inner=128,fold=2,$small" --budget 0.3s
expect_in out.txt 'folded x2'
expect_in err.txt 'times flatter'  # so small that a cache holds all of it

# Too large for the memory given, and too small to be folded honestly: said, and then what is missing.
expect_exit 4 "$MOETUNE" measure --model "qwen3-30b-a3b:layers=8,hidden=512,inner=256,$small" --device-memory 64MiB --set expert_cache=1
expect_in err.txt 'missing'

# A short search: a front, a profile that says synthetic, and the model's own top-k and types recommended.
expect_exit 0 "$MOETUNE" tune --model "olmoe-1b-7b:layers=2,hidden=256,inner=128,$small" --space quick --max-trials 5 --timing 0.2s --run run
tr '\n' ' ' <out.txt >unwrapped.txt  # where a line breaks depends on the figures before it
expect_in unwrapped.txt 'synthetic weights'
expect_in out.txt '^Launch: '
expect_exit 0 "$MOETUNE" validate run
expect_in run/report.md 'synthetic weights'
python3 - <<'PY' || fail "the run of a synthetic model is not what the contract asks for"
import json
profile = json.load(open("run/profile.json"))
assert profile["synthetic_weights"] is True, profile
assert profile["configuration"]["top_k"] == 8 and profile["configuration"]["expert_quant"] == "checkpoint", profile
request = json.load(open("run/request.json"))
assert request["objectives"] == ["tpot_ms", "output_snr_db", "device_bytes"], request
assert "synthetic weights" in request["conditions"]["model_note"], request
records = [json.loads(line) for line in open("run/trials.jsonl")]
assert all(r["outcome"] == "ok" for r in records), records
trials = [r for r in records if "final_round" not in r]
assert len(trials) == 5, trials
assert all("kl_mean" not in t["metrics"] and "output_snr_db" in t["metrics"] for t in trials)
points = json.load(open("run/front.json"))["points"]
for point in points:
    own = point["configuration"]["top_k"] == 8 and point["configuration"]["expert_quant"] == "checkpoint"
    assert own != ("speed only, accuracy unknown" in point["role"]), point
assert any("recommended" in point["role"] for point in points), points
PY

# Bad input.
refused() {
  local pattern=$1
  shift
  expect_exit 2 "$MOETUNE" "$@"
  expect_in err.txt "$pattern"
}
refused "mixtral-8x7b: \"layer\" cannot be overridden.*accepted: layers, experts" measure --model mixtral-8x7b:layer=4
refused "num_experts_per_tok: 9, but num_local_experts is 8" measure --model mixtral-8x7b:top_k=9
refused "mixtral-8x7c.*no directory.*mixtral-8x7b" measure --model mixtral-8x7c
refused "'kl_mean' is not known.*synthetic weights.*output_snr_db" tune --model "olmoe-1b-7b:layers=2,hidden=256,inner=128,$small" --objective tpot_ms,kl_mean --run other
refused "llama-3-8b.*no experts" tune --model "llama-3-8b:layers=2,hidden=256,inner=256,$small" --run other
