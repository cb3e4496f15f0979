#!/usr/bin/env bash
# compare as a user sees it: three boxes of one study, figures that are recomputed here from the trial logs, what is not
# comparable, prices, boxes of the catalogue as predicted, and files.
source "$(dirname "$0")/support/flow.sh"

# Three runs of the synthetic target; each then says that it was measured on another box, which decides its price.
devices=("NVIDIA H100 80GB HBM3" "NVIDIA H200" "Some Other GPU")
for i in 0 1 2; do
  "$MOETUNE" tune --target synthetic --quiet --run run$i --max-trials $((14 + 8 * i)) --seed $((i + 1)) >/dev/null 2>&1 || fail "no run $i"
  python3 - "run$i/hardware.json" "${devices[$i]}" <<'PY'
import json, sys
hardware = json.load(open(sys.argv[1]))
hardware.update(device=sys.argv[2], gpu_count=1, idle_watts=80.0)
json.dump(hardware, open(sys.argv[1], "w"))
PY
  expect_exit 0 "$MOETUNE" report run$i --quiet
done
cat > prices.json <<'JSON'
{"schema": 1, "usd_per_kwh": 0.28, "boxes": [
  {"device": "NVIDIA H100 80GB HBM3", "usd_per_hour": 2.5, "buy_usd": 26000, "watts": 900, "source": "a quote", "date": "2026-11-01"},
  {"device": "nvidia h200", "usd_per_hour": 9.25, "buy_usd": 34000, "watts": 950, "source": "a quote", "date": "2026-11-01"},
  {"device": "Some Other GPU", "usd_per_hour": 1.1, "source": "a quote", "date": "2026-11-01"}]}
JSON
expect_exit 0 "$MOETUNE" validate prices.json
expect_in out.txt 'prices of 3 boxes'

expect_exit 0 "$MOETUNE" compare run0 run1/profile.json run2 --prices prices.json --years 4 --json --html page.html --markdown page.md
cp out.txt compared.json
# Recomputed from trials.jsonl and prices.json alone: medians over the passes of the final round, then money.
python3 - <<'PY' || fail "compare's figures are not those of the trial logs"
import json, math, statistics

prices = json.load(open("prices.json"))
document = json.load(open("compared.json"))
boxes = document["boxes"]
assert [box["box"] for box in boxes] == ["NVIDIA H100 80GB HBM3 x1", "NVIDIA H200 x1", "Some Other GPU x1"], boxes
near = lambda a, b: math.isclose(a, b, rel_tol=1e-9)


def from_log(run):
    lines = [json.loads(line) for line in open(f"{run}/trials.jsonl")]
    profile = json.load(open(f"{run}/profile.json"))
    trial = profile["trial"]
    search = next(line for line in lines if line["trial"] == trial and "final_round" not in line)
    turns = [line for line in lines if line["trial"] == trial and "final_round" in line]
    value = {}
    for metric in ("tokens_per_s", "tpot_ms", "ttft_ms", "device_bytes", "joules_per_token"):
        seen = [turn["metrics"][metric]["value"] for turn in turns if turn["metrics"].get(metric)]
        if len(seen) > 1:
            value[metric] = statistics.median(seen)
        elif search["metrics"].get(metric):
            value[metric] = search["metrics"][metric]["value"]
    return search["configuration"], value


logs = [from_log(f"run{i}") for i in range(3)]
for box, (configuration, value), price in zip(boxes, logs, prices["boxes"]):
    recommended = box["recommended"]
    assert recommended["configuration"] == configuration, (recommended["configuration"], configuration)
    for metric, number in value.items():
        assert near(recommended["metrics"][metric]["value"], number), (box["box"], metric, recommended["metrics"][metric], number)
    rent = price["usd_per_hour"]
    assert near(recommended["usd_per_mtok"]["value"], rent / (value["tokens_per_s"] * 3600) * 1e6), box
    if "buy_usd" not in price:
        assert box["own_usd_per_hour"] is None and box["break_even_busy_share"] is None
        continue
    capital = price["buy_usd"] / (4 * 365 * 24)
    busy, idle = (watts / 1000 * prices["usd_per_kwh"] for watts in (price["watts"], 80.0))
    assert near(box["own_usd_per_hour"], capital + busy)
    assert near(box["own_usd_per_mtok"], (capital + busy) / (value["tokens_per_s"] * 3600) * 1e6)
    share = box["break_even_busy_share"]
    assert near(capital + share * busy + (1 - share) * idle, share * rent), "not the same cost at the break-even share"
    if "joules_per_token" in value:
        assert near(box["joules_per_mtok"], value["joules_per_token"] * 1e6)

# Against the cheapest by the hour: one box costs less than as many cheap ones just above that load, and not just below.
cheapest = min(range(3), key=lambda i: prices["boxes"][i]["usd_per_hour"])
cheap_rent, cheap_rate = prices["boxes"][cheapest]["usd_per_hour"], logs[cheapest][1]["tokens_per_s"]
for i, box in enumerate(boxes):
    if i == cheapest:
        continue
    rent, rate, load = prices["boxes"][i]["usd_per_hour"], logs[i][1]["tokens_per_s"], box["break_even_tokens_per_s"]
    needed = lambda tokens: math.ceil(tokens / cheap_rate) * cheap_rent
    if load is None:
        assert needed(rate) <= rent, (box["box"], "pays at the load it can serve, and compare says never")
    else:
        assert load < rate and needed(load * (1 + 1e-9)) > rent and needed(load * (1 - 1e-9)) <= rent, (box["box"], load)
PY
expect_in page.md '^\| rented \(USD/Mtok\)'
grep -q 'id="money-chart"' page.html || fail "the page has no chart"

# In a terminal: 80 columns.
expect_exit 0 "$MOETUNE" compare run0 run1 run2 --prices prices.json
[[ $(wc -L < out.txt) -le 80 ]] || fail "wider than 80 columns"
expect_in out.txt '^rented \(USD/Mtok\)'

expect_exit 0 "$MOETUNE" list hardware
[[ $(wc -L < out.txt) -le 80 ]] || fail "list hardware is wider than 80 columns"
expect_exit 0 "$MOETUNE" list profiles --hardware cpu

# What is not comparable: exit code 6, with the fields.
cp -r run1 other
python3 - <<'PY'
import json
profile = json.load(open("other/profile.json"))
profile["gate"] = "lossless"
profile["workload"]["prompt_tokens"] = 77
json.dump(profile, open("other/profile.json", "w"))
PY
expect_exit 6 "$MOETUNE" compare run0 other
expect_in err.txt 'gate: int8 \(run0\), lossless \(other\)'
expect_in err.txt 'workload.prompt_tokens: [0-9]+ \(run0\), 77 \(other\)'

# Bad input is named.
expect_exit 2 "$MOETUNE" compare run0 run1 --usd-per-hour 3
expect_in err.txt '--usd-per-hour: one price for 2 boxes'
expect_exit 2 "$MOETUNE" compare run0 --with h300
expect_in err.txt "no box named 'h300'"
expect_exit 2 "$MOETUNE" compare nowhere.json
sed 's/2.5/-2.5/' prices.json > wrong.json
expect_exit 2 "$MOETUNE" compare run0 --prices wrong.json
expect_in err.txt 'boxes\[0\].usd_per_hour'

# A real model: boxes of the catalogue beside it, as predicted, with the error on trials held out.
# --force: its numbers may be as disturbed as they like.
expect_exit 0 "$MOETUNE" tune --device cpu --threads 1 --space quick --quiet --run real --max-trials 4 --timing 0.2s --budget 40s --usd-per-hour 0.5 --force
expect_exit 0 "$MOETUNE" compare real --with h200-sxm --json
python3 - <<'PY' || fail "no prediction beside the real run"
import json
real, predicted = json.load(open("out.txt"))["boxes"]
assert real["origin"] == "measured" and predicted["origin"] == "predicted", (real, predicted)
assert abs(real["price"]["usd_per_hour"] - 0.5) < 1e-9, real["price"]
tpot = predicted["recommended"]["metrics"]["tpot_ms"]
assert tpot["origin"] == "predicted" and 0 < tpot["value"] < real["recommended"]["metrics"]["tpot_ms"]["value"], tpot
trials = [t for t in map(json.loads, open("real/trials.jsonl")) if "final_round" not in t and t["outcome"] == "ok"]
# A busy machine measures fewer than were asked for within the budget.
held_out = len(trials) // 2
error = f"on {held_out} trial{'s' * (held_out != 1)} held out there it was off by" if held_out else "too few trials to say its error"
assert error in predicted["remark"] and "MEASURED ON A CPU" in predicted["remark"], predicted["remark"]
assert predicted["recommended"]["configuration"]["router"] == "gpu", predicted["recommended"]["configuration"]
assert predicted["heading"].endswith(" (predicted)"), predicted["heading"]
PY
# Beside its own measurement no money is made of a prediction, and the sources of its prices are said once.
expect_exit 0 "$MOETUNE" compare nvidia-h200-x1/tiny-moe/chat --with h200-sxm --json
python3 - <<'PY' || fail "a prediction is priced beside its measurement"
import json
document = json.load(open("out.txt"))
measured, predicted = document["boxes"]
assert measured["recommended"]["usd_per_mtok"] and not predicted["recommended"]["usd_per_mtok"], document
assert predicted["price"] == measured["price"], (predicted["price"], measured["price"])
assert sum(remark.startswith("Prices of") for remark in document["remarks"]) == 1, document["remarks"]
PY
# --with takes one name: what stands behind it is a profile.
expect_exit 0 "$MOETUNE" compare --with h200-sxm real
expect_in out.txt '\(predicted\)'
expect_exit 0 "$MOETUNE" compare real
expect_in out.txt '\(predicted\)'
# Two profiles of one box are told apart.
cp -r real again
expect_exit 0 "$MOETUNE" compare real again --markdown two.md
expect_in two.md '^\| \| cpu: .*, real \| cpu: .*, again \|$'
# A file that cannot be written is a mistake of the command line.
for flag in --html --markdown; do
  expect_exit 2 "$MOETUNE" compare real $flag nowhere/file
  expect_in err.txt "^moetune: $flag: cannot write 'nowhere/file"
done
expect_exit 2 "$MOETUNE" report real --prometheus nowhere/file
expect_in err.txt "^moetune: --prometheus: cannot write 'nowhere/file"
