#!/usr/bin/env bash
# Where a token's time goes on a GPU, and whether losses of known size are found: bash reports/h200/tax.sh PROGRAM_FOLDER OUT_FOLDER
# PROGRAM_FOLDER: a build folder. Writes tax.txt: a row per configuration (unlike ones: six models, two number types, 1 to 32
# sequences, with and without graphs, a cache of half of the experts), with the four losses on four of them.
# About three minutes on an H200; needs CUPTI. A configuration that fails leaves its message in failed.txt and does not stop the others.
set -uo pipefail
programs=$1
out=$2
mkdir -p "$out"
bench=$programs/cuda_tax_bench
[[ -x $bench ]] || bench=$programs/tests/cuda_tax_bench
tax() { timeout 120 "$bench" "$@" >> "$out/tax.txt" 2>> "$out/failed.txt" || echo "cuda_tax_bench $* ended with $?" >> "$out/failed.txt"; }

: > "$out/tax.txt"
: > "$out/failed.txt"
tax qwen3-30b-a3b expert_quant=int4 seconds=0.4 turns=3 inject
tax deepseek-v2-lite seconds=0.4 turns=3 inject
tax tiny-moe seconds=0.2 turns=3 inject
# A step of 8 sequences differs from run to run by more than 5 % of 100 empty nodes: more of them.
tax deepseek-v2-lite seconds=0.8 turns=5 sequences=8 inject
tax tiny-moe seconds=0.3 expert_cache=0.5
tax deepseek-v2-lite:fold=13 expert_quant=int4 seconds=0.3 expert_cache=0.5
tax deepseek-v2-lite:fold=13 expert_quant=int4 seconds=0.3 expert_cache=0.5 miss=dma
tax qwen3-30b-a3b expert_quant=int4 seconds=0.6 turns=3 sequences=32
tax qwen3-30b-a3b expert_quant=int4 seconds=0.3 cuda_graph=off
tax mixtral-8x7b:layers=16 expert_quant=int4 seconds=0.3
tax olmoe-1b-7b seconds=0.3 sequences=2
tax gpt-oss-20b expert_quant=int4 seconds=0.3 sequences=4
[[ -s $out/failed.txt ]] || rm "$out/failed.txt"
