#!/usr/bin/env bash
# The whole path on the embedded model, short: front, verdict, profile; no trial lost, doubled or measured again.
# flow: serial
source "$(dirname "$0")/support/flow.sh"
export XDG_CACHE_HOME=$PWD/cache

tune() { "$MOETUNE" tune --space quick --timing 0.2s "$@"; }

expect_exit 0 tune --run run --max-trials 4
expect_in err.txt 'space quick: [0-9]+ of [0-9]+ configurations can run here'
expect_in err.txt 'router: gpu needs a GPU'
expect_in out.txt '^Launch: '
expect_exit 0 "$MOETUNE" validate run
python3 - <<'PY' || fail "the run does not say what the contract asks for"
import json
lines = [json.loads(line) for line in open("run/trials.jsonl")]
trials = [t for t in lines if "final_round" not in t]
turns = [t for t in lines if "final_round" in t]
for turn in turns:
    assert "kl_mean" not in turn["metrics"] and turn["outcome"] == "ok", turn
    assert turn["trial"] in turn["final_round"]["finalists"] and turn["final_round"]["after"] == 4, turn
assert [t["trial"] for t in trials] == [0, 1, 2, 3], trials
first = trials[0]
assert first["configuration"]["top_k"] == 8 and first["configuration"]["expert_quant"] == "checkpoint", first
assert first["metrics"]["kl_mean"]["value"] == 0 and first["metrics"]["kl_mean"]["n"] == 4096, first
for name in ("tpot_ms", "ttft_ms", "tokens_per_s", "kl_p99", "top1_agreement", "perplexity_ratio", "route_flip_rate",
             "router_mass", "output_snr_db", "cache_hit", "device_bytes", "host_bytes"):
    assert name in first["metrics"], name
for trial in trials:
    for metric in trial["metrics"].values():
        assert metric["origin"] == "measured", metric
    tpot = trial["metrics"]["tpot_ms"]
    # 368 are enough where they tell as much as independent ones (tests/tuner/statistics_test.cpp): slow tokens come together.
    assert tpot.get("p99") is None or tpot["n"] >= 368, tpot
profile = json.load(open("run/profile.json"))
assert profile["hardware"]["device"] == "cpu" and profile["model"]["name"] == "tiny-moe", profile
assert not turns or 2 <= profile["final_round"]["passes"] <= 20, profile
PY

# Killed at once, resumed: the trials that were there are not touched, the others are added.
expect_exit 0 tune --run cut --max-trials 2
cp cut/trials.jsonl before.jsonl
before=$(wc -l < before.jsonl)
"$MOETUNE" tune --space quick --timing 0.2s --run cut --resume --max-trials 6 >/dev/null 2>&1 &
tuner=$!
until [[ $(wc -l < cut/trials.jsonl) -gt $before ]]; do kill -0 $tuner 2>/dev/null || fail "ended before it could be killed"; done
kill -KILL $tuner
wait $tuner || true
expect_exit 0 tune --run cut --resume --max-trials 6
head -n "$before" cut/trials.jsonl | cmp - before.jsonl || fail "a logged trial was measured again"
python3 -c '
import json
trials = [t for t in map(json.loads, open("cut/trials.jsonl")) if "final_round" not in t]
assert [t["trial"] for t in trials] == list(range(6))
assert len({json.dumps(t["configuration"], sort_keys=True) for t in trials}) == 6
' || fail "a trial was lost or doubled"

# measure: the same path, one configuration.
expect_exit 0 "$MOETUNE" measure --set top_k=7 --set expert_cache=0.5 --budget 0.3s --json
python3 - <<'PY' || fail "measure --json is not what it should be"
import json
trial = json.load(open("out.txt"))
assert trial["outcome"] == "ok" and trial["configuration"]["top_k"] == 7, trial
assert 0 < trial["metrics"]["kl_mean"]["value"] < 0.02, trial["metrics"]["kl_mean"]
assert 0 < trial["metrics"]["cache_hit"]["value"] < 1, trial["metrics"]["cache_hit"]
assert trial["metrics"]["host_bytes"]["value"] > 0
medians = sorted(process["tpot_ms"]["value"] for process in trial["processes"])
tpot = trial["metrics"]["tpot_ms"]
assert tpot["processes"] == len(medians) >= 2 and trial["metrics"]["kl_mean"].get("processes", 1) == 1, tpot
# An interval of the median is a pair of the sorted values, as far from one end as from the other; where neighbouring
# processes resemble each other it comes from blocks of them, and says what they are worth.
pairs = [(medians[i], medians[-1 - i]) for i in range(len(medians) // 2)]
from_blocks = 0 < tpot.get("effective", len(medians)) < len(medians) and 0 < tpot["low"] < tpot["high"]
assert len(medians) < 6 or from_blocks or (tpot["low"], tpot["high"]) in pairs, (tpot, medians)
PY

# --save replaces what the registry holds, and says so.
mkdir -p data/profiles/cpu/tiny-moe
ln -s "$MOETUNE_SOURCE_DIR/engine/models" "$MOETUNE_SOURCE_DIR/search_spaces" data/
echo broken > data/profiles/cpu/tiny-moe/chat.json
MOETUNE_DATA=$PWD/data expect_exit 0 tune --run cut --resume --max-trials 6 --save --quiet
expect_in err.txt 'data/profiles/cpu/tiny-moe/chat.json: replaces what was there and could not be read'
MOETUNE_DATA=$PWD/data expect_exit 0 tune --run run --resume --max-trials 4 --save
expect_in err.txt 'chat.json: replaces the profile that was measured 20[0-9TZ:-]+ by build '
expect_in err.txt '^profile saved as .*/data/profiles/cpu/tiny-moe/chat.json$'

# Too little memory: named, with what is missing and the knob that would free it.
expect_exit 4 "$MOETUNE" measure --set expert_cache=1 --device-memory 8MiB
expect_in err.txt 'MiB missing'
expect_exit 4 "$MOETUNE" tune --device-memory 1MiB --max-trials 2
expect_in err.txt 'nearest.*MiB more than.*there'
expect_exit 0 "$MOETUNE" tune --device-memory 9MiB --max-trials 2 --timing 0.2s
expect_in err.txt 'needs more memory than the 9.00 MiB there'

# Other work on every core is named, by measure as by tune: whoever reads the times must know.
work=()
for ((core = 0; core < $(nproc); ++core)); do (while :; do :; done) & work+=($!); done
"$MOETUNE" measure --budget 1s --json >out.txt 2>err.txt || { kill "${work[@]}"; fail "measure beside other work"; }
"$MOETUNE" measure --op moe,head --runs 25 >op.txt 2>op_err.txt || { kill "${work[@]}"; fail "measure --op beside other work"; }
kill "${work[@]}"
wait "${work[@]}" 2>/dev/null || true
expect_in err.txt "^moetune: other work ran beside it: .*bash .process [0-9]+, .* The times are not this machine's alone$"
expect_in op_err.txt "^moetune: other work ran beside it: .*bash .process [0-9]+, "
python3 -c 'import json; d = json.load(open("out.txt")); assert d["other_work"] and isinstance(d["arisen"], list), d' || fail "not in the document"

# Another layout, without a tokenizer: said, and measured all the same.
expect_exit 0 "$MOETUNE" measure --model "$MOETUNE_SOURCE_DIR/tests/golden/mixtral" --budget 0.3s
expect_in err.txt 'seeded ids'
