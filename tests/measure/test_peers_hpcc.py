"""hpcc is given our point in its own file, its summary is read in our units, and its failures are one line."""

from __future__ import annotations

from typing import Any

import pytest
from hwdyno.measure import peers
from hwdyno.measure.peers import hpcc

HPCC = peers.find("hpcc")
# The summary of hpccoutf.txt as hpcc 1.5.0 wrote it for n = 400 on two ranks, shortened.
SUMMARY = """Begin of Summary section.
VersionMajor=1
VersionMinor=5
VersionMicro=0
VersionRelease=f
Success=1
CommWorldProcs=2
HPL_Tflops=0.00389023
HPL_time=0.0110293
HPL_N=400
HPL_NB=80
DGEMM_N=163
StarDGEMM_Gflops=4.24634
SingleDGEMM_Gflops=3.89785
STREAM_VectorSize=26666
STREAM_Threads=1
StarSTREAM_Copy=79.5199
StarSTREAM_Scale=54.5118
StarSTREAM_Add=54.0857
StarSTREAM_Triad=51.0812
SingleSTREAM_Copy=79.9071
End of Summary section.
"""


def test_hpls_rate_is_the_machines_and_streams_is_a_ranks() -> None:
    solved = hpcc.parse_output(SUMMARY, "linpack", {"operation": "lu", "n": 400, "threads": 2})
    assert (solved.throughput, solved.unit) == (pytest.approx(3.89023e9), "FLOP/s")
    assert solved.details["dgemm_flop_s"] == pytest.approx(2 * 4.24634e9)
    assert solved.details["version"] == "1.5.0" and solved.details["n"] == 400
    triad = hpcc.parse_output(SUMMARY, "memory_bandwidth", {"operation": "triad", "threads": 2})
    assert (triad.throughput, triad.unit) == (pytest.approx(2 * 51.0812e9), "bytes/s")
    assert triad.details["stream_array_bytes"] == 26666 * 8


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "reports failure"),
        (SUMMARY.replace("Success=1", "Success=0"), "reports failure"),
        (SUMMARY.replace("HPL_Tflops=0.00389023", "HPL_Tflops=-1"), "printed no figure for lu"),
        (SUMMARY.replace("HPL_Tflops=0.00389023", "HPL_Tflops=nan"), "printed no figure for lu"),
    ],
)
def test_what_cannot_be_read_is_one_line(text: str, says: str) -> None:
    with pytest.raises(OSError, match=says):
        hpcc.parse_output(text, "linpack", {"operation": "lu"})


@pytest.mark.parametrize(("threads", "grid"), [(1, "11"), (2, "12"), (4, "22"), (6, "23"), (7, "17"), (8, "24")])
def test_input_has_point_on_squarest_grid(threads: int, grid: str) -> None:
    lines = hpcc.format_input("linpack", {"n": 3000, "threads": threads}).splitlines()
    assert lines[5].split()[0] == "3000" and lines[10].split()[0] + lines[11].split()[0] == grid
    assert lines[31].startswith("#####"), "line 32, which separates HPL's part from the rest"


def test_points_that_it_cannot_measure_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HPCC.unsupported_reason("memory_latency", {})
    assert HPCC.unsupported_reason("linpack", {"operation": "gemm", "n": 1000})
    assert HPCC.unsupported_reason("memory_bandwidth", {"operation": "read"})
    assert HPCC.unsupported_reason("memory_bandwidth", {"operation": "triad", "pattern": "random"})
    monkeypatch.setattr(hpcc.Hpcc, "version", lambda self: "with the reference BLAS")
    large: dict[str, Any] = {"operation": "lu", "n": 20000, "threads": 2}
    assert "reference BLAS takes" in str(HPCC.unsupported_reason("linpack", large))
    monkeypatch.setattr(hpcc.Hpcc, "version", lambda self: "with openblas")
    assert HPCC.unsupported_reason("linpack", large) is None


@pytest.mark.peer("hpcc")
def test_hpcc_on_a_point() -> None:
    reading = HPCC.run("linpack", {"operation": "lu", "n": 300, "threads": 2})
    assert reading.unit == "FLOP/s" and reading.throughput > 1e7
    assert reading.details["n"] == 300 and reading.details["stream_triad_bytes_s"] > 1e8
