#!/usr/bin/env bash
# Measures what stands beside this file, on a machine with a GPU: bash reports/h200/run.sh PROGRAM_FOLDER OUT_FOLDER
# PROGRAM_FOLDER holds moetune and cuda_layer_bench. Takes about two minutes on an H200, most of it making weights.
set -euo pipefail
programs=$1
out=$2
mkdir -p "$out"

# One layer of decoding, op by op: microseconds, bytes, share of the card's read rate.
{
  "$programs/cuda_layer_bench" qwen3 v2lite gptoss type=bf16,int8,int4,mxfp4 tokens=1 layers=16
  "$programs/cuda_layer_bench" mixtral type=bf16,int4 tokens=1 layers=6
  "$programs/cuda_layer_bench" qwen3 type=bf16,int4 tokens=8,32 layers=16
} > "$out/layers.txt"

# The same by the program itself, and whole layers of every shape it knows a preset of: decoding, and a prompt of 512 tokens.
for model in qwen3-30b-a3b mixtral-8x7b deepseek-v2-lite gpt-oss-120b; do
  "$programs/moetune" measure --op all --device cuda --model "$model" --tokens 1,8,32 --json > "$out/ops-$model.json" 2> /dev/null
  "$programs/moetune" measure --op moe,attention,layer --prompt --device cuda --model "$model" --tokens 512 --json > "$out/ops-prompt-$model.json" 2> /dev/null
done

# One MoE layer against PyTorch's in the same run. Needs python3 with torch.
python3 "$(dirname "$0")/moe_layer_vs_torch.py" "$programs/moetune" --out "$out/moe_layer_vs_torch.tsv"

# Whole models, workload chat (512 + 128 tokens; tiny-moe a quarter of that).
for model in tiny-moe qwen3-30b-a3b deepseek-v2-lite mixtral-8x7b; do
  "$programs/moetune" measure --device cuda --model "$model" --budget 5s --json > "$out/measure-$model.json" 2> "$out/measure-$model.log" ||
    echo "measure $model ended with $?" >> "$out/measure-$model.log"
done
"$programs/moetune" measure --device cuda --model qwen3-30b-a3b --set expert_quant=int4 --budget 5s --json > "$out/measure-qwen3-30b-a3b-int4.json" 2> "$out/measure-qwen3-30b-a3b-int4.log"

"$programs/moetune" tune --device cuda --budget 60s --max-trials 12 --run "$out/tune-tiny-moe" > "$out/tune-tiny-moe.txt" 2>&1
rm -rf "$out/tune-tiny-moe"
