"""A dry run's total is what the run then writes: each kind of made file, with warm-ups and repeats."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hwdyno import plan
from hwdyno.cli.main import main
from test_scenarios import COMMANDS
from test_scenarios import place as place


def written_by(command: Callable[[], object]) -> int:
    """Bytes that this process gives to write calls meanwhile (``wchar`` of /proc/self/io)."""

    def so_far() -> int:
        fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(fields["wchar"])

    before = so_far()
    command()
    return so_far() - before


ONCE = {"--rw": "write", "--bs": "64k", "--iodepth": "1", "--ioengine": "psync", "--direct": "0", "--time-based": "0"}
COUNTED = {
    "metadata, create": ["storage", "--operation", "create", "--nrfiles", "100", "--filesize", "64k"],
    "metadata, stat": [
        *("storage", "--operation", "stat", "--nrfiles", "50", "--filesize", "128k", "--numjobs", "1,2"),
        *("--runtime", "50ms"),
    ],
    "one pass": ["storage", *(word for pair in ONCE.items() for word in pair), "--size", "8M"],
    "checkpoint": ["training", *COMMANDS["checkpoints"]],
    "data set": ["training", *COMMANDS["data"]],
    "index": ["training", *COMMANDS["index"], "--queries", "50"],
}


def total_of(printed: str) -> tuple[float, float]:
    """The least and the most bytes by the last line of a dry run."""
    line = printed.splitlines()[-1]
    amounts = [float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+) ([kMGT]?B)\b", line)]
    assert line.startswith("total: ") and line.endswith(" written") and amounts, line
    return (amounts[0], amounts[-1]) if "up to" not in line else (0.0, amounts[-1])


UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


@pytest.mark.machine
@pytest.mark.parametrize("name", COUNTED)
def test_the_total_of_a_dry_run_is_what_the_run_writes(
    name: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As often each time, so that no noise decides how much is written.
    monkeypatch.setitem(plan.PROFILES, "quick", replace(plan.PROFILES["quick"], repeats_min=2, repeats_max=2))
    words = [*COUNTED[name], "--path", str(place)]
    assert main([*words, "--dry-run"]) == 0
    least, most = total_of(capsys.readouterr().out)
    statuses: list[int] = []
    wrote = written_by(lambda: statuses.append(main([*words, "--no-page", "--quiet"])))
    assert statuses[0] in {0, 3} and not list(place.iterdir())
    if least:
        assert least == most
        assert wrote == pytest.approx(most, rel=0.01), f"{wrote / most:.4f}"
    else:
        assert wrote <= 1.01 * most


def test_a_point_that_may_be_repeated_has_a_range_of_bytes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["storage", "--operation", "create", "--nrfiles", "100", "--filesize", "100000", "--path", str(place)]
    assert main([*words, "--dry-run"]) == 0
    out = capsys.readouterr().out
    # A warm-up and 3 to 5 repeats of 100 files of 100 kB.
    assert "writes 40 MB to 60 MB" in out and out.splitlines()[-1].endswith("40 MB to 60 MB written")
