#!/usr/bin/env bash
# Runs every test of a build folder and ends with one plain line: "N passed, N failed, N skipped".
# Single GoogleTest cases count, and so does each flow, saved fuzzer corpus and script; a test program that dies counts as
# one failure. Usage: run_tests.sh BUILD_FOLDER [ctest options]. Exit 1 when a test failed or none ran.
set -euo pipefail
build=$(cd "$1" && pwd)
shift
results=$build/test_results
rm -rf "$results"
mkdir -p "$results"
ctest_status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error --output-junit "$results/ctest.junit" "$@" || ctest_status=$?
[[ -s $results/ctest.junit ]] || { echo "no test ran in $build" >&2; exit 1; }

# attribute LINE NAME: the value of an XML attribute.
attribute() { sed -nE "s/.*[[:space:]]$2=\"([^\"]*)\".*/\1/p" <<<"$1"; }

passed=0 failed=0 skipped=0 failures=() skips=()
while IFS= read -r testcase; do
  name=$(attribute "$testcase" name)
  state=$(attribute "$testcase" status)
  xml=$results/$name.xml
  if [[ -s $xml ]]; then
    cases=$(grep -c '<testcase ' "$xml" || true)
    unrun=$(grep -cE '<testcase .*(result="skipped"|status="notrun")' "$xml" || true)
    wrong=$(attribute "$(grep -m1 '<testsuites ' "$xml")" failures)
    passed=$((passed + cases - unrun - wrong)) failed=$((failed + wrong)) skipped=$((skipped + unrun))
    [[ $wrong == 0 ]] || failures+=("$name")
    if [[ $state == fail && $wrong == 0 ]]; then  # all cases passed, then the program died (a leak report, a crash at exit)
      failed=$((failed + 1)) failures+=("$name (at exit)")
    fi
  else
    case $state in
      run) passed=$((passed + 1)) ;;
      fail) failed=$((failed + 1)) failures+=("$name") ;;
      *) skipped=$((skipped + 1)) skips+=("$name") ;;
    esac
  fi
done < <(grep '<testcase ' "$results/ctest.junit")

for name in "${skips[@]}"; do echo "skipped: $name"; done
grep -oE 'SKIPPED: .*' "$results/ctest.junit" || true  # what those lack
for name in "${failures[@]}"; do echo "failed: $name"; done
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 && $ctest_status == 0 && $passed -gt 0 ]]
