#!/usr/bin/env bash
# Builds and runs the tests. The last line is "N passed, M failed, K skipped".
#
#   ./tests/run.sh           release build, all tests
#   ./tests/run.sh --all     and the sanitizer builds: ASan + UBSan on all but most of tests/cli, TSan on what runs
#                            threads; and the CUDA build where nvcc is; and 5 s of each fuzz target
#   ./tests/run.sh --tokens 1000000   length of the losslessness matrix (60,000 without)
#   ./tests/run.sh --long    with the long samples: 500 kill points, 200 windows of the timing gate, 1,000,000 tokens of the
#                            matrix, experiments of the documents at full length, ten minutes of an open loop against
#                            runexp serve and, with --all, of each fuzz target; writes results/long/
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all=0
tokens=""
fuzz_seconds=5
while [ $# -gt 0 ]; do
  case "$1" in
    --all) all=1 ;;
    --long) export PACELINE_LONG=1; fuzz_seconds=600 ;;
    --tokens) shift; tokens="${1:?--tokens needs a number}" ;;
    *) echo "run.sh: unknown option $1; options: --all, --long, --tokens N" >&2; exit 2 ;;
  esac
  shift
done

packages=()
# For fuzz targets, completion scripts, reports, clients of the server.
[ "$all" -eq 1 ] && packages=(clang zsh fish chromium? curl python3-venv)
./experiments/packages.sh "${packages[@]}" || exit 2
[ "$all" -eq 1 ] && tests/cli/clients/install.sh
jobs=$(nproc)
passed=0 failed=0 skipped=0
declare -a minutes=()
mkdir -p build
: >build/skips.txt
: >build/failures.txt
: >build/durations.txt

timed() {  # timed NAME COMMAND...: runs it and notes its minutes
  local name="$1" start end status
  shift
  start=$(date +%s)
  "$@"
  status=$?
  end=$(date +%s)
  minutes+=("$(printf '%-24s %5.1f min' "$name" "$(awk "BEGIN { print ($end - $start) / 60 }")")")
  return $status
}

part_failed() {  # part_failed NAME LOG: a part without a test to name; what its log says is printed with the failed tests
  failed=$((failed + 1))
  {
    echo
    echo "failed: $1"
    grep -aE 'error|compile|FAILED|FOUND' "$2" | head -n 20
    tail -n 20 "$2"
  } >>build/failures.txt
}

run_tests() {  # run_tests PRESET[/PART] CTEST_OPTIONS...: adds to the counts
  local preset="${1%/*}" name="${1/\//-}" junit counts log
  shift
  junit="$PWD/build/$name-tests.xml" log="$PWD/build/$name-tests.log"
  rm -f "$junit"
  (cd "build/$preset" && ctest -j "$jobs" --output-on-failure --output-junit "$junit" "$@" >"$log" 2>&1)
  # ctest runs all tests where it cannot read an expression.
  if [ ! -s "$junit" ] || grep -q 'RegularExpression::compile' "$log"; then
    part_failed "$name tests" "$log"
    return
  fi
  # What each failed test printed, at most 60 lines of it.
  awk '/^ *[0-9]+\/[0-9]+ Test +#/ { show = /\*\*\*/ && !/\*\*\*Skipped/; lines = 0; if (show) print "" }
       /^[0-9]+% tests passed/ { show = 0 }
       show && !/^ +Start +[0-9]+: / && ++lines <= 60' "$log" >>build/failures.txt
  grep -E '^The following tests FAILED' -A 100 "$log" >>build/failures.txt
  counts=$(sed -n 's/.*tests="\([0-9]*\)".*failures="\([0-9]*\)".*disabled="\([0-9]*\)".*skipped="\([0-9]*\)".*/\1 \2 \3 \4/p;' "$junit" | head -n 1)
  [ -n "$counts" ] || counts=$(tr '\n' ' ' <"$junit" | sed -n 's/.*<testsuite[^>]*tests="\([0-9]*\)"[^>]*failures="\([0-9]*\)"[^>]*disabled="\([0-9]*\)"[^>]*skipped="\([0-9]*\)".*/\1 \2 \3 \4/p')
  read -r total bad off left <<<"$counts"
  failed=$((failed + bad))
  skipped=$((skipped + left + off))
  passed=$((passed + total - bad - left - off))
  grep -E '\*\*\*Skipped' "$log" | sed -E "s/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .*/$preset \1/" >>build/skips.txt
  sed -nE "s/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .* ([0-9.]+) sec.*/\2 $preset \1/p" "$log" >>build/durations.txt
}

fuzz_targets() {
  tests/fuzz/run.sh "$fuzz_seconds" 2>&1 | tee build/fuzz-targets.log
}

[ -n "$tokens" ] && export PACELINE_MATRIX_TOKENS="$tokens"
timed "release build" experiments/build.sh release || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }
timed "release tests" run_tests release

if [ "$all" -eq 1 ]; then
  export PACELINE_MATRIX_TOKENS=5000
  if timed "asan build" experiments/build.sh asan; then
    export ASAN_OPTIONS=detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1
    # Without what repeats the same code for minutes, on sound input. A name may go on with its parameter. CMake's regular
    # expressions hold nine groups.
    repeats='SelfTest.Finds|RejectionTest|TreeRejection|SampledLaw|Eagle3\.KeepsAsMany|AnyInstructionSet/target_7m'
    repeats+='|TreeBits.*/target_7m|Inflate\.Other|ReportInBrowser|FaultsPage|HolmKeeps|Bootstrap.IntervalsHold'
    repeats+='|Claims.OfEqual|Synthetic.KeepsAsMany|InflateEngine.Greedy|FastEngine.FlipsOf'
    # Bits and values where both sides run elsewhere for every instruction set.
    repeats+='|(FusedOps|DecoderOps|TreeAttention|BackendOps.Attention).*/(scalar|avx512)( |$)'
    repeats+='|Strict.GemmRowsDoNot|TimingGate|DraftCacheTest.*/(greedy|rejection|self|coupled|pp2|tp2_on)'
    eagle3='alone|preempted|swapped|prefixes|tree|pp2|pp2_prefixes|tree_pp2|tree_pp2_prefixes|tp2|tp2_pp2'
    eagle3+='|lookup|lookup_tp2_pp2'
    repeats+="|Eagle3Lossless.*/(${eagle3})( |\$)"
    timed "asan tests" run_tests asan -LE '^(test_cli|regression)$' -E "$repeats"
    # Of the whole program what meets damaged files and sudden ends; the rest runs the same code on sound input.
    timed "asan cli tests" run_tests asan/cli -L '^test_cli$' -R '(^|/)(Bad|MemoryFault|Resume)'
  else
    part_failed "asan build" build/asan.log
  fi
  # Threads run in the thread pool, the ranks and all that runs over them.
  tsan_targets=(test_kernels_cpu test_engine_comm test_engine_core test_engine_transformer test_engine_serve
    test_speculative_lossless)
  if timed "tsan build" experiments/build.sh tsan "${tsan_targets[@]}"; then
    label=$(IFS='|'; echo "${tsan_targets[*]}")
    # Of the pool, the ranks and the engine over them all, of what runs on top the widest layouts: others start no other
    # threads. Arithmetic on one thread is not in the list.
    threads='ThreadPool|RowBlocks|WaitCounter|ActivityLog|ThreadComm|RankTeam|SlowRank|Digest|CopiesOrder|Scheduler'
    threads+='|(^|/)(Tree)?Engine|Strict.GemmBitsAreEqualAcrossThreads|Bitwise.Any(NumberOfThreads|Ranks)/llama_gqa'
    threads+='|Taps.TravelWith|FamilyGolden.BitsOfOneRankOnAllRanksAndInChunks/gemma|FamilyTaps.*/gemma'
    threads+='|SupportedFamily.*/(llama|gemma)|(RunAhead|Cancel)Test.*tp2_pp2|ChangingLength.*/selfdraft_greedy'
    threads+='|DraftCacheTest.*/(tp2_pp2_with_draft_tp2|tree_coupled_tp2_pp2_with_draft_tp2)'
    threads+='|HttpServer|HttpFaults|OpenAiServer|ServerFailpoints'
    threads+='|TreeLossless.*tp2_pp2_nodes8|Eagle3Lossless.*/tree_tp2_prefixes_swapped'
    TSAN_OPTIONS=halt_on_error=1 timed "tsan tests" run_tests tsan -L "^(${label})\$" -R "$threads"
  else
    part_failed "tsan build" build/tsan.log
  fi
  timed "fuzz targets" fuzz_targets || part_failed "fuzz targets" build/fuzz-targets.log
  # A GPU is not needed to compile for one; tests/gpu.sh runs what needs it.
  if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    # Code for one architecture, and the front end for the oldest: the three of a release take three times as long. Two
    # programs link all that knows of CUDA and NCCL; experiments/ does not.
    cuda_arguments="-DCMAKE_UNITY_BUILD=ON -DCMAKE_CUDA_ARCHITECTURES=80-virtual;90a-real"
    CMAKE_ARGUMENTS=$cuda_arguments timed "cuda build" experiments/build.sh cuda test_kernels test_engine_comm ||
      part_failed "cuda build" build/cuda.log
  fi
fi

echo "skipped tests, each named in build/skips.txt:"
awk '{ split($2, part, "."); sub(/.*\//, "", part[1]); print "  " $1, part[1] }' build/skips.txt | sort | uniq -c
echo "the slowest tests, in seconds"
sort -rn build/durations.txt | head -n 20 | sed 's/^/  /'
printf '%s\n' "${minutes[@]}" | tee build/minutes.txt
cat build/failures.txt
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
