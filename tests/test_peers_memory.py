"""likwid-bench, STREAM and sysbench are asked for our point, and read right; failures are one line."""

from __future__ import annotations

from typing import Any

import pytest
from here import needs
from hwdyno import peers
from hwdyno.peers import likwid, program, stream, sysbench

KERNEL = "memory_bandwidth"
LIKWID = """Test: load_avx512
Time:\t\t\t5.906435e-01 sec
Iterations:\t\t20
MFlops/s:\t\t48775.67
Data volume (Byte):\t5120000000
MByte/s:\t\t8668.51
"""
SYSBENCH = "Total operations: 4096 (16412.87 per second)\n\n4096.00 MiB transferred (16412.87 MiB/sec)\n"


def here(name: str) -> Any:
    return needs(peers.find(name).version() is not None, f"{name} is not here")


def test_what_they_print_is_read_in_our_units() -> None:
    assert likwid.reading_of(LIKWID, KERNEL).throughput == 8668.51e6
    assert likwid.reading_of(LIKWID, "compute_flops").throughput == 48775.67e6
    assert sysbench.reading_of(SYSBENCH).throughput == 16412.87 * (1 << 20)
    assert stream.reading_of("Triad:  32204.0 0.1 0.1 0.1\n", "triad").throughput == 32204.0e6


@pytest.mark.parametrize(
    "text", ["", "MByte/s: nan", "MByte/s:\t.", "Copy: x y z w", "MiB transferred (1.2.3 MiB/sec)"]
)
def test_what_cannot_be_read_is_one_line(text: str) -> None:
    for read in (
        lambda: likwid.reading_of(text, KERNEL),
        lambda: sysbench.reading_of(text),
        lambda: stream.reading_of(text, "copy"),
    ):
        with pytest.raises(OSError, match="printed no"):
            read()


def test_points_that_they_cannot_measure_are_left_out() -> None:
    assert peers.find("likwid").unsupported(KERNEL, {"operation": "read", "pattern": "random"})
    assert peers.find("likwid").unsupported("memory_latency", {})
    assert peers.find("stream").unsupported(KERNEL, {"operation": "read"})
    assert peers.find("stream").unsupported(KERNEL, {"operation": "triad", "threads": 2}) is None
    assert peers.find("sysbench").unsupported(KERNEL, {"operation": "triad"})


def test_a_program_that_fails_says_so_in_one_line() -> None:
    with pytest.raises(OSError, match="sh failed with status 3: no such thing"):
        program.output(["sh", "-c", "echo no such thing >&2; exit 3"], 5)
    with pytest.raises(OSError, match="not ended after"):
        program.output(["sleep", "10"], 0.1)
    with pytest.raises(OSError, match="cannot be started"):
        program.output(["/nonexistent"], 1)


@pytest.mark.peer("likwid")
@here("likwid")
def test_likwid_on_a_point() -> None:
    peer = peers.find("likwid")
    point = {"operation": "read", "threads": 1, "working_set": 1 << 20}
    assert peer.unsupported(KERNEL, point) is None
    reading = peer.run(KERNEL, point)
    assert reading.unit == "bytes/s" and reading.throughput > 1e8 and str(reading.details["test"]).startswith("load")


@pytest.mark.peer("sysbench")
@here("sysbench")
def test_sysbench_on_a_point() -> None:
    reading = peers.find("sysbench").run(KERNEL, {"operation": "write", "working_set": 1 << 20, "runtime": 1})
    assert reading.unit == "bytes/s" and reading.throughput > 1e8
