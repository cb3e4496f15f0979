#!/usr/bin/env bash
# Faults of a GPU, as faults.sh has those of a process: a kernel that reads where nothing is, memory that no card has, a wait
# that takes a minute. Without a GPU this is skipped.
# flow: serial
source "$(dirname "$0")/support/flow.sh"

cat > space.json <<'JSON'
{"name": "top_k_alone", "parameters": [{"name": "top_k", "kind": "ordinal", "values": [1, 2, 3, 4, 5, 6, 7, 8]}]}
JSON
probe=$("$MOETUNE" gpu-probe) || fail "the probe fails"
[[ $probe == *'"gpu"'* ]] || skip "no GPU can be used here ($probe): the faults of a GPU were not tested"
faults='{"fail": [{"when": {"top_k": 1}, "how": "device_fault"}, {"when": {"top_k": 2}, "how": "device_out_of_memory"}, {"when": {"top_k": 3}, "how": "device_hang"}]}'
expect_exit 0 "$MOETUNE" tune --target synthetic --quiet --run device-faults --space ./space.json --searcher exhaustive --synthetic "$faults" \
  --trial-limit 10s --gate none
python3 - <<'PY' || fail "the outcomes of the GPU's faults are not named"
import json, re  # a launch waits too, once the queue of launches is full
trials = [json.loads(line) for line in open("device-faults/trials.jsonl")]
by_top_k = {trial["configuration"]["top_k"]: trial for trial in trials if "final_round" not in trial}
assert by_top_k[1]["outcome"] == "crashed" and "illegal" in by_top_k[1]["reason"], by_top_k[1]
assert by_top_k[2]["outcome"] == "out_of_memory", by_top_k[2]
assert by_top_k[3]["outcome"] == "timed_out" and re.search("in flight: (waiting for the device|ReadMemory)", by_top_k[3]["reason"]), by_top_k[3]
assert all(by_top_k[top_k]["outcome"] == "ok" for top_k in (4, 5, 6, 7, 8))
PY
