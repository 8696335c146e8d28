#!/usr/bin/env bash
# Runs every fuzz target for a while, as many at a time as there are cores; exit code 1 when one found something. The
# input that did it is then named: make it a test of the part that read it.
#
#   tests/fuzz/run.sh [SECONDS A TARGET]      default 10; needs clang with libFuzzer. PACELINE_LONG=1: writes
#                                             results/long/fuzz.json when nothing was found
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=${1:-10}
experiments/build.sh fuzz fuzzers || exit 1
fuzz() {  # fuzz NAME: one target; its line is printed once it has ended
  local name=$1 found=build/fuzz/found/$1 corpus=build/fuzz/corpus/$1 log=build/fuzz/$1.log input
  mkdir -p "$found" "$corpus"
  if build/fuzz/"$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$found/" "$corpus" "tests/fuzz/seeds/${name%_fuzz}" >"$log" 2>&1; then
    printf '%-22s %8s inputs, nothing found\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
    return 0
  fi
  input=$(sed -nE 's/.*Test unit written to //p' "$log" | tail -n 1)
  if [[ $input == */timeout-* ]] && build/fuzz/"$name" -timeout=10 "$input" >>"$log" 2>&1; then
    printf '%-22s nothing found; an input took 10 s once and not again: %s\n' "$name" "$input"
    return 0
  fi
  printf '%-22s FOUND: %s\n' "$name" "${input:-no input}"
  grep -E 'ERROR|SUMMARY|what\(\)' "$log" | head -n 5
  [ -n "$input" ] && printf '%s %s\n' "base64 of it (at most 3,000 bytes):" "$(head -c 3000 "$input" | base64 -w 0)"
  return 1
}
export -f fuzz
export seconds
printf '%s\n' tests/fuzz/*_fuzz.cpp | xargs -P "$(nproc)" -I{} bash -c 'fuzz "$(basename {} .cpp)"' || exit 1
[ -n "${PACELINE_LONG:-}" ] || exit 0
{
  printf '{\n  "day": "%s",\n  "cores": %d,\n  "seconds_each": %d,\n  "inputs": {' "$(date -u +%F)" "$(nproc)" "$seconds"
  separator=""
  for source in tests/fuzz/*_fuzz.cpp; do
    name=$(basename "$source" .cpp)
    printf '%s\n    "%s": %s' "$separator" "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$name.log")"
    separator=,
  done
  printf '\n  }\n}\n'
} >results/long/fuzz.json
