#!/usr/bin/env bash
# Puts everything needed to run moetune elsewhere into one folder: program, data and the libraries that are not part of every
# system; and its tests into another one beside it, BUNDLE_FOLDER-tests, each within the limit.
# No CUDA or NCCL library: those are opened at run time from the machine itself.
# Usage: bundle.sh BUILD_FOLDER BUNDLE_FOLDER. Start at "What it must not be" for the promises that are checked.
set -euo pipefail
build=$1
bundle=$2
limit_bytes=$((25 * 1000 * 1000))

tests=$bundle-tests

rm -rf "$bundle" "$tests"
cmake --install "$build" --prefix "$bundle" --component moetune --strip >/dev/null
cmake --install "$build" --prefix "$tests" --component tests --strip >/dev/null

mkdir -p "$bundle/lib"
programs=("$bundle"/bin/moetune "$tests"/tests/*_tests)
# glibc and the compiler's own libraries stay the system's: drivers loaded later must find the same ones.
# So does OpenSSL: its repairs have to come with the system's, and it would be a fifth of the bundle.
for program in "${programs[@]}"; do ldd "$program"; done | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
  while read -r name path; do
    case $name in
      libmoetune_*) ;;  # installed with the program
      libc.so.*|libm.so.*|libdl.so.*|librt.so.*|libpthread.so.*|ld-linux*|libstdc++.so.*|libgcc_s.so.*) ;;
      libssl.so.*|libcrypto.so.*) ;;
      libcuda*|libcublas*|libnccl*|libcupti*|libnvidia*) echo "$name must be opened at run time, not linked" >&2; exit 1 ;;
      *) install -m 755 "$(realpath "$path")" "$bundle/lib/$name"; strip --strip-unneeded "$bundle/lib/$name" ;;
    esac
  done

# Tests look below $MOETUNE_SOURCE_DIR: their folder's root, with links into the bundle where the source tree has these folders.
name=$(basename "$bundle")
rm -rf "$tests/lib"  # programs of both folders look in ../lib; what the install step put here is in the bundle too
ln -s "../$name/lib" "$tests/lib"
mkdir -p "$tests/engine"
ln -s "../../$name/share/moetune/models" "$tests/engine/models"
mkdir -p "$tests/tuner/export" "$tests/reports"
ln -s "../../../$name/share/moetune/server_flags" "$tests/tuner/export/flags"
ln -s "../../$name/share/moetune/claims.json" "$tests/reports/claims.json"
for folder in search_spaces profiles; do
  [[ -d $bundle/share/moetune/$folder ]] && ln -s "../$name/share/moetune/$folder" "$tests/$folder"
done

cat > "$tests/tests/run" <<'RUN'
#!/usr/bin/env bash
# Runs the bundle's test programs and flows. Usage: tests/run [PATTERN of names]
set -uo pipefail
export MOETUNE_SOURCE_DIR=$(cd "$(dirname "$0")/.." && pwd)
export MOETUNE=$MOETUNE_SOURCE_DIR/../BUNDLE_NAME/bin/moetune
failed=0
for test in "$MOETUNE_SOURCE_DIR"/tests/*_tests "$MOETUNE_SOURCE_DIR"/tests/flows/*.sh; do
  [[ -e $test && $(basename "$test") == *${1:-}* ]] || continue
  case $test in
    *.sh) bash "$test"; status=$? ;;
    *) "$test" --gtest_brief=1; status=$? ;;
  esac
  case $status in
    0) echo "passed $(basename "$test")" ;;
    77) echo "skipped $(basename "$test")" ;;
    *) echo "FAILED $(basename "$test") ($status)"; failed=1 ;;
  esac
done
exit $failed
RUN
sed -i "s/BUNDLE_NAME/$name/" "$tests/tests/run"
chmod +x "$tests/tests/run"

# What it must not be -------------------------------------------------------------------------------------------------
for program in "${programs[@]}"; do
  if env -u LD_LIBRARY_PATH ldd "$program" | grep 'not found'; then echo "$program: library missing" >&2; exit 1; fi
  outside=$(ldd "$program" | awk '$2 == "=>" {print $3}' | grep -E 'lib(tbb|nlopt|fmt|hwy)' | grep -v "$(realpath "$bundle")" || true)
  [[ -z $outside ]] || { echo "$program uses $outside instead of the bundled copy" >&2; exit 1; }
done
for folder in "$bundle" "$tests"; do
  bytes=$(du -sb --apparent-size "$folder" | cut -f1)
  [[ $bytes -le $limit_bytes ]] || { echo "$folder has $bytes bytes, limit $limit_bytes" >&2; exit 1; }
  echo "$folder: $bytes bytes (limit $limit_bytes)"
done
"$bundle/bin/moetune" --version
