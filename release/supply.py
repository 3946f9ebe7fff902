"""The supply chain: licences, advisories and duplicates of crates, advisories of Python packages, and SBOMs."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from release.build import ROOT, BuildError, run

CARGO_DENYS_CLONE = "advisory-db-3157b0e258782691"
"""The folder of its database: the repository's name and a hash of its URL."""
LOCKS = ("requirements.lock", "docs/requirements.lock", "release/requirements.lock")


@dataclass(frozen=True)
class Advisories:
    """Where known vulnerabilities are looked up: by the network, in folders that hold copies, or nowhere."""

    online: bool = True
    pypa: Path | None = None
    """A clone of https://github.com/pypa/advisory-database."""
    rustsec: Path | None = None
    """A clone of https://github.com/rustsec/advisory-db."""


def check_crates(known: Advisories) -> str:
    """Licences, sources and duplicates of all crates, and advisories where they can be looked up."""
    if shutil.which("cargo-deny") is None:
        raise BuildError("cargo-deny is missing: cargo install --locked cargo-deny")
    checks = ["licenses", "bans", "sources", *(["advisories"] if known.online or known.rustsec else [])]
    words = ["cargo", "deny", "--locked", "--all-features"]
    if known.rustsec is None:
        run(*words, *([] if known.online else ["--offline"]), "check", *checks)
        return f"crates: {', '.join(checks)} pass"
    with tempfile.TemporaryDirectory(prefix="hwdyno-advisories-") as folder:
        rules = rules_with(known.rustsec, Path(folder))
        run(*words, "--offline", "--config", rules, "check", *checks)
    return f"crates: {', '.join(checks)} pass, by the advisories of {day_of(known.rustsec)}"


def rules_with(advisories: Path, folder: Path) -> Path:
    """deny.toml with a clone of the advisories, where cargo-deny looks for the one that it would fetch."""
    fetched = folder / CARGO_DENYS_CLONE
    run("git", "clone", "--quiet", advisories, fetched)
    rules = folder / "deny.toml"
    text = (ROOT / "deny.toml").read_text()
    rules.write_text(text.replace("[advisories]\n", f'[advisories]\ndb-path = "{folder}"\n'))
    return rules


def check_packages(known: Advisories) -> str:
    """That each locked package has its hash, and advisories where they can be looked up."""
    for lock in LOCKS:
        text = (ROOT / lock).read_text()
        bare = [line for line in text.splitlines() if "==" in line and not line.startswith("#") and "\\" not in line]
        if bare:
            raise BuildError(f"{lock} has packages without a hash: {bare[0]}; make lock")
    says = "packages: every one has its hash"
    if known.pypa is not None:
        from release import advisories  # has libraries of its own

        with advisories.served(known.pypa) as url:
            audit("--vulnerability-service", "osv", "--osv-url", url)
        return f"{says}, and none a known vulnerability by the advisories of {day_of(known.pypa)}"
    if known.online:
        audit()
        return f"{says}, and none a known vulnerability"
    return says


def audit(*source: str) -> None:
    """Look up every locked package; raises ``BuildError`` where one has a known vulnerability."""
    for lock in LOCKS:
        words = ("--strict", "--require-hashes", "--disable-pip", "--progress-spinner", "off", "-r", lock)
        run("pip-audit", *words, *source)


def day_of(clone: Path) -> str:
    """The day of a clone's newest commit."""
    return run("git", "-C", clone, "log", "-1", "--format=%cs").strip()


def bill_of(lock: Path, out: Path) -> Path:
    """The CycloneDX bill of the Python packages that a lock file names; the crates' one is in each wheel."""
    path = out / f"hwdyno-{lock.parent.name if lock.parent != ROOT else 'python'}.cdx.json"
    run("cyclonedx-py", "requirements", lock, "--output-reproducible", "--of", "JSON", "-o", path)
    if not json.loads(path.read_text()).get("components"):
        raise BuildError(f"{path.name} names no component")
    return path
