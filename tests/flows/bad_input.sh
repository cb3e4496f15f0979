#!/usr/bin/env bash
# Whatever a person gets wrong: one clear message that names it, exit code 2, nothing on stdout, no crash.
source "$(dirname "$0")/support/flow.sh"

# refused PATTERN ARGUMENT...: exit code 2, nothing on stdout, one paragraph on stderr with a line that matches.
refused() {
  local pattern=$1
  shift
  expect_exit 2 "$MOETUNE" "$@"
  expect_in err.txt "$pattern"
  [[ ! -s out.txt ]] || fail "wrote to stdout: $*"
  [[ $(grep -c . err.txt) -eq 1 ]] || { cat err.txt >&2; fail "not one line: $*"; }
  ! grep -qE 'terminate|what\(\)|Assertion|Sanitizer|/.*\.cpp:' err.txt || { cat err.txt >&2; fail "speaks of our code: $*"; }
}

# Words of the command line.
refused "unknown command 'tyne'.*did you mean tune\?" tyne
refused "tune: unknown flag '--bugdet'.*did you mean --budget\?" tune --bugdet 20m
refused "unknown flag '--temperature'" measure --temperature 3
refused "nothing takes the word 'twenty'" tune twenty
refused "--seed: its value is missing" tune --seed
refused "--json: 'maybe'.*no value" list models --json=maybe
refused "unknown command 'help'.*--help" help
refused "--out" logits --tokens 1

# Values of flags.
refused "--budget: '20'.*90s, 20m or 2h" tune --budget 20
refused "--budget: '-5m'" tune --budget=-5m
refused "--max-trials: '0'" tune --max-trials 0
refused "--seed: 'x'" tune --seed x
refused "--threads: '0'" measure --threads 0
refused "--threads: '4000'.*1 to [0-9]+" tune --threads 4000
refused "--device: 'tpu'.*auto, cpu, cuda" measure --device tpu
refused "--device: 'tpu'.*auto, cpu, cuda" logits --device tpu --tokens 1 --out logits.npy
refused "--device-memory: '12gigs'.*12GiB" measure --device-memory 12gigs
refused "--gate: no gate named 'int5'.*lossless, int8, int4, none" tune --gate int5
refused "--searcher.*'annealing'.*nsga2" tune --searcher annealing
refused "'tpot'.*tpot_ms" tune --objective tpot
refused "--slo" tune --slo tpot_p99
refused "--slo.*'tpot_p99'.*20 parsecs|--slo.*20parsecs" tune --slo tpot_p99=20parsecs
refused "no workload named 'chatter'.*chat" measure --workload chatter
refused "no space named 'huge'.*default" tune --space huge
refused "--usd-per-hour: 'cheap'" measure --usd-per-hour cheap

# Knobs.
refused "'topk'.*top_k" measure --set topk=4
refused "--set: 'top_k'.*knob=value" measure --set top_k
refused "top_k.*9.*1 \.\. 8" measure --set top_k=9
refused "top_k.*'0'" measure --set top_k=0
refused "expert_quant.*'int3'" measure --set expert_quant=int3
refused "expert_cache.*'1.5'" measure --set expert_cache=1.5
refused "expert_cache.*0.1.*at least 32" measure --set expert_cache=0.1
refused "tensor_parallel: 4" measure --set tensor_parallel=4
refused "router.*gpu" measure --set router=gpu

# Models.
refused "no-such-model" measure --model no-such-model
mkdir empty && refused "config.json" measure --model empty
mkdir broken && echo '{"architectures": ["LlamaForCausalLM"]}' > broken/config.json
refused "broken/config.json.*LlamaForCausalLM" measure --model broken
cp -r "$MOETUNE_SOURCE_DIR/engine/models/tiny-moe" cut && chmod -R u+w cut
truncate -s 5000000 cut/model.safetensors
refused "cut/model.safetensors" logits --model cut --tokens 1 --out logits.npy
[[ ! -e logits.npy && ! -e logits.npy.partial ]] || fail "a refused run left a file"

# Tokens.
refused "--tokens.*'256'.*0 to 255" logits --tokens 1,256 --out logits.npy
refused "--tokens.*'-1'" logits --tokens=-1 --out logits.npy
refused "--tokens.*'x'" logits --tokens 1,x --out logits.npy
refused "no tokens given" logits --out logits.npy
refused "cannot read 'absent.txt'" logits --tokens-file absent.txt --out logits.npy
refused "cannot write" logits --tokens 1 --out no/such/folder/logits.npy
refused "absent.safetensors" logits --tokens 1 --routing-from absent.safetensors --out logits.npy
refused "--routing-out: cannot write" logits --tokens 1 --routing-out no/such/folder/r --out logits.npy
"$MOETUNE" logits --tokens 1,2 --routing-out two.safetensors --out logits.npy >/dev/null && rm logits.npy
refused "two.safetensors: expert_ids: shape \(2, .*\(1, .*tokens, MoE layers, top_k" logits --tokens 1 --routing-from two.safetensors --out logits.npy
head -c 100 two.safetensors > cut.safetensors
refused "cut.safetensors" logits --tokens 1,2 --routing-from cut.safetensors --out logits.npy
refused "--out: ''" logits --tokens 1 --out ""
refused "--feed: 'batch'.*step, prefill" logits --tokens 1 --feed batch --out logits.npy

# Spaces and workloads in files.
echo '{"name": "s", "parameters": [{"name": "topk", "kind": "ordinal", "values": [1]}]}' > unknown_knob.json
refused "unknown_knob.json.*topk" tune --space unknown_knob.json
echo '{"name": "s", "parameters": [{"name": "top_k", "kind": "ordinal", "values": []}]}' > no_values.json
refused "no_values.json.*values" tune --space no_values.json
echo '{"name": "s", "parameters": [{"name": "top_k", "kind": "ordinal", "values": [1, 99]}]' > not_json.json
refused "not_json.json" tune --space not_json.json
echo '{"name": "w", "prompt_tokens": 0, "output_tokens": 4}' > workload.json
refused "workload.json.*prompt_tokens.*0" measure --workload ./workload.json
echo '{"name": "w", "prompt_tokens": 4, "output_tokens": 4, "sequences": 2, "arrivals_per_s": 5}' > workload.json
refused "workload.json.*arrivals_per_s.*poisson_arrivals" measure --workload ./workload.json
echo '{"name": "", "prompt_tokens": 4, "output_tokens": 4}' > workload.json
refused "workload.json: name: .*1 to 64 letters" measure --workload ./workload.json
echo '{"name": "w", "prompt_tokens": 4, "output_tokens": 4, "sequences": 257}' > workload.json
refused "workload.json: sequences: 257" measure --workload ./workload.json
echo '{"name": "w", "prompt_tokens": 4, "output_tokens": 4, "slo": {"metric": "speed", "limit_ms": 5}}' > workload.json
refused "workload.json: slo.metric: .*speed.*tpot_p99" measure --workload ./workload.json
echo '{"name": "w", "prompt_tokens": 100000, "output_tokens": 4}' > workload.json
refused "workload.json: needs a context of 100004 tokens.*tiny-moe has" measure --workload ./workload.json
refused "prefix_cache: off.*accepted: on" measure --set prefix_cache=off
refused "max_sequences: 2 where never more than 1 can run" measure --set max_sequences=2
# What can have no value in this study is no objective, and that is said before anything runs.
refused "--objective: 'usd_per_mtok'.*--usd-per-hour" tune --objective usd_per_mtok
refused "--objective: 'joules_per_token'" tune --device cpu --objective tpot_ms,joules_per_token
refused "--objective: 'task_ms'.*one round" tune --objective task_ms
refused "--objective: 'queue_ms'.*one request at a time" tune --objective queue_ms
refused "--type.*--op" measure --type int8
refused "--workload.*--op|--op.*--workload" measure --op moe --workload agent
refused "--budget: 1e-06 s: one run of moe at 1 token takes .* s .accepted: a larger one" measure --op moe --quiet --budget 0.000001s
refused "--calibration.*--op|--op.*--calibration" measure --op moe --calibration short.txt
refused "--set: tensor_parallel=2 with --op" measure --op moe --set tensor_parallel=2
refused "--tokens: token 1: nothing before a comma" logits --tokens 1,,2 --out logits.npy
refused "--tokens: token 2: nothing behind the last comma" logits --tokens 1,2, --out logits.npy
refused "--op" measure --op ""
mkfifo pipe
refused "--out.*no regular file" logits --tokens 1,2 --out pipe
[[ -p pipe ]] || fail "a pipe was replaced by a file"
echo "too short" > short.txt
refused "short.txt|too few" measure --calibration short.txt

# Runs and profiles.
refused "completions: SHELL is not given .accepted: bash.zsh.fish: " completions
refused "confirm: --url is not given .accepted: URL: " confirm
refused "--set: 'top_k=5' beside 'top_k=4' .accepted: each name once" measure --set top_k=4 --set top_k=5
refused "--set: 'top_k=5' beside 'top_k=4'" trace --set top_k=4 --set top_k=5
refused "no/such/run" report no/such/run
refused "no/such/file" validate no/such/file.json
refused "'': no such file" validate ""
ln -s circle circle
refused "circle: no such file" validate circle
# An option of a shell variable that is not set must not pass for the option left out.
refused "--server-version: '' .accepted: V" export cpu/tiny-moe/chat --server vllm --server-model m --server-version ""
refused "--prices: '' .accepted: FILE" compare cpu/tiny-moe/chat --prices ""
refused "--hardware: ''" list profiles --hardware ""
refused "--image: 'a b' .accepted: one image" export cpu/tiny-moe/chat --server vllm --server-model m --format compose --image "a b"
refused "\"nowhere\" is no directory" compare cpu/tiny-moe/chat --model nowhere
# With --json stdout holds one document all the same, with what is wrong.
document_says() { python3 -c 'import json, sys; d = json.load(open("out.txt")); assert eval(sys.argv[1]), d' "$1" || fail "--json: $1"; }
expect_exit 2 "$MOETUNE" list models --names --json
document_says 'd["exit_code"] == 2 and "--names: with --json" in d["error"]'
expect_exit 2 "$MOETUNE" compare no/such/run --json
document_says '"no/such/run" in d["error"] and d["missing_bytes"] is None'
expect_exit 2 "$MOETUNE" measure --set top_k=9 --json
document_says '"top_k" in d["error"]'
# So where no command has begun: a flag that is not there, a value or a word that is missing, a value of the wrong kind.
for words in "list models --nmaes" "list models --hardware" "validate" "measure --threads 0" "lits" ""; do
  read -ra arguments <<< "$words"
  expect_exit 2 "$MOETUNE" "${arguments[@]}" --json
  document_says 'd["exit_code"] == 2 and d["error"] and d["missing_bytes"] is None'
  expect_in err.txt "^moetune: $(python3 -c 'import json, re; print(re.escape(json.load(open("out.txt"))["error"].split("(")[0]))')"
done
# A flag with a value is the flag too, as far as that says yes.
for flag in --json=true --json=1; do
  expect_exit 2 "$MOETUNE" measure "$flag" --set x
  document_says 'd["exit_code"] == 2 and "--set" in d["error"]'
done
refused "--set" measure --json=false --set x
for command in tune measure; do
  expect_exit 4 "$MOETUNE" "$command" --device cpu --device-memory 3MiB --json
  document_says 'd["exit_code"] == 4 and "fit" in d["error"] and d["missing_bytes"] > 1 << 20'
  [[ $(grep -c "^moetune: " err.txt) -eq 1 ]] || fail "the error is not on stderr as well: $command"
done
mkdir wrong && echo '{"schema": 1, "model": 3, "gate": "int5"}' > wrong/request.json
echo '{"device": "cpu"}' > wrong/hardware.json
expect_exit 2 "$MOETUNE" validate wrong
expect_in err.txt "wrong/request.json: model: 3 \(accepted: a text\)"
expect_in err.txt "wrong/request.json: gate: .*'int5'.*lossless"
expect_in err.txt "wrong/request.json: field 'seed' is missing"
expect_in err.txt "wrong/hardware.json: field 'cpu_name' is missing"
[[ $(grep -vc '^moetune: wrong/' err.txt) -eq 0 ]] || fail "validate: a line that names no file"
expect_exit 2 "$MOETUNE" validate wrong --json
python3 -c 'import json; d = json.load(open("out.txt")); assert not d["valid"] and len(d["problems"]) > 10 and d["exit_code"] == 2 and d["problems"][3] in d["error"]' || fail "validate --json"
# Names of fields come from outside too: what they do to a terminal must not reach it.
echo '{"schema": 1, "evidence": {"tpot\u001b[31m_ms": 1}}' > coloured.json
for command in "validate" "export --server vllm" "compare"; do
  read -ra words <<< "$command"
  expect_exit 2 "$MOETUNE" "${words[@]}" coloured.json
  grep -q $'\e' err.txt && fail "$command: an escape sequence of a file reaches the terminal"
done
mkdir drawn && echo '{"schema": 1, "points": [{"trial": 7, "configuration": {}, "metrics": {}}]}' > drawn/front.json
expect_exit 2 "$MOETUNE" validate drawn
expect_in err.txt "drawn/front.json: points\[0\].trial: 7 \(accepted: a trial of trials.jsonl\)"
python3 - "$MOETUNE_SOURCE_DIR" <<'PY'
import json, sys
profile = json.load(open(sys.argv[1] + "/profiles/cpu/tiny-moe/chat.json"))
profile["evidence"]["tpot_ms"]["value"] = -3
profile["configuration"]["expert_quant"] = "int5"
profile["front"][0]["configuration"]["top_q"] = 3
json.dump(profile, open("impossible.json", "w"))
json.dump({"schema": 1}, open("nothing.json", "w"))
PY
expect_exit 2 "$MOETUNE" validate impossible.json
expect_in err.txt '^moetune: impossible.json: evidence.tpot_ms.value: -3 .accepted: 0 or more'
expect_in err.txt "^moetune: impossible.json: configuration.expert_quant: .*'int5'"
expect_in err.txt "^moetune: impossible.json: front\[0\].configuration.top_q: "
# What a profile says that it is called moves no cursor either.
python3 - "$MOETUNE_SOURCE_DIR" <<'PY'
import json, sys
profile = json.load(open(sys.argv[1] + "/profiles/cpu/tiny-moe/chat.json"))
json.dump({**profile, "model": {**profile["model"], "name": "tiny\x1b[31m\0moe"}}, open("painted.json", "w"))
for field in ("cpu_name", "device"):
    hardware = {**profile["hardware"], field: "a\x1b[31mbox\0"}
    json.dump({**profile, "hardware": hardware}, open(field + ".json", "w"))
PY
expect_exit 0 "$MOETUNE" validate painted.json
expect_in out.txt 'OK, a launch profile for tiny .31m moe, workload chat'
for file in cpu_name device; do
  expect_exit 0 "$MOETUNE" compare "$file.json"
  expect_in out.txt '^The rent of .*a .31mbox'
  ! LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f]' out.txt || fail "compare: control characters of $file reach the terminal"
done
expect_exit 0 "$MOETUNE" validate painted.json
! LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f]' out.txt || fail "validate: control characters reach the terminal"
# Every command that reads a profile refuses the same of it, before it measures or asks anything.
for value in x "" 99999999999999; do
  python3 - "$MOETUNE_SOURCE_DIR" "$value" <<'PY'
import json, sys
profile = json.load(open(sys.argv[1] + "/profiles/cpu/tiny-moe/chat.json"))
profile["configuration"]["tensor_parallel"] = sys.argv[2]
json.dump(profile, open("ranks.json", "w"))
PY
  for command in "validate" "export --server vllm --server-model m" "export --server sglang --server-model m" \
    "compare" "ci --target synthetic --baseline" "confirm --url http://127.0.0.1:9"; do
    read -ra words <<< "$command"
    refused "ranks.json: configuration.tensor_parallel: .*'$value'.*1, 2, 4, 8" "${words[@]}" ranks.json
  done
done
refused "nothing.json: no field says what it is" validate nothing.json
expect_exit 0 "$MOETUNE" tune --target synthetic --max-trials 3 --run parts --quiet
expect_exit 0 "$MOETUNE" validate parts/front.json
expect_in out.txt 'the front of a run'
expect_exit 0 "$MOETUNE" validate parts/request.json
expect_in out.txt 'the request of a run'
expect_exit 0 "$MOETUNE" validate parts/hardware.json
expect_in out.txt 'the hardware of a run'
refused "'modules'.*did you mean models\?|'modules'" list modules
refused "--hardware: 'xyz'.*auto, cpu, cuda" list profiles --hardware xyz
refused "--save: with --target synthetic" tune --target synthetic --save
refused "--workload: 'chat,agent' with --target synthetic" tune --target synthetic --workload chat,agent
mkdir taken && echo hello > taken/file.txt
refused "taken" tune --run taken --max-trials 1
[[ $(cat taken/file.txt) == hello ]] || fail "touched a folder that was not its own"
refused "does not have this command yet" merge
refused "does not have this command yet" replay --anything at all
