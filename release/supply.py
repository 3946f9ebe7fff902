"""The supply chain: licences, advisories and duplicates of crates, advisories of Python packages, and SBOMs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from release.build import ROOT, BuildError, run

LOCKS = ("requirements.lock", "docs/requirements.lock", "release/requirements.lock")


def check_crates(online: bool) -> str:
    """Licences, sources and duplicates of all crates, and advisories where the network may be used."""
    if shutil.which("cargo-deny") is None:
        raise BuildError("cargo-deny is missing: cargo install --locked cargo-deny")
    checks = ["licenses", "bans", "sources", *(["advisories"] if online else [])]
    run("cargo", "deny", "--locked", "--all-features", *([] if online else ["--offline"]), "check", *checks)
    return f"crates: {', '.join(checks)} pass"


def check_packages(online: bool) -> str:
    """Advisories of every locked package, and that each has its hash."""
    for lock in LOCKS:
        text = (ROOT / lock).read_text()
        bare = [line for line in text.splitlines() if "==" in line and not line.startswith("#") and "\\" not in line]
        if bare:
            raise BuildError(f"{lock} has packages without a hash: {bare[0]}; make lock")
        if online:
            run("pip-audit", "--strict", "--require-hashes", "--disable-pip", "--progress-spinner", "off", "-r", lock)
    return f"packages: every one has its hash{', and none a known vulnerability' if online else ''}"


def bill_of(lock: Path, out: Path) -> Path:
    """The CycloneDX bill of the Python packages that a lock file names; the crates' one is in each wheel."""
    path = out / f"hwdyno-{lock.parent.name if lock.parent != ROOT else 'python'}.cdx.json"
    run("cyclonedx-py", "requirements", lock, "--output-reproducible", "--of", "JSON", "-o", path)
    if not json.loads(path.read_text()).get("components"):
        raise BuildError(f"{path.name} names no component")
    return path
