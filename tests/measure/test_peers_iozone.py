"""IOzone is run on just our point, on separate files; a program that prints its real layout replaces it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwdyno import studies
from hwdyno.measure import peers
from hwdyno.measure.hosts import Outcome
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.peers import iozone
from hwdyno.measure.scenarios import Request, study
from hwdyno.model.words import UserError

KERNEL = "storage_blocks"
IOZONE = peers.find("iozone")
# The layout of the throughput mode in the published study (`./iozone -i 0 -t 2`), with its tests of reads.
PRINTED = """\tIozone: Performance Test of File I/O
\t        Version $Revision: 3.394 $
\t\tCompiled for 64 bit mode.
\t\tBuild: linux
\tRun began: Mon Oct  9 21:42:08 2017

\tCommand line used: ./iozone -i 0 -t 2
\tOutput is in Kbytes/sec
\tThroughput test with 2 processes
\tEach process writes a 512 Kbyte file in 4 Kbyte records

\tChildren see throughput for  2 initial writers \t=  847532.88 KB/sec
\tParent sees throughput for  2 initial writers \t=     786.70 KB/sec
\tMin throughput per process \t\t\t=  847532.88 KB/sec
\tMax throughput per process \t\t\t=  847532.88 KB/sec
\tAvg throughput per process \t\t\t=  423766.44 KB/sec
\tMin xfer \t\t\t\t\t=     512.00 KB

\tChildren see throughput for  2 readers \t\t= 2348392.50 KB/sec
\tParent sees throughput for  2 readers \t\t=    1321.04 KB/sec

\tChildren see throughput for 2 random readers \t= 1029644.44 KB/sec
\tParent sees throughput for 2 random readers \t=    2309.29 KB/sec

\tChildren see throughput for 2 random writers \t= 1903794.50 KB/sec
\tParent sees throughput for 2 random writers \t=    2541.09 KB/sec

iozone test complete.
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that writes down its arguments, makes the files named after -F, and prints as IOzone does."""
    program = tmp_path / "iozone"
    program.write_text(
        f"#!/bin/sh\nprintf '%s' \"$*\" > {tmp_path}/arguments\n"
        'seen=; for word in "$@"; do [ -n "$seen" ] && : > "$word"; [ "$word" = -F ] && seen=1; done\n'
        f"cat <<'END'\n{PRINTED}END\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("HWDYNO_IOZONE", str(program))
    return tmp_path


@pytest.mark.parametrize(
    ("rw", "tests", "kib_s", "parent_kib_s"),
    [
        ("write", "", 847532.88, 786.70),
        ("read", "-i 1 ", 2348392.50, 1321.04),
        ("randread", "-i 2 ", 1029644.44, 2309.29),
        ("randwrite", "-i 2 ", 1903794.50, 2541.09),
    ],
)
def test_a_point_in_iozones_words(rw: str, tests: str, kib_s: float, parent_kib_s: float, stand_in: Path) -> None:
    (stand_in / "place").mkdir()
    data = stand_in / "place" / "data"
    data.write_bytes(b"kept")
    point = {"rw": rw, "bs": 8192, "numjobs": 2, "size": 1 << 20, "direct": True, "ioengine": "psync", "iodepth": 1}
    assert IOZONE.version() == "3.394"
    reading = IOZONE.run(KERNEL, {**point, "path": str(data)})
    assert reading.throughput == pytest.approx(kib_s * 1024)
    assert reading.details["parent_bytes_s"] == pytest.approx(parent_kib_s * 1024)
    arguments, _, files = (stand_in / "arguments").read_text().partition(" -F ")
    assert arguments == f"-t 2 -s 512k -r 8k -i 0 {tests}-+n -I"
    assert [Path(file).name for file in files.split()] == ["job0", "job1"]
    assert [path.name for path in data.parent.iterdir()] == ["data"] and data.read_bytes() == b"kept"


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"rw": "randrw"}, "no throughput test of randrw"),
        ({"bs": 512}, "whole KiB"),
        ({"iodepth": 4}, "one operation in flight"),
        ({"ioengine": "io_uring"}, "one operation in flight"),
        ({"bs": 80 << 20, "numjobs": 8}, "more than 256 MiB"),
    ],
)
def test_what_iozone_cannot_measure_is_said(parameters: dict[str, object], why: str) -> None:
    reason = IOZONE.unsupported_reason(KERNEL, {"rw": "read", "ioengine": "psync", **parameters})
    assert reason is not None and why in reason
    with pytest.raises(UserError, match=why):
        IOZONE.run(KERNEL, {"rw": "read", "ioengine": "psync", "path": "data", **parameters})


def test_an_iozone_that_prints_nothing_of_the_test_is_named() -> None:
    with pytest.raises(OSError, match="no throughput of readers"):
        iozone.parse_output(Outcome(0, PRINTED.replace(" readers", " re-readers"), "", 0.0), "read")
    with pytest.raises(OSError, match="no throughput"):
        iozone.parse_output(Outcome(0, "", "", 0.0), "read")
    with pytest.raises(OSError, match="failed with status 1: Can not open"):
        iozone.parse_output(Outcome(1, "", "Can not open temp file\n", 0.0), "read")


def test_iozone_agrees_with_cloud_study(tmp_path: Path) -> None:
    request = Request(places=(("", tmp_path),), seed=1, options={"only": "disk"})
    plan = study.make_plan(studies.find("cloud-vm-suite"), request, Local())
    disk = next(planned for planned in plan.experiments if planned.experiment.name == "storage.block")
    assert disk.experiment.peers == ("fio", "iozone")
    measured = [point for point in disk.points if not IOZONE.unsupported_reason(KERNEL, {**disk.fixed, **point})]
    assert {point["rw"] for point in measured} == {"read", "write", "randread", "randwrite"}
