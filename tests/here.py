"""What a test needs of this machine: where everything is required (HWDYNO_REQUIRE_PEERS), what is missing fails."""

from __future__ import annotations

import os

import pytest

REQUIRED = os.environ.get("HWDYNO_REQUIRE_PEERS") == "1"


def needs(there: bool, reason: str) -> pytest.MarkDecorator:
    """Skip a test where something is not there; where all is required it runs, and fails by what it lacks."""
    return pytest.mark.skipif(not there and not REQUIRED, reason=reason)


def missing(reason: str) -> None:
    """The same inside of a test or a fixture, where only there it is known."""
    if REQUIRED:
        pytest.fail(f"{reason}, and HWDYNO_REQUIRE_PEERS=1 takes no excuse")
    pytest.skip(reason)
