#!/usr/bin/env bash
# The search as a user sees it, on the synthetic target: files, exit codes, interruption, kills, a full disk, --resume.
source "$(dirname "$0")/support/flow.sh"

tune() { "$MOETUNE" tune --target synthetic --quiet "$@"; }
# The part of a log that an undisturbed run must share: everything but clocks and checksums. With "search": without the
# final rounds.
trials_of() {
  python3 - "$@" <<'PY'
import json, sys
for line in open(sys.argv[1]):
    trial = json.loads(line)
    if len(sys.argv) > 2 and "final_round" in trial:
        continue
    print(trial["trial"], trial.get("final_round"), json.dumps(trial["configuration"], sort_keys=True), trial["outcome"],
          json.dumps(trial["metrics"], sort_keys=True), trial["seed"])
PY
}
same_trials() {
  diff <(trials_of "$1/trials.jsonl" ${3:-}) <(trials_of "$2/trials.jsonl" ${3:-}) >&2 || fail "$2 holds other trials than $1"
}
searched() { grep -vc '"final_round"' "$1/trials.jsonl" || true; }
turns() { grep -c '"final_round"' "$1/trials.jsonl" || true; }

expect_exit 0 tune --run whole --max-trials 30
for file in request.json hardware.json trials.jsonl front.json front.csv profile.json report.md; do
  [[ -s whole/$file ]] || fail "no $file in the run directory"
done
[[ $(searched whole) -eq 30 ]] || fail "not 30 trials"
finalists() { grep -o '"finalists":[^]]*]' "$1/trials.jsonl" | tail -n 1 | tr -cd ',' | wc -c; }  # but for the default
whole_turns=$((20 * ($(finalists whole) + 1)))
[[ $(finalists whole) -ge 1 && $(turns whole) -eq $whole_turns ]] || fail "not 20 passes of every finalist"
expect_in whole/report.md 'in turns 20 times in fresh processes'
expect_in whole/report.md '^## The final round'
expect_in whole/report.md '^Control: trial 0 against itself'
python3 -c 'import json; r = json.load(open("whole/profile.json"))["final_round"]; assert r["passes"] == 20 and r["ratio_to_default"]["high"] < 1, r' ||
  fail "the profile does not rest on the final round"
expect_in out.txt '^Launch: '
[[ $(wc -L < out.txt) -le 100 ]] || fail "wider than 100 columns"
[[ $(tail -n 1 out.txt) == "Launch: "* ]] || fail "the last line does not say what to launch"
expect_in err.txt 'made up'
expect_exit 0 "$MOETUNE" validate whole
expect_exit 0 "$MOETUNE" validate whole/profile.json
expect_exit 0 "$MOETUNE" validate whole/trials.jsonl
[[ $(readlink -f runs/latest) == $(readlink -f whole) ]] || fail "runs/latest is not the newest run"

# --json: one document, nothing else on stdout.
expect_exit 0 "$MOETUNE" tune --target synthetic --run json --max-trials 5 --json
python3 -c 'import json; d = json.load(open("out.txt")); assert d["profile"]["configuration"], d.keys()' || fail "--json is not one document"

# The same study twice gives the same trials, whatever the searcher.
for searcher in random sobol exhaustive nsga2; do
  expect_exit 0 tune --run "$searcher-1" --max-trials 12 --searcher "$searcher" --seed 7
  expect_exit 0 tune --run "$searcher-2" --max-trials 12 --searcher "$searcher" --seed 7
  same_trials "$searcher-1" "$searcher-2"
done

# report renders the same files again, and under another gate.
cp whole/front.csv before.csv && rm whole/front.csv whole/report.md
expect_exit 0 "$MOETUNE" report whole
cmp before.csv whole/front.csv || fail "report gives another front.csv than tune"
[[ -s whole/report.md ]] || fail "report wrote no report.md"
cp -r whole looked_at
expect_exit 0 "$MOETUNE" report --gate lossless
expect_in out.txt 'A look under gate lossless: nothing is written'
diff -r whole looked_at >&2 || fail "a look under another gate changed the run"

# A second run in the same directory, and a resume of another study, touch nothing.
cp -r whole untouched
expect_exit 2 tune --run whole --max-trials 3
expect_in err.txt 'whole'
expect_exit 2 tune --run whole --resume --max-trials 40 --seed 2
expect_in err.txt "whole: cannot be resumed: --seed was 1 and is 2 .*on the same machine: .* tune .*--run whole --max-trials 30;"
expect_exit 2 tune --run whole --resume --max-trials 40 --searcher random
expect_in err.txt '--searcher was "nsga2" and is "random"'
expect_exit 2 tune --run whole --resume --max-trials 40 --gate none
expect_in err.txt '--gate was "int8" and is "none"'
expect_exit 2 tune --run whole --resume --max-trials 40 --synthetic '{"mood": 0.1}'
expect_in err.txt '--synthetic was .*conditions.synthetic.* in whole/request.json'
same_trials untouched whole
cmp untouched/profile.json whole/profile.json || fail "a refused gate changed the profile"

# A turn of the final round that stands twice would weigh twice: nobody takes the log.
cp -r whole doubled
tail -n 1 whole/trials.jsonl >> doubled/trials.jsonl
for command in "validate doubled/trials.jsonl" "validate doubled" "report doubled" \
  "tune --target synthetic --quiet --run doubled --resume --max-trials 30"; do
  expect_exit 2 "$MOETUNE" $command
  expect_in err.txt "doubled/trials.jsonl:$(wc -l < doubled/trials.jsonl): the turn of trial .* is doubled"
done

# --resume where there is no run writes nothing.
expect_exit 2 tune --run typo --resume --max-trials 3
expect_in err.txt 'typo: no run there to resume'
[[ ! -e typo ]] || fail "--resume made a folder"
mkdir notes && echo mine > notes/report.md
expect_exit 2 tune --run notes --resume --max-trials 3
expect_in err.txt "notes: no run there to resume: it holds 'report.md'"
[[ $(ls -A notes) == report.md && $(< notes/report.md) == mine ]] || fail "--resume wrote into a folder that is no run"

# --resume of a finished run with more trials goes on; with as many it is over at once.
expect_exit 0 tune --run whole --resume --max-trials 30
same_trials untouched whole
expect_exit 0 tune --run whole --resume --max-trials 36 --quiet
! grep -q 'going on after' err.txt || fail "--quiet says what it goes on after"
[[ $(searched whole) -eq 36 ]] || fail "did not go on to 36 trials"
[[ $(turns whole) -eq $((whole_turns + 20 * ($(finalists whole) + 1))) ]] || fail "the longer search had no final round of its own"
expect_exit 0 tune --run long --max-trials 36
same_trials long whole search

# A machine in changing moods, slow just when the default is measured: the search alone claims gains that the final round
# does not confirm. The truth is what the same search finds without moods.
moody='{"mood": 0.6, "search_factor": {"when": {"top_k": 8}, "factor": 1.5}}'
expect_exit 0 tune --run calm --max-trials 12 --searcher sobol
expect_exit 0 tune --run moody --max-trials 12 --searcher sobol --synthetic "$moody"
python3 - <<'PY' || fail "the gain on a moody machine is not the true one"
import json
def trials(run): return [t for t in map(json.loads, open(run + "/trials.jsonl")) if "final_round" not in t]
profile = json.load(open("moody/profile.json"))
calm, moody, number = trials("calm"), trials("moody"), profile["trial"]
assert number != 0 and calm[number]["configuration"] == profile["configuration"], "the moods changed who was asked for"
def ratio(run): return run[number]["metrics"]["tpot_ms"]["value"] / run[0]["metrics"]["tpot_ms"]["value"]
found = profile["final_round"]["ratio_to_default"]
assert abs(found["value"] - ratio(calm)) < 0.015, (found, ratio(calm))
assert abs(ratio(moody) - ratio(calm)) > 0.1, "the search alone was right: nothing is shown"
PY

# A log without its final round, as an interruption leaves it: said first wherever the verdict stands.
mkdir bare
cp long/request.json long/hardware.json bare
grep -v '"final_round"' long/trials.jsonl > bare/trials.jsonl
expect_exit 0 "$MOETUNE" report bare
expect_in out.txt '^NOT MEASURED AGAIN: '
expect_in bare/report.md '^\*\*NOT MEASURED AGAIN: '
expect_in bare/profile.json 'NOT MEASURED AGAIN'

# measure: as many processes as it says, and an interval as wide as they differ.
expect_exit 0 "$MOETUNE" measure --target synthetic --set top_k=7 --synthetic '{"audit": "audit.txt"}'
[[ $(sort -u audit.txt | wc -l) -eq 25 ]] || fail "not in 25 processes"
expect_in out.txt '^tpot_ms .* 25$'
expect_exit 0 "$MOETUNE" measure --target synthetic --set top_k=7 --synthetic '{"mood": 0.8}' --json
python3 - <<'PY' || fail "the interval does not say what processes differ by"
import json
document = json.load(open("out.txt"))
tpot = document["metrics"]["tpot_ms"]
medians = sorted(process["tpot_ms"]["value"] for process in document["processes"])
assert tpot["processes"] == 25 == len(medians) and document["metrics"]["kl_mean"].get("processes", 1) == 1
assert tpot["value"] == medians[12], (tpot, medians)
if "effective" not in tpot:  # processes differ as chance has it: the order statistics of the median
    assert (tpot["low"], tpot["high"]) == (medians[7], medians[17]), (tpot, medians)
else:  # neighbours resemble each other: from blocks of them
    assert tpot["effective"] < 25 and tpot["low"] < medians[12] < tpot["high"], (tpot, medians)
assert tpot["high"] - tpot["low"] > 0.05 * tpot["value"]
PY

# Ctrl-C: exit code 130, state saved, words on how to go on; --resume ends with the trials of an undisturbed run.
slow='{"delay_ms": 80}'  # a second is left when the signal comes: room for a shell on a busy machine
expect_exit 0 "$MOETUNE" tune --target synthetic --quiet --synthetic "$slow" --run slow --max-trials 15
for signal in INT TERM KILL; do
  "$MOETUNE" tune --target synthetic --quiet --synthetic "$slow" --run "cut-$signal" --max-trials 15 >out.txt 2>err.txt &
  tuner=$!
  until [[ -s cut-$signal/trials.jsonl && $(wc -l < "cut-$signal/trials.jsonl") -ge 4 ]]; do
    kill -0 $tuner 2>/dev/null || fail "ended before it could be interrupted"
  done
  kill -$signal $tuner
  code=0
  wait $tuner || code=$?
  if [[ $signal == KILL ]]; then
    [[ $code -eq 137 ]] || fail "exit code $code after SIGKILL"
  else
    [[ $code -eq 130 ]] || fail "exit code $code after SIG$signal, not 130"
    expect_in err.txt '--resume'
    [[ -s cut-$signal/report.md ]] || fail "no report of what there is after SIG$signal"
  fi
  expect_exit 0 "$MOETUNE" tune --target synthetic --quiet --synthetic "$slow" --run "cut-$signal" --resume --max-trials 15
  same_trials slow "cut-$signal"
done

# Failing trials are outcomes with reasons, never the end of the search.
expect_exit 0 "$MOETUNE" tune --target synthetic --quiet --run failures --max-trials 20 \
  --synthetic '{"fail": [{"when": {"top_k": 3}, "how": "crash"}, {"when": {"top_k": 5}, "how": "wrong_output"}, {"when": {"expert_quant": "int4"}, "how": "out_of_memory"}]}'
expect_in failures/trials.jsonl '"outcome":"crashed"'
expect_in failures/report.md 'crashed'
expect_exit 4 "$MOETUNE" tune --target synthetic --quiet --run nothing --max-trials 4 \
  --synthetic '{"fail": [{"when": {}, "how": "out_of_memory"}]}'
[[ ! -e nothing/profile.json ]] || fail "a profile although nothing was measured"

# A disk that is full while logging: exit code 1, the log intact, --resume goes on. (The limit is in blocks of 1 KiB.)
(
  ulimit -f 16
  code=0
  "$MOETUNE" tune --target synthetic --quiet --run full --max-trials 30 >out.txt 2>err.txt || code=$?
  [[ $code -eq 1 ]] || fail "exit code $code on a full disk, not 1"
)
expect_in err.txt 'full/trials.jsonl'
logged=$(wc -l < full/trials.jsonl)
[[ $logged -ge 1 && $logged -lt 30 ]] || fail "$logged trials on a full disk"
expect_exit 0 tune --run full --resume --max-trials 30
expect_exit 0 tune --run roomy --max-trials 30
same_trials roomy full
