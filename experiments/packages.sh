#!/usr/bin/env bash
# Installs what the build needs on Debian 12 or Ubuntu 24.04, and the packages that the arguments name (NAME?: where the
# distribution has it); does nothing where all of it is there.
set -euo pipefail

packages=(cmake ninja-build g++ ccache pkg-config libcli11-dev nlohmann-json3-dev libyaml-cpp-dev libspdlog-dev libfmt-dev
  libeigen3-dev libpcre2-dev libutf8proc-dev libboost-dev zlib1g-dev libgtest-dev libgmock-dev libbenchmark-dev tmux "$@")

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "${package%\?}" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
# A newer cmake or ninja from elsewhere serves as well.
command -v cmake >/dev/null && cmake --version | awk 'NR==1 { split($3, v, "."); exit !(v[1] > 3 || (v[1] == 3 && v[2] >= 25)) }' && missing=("${missing[@]/#%cmake}")
command -v ninja >/dev/null && missing=("${missing[@]/#%ninja-build}")
wanted=()
for package in "${missing[@]}"; do [ -n "$package" ] && wanted+=("$package"); done
[ ${#wanted[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "packages.sh: these packages are missing and there is no apt-get: ${wanted[*]}" >&2
  exit 2
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "packages.sh: run as root: apt-get install -y ${wanted[*]}" >&2; exit 2; }
  sudo=(sudo)
fi
echo "installing: ${wanted[*]}"
log=$(mktemp)
install() {
  local names=() package
  "${sudo[@]}" apt-get update -qq || return
  for package in "${wanted[@]}"; do
    if [[ $package != *\? ]] || [[ $(apt-cache policy "${package%\?}") =~ Candidate:\ [0-9] ]]; then
      names+=("${package%\?}")
    fi
  done
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${names[@]}"
}
if ! install >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "packages.sh: apt-get failed; fix the above, or install by hand: apt-get install -y ${wanted[*]}" >&2
  exit 2
fi
