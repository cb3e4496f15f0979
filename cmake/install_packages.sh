#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that a build needs and this machine lacks; does nothing, fast, when all are there.
# Usage: install_packages.sh [SET...], sets: build (default), fuzz, tidy, format. Root, or sudo, is needed only when one is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A sets=(
  [build]="g++ cmake ninja-build libtbb-dev libhwy-dev libeigen3-dev libnlopt-cxx-dev nlohmann-json3-dev libfmt-dev libcli11-dev libgtest-dev libsqlite3-dev zlib1g-dev pkg-config libcpp-httplib-dev libssl-dev libbrotli-dev libyaml-cpp-dev"
  [fuzz]="clang-19 libclang-rt-19-dev"
  [tidy]="clang-19 clang-tidy-19"
  [format]="clang-format-19"
  [page]="chromium chromium-driver python3-selenium"
)
valijson_headers=build/packages/usr/include/valijson

wanted=()
for set in "${@:-build}"; do
  [[ -n ${sets[$set]:-} ]] || { echo "unknown package set '$set'; known: ${!sets[*]}" >&2; exit 2; }
  read -ra packages <<<"${sets[$set]}"
  wanted+=("${packages[@]}")
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "Neither Debian nor Ubuntu, so nothing is installed for you. Needed are valijson's headers and the equivalents of:" >&2
  echo "  ${wanted[*]}" >&2
  exit 0  # the configure run names what is really missing
fi

missing=()
for package in "${wanted[@]}"; do
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
done

needs_valijson=no
[[ -d $valijson_headers || -d /usr/include/valijson ]] || needs_valijson=yes
[[ ${#missing[@]} == 0 && $needs_valijson == no ]] && exit 0

as_root=()
if [[ $EUID != 0 ]]; then
  as_root=(sudo)
  if [[ ${#missing[@]} != 0 ]] && ! command -v sudo >/dev/null; then
    echo "Missing packages, and neither root nor sudo: ask an administrator for: apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi
update_lists() {
  "${as_root[@]}" apt-get update -qq || echo "apt-get update failed; trying with the package lists at hand" >&2
}
if [[ ${#missing[@]} != 0 ]]; then
  update_lists
  echo "Installing ${missing[*]}"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# The headers alone: the package depends on Qt and Poco, several hundred megabytes that nothing here uses. Needs no root.
unpack_valijson() (
  mkdir -p build/packages
  cd build/packages
  apt-get download -qq -o APT::Sandbox::User=root libvalijson-dev && dpkg-deb -x libvalijson-dev_*.deb . && rm libvalijson-dev_*.deb
)
if [[ $needs_valijson == yes ]]; then
  echo "Unpacking the headers of libvalijson-dev into build/packages"
  unpack_valijson || { update_lists && unpack_valijson; }
  [[ -d $valijson_headers ]] || { echo "libvalijson-dev holds no valijson headers" >&2; exit 1; }
fi
