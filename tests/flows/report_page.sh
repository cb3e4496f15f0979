#!/usr/bin/env bash
# report.html in headless Chromium: no console message, no request, filters, axes, picking, keyboard, sizes, paper.
# $MOETUNE_SCREENSHOTS: a folder that keeps the pictures, to be looked at.
# flow: unsanitized
source "$(dirname "$0")/support/flow.sh"

python=/usr/bin/python3  # Debian's, which sees Debian's selenium
have_browser() { command -v chromium && command -v chromedriver && "$python" -c 'import selenium'; }
have_browser >/dev/null 2>&1 ||
  skip "report_page: report.html was not opened in a browser: chromium, chromium-driver or python3-selenium is missing (cmake/install_packages.sh page)"

"$MOETUNE" tune --target synthetic --quiet --run small --max-trials 40 >/dev/null 2>&1 || fail "no small run"
# Where the time of the front goes is recorded after the search, as on a GPU; one more is refused.
"$MOETUNE" tune --target synthetic --quiet --run recorded --max-trials 12 --synthetic '{"records_apart": true}' >/dev/null 2>&1 || fail "no recorded run"
"$python" - <<'PY' || fail "nothing was recorded"
import json, zlib
lines = [json.loads(line) for line in open("recorded/trials.jsonl")]
recorded = [line["trial"] for line in lines if line.get("recording")]
assert recorded and json.load(open("recorded/profile.json"))["trial"] == recorded[0], recorded
assert "tax_token_ms" in json.load(open("recorded/profile.json"))["evidence"], "the profile holds no tax"
other = next(line for line in lines if line["trial"] not in recorded and "final_round" not in line)
body = json.dumps({**other, "recording": True, "metrics": {}, "reason": "made up: 1.21 times as long"}, separators=(",", ":"), sort_keys=True)
body = json.dumps({key: value for key, value in json.loads(body).items() if key != "checksum"}, separators=(",", ":"))[:-1]
open("recorded/trials.jsonl", "a").write(f'{body},"checksum":"{zlib.crc32(body.encode()):08x}"}}\n')
PY
"$MOETUNE" validate recorded >/dev/null || fail "a recording is not valid"
"$MOETUNE" report recorded --quiet >/dev/null 2>&1 || fail "no report of the recorded run"

"$MOETUNE" tune --target synthetic --quiet --run large --space full --searcher random --max-trials 2000 --budget 2h >/dev/null 2>&1 ||
  fail "no large run"
[[ $(stat -c %s large/report.html) -lt 3000000 ]] || fail "2,000 trials make a page of $(stat -c %s large/report.html) bytes"

# Names that would break out of HTML, JSON or a shell, if anything could.
cp -r small hostile
"$python" - <<'PY'
import json
hostile = "</script><script>window.hit=1</script>\"'><img src=x onerror=window.hit=1>\n$(id)"
request = json.load(open("hostile/request.json"))
request["model"] = request["workload"] = hostile
request["command"] = ["moetune", "tune", "--model", hostile]
json.dump(request, open("hostile/request.json", "w"))
json.dump({**json.load(open("hostile/hardware.json")), "cpu_name": hostile}, open("hostile/hardware.json", "w"))
PY
"$MOETUNE" report hostile --json >/dev/null 2>&1 || fail "no report of the hostile run"

# A profile's workload has a plain name, or it is refused; the model may be called anything.
"$python" - <<'PY'
import json
profile = json.load(open("hostile/profile.json"))
profile["workload"]["name"] = "chat"
json.dump(profile, open("hostile/profile.json", "w"))
PY
"$MOETUNE" compare hostile --usd-per-hour 2.5 --html compare.html --quiet >/dev/null 2>&1 || fail "no comparison"

"$python" "$MOETUNE_SOURCE_DIR/tests/flows/support/report_page.py" "$PWD" "${MOETUNE_SCREENSHOTS:-}" || fail "the page does not do what it should"
