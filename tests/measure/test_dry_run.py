"""A dry run's total is what the run then writes: each kind of made file, with warm-ups and repeats."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hwdyno.cli.main import main
from hwdyno.measure import plan
from scenario_commands import COMMANDS
from scenario_commands import place as place


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
    "index": ["inference", *COMMANDS["index"], "--queries", "50"],
}


def read_total(printed: str) -> tuple[float, float]:
    """The least and the most bytes by the last two lines of a dry run: of the Run's record, and of its points."""
    record, line = printed.splitlines()[-2:]
    amounts = read_amounts(line)
    assert line.startswith("total: ") and line.endswith(" written") and amounts, line
    assert record.startswith("record: writes about "), record
    (besides,) = read_amounts(record)
    return (amounts[0] + besides if "up to" not in line else 0.0), amounts[-1] + besides


def read_amounts(line: str) -> list[float]:
    return [float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+) ([kMGT]?B)\b", line)]


JOBS = {
    "once, two threads": "rw=write\nsize=4m\nnumjobs=2",
    "twice": "rw=randwrite\nsize=4m\nloops=2",
    "less than its region": "rw=write\nsize=8m\nio_size=2m",
    "only read": "rw=read\nsize=8m",
    "one after another": "rw=write\nsize=4m\n[second]\nstonewall\nrw=read\nsize=2m",
    "a file of its own name": "rw=write\nsize=4m\nfilename=kept",
    "several files": "rw=write\nsize=4m\nnrfiles=4",
    "ended by time": "rw=write\nsize=1g\nrate=4m\nruntime=0.5",
    "by time": "rw=randwrite\nsize=4m\ntime_based\nruntime=0.2",
}


@pytest.mark.machine
@pytest.mark.parametrize("name", JOBS)
def test_the_total_of_a_job_file_is_what_its_jobs_write(
    name: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"[global]\nioengine=psync\nbs=64k\n[first]\n{JOBS[name]}\n"
    file = tmp_path / "job.fio"
    file.write_text(text)
    words = ["storage", "job", str(file), "--path", str(place)]
    assert main([*words, "--dry-run"]) == 0
    least, most = read_total(capsys.readouterr().out)
    wrote = written_by(lambda: main([*words, "--no-page", "--quiet"]))
    if "by time" in name:
        assert not least and wrote <= 1.01 * most
    else:
        assert least == most and wrote == pytest.approx(most, rel=0.01), f"{wrote / most:.4f}"


@pytest.mark.machine
def test_the_total_of_a_test_of_snia_holds_what_it_writes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["storage", "snia", "latency", "--size", "8M", "--ioengine", "psync", "--budget", "2s"]
    words += ["--path", str(place)]
    assert main([*words, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    _, most = read_total(printed)
    wrote = written_by(lambda: main([*words, "--no-page", "--quiet"]))
    # Laid out once and written over twice: three regions at least, regardless of the time.
    assert "up to" in printed.splitlines()[-1] and 3 * (8 << 20) <= wrote <= 1.01 * most


UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


@pytest.mark.machine
# The bytes of a data set and of an index are counted by themselves in test_dry_run_preparations.py.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in {"data set", "index"} else ()) for name in COUNTED]
)
def test_the_total_of_a_dry_run_is_what_the_run_writes(
    name: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As often each time, so that no noise decides how much is written.
    monkeypatch.setitem(plan.PROFILES, "quick", replace(plan.PROFILES["quick"], repeats_min=2, repeats_max=2))
    words = [*COUNTED[name], "--path", str(place)]
    assert main([*words, "--dry-run"]) == 0
    least, most = read_total(capsys.readouterr().out)
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
    assert main([*words, "--numjobs", "1,2,3,4,5,6,7", "--dry-run"]) == 0
    out = capsys.readouterr().out
    # A warm-up and 4 to 5 repeats of 100 files of 100 kB.
    assert "writes 50 MB to 60 MB" in out and out.splitlines()[-1].endswith("1.13 GB to 1.41 GB written")


def test_a_point_alone_writes_in_as_many_repeats_as_show_a_rare_level(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["storage", "--operation", "create", "--nrfiles", "100", "--filesize", "100000", "--path", str(place)]
    assert main([*words, "--dry-run"]) == 0
    out = capsys.readouterr().out
    # A warm-up and 14 repeats of 100 files of 100 kB.
    assert "writes 150 MB" in out and out.splitlines()[-1].endswith(" 150 MB written")
