#!/usr/bin/env python3
"""Compares the server tables of this folder with a collection of verified facts in one file (server_flags.json).

Usage: compare.py SERVER_FLAGS_JSON. Prints every difference in flags, removed and deprecated flags, short forms, variables,
configuration keys, accepted values and top-k keys; exit 1 when there is one. A development check: the tables are the program's own.
"""
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).parent
ELSEWHERE = {"llama.cpp": "llama_cpp", "tensorrt-llm": "trtllm"}


def listed(knob):
    """The values of a flag where they are a plain list of words."""
    values = [value.strip() for value in str(knob["values"]).split("|")]
    return values if len(values) > 1 and all(" " not in value for value in values) else None


def differences(table, facts):
    lists = {"flags": "known_flags", "removed_flags": "removed_flags", "rejected_flags": "registered_but_rejected", "config_keys": "yaml_known_keys"}
    for ours, theirs in lists.items():
        mine, known = set(table.get(ours, [])), set(facts.get(theirs, []))
        for word in sorted(mine - known):
            yield f"{ours}: {word} is only in the table"
        for word in sorted(known - mine):
            yield f"{ours}: {word} is missing"
    for ours, theirs in {"short_flags": "short_flags", "deprecated_flags": "deprecated_flags"}.items():
        if table.get(ours, {}) != facts.get(theirs, {}):
            yield f"{ours} differ"
    if table["flags_complete"] != facts["known_flags_complete"]:
        yield "flags_complete differs"
    for name, knob in facts["knobs"].items():
        if knob and knob.get("flag") and listed(knob) and table["values"].get(knob["flag"]) != listed(knob):
            yield f"values of {knob['flag']} ({name}) differ"
    said = {setting for setting, rules in table["settings"].items() if any("none" not in rule and rule.get("arguments") or rule.get("environment") or rule.get("config") for rule in rules)}
    for setting in sorted(said):
        if setting in facts["knobs"] and facts["knobs"][setting] is None:
            yield f"{setting} is said, but the facts know no way to say it"


def main():
    facts = json.loads(pathlib.Path(sys.argv[1]).read_text())
    found = []
    for file in sorted(FOLDER.glob("*.json")):
        if file.name in ("names.json", "server_flags.schema.json"):
            continue
        table = json.loads(file.read_text())
        found += [f"{table['server']}: {text}" for text in differences(table, facts["servers"][ELSEWHERE.get(table["server"], table["server"])])]
    families = {family["family"]: family for family in json.loads((FOLDER / "names.json").read_text())["families"]}
    for family in facts["top_k_config_keys"]:
        mine = families.pop(family["family"], None)
        theirs = (family["hf_classes"], family["hf_key"], family["hf_nesting"], family["gguf_arch"])
        if mine is None or (mine["classes"], mine["key"], mine.get("nesting"), mine.get("gguf")) != theirs:
            found.append(f"family {family['family']} differs")
    found += [f"family {name} is only in the table" for name in families]
    print("\n".join(found) if found else f"{len(facts['servers'])} servers and {len(facts['top_k_config_keys'])} families: no difference")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
