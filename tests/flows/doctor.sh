#!/usr/bin/env bash
# moetune doctor: this box, boxes that are made up, and what tune does about them.
source "$(dirname "$0")/support/flow.sh"

expect_exit 0 "$MOETUNE" doctor --quick
expect_in out.txt '^cores '
expect_in out.txt 'p99 jumps, on one card'
expect_in out.txt '^What is often complained about'
[[ $(wc -L < out.txt) -le 80 ]] || fail "a line of doctor is longer than 80 columns"
expect_exit 0 "$MOETUNE" doctor --quick --json
cp out.txt box.json
python3 -c 'import json; d = json.load(open("box.json")); assert len(d["complaints"]) == 4 and d["box"]["usable_cores"] > 0' || fail "doctor --json"
expect_exit 0 "$MOETUNE" doctor --box box.json --json
python3 -c 'import json; assert json.load(open("out.txt")) == json.load(open("box.json"))' || fail "a saved box is judged otherwise"

echo '{"swapping_mb_per_s": 400, "swap_bytes": 9, "swap_used_bytes": 5}' > swapping.json
expect_exit 0 "$MOETUNE" doctor --box swapping.json
expect_in out.txt '^swapping \(spoils measurements\)'
run() { "$MOETUNE" tune --target synthetic --max-trials 3 --run "$1" "${@:2}"; }
expect_exit 5 run a --box swapping.json
expect_in err.txt 'swap'
[[ ! -e a ]] || [[ ! -s a/trials.jsonl ]] || fail "tune has measured on a box that spoils it"
expect_exit 5 run b --box swapping.json --json
python3 -c 'import json; assert json.load(open("out.txt"))["findings"][0]["id"] == "swapping"' || fail "tune --json says no finding"
expect_exit 0 run c --box swapping.json --force
expect_in err.txt 'all the same'
echo '{"swap_bytes": 9, "swap_used_bytes": 5}' > quiet.json
expect_exit 0 run d --box quiet.json

expect_exit 2 "$MOETUNE" doctor --model x
expect_exit 2 "$MOETUNE" doctor --url 'ftp://x'
# What there is none of is said in a word.
echo '{"swap_bytes": 0, "memory_kills": 2}' > plain.json
expect_exit 0 "$MOETUNE" doctor --box plain.json
expect_in out.txt '^swap +none$'
expect_in out.txt '^out of memory +2 processes were killed for it$'
expect_in out.txt 'this box has no GPU'
! grep -q '^NCCL' out.txt || fail "NCCL of a box without a GPU"

echo '{"gpu": 1}' > bad.json
expect_exit 2 "$MOETUNE" doctor --box bad.json
expect_in err.txt 'gpu'

# The complaint of a rejected name, against a server that answers.
cat > server.py <<'PY'
import http.server, json
class Models(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"object": "list", "data": [{"id": "deepseek-ai/DeepSeek-V3"}]}).encode()
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Models)
print(server.server_port, flush=True)
server.serve_forever()
PY
exec 7< <(exec python3 server.py)
server=$!
trap 'kill "$server" 2>/dev/null; rm -rf "$flow_scratch"' EXIT
read -r port <&7
url=http://127.0.0.1:$port
expect_exit 0 "$MOETUNE" doctor --box quiet.json --url "$url" --model deepseek-v3
expect_in out.txt '^model_renamed'
expect_in out.txt 'served-model-name'
expect_exit 0 "$MOETUNE" doctor --box quiet.json --url "$url" --model deepseek-ai/DeepSeek-V3
expect_in out.txt '^model_served'
expect_exit 2 "$MOETUNE" doctor --box quiet.json --url "$url/other"
expect_in err.txt 'status 404'
