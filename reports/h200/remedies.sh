#!/usr/bin/env bash
# Measures the rows of REMEDIES.md: bash reports/h200/remedies.sh PROGRAM_FOLDER OUT_FOLDER [PART ...]
# PROGRAM_FOLDER: a build folder. Parts, in this order where none is named: rows more ahead threads on a GPU (half a minute each but
# more, which takes a minute, on an H200; 15 GiB are pinned), accuracy on a processor (a minute). Rows are appended, the last of a name
# counts. Then: python3 reports/h200/remedies.py
set -uo pipefail
programs=$1
out=$2
shift 2
mkdir -p "$out"
model=qwen3-30b-a3b:fold=4 # all layers, a quarter of the weights: what is cached and copied is of the full depth
program() { if [[ -x $programs/$1 ]]; then echo "$programs/$1"; else echo "$programs/tests/$1"; fi; }

# Half of the experts in slots, the others copied by the host as they are missing: what everything is compared to.
half=expert_cache=0.5,miss=dma
short=prompt=16,new=100
bench() { "$(program cuda_remedies_bench)" "$model" "$@" >> "$out/remedies.jsonl"; }
rows() {
  bench "base:$half,$short" "resident:$short,runs=9" "top4:$half,$short,top_k=4" "resident-top4:$short,runs=9,top_k=4" \
    "router-cpu:$half,$short,router=cpu" "router-cpu-resident:$short,runs=9,router=cpu" "pull:expert_cache=0.5,miss=pull,$short"
}
more() {
  local first=prompt=512,new=1,runs=8 agent=rounds=12,prompt=2,new=2,runs=8
  bench "first-token:$half,$first" "first-token-top4:$half,$first,top_k=4" "first-token-resident:$first" \
    "agent:$half,$agent" "agent-router-cpu:$half,$agent,router=cpu" "agent-resident:$agent" \
    "int8:$half,$short,expert_quant=int8" "int8-resident:$short,runs=9,expert_quant=int8" \
    "int4:$half,$short,expert_quant=int4" "int4-resident:$short,runs=9,expert_quant=int4"
}
# What is foreseen, beside the same model without; and 256 sequences, whose prompts are one token: longer ones would load for minutes.
ahead() {
  bench "next-gate-none:$half,$short" "next-gate:$half,$short,prefetch=next_gate" \
    "next-gate-pull-none:expert_cache=0.5,miss=pull,$short" "next-gate-pull:expert_cache=0.5,miss=pull,$short,prefetch=next_gate" \
    "256-resident:sequences=256,prompt=1,new=16,runs=2" "256:$half,sequences=256,prompt=1,new=3,runs=2"
}
# What the processor computes, by its threads, each on a core of its own; and again with a busy program for every core.
threads() {
  local -a counts=() busy=()
  for ((count = 1; count < $(nproc); count *= 2)); do counts+=("$count"); done
  counts+=("$(nproc)")
  host_rows() { # SUFFIX
    local -a asked=()
    for count in "${counts[@]}"; do
      asked+=("miss-cpu-$count$1:expert_cache=0.5,miss=cpu,prompt=2,new=16,runs=2,cpu_threads=$count")
    done
    for count in "${counts[@]}"; do asked+=("router-cpu-$count$1:router=cpu,prompt=2,new=40,runs=2,cpu_threads=$count"); done
    "$(program cuda_remedies_bench)" qwen3-30b-a3b:fold=16 "${asked[@]}" >> "$out/host-threads.jsonl"
  }
  host_rows ""
  for ((i = 0; i < $(nproc); ++i)); do
    while :; do :; done &
    busy+=($!)
  done
  host_rows "-busy"
  kill "${busy[@]}"
}
# On trained weights: a preset's are generated, and what a configuration does to their output means nothing.
accuracy() {
  local -a files=()
  for setting in top_k=4 top_k=1 expert_quant=int8 expert_quant=int4 "top_k=4 expert_quant=int8"; do
    local -a set=()
    for one in $setting; do set+=(--set "$one"); done
    files+=("$out/accuracy-${setting// /-}.json")
    "$(program moetune)" measure --device cpu --model tiny-moe "${set[@]}" --budget 0.5s --json > "${files[-1]}" || return 1
  done
  python3 "$(dirname "$0")/remedies.py" --compact "${files[@]}" > "$out/remedies-accuracy.json"
}

parts=("$@")
[[ ${#parts[@]} -gt 0 ]] || parts=(rows more ahead threads accuracy)
for part in "${parts[@]}"; do
  case $part in
    rows | more | ahead | threads | accuracy) "$part" || { echo "$part failed" >&2; exit 1; } ;;
    *) echo "$part: accepted are rows, more, ahead, threads, accuracy" >&2; exit 2 ;;
  esac
done
