#!/usr/bin/env bash
# Runs every libFuzzer target of a build folder for some seconds each, starting from the committed seeds. New inputs are kept
# below the build folder; a finding stops with its input named. Usage: fuzz.sh BUILD_FOLDER SECONDS
set -euo pipefail
build=$(cd "$1" && pwd)
seconds=$2
seeds=$(cd "$(dirname "$0")/../tests/fuzz/corpus" && pwd)
programs=("$build"/tests/fuzz/*_fuzz)
[[ -x ${programs[0]} ]] || { echo "no fuzz target in $build" >&2; exit 1; }
for program in "${programs[@]}"; do
  name=$(basename "$program" _fuzz)
  corpus=$build/corpus/$name
  mkdir -p "$corpus" "$build/findings"
  echo "fuzz $name for $seconds s"
  log=$build/findings/$name.log
  if ! "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$build/findings/$name-" "$corpus" "$seeds/$name" >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "finding in $name; input and log below $build/findings" >&2
    exit 1
  fi
  grep -E 'number_of_executed_units|new_units_added|peak_rss' "$log"
done
