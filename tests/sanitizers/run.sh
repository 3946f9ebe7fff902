#!/usr/bin/env bash
# Runs the engine's tests under AddressSanitizer (with LeakSanitizer), ThreadSanitizer and Miri, or under those named.
#
#   tests/sanitizers/run.sh [address] [thread] [miri]
#
# It needs the nightly toolchain with rust-src and miri: sanitizers are unstable options of rustc, and ThreadSanitizer
# needs a standard library that is built with it. What is left out stands here, each with its reason; what is excused
# while it runs stands in the files beside this one.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
cd "$here/../.."

# NVIDIA's compiler is built without a sanitizer.
unset HWDYNO_LIBRARIES
toolchain="${SANITIZE_TOOLCHAIN:-nightly}"
target="$(rustc "+$toolchain" -vV | sed -n 's/^host: //p')"
built="${CARGO_TARGET_DIR:-$PWD/target}"

# tests/faults stops the engine by ptrace at every system call, those of a sanitizer included: each is another program's.
tests=(--lib --bins)
for file in crates/engine/tests/*.rs; do tests+=(--test "$(basename "$file" .rs)"); done

address() {
  echo "== AddressSanitizer"
  RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS="detect_stack_use_after_return=1:abort_on_error=0:use_sigaltstack=0" \
    LSAN_OPTIONS="suppressions=$here/leaks.txt:print_suppressions=0" CARGO_TARGET_DIR="$built/sanitize-address" \
    cargo "+$toolchain" test --locked --target "$target" -p hwdyno-engine "${tests[@]}"
}

thread() {
  echo "== ThreadSanitizer"
  RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
    TSAN_OPTIONS="suppressions=$here/races.txt:halt_on_error=0:exitcode=66" CARGO_TARGET_DIR="$built/sanitize-thread" \
    cargo "+$toolchain" test --locked -Zbuild-std --target "$target" -p hwdyno-engine "${tests[@]}" -- \
    --skip fuzzing::targets  # Their limit of time is of a build without a sanitizer.
}

# What neither asks the system nor waits: Miri interprets it, a thousand times slower.
pure=(histogram:: parameter:: declare:: survey::tree:: survey::mounts:: survey::routes::)
pure+=(network::results:: network::settings:: network::watched:: storage::trace::iolog:: training::thrift::)
pure+=(error:: compute::chain:: crew:: team::)
pure+=(rng:: memory::places:: training::noise:: training::csv:: training::vectors::distance:: training::vectors::walk::)
# It sorts so many values that it would take an hour.
pure+=(--skip quantiles_are_those_of_the_sorted_values)
# It looks up every name of machines with thousands of processors.
pure+=(--skip a_path_costs_one_look_up_a_name)
# It writes a file with a flag that Miri does not know.
pure+=(--skip what_was_written_down_is_read_again)

miri() {
  echo "== Miri"
  MIRIFLAGS="-Zmiri-strict-provenance -Zmiri-disable-isolation" CARGO_TARGET_DIR="$built/sanitize-miri" \
    cargo "+$toolchain" miri test --locked -p hwdyno-engine --lib -- "${pure[@]}"
}

for one in "${@:-address thread miri}"; do
  for name in $one; do
    case "$name" in
      address | thread | miri) "$name" ;;
      *) echo "no sanitizer is called '$name'; there are address, thread and miri" >&2; exit 2 ;;
    esac
  done
done
