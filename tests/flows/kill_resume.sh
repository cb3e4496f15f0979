#!/usr/bin/env bash
# A real search that is killed again and again: with --resume no trial is lost, doubled or measured again, a second run in
# the same directory is refused, Ctrl-C ends with 130 and says how to go on. Every searcher at many random moments:
# tests/tuner/kill_resume_test.cpp. Start at `sitting`.
source "$(dirname "$0")/support/flow.sh"

trials=5
options=(--max-trials "$trials" --searcher sobol --timing 0.3s --budget 30m --run run)

# Starts tune in the background; its number is in $tuner.
sitting() {
  local resume=()
  [[ -d run ]] && resume=(--resume)
  "$MOETUNE" tune "${options[@]}" "${resume[@]}" >>out.txt 2>>err.txt </dev/null &
  tuner=$!
}
ended() { ! kill -0 "$tuner" 2>/dev/null; }
worker() { grep -lE "^PPid:[[:space:]]+$tuner$" /proc/[0-9]*/status 2>/dev/null | cut -d/ -f3 || true; }
# Of the search; turns of the final round are lines too.
searched() { if [[ -f run/trials.jsonl ]]; then grep -vc '"final_round"' run/trials.jsonl || true; else echo 0; fi; }
lines() { if [[ -f run/trials.jsonl ]]; then wc -l < run/trials.jsonl; else echo 0; fi; }

# until_lines N: waits for N trials in the log, or the end of the search.
until_lines() { while [[ $(lines) -lt $1 ]] && ! ended; do sleep 0.02; done; }
# What is in the log now must be the beginning of what is in it later.
remember() { head -n "$(lines)" run/trials.jsonl > before.txt; }
expect_kept() { cmp -n "$(stat -c %s before.txt)" before.txt run/trials.jsonl || fail "a trial that was in the log is not there any more"; }

# The tuner is killed while a trial runs: its worker ends too, and the next sitting goes on.
sitting
until_lines 1
remember
expect_exit 2 "$MOETUNE" tune "${options[@]}" --resume
expect_in err.txt "another moetune is tuning there \(process $tuner\)"
orphan=$(worker)
kill -KILL "$tuner"
wait "$tuner" || true
for process in $orphan; do
  for _ in $(seq 500); do kill -0 "$process" 2>/dev/null || break; sleep 0.02; done
  ! kill -0 "$process" 2>/dev/null || fail "worker $process outlived its tuner"
done
expect_exit 2 "$MOETUNE" tune "${options[@]}"
expect_in err.txt "run: is not empty"
expect_exit 2 "$MOETUNE" tune "${options[@]}" --resume --seed 4
expect_in err.txt "run: cannot be resumed: .*seed was 1 and is 4"
expect_kept

# The worker is killed: the trial is tried again in a fresh one.
: > err.txt
sitting
until_lines 2
expect_kept
remember
for process in $(worker); do kill -KILL "$process"; done
until_lines 3

# Ctrl-C.
kill -TERM "$tuner"
code=0; wait "$tuner" || code=$?
[[ $code == 130 || $code == 0 ]] || fail "SIGTERM ended it with $code"
if [[ $code == 130 ]]; then expect_in err.txt "--resume"; fi
expect_kept

# A torn last line, as a power cut leaves it.
remember
printf '{"configuration":{"top_k":' >> run/trials.jsonl
expect_exit 0 "$MOETUNE" tune "${options[@]}" --resume
expect_in err.txt "trials.jsonl:[0-9]+: the last line is torn"
expect_kept

[[ $(searched) == "$trials" ]] || fail "$(searched) trials instead of $trials"
for ((i = 0; i < trials; ++i)); do
  sed -n "$((i + 1))p" run/trials.jsonl | grep -q "\"trial\":$i,\"checksum\"" || fail "line $((i + 1)) is not trial $i"
done
doubled=$(grep -v '"final_round"' run/trials.jsonl | grep -o '"configuration":{[^}]*}' | sort | uniq -d)
[[ -z $doubled ]] || fail "measured twice: $doubled"
# The final round has each finalist once a pass, whatever happened in between.
turns=$(grep -o '"final_round":{[^}]*}.*"trial":[0-9]*' run/trials.jsonl | sed -E 's/.*"pass":([0-9]+).*"trial":([0-9]+)/\1 \2/' || true)
doubled=$(sort <<< "$turns" | uniq -d)
[[ -z $doubled ]] || fail "a turn was measured twice: $doubled"
if [[ -n $turns ]]; then
  finalists=$(cut -d' ' -f2 <<< "$turns" | sort -u | wc -l)
  [[ $(wc -l <<< "$turns") == $((20 * finalists)) ]] || fail "not 20 passes of $finalists finalists"
fi
! grep -q '"outcome":"crashed"' run/trials.jsonl || fail "a worker killed once was recorded as crashed"

# Done is done: another sitting changes nothing, and the report comes from the files alone.
cp run/trials.jsonl done.txt
cp run/report.md report.txt
expect_exit 0 "$MOETUNE" tune "${options[@]}" --resume
cmp done.txt run/trials.jsonl
expect_exit 0 "$MOETUNE" report run
cmp report.txt run/report.md
