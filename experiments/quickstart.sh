#!/usr/bin/env bash
# From a fresh machine to the first report: installs what is missing, builds runexp, runs the quick experiment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

./experiments/packages.sh
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "building runexp (a few minutes the first time)"
if ! { cmake --preset release && cmake --build --preset release --target runexp; } >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  exit 2
fi
./build/release/runexp configs/ngram_tp2.json --profile quick "$@"
echo
echo "The report: $(pwd)/results/latest/report.html"
