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

"$MOETUNE" compare hostile --usd-per-hour 2.5 --html compare.html --quiet >/dev/null 2>&1 || fail "no comparison"

"$python" "$MOETUNE_SOURCE_DIR/tests/flows/support/report_page.py" "$PWD" "${MOETUNE_SCREENSHOTS:-}" || fail "the page does not do what it should"
