# Installs what a fresh Debian 12 lacks for building and testing; sourced by tests/run.sh and experiments/quickstart.sh.

ompipe_packages=(
  clang-19 libomp-19-dev libclang-rt-19-dev clang-format-19 gcc-12
  cmake ninja-build ccache pkg-config git python3 python3-numpy
  libhwloc-dev libxxhash-dev libssl-dev libprotozero-dev libfmt-dev nlohmann-json3-dev libcli11-dev
  doctest-dev librapidcheck-dev libsimde-dev libbenchmark-dev spin
)
ompipe_long_packages=(g++-12 clang-tidy-19 g++-aarch64-linux-gnu qemu-user)

# install_missing PACKAGE...: asks apt only for what isn't there, and says for what.
install_missing() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    return 0
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}
