"""Results of other tools at the limits of the rules on them: claims, the disk's counters and the size of arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.explain.findings import explain
from hwdyno.model.point_details import Claim
from hwdyno.model.words import Run, Stream
from made_point import base
from made_point import make_run as point_run
from simulated_runs import list_rules


def clean(imported: str = "fio", cpu: dict[str, Any] | None = None, **changes: Any) -> Run:
    """The clean point as a result of another tool, with some fields changed."""
    return explain(replace(point_run(base(**changes), cpu={"threads": 8, **(cpu or {})}), imported_from=imported))


@pytest.mark.parametrize(("off", "at_most", "says"), [
    # The tolerance of the claim is 1%; from 5% on a figure is wrong.
    *((off, False, says) for off, says in ((0.0099, ""), (0.0101, "1.0% apart"), (-0.0098, ""))),
    *((off, False, says) for off, says in ((-0.0102, "1.0% apart"), (0.049, "4.9% apart"), (0.051, "5.1% apart"))),
    *((off, False, says) for off, says in ((1.0, "100% apart"), (2.0, "a factor of 3 apart"), (-1.0, ""))),
    *((off, True, says) for off, says in ((0.0099, ""), (0.0101, "Impossible"), (-0.5, ""), (0.6, "Impossible"))),
])  # fmt: skip
def test_claim_contradicts_result(off: float, at_most: bool, says: str) -> None:
    for scale in (1e9, 0.5):
        claim = Claim("bandwidth", scale * (1 + off), scale, "bytes/s", "IOPS x block size", 0.01, at_most)
        found = [finding for finding in clean(claims=(claim,)).findings if finding.rule == "contradicts_itself"]
        assert [says in finding.says for finding in found] == [True] * bool(says)
        assert [finding.severity for finding in found] == ["invalid" if at_most or off > 0.05 else "warning"] * bool(
            says
        )


@pytest.mark.parametrize(("stated", "follows"), [(1.0, 0.0), (0.0, 1.0)])
def test_claim_of_zero_contradicts_nothing(stated: float, follows: float) -> None:
    claim = Claim("bandwidth", stated, follows, "bytes/s", "IOPS x block size", 0.01)
    assert "contradicts_itself" not in list_rules(clean(claims=(claim,)).findings)


READ, WRITE = Stream("read", 1000, 4096000), Stream("write", 1000, 4096000)
NONE, ONE = Stream("read", 0, 0), Stream("read", 1, 4096)


@pytest.mark.parametrize(("streams", "seen", "changes", "expected"), [
    *(((READ,), {"read": seen}, {}, names) for seen, names in ((981, None), (979, "read 2% warning"))),
    *(((READ,), {"read": seen}, {}, names) for seen, names in ((510, "read 49% warning"), (490, "read 51% invalid"))),
    *((streams, {"read": 400, "write": 100}, {}, "write 90% invalid") for streams in ((READ, WRITE), (WRITE, READ))),
    *(((READ,), {"read": 0}, {"ioengine": "null"}, None), ((READ,), {}, {}, None)),
    *((streams, {"read": 0}, {}, names) for streams, names in (((NONE,), None), ((ONE,), "read 100% invalid"))),
    # A buffered read of a random order may bring 128 KiB, and one of any other order 4 MiB.
    *(((READ,), {"read": seen}, {"direct": False}, names) for seen, names in ((31, None), (3, "read 90% warning"))),
    ((READ,), {"read": 1}, {"direct": False, "rw": "read"}, None),
])  # fmt: skip
def test_disk_counts_fewer_operations(streams: Any, seen: dict[str, int], changes: Any, expected: str | None) -> None:
    details = {"disk_unseen_s": 0.0, "issued_s": 1.0, **{f"disk_{way}_operations": seen[way] for way in seen}}
    run = clean(parameters={**base().parameters, **changes}, streams=streams, details=details)
    found = [finding for finding in run.findings if finding.rule == "disk_not_reached"]
    words = [
        f"{finding.evidence['direction']} {finding.evidence['missed_share']:.0%} {finding.severity}"
        for finding in found
    ]
    assert words == [expected] * bool(expected)


OF_LEVEL_2, OF_LEVEL_3 = {"level": 2, "size_bytes": 1 << 30}, {"level": 3, "size_bytes": 8 << 20, "instances": 2}


@pytest.mark.parametrize(("elements", "size", "least"), [
    # A million elements, and four times the last caches of 16 MiB together.
    *((1_000_000, 1e9, ""), (999_999, 1e9, "1,000,000 elements"), (1e7, 64 << 20, "")),
    (1e7, (64 << 20) - 1, "67.1 MB on this machine"),
])  # fmt: skip
def test_array_fits_cache(elements: float, size: float, least: str) -> None:
    run = clean(
        "stream", {"caches": [OF_LEVEL_3, OF_LEVEL_2]}, details={"array_elements": elements, "array_bytes": size}
    )
    found = [finding for finding in run.findings if finding.rule == "array_in_cache"]
    assert [f"at least {least}." in finding.says for finding in found] == [True] * bool(least)
