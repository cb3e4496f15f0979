#!/usr/bin/env bash
# Makes reports/cpu/trace-tiny-moe.json and the table of reports/decisions/0015-routing-traces.md anew.
set -euo pipefail
cd "$(dirname "$0")/../.."
build/release/moetune trace --device cpu --json > reports/cpu/trace-tiny-moe.json.new
mv reports/cpu/trace-tiny-moe.json.new reports/cpu/trace-tiny-moe.json
python3 reports/cpu/trace_tables.py
