"""Checks what was built: size, system libraries, contents, versions, licences and known vulnerabilities."""

from __future__ import annotations

import hashlib
import re
import zipfile
from pathlib import Path

from release.build import ROOT, BuildError, run

LARGEST_WHEEL = 8_000_000
"""Bytes. For comparison, the wheels of ruff have about 10 MB and those of uv 17 MB (PyPI, 2026)."""
LARGEST_ENGINE = 6_000_000
GLIBC = (2, 17)
"""manylinux2014, PEP 599."""
SHARE = (
    *("bash-completion/completions/hwdyno", "zsh/site-functions/_hwdyno", "fish/vendor_completions.d/hwdyno.fish"),
    *("man/man1/hwdyno.1", "hwdyno/hwdyno.run-2.schema.json"),
)
"""What a wheel brings below ``share``: completions, the manual page and the Run's JSON Schema."""


def check_wheel(path: Path) -> str:
    """What a wheel is, in one line; raises ``BuildError`` where it is not fit to be published."""
    size = path.stat().st_size
    if size > LARGEST_WHEEL:
        raise BuildError(f"{path.name} has {size} bytes, and may have {LARGEST_WHEEL}")
    shown = run("auditwheel", "show", path)
    if "manylinux_2_17" not in shown and "manylinux2014" not in shown:
        raise BuildError(f"{path.name} needs more than manylinux2014 has: auditwheel show {path}")
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        library = next(wheel.read(name) for name in names if name.endswith("_engine.abi3.so"))
    missing = [name for name in SHARE if not any(member.endswith(f"share/{name}") for member in names)]
    if missing:
        raise BuildError(f"{path.name} lacks {', '.join(missing)}")
    newest = newest_glibc(library)
    if newest > GLIBC:
        raise BuildError(f"{path.name} needs glibc {newest[0]}.{newest[1]}, and may need {GLIBC[0]}.{GLIBC[1]}")
    if b"\0.debug_info\0" in library:  # among the names of its sections
        raise BuildError(f"{path.name} is not stripped")
    return f"{path.name}: {size / 1e6:.2f} MB, glibc {newest[0]}.{newest[1]}"


def newest_glibc(library: bytes) -> tuple[int, int]:
    """The newest version of glibc whose symbols a library uses, by the names of its version needs."""
    found = {(int(major), int(minor)) for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", library)}
    return max(found, default=(0, 0))


def check_engine(path: Path) -> str:
    """What a bare engine is, in one line; raises ``BuildError`` where it is too large or not static."""
    data = path.read_bytes()
    if len(data) > LARGEST_ENGINE:
        raise BuildError(f"{path.name} has {len(data)} bytes, and may have {LARGEST_ENGINE}")
    if b"/ld-" in data and b".so." in data and b"ld-linux" in data:
        raise BuildError(f"{path.name} is not static")
    return f"{path.name}: {len(data) / 1e6:.2f} MB, static"


def version() -> str:
    """The version of all parts; raises ``BuildError`` where they differ."""
    cargo = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    python = re.search(r'^__version__ = "(.+)"$', (ROOT / "python/hwdyno/__init__.py").read_text(), re.MULTILINE)
    if cargo is None or python is None or cargo[1] != python[1]:
        raise BuildError("Cargo.toml and python/hwdyno/__init__.py have different versions")
    return cargo[1]


def tag() -> str:
    """The tag of this commit, which names the version; raises ``BuildError`` without one, or where the tree differs."""
    if run("git", "status", "--porcelain"):
        raise BuildError("the tree has changes; commit them and tag the commit")
    wanted = f"v{version()}"
    tags = run("git", "tag", "--points-at", "HEAD").split()
    if wanted not in tags:
        raise BuildError(f"this commit has no tag {wanted}: git tag -s {wanted}")
    return wanted


def checksums(paths: list[Path]) -> str:
    """The files' SHA-256, as sha256sum prints and checks it."""
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(paths))
