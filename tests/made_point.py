"""A clean storage point and Runs of it, from which tests of rules change one thing at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hwdyno.explain.findings import explain
from hwdyno.explain.findings.rule import Case
from hwdyno.model.axes import with_field_axes
from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Concurrency, Samples
from hwdyno.model.words import ExperimentResult, Latency, Measurement, Run, Stream, Value

RATE, BLOCK, DEPTH, THREADS = 10_000.0, 4096, 8.0, 8
QUIET = {"cpu_busy": 0.1, "cpu_user": 0.05, "steal": 0.0}


def course(values: Sequence[float], count: int = 20) -> Samples:
    """Samples of repeats at these levels, or one by one."""
    whole = [value for level in values for value in [level] * count]
    return Samples(min(whole), sum(whole) / len(whole), max(whole), 0.05, None, tuple(whole))


def base(**changes: Any) -> Measurement:
    """A clean point of random 4 KiB reads, three repeats of a second."""
    wait = DEPTH / RATE * 1e9
    done = round(3 * RATE)
    latency = Latency(wait, wait, wait, wait, None, wait, wait, done)
    made = Measurement(
        parameters={"rw": "randread", "bs": BLOCK, "iodepth": int(DEPTH), "numjobs": 1, "direct": True,
                    "ioengine": "io_uring", "size": 1 << 34},
        throughput=Value(RATE * BLOCK, "bytes/s", 0.98 * RATE * BLOCK, 1.02 * RATE * BLOCK),
        rate=Value(RATE, "operations/s", 0.98 * RATE, 1.02 * RATE),
        latency_ns=latency,
        streams=(Stream("read", done, done * BLOCK, latency_ns={"total": latency}),),
        samples=course([RATE * BLOCK] * 3),
        concurrency=Concurrency(DEPTH, DEPTH),
        cpu_user_s=0.3,
        cpu_system_s=0.3,
        elapsed_s=3.0,
        operations=done,
        bytes=done * BLOCK,
        repeats=3,
        repeat_values=(RATE * BLOCK,) * 3,
        counters={"device_read_bytes": float(done * BLOCK), "process_read_bytes": float(done * BLOCK)},
        conditions=dict(QUIET),
    )  # fmt: skip
    return replace(made, **changes)


def make_run(point: Measurement, resource: str = "storage", profile: str = "quick", **survey: Any) -> Run:
    host = Machine.of_survey({"cpu": {"threads": THREADS}, **survey})
    kernel = {"storage": "storage_blocks", "compute": "compute_flops"}.get(resource, "")
    load = "iodepth" if resource == "storage" else "threads"
    result = with_field_axes(ExperimentResult(f"{resource}.{load}", resource, "?", load, kernel, (point,)))
    return Run("x", "2026-01-01T00:00:00+00:00", None, (host,), profile, "hwdyno run", (result,))


def found_in(run: Run) -> dict[str, str]:
    """The findings on points, with their severities."""
    return {finding.rule: finding.severity for finding in explain(run).findings if finding.points}


def make_case(result: ExperimentResult, at: int = 0) -> Case:
    """A rule's case: a point of an experiment, in a Run of the clean machine."""
    return Case(replace(make_run(base()), experiments=(result,)), result, at)


def case_of_base(**changes: Any) -> Case:
    """The case of the clean point with some fields changed."""
    run = make_run(base(**changes))
    return Case(run, run.experiments[0], 0)
