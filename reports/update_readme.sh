#!/usr/bin/env bash
# Puts the recorded output of a real `make tune` (reports/samples/tune_cpu.txt) between the sample markers of README.md.
# With --check it changes nothing: exit 0 when they agree, 1 when not, 77 while no output was recorded.
set -euo pipefail
cd "$(dirname "$0")/.."
sample=reports/samples/tune_cpu.txt
[[ -s $sample ]] || { echo "$sample is missing: record it with: make tune | tee $sample" >&2; exit 77; }

updated=$(mktemp)
trap 'rm -f "$updated"' EXIT
awk -v sample="$sample" '
  /^<!-- sample end -->$/ {inside = 0; found++}
  !inside {print}
  /^<!-- sample begin/ {
    inside = 1; found++
    print "```text"
    # The table of the front is left out: the plot shows it, and the verdict belongs on the first screen.
    while ((getline line < sample) > 0) {
      if (line ~ /^\[[0-9]+\/[0-9]+\] /) continue  # what the build printed first
      if (line ~ /^  trial /) { in_table = 1; print "  (the front as a table)" }
      if (line == "") in_table = 0
      if (!in_table) print line
    }
    print "```"
  }
  END {exit found == 2 ? 0 : 1}' README.md >"$updated" || { echo "README.md lacks its two sample markers" >&2; exit 1; }

if [[ ${1:-} == --check ]]; then
  diff -u README.md "$updated" || { echo "README.md differs from $sample: run reports/update_readme.sh" >&2; exit 1; }
else
  cat "$updated" >README.md
fi
