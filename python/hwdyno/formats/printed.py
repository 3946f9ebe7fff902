"""Shared by the readers of printed tables: numbers found in text become points of an imported Run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Note
from hwdyno.model.units import plural, printed_number
from hwdyno.model.words import Declaration, ExperimentResult, Latency, Measurement, Parameters, Run, UserError, Value

MAX_POINTS = 10_000
WHY = "not in the printed result"
NOT_READ = "not_read"
"""The code of a Run's note on lines with figures that its reader did not read."""


def figure(text: str) -> float | None:
    """A positive number of a tool's output; none for 0. Raises ``UserError`` unless it is a number in range."""
    number = printed_number(text)
    if number is None or number < 0:
        raise UserError(f"'{text[:40]}' is not a number in range")
    return number or None


def point(
    parameters: Parameters, value: float, unit: str, latency_ns: float | None = None, **details: Any
) -> Measurement:
    """A Measurement with only the printed figures."""
    latency = None
    if latency_ns is not None:
        latency = Latency(latency_ns, *(None,) * 6, count=0)
    return Measurement(
        parameters=parameters,
        throughput=Value(value, unit),
        rate=None,
        latency_ns=latency,
        streams=(),
        samples=None,
        concurrency=None,
        cpu_user_s=None,
        cpu_system_s=None,
        elapsed_s=0.0,
        operations=0,
        bytes=0,
        repeats=1,
        details=details,
    )


def experiment(
    name: str, asks: str, kernel: str, load: str, points: Sequence[Measurement], **fixed: Any
) -> ExperimentResult:
    """An experiment with these points; one of latency where no rate is stated."""
    resource = name.partition(".")[0]
    made = ExperimentResult(name, resource, asks, load, kernel, tuple(points), planned=len(points), fixed=fixed)
    is_of_latency = bool(points) and all(point.throughput.unit == "s" and point.latency_ns for point in points)
    return replace(made, metric="latency") if is_of_latency else made


def counting(result: ExperimentResult, noun: str) -> ExperimentResult:
    """The experiment with the noun that its rates count, where that is not its resource's."""
    return replace(result, declaration=Declaration(operation=noun)) if noun else result


def _join(experiments: Sequence[ExperimentResult]) -> tuple[ExperimentResult, ...]:
    """The experiments, those that differ in their points alone as one: a test that was repeated with another load."""
    same: dict[str, list[ExperimentResult]] = {}
    for result in experiments:
        same.setdefault(repr(replace(result, points=(), planned=0)), []).append(result)
    joined = []
    for first, *more in same.values():
        points = (*first.points, *(point for result in more for point in result.points))
        joined.append(replace(first, points=points, planned=len(points)) if more else first)
    return tuple(joined)


class NoResultError(UserError):
    """A text that looks like a tool's output, and has no result."""


def run(
    form: str,
    tool: str,
    text: str,
    name: str,
    experiments: Sequence[ExperimentResult],
    version: str = "",
    unread: Sequence[str] = (),
) -> Run:
    """A Run of all tables; the same text always gives the same Run. Raises ``NoResultError`` if there is none.

    ``unread`` are the tool's lines with figures that are in no table: they are counted in a note, with an example.
    """
    found = _join([result for result in experiments if result.points])
    if not found:
        raise NoResultError(f"{name} looks like {tool}'s output, but has no table of results")
    if sum(len(result.points) for result in found) > MAX_POINTS:
        raise UserError(f"{name} has more than {MAX_POINTS} results; split the file")
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
    return Run(
        id=f"{form}-undated-{digest}",
        started="",
        finished=None,
        machines=(Machine(unknown=dict.fromkeys(("cpu", "memory"), WHY)),),
        profile="imported",
        command=f"{tool} ({name})",
        experiments=found,
        version=version,
        imported_from=form,
        notes=(Note(NOT_READ, f"{plural(len(unread), 'line')}, for example '{unread[0][:80]}'"),) if unread else (),
    )
