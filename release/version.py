"""Sets the version of all parts, and makes the commit and the tag of a release."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from packaging.version import InvalidVersion, Version

from release.build import ROOT, BuildError, run

PLACES = (
    ("Cargo.toml", r'^version = "(.+)"$'),
    ("python/hwdyno/__init__.py", r'^__version__ = "(.+)"$'),
)
"""The files that state the version, each with the line that does."""


def release_as(version: str, root: Path = ROOT, day: date | None = None) -> str:
    """Commit and tag a clean tree as this version, with the day in the changelog; the tag.

    Raises ``BuildError`` for a version that is none or not newer, a changed tree, or a changelog without its entries.
    """
    try:
        wanted = Version(version)
    except InvalidVersion:
        raise BuildError(f"{version} is no version: write it as 0.2.0 or 0.2.0rc1") from None
    if run("git", "status", "--porcelain", folder=root):
        raise BuildError("the tree has changes; commit them first")
    tag, heading = f"v{wanted}", f"## {wanted} (unreleased)"
    if tag in run("git", "tag", folder=root).split():
        raise BuildError(f"{tag} is released already")
    log = (root / "CHANGELOG.md").read_text()
    if heading not in log:
        raise BuildError(f"CHANGELOG.md has no heading '{heading}' with what a user notices")
    texts = {root / "CHANGELOG.md": log.replace(heading, f"## {wanted} ({day or date.today()})", 1)}
    for name, pattern in PLACES:
        text = (root / name).read_text()
        stated = re.search(pattern, text, re.MULTILINE)
        if stated is None or Version(stated[1]) > wanted:
            raise BuildError(f"{name} has {stated[1] if stated else 'no version'}, which is newer than {wanted}")
        texts[root / name] = text[: stated.start(1)] + str(wanted) + text[stated.end(1) :]
    for path, text in texts.items():
        path.write_text(text)
    run("cargo", "update", "--workspace", "--offline", "--quiet", folder=root)
    run("git", "commit", "--quiet", "--all", "--message", f"Version {wanted}", folder=root)
    run("git", "tag", "--annotate", tag, "--message", f"hwdyno {wanted}", folder=root)
    return tag
