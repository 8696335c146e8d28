#!/usr/bin/env bash
# What needs GPUs: op, strict and golden tests, ranks on two devices or more, sanitizers over the ops, and one experiment
# over all placements that the machine has room for. Prints a table last; exit code 1 when anything failed. Run it in the
# root of the tree.
#
#   tests/gpu.sh [FOLDER OF BINARIES] [FOLDER FOR LOGS]      default: build/cuda, build/gpu-logs
set -uo pipefail
bin=$(realpath "${1:-build/cuda}")
logs=${2:-build/gpu-logs}
mkdir -p "$logs"
table=()
failed=0

# name, command …: runs it, keeps its output, adds a line to the table
step() {
  local name=$1 start=$SECONDS status=ok
  shift
  "$@" >"$logs/$name.log" 2>&1 || { status=FAILED && failed=1; }
  table+=("$(printf '%-28s %-7s %4d s   %s' "$name" "$status" $((SECONDS - start)) "$(summary "$logs/$name.log")")")
}
summary() { grep -aE '^\[  (PASSED|FAILED)  \] [0-9]|ERROR SUMMARY|Lossless:|tests ran|cells, (no|[0-9]+) difference' "$1" | sed 's/\[=*\] //' | tail -2 | tr '\n' ' '; }

step ops "$bin/test_kernels" --gtest_filter='*cuda*'
step doctor "$bin/runexp" doctor --results "$logs/results"
step probe "$bin/test_kernels_cuda"
step strict "$bin/test_kernels_cpu" --gtest_filter='Strict.*'
step fast "$bin/test_cli" --gtest_filter='Fast.*'
step goldens "$bin/test_engine_transformer" --gtest_filter='*Cuda*'
step nccl "$bin/test_engine_comm" --gtest_filter='NcclComm.*'
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck synccheck; do  # without the test of thousands of small verdicts
    step "ops_$tool" compute-sanitizer --tool $tool --error-exitcode 1 "$bin/test_kernels" \
      --gtest_filter='*cuda*:-*Draws.Accept*'
  done
fi
experiment=(configs/ngram_tp2.json --profile quick --set engine.backend=cuda --results "$logs/results" --ui plain)
step ngram_and_draft "$bin/runexp" "${experiment[@]}"
# the exact gate, where a baseline was made on as many GPUs of the kind
gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null)
baseline=results/baselines/h200-x$(grep -c . <<<"$gpus").json
[[ $baseline == *-x1.json ]] && baseline=results/baselines/h200.json
if [[ $gpus == *H200* && -e $baseline ]]; then
  step regression "$bin/runexp" regress "${experiment[@]}" --set measure.repetitions=1 --baseline "$baseline"
fi

printf '%s\n' "${table[@]}"
exit $failed
