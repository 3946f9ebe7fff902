"""A disabled rule is missed by a test that demands its finding, and by no other test that names it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from disabled_rules import definitions, used_by

ROOT = Path(__file__).parents[2]
HEAD = """
from hwdyno.explain.findings.conditions import swapping
from made_point import case_of_base

SWAPS = {"swapping": {"swap_in_bytes": 1e9}}
"""
DEMANDS = """
def test_demands():
    assert swapping(case_of_base(conditions=SWAPS["swapping"])) is not None
"""
ACCEPTS_ANOTHER = """
def test_accepts_another():
    found = {"swapping" if swapping(case_of_base(conditions=SWAPS["swapping"])) else "steal"}
    assert found & {"swapping", "steal"}
"""
FAILS_ANYWAY = """
def test_fails_anyway():
    assert swapping(case_of_base()) is not None
"""


@pytest.mark.parametrize(
    ("tests", "answer", "status"),
    [
        (ACCEPTS_ANOTHER + DEMANDS, "::test_demands ", 0),
        (ACCEPTS_ANOTHER, "NO TEST MISSES IT, of 1 tests", 1),
        (FAILS_ANYWAY, "NO TEST MISSES IT, of 1 tests", 1),
        ("", "NO TEST MISSES IT, of 0 tests", 1),
    ],
    ids=["demands", "accepts another", "fails anyway", "no test"],
)
def test_only_a_test_that_demands_a_finding_misses_its_rule(
    tests: str, answer: str, status: int, tmp_path: Path
) -> None:
    path = tmp_path / "test_made.py"
    path.write_text(HEAD + tests)
    search = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "python")])
    line = [sys.executable, "-m", "disabled_rules", "swapping", "--tests", str(path)]
    done = subprocess.run(line, env={**os.environ, "PYTHONPATH": search}, capture_output=True, text=True)
    assert answer in done.stdout and done.returncode == status, done.stdout + done.stderr


def test_tests_use_their_constants_names(tmp_path: Path) -> None:
    path = tmp_path / "test_made.py"
    path.write_text(HEAD + DEMANDS)
    assert "swapping" in definitions(path)["SWAPS"][0]
    assert used_by(path, "test_demands") == {"SWAPS"}
