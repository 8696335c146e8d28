#!/usr/bin/env bash
# Configures and builds a preset: experiments/build.sh PRESET [TARGET...]
# Prints ninja's count, "[12/345]": in place on a terminal, a line every 30 s elsewhere. All output goes to
# build/PRESET.log; of a build that fails, its errors and its end go to standard error (exit code 2). CMAKE_ARGUMENTS
# is passed to cmake.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:?build.sh: name a preset}
shift

# A compiler takes up to 1.2 GiB for a part of a unity build: as many at a time as cores and memory allow.
num_jobs() {
  local memory_kib cgroup jobs
  memory_kib=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
  cgroup=$(cat /sys/fs/cgroup/memory.max 2>/dev/null)
  [[ $cgroup =~ ^[0-9]+$ ]] && [ $((cgroup / 1024)) -lt "$memory_kib" ] && memory_kib=$((cgroup / 1024))
  jobs=$((memory_kib / (1250 * 1024)))
  [ "$jobs" -gt "$(nproc)" ] && jobs=$(nproc)
  echo $((jobs < 1 ? 1 : jobs))
}

show_steps() {
  local line next=30
  while IFS= read -r line; do
    [[ $line =~ ^\[[0-9]+/[0-9]+\] ]] || continue
    if [ -t 1 ]; then
      printf '\r  %s ' "${BASH_REMATCH[0]}"
    elif [ "$SECONDS" -ge "$next" ]; then
      printf '  %s %d:%02d\n' "${BASH_REMATCH[0]}" $((SECONDS / 60)) $((SECONDS % 60))
      next=$((SECONDS + 30))
    fi
  done
  [ -t 1 ] && printf '\r\033[K'
  return 0
}

mkdir -p build
log=build/$preset.log
read -ra arguments <<<"${CMAKE_ARGUMENTS:-}"
SECONDS=0
if ! { cmake --preset "$preset" "${arguments[@]}" && cmake --build --preset "$preset" -j "$(num_jobs)" ${1:+--target "$@"}; } 2>&1 |
  tee "$log" | show_steps; then
  grep -anE 'error|FAILED' "$log" | head -n 40 >&2
  tail -n 15 "$log" >&2
  exit 2
fi
