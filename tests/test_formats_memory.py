"""Printed results of MLC, STREAM and LINPACK become Runs; garbage is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwdyno import formats
from hwdyno.findings import explain
from hwdyno.formats import linpack, mlc, stream
from hwdyno.words import UserError
from hypothesis import given
from hypothesis import strategies as st

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
HPL = """HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018
T/V                N    NB     P     Q               Time                 Gflops
WR11C2R4       10000   192     1     2               5.20             1.2823e+02
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   3.21e-03 ...... PASSED
WR11C2R4       20000   192     1     2              38.90             1.3712e+02
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   9.9e+05 ...... FAILED
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
    run = explain(mlc.read(MLC, "here"))
    tables = {one.name: one for one in run.experiments}
    assert [p.latency_ns and p.latency_ns.mean for p in tables["memory.mlc-idle"].points] == [81.2, 139.1, 140.0, 82.4]
    assert [p.parameters["mix"] for p in tables["memory.mlc-peak"].points] == ["1:0", "3:1", "triad"]
    assert len(tables["memory.mlc-nodes"].points) == 4
    (curve,) = tables["memory.mlc-loaded"].curves
    assert curve.ceiling is not None and curve.ceiling.value == pytest.approx(110e9, rel=0.1)
    assert [p.parameters["operation"] for p in tables["memory.mlc-c2c"].points] == ["clean", "modified"]


def test_hpl_and_intels_linpack() -> None:
    (table,) = linpack.read(HPL, "here").experiments
    assert [p.parameters["n"] for p in table.points] == [10000, 20000]
    assert [p.throughput.value for p in table.points] == pytest.approx([128.23e9, 137.12e9])
    judged = explain(linpack.read(HPL, "here")).experiments[0]
    assert [point.validity for point in judged.points] == ["valid", "invalid"]
    (other,) = linpack.read(INTEL, "here").experiments
    assert [p.parameters["n"] for p in other.points] == [1000, 5000]


@pytest.mark.parametrize(("text", "name"), [(STREAM, "stream-text"), (MLC, "mlc-text"), (HPL, "linpack-text")])
def test_a_file_is_recognized_by_its_content(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / "result"
    path.write_text(text)
    assert formats.read(path).imported_from == name


@pytest.mark.parametrize("module", [stream, mlc, linpack])
@given(st.data())
def test_cut_and_scrambled_text_never_ends_in_a_traceback(module: object, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([STREAM, MLC, HPL, INTEL]))
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    put = data.draw(st.text(max_size=20) | st.sampled_from(["nan", "inf", "1e999", "-1", "0", "\0"]))
    scrambled = text[:start] + put + text[end:]
    for form in (stream, mlc, linpack):
        form.recognizes(scrambled)
    try:
        run = explain(module.read(scrambled, "here"))  # type: ignore[attr-defined]
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert all(point.throughput.value > 0 for one in run.experiments for point in one.points)
