"""Printed results of MLC, STREAM and LINPACK become Runs; garbage is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwdyno.explain.findings import explain
from hwdyno.formats import linpack, mlc, stream
from hwdyno.model.axes import declare_axes
from read_format import read_run

STREAM = """-------------------------------------------------------------
STREAM version $Revision: 5.10 $
Array size = 240000000 (elements), Offset = 0 (elements)
Number of Threads requested = 2
Number of Threads counted = 2
Function    Best Rate MB/s  Avg time     Min time     Max time
Copy:           42512.3     0.090400     0.090327     0.090600
Scale:          31489.1     0.122000     0.121947     0.122100
Add:            32110.7     0.179500     0.179379     0.179700
Triad:          32204.0     0.179000     0.178860     0.179200
-------------------------------------------------------------
Solution Validates: avg error less than 1.000000e-13 on all three arrays
"""
MLC = """Intel(R) Memory Latency Checker - v3.11
Measuring idle latencies for random access (in ns)...
\t\tNuma node
Numa node\t     0\t     1
       0\t  81.2\t 139.1
       1\t 140.0\t  82.4
Measuring Peak Injection Memory Bandwidths for the system
ALL Reads        :\t110323.4
3:1 Reads-Writes :\t103480.0
Stream-triad like:\t 98000.2
Measuring Memory Bandwidths between nodes within system
\t\tNuma node
Numa node\t     0\t     1
       0\t55123.0\t34010.5
       1\t34011.0\t55201.2
Measuring Loaded Latencies for the system
Using Read-only traffic type
Inject\tLatency\tBandwidth
Delay\t(ns)\tMB/sec
==========================
 00000\t223.52\t 110020.1
 00050\t201.10\t 108900.7
 00200\t118.30\t  60010.0
 01000\t 90.12\t  14000.0
 20000\t 81.00\t   1500.0
Measuring cache-to-cache transfer latency (in ns)...
Local Socket L2->L2 HIT  latency\t37.4
Local Socket L2->L2 HITM latency\t38.9
"""
# As version 3.9 prints it on two sockets: figures rounded, tabs and the empty end of each row as they are.
MLC_TWO_SOCKETS = """Intel(R) Memory Latency Checker - v3.9a
Measuring idle latencies (in ns)...
\t\tNuma node
Numa node\t     0\t     1\t
       0\t  78.5\t 134.8\t
       1\t 133.7\t  79.2\t

Measuring Peak Injection Memory Bandwidths for the system
Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)
Using all the threads from each core if Hyper-threading is enabled
Using traffic with the following read-write ratios
ALL Reads        :\t226326.3\t
1:1 Reads-Writes :\t197546.5\t
Stream-triad like:\t191025.0\t

Measuring Loaded Latencies for the system
Using all the threads from each core if Hyper-threading is enabled
Using Read-only traffic type
Inject\tLatency\tBandwidth
Delay\t(ns)\tMB/sec
==========================
 00000\t252.82\t 222894.0
 20000\t 79.83\t   2878.4

Measuring cache-to-cache transfer latency (in ns)...
Local Socket L2->L2 HIT  latency\t50.3
Local Socket L2->L2 HITM latency\t51.0
Remote Socket L2->L2 HITM latency (data address homed in writer socket)
\t\t\tReader Numa Node
Writer Numa Node     0\t     1\t
            0\t     -\t 112.8\t
            1\t 112.7\t     -\t
Remote Socket L2->L2 HITM latency (data address homed in reader socket)
\t\t\tReader Numa Node
Writer Numa Node     0\t     1\t
            0\t     -\t 176.5\t
            1\t 177.3\t     -\t
"""
MLC_IDLE = """Intel(R) Memory Latency Checker - v3.10
Command line parameters: --idle_latency -c0 -L -b10m

Using buffer size of 10.000MiB
Each iteration took 31.1 base frequency clocks (\t12.5\tns)
"""
HPL = """HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018
T/V                N    NB     P     Q               Time                 Gflops
WR11C2R4       10000   192     1     2               5.20             1.2823e+02
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   3.21e-03 ...... PASSED
WR11C2R4       20000   192     1     2              38.90             1.3712e+02
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   9.9e+05 ...... FAILED
"""
STREAM_OLD = """STREAM version $Revision: 5.9 $
This system uses 4 bytes per DOUBLE PRECISION word.
Array size = 20000000, Offset = 0
Number of Threads requested = 4
Function      Rate (MB/s)   Avg time     Min time     Max time
Copy:        9812.4411       0.0331       0.0326       0.0340
Triad:      10233.7100       0.0480       0.0469       0.0500
Failed Validation on array c[]
"""
INTEL_TRIALS = """Number of threads: 16
Parameters are set to:
Number of equations to solve (problem size) : 1000  2000
=================== Timing linear equation system solver ===================
Size   LDA    Align. Time(s)    GFlops   Residual     Residual(norm) Check
1000   1000   4      0.006      100.0000 9.394430e-13 3.203742e-02   pass
1000   1000   4      0.003      200.0000 9.394430e-13 3.203742e-02   pass
2000   2000   4      0.048      111.3705 3.842024e-12 3.342090e-02   fail

Performance Summary (GFlops)

Size   LDA    Align.  Average  Maximal
1000   1000   4       150.0000 200.0000
2000   2000   4       111.3705 111.3705
40000  40000  1       536.6813 540.2000

Residual checks FAILED
"""
INTEL = """Size   LDA    Align. Time(s)    GFlops   Residual     Residual(norm) Check
1000   1000   4      0.009      72.2156  9.394430e-13 3.203742e-02   pass
5000   5008   4      0.640      130.2873 2.581643e-11 3.599893e-02   pass
"""


def test_stream() -> None:
    run = stream.read(STREAM, "here")
    (table,) = run.experiments
    assert {str(p.parameters["operation"]): p.throughput.value for p in table.points}["triad"] == 32204.0e6
    assert table.fixed["working_set"] == 240_000_000 * 24 // 2 and table.fixed["threads"] == 2
    assert run.version == "5.10" and run.imported_from == "stream-text"


def test_mlc_with_its_curve_and_knee() -> None:
    run = explain(declare_axes(mlc.read(MLC, "here")))
    tables = {experiment.name: experiment for experiment in run.experiments}
    assert [p.latency_ns and p.latency_ns.mean for p in tables["memory.mlc-idle"].points] == [81.2, 139.1, 140.0, 82.4]
    assert [p.parameters["mix"] for p in tables["memory.mlc-peak"].points] == ["1:0", "3:1", "triad"]
    assert len(tables["memory.mlc-nodes"].points) == 4
    (curve,) = tables["memory.mlc-loaded"].curves
    assert curve.ceiling is not None and curve.ceiling.value == pytest.approx(110e9, rel=0.1)
    assert [p.parameters["operation"] for p in tables["memory.mlc-c2c"].points] == ["clean", "modified"]


def test_mlc_reads_sockets_and_single_figures() -> None:
    tables = {
        experiment.name: experiment
        for experiment in explain(declare_axes(mlc.read(MLC_TWO_SOCKETS, "here"))).experiments
    }
    assert [p.throughput.value for p in tables["memory.mlc-peak"].points] == [226326.3e6, 197546.5e6, 191025.0e6]
    assert [p.latency_ns and p.latency_ns.mean for p in tables["memory.mlc-idle"].points] == [78.5, 134.8, 133.7, 79.2]
    lines = {tuple(p.parameters.values()): p.latency_ns.mean for p in tables["memory.mlc-c2c"].points if p.latency_ns}
    assert lines == {
        ("clean", "local"): 50.3,
        ("modified", "local"): 51.0,
        ("modified", "remote", "writer", 0, 1): 112.8,
        ("modified", "remote", "writer", 1, 0): 112.7,
        ("modified", "remote", "reader", 0, 1): 176.5,
        ("modified", "remote", "reader", 1, 0): 177.3,
    }
    (alone,) = mlc.read(MLC_IDLE, "here").experiments[0].points
    assert alone.parameters == {"working_set": 10 << 20} and alone.latency_ns and alone.latency_ns.mean == 12.5
    # Indented, as it is in someone's page, and with the line ends of another system.
    paged = mlc.read("\r\n".join(f"    {line}" for line in MLC_TWO_SOCKETS.splitlines()), "here")
    assert sum(len(experiment.points) for experiment in paged.experiments) == sum(
        len(experiment.points) for experiment in tables.values()
    )


def test_hpl_and_intels_linpack() -> None:
    (table,) = linpack.read(HPL, "here").experiments
    assert [p.parameters["n"] for p in table.points] == [10000, 20000]
    assert [p.throughput.value for p in table.points] == pytest.approx([128.23e9, 137.12e9])
    judged = explain(declare_axes(linpack.read(HPL, "here"))).experiments[0]
    assert [point.validity for point in judged.points] == ["unverified", "invalid"]
    (other,) = linpack.read(INTEL, "here").experiments
    assert [p.parameters["n"] for p in other.points] == [1000, 5000]


def test_intels_trials_are_points_by_size() -> None:
    (table,) = linpack.read(INTEL_TRIALS, "here").experiments
    assert [(p.parameters["n"], p.parameters["threads"], p.repeats) for p in table.points] == [
        (1000, 16, 2),
        (2000, 16, 1),
        (40000, 16, 1),
    ]
    assert [p.throughput.value for p in table.points] == pytest.approx([400e9 / 3, 111.3705e9, 536.6813e9])
    assert [p.details["flops_s_best"] for p in table.points] == pytest.approx([200e9, 111.3705e9, 540.2e9])
    assert [p.details.get("verification") for p in table.points] == ["passed", "failed", None]


STREAM_TWICE = """Each test below will take on the order of 31904 microseconds.
Function Best Rate MB/s Avg time Min time Max time
Copy: 5221.1 0.031904 0.030645 0.038294
Scale: 5189.8 0.033716 0.030830 0.051713
Add: 6877.8 0.036953 0.034895 0.045938
Triad: 6586.5 0.037120 0.036438 0.040493

Solution Validates: avg error less than 1.000000e-13 on all three arrays

Number of Threads requested = 2
Number of Threads counted = 2
Function Best Rate MB/s Avg time Min time Max time
Copy: 10642.6 0.016111 0.015034 0.022340
Scale: 10306.5 0.016060 0.015524 0.018060
Add: 13846.4 0.017804 0.017333 0.018832
Triad: 13109.1 0.018859 0.018308 0.019612

Failed Validation on array a[]
"""
"""The output as the cloud study published it: without OpenMP and with, one after the other."""


def test_every_output_of_stream_in_a_text_is_read() -> None:
    (result,) = stream.read(STREAM_TWICE, "here").experiments
    found = {(point.parameters["operation"], point.parameters["threads"]): point for point in result.points}
    assert len(found) == 8
    assert found["triad", 1].throughput.value == 6586.5e6 and found["triad", 2].throughput.value == 13109.1e6
    verdicts = {threads: found["add", threads].details["verification"] for threads in (1, 2)}
    assert verdicts == {1: "passed", 2: "failed"}


def test_an_older_stream_of_single_precision() -> None:
    assert stream.recognizes(STREAM_OLD)
    (table,) = stream.read(STREAM_OLD, "here").experiments
    assert table.fixed["working_set"] == 20_000_000 * 3 * 4 // 4
    assert [p.throughput.value for p in table.points] == pytest.approx([9812.4411e6, 10233.71e6])
    assert {p.details["verification"] for p in table.points} == {"failed"}


@pytest.mark.parametrize(("text", "name"), [(STREAM, "stream-text"), (MLC, "mlc-text"), (HPL, "linpack-text")])
def test_files_are_recognized_by_content(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / "result"
    path.write_text(text)
    assert read_run(path).imported_from == name
