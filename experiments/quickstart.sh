#!/usr/bin/env bash
# From a fresh Debian 12 to the first tokens: installs what is missing, builds, generates a small INT4 decoder, and runs it while it
# loads, from a cold page cache. Run it again and it does no work twice.
set -euo pipefail
cd "$(dirname "$0")/.."
. experiments/setup_packages.sh
install_missing "${ompipe_packages[@]}"

if [ ! -f build/release/build.ninja ]; then
  cmake --preset release >/dev/null
fi
ninja -C build/release ompipe

ompipe=build/release/bin/ompipe
out=build/quickstart
if [ ! -f $out/model.onnx ]; then
  $ompipe generate tiny-int4 $out
fi
echo
echo "$ompipe run $out/model.onnx --prompt-length 16 --generate 16 --drop-page-cache"
$ompipe run $out/model.onnx --prompt-length 16 --generate 16 --drop-page-cache --report $out/report.json --trace $out/trace.json
echo
echo "report: $out/report.json"
echo "trace:  $out/trace.json (open it in ui.perfetto.dev, or draw it: experiments/trace_to_svg.py $out/trace.json $out/trace.svg)"
