#!/usr/bin/env bash
# The search as a user sees it, on the synthetic target: files, exit codes, interruption, kills, a full disk, --resume.
source "$(dirname "$0")/support/flow.sh"

tune() { "$MOETUNE" tune --target synthetic --quiet "$@"; }
# The part of a log that an undisturbed run must share: everything but clocks and checksums.
trials_of() {
  python3 - "$1" <<'PY'
import json, sys
for line in open(sys.argv[1]):
    trial = json.loads(line)
    print(trial["trial"], json.dumps(trial["configuration"], sort_keys=True), trial["outcome"],
          json.dumps(trial["metrics"], sort_keys=True), trial["seed"])
PY
}
same_trials() {
  diff <(trials_of "$1/trials.jsonl") <(trials_of "$2/trials.jsonl") >&2 || fail "$2 holds other trials than $1"
}

expect_exit 0 tune --run whole --max-trials 30
for file in request.json hardware.json trials.jsonl front.json front.csv profile.json report.md; do
  [[ -s whole/$file ]] || fail "no $file in the run directory"
done
[[ $(wc -l < whole/trials.jsonl) -eq 30 ]] || fail "not 30 trials"
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
expect_exit 0 "$MOETUNE" report --gate lossless
expect_in out.txt 'lossless'

# A second run in the same directory, and a resume of another study, touch nothing.
cp -r whole untouched
expect_exit 2 tune --run whole --max-trials 3
expect_in err.txt 'whole'
expect_exit 2 tune --run whole --resume --max-trials 40 --seed 2
expect_in err.txt 'seed'
expect_exit 2 tune --run whole --resume --max-trials 40 --searcher random
expect_in err.txt 'searcher'
same_trials untouched whole

# --resume of a finished run with more trials goes on; with as many it is over at once.
expect_exit 0 tune --run whole --resume --max-trials 30
same_trials untouched whole
expect_exit 0 tune --run whole --resume --max-trials 36
[[ $(wc -l < whole/trials.jsonl) -eq 36 ]] || fail "did not go on to 36 trials"
expect_exit 0 tune --run long --max-trials 36
same_trials long whole

# Ctrl-C: exit code 130, state saved, words on how to go on; --resume ends with the trials of an undisturbed run.
slow='{"delay_ms": 40}'
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
