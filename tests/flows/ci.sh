#!/usr/bin/env bash
# The nightly check as a CI job sees it: verdicts, exit codes, files. Slowdowns are planted in the synthetic target, so that
# nothing depends on what this machine does meanwhile. Real runs: ci_examples.sh.
source "$(dirname "$0")/support/flow.sh"

# As many passes as a final round has; a whole minute of measuring would have sixty.
ci() { "$MOETUNE" ci --target synthetic --quiet --measuring 20s "$@"; }
planted() { echo "{\"slower\": [{\"when\": $1, \"factor\": $2}]}"; }  # settings in which these configurations are slower
field() { python3 -c "import json, sys; print(json.load(open('$1'))$2)"; }

# Without a baseline: exit 2 and the command that makes one.
expect_exit 2 ci
expect_in err.txt "baseline: no profile is given .*'moetune tune --run runs/baseline' makes one"
expect_exit 2 ci --baseline nowhere.json --model some/model
expect_in err.txt "'nowhere.json' is not there .*'moetune tune --model some/model --run runs/baseline' makes one"
expect_exit 2 ci --baseline nowhere.json --threshold 5
expect_in err.txt "a percentage such as 5%"
expect_exit 2 ci --baseline nowhere.json --retune
expect_in err.txt 'without --out'

# The whole of a small space, so that nothing depends on how far a search comes.
expect_exit 0 "$MOETUNE" tune --target synthetic --quiet --run baseline --space quick --searcher exhaustive --budget 10m
expect_exit 0 "$MOETUNE" validate baseline/profile.json
chosen=$(field baseline/profile.json "['configuration']['expert_quant']")
[[ $chosen != checkpoint ]] || fail "the synthetic target does not choose a format of its own"
is_chosen="{\"expert_quant\": \"$chosen\"}"

# Nothing changed: ok, and every file says so.
expect_exit 0 ci --baseline baseline --run night --junit ci.xml --summary ci.md --prometheus ci.prom
expect_in out.txt '^ok: tpot_ms is '
expect_in ci.md '^## moetune ci: ok'
expect_in ci.md '^\| default \|'
expect_in ci.prom '^moetune_ci_verdict\{.*verdict="ok"\} 1$'
expect_in ci.prom '^moetune_ci_slowdown_ratio\{.*role="baseline",bound="high"\}'
python3 - <<'PY' || fail "ci.xml is not what a CI server reads"
import xml.etree.ElementTree as xml
suite = xml.parse("ci.xml").getroot().find("testsuite")
assert suite.get("failures") == suite.get("errors") == "0", suite.attrib
assert int(suite.get("tests")) == len(suite.findall("testcase")) >= 5
PY
[[ $(field night/ci.json "['verdict']") == ok ]] || fail "ci.json has another verdict"

# A check is not resumed, and a folder that is taken does not send anybody looking for a way to.
expect_exit 2 ci --baseline baseline --run night
expect_in err.txt "night: is not empty .accepted: a new or empty folder; 'moetune tune --resume' goes on with a tune in it"

# The chosen configuration alone became slower: regression, exit 3, and the canaries say that it is this one.
slower=$(planted "$is_chosen" 2)
expect_exit 3 ci --baseline baseline --run slower --synthetic "$slower" --junit ci.xml --summary ci.md --prometheus ci.prom
expect_in out.txt '^regression: tpot_ms is [0-9.]+ % slower'
expect_in ci.md '^## moetune ci: regression'
expect_in ci.prom '^moetune_ci_verdict\{.*verdict="regression"\} 1$'
python3 - <<'PY' || fail "ci.xml shows no failure"
import xml.etree.ElementTree as xml
suite = xml.parse("ci.xml").getroot().find("testsuite")
assert int(suite.get("failures")) >= 1, suite.attrib
assert "slower" in suite.find("testcase/failure").get("message")
PY
# Everything became slower: the canaries say that as well.
expect_exit 3 ci --baseline baseline --run all-slower --synthetic "$(planted '{}' 1.2)" --json
python3 -c 'import json; d = json.load(open("out.txt")); assert d["verdict"] == "regression" and "The canaries are slower as well" in d["reason"], d["reason"]' ||
  fail "the reason does not say that everything is slower"
# Less than half of the threshold is no finding; another threshold finds it.
expect_exit 0 ci --baseline baseline --run slightly --synthetic "$(planted '{}' 1.018)"
expect_exit 3 ci --baseline baseline --run strict --synthetic "$(planted '{}' 1.018)" --threshold 2%
# A crash of the baseline's configuration is a regression; one of a canary is said.
expect_exit 3 ci --baseline baseline --run crash --synthetic "{\"fail\": [{\"when\": $is_chosen, \"how\": \"crash\"}]}"
expect_in out.txt '^regression: .* worked then and does not'
# A model or box that is not the profile's: stale, exit 6, nothing is measured, the field is named.
sed 's/"hash": "synthetic"/"hash": "another"/' baseline/profile.json > other.json
expect_exit 6 ci --baseline other.json --run other --summary ci.md
expect_in out.txt '^stale: .*model_hash another'
[[ ! -e other ]] || fail "something was measured against the profile of another model"
# The driver changed: nothing moved, so the choice is confirmed; it moved, so the numbers are stale.
sed -E 's/"os": "[^"]*"/"os": "Linux 1.0"/' baseline/profile.json > old.json
expect_exit 0 ci --baseline old.json --run confirmed
expect_in out.txt 'os Linux 1.0 then'
expect_exit 6 ci --baseline old.json --run moved --synthetic "$(planted '{}' 1.2)"

# The baseline's program in turns with this one: what is planted is planted in this one alone.
expect_exit 0 ci --baseline baseline --run beside --baseline-program "$MOETUNE"
tr '\n' ' ' <out.txt | grep -q "than with the baseline's program in the same passes" || fail "the verdict does not name the baseline's program"
expect_exit 3 ci --baseline baseline --run beside-slower --baseline-program "$MOETUNE" --synthetic "$(planted '{}' 1.06)"
tr '\n' ' ' <out.txt | grep -q "it is the program, not the machine" || fail "the verdict does not say what is slower"
[[ $(field beside/ci.json "['points'][0]['rounds_beside'].__len__()") -eq 20 ]] || fail "ci.json lacks its rounds"
expect_exit 2 ci --baseline baseline --run nobody --baseline-program ./nowhere
expect_in err.txt "baseline-program: './nowhere' is not there"
expect_exit 2 ci --baseline baseline --run stranger --baseline-program "$(command -v true)"
expect_in err.txt "baseline-program: '.*true'"

# GitHub: annotations on stdout, the summary appended to the job's.
echo "# earlier step" > step.md
GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=step.md expect_exit 3 ci --baseline baseline --run github --synthetic "$slower" --summary step.md
expect_in out.txt '^::error title=moetune ci regression::synthetic, workload chat: tpot_ms is'
expect_in step.md '^# earlier step'
expect_in step.md '^## moetune ci: regression'

# --retune: only the knob whose effect moved is searched again; profile and diff are ready to commit.
expect_exit 3 ci --baseline baseline --run again --synthetic "$slower" --retune --out new.json
expect_in out.txt '^Searched again: .*expert_quant'
expect_exit 0 "$MOETUNE" validate new.json
[[ $(field new.json "['configuration']['expert_quant']") != "$chosen" ]] || fail "the slower format was chosen again"
expect_in new.json.diff.md '^\| `expert_quant` \|'
expect_in new.json.diff.md '^\| metric \| before \| after \| change \|'
expect_exit 0 ci --baseline baseline --run unmoved --retune --out same.json
expect_in out.txt '^Nothing is searched again: no knob acts otherwise than it did'
expect_in same.json.diff.md '^The configuration is the same'
[[ ! -e unmoved-retune ]] || fail "something was searched although nothing moved"
expect_exit 0 ci --baseline same.json --run next-night

# Too few rounds for an interval, as a short budget leaves them: said before anything is measured, and what ends it.
python3 - <<'PY'
import json
profile = json.load(open("baseline/profile.json"))
for part in (profile, profile["default"], profile.get("runner_up") or {}):
    if "rounds" in part: part["rounds"] = part["rounds"][:3]
profile["final_round"]["passes"] = 3
json.dump(profile, open("short.json", "w"))
PY
expect_exit 5 ci --baseline short.json --run short --retune --out enough.json
expect_in err.txt 'the baseline holds 3 rounds of its final round and 6 are the fewest'
tr '\n' ' ' <out.txt | grep -q 'so that no knob.s effect can be judged' || fail "knobs are called unmoved although nothing was compared"
expect_exit 0 ci --baseline enough.json --run after-short

# A search in which nothing had a chance beside the default leaves a profile that can be checked all the same.
expect_exit 0 "$MOETUNE" tune --target synthetic --quiet --run alone --max-trials 1
expect_in alone/report.md 'measured again alone: 20 passes'
[[ $(field alone/profile.json "['rounds'].__len__()") -eq 20 ]] || fail "the profile of the default alone holds no rounds"
expect_exit 0 ci --baseline alone --run alone-night
expect_exit 3 ci --baseline alone --run alone-slower --synthetic "$(planted '{}' 1.2)"

# --budget: a whole search that begins with the baseline's front.
expect_exit 0 ci --baseline baseline --run whole --budget 10m --out whole.json
python3 - <<'PY' || fail "the search does not begin with the baseline's front"
import json
front = [point["configuration"] for point in json.load(open("baseline/profile.json"))["front"]]
lines = [json.loads(line) for line in open("whole/trials.jsonl")]
trials = [line["configuration"] for line in lines if "final_round" not in line]
assert all(point in trials[:len(front) + 3] for point in front), (front, trials)
assert len(trials) == 48, "the search did not go on to the end of the space: %d" % len(trials)
PY
expect_exit 0 "$MOETUNE" validate whole.json
