#!/usr/bin/env bash
# What stands in --help, and the small commands: list, validate, logits, --version.
source "$(dirname "$0")/support/flow.sh"

expect_exit 0 "$MOETUNE" --version
expect_in out.txt '^moetune [0-9]+\.[0-9]+\.[0-9]+ \('
expect_exit 0 "$MOETUNE" --help
for command in tune measure logits report list validate tax trace replay export compare ci doctor confirm merge; do
  expect_in out.txt "^  $command "
done
! grep -q worker out.txt || fail "the hidden command worker stands in --help"
expect_exit 2 "$MOETUNE"
expect_in err.txt 'no command given'

# Every command that stands in --help, those of later builds too.
"$MOETUNE" --help > help.txt
[[ $(wc -L < help.txt) -le 80 ]] || fail "--help is wider than 80 columns"
mapfile -t all_commands < <(sed -nE 's/^  ([a-z]+)  +[A-Z].*/\1/p' help.txt)
[[ ${#all_commands[@]} -ge 15 ]] || fail "only ${#all_commands[@]} commands in --help: ${all_commands[*]}"
for command in "${all_commands[@]}"; do
  expect_exit 0 "$MOETUNE" "$command" --help
  [[ $(wc -L < out.txt) -le 80 ]] || { cat out.txt >&2; fail "help of $command is wider than 80 columns"; }
done

for command in tune measure logits trace report list validate ci tax doctor; do
  expect_exit 0 "$MOETUNE" "$command" --help
  expect_in out.txt '--json'
  ! grep -q -- '--target' out.txt || fail "an option for tests stands in $command --help"
done
expect_exit 0 "$MOETUNE" tune --help-all
expect_in out.txt '--target'
[[ $(wc -L < out.txt) -le 80 ]] || fail "tune --help-all is wider than 80 columns"

for what in models spaces workloads profiles knobs metrics searchers hardware servers claims; do
  expect_exit 0 "$MOETUNE" list "$what"
  [[ -s out.txt && ! -s err.txt ]] || fail "list $what says nothing, or complains"
  [[ $(wc -L < out.txt) -le 80 ]] || fail "list $what is wider than 80 columns"
  expect_exit 0 "$MOETUNE" list "$what" --json
  python3 -c 'import json; json.load(open("out.txt"))' || fail "list $what --json is not one document"
  count=$(python3 -c 'import json; print(len(json.load(open("out.txt"))))')
  expect_exit 0 "$MOETUNE" list "$what" --names
  [[ $(sort -u out.txt | wc -l) == "$count" ]] || fail "list $what --names is not a name for each of $count entries"
done
expect_exit 0 "$MOETUNE" list models
expect_in out.txt '^tiny-moe +5 +32 +8 +bf16'
# A line each, which says more than a name.
expect_exit 0 "$MOETUNE" list servers
[[ $(sed '/^$/q' out.txt | grep -c '^ ') == 0 ]] || fail "a server takes more than a line"
expect_exit 0 "$MOETUNE" list searchers
expect_in out.txt '^nsga2 +breeds .* the default$'
expect_exit 0 "$MOETUNE" list profiles
expect_in out.txt '^cpu/tiny-moe/chat +20[0-9-]+ +[0-9.]+ ms +[0-9]+$'
expect_exit 0 "$MOETUNE" list profiles --hardware cpu
expect_in out.txt '^cpu/tiny-moe/chat '
expect_in out.txt '^Nearest to this box: '
[[ $(wc -L < out.txt) -le 80 && $(wc -l < out.txt) -le 40 ]] || fail "list profiles --hardware is no longer a page"

# One broken file in the registry hides no other, and is named; a folder of data without tables of servers is named too.
mkdir -p data/profiles/cpu/tiny-moe data/profiles/cpu/broken
ln -s "$MOETUNE_SOURCE_DIR/engine/models" data/models
cp "$MOETUNE_SOURCE_DIR/profiles/cpu/tiny-moe/chat.json" data/profiles/cpu/tiny-moe/
echo '{"schema": 1' > data/profiles/cpu/broken/chat.json
echo '{"schema": 1, "model": 3}' > data/profiles/cpu/broken/agent.json
ln -s loop.json data/profiles/cpu/broken/loop.json
for hardware in "" "--hardware cpu"; do
  read -ra words <<< "$hardware"
  MOETUNE_DATA=$PWD/data expect_exit 0 "$MOETUNE" list profiles "${words[@]}"
  expect_in out.txt '^cpu/tiny-moe/chat '
  expect_in err.txt '^moetune: left out: .*data/profiles/cpu/broken/chat.json.*'
  expect_in err.txt '^moetune: left out: .*data/profiles/cpu/broken/agent.json: .*'
  expect_in err.txt '^moetune: left out: .*data/profiles/cpu/broken/loop.json.*'
done
MOETUNE_DATA=$PWD/data expect_exit 0 "$MOETUNE" list profiles --json
python3 -c 'import json; assert [p["name"] for p in json.load(open("out.txt"))] == ["cpu/tiny-moe/chat"]' || fail "list profiles --json"
for words in "list servers" "export cpu/tiny-moe/chat --server vllm --server-model m"; do
  read -ra arguments <<< "$words"
  MOETUNE_DATA=$PWD/data expect_exit 2 "$MOETUNE" "${arguments[@]}"
  expect_in err.txt "server tables: no server_flags/ in $PWD/data, which MOETUNE_DATA names .accepted: MOETUNE_DATA=FOLDER, set to one that holds models/ and server_flags/"
done

# Single ops, against what memory here reaches.
expect_exit 0 "$MOETUNE" measure --op moe,attention,head --tokens 1,3 --runs 6 --device cpu
expect_in out.txt '^moe +3 +[0-9.]+ +[0-9.]+ - [0-9.]+ '
expect_in out.txt 'Measured here: [0-9]+ GB/s read'
expect_exit 0 "$MOETUNE" measure --op all --type int8 --tokens 2 --runs 6 --device cpu --json \
  --model qwen3-30b-a3b:layers=2,experts=8,top_k=2,inner=32,kv_heads=2,head_dim=16,hidden=64,heads=4,vocabulary=97
python3 - <<'PY' || fail "measure --op --json is not what it should be"
import json
document = json.load(open("out.txt"))
results = {result["op"]: result for result in document["results"]}
assert set(results) == {"read", "attention", "attention_half", "router", "experts", "routed", "moe", "layer", "head"}, results.keys()
assert document["knobs"]["expert_quant"] == "int8" and document["read_gb_per_s"] > 0 and document["tensor_tflops"] is None
for result in results.values():
    assert result["microseconds"] > 0 and result["low"] <= result["microseconds"] <= result["high"] and result["n"] == 6, result
assert results["moe"]["distinct_layers"] == 4 and results["moe"]["experts_touched"] >= 2, results["moe"]
assert any("routing fitted to published statistics" in note for note in document["notes"]), document["notes"]
PY
# A budget that does not reach: the table says which op was timed less or not at all.
expect_exit 0 "$MOETUNE" measure --op head,moe --runs 100000 --budget 4s --device cpu
expect_in err.txt 'moetune: Timed fewer times than --runs 100000, as --budget of 4 s was spent: head at 1 token [0-9]+ times?'
# Few layers are the model's where it has no more, however few runs there was time for.
expect_exit 0 "$MOETUNE" measure --op moe --model "$MOETUNE_SOURCE_DIR/tests/golden/mixtral" --runs 100000 --budget 0.3s --device cpu
expect_in out.txt '^Timed fewer times than --runs 100000'
expect_in out.txt '^Only 2 distinct layers, not 4: the model has no more\.$'
expect_exit 2 "$MOETUNE" measure --op moo --device cpu
expect_in err.txt "no op named 'moo' .accepted: all, read, attention, .*router"
expect_exit 2 "$MOETUNE" measure --op shared --device cpu --model qwen3-30b-a3b
expect_in err.txt "'shared': qwen3-30b-a3b has none"
expect_exit 2 "$MOETUNE" measure --op moe --tokens 0 --device cpu
expect_in err.txt "--tokens: '0'"
expect_exit 2 "$MOETUNE" measure --op moe --type int3 --device cpu
expect_in err.txt 'int3'
expect_exit 2 "$MOETUNE" measure --op attention --prompt --tokens 64 --context 32 --device cpu
expect_in err.txt '--context: 32'

# Files that the program itself writes are known to it, or said to have no schema.
expect_exit 0 "$MOETUNE" measure --budget 0.2s --samples-out samples.jsonl --device cpu
expect_exit 0 "$MOETUNE" validate samples.jsonl
expect_in out.txt '^samples.jsonl: OK, samples of [0-9]+ runs in [0-9]+ processes$'
sed '2s/process/proces/' samples.jsonl >broken.jsonl
expect_exit 2 "$MOETUNE" validate broken.jsonl
expect_in err.txt '^moetune: broken.jsonl:2: .*a line that begins a process'
# A file that says nothing is not OK: samples of no run, a file torn inside its only line.
head -n 2 samples.jsonl >none.jsonl
echo '{"samples":1}' >header.txt
for file in none.jsonl header.txt; do
  expect_exit 2 "$MOETUNE" validate "$file"
  expect_in err.txt "^moetune: $file: samples of no run.* .accepted: samples of measure --samples-out with a run at least"
  [[ $(grep -c . err.txt) -eq 1 ]] || fail "validate $file: not one line"
done
head -c 60 samples.jsonl >torn.jsonl
expect_exit 2 "$MOETUNE" validate torn.jsonl
expect_in err.txt '^moetune: torn.jsonl: its only line is torn.* .accepted: .*a trial log, samples'
[[ $(grep -c . err.txt) -eq 1 ]] || fail "validate torn.jsonl: not one line"
# What can be read only once is read whole, and once.
profile=$MOETUNE_SOURCE_DIR/profiles/cpu/tiny-moe/chat.json
expect_exit 0 "$MOETUNE" validate <(cat "$profile")
expect_in out.txt 'OK, a launch profile for tiny-moe, workload chat$'
expect_exit 0 bash -c 'cat "$2" | "$1" validate /dev/stdin' pipe "$MOETUNE" "$profile"
expect_in out.txt '^/dev/stdin: OK, a launch profile for tiny-moe, workload chat$'

expect_exit 0 "$MOETUNE" logits --tokens 72,101,108,108,111 --out step.npy
expect_exit 2 "$MOETUNE" validate step.npy
expect_in err.txt 'step.npy: a NumPy array, such as logits: it has no schema .accepted: .*samples.*routing trace'
expect_exit 0 "$MOETUNE" logits --tokens 72,101,108,108,111 --feed prefill --out prefill.npy --json
python3 - <<'PY' || fail "logits.npy is not what NumPy's format says"
import ast, json, struct
def load(path):
    data = open(path, "rb").read()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    length = struct.unpack("<H", data[8:10])[0]
    assert (10 + length) % 64 == 0
    header = ast.literal_eval(data[10:10 + length].decode("latin1"))
    assert header == {"descr": "<f4", "fortran_order": False, "shape": (5, 256)}, header
    return struct.unpack("<1280f", data[10 + length:])
step, prefill = load("step.npy"), load("prefill.npy")
assert max(abs(a - b) for a, b in zip(step, prefill)) < 1e-4
assert max(map(abs, step)) > 1
document = json.load(open("out.txt"))
assert document["shape"] == [5, 256]
PY
echo "72 101
108,108 111" > tokens.txt
expect_exit 0 "$MOETUNE" logits --tokens-file tokens.txt --out file.npy
cmp step.npy file.npy || fail "a file of tokens gives other logits than the same tokens on the command line"
expect_exit 0 "$MOETUNE" logits --tokens 72,101,108,108,111 --set expert_cache=0.25 --out cache.npy
cmp step.npy cache.npy || fail "expert_cache changes logits"
expect_exit 0 "$MOETUNE" logits --tokens 72,101,108,108,111 --set expert_quant=int4 --out int4.npy
! cmp -s step.npy int4.npy || fail "int4 experts give the logits of the checkpoint"
