"""What a type checker sees of the Python API: typed options and results, and an error for a name that is not there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import hwdyno
import pytest
from hwdyno import api
from hwdyno.api import measuring, options
from typed_options import options_by_type, write_class

ROOT = Path(__file__).parents[2]

USED = """
import asyncio
import hwdyno

def follow(event: hwdyno.ProgressEvent) -> None:
    print(event.text, event.left_s, event.point.throughput.value if event.point else 0.0)

async def measure() -> hwdyno.Run:
    with hwdyno.Cancellation() as cancellation:
        return await asyncio.to_thread(hwdyno.run, only="memory", cancellation=cancellation)

run = hwdyno.run(only="storage", path="/data", budget="10m", progress=follow)
reveal_type(run)
knee = run["storage.iodepth"].curve.knee
reveal_type(knee)
values: list[float] = [point.throughput.value for result in run.experiments for point in result.points]
texts: list[str] = [finding.says for finding in run.findings]
reveal_type(hwdyno.measure("storage", "iodepth", iodepth=[1, 4], rw="randread", bs="4k", direct=True))
reveal_type(hwdyno.measure("object", endpoint="http://127.0.0.1:9000", bucket="bench", concurrency=[1, 8]))
reveal_type(hwdyno.measure("study", "sata-ssd-queue"))
reveal_type(hwdyno.load())
reveal_type(hwdyno.audit("fio.json", link="PCIe 4 x4").faults)
reveal_type(hwdyno.compare("before.json", run).sides)
reveal_type(hwdyno.history()[0].headline)
reveal_type(hwdyno.fleet("runs").slow)
reveal_type(run.save("run.json"))
"""
REVEALED = [
    "Run",
    "OperatingPoint | None",
    *["Run"] * 4,
    "tuple[hwdyno.model.words.Finding, ...]",
    "tuple[hwdyno.explain.comparison.side.Compared, ...]",
    "tuple[tuple[str, float, str], ...]",
    "tuple[hwdyno.explain.fleet.slow.Slow, ...]",
    "pathlib.Path",
]
WRONG = """
import hwdyno

hwdyno.run(only=3)
hwdyno.run(nonsense=True)
hwdyno.measure("storage", iodpeth=4)
hwdyno.measure("storrage")
hwdyno.measure("together", "storage")
hwdyno.measure("memory", threads=1.5)
hwdyno.nothing
hwdyno.load().nothing
"""


def check(text: str, tmp_path: Path) -> list[str]:
    """What a strict mypy prints of a user's file, a line each.

    The settings are the sources' own, so that what ``make lint`` keeps of the package needs not be found again.
    """
    path = tmp_path / "used.py"
    path.write_text(f"# mypy: disallow-any-expr\n{text}")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert not done.stderr
    return [line.partition("used.py:")[2] for line in done.stdout.splitlines() if "used.py:" in line]


@pytest.mark.slow  # mypy reads the package once
def test_users_file_has_no_any(tmp_path: Path) -> None:
    lines = check(USED, tmp_path)
    assert not [line for line in lines if "error:" in line], lines
    revealed = [found[1] for line in lines if (found := re.search(r'Revealed type is "(.*)"', line))]
    assert len(revealed) == len(REVEALED)
    for shown, wanted in zip(revealed, REVEALED, strict=True):
        assert wanted in shown


@pytest.mark.slow  # likewise
def test_wrong_name_is_an_error_of_mypy(tmp_path: Path) -> None:
    found = {int(line.split(":")[0]) for line in check(WRONG, tmp_path) if "error:" in line}
    assert found == set(range(5, 13))


@pytest.mark.parametrize("command", measuring.MEASURED)
def test_options_are_typed_as_they_are_declared(command: str) -> None:
    typed = getattr(options, f"{command.capitalize()}Options").__annotations__
    common = options.CommonOptions.__annotations__
    shown = {name: kind.__forward_arg__ for name, kind in typed.items() if name not in common}
    assert shown == options_by_type(command), f"python/hwdyno/api/options.py needs:\n{write_class(command)}"
    assert set(common) == {*measuring.SHARED, "quiet", "progress", "cancellation"}


@pytest.mark.slow  # likewise
def test_package_has_the_names_of_api(tmp_path: Path) -> None:
    assert sorted(hwdyno.__all__) == sorted(api.__all__)
    names = "".join(f"hwdyno.{name}\n" for name in api.__all__)
    assert not check(f"import hwdyno\n\n{names}", tmp_path)
