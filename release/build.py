"""Runs the build tools so that two builds of one commit give the same bytes, and need no newer glibc than 2.17."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
"""Of the environment with the build tools."""
MACHINES = ("x86_64", "aarch64")
GLIBC = "manylinux2014"
"""glibc 2.17 and newer."""
PYTHON = f"python3.{sys.version_info.minor}"
"""abi3 makes its version irrelevant, but a cross build must name one that it need not start."""


class BuildError(Exception):
    """Why something cannot be built, in one line with what mends it."""


def run(*words: str | Path, environment: Mapping[str, str] | None = None, folder: Path = ROOT) -> str:
    """Run a tool, with its messages on stderr; its output. Raises ``BuildError``."""
    line = [str(word) for word in words]
    paths = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        done = subprocess.run(
            line,
            cwd=folder,
            env={**os.environ, "PATH": paths, **(environment or {})},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    except OSError as error:
        raise BuildError(f"{line[0]} cannot be started: {error.strerror}") from None
    if done.returncode:
        raise BuildError(f"{' '.join(line[:3])} … ended with status {done.returncode}")
    return done.stdout


def commit_time() -> str:
    """The time of the commit, s since 1970: the only time that a build may know."""
    return run("git", "log", "-1", "--format=%ct").strip()


def reproducible(target: str) -> dict[str, str]:
    """The environment of a build whose bytes do not depend on where and when it runs."""
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    sysroot = run("rustc", "--print", "sysroot").strip()
    renamed = {str(cargo): "/cargo", sysroot: "/rust", str(ROOT): "/hwdyno"}
    flags = [f"--remap-path-prefix={old}={new}" for old, new in renamed.items()]
    if target.endswith("-gnu"):
        # One table of symbols: glibc reads GNU's since 2.5.
        flags.append("-Clink-arg=-Wl,--hash-style=gnu")
    if target.endswith("-musl"):
        # rustup brings a linker and musl's own objects, so that no cross compiler is needed.
        flags += ["-Clinker=rust-lld", "-Clink-self-contained=yes", "-Ctarget-feature=+crt-static"]
    return {
        "SOURCE_DATE_EPOCH": commit_time(),
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CARGO_INCREMENTAL": "0",
        "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target" / "release-build")),
    }


def standard_library(target: str) -> dict[str, str]:
    """The environment of a compiler that has the target's standard library: rustup's, or else Debian's."""
    there = Path(run("rustc", "--print", "sysroot").strip()) / "lib" / "rustlib" / target
    if there.is_dir():
        return {}
    if shutil.which("rustup"):
        try:
            run("rustup", "target", "add", target)
            return {}
        except BuildError:
            pass  # Offline, or another channel's toolchain: Debian's compiler may have it.
    if (Path("/usr/lib/rustlib") / target).is_dir() and Path("/usr/bin/rustc").exists():
        return {"RUSTC": "/usr/bin/rustc"}
    raise BuildError(f"no standard library for {target}: rustup target add {target}")


def wheel(machine: str, out: Path) -> Path:
    """Build the wheel of a machine with the files that are made from its commands; its path."""
    path = bare_wheel(machine, out)
    with tempfile.TemporaryDirectory(prefix="hwdyno-release-") as folder:
        inside = unpacked(path, Path(folder))
        for name, data in made_files().items():
            file = inside / f"{inside.name}.data" / "data" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        for bill in inside.glob("*.dist-info/sboms/*.json"):
            # maturin writes the folder of the build into the bill of crates.
            bill.write_text(bill.read_text().replace(ROOT.as_uri(), "file:///hwdyno"))
        for file in inside.rglob("*"):
            if file.is_file():
                file.chmod(0o755 if file.suffix == ".so" else 0o644)
        run("wheel", "pack", inside, "--dest-dir", out, environment={"SOURCE_DATE_EPOCH": commit_time()})
    return path


def unpacked(wheel: Path, into: Path) -> Path:
    """Unpack a wheel; the folder of its files."""
    run("wheel", "unpack", wheel, "--dest", into)
    return next(path for path in into.iterdir() if path.is_dir())


@functools.cache
def made_files() -> dict[str, bytes]:
    """The files of a wheel's ``share`` that its commands print (manual page, completions, JSON Schema), by path."""
    with tempfile.TemporaryDirectory(prefix="hwdyno-release-") as folder:
        place = Path(folder)
        inside = unpacked(bare_wheel(platform.machine(), place / "dist"), place / "wheel")
        words = ("-m", "hwdyno", "man", "--write", place / "data")
        run(sys.executable, *words, environment={"PYTHONPATH": str(inside)}, folder=place)
        paths = sorted(path for path in (place / "data").rglob("*") if path.is_file())
        return {str(path.relative_to(place / "data")): path.read_bytes() for path in paths}


def bare_wheel(machine: str, out: Path) -> Path:
    """Build the wheel of a machine for glibc 2.17 and later, stripped; its path."""
    target = f"{machine}-unknown-linux-gnu"
    before = set(out.glob("*.whl")) if out.exists() else set()
    words: Sequence[str | Path] = (
        *("maturin", "build", "--locked", "--zig", "--compatibility", GLIBC),
        *("--target", target, "-i", PYTHON, "--out", out),
    )
    run(*words, environment={**reproducible(target), **standard_library(target)})
    made = sorted(out.glob(f"*{machine}*.whl"), key=lambda path: path.stat().st_mtime)
    if not made:
        raise BuildError(f"maturin wrote no wheel for {machine} into {out}, which had {len(before)}")
    return made[-1]


def setup() -> str:
    """Set the tree up with the engine that this machine's wheel has: its build then finds every crate compiled.

    Cargo compares the path of the linker too, so both are built by the same maturin.
    """
    target = f"{platform.machine()}-unknown-linux-gnu"
    environment = {"MATURIN_PEP517_ARGS": f"--zig --compatibility {GLIBC} --target {target}"}
    return run(
        "make", "setup", f"BUILD_TOOLS={BIN}", environment=reproducible(target) | standard_library(target) | environment
    )


def source(out: Path) -> Path:
    """Build the source distribution; its path."""
    run("maturin", "sdist", "--out", out, environment={"SOURCE_DATE_EPOCH": commit_time()})
    return max(out.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime)


def compilers(machine: str, folder: Path) -> dict[str, str]:
    """The environment with a C compiler for musl, which ring's C code needs: zig, as maturin calls it for wheels."""
    made = {}
    for variable, words in (("CC", f"cc -- -target {machine}-linux-musl"), ("AR", "ar --")):
        script = folder / variable.lower()
        script.write_text(f'#!/bin/sh\nexec "{BIN}/maturin" zig {words} "$@"\n')
        script.chmod(0o755)
        made[f"{variable}_{machine}_unknown_linux_musl"] = str(script)
    return made


def engine(machine: str, out: Path) -> Path:
    """Build the bare engine of a machine as one static file; its path."""
    target = f"{machine}-unknown-linux-musl"
    environment = {**reproducible(target), **standard_library(target), "CARGO_PROFILE_RELEASE_STRIP": "true"}
    words = ("--release", "--locked", "-p", "hwdyno-engine", "--bin", "hwdyno-engine", "--target", target)
    with tempfile.TemporaryDirectory(prefix="hwdyno-release-") as folder:
        run("cargo", "build", *words, environment={**environment, **compilers(machine, Path(folder))})
    made = Path(environment["CARGO_TARGET_DIR"]) / target / "release" / "hwdyno-engine"
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"hwdyno-engine-{machine}"
    shutil.copy2(made, path)
    return path
