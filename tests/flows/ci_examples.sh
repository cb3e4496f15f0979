#!/usr/bin/env bash
# The example workflows do what they say: their command lines are taken out of the files and run, on the small model for
# GitHub and on the synthetic target for GitLab, with little time.
source "$(dirname "$0")/support/flow.sh"
examples=$MOETUNE_SOURCE_DIR/.ci/examples

# Command lines of a workflow, in order: "run: ..." of GitHub, "- ..." below a script of GitLab; building is left out.
github_lines() { sed -nE 's/^ *run: (.*)$/\1/p' "$examples/github-actions.yml" | grep -v '^make '; }
gitlab_lines() { sed -nE '/^ *(script|after_script|before_script):$/,/^ *[a-z_]+:.*[^ ]/s/^ *- (.*)$/\1/p' "$examples/gitlab-ci.yml" | grep -v '^make '; }

# No value of the files is needed that this test does not set.
for file in "$examples"/*.yml; do
  grep -q '^# tests/flows/ci_examples.sh runs' "$file" || fail "$file does not say that it is tested"
  [[ $(grep -c 'MOETUNE ci --baseline' "$file") -eq 1 ]] || fail "$file does not hold one check"
done

# run_lines NAME: each line of stdin by a shell; the check may end with the exit codes that $accepted lists.
run_lines() {
  local line code count=0
  while IFS= read -r line; do
    count=$((count + 1)) code=0
    echo "$line" > "$1-$count.txt"
    bash -c "$line" >out.txt 2>err.txt </dev/null || code=$?
    if [[ $line == *" ci --baseline"* ]]; then
      [[ " $accepted " == *" $code "* ]] || { tail -n 20 out.txt err.txt >&2; fail "$1: exit code $code, not one of $accepted: $line"; }
    else
      [[ $code -eq 0 ]] || { tail -n 20 out.txt err.txt >&2; fail "$1: exit code $code: $line"; }
    fi
  done
  [[ $count -eq 2 ]] || fail "$count lines of $1, not a check and a history"
}

export BASELINE=profile.json
export MODEL=tiny-moe CHECK_ARGS="--target synthetic"
expect_exit 0 "$MOETUNE" tune --target synthetic --quiet --run baseline --max-trials 12
cp baseline/profile.json profile.json
accepted=0 run_lines gitlab < <(gitlab_lines)
expect_in ci.md '^## moetune ci: ok'
expect_in history.md '^### tpot_ms'
[[ -s ci.xml && -s moetune.prom && -s new-profile.json && -s new-profile.json.diff.md ]] || fail "files of the GitLab example are missing"

# The real engine. How busy this machine is decides between ok and indeterminate; with a threshold that no mood of a machine
# reaches, a regression it is not, unless somebody waits in every layer.
rm -rf runs baseline ci.xml moetune.prom history.md new-profile.json*
# One expert of eight is faster on every machine in every mood: there is a final round, whose rounds the check compares with.
cat > space.json <<'JSON'
{"name": "two", "parameters": [{"name": "top_k", "kind": "ordinal", "values": [1, 8]}]}
JSON
export CHECK_ARGS="--measuring 2s --threshold 100%" GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=step.md
expect_exit 0 "$MOETUNE" tune --quiet --run baseline --space ./space.json --searcher exhaustive --gate none --timing 0.2s --budget 10m
cp baseline/profile.json profile.json
accepted="0 5" run_lines github < <(github_lines)
expect_in step.md '^## moetune ci: (ok|indeterminate)'
expect_in history.md '^### tpot_ms'
[[ -s ci.xml && -s moetune.prom ]] || fail "files of the GitHub example are missing"

# Who waits in every layer is slower than the same program in the same passes, however busy the machine was when the profile was
# made, and by far more than a machine that changes its pace for seconds.
expect_exit 3 "$MOETUNE" ci --quiet --baseline profile.json --run delayed --measuring 1s --baseline-program "$MOETUNE" --inject-delay 3ms --beside-other-work
expect_in out.txt '^regression: tpot_ms is [0-9.]+ % slower'
expect_in err.txt 'every layer waits 3 ms longer'
