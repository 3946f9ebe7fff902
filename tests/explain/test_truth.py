"""Points that measured something else than they claim: what shows it, on both sides of each limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.explain.findings import explain
from hwdyno.model.point_details import Concurrency, Fault, Note
from hwdyno.model.units import format_count
from hwdyno.model.words import Finding, Stream
from made_point import base, make_run

BYTES = base().bytes


def found(
    rule: str, given: dict[str, Any] | None = None, kernel: str = "", imported: str = "", **changes: Any
) -> Finding | None:
    """What a rule finds of the clean point with these parameters and fields."""
    run = make_run(base(**changes, parameters={**base().parameters, **(given or {})}))
    result = replace(run.experiments[0], kernel=kernel or "storage_blocks")
    run = explain(replace(run, experiments=(result,), imported_from=imported))
    return next((finding for finding in run.findings if finding.rule == rule), None)


SIZE = {"size_bytes": 1000}
NEVER, HOLES = "preallocated but never written.", "holes (sparse)."


@pytest.mark.parametrize(("unwritten", "hole", "size", "expected"), [
    # The share is of what is written and missing, else of the file's size, else of the requested size.
    *((10, 20, {"extent_written_bytes": 30, "size_bytes": 1000}, ("invalid", 0.5, HOLES)), (0, 0, {}, None)),
    *((9, 0, SIZE, None), (11, 0, SIZE, ("warning", 0.011, NEVER))),
    *((100, 0, SIZE, ("warning", 0.1, NEVER)), (0, 101, SIZE, ("invalid", 0.101, HOLES))),
    *((6, 6, {"size_bytes": 100}, ("invalid", 0.12, NEVER)), (0, 150, {"size_bytes": 100}, ("invalid", 1.0, HOLES))),
    *((25, 0, {"size": 200}, ("invalid", 0.125, NEVER)), (25, 0, {"size": None}, None)),
])  # fmt: skip
def test_unwritten_file_is_not_read(unwritten: int, hole: int, size: dict[str, Any], expected: Any) -> None:
    details = {"extent_unwritten_bytes": unwritten, "extent_hole_bytes": hole, **size}
    given = {"size": details.pop("size")} if "size" in details else {}
    finding = found("unwritten_file", given, details=details)
    assert (finding and (finding.severity, finding.evidence["share"])) == (expected and expected[:2])
    assert finding is None or f"of the file is {expected[2]}" in finding.says
    assert found("unwritten_file", {**given, "rw": "randwrite"}, details=details, streams=()) is None


@pytest.mark.parametrize(("encoded", "direct", "expected"), [
    *((9, True, None), (11, True, "warning"), (99, True, "warning"), (101, True, "invalid"), (101, False, "warning")),
])  # fmt: skip
def test_compressed_file_is_not_direct(encoded: int, direct: bool, expected: str | None) -> None:
    details = {"extent_encoded_bytes": encoded, "region_bytes": 1000}
    finding = found("compressed_file", {"direct": direct}, details=details)
    assert (finding and finding.severity) == expected
    assert found("compressed_file", details={**details, "region_bytes": None}) is None


@pytest.mark.parametrize(("given", "kernel", "share", "expected"), [
    *(({}, "", share, expected) for share, expected in ((0.0195, None), (0.021, "warning"), (0.5, "warning"))),
    *(({}, "", 0.51, "invalid"), ({"ioengine": "null"}, "", 0.9, None), ({"direct": False}, "", 0.0195, None)),
    *(({"direct": False}, "", share, expected) for share, expected in ((0.095, "info"), (0.105, "warning"))),
    *(({"direct": False}, "", 0.9, "warning"), ({"direct": False}, "storage_metadata", 0.9, "info")),
])  # fmt: skip
def test_cache_answers_share_of_bytes(given: dict[str, Any], kernel: str, share: float, expected: str | None) -> None:
    counters = {"device_read_bytes": (1 - share) * BYTES, "straddling_bytes": 0.0}
    finding = found("page_cache", given, kernel, counters=counters)
    assert (finding and finding.severity) == expected
    assert finding is None or ("Direct I/O was requested." in finding.says) != ("direct" in given)
    in_flight: dict[str, float] = {**counters, "straddling_bytes": share * BYTES}
    assert not any(found("page_cache", given, kernel, counters=known) for known in (in_flight, {}))


@pytest.mark.parametrize(("blocks", "named"), [(10, False), (100, False), (5, True)])
def test_one_missing_block_proves_nothing(blocks: int, named: bool) -> None:
    """One block may be missing at the edge of each of three repeats; of five blocks four are more than that."""
    block = BYTES // blocks
    counters = {"device_read_bytes": float(BYTES - block * (4 if named else 3)), "straddling_bytes": 0.0}
    assert (found("page_cache", {"bs": block}, "", counters=counters) is not None) == named


@pytest.mark.parametrize(("engine", "direct", "used", "depth", "why"), [
    *(("psync", True, None, depth, why) for depth, why in ((1, ""), (2, "psync has one operation in flight per job"))),
    *(("libaio", direct, None, 8, why) for direct, why in ((True, ""), (False, "buffered libaio is"), (None, ""))),
    *(("libaio", True, False, 8, "buffered libaio is"), ("libaio", False, True, 8, "")),
    ("io_uring", False, None, 8, ""),
])  # fmt: skip
def test_synchronous_engine_has_no_depth(engine: str, direct: Any, used: bool | None, depth: int, why: str) -> None:
    given = {"ioengine": engine, "direct": direct, "iodepth": depth}
    finding = found("synchronous_engine", given, details={} if used is None else {"direct_used": used})
    assert finding is None if not why else finding is not None and f"Queue depth {depth} was not" in finding.says
    assert finding is None or f": {why}" in finding.says


SUBMIT, QUEUE = (
    "75% of each operation's time was in the submitting call",
    "1.5 operations were at the device on average",
)


@pytest.mark.parametrize(("submit", "queue_s", "words"), [
    *((True, 4.5, f" Measured: {SUBMIT}, and {QUEUE}."), (True, None, f" Measured: {SUBMIT}.")),
    *((False, 4.5, f" Measured: {QUEUE}."), (False, None, "")),
])  # fmt: skip
def test_missing_depth_is_shown_by_measurements(submit: bool, queue_s: float | None, words: str) -> None:
    whole = base().latency_ns
    assert whole is not None
    parts = {"total": whole, **({"submit": replace(whole, mean=0.75 * whole.mean)} if submit else {})}
    counters = {} if queue_s is None else {"device_queue_s": queue_s}
    streams = (Stream("read", 1000, 4096000, latency_ns=parts),)
    finding = found("synchronous_engine", {"ioengine": "psync"}, streams=streams, counters=counters)
    assert finding is not None and finding.says.partition("at any depth.")[2] == words
    finding = found("synchronous_engine", {"ioengine": "psync"}, streams=streams, counters=counters, elapsed_s=0.0)
    assert finding is not None and QUEUE not in finding.says


@pytest.mark.parametrize(("jobs", "wanted", "effective", "most", "imported", "expected"), [
    *((1, 10.0, effective, None, "", rule) for effective, rule in ((9.71, None), (9.69, "info"), (9.05, "info"))),
    *((1, 10.0, 8.95, None, "", "warning"), (2, 2.0, 1.0, None, "", None), (2, 4.0, 2.0, None, "", "warning")),
    # Levels count where they have less than 90% of the requested depth, for each job.
    *((2, 16.0, effective, 8, "", expected) for effective, expected in ((16.0, None), (12.0, "warning"))),
    *((1, 16.0, 16.0, 15, "", None), (2, 16.0, 16.0, 7, "", "14.0"), (2, 16.0, 10.0, 7, "", "10.0")),
    *((1, 100.0, 100.0, 89.5, "", "89.5"), (1, 100.0, 95.0, 90.5, "", "info")),
    # A table's mean latency may leave out half of what its rate counts.
    *((1, 10.0, effective, None, "x", expected) for effective, expected in ((5.2, "info"), (4.8, "warning"))),
    (1, 10.0, 10.0, 8, "x", "8.0"),
])  # fmt: skip
def test_depth_is_short_by_law(
    jobs: int, wanted: float, effective: float, most: float | None, imported: str, expected: str | None
) -> None:
    """What is expected is a severity by Little's law, or the depth that the levels show, as a warning."""
    changes: dict[str, Any] = {"concurrency": Concurrency(wanted, effective), "latency_ns": None, "operations": 123457}
    details = {} if most is None else {"iodepth_level_most": most}
    finding = found("depth_not_reached", {"numjobs": jobs}, imported=imported, details=details, **changes)
    by_levels = finding is not None and "by the shares of operations at each depth" in finding.says
    assert by_levels == (expected is not None and expected[-1].isdigit())
    assert expected is None if finding is None else expected in (finding.severity, f"{finding.evidence['effective']}")
    assert not by_levels or (finding is not None and finding.severity == "warning")


@pytest.mark.parametrize(("operations", "count", "share", "severity"), [
    *((0, 1, 1.0, "invalid"), (9999, 1, 0.0001, "warning"), (99, 1, 0.01, "warning"), (9898, 102, 0.0102, "invalid")),
])  # fmt: skip
def test_failed_operations_are_share_of_all(operations: int, count: int, share: float, severity: str) -> None:
    finding = found("faults", operations=operations, faults=(Fault("read", 5, "Input/output error", count),))
    assert finding is not None and (finding.evidence["share"], finding.severity) == (share, severity)
    assert not operations or f"of {format_count(operations + count)} operations failed" in finding.says


@pytest.mark.parametrize(("path", "advice"), [("/dev/sda", "Use blocks and offsets"), ("/data/x", "Use a filesystem")])
def test_refused_direct_io_uses_page_cache(path: str, advice: str) -> None:
    finding = found("direct_refused", {"path": path}, notes=(Note("direct_refused", "it is a tmpfs"),))
    assert finding is not None and finding.says.endswith("Reason: it is a tmpfs.") and finding.advice.startswith(advice)


@pytest.mark.parametrize(("cached", "given", "causes", "advice"), [
    (0.0, {}, "Possible causes: the filesystem compresses or deduplicates", "Repeat it with other data, and then"),
    (0.0, {"dedupe_percentage": 30}, "Possible causes: the filesystem compresses", "neither shrinks nor repeats"),
    (0.6, {}, "the filesystem ignores O_DIRECT (60% of the region is in the page cache now)", "--seed"),
])  # fmt: skip
def test_what_kept_direct_io_from_the_device_is_not_claimed(
    cached: float, given: dict[str, Any], causes: str, advice: str
) -> None:
    """A volume that deduplicates had "30% of the bytes in the page cache", which nothing had measured."""
    streams = (Stream("write", 1000, 4096000),)
    finding = found(
        "page_cache", {"rw": "randwrite", "direct": True, **given}, streams=streams,
        counters={"device_write_bytes": 0.7 * 4096000}, details={"cached_share_after": cached},
    )  # fmt: skip
    # What was in flight as the region began may have been counted before it.
    assert finding is not None and finding.says.startswith("28% of the 4.1 MB never reached the device")
    assert causes in finding.says and advice in finding.advice and "dedupe-percentage 30" not in finding.advice
