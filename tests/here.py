"""Marks what a test needs of this machine; with HWDYNO_REQUIRE_PEERS=1 what is missing fails instead of skips."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from typing import Any

import pytest

REQUIRED = os.environ.get("HWDYNO_REQUIRE_PEERS") == "1"

IS_WHOLE = os.environ.get("HWDYNO_TEST_WHOLE") == "1"


def sample(some: int, all_of_them: int) -> int:
    """How many cases a test tries: some, or all of them in ``make test-long``, by the mark that conftest.py gives."""
    return all_of_them if IS_WHOLE else some


def shortly(count: int, *cases: Any) -> list[Any]:
    """Cases of which ``make test`` has the first ones, and ``make test-long`` the others."""
    return [case if at < count else pytest.param(case, marks=pytest.mark.long) for at, case in enumerate(cases)]


CHANCE = 1e-3
"""A right product fails a test by samples in one of a thousand seeds."""


def at_least(count: int, total: int, share: float) -> bool:
    """Whether this count of a total may come from a share that holds, at a chance of ``CHANCE``."""
    from scipy.special import bdtr

    return bool(bdtr(count, total, share) > CHANCE)


def at_most(count: int, total: int, share: float) -> bool:
    """The same of a share that is not exceeded."""
    from scipy.special import bdtrc

    return bool(bdtrc(count - 1, total, share) > CHANCE)


def needs(there: bool, reason: str) -> pytest.MarkDecorator:
    """Skip a test if something is missing; where everything is required it runs and fails."""
    return pytest.mark.skipif(not there and not REQUIRED, reason=reason)


def missing(reason: str) -> None:
    """The same inside of a test or fixture."""
    if REQUIRED:
        pytest.fail(f"{reason}, and HWDYNO_REQUIRE_PEERS=1 takes no excuse")
    pytest.skip(reason)


def not_packaged(reason: str) -> None:
    """Skip a test whose peer no package of the system brings, also where peers are required."""
    pytest.skip(reason)


@cache
def may_mount() -> bool:
    """Whether this user may mount file systems, and the programs for that are there."""
    if os.geteuid() != 0 or not all(shutil.which(program) for program in ("unshare", "mount", "umount")):
        return False
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def once(*words: str) -> list[str]:
    """A command's words with each option as it is given last: the command line refuses one that is given twice."""
    groups: dict[str, list[str]] = {"": []}
    for word in words:
        if word.startswith("--"):
            groups.pop(word, None)
            groups[word] = [word]
        else:
            groups[next(reversed(groups))].append(word)
    return [word for group in groups.values() for word in group]
