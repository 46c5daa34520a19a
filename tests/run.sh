#!/usr/bin/env bash
# Sets up, builds and runs every test: optimised, under the address and undefined-behaviour sanitizers, and, for what is concurrent,
# under ThreadSanitizer. Ends with ctest's own summary over all of them. Run it again and it builds nothing twice.
#   --quick  the optimised build only
#   --long   also g++ with libgomp, the kernels on an emulated aarch64, clang-tidy, the large models, repeated scheduler tests, and a
#            million loads
set -euo pipefail
cd "$(dirname "$0")/.."
. experiments/setup_packages.sh

# Objects of other checkouts of the same sources are found in the compile cache, where there is one.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

builds=(release asan tsan)
long=no
case "${1:-}" in
  "") ;;
  --quick) builds=(release) ;;
  --long) builds=(release asan tsan gcc aarch64) long=yes ;;
  *) echo "tests/run.sh [--quick|--long]" >&2; exit 2 ;;
esac

# stage NAME COMMAND...: runs it and says how long it took.
stage() {
  local name=$1 begin=$SECONDS
  shift
  echo "== $name"
  "$@"
  local took=$((SECONDS - begin))
  printf '== %s: %d min %02d s\n' "$name" $((took / 60)) $((took % 60))
}

packages() {
  install_missing "${ompipe_packages[@]}"
  if [ $long = yes ]; then
    install_missing "${ompipe_long_packages[@]}"
  fi
}

build() {
  if [ ! -f "build/$1/build.ninja" ]; then
    cmake --preset "$1" >/dev/null
  fi
  ninja -C "build/$1" --quiet
}

# One list of all builds' tests, so that one ctest runs them and one summary covers them; a name's prefix says which build it is of.
list_tests() {
  mkdir -p build/tests
  for name in "${builds[@]}"; do
    echo "subdirs(\"$PWD/build/$name\")"
  done >build/tests/CTestTestfile.cmake
}

tidy() {
  git ls-files 'kernels/*.cpp' ':!kernels/*neon*' 'arenas/*.cpp' 'io_service/*.cpp' 'omp_runtime/*.cpp' |
    xargs -P 2 -n 4 clang-tidy-19 --quiet -p build/release
}

# Order must not depend on luck: the schedulers' tests, again and again, until one fails.
repeat_schedulers() {
  ctest --test-dir build/release -L scheduler --repeat until-fail:1000 --output-on-failure --stop-on-failure
}

# In a function, so that the whole script has been read before anything runs.
main() {
  stage packages packages
  for name in "${builds[@]}"; do
    stage "build $name" build "$name"
  done
  if [ $long = yes ]; then
    stage clang-tidy tidy
    stage "schedulers 1000 times" repeat_schedulers
    export OMPIPE_LONG=1  # the tests that it lengthens say so themselves
  fi
  list_tests
  ctest --test-dir build/tests --output-on-failure -LE 'numa|peers'
}
main
exit
