#!/usr/bin/env bash
# What needs GPUs: op, strict, golden and losslessness tests, with kernels that sleep at random where they hand over
# (CMake's target `sleeps`) and without early starts, too; ranks on two devices or more, sanitizers over the ops, one
# experiment over all placements that the machine has room for, times of a step at the 8B and 1B shapes beside their
# floors, those of 8B against committed ratios, and a long comparison of tokens.
# Prints a table, a line as each ends; exit code 1 when anything failed. Run it in the root of the tree.
#
#   tests/gpu.sh [--quick] [FOLDER OF BINARIES] [FOLDER FOR LOGS]      default: build/cuda, build/gpu-logs
#   --quick: no sanitizers, which take three of four minutes
set -uo pipefail
quick=0
[[ ${1:-} == --quick ]] && quick=1 && shift
bin=$(realpath "${1:-build/cuda}")
logs=${2:-build/gpu-logs}
mkdir -p "$logs"
failed=0
gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null)
num_gpus=$(grep -c . <<<"$gpus")

# name, command …: runs it, keeps its output, prints its line of the table
step() {
  local name=$1 start=$SECONDS status=ok
  shift
  "$@" >"$logs/$name.log" 2>&1 || { status=FAILED && failed=1; }
  printf '%-28s %-7s %4d s   %s\n' "$name" "$status" $((SECONDS - start)) "$(summary "$logs/$name.log")"
}
skip() {  # name, reason: prints a line of the table
  printf '%-28s %-7s          %s\n' "$1" skipped "$2"
}
summary() {
  local facts='^\[  (PASSED|FAILED)  \] [0-9]|ERROR SUMMARY|Lossless:|tests ran|cells, (no|[0-9]+) difference'
  facts+='|^steps of|^(1|6|17) rows? |^16 x 6 |: no room$|^plans|tree of 16|Without speculation, against'
  facts+='|Attention/(decode|verify)/16x4096|SumNorm/'
  grep -aE "$facts" "$1" | sed -E 's/\[=*\] //; s/ +/ /g; s/^Attention.(.*).manual_time.*(of_read=[0-9.]+).*/\1 \2/
    s/^(.*SumNorm.*).manual_time ([0-9.]+ us).*/\1 \2/' | tail -12 | tr '\n' ' '
}

step ops "$bin/test_kernels" --gtest_filter='*cuda*'
step doctor "$bin/runexp" doctor --results "$logs/results"
step probe "$bin/test_kernels_cuda"
step strict "$bin/test_kernels_cpu" --gtest_filter='Strict.*'
step fast "$bin/test_cli" --gtest_filter='Fast.*'
step goldens "$bin/test_engine_transformer" --gtest_filter='*Cuda*'
# the losslessness tests with their ranks on GPUs, as far as those are enough
lossless='*Eagle3*:*FamilyLossless*:*TreeLossless*:TreeRejection*:*SupportedFamily*:LosslessMatrix.*:*_tp1_pp1:*DraftCacheTest*/greedy:*DraftCacheTest*/coupled:*DraftCacheTest*/self:*RejectionTest*'
[[ $num_gpus -ge 2 ]] && lossless+=':*_tp2_pp1:*_tp1_pp2:*DraftCacheTest*/tp2_on*:*DraftCacheTest*/tp2_with*:*DraftCacheTest*/pp2'
step lossless env PACELINE_RIG_DEVICE=cuda PACELINE_MATRIX_TOKENS=50000 "$bin/test_speculative_lossless" \
  --gtest_filter="$lossless"
step no_early_starts env PACELINE_RIG_DEVICE=cuda PACELINE_RIG_EARLY_STARTS=off PACELINE_MATRIX_TOKENS=50000 \
  "$bin/test_speculative_lossless" --gtest_filter="$lossless"
if [[ -x $bin/test_speculative_lossless_sleeps ]]; then
  step sleeps_ops "$bin/test_kernels_sleeps" --gtest_filter='*cuda:*cuda_fast'
  step sleeps_cuda "$bin/test_kernels_cuda_sleeps"
  step sleeps_strict "$bin/test_kernels_cpu_sleeps" --gtest_filter='Strict.*'
  step sleeps_lossless env PACELINE_RIG_DEVICE=cuda PACELINE_MATRIX_TOKENS=50000 \
    "$bin/test_speculative_lossless_sleeps" --gtest_filter="$lossless"
else
  skip sleeps "not built: cmake --build $bin --target sleeps"
fi
step tree_bits env PACELINE_RIG_DEVICE=cuda "$bin/test_engine_transformer" --gtest_filter='*TreeBits*'
step nccl "$bin/test_engine_comm" --gtest_filter='NcclComm.*'
if [[ $quick == 0 ]] && command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck synccheck; do  # without the test of thousands of small verdicts, and once
    step "ops_$tool" compute-sanitizer --tool $tool --error-exitcode 1 "$bin/test_kernels" \
      --gtest_filter='*cuda*:-*Draws.Accept*:*early_starts'
  done
fi
experiment=(configs/ngram_tp2.json --profile quick --set engine.backend=cuda --results "$logs/results" --ui plain)
step ngram_and_draft "$bin/runexp" "${experiment[@]}"
# the exact gate, where there is a baseline for as many GPUs. Those of the H200 hold on H100s, too: the same kernels
# with the same bits.
baseline=results/baselines/h200-x$num_gpus.json
[[ $baseline == *-x1.json ]] && baseline=results/baselines/h200.json
if [[ $gpus == *H[12]00* && -e $baseline ]]; then
  step regression "$bin/runexp" regress "${experiment[@]}" --set measure.repetitions=1 --baseline "$baseline"
fi
# the step gate: steps over their floors, against what is committed for the card. Of random weights, for an inflated
# model knows no more positions than its parent; some 60 GiB of the card.
for numerics in strict fast; do
  step "steps_8b_$numerics" env PACELINE_BENCH_ONLY=gate PACELINE_BENCH_BACKEND=cuda PACELINE_BENCH_NUMERICS=$numerics \
    PACELINE_BENCH_INFLATE=llama-3.1-8b PACELINE_BENCH_DUMMY=1 PACELINE_BENCH_STEPS=results/baselines/steps.json \
    "$bin/engine_bench" configs/models/target-7m 9
done
# times of steps, trees of drafts and plans, and of plain decoding in every placement, with built-in text at big models'
# cost
for shape in llama-3-8b llama-3.2-1b; do
  step "steps_$shape" env PACELINE_BENCH_ONLY=steps PACELINE_BENCH_BACKEND=cuda PACELINE_BENCH_INFLATE=$shape \
    "$bin/engine_bench" configs/models/target-7m 9
done
# penalties and masks of allowed tokens over steps without
step plans_8b env PACELINE_BENCH_ONLY=plans PACELINE_BENCH_BACKEND=cuda PACELINE_BENCH_INFLATE=llama-3-8b \
  "$bin/engine_bench" configs/models/target-7m 5
# sums over ranks with the norms that add them, beside NCCL's
[[ $num_gpus -ge 2 && -x $bin/ranks_bench ]] && step sums "$bin/ranks_bench"
# attention's share of a plain read
step attention "$bin/cuda_bench" --benchmark_filter='Attention' --benchmark_min_time=0.1
big=("${experiment[@]}" --set engine.target.inflate=llama-3-8b)
step placements_8b "$bin/runexp" "${big[@]}" --only 'proposer=="none"'
# 105,264 tokens of speculation against plain decoding, 16 sequences at a time
step strict_100k "$bin/runexp" "${big[@]}" --set workload.requests=129 --set sampling.max_tokens=136 \
  --set sampling.ignore_eos=true --axis concurrency=16 --only 'tp==1 && pp==1 && (proposer=="none" || k==5)'

exit $failed
