#!/usr/bin/env bash
# Checks the #include lines of the source tree against the layer rule (README, "Layout"): arrows point down only.
# First it plants one violation of each rule in a scratch tree and insists that each is reported, then it reads the real tree.
# Usage: layering_test.sh [source folder]. Start at `judge`.
set -euo pipefail
source_dir=$(cd "${1:-${MOETUNE_SOURCE_DIR:-$(dirname "$0")/..}}" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Prints one line per violation in the tree $1.
judge() {
  (cd "$1" && find kernels engine tuner -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 2>/dev/null |
    xargs -0 -r grep -HnE '^[[:space:]]*#[[:space:]]*include' || true) | awk -v root="$1" '
    function complain(why) { printf "%s:%s: %s %s\n", file, line, included, why }
    function starts(text, prefix) { return index(text, prefix) == 1 }
    function exists(path,   line_read, status) { status = (getline line_read < path); close(path); return status >= 0 }
    BEGIN { number_type = "kernels/number_type.h" }  # needs the standard library only: the one word shared by all layers
    {
      split($0, parts, ":"); file = parts[1]; line = parts[2]
      if (!match($0, /["<][^">]+[">]/)) next
      included = substr($0, RSTART, RLENGTH); name = substr(included, 2, length(included) - 2)
      quoted = substr(included, 1, 1) == "\""

      is_cuda_code = starts(file, "kernels/cuda/") || file ~ /\.cuh?$/
      if (!quoted && name ~ /^(cuda|cublas|cudnn|curand|nccl|nvml|cupti|nvtx|cub\/|thrust\/|cooperative_groups|mma\.h)/) {
        if (!is_cuda_code) complain("only kernels/cuda/ and .cu files include CUDA")
        next
      }
      if (!quoted) {
        if (starts(file, "engine/facts/") && name !~ /^[a-z_]+$/) complain("engine/facts uses itself and the standard library only")
        if (starts(file, "tuner/") && name ~ /^(tbb\/|oneapi\/|hwy\/)/) complain("the tuner has no kernels of its own")
        next
      }
      if (name == "moetune/build_info.h") {
        if (!starts(file, "engine/facts/") && !starts(file, "kernels/") && file ~ /\.cpp$/) next
        complain("build_info.h is for .cpp files above engine/facts"); next
      }
      # Headers of Highway stand in quotes: foreach_target.h includes the file again by name.
      if (starts(name, "hwy/")) { if (!starts(file, "kernels/simd/")) complain("vector code belongs to kernels/simd/"); next }
      if (!exists(root "/" name)) { complain("is not a path from the repository root"); next }
      if (name ~ /\.(cpp|cu)$/) { complain("is not a header"); next }
      if (starts(name, "tests/")) { complain("belongs to the tests"); next }
      if (starts(name, "kernels/cuda/") && !is_cuda_code) { complain("only kernels/cuda/ and .cu files include device code"); next }

      if (starts(file, "kernels/")) ok = starts(name, "kernels/")
      else if (starts(file, "engine/facts/")) ok = starts(name, "engine/facts/") || name == number_type
      else if (starts(file, "engine/")) ok = starts(name, "engine/") || starts(name, "kernels/")
      else if (starts(file, "tuner/targets/")) ok = !starts(name, "tuner/commands/")
      else if (starts(file, "tuner/commands/") || file == "tuner/main.cpp") ok = 1
      else ok = starts(name, "engine/facts/") || name == number_type || (starts(name, "tuner/") && name !~ /^tuner\/(targets|commands)\//)
      if (!ok) complain("points up or skips the seam")
    }'
}

# plant FILE INCLUDE: writes FILE with that include line into the scratch tree, and the included file beside it.
plant() {
  local name=${2:1:-1}
  mkdir -p "$scratch/$(dirname "$1")" "$scratch/$(dirname "$name")"
  [[ $2 == '"'* && $name != missing/* ]] && touch "$scratch/$name"
  echo "#include $2" > "$scratch/$1"
}

missed=0
while read -r verdict file include; do
  rm -rf "${scratch:?}"/*
  plant "$file" "$include"
  found=$(judge "$scratch")
  if [[ $verdict == bad && -z $found ]]; then echo "planted violation not reported: $file includes $include"; missed=1; fi
  if [[ $verdict == good && -n $found ]]; then echo "allowed include reported: $found"; missed=1; fi
done <<'CASES'
bad  kernels/a.cpp            "engine/facts/b.h"
bad  kernels/a.h              <cuda_runtime.h>
bad  kernels/a.cpp            "kernels/cuda/b.cuh"
bad  kernels/a.cpp            "tuner/b.h"
bad  engine/facts/a.h         "engine/b.h"
bad  engine/facts/a.h         <fmt/core.h>
bad  engine/facts/a.cpp       "moetune/build_info.h"
bad  engine/a.cpp             "tuner/b.h"
bad  engine/a.cpp             "kernels/cuda/b.h"
bad  engine/a.cpp             <nccl.h>
bad  engine/a.cpp             "missing/b.h"
bad  engine/a.h               "moetune/build_info.h"
bad  tuner/a.cpp              "engine/b.h"
bad  tuner/a.cpp              "kernels/b.h"
bad  tuner/a.cpp              "tuner/targets/b.h"
bad  tuner/report/a.cpp       "tuner/commands/b.h"
bad  tuner/searchers/a.cpp    <hwy/highway.h>
bad  tuner/targets/a.cpp      "tuner/commands/b.h"
bad  tuner/commands/a.cpp     "tests/support/b.h"
bad  engine/a.cpp             "kernels/b.cpp"
bad  engine/a.cpp             "hwy/highway.h"
good kernels/simd/a.cpp       "hwy/highway.h"
good kernels/a.cu             <cuda_runtime.h>
good kernels/a.cu             "kernels/cuda/b.cuh"
good kernels/cuda/a.h         <cublas_v2.h>
good kernels/a.cpp            "kernels/b.h"
bad  engine/facts/a.h         "kernels/tensor.h"
bad  tuner/a.h                "kernels/number_type_b.h"
good engine/facts/a.h         <string_view>
good engine/facts/a.h         "kernels/number_type.h"
good tuner/a.h                "kernels/number_type.h"
good engine/a.cpp             "kernels/b.h"
good engine/a.cpp             "moetune/build_info.h"
good tuner/a.cpp              "engine/facts/b.h"
good tuner/searchers/a.cpp    "tuner/b.h"
good tuner/targets/a.cpp      "engine/b.h"
good tuner/commands/a.cpp     "tuner/targets/b.h"
good tuner/main.cpp           "tuner/commands/b.h"
CASES
[[ $missed == 0 ]] || exit 1

violations=$(judge "$source_dir")
if [[ -n $violations ]]; then
  echo "$violations"
  exit 1
fi
count=$(cd "$source_dir" && find kernels engine tuner -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) 2>/dev/null | wc -l)
[[ $count -gt 0 ]] || { echo "no source file below $source_dir"; exit 1; }
echo "layering: $count files, no violation"
