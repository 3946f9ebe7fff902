"""likwid-bench, STREAM and sysbench run our point, and are read right; failures are one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from here import needs
from hwdyno.cli.main import main
from hwdyno.measure import peers
from hwdyno.measure.peers import cpufp, likwid, multichase, program, stream, sysbench

KERNEL = "memory_bandwidth"
LIKWID = """Test: load_avx512
Time:\t\t\t5.906435e-01 sec
Iterations:\t\t20
MFlops/s:\t\t48775.67
Data volume (Byte):\t5120000000
MByte/s:\t\t8668.51
"""
# multichase -a -v -m 64m -s 64 -T 64m -n 2 -H
MULTICHASE = """nr_mixer_indices = 8
page_size = 2097152 bytes (THP)
total_memory = 67108864 (64.0 MiB)
samples (one column per thread, one row per sample):
  253.0  avg=253.0
  223.8  avg=223.8
 238.4
"""
CPUFP = """Number Threads: 1
Thread Pool Binding: 0
--------------------------------------------------------------
| Instruction Set | Core Computation      | Peak Performance |
| AMX_INT8        | MM(s32,s8,s8)         | 7.1021 TOPS      |
| AVX512_VNNI     | DP4A(s32,u8,s8)       | 647.97 GOPS      |
| AVX512F         | FMA(f64,f64,f64)      | 118.61 GFLOPS    |
| FMA             | FMA(f64,f64,f64)      | 59.31 GFLOPS     |
--------------------------------------------------------------
"""
SYSBENCH = "Total operations: 4096 (16412.87 per second)\n\n4096.00 MiB transferred (16412.87 MiB/sec)\n"


def test_what_they_print_is_read_in_our_units() -> None:
    assert likwid.parse_output(LIKWID, KERNEL).throughput == 8668.51e6
    assert likwid.parse_output(LIKWID, "compute_flops").throughput == 48775.67e6
    assert sysbench.parse_output(SYSBENCH).throughput == 16412.87 * (1 << 20)
    chased = multichase.parse_output(MULTICHASE)
    assert chased.latency_ns_mean == 238.4 and chased.throughput == pytest.approx(1e9 / 238.4)
    tiles = cpufp.parse_output(CPUFP, {"operation": "dot", "precision": "int8", "isa": "auto"})
    assert tiles.throughput == 7.1021e12 and tiles.unit == "IOP/s"
    newer = "| AMX_BF16        | DSA           | MM(f32,bf16,bf16) | 424.95 GFLOPS    |\n"
    assert cpufp.parse_output(newer, {"operation": "dot", "precision": "bfloat16"}).throughput == 424.95e9
    wide = {"operation": "fma", "precision": "double"}
    assert cpufp.parse_output(CPUFP, wide).throughput == 118.61e9
    assert cpufp.parse_output(CPUFP, {**wide, "isa": "avx2"}).throughput == 59.31e9
    assert stream.parse_output("Triad:  32204.0 0.1 0.1 0.1\n", "triad").throughput == 32204.0e6


@pytest.mark.parametrize(
    "text", ["", "MByte/s: nan", "MByte/s:\t.", "Copy: x y z w", "MiB transferred (1.2.3 MiB/sec)"]
)
def test_what_cannot_be_read_is_one_line(text: str) -> None:
    for read in (
        lambda: likwid.parse_output(text, KERNEL),
        lambda: sysbench.parse_output(text),
        lambda: stream.parse_output(text, "copy"),
        lambda: multichase.parse_output(text),
        lambda: cpufp.parse_output(text, {"precision": "double"}),
    ):
        with pytest.raises(OSError, match="printed no"):
            read()


def test_points_that_they_cannot_measure_are_left_out() -> None:
    assert peers.find("likwid").unsupported_reason(KERNEL, {"operation": "read", "pattern": "random"})
    assert peers.find("likwid").unsupported_reason("memory_latency", {})
    assert peers.find("stream").unsupported_reason(KERNEL, {"operation": "read"})
    assert peers.find("stream").unsupported_reason(KERNEL, {"operation": "triad", "threads": 2}) is None
    assert peers.find("sysbench").unsupported_reason(KERNEL, {"operation": "triad"})
    assert peers.find("multichase").unsupported_reason("memory_latency", {"threads": 2})
    assert peers.find("multichase").unsupported_reason("memory_latency", {"pages": "1g"})
    assert peers.find("cpufp").unsupported_reason("compute_flops", {"operation": "add", "precision": "int8"})
    tiles = {"operation": "dot", "precision": "int8", "isa": "amx"}
    assert "zeros" in str(peers.find("cpufp").unsupported_reason("compute_flops", tiles))
    assert peers.find("cpufp").unsupported_reason("compute_flops", {**tiles, "operands": "zero"}) is None


def test_multichase_is_asked_for_the_same_set_pages_and_locality() -> None:
    local = {"working_set": 1 << 20, "pages": "4k", "locality": "local", "local_size": 4096, "stride": 128}
    command = peers.find("multichase").command("memory_latency", {**local, "runtime": 1.0})
    assert command == ["multichase", "-a", "-m", "1048576", "-s", "128", "-T", "4096", "-n", "2"]
    command = peers.find("multichase").command("memory_latency", {"working_set": 4096, "locality": "sequential"})
    assert command == ["multichase", "-a", "-m", "4096", "-s", "64", "-T", "4096", "-n", "1", "-o", "-H"]


def test_a_program_that_fails_says_so_in_one_line() -> None:
    with pytest.raises(OSError, match="sh failed with status 3: no such thing"):
        program.output(["sh", "-c", "echo no such thing >&2; exit 3"], 5)
    with pytest.raises(OSError, match="was killed after"):
        program.output(["sleep", "10"], 0.1)
    with pytest.raises(OSError, match="cannot be started"):
        program.output(["/nonexistent"], 1)


@pytest.mark.peer("likwid")
def test_likwid_on_a_point() -> None:
    peer = peers.find("likwid")
    point = {"operation": "read", "threads": 1, "working_set": 1 << 20}
    assert peer.unsupported_reason(KERNEL, point) is None
    reading = peer.run(KERNEL, point)
    assert reading.unit == "bytes/s" and reading.throughput > 1e8 and str(reading.details["test"]).startswith("load")


@pytest.mark.peer("sysbench")
def test_sysbench_on_a_point() -> None:
    reading = peers.find("sysbench").run(KERNEL, {"operation": "write", "working_set": 1 << 20, "runtime": 1})
    assert reading.unit == "bytes/s" and reading.throughput > 1e8


PRINTS_LIKE_STREAM = """
#include <stdio.h>
int main(void) {
    double rate = 1000.0;
#ifdef _OPENMP
    rate = 2000.0;
#endif
    printf("STREAM version $Revision: 5.10 $\\n");
    printf("Array size = %d (elements)\\n", STREAM_ARRAY_SIZE);
    printf("Function    Best Rate MB/s  Avg time     Min time     Max time\\n");
    printf("Copy:  %.1f 0.1 0.1 0.1\\nScale: %.1f 0.1 0.1 0.1\\n", rate, rate + 1);
    printf("Add:   %.1f 0.1 0.1 0.1\\nTriad: %.1f 0.1 0.1 0.1\\n", rate + 2, rate + 3);
    return 0;
}
"""


@needs(shutil.which("cc") is not None, "no C compiler")
def test_streams_source_is_built_with_openmp_and_for_one_thread_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "stream.c"
    source.write_text(PRINTS_LIKE_STREAM)
    monkeypatch.setenv("HWDYNO_STREAM", str(source))
    peer = peers.find("stream")
    assert peer.version() == "built from stream.c"
    point = {"operation": "triad", "working_set": 240 << 20}
    serial, parallel = (peer.run("memory_bandwidth", {**point, "threads": threads}) for threads in (1, 2))
    assert (serial.throughput, serial.details["openmp"]) == (1003e6, False)
    assert (parallel.throughput, parallel.details["openmp"]) == (2003e6, True)
    command = stream.build_command(source, tmp_path / "out", {**point, "threads": 2})
    assert f"-DSTREAM_ARRAY_SIZE={(240 << 20) // 24}" in command and "-fopenmp" in command
    source.write_text("no C\n")
    with pytest.raises(OSError, match="failed with status"):
        peer.run("memory_bandwidth", {**point, "threads": 1})


def test_a_study_names_its_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWDYNO_STREAM", "")
    (tmp_path / "stream.c").write_text(PRINTS_LIKE_STREAM)
    words = ["study", "cloud-vm-suite", "--only", "memory", "--dry-run", "--path", str(tmp_path)]
    assert main([*words, "--stream", str(tmp_path / "stream.c")]) == 0
    assert peers.find("stream").version() == "built from stream.c"
    assert main([*words, "--stream", str(tmp_path / "none.c")]) == 2
