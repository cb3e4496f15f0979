#!/usr/bin/env bash
# A study survives what its workers do: it ends with exit 0, names every outcome and loses or doubles no trial. Faults
# of a GPU: cuda_faults.sh; a full disk: tune_synthetic.sh; a jump of the clock: tests/tuner/trial_runner_test.cpp.
source "$(dirname "$0")/support/flow.sh"

# One search over the synthetic target in which seven kinds of configuration fail, each in its own way.
faults='{"fail": [{"when": {"top_k": 1}, "how": "crash"}, {"when": {"top_k": 2}, "how": "kill"}, {"when": {"top_k": 3}, "how": "garbage"},
         {"when": {"top_k": 4}, "how": "hang"}, {"when": {"top_k": 5}, "how": "fill_memory"}, {"when": {"top_k": 6}, "how": "out_of_memory"},
         {"when": {"top_k": 7}, "how": "wrong_output"}]}'
cat > space.json <<'JSON'
{"name": "top_k_alone", "parameters": [{"name": "top_k", "kind": "ordinal", "values": [1, 2, 3, 4, 5, 6, 7, 8]}]}
JSON
expect_exit 0 "$MOETUNE" tune --target synthetic --quiet --run faults --space ./space.json --searcher exhaustive --synthetic "$faults" \
  --trial-limit 2s --host-memory-limit 400MiB --gate none
python3 - <<'PY' || fail "the outcomes are not named"
import json
trials = [json.loads(line) for line in open("faults/trials.jsonl")]
search = [trial for trial in trials if "final_round" not in trial]
assert [trial["trial"] for trial in search] == list(range(8)), "a trial is lost or doubled"
assert len({trial["configuration"]["top_k"] for trial in search}) == 8
by_top_k = {trial["configuration"]["top_k"]: trial for trial in search}
expected = {1: ("crashed", "SIGSEGV"), 2: ("crashed", "SIGKILL"), 3: ("crashed", "broke the protocol"), 4: ("timed_out", "in flight: SyntheticHang"),
            5: ("out_of_memory", "more than its limit of 400 MiB"), 6: ("out_of_memory", "std::bad_alloc"), 7: ("wrong_output", "logits differ"),
            8: ("ok", "")}
for top_k, (outcome, words) in expected.items():
    trial = by_top_k[top_k]
    assert trial["outcome"] == outcome and words in trial.get("reason", ""), (top_k, trial["outcome"], trial.get("reason"))
# What is left alone is measured in passes all the same, each once.
again = [trial["final_round"]["pass"] for trial in trials if "final_round" in trial]
assert again == list(range(20)), again
PY
expect_exit 0 "$MOETUNE" validate faults
