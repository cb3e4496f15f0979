#!/usr/bin/env bash
# Tests and measures the expert cache on a machine with a GPU:
#   bash reports/h200/run_cache.sh PROGRAM_FOLDER OUT_FOLDER [PART ...]
# PROGRAM_FOLDER: a build folder. Parts, in this order where none is named: tests link qwen3 policies v3 v2lite
# mixtral gptoss half ahead router trace. A figure of a cache that gives other logits is worth nothing: tests that fail or are skipped end the script.
# Any other part that fails leaves its message in OUT_FOLDER/failed.txt and does not stop the rest. Estimated from bytes
# over link rate, the longest part, v3, takes three minutes.
set -uo pipefail
programs=$1
out=$2
shift 2
mkdir -p "$out"
failed() { echo "$1 ended with $2" | tee -a "$out/failed.txt" >&2; }
program() { if [[ -x $programs/$1 ]]; then echo "$programs/$1"; else echo "$programs/tests/$1"; fi; }

# Is it right? Lookup and fetch against the CPU ops, slots and waves under the fused kernels, logits bit for bit.
tests() {
  local log=$out/cache-tests.txt
  : > "$log"
  "$(program kernels_tests)" --gtest_filter='CudaSlotLookup.*:CudaChangeRoute.*:CudaGraphPieces.*:*ExpertsInSlotsAndWaves' >> "$log" 2>&1 &&
    "$(program engine_tests)" --gtest_filter='*CudaCache*:*CudaMemory*' >> "$log" 2>&1 &&
    ! grep 'SKIPPED' "$log" && return
  failed tests 1
  tail -n 20 "$log" >&2
  exit 1
}

# The link (asked for from 4 MB on: dma 49.5 GB/s, pull 46 GB/s), the lookup, and one miss by every way of handling it:
# where dma, pull and cpu cross, by model.
link() {
  "$(program cuda_cache_bench)" link lookup > "$out/cache-link.txt" || failed link $?
  "$(program cuda_cache_bench)" miss threads=1,2,4,8,16 > "$out/cache-miss.txt" || failed miss $?
}

by_size() { # NAME MODEL arguments: milliseconds per token by cache size, against resident + load
  local name=$1
  shift
  "$(program cuda_cache_size_bench)" "$@" > "$out/cache-$name.txt" 2>> "$out/failed.txt" || failed "$name" $?
}
# Folds are such that at most 16 GiB are pinned. Prompts are short where an expert is large: they stream all they use.
qwen3() { by_size qwen3 qwen3-30b-a3b:fold=4 sizes=0.9,0.75,0.5,0.25,0.125 miss=pull,dma,cpu runs=3 prompt=64; }
policies() {
  for policy in lru lfu pinned; do
    by_size "qwen3-$policy" qwen3-30b-a3b:fold=4 sizes=0.75,0.5,0.25 policy=$policy runs=3 prompt=64
  done
  by_size qwen3-32-sequences qwen3-30b-a3b:fold=4 sizes=0.5 miss=pull,dma sequences=32 runs=2 prompt=64 new=32
}
v3() { by_size v3 deepseek-v3:fold=58 sizes=0.14,0.11,0.08,0.06,0.04 miss=pull,dma runs=3 prompt=4 new=16; }
v2lite() { by_size v2lite deepseek-v2-lite:fold=2 sizes=0.98,0.95,0.75,0.5 miss=pull,dma,cpu runs=3 prompt=64; }
mixtral() { by_size mixtral mixtral-8x7b:fold=6 sizes=0.75,0.5,0.25 miss=pull,dma,cpu runs=3 prompt=16 new=16; }
gptoss() { by_size gptoss gpt-oss-120b:fold=5 sizes=0.75,0.5,0.25 miss=pull,dma,cpu runs=3 prompt=16 new=32; }
# Half of the experts of 24 layers, all weights int4. Asked for: at least five times as fast as llama.cpp with half of its
# expert layers on the CPU, 14.7 ms.
half() {
  by_size qwen3-24-layers-int4-half qwen3-30b-a3b:layers=24 sizes=0.5 miss=pull,dma,cpu expert_quant=int4 dense_quant=int4
}
# What is brought in before it is asked for, by who guesses it; without a guess: qwen3.
ahead() {
  for prefetch in repeat next_gate; do
    by_size "qwen3-$prefetch" qwen3-30b-a3b:fold=4 sizes=0.75,0.5 miss=pull,dma runs=3 prompt=64 prefetch=$prefetch
  done
}
# The router on the host beside the same model with its router on the GPU.
router() {
  by_size router-gpu qwen3-30b-a3b:fold=4 sizes=1 runs=3 prompt=64
  by_size router-cpu qwen3-30b-a3b:fold=4 sizes=1 runs=3 prompt=64 router=cpu
}
# What a trace predicts of three sizes that it then measures: hit rates within 0.2 points, steps within 5 %.
trace() {
  echo '{"name": "chat", "prompt_tokens": 64, "output_tokens": 32, "sequences": 1}' > "$out/short.json"
  "$(program moetune)" trace --device cuda --model deepseek-v2-lite:fold=13 --set expert_quant=int4 --workload "$out/short.json" \
    --sequences 2 --json --quiet --space-out "$out/traced-space.json" > "$out/trace.json" 2>> "$out/failed.txt" || { failed trace $?; return; }
  python3 "$(dirname "$0")/misses.py" --compact "$out/trace.json" > "$out/trace-v2lite-int4.json"
  rm -f "$out/trace.json" "$out/short.json"
}

parts=("$@")
[[ ${#parts[@]} -gt 0 ]] || parts=(tests link qwen3 policies v3 v2lite mixtral gptoss half ahead router trace)
for part in "${parts[@]}"; do
  case $part in
    tests | link | qwen3 | policies | v3 | v2lite | mixtral | gptoss | half | ahead | router | trace) "$part" ;;
    *) echo "$part: accepted are tests, link, qwen3, policies, v3, v2lite, mixtral, gptoss, half, ahead, router, trace" >&2; exit 2 ;;
  esac
done
