#!/usr/bin/env bash
# Records the noise of real runs on this machine, for replays (noise_replay_bench): raw times of many processes of `measure`.
#
#   reports/noise/record.sh build/release/moetune cpu [MODEL=tiny-moe] [PROCESSES=150] [NAMES="quiet busy shared"]
#   reports/noise/record.sh build/release/moetune cuda qwen3-30b-a3b 150 "quiet busy"
#
# Writes reports/noise/DEVICE-MODEL-NAME.jsonl, compacted by compact.py (of most runs only the mean):
#   quiet   alone: on a CPU under real-time priority, so that nothing that can wait disturbs it
#   busy    beside a program that computes for 2 ms of every 20, at the same priority
#   shared  at ordinary priority beside whatever else runs on this machine
# Real-time priority needs root. On a GPU, where the host does little, quiet and busy differ in the host's load alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
moetune=$1 device=$2 model=${3:-tiny-moe} processes=${4:-150} names=${5:-quiet busy shared}
each=25  # processes of one `measure`
raw=$(mktemp -d)
load=
trap '[[ -z $load ]] || kill "$load"; rm -rf "$raw"' EXIT

record() {  # NAME, command that gives the priority
  local name=$1
  shift
  for ((i = 0; i * each < processes; ++i)); do
    "$@" "$moetune" measure --model "$model" --device "$device" --budget 5s --quiet --samples-out "$raw/$name-$i.jsonl" >/dev/null
  done
  python3 reports/noise/compact.py "$raw/$name-"*.jsonl >"reports/noise/$device-$model-$name.jsonl"
}

compute() {
  chrt -r 50 python3 -c '
import time
while True:
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end: pass
    time.sleep(0.018)' &
  load=$!
}

for name in $names; do
  case $name in
    quiet) record quiet chrt -f 50 ;;
    busy) compute; record busy chrt -r 50; kill "$load"; load= ;;
    shared) record shared env ;;
    *) echo "$name: accepted are quiet, busy, shared" >&2; exit 2 ;;
  esac
done
