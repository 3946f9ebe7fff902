"""Runs pytest, and then once more what may be tried again: failed tests marked ``timing``, alone, one after the other.

``python -m retries [pytest's words]``. A crash, a timeout, an error and any other failure are red at once, as are more
than ``MAX_RETRIES`` failures. What was tried again is printed at the end and written to ``target/retried.txt``.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

MAX_RETRIES = 3
RETRIED = Path("target") / "retried.txt"


@dataclass
class Watcher:
    """A plugin of pytest that notes what failed, and whether it may be tried again."""

    failed: dict[str, bool] = field(default_factory=dict)
    """Whether a test is marked ``timing`` and failed in its own call, by neither a crash nor a timeout."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            # A crashed worker's report has no keywords, and one of a fixture is of another phase.
            is_timeout = "from pytest-timeout" in report.longreprtext
            may = "timing" in report.keywords and report.when == "call" and not is_timeout
            self.failed[report.nodeid] = may and self.failed.get(report.nodeid, True)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = False


def main(words: list[str]) -> int:
    """The status of pytest, or that of the second try."""
    RETRIED.parent.mkdir(exist_ok=True)
    RETRIED.write_text("")
    watcher = Watcher()
    status = int(pytest.main(words, plugins=[watcher]))
    if status != pytest.ExitCode.TESTS_FAILED or not all(watcher.failed.values()):
        return status
    if len(watcher.failed) > MAX_RETRIES:
        print(f"{len(watcher.failed)} tests of timing failed, and at most {MAX_RETRIES} may be tried again")
        return status
    tests = sorted(watcher.failed)
    print("== tried again, alone:", *tests, sep="\n", flush=True)
    status = subprocess.run([sys.executable, "-m", "pytest", *tests], check=False).returncode
    outcome = "failed again" if status else "passed"
    RETRIED.write_text("".join(f"{test}: {outcome}\n" for test in tests))
    print(f"== tried again ({RETRIED}): {len(tests)}, {outcome}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
