#!/usr/bin/env bash
# Workloads end to end on the embedded model: an agent's task, arrivals whose rate stays with the run, service levels.
# flow: timeout=600
source "$(dirname "$0")/support/flow.sh"
export XDG_CACHE_HOME=$PWD/cache

cat > agent.json <<'JSON'
{"name": "small_agent", "prompt_tokens": 64, "output_tokens": 4, "rounds": 3, "round_prompt_tokens": 16,
 "tool_gap_seconds": 0.5, "slo": {"metric": "task", "limit_ms": 600000}}
JSON
for prefix_cache in on off; do
  expect_exit 0 "$MOETUNE" measure --workload ./agent.json --set prefix_cache=$prefix_cache --budget 0.2s --json
  python3 - <<'PY' || fail "measure of an agent"
import json
document = json.load(open("out.txt"))
metrics = document["metrics"]
names = ["task_ms", "task_goodput_per_s", "ttft_ms", "tpot_ms"]
# A recording that changes the times is refused, and then the tax is not known, in words.
if "task_tax_ms is not known" not in open("err.txt").read(): names.append("task_tax_ms")
for name in names:
    assert "counted, not waited for" in metrics[name]["stopped"], (name, metrics.get(name))
assert metrics["task_ms"]["value"] > metrics["ttft_ms"]["value"], metrics
assert metrics["task_goodput_per_s"]["value"] > 0, metrics
assert "queue_ms" not in metrics, metrics
assert "20 ms of each 500 ms are played with every core busy" in document["conditions"]["pauses"], document["conditions"]
PY
done

# The rate of arrivals: found once, in every trial, and given back by the trials where its file is lost.
cat > load.json <<'JSON'
{"name": "small_load", "prompt_tokens": 16, "output_tokens": 4, "sequences": 4, "poisson_arrivals": true,
 "slo": {"metric": "tpot", "limit_ms": 600000}}
JSON
cat > space.json <<'JSON'
{"name": "loads", "parameters": [{"name": "max_sequences", "kind": "ordinal", "values": ["auto", 1, 2, 8, 9]},
                                 {"name": "prefix_cache", "kind": "categorical", "values": ["on", "off"]}]}
JSON
# By memory first, so that there is no final round to wait for.
tune() { "$MOETUNE" tune --workload ./load.json --space space.json --timing 0.1s --run run "$@"; }
expect_exit 0 tune --max-trials 2 --objective device_bytes,goodput_per_s
expect_in err.txt 'max_sequences: 9 where never more than 8 can run'
expect_in err.txt 'prefix_cache: off where no prompt begins'
expect_in out.txt "The workload's time: arrivals: idle time until the next one is counted"
kept=$(cat run/arrivals_per_s)
rm run/arrivals_per_s
expect_exit 0 tune --max-trials 3 --resume --objective device_bytes,goodput_per_s
[[ $(cat run/arrivals_per_s) == "$kept" ]] || fail "another rate of arrivals after --resume"
expect_in run/report.md "counted, not waited for"
python3 - <<'PY' || fail "the rate of arrivals is not that of the study"
import json
lines = [json.loads(line) for line in open("run/trials.jsonl")]
rates = {line["metrics"]["arrivals_per_s"]["value"] for line in lines if "arrivals_per_s" in line["metrics"]}
assert rates == {float(open("run/arrivals_per_s").read())}, rates
trials = [line for line in lines if "final_round" not in line]
assert all("queue_ms" in t["metrics"] and "goodput_per_s" in t["metrics"] for t in trials), trials
profile = json.load(open("run/profile.json"))
assert all("counted" in profile["evidence"][name]["stopped"] for name in ("goodput_per_s", "queue_ms", "ttft_ms")), profile
PY
expect_exit 0 "$MOETUNE" validate run

# A default of which a run cannot end in time is given up at its first steps, and the search goes on with what moves the fewest bytes.
expect_exit 4 "$MOETUNE" tune --workload ./load.json --space space.json --run slow --max-trials 1 --inject-delay 500ms --trial-limit 20s
expect_in err.txt 'the default configuration cannot be measured: next come those that move the fewest bytes per step'
expect_in out.txt 'No recommendation: no trial could be measured \(1 timed_out\). The first one: one$'
expect_in slow/trials.jsonl '"reason":"one run of the workload .* and may take 10 s: it is run several times within a third of --budget'
expect_exit 0 "$MOETUNE" validate slow

# A level that is asked for and that nothing keeps: no recommendation, the nearest one named.
expect_exit 4 "$MOETUNE" tune --space quick --timing 0.1s --max-trials 1 --run level --slo ttft=0.000001ms
expect_in out.txt "No recommendation: none of 1 acceptable configurations keeps the service level"
[[ ! -e level/profile.json ]] || fail "a profile although nothing keeps the level"

# A workload that is cut to the model's context says so.
expect_exit 0 "$MOETUNE" measure --workload long_context --budget 0.1s
expect_in out.txt "workload long_context cut to the model's context of [0-9]+ tokens: prompt [0-9]+ instead of 8192"

# Interrupted or done, logits leaves no half file.
seq -s, 1 200 > tokens.txt
"$MOETUNE" logits --tokens-file tokens.txt --out logits.npy >/dev/null 2>&1 &
writer=$!
until [[ -e logits.npy.partial || -e logits.npy ]] || ! kill -0 $writer 2>/dev/null; do :; done
kill -INT $writer 2>/dev/null || true
wait $writer || [[ $? == 130 ]] || fail "logits ended with neither 0 nor 130"
[[ ! -e logits.npy.partial ]] || fail "a half file is left"
