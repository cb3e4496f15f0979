# Sourced first by every flow (tests/flows/*.sh). Moves into an empty scratch folder that is removed afterwards and offers
# expect_exit, expect_in, fail and skip. $MOETUNE is the program, $MOETUNE_SOURCE_DIR the source tree; ctest sets both.
# A flow may carry these lines for ctest: "# flow: serial" (measures time: nothing else may run beside it),
# "# flow: timeout=SECONDS" (default 900), "# flow: unsanitized" (skipped where sanitizers slow the program down).
set -euo pipefail
: "${MOETUNE:?path of the moetune program}" "${MOETUNE_SOURCE_DIR:?path of the source tree}"

flow_scratch=$(mktemp -d)
trap 'rm -rf "$flow_scratch"' EXIT
cd "$flow_scratch"

fail() { echo "FAILED: $*" >&2; exit 1; }
skip() { echo "SKIPPED: $*" >&2; exit 77; }
[[ -x $MOETUNE ]] || fail "no program at $MOETUNE"

# expect_exit CODE COMMAND...: runs it, keeps its output in out.txt and err.txt, insists on the exit code.
expect_exit() {
  local wanted=$1 got=0
  shift
  "$@" >out.txt 2>err.txt </dev/null || got=$?
  if [[ $got != "$wanted" ]]; then
    tail -n 20 out.txt err.txt >&2
    fail "exit code $got, not $wanted: $*"
  fi
}

# expect_in FILE PATTERN: FILE holds a line that matches the extended regular expression.
expect_in() {
  grep -qE -- "$2" "$1" || { tail -n 20 "$1" >&2; fail "no line of $1 matches: $2"; }
}
