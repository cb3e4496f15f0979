#!/usr/bin/env bash
# Records the noise of real runs on this machine, for replays (noise_replay_bench): raw times of many processes of `measure`.
#
#   reports/noise/record.sh build/release/moetune cpu [MODEL=tiny-moe] [PROCESSES=150] [NAMES="quiet busy shared"]
#   reports/noise/record.sh build/release/moetune cuda tiny-moe 75 "alone beside"
#
# Writes reports/noise/DEVICE-MODEL-NAME.jsonl, compacted by compact.py (of most runs only the mean):
#   quiet   alone: on a CPU under real-time priority, so that nothing that can wait disturbs it
#   busy    beside a program that computes for 2 ms of every 20, at the same priority
#   shared  at ordinary priority beside whatever else runs on this machine
#   alone   at ordinary priority on a machine on which nothing else runs: whoever records sees to that
#   beside  the same, beside a program that computes for 2 ms of every 20 on each core, at ordinary priority too
# quiet and busy need real-time priority, which needs root, and which containers often refuse: then this says so and ends, and
# alone and beside stand in. On a GPU, where the host does little, they differ in the host's load alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
moetune=$1 device=$2 model=${3:-tiny-moe} processes=${4:-150} names=${5:-quiet busy shared}
each=25  # processes of one `measure`
raw=$(mktemp -d)
loads=()
no_load() {
  ((${#loads[@]} == 0)) || kill "${loads[@]}"
  loads=()
}
trap 'no_load; rm -rf "$raw"' EXIT

case " $names " in
  *" quiet "* | *" busy "*)
    chrt -f 50 true 2>/dev/null || { echo "no real-time priority here, so neither quiet nor busy: record alone and beside" >&2; exit 1; } ;;
esac

record() {  # NAME, command that gives the priority
  local name=$1
  shift
  for ((i = 0; i * each < processes; ++i)); do
    "$@" "$moetune" measure --model "$model" --device "$device" --budget 5s --quiet --samples-out "$raw/$name-$i.jsonl" >/dev/null
  done
  python3 reports/noise/compact.py "$raw/$name-"*.jsonl >"reports/noise/$device-$model-$name.jsonl"
}

compute() {  # command that gives the priority
  "$@" python3 -c '
import time
while True:
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end: pass
    time.sleep(0.018)' &
  loads+=($!)
}

for name in $names; do
  case $name in
    quiet) record quiet chrt -f 50 ;;
    busy) compute chrt -r 50; record busy chrt -r 50; no_load ;;
    shared | alone) record "$name" env ;;
    beside) for ((core = 0; core < $(nproc); ++core)); do compute env; done; record beside env; no_load ;;
    *) echo "$name: accepted are quiet, busy, shared, alone, beside" >&2; exit 2 ;;
  esac
done
