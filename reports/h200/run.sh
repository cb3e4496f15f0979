#!/usr/bin/env bash
# Measures what stands beside this file, on a machine with a GPU: bash reports/h200/run.sh PROGRAM_FOLDER OUT_FOLDER
# PROGRAM_FOLDER holds moetune, decode_bench and the cuda_*_bench programs. Takes three to four minutes on an H200. Needs python3 with torch for
# the comparison with PyTorch; the file says so where there is none. A part that fails leaves its message in OUT_FOLDER/failed.txt
# and does not stop the others.
set -uo pipefail
programs=$1
out=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed() { echo "$1 ended with $2" | tee -a "$out/failed.txt" >&2; }

# One layer of decoding, op by op: microseconds, bytes, share of the card's read rate.
{
  "$programs/cuda_layer_bench" qwen3 v2lite gptoss type=bf16,int8,int4,mxfp4 tokens=1 layers=16 &&
    "$programs/cuda_layer_bench" mixtral type=bf16,int4 tokens=1 layers=6 &&
    "$programs/cuda_layer_bench" qwen3 type=bf16,int4 tokens=8,32,64 layers=8
} > "$out/layers.txt" || failed layers $?

# Decode attention of one layer at long contexts, with its cache in every type.
{
  "$programs/cuda_attention_bench" qwen3 v2lite v3 sequences=1,32 context=512,32768 &&
    "$programs/cuda_attention_bench" qwen3 v2lite sequences=1,32 context=32768 type=fp8,int8
} > "$out/attention.txt" || failed attention $?

# One layer of a prompt, on the best and on the portable kernels.
{
  "$programs/cuda_prefill_bench" qwen3 mixtral tokens=64,512,4096 type=bf16,int4 layers=2 path=best &&
    "$programs/cuda_prefill_bench" v3 tokens=64,4096 type=bf16 layers=1 path=best &&
    "$programs/cuda_prefill_bench" qwen3 tokens=4096 type=bf16 layers=1 path=portable
} > "$out/prompts.txt" || failed prompts $?

# Dense products by the own kernels, by cuBLAS with weights copied out of their tiles, and by cuBLAS alone: where one overtakes the
# other (kernels/dense_choice.cpp).
{
  "$programs/cuda_cublas_bench" all &&
    "$programs/cuda_cublas_bench" qwen3:o mixtral:qkv v3:q_a+kv_a types=int4,int8,fp8 tokens=128,512,1024,4096 &&
    "$programs/cuda_cublas_bench" qwen3:o mixtral:qkv "v3:shared ffn" "llama3:ffn" path=portable tokens=128,1024,4096
} > "$out/cublas.txt" || failed cublas $?

# What one step of 1 and of 32 sequences reads, and the ops of a layer by the program itself.
"$programs/moetune" measure --op all --device cuda --model qwen3-30b-a3b --tokens 1,32 --context 544 --runs 7 --json > "$out/ops-qwen3-30b-a3b.json" 2> /dev/null || failed ops $?

# Whole models. measure NAME MODEL [options]
measure() {
  local name=$1 model=$2
  shift 2
  "$programs/moetune" measure --device cuda --model "$model" --json "$@" > "$out/measure-$name.json" 2> "$work/log" ||
    { failed "measure $name" $?; tail -n 3 "$work/log" >> "$out/failed.txt"; }
}
workload() {  # NAME PROMPT OUTPUT SEQUENCES
  echo "{\"name\": \"$1\", \"prompt_tokens\": $2, \"output_tokens\": $3, \"sequences\": $4}" > "$work/$1.json"
}
workload prompt_2048 2048 2 1
workload prompt_4096 4096 2 1
measure tiny-moe tiny-moe --budget 0.7s
for model in qwen3-30b-a3b deepseek-v2-lite mixtral-8x7b; do
  measure $model $model --budget 0.7s
  measure $model-int4 $model --budget 0.7s --set expert_quant=int4
done
measure qwen3-24-layers qwen3-30b-a3b:layers=24 --budget 0.7s
measure qwen3-24-layers-int4 qwen3-30b-a3b:layers=24 --budget 0.7s --set expert_quant=int4 --set dense_quant=int4
measure qwen3-24-layers-prompt qwen3-30b-a3b:layers=24 --budget 0.7s --workload "$work/prompt_2048.json"
measure qwen3-24-layers-int4-prompt qwen3-30b-a3b:layers=24 --budget 0.7s --workload "$work/prompt_2048.json" --set expert_quant=int4 --set dense_quant=int4
measure mixtral-8x7b-prompt mixtral-8x7b --budget 0.7s --workload "$work/prompt_4096.json"

# A step of 32 sequences, 512 to 576 tokens of context each. Not from measure, whose time per token counts what the prompts of
# other sequences delay.
"$programs/decode_bench" qwen3-30b-a3b device=cuda sequences=32 prompt=512 new=64 runs=4 > "$out/steps.txt" 2> "$work/log" ||
  { failed steps $?; tail -n 3 "$work/log" >> "$out/failed.txt"; }

"$programs/moetune" tune --device cuda --budget 20s --max-trials 6 --run "$work/tune" > "$out/tune-tiny-moe.txt" 2>&1 || failed tune $?

# One MoE layer against PyTorch's in the same run.
python3 "$here/moe_layer_vs_torch.py" "$programs/moetune" --runs 6 --out "$out/moe_layer_vs_torch.tsv" > /dev/null || failed moe_layer_vs_torch $?
