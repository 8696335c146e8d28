#!/usr/bin/env bash
# vLLM's server on CPUs at 127.0.0.1, for configs/peer_serving.json; experiments/peers/install.sh vllm puts it there. It
# lists its model as NAME@INSTRUCTION-SET, so that a report says what it runs on.
#
#   experiments/peers/vllm_server.sh PORT      PEERS, PEER_TARGET: install.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
peers=${PEERS:-build/peers}
target=${PEER_TARGET:-$PWD/configs/models/target-7m}

isa=$("$peers/vllm/bin/python" -c 'import torch; print(torch.backends.cpu.get_cpu_capability())')
# All cores compute; /reset_prefix_cache answers in development mode only.
export VLLM_CPU_NUM_OF_RESERVED_CPU=0 VLLM_CPU_KVCACHE_SPACE=1 VLLM_SERVER_DEV_MODE=1 VLLM_NO_USAGE_STATS=1
export HF_HUB_OFFLINE=1
exec "$peers/vllm/bin/vllm" serve "$target" --served-model-name "$(basename "$target")@$isa" --host 127.0.0.1 \
  --port "$1" --max-model-len 1024 --max-num-seqs 8 --enforce-eager
