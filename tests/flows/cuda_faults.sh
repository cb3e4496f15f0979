#!/usr/bin/env bash
# Faults of a GPU, as faults.sh has those of a process: a kernel that reads where nothing is, memory that no card has, a card that
# is filled, a wait that takes a minute, pinning that is refused, a death in the middle of a copy; and an engine whose pinned experts
# take more of the host than a worker may. After each of them a trial on the same card runs. Without a GPU this is skipped.
# flow: serial
source "$(dirname "$0")/support/flow.sh"

cat > space.json <<'JSON'
{"name": "top_k_alone", "parameters": [{"name": "top_k", "kind": "ordinal", "values": [1, 2]}]}
JSON
probe=$("$MOETUNE" gpu-probe) || fail "the probe fails"
[[ $probe == *'"gpu"'* ]] || skip "no GPU can be used here ($probe): the faults of a GPU were not tested"
ways=(device_fault device_out_of_memory device_filled device_pinning_refused device_killed_in_copy device_hang)
for way in "${ways[@]}"; do # a study each, so that it is this fault that the next trial on the card follows
  # What works on the card is made so slow that it is no finalist: the passes of the final round need no card then.
  faults='{"fail": [{"when": {"top_k": 1}, "how": "'$way'"}, {"when": {"top_k": 2}, "how": "device_works"}],
           "slower": [{"when": {"top_k": 2}, "factor": 9}]}'
  expect_exit 0 "$MOETUNE" tune --target synthetic --quiet --run "$way" --space ./space.json --searcher exhaustive --synthetic "$faults" \
    --trial-limit 10s --gate none
  expect_exit 0 "$MOETUNE" validate "$way"
done
python3 - "${ways[@]}" <<'PY' || fail "the outcomes of the GPU's faults are not named"
import json, re, sys
expected = {"device_fault": ("crashed", "illegal"), "device_out_of_memory": ("out_of_memory", ""), "device_filled": ("out_of_memory", ""),
            "device_pinning_refused": ("out_of_memory", ""), "device_killed_in_copy": ("crashed", "SIGKILL"),
            # a launch waits too, once the queue of launches is full
            "device_hang": ("timed_out", "in flight: (waiting for the device|ReadMemory)")}
for way in sys.argv[1:]:
    trials = [json.loads(line) for line in open(f"{way}/trials.jsonl")]
    search = [trial for trial in trials if "final_round" not in trial and "recording" not in trial]
    assert [trial["configuration"]["top_k"] for trial in search] == [8, 1, 2], (way, search)  # the default comes first
    outcome, words = expected[way]
    assert search[1]["outcome"] == outcome and re.search(words, search[1].get("reason", "")), (way, search[1])
    assert search[2]["outcome"] == "ok", (way, "the next trial on the card", search)
PY

# Two layers of Qwen3 pin 2.4 GB where a share of the experts is cached, and nothing where all are resident.
cat > pins.json <<'JSON'
{"name": "pins", "parameters": [{"name": "expert_cache", "kind": "ordinal", "values": [0.5, 1]}]}
JSON
expect_exit 0 "$MOETUNE" tune --device cuda --model qwen3-30b-a3b:layers=2 --quiet --run pins --space ./pins.json --searcher exhaustive \
  --timing 0.2s --host-memory-limit 2GiB --gate none --budget 20s
python3 - <<'PY' || fail "a host without room for pinned experts is not recorded, or ends the study"
import json
trials = [json.loads(line) for line in open("pins/trials.jsonl")]
search = [trial for trial in trials if "final_round" not in trial and "recording" not in trial]
assert len(search) == 2, search
for trial in search:
    wanted = "ok" if trial["configuration"]["expert_cache"] == 1 else "out_of_memory"
    assert trial["outcome"] == wanted, trial
PY
