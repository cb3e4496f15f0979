#!/usr/bin/env bash
# Every source lies as .clang-format wants it (make format writes it so). First a badly written file must be reported.
# Usage: format_test.sh [source folder]; exit 77 where clang-format-19, whose layout it is, is not installed.
set -euo pipefail
cd "${1:-${MOETUNE_SOURCE_DIR:-$(dirname "$0")/..}}"
format=$(command -v clang-format-19) || { echo "SKIPPED: no clang-format-19 here, so the layout of the sources is not checked"; exit 77; }
complaints() { "$format" --dry-run "$@" 2>&1 | sed -nE "s/^([^:]+:[0-9]+):[0-9]+: .*\[-Wclang-format-violations\]$/\1/p"; }

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
cp .clang-format "$planted"
printf 'int  badly( int written ) ;\n' > "$planted/planted.cpp"
[[ -n $(complaints "$planted/planted.cpp") ]] || { echo "a badly written file is not reported"; exit 1; }

export format
export -f complaints
# Not git ls-files: a source archive has no repository.
found=$(find kernels engine tuner tests -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -n 40 -P 2 bash -c 'complaints "$@"' complaints | sort -u -t: -k1,1)
[[ -z $found ]] || { echo "not as .clang-format wants it (make format), the first line of each file:"; echo "$found"; exit 1; }
