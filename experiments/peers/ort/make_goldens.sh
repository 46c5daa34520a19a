#!/bin/sh
# Makes tests/goldens again: make_goldens.sh OMPIPE WORK_DIR [GOLDEN_DIR]
# OMPIPE is the program, WORK_DIR takes one generated model at a time (up to 1.1 GB).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
ompipe=$1
work=$2
goldens=${3:-$here/../../../tests/goldens}
seed=1

[ -d "$here/node_modules/onnxruntime-node" ] || (cd "$here" && npm install --ignore-scripts)
mkdir -p "$work" "$goldens"

golden() {
  "$ompipe" generate "$1" "$work/$1" --seed "$seed" --accuracy-level "$2"
  node "$here/goldens.js" "$1" "$2" "$seed" "$work/$1" "$goldens"
  rm -r "$work/$1"
}

node "$here/mat_mul_nbits.js" "$goldens"
golden tiny-int4 0
golden tiny-int4 4
golden qwen-0.5b-int4 0
golden qwen-0.5b-int4 4
golden mlp-f32-1g 4
golden bert-f32 4
