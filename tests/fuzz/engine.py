"""Fuzzes each of the engine's readers for some seconds, guided by coverage (libFuzzer).

``python -m fuzz.engine --seconds 10 [--keep] [TARGET …]``. The readers are in ``crates/engine/src/fuzzing``, the
program is ``crates/engine/fuzz``, and stable Rust builds it. What fails is written to ``target/fuzz/engine`` and named;
``--keep`` adds inputs that reach new code to ``crates/engine/fuzz/corpus``, the smallest first, up to a limit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from fuzz import libfuzzer

CRATE = libfuzzer.ROOT / "crates" / "engine" / "fuzz"
BUILT = libfuzzer.ROOT / "target" / "fuzz-engine"
COVERAGE = ("level=4", "trace-compares", "inline-8bit-counters", "pc-table")
FLAGS = (
    *("--cfg=fuzzing", "-Cpasses=sancov-module"),
    *(f"-Cllvm-args=-sanitizer-coverage-{option}" for option in COVERAGE),
)
LONGEST_INPUT = 32 << 10
LINES_OF_A_FAILURE = 25


def _built() -> Path:
    """Build the program; its flags go with the target alone, so it is named."""
    version = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = next(line.split()[1] for line in version.splitlines() if line.startswith("host:"))
    options = ["--release", "--locked", "--quiet", "--target", host, "--target-dir", str(BUILT)]
    env = {**os.environ, "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(FLAGS)}
    subprocess.run(["cargo", "build", *options], cwd=CRATE, env=env, check=True)
    return BUILT / host / "release" / "hwdyno-engine-fuzz"


def main() -> int:
    """Fuzz the targets that are named, or all."""
    parser = argparse.ArgumentParser(prog="fuzz.engine", description=__doc__)
    parser.add_argument("--seconds", type=int, default=14, help="for each reader")
    parser.add_argument("--keep", action="store_true", help="keep inputs that reach new code")
    parser.add_argument("targets", nargs="*")
    args = parser.parse_args()
    program = _built()
    failed = False
    with tempfile.TemporaryDirectory(prefix="fuzz-engine-") as folder:
        subprocess.run([str(program)], env={**os.environ, "HWDYNO_FUZZ_SEEDS": folder}, check=True)
        known = sorted(path.name for path in Path(folder).iterdir())
        if unknown := set(args.targets) - set(known):
            parser.error(f"no target is called {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
        for name in args.targets or known:
            corpus, words = Path(folder, name, "corpus"), Path(folder, name, "words")
            env = {"HWDYNO_FUZZ": name}
            label, command, seconds = f"engine/{name}", [str(program)], args.seconds
            outcome = libfuzzer.run(label, command, corpus, words, seconds=seconds, longest=LONGEST_INPUT, env=env)
            failed |= bool(outcome.failed)
            if outcome.failed:
                _, _, reason = outcome.output.partition("\nthread ")
                print("\n".join((reason or outcome.output[-4000:]).splitlines()[:LINES_OF_A_FAILURE]))
            elif args.keep:
                libfuzzer.keep(CRATE / "corpus" / f"{name}.txt", corpus, bytes.hex)
            libfuzzer.report(name, outcome)
    if failed:
        print("Move each failing input to crates/engine/fuzz/failed/TARGET/, where a test runs it; mend the reader.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
