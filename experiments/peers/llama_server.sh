#!/usr/bin/env bash
# llama.cpp's server at 127.0.0.1, for configs/peer_serving.json; experiments/peers/install.sh puts it there.
#
#   experiments/peers/llama_server.sh PORT none|ngram|draft DRAFTS      PEERS: install.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
peers=${PEERS:-build/peers}
exec "$peers/venv/bin/python" experiments/peers/llama_server.py --model "$peers/target.gguf" \
  --draft-model "$peers/draft.gguf" --port "$1" --proposer "$2" --draft-len "$3"
