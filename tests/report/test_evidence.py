"""The evidence of findings as a page shows it: names in words, figures with their units."""

from __future__ import annotations

from typing import Any

import made_run
import pytest
from hwdyno.report.evidence import sentences
from test_report_page import find_run


@pytest.mark.parametrize(
    ("evidence", "shown"),
    [
        ({"best_bytes_s": 38.1e9}, [("best", "38.1 GB/s")]),
        ({"flop_s": 34.7e9, "share": 0.147}, [("throughput", "34.7 GFLOP/s"), ("share", "14.7%")]),
        ({"idle_p50_ns": 13123.0, "rtt_s": 0.002}, [("idle p50", "13.1 µs"), ("rtt", "2.00 ms")]),
        ({"first_token_ns_p99": 2.5e8}, [("first token p99", "250 ms")]),
        ({"array_bytes": 4 << 20}, [("array", "4 MiB")]),
        ({"worst": 2e8, "unit": "bytes/s"}, [("worst", "200 MB/s")]),
        (
            {"Xm": 3e8, "p": 1.12, "unit": "bytes/s"},
            [("fitted maximum (Xm)", "300 MB/s"), ("sharpness of the knee (p)", "1.12")],
        ),
        (
            {"N*": 4.65, "R1": 7.14e-5},
            [("load at which the fit bends (N*)", "4.65"), ("time of one operation alone (R1)", "71.4 µs")],
        ),
        (
            {"points": {"compute.grid": [0, 2, 3], "compute.linpack": [1]}},
            [("points", "3 of compute.grid, 1 of compute.linpack")],
        ),
        ({"repeats": [3.0e9, 5.1e9], "unit": "bytes/s"}, [("repeats", "3,000 MB/s, 5,100 MB/s")]),
        ({"repeats": 5}, [("repeats", "5")]),
        ({"load_90": None, "outliers": [], "note": "", "headline": {"title": "x", "value": 1.0}}, []),
        ({"best_measured": True, "rotational": False}, [("best measured", "yes"), ("rotational", "no")]),
        (
            {"hosts": [{"host": "a", "read_s": 1.5}, {"host": "b", "read_s": 0.002}]},
            [("hosts", "host a, read 1.50 s; host b, read 2.00 ms")],
        ),
        ({"note": "throughput dropped"}, [("note", "throughput dropped")]),
    ],
)
def test_evidence_is_in_words_with_units(evidence: dict[str, Any], shown: list[tuple[str, str]]) -> None:
    assert sentences(evidence) == shown


def test_long_piece_ends_with_mark() -> None:
    ((_, text),) = sentences({"rows": "x" * 10_000})
    assert len(text) == 402 and text.endswith(" …")


@pytest.mark.parametrize("name", [*made_run.ALL, "machine"])
def test_evidence_is_in_plain_words(name: str) -> None:
    for finding in find_run(name).findings:
        for label, text in sentences(finding.evidence):
            assert "_" not in label and not text.startswith(("{", "[")) and text not in {"null", "true", "false"}
