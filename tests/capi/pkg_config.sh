#!/usr/bin/env bash
# Builds and runs C programs through pkg-config, with the shared and the static library, and the one of the how-to:
#   pkg_config.sh COMPILER PREFIX FOLDER
set -euo pipefail
compiler=$1 prefix=$2 folder=$3
source=$(dirname "$0")/consumer/products.c
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
mkdir -p "$folder"
pkg-config --atleast-version=1.0 ompipe_kernels
read -ra compile <<<"-std=c11 -O2 -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags ompipe_kernels)"
read -ra shared <<<"$(pkg-config --libs ompipe_kernels)"
read -ra static <<<"$(pkg-config --static --libs ompipe_kernels)"
shared+=("-Wl,-rpath,$(pkg-config --variable=libdir ompipe_kernels)")

"$compiler" "${compile[@]}" "$source" -o "$folder/products_shared" "${shared[@]}" -pthread -lm
"$folder/products_shared"

awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$(dirname "$0")/../../docs/how-to/use-the-kernels-from-c.md" \
  >"$folder/how_to.c"
"$compiler" "${compile[@]}" "$folder/how_to.c" -o "$folder/how_to" "${shared[@]}"
test "$("$folder/how_to")" = 32

# The name of the archive in place of -lompipe_kernels, which prefers the shared library.
"$compiler" "${compile[@]}" "$source" -o "$folder/products_static" "${static[@]/#-lompipe_kernels/-l:libompipe_kernels.a}" -pthread
"$folder/products_static"
if readelf -d "$folder/products_static" | grep libompipe; then
  echo "pkg_config.sh: the static program needs the shared library" >&2
  exit 1
fi
