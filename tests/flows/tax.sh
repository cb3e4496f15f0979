#!/usr/bin/env bash
# moetune tax: a recorded run of the embedded model, its timeline, and traces of other servers. How long anything takes is not
# looked at: on a busy machine a breakdown may be refused (exit 5), and then it has to say why.
source "$(dirname "$0")/support/flow.sh"

code=0
"$MOETUNE" tax --budget 0.2s --workload agent --timeline run.json --json > tax.json 2> err.txt || code=$?
[[ $code == 0 || $code == 5 ]] || { cat err.txt >&2; fail "exit code $code"; }
python3 - "$code" <<'PY' || fail "tax --json is not what it should be"
import json, sys
document = json.load(open("tax.json"))
parts = {"communication", "expert_loading", "synchronisation", "router", "launch_gaps", "compute"}
def check(one):
    if "refused" in one:
        assert "times its plain time" in one["refused"], one
        return
    assert set(one["exposed_ms"]) == parts and set(one["hidden_ms"]) == parts
    total = sum(one["exposed_ms"].values()) + one["unexplained_ms"]
    assert abs(total - one["token_ms"]) < 1e-6 * one["token_ms"], (total, one["token_ms"])
assert ("refused" in document["decode"]) == (sys.argv[1] == "5")
for one in (document["decode"], document["prefill"], document["dense_twin"]["decode"], document["dense_twin"]["prefill"]):
    check(one)
assert len(document["rounds"]) == document["workload"]["rounds"] == 12
for one in document["rounds"]:
    check(one)
if "refused" not in document["dense_twin"]["decode"]:
    assert document["dense_twin"]["decode"]["rows_ms"]["router"] == 0

events = json.load(open("run.json"))["traceEvents"]
assert {event["name"] for event in events} >= {"prefill", "decode", "router", "gate_up", "down_combine", "attention", "head"}
for event in events:
    assert event["ph"] == "M" or event["dur"] >= 0
PY

code=0
"$MOETUNE" tax --budget 0.1s --no-dense --set expert_cache=0.5 > out.txt 2> err.txt || code=$?
[[ $code == 0 || $code == 5 ]] || { cat err.txt >&2; fail "exit code $code"; }
[[ $code == 5 ]] || { expect_in out.txt '^expert loading +0\.[0-9]*[1-9]'; expect_in out.txt '^tax_share: '; tr '\n' ' ' < out.txt | grep -q 'The tax stays under 15 ms per token: 0\.' || fail 'no word about 15 ms'; }

# What a sweep takes is said before it begins: it has more points than a small budget has runs.
cat > short.json <<'JSON'
{"name": "short", "prompt_tokens": 32, "output_tokens": 2}
JSON
code=0
"$MOETUNE" tax --budget 0.1s --no-dense --sweep --workload ./short.json > out.txt 2> err.txt || code=$?
[[ $code == 0 || $code == 5 ]] || { cat err.txt >&2; fail "exit code $code"; }
expect_in err.txt '^sweep: 9 points, each of at least 7 runs, whatever --budget says: about [0-9]+ s$'
expect_in out.txt '^In brackets: the 95 % interval'

traces=$MOETUNE_SOURCE_DIR/tests/traces
for file in nsys.sqlite torch_cuda.json.gz; do
  expect_exit 0 "$MOETUNE" tax --import "$traces/$file" --steps 2
  expect_in out.txt '^expert loading +0\.0400'
  expect_in out.txt '^communication +0\.0080'
  expect_in out.txt '^Unmatched: 0\.004 ms'
  expect_in out.txt 'a_kernel_that_nobody_knows'
  expect_exit 0 "$MOETUNE" tax --import "$traces/$file" --json
  python3 -c 'import json; assert len(json.load(open("out.txt"))["devices"]) == 1' || fail "--import --json"
done
expect_exit 2 "$MOETUNE" tax --import "$traces/torch_cpu.json"
expect_in err.txt 'no kernel of a GPU'
expect_exit 2 "$MOETUNE" tax --import "$traces/nsys.sqlite" --sweep
expect_exit 2 "$MOETUNE" tax --steps 3
expect_exit 2 "$MOETUNE" tax --import nowhere.json
