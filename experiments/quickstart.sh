#!/usr/bin/env bash
# From a fresh machine to the first report: installs what is missing, builds runexp, runs the quick experiment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

minutes_since() { printf '%d:%02d' $((($(date +%s) - $1) / 60)) $((($(date +%s) - $1) % 60)); }

start=$(date +%s)
./experiments/packages.sh
installed=$(minutes_since "$start")

start=$(date +%s)
echo "building runexp (a few minutes the first time)"
if [ -x build/release/runexp ]; then
  ./experiments/build.sh release runexp
else  # a part of it is enough for the report; `runexp resume` goes on with it until the rest is built
  ./experiments/build.sh release runexp_first
  cp build/release/runexp_first build/release/runexp
fi
built=$(minutes_since "$start")

start=$(date +%s)
./build/release/runexp configs/ngram_tp2.json --profile quick "$@"
echo
echo "The report: $(pwd)/results/latest/report.html"
echo "Minutes: packages $installed, build $built, run and report $(minutes_since "$start")"
echo
echo "building the rest: build/release/runexp, which also serves and verifies"
./experiments/build.sh release runexp
echo "done; ./build/release/runexp --help lists what it does"
