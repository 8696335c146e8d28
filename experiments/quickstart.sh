#!/usr/bin/env bash
# From a fresh machine to the first report: installs what is missing, builds runexp, runs the quick experiment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

./experiments/packages.sh
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "building runexp (a few minutes the first time)"
show_steps() {  # on a terminal "[12/345]", ninja's count, in place
  [ -t 1 ] || exec cat >/dev/null
  while IFS= read -r line; do
    [[ $line =~ ^\[[0-9]+/[0-9]+\] ]] && printf '\r  %s ' "${BASH_REMATCH[0]}"
  done
  printf '\r\033[K'
}
if ! { cmake --preset release && cmake --build --preset release --target runexp; } 2>&1 | tee "$log" | show_steps; then
  tail -n 40 "$log" >&2
  exit 2
fi
./build/release/runexp configs/ngram_tp2.json --profile quick "$@"
echo
echo "The report: $(pwd)/results/latest/report.html"
