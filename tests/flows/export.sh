#!/usr/bin/env bash
# Outputs to servers as a user sees them: export in every format, --check, --explain, confirm against a small server, man page,
# completions.
source "$(dirname "$0")/support/flow.sh"

expect_exit 0 "$MOETUNE" tune --target synthetic --quiet --run run --max-trials 5
# A profile of a model that is known here: the synthetic target has no geometry.
"$MOETUNE" list models --json | python3 -c '
import json, sys
model = next(model for model in json.load(sys.stdin) if model["name"] == "tiny-moe")
profile = json.load(open("run/profile.json"))
profile["model"] = {"name": "tiny-moe", "hash": model["model_hash"]}
profile["configuration"] = {"top_k": "7", "expert_cache": "0.5", "expert_quant": "int8", "router": "cpu", "tensor_parallel": "1", "kv_type": "int8"}
profile["trial"] = 1000  # none of the run has this configuration
profile["hardware"]["cpu_cores"] = 8
json.dump(profile, open("own.json", "w"))'
expect_exit 0 "$MOETUNE" validate own.json
given=(--server-model "it's \$(touch pwned)" --gguf "a b.gguf" --kt-weights /kt --kt-method AMXINT4)

# Every profile of the repository, and one of a run, for every server and format.
profiles=(own.json)
while IFS= read -r file; do profiles+=("$file"); done < <("$MOETUNE" list profiles --json | python3 -c 'import json, sys; [print(p["file"]) for p in json.load(sys.stdin)]')
for profile in "${profiles[@]}"; do
  for server in vllm sglang llama.cpp tensorrt-llm ktransformers tgi lmdeploy ollama; do
    for format in shell json yaml compose k8s; do
      expect_exit 0 "$MOETUNE" export "$profile" --server "$server" --format "$format" --quiet "${given[@]}"
      [[ -s out.txt ]] || fail "nothing printed for $profile, $server, $format"
    done
  done
done
# Used on a box it was not measured on, a profile says how far it carries.
python3 -c 'import json; p = json.load(open("own.json")); p["hardware"].update(device="cpu", gpu_count=0, cpu_name="Another"); json.dump(p, open("far.json", "w"))'
expect_exit 0 "$MOETUNE" export far.json --server llama.cpp --gguf m.gguf
tr '\n' ' ' <err.txt | grep -q 'not measured on this box. Other device (.*cpu_name Another then, .*no more than a first guess' || fail "export says nothing of the other box"
expect_exit 0 "$MOETUNE" export own.json --server llama_cpp --gguf m.gguf   # both spellings
expect_in out.txt '^llama-server'
expect_exit 0 "$MOETUNE" export --server ollama   # the newest run
expect_in out.txt '^OLLAMA_CONTEXT_LENGTH=.* ollama serve$'
expect_exit 2 "$MOETUNE" export run --server vllm --server-model m
expect_in err.txt "^moetune: --model: not given, and the profile's 'synthetic' is no model here"
[[ ! -e pwned ]] || fail "a name was run"

# The shell text runs: what it starts gets the arguments.
mkdir bin
cat > bin/vllm <<'VLLM'
#!/bin/sh
[ "$2" = --help=all ] && { echo "--max-num-seqs --max-model-len --tensor-parallel-size --hf-overrides --quantization --kv-cache-dtype"; exit 0; }
for word in "$@"; do printf '<%s>\n' "$word"; done
VLLM
chmod +x bin/vllm
"$MOETUNE" export own.json --server vllm "${given[@]}" > command.sh 2>/dev/null
PATH=$PWD/bin:$PATH sh ./command.sh > words.txt
expect_in words.txt "^<it's \\\$\\(touch pwned\\)>\$"
[[ ! -e pwned ]] || fail "a name was run"

# --check asks the installed server.
PATH=$PWD/bin:$PATH expect_exit 0 "$MOETUNE" export own.json --server vllm --server-model m --check
expect_in out.txt "max-num-seqs stands in the server's --help"
sed -i 's/--max-num-seqs//' bin/vllm
PATH=$PWD/bin:$PATH expect_exit 6 "$MOETUNE" export own.json --server vllm --server-model m --check
expect_in out.txt "max-num-seqs is NOT in the server's --help"
expect_exit 2 "$MOETUNE" export own.json --server ollama --check
expect_in err.txt "'ollama serve --help'"

# Any point of the front, by its trial; the page has the same flags for each.
python3 - > trial.txt <<'PY'
import json
profile = json.load(open("own.json"))
print(profile["default"]["trial"])
PY
expect_exit 0 "$MOETUNE" export own.json --trial "$(cat trial.txt)" --server vllm --server-model Qwen/Qwen3-30B-A3B
expect_exit 2 "$MOETUNE" export own.json --trial 99999 --server vllm --server-model m
expect_in err.txt "^moetune: --trial: 99999 .accepted: one of the profile's: "

# What is missing or wrong is named.
expect_exit 2 "$MOETUNE" export own.json --server vllm
expect_in err.txt '^moetune: --server-model: not given'
expect_exit 2 "$MOETUNE" export own.json --server llama.cpp
expect_in err.txt '^moetune: --gguf: not given'
expect_exit 2 "$MOETUNE" export own.json --server vlm
expect_in err.txt "'vlm' .accepted: .*vllm"
expect_exit 2 "$MOETUNE" export own.json --server vllm --server-model m --format xml
expect_in err.txt 'shell, json, yaml, compose, k8s'
expect_exit 2 "$MOETUNE" export nowhere --server vllm
expect_in err.txt 'nowhere: no such profile'

# Rumours.
for spelling in --enable-expert-cache enable_expert_cache; do
  expect_exit 0 "$MOETUNE" export --explain "$spelling"
  expect_in out.txt 'No version of vLLM has it'
done
expect_exit 0 "$MOETUNE" export --explain --max-num-seqs
expect_in out.txt 'vLLM: accepted; says max_concurrency'
expect_exit 0 "$MOETUNE" list servers
expect_in out.txt '^llama.cpp '
expect_exit 0 "$MOETUNE" list claims --json

# confirm, against a server that answers at once.
cat > server.py <<'PY'
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *words): pass
    def reply(self, kind, text):
        self.send_response(200); self.send_header("Content-Type", kind); self.send_header("Content-Length", str(len(text))); self.end_headers()
        self.wfile.write(text.encode())
    def do_GET(self):
        if self.path == "/v1/models": self.reply("application/json", json.dumps({"data": [{"id": "small"}, {"id": "short"}]}))
        elif self.path == "/metrics": self.reply("text/plain", "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n")
        else: self.send_error(404)
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if request["model"] == "short": request["max_tokens"] = (request["max_tokens"] + 1) // 2
        events = [{"choices": [{"text": "x"}]}] * request["max_tokens"]
        events.append({"choices": [], "usage": {"prompt_tokens": len(request["prompt"]) // 4, "completion_tokens": request["max_tokens"]}})
        self.reply("text/event-stream", "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
PY
mkfifo port
python3 server.py > port &
server_pid=$!
trap 'kill $server_pid; rm -rf "$flow_scratch"' EXIT
read -r port_number < port || fail "the small server did not start"
url=http://127.0.0.1:$port_number
"$MOETUNE" confirm run --url "$url" --workload chat --budget 1s --json > confirm.json 2>err.txt && code=0 || code=$?
[[ $code == 0 || $code == 3 || $code == 5 ]] || { cat err.txt >&2; fail "confirm: exit code $code"; }
python3 - <<'PY' || fail "confirm --json or the profile is not what it should be"
import json
document, profile = json.load(open("confirm.json")), json.load(open("run/profile.json"))
assert document["model"] == "small" and document["metrics"]["tpot_ms"]["n"] > 0 and document["load"]["running"] == 1, document
assert profile["confirmations"][-1]["verdict"] == document["verdict"], profile.get("confirmations")
PY
expect_exit 5 "$MOETUNE" confirm run --url "$url" --served-name short --budget 1s
expect_in out.txt '6 of 6 answers ended before they had'
expect_exit 0 "$MOETUNE" validate run/profile.json
expect_exit 0 "$MOETUNE" report run --prometheus metrics.prom
expect_in metrics.prom '^moetune_tpot_ms\{'
grep -q confirmations run/profile.json || fail "report drops what confirm found"
expect_exit 2 "$MOETUNE" confirm run --url http://127.0.0.1:1
expect_in err.txt 'nothing answers'
python3 -c 'import signal, socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
signal.pause()' > port &
trap "kill $server_pid $!; rm -rf '$flow_scratch'" EXIT
read -r port_number < port || fail "the silent server did not start"
expect_exit 2 "$MOETUNE" confirm run --url "http://127.0.0.1:$port_number" --timeout 0.2s
expect_in err.txt "^waiting for http://127.0.0.1:$port_number: up to 0.2 s"
expect_in err.txt 'nothing came for 0.2 s .accepted: .*--timeout'
expect_exit 2 "$MOETUNE" confirm run --url ftp://x
expect_in err.txt "^moetune: --url: 'ftp://x'"

# Man page and completions.
expect_exit 0 "$MOETUNE" man
expect_in out.txt '^.SH EXPORT'
for shell in bash zsh fish; do expect_exit 0 "$MOETUNE" completions $shell; done
"$MOETUNE" completions bash > completions.bash
bash -n completions.bash || fail "bash cannot read the completions"
expect_exit 2 "$MOETUNE" completions tcsh
