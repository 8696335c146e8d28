#!/usr/bin/env bash
# llama.cpp's server at 127.0.0.1, for configs/peer_serving.json; experiments/peers/install.sh puts it there.
#
#   experiments/peers/llama_server.sh PORT none|ngram|draft DRAFTS      PEERS, PEER_TARGET, PEER_DRAFT: install.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
peers=${PEERS:-build/peers}
target=$(basename "${PEER_TARGET:-target-7m}") draft=$(basename "${PEER_DRAFT:-draft-600k}")
for file in "$peers/venv/bin/python" "$peers/target/$target.gguf" "$peers/draft/$draft.gguf"; do
  [ -e "$file" ] && continue
  echo "llama_server.sh: $file is not there; run experiments/peers/install.sh with the same PEERS, PEER_TARGET and PEER_DRAFT" >&2
  exit 2
done
exec "$peers/venv/bin/python" experiments/peers/llama_server.py --model "$peers/target/$target.gguf" \
  --draft-model "$peers/draft/$draft.gguf" --port "$1" --proposer "$2" --draft-len "$3"
