#!/usr/bin/env bash
# moetune trace: records, saves, reads again, predicts and checks itself; the committed data is what it says today.
source "$(dirname "$0")/support/flow.sh"

# One sequence, as a routing source: the experts of the trace change no logit of the run that they are of.
expect_exit 0 "$MOETUNE" trace --sequences 1 --no-check --out one.trace --device cpu
expect_in out.txt '^tiny-moe: [0-9]+ tokens'
expect_in out.txt 'Not measured: --no-check'
python3 - <<'PY'
import json, struct
data = open("one.trace", "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + length])
begin, end = header["token_ids"]["data_offsets"]
ids = struct.unpack(f"<{(end - begin) // 4}i", data[8 + length + begin:8 + length + end])
open("tokens.txt", "w").write(" ".join(map(str, ids)))
PY
expect_exit 0 "$MOETUNE" logits --tokens-file tokens.txt --out own.npy --device cpu
expect_exit 0 "$MOETUNE" logits --tokens-file tokens.txt --routing-from one.trace --out given.npy --device cpu
cmp own.npy given.npy || fail "the experts of a trace give other logits than the router that chose them"
expect_exit 0 "$MOETUNE" validate one.trace
expect_in out.txt '^one.trace: OK, a routing trace of tiny-moe, [0-9]+ tokens in [0-9]+ layers$'
head -c 3000 one.trace >cut.trace
expect_exit 2 "$MOETUNE" validate cut.trace
expect_in err.txt '^moetune: cut.trace: '

# Saved and read again it says the same; what is measured agrees with what was predicted of it.
expect_exit 0 "$MOETUNE" trace --sequences 4 --out four.trace --json --device cpu
cp out.txt recorded.json
expect_exit 0 "$MOETUNE" trace --from four.trace --json --device cpu
cp out.txt read.json
python3 - <<'PY' || fail "the traces do not say what they should"
import json
recorded, read = json.load(open("recorded.json")), json.load(open("read.json"))
for part in ("model_hash", "trace", "statistics", "replayed"):
    assert recorded[part] == read[part], part
for document in (recorded, read):
    assert len(document["checked"]["sizes"]) == 3
    hits = {size["slots"]: size["hit"] for size in document["lru"]["sizes"]}
    for size in document["checked"]["sizes"]:
        assert abs(size["hit"]["predicted"] - size["hit"]["measured"]) <= 0.002, size
        assert size["hit"]["predicted"] == hits[size["slots"]], size
        assert size["step_ms"]["predicted"] > 0 and size["step_ms"]["measured"] > 0
    assert document["statistics"]["router_mass_of_first"][-1] > 0.9999
PY
expect_exit 0 "$MOETUNE" trace --from four.trace --no-check
[[ $(wc -L < out.txt) -le 80 ]] || { cat out.txt >&2; fail "the tables are wider than 80 columns"; }

# A space for tune, of the sizes and on a GPU of what the costs of a miss leave in the race.
expect_exit 0 "$MOETUNE" trace --sequences 1 --set expert_quant=int8 --space-out sizes.json --device cpu --quiet
expect_exit 0 "$MOETUNE" validate sizes.json
expect_exit 0 "$MOETUNE" tune --space sizes.json --max-trials 2 --budget 1s --run sizes --device cpu --quiet
expect_exit 2 "$MOETUNE" trace --sequences 1 --no-check --space-out none.json --device cpu
expect_in err.txt '^moetune: --space-out: given with --no-check'

# What cannot be.
expect_exit 2 "$MOETUNE" trace --from four.trace --set top_k=4 --device cpu
expect_in err.txt 'four.trace: 8 experts a token .accepted: 4'
expect_exit 2 "$MOETUNE" trace --from four.trace --model "$MOETUNE_SOURCE_DIR/tests/golden/mixtral" --device cpu
expect_in err.txt 'four.trace: a trace of tiny-moe'
# What would change nothing is not taken silently.
expect_exit 2 "$MOETUNE" trace --from four.trace --no-check --set top_k=4
expect_in err.txt '^moetune: --set: given with --from and --no-check'
expect_exit 2 "$MOETUNE" trace --from four.trace --no-check --model qwen3-30b-a3b
expect_in err.txt '^moetune: --model: given with --from and --no-check'
expect_exit 2 "$MOETUNE" trace --from four.trace --workload agent
expect_in err.txt '^moetune: --workload: given with --from'
expect_exit 0 "$MOETUNE" trace --sequences 2 --set top_k_rule=threshold:0.5 --no-check --out dropped.trace --device cpu
expect_exit 0 "$MOETUNE" trace --from dropped.trace --no-check
head -c 1000 four.trace > cut.trace
expect_exit 2 "$MOETUNE" trace --from cut.trace --no-check
expect_in err.txt 'cut.trace'
expect_exit 2 "$MOETUNE" trace --from missing.trace --no-check
expect_in err.txt 'missing.trace'
expect_exit 2 "$MOETUNE" trace --sequences 0
expect_in err.txt "--sequences: '0'"
expect_exit 2 "$MOETUNE" trace --model llama-3-8b --device cpu
expect_in err.txt 'no layer that routes'
[[ $("$MOETUNE" trace --sequences 2 --set reroute_margin=0.1 --set expert_cache=0.5 --device cpu 2>&1 >/dev/null | grep -c 'reroute_margin makes the routing depend') -eq 1 ]] ||
  fail "rerouting is checked against a trace that knows nothing of it"

# The committed data: times are another machine's, and another processor may round a choice here and there.
expect_exit 0 "$MOETUNE" trace --no-check --json --device cpu
python3 - "$MOETUNE_SOURCE_DIR/reports/cpu/trace-tiny-moe.json" <<'PY' || fail "reports/cpu/trace-tiny-moe.json is not what this program says: bash reports/cpu/trace.sh"
import json, sys
now, then = json.load(open("out.txt")), json.load(open(sys.argv[1]))
assert now["model_hash"] == then["model_hash"] and now["trace"] == then["trace"] and now["text"] == then["text"]
def compare(a, b, where):
    if isinstance(a, dict):
        for key in set(a) | set(b):
            if key not in ("checked", "predicted_step_ms", "model", "misses") and not key.endswith("bytes") and "bytes_" not in key:
                compare(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b)):
            compare(x, y, f"{where}[{i}]")
    elif isinstance(a, float):
        assert abs(a - b) < max(0.01, 0.01 * abs(b)), (where, a, b)
compare(now["statistics"], then["statistics"], "statistics")
compare(now["replayed"], then["replayed"], "replayed")
compare(now["lru"], then["lru"], "lru")
PY
