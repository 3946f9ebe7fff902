"""A Run's tables and sentences by its study, and how far the Run is scaled down from it."""

from __future__ import annotations

from collections.abc import Iterable

from hwdyno.model.units import format_duration, format_size
from hwdyno.model.words import Run
from hwdyno.studies.catalogue import find
from hwdyno.studies.point_figures import experiment, number, whole
from hwdyno.studies.study import Study, StudyTable


def tables(run: Run) -> list[StudyTable]:
    """The tables of the Run's study that have something to show; empty without one."""
    return [table for table in find(run.study).tables(run) if table.columns and table.rows] if run.study else []


def observations(run: Run) -> list[str]:
    """The study's conclusions for this Run, a sentence each: scaling first, the study's errors last."""
    if not run.study:
        return []
    study = find(run.study)
    wrong = [f"In the published study: {mistake}" for mistake in study.mistakes]
    return [*_scaling(study, run), *study.observations(run), *wrong]


def _scaling(study: Study, run: Run) -> list[str]:
    """Sentences on how far this Run's sizes and times are below the study's."""
    sentences = []
    measured = {measured_experiment.resource for measured_experiment in run.experiments}
    for question in study.questions:
        result = experiment(run, question.name)
        if question.name.partition(".")[0] not in measured:
            continue  # Left out by --only.
        if result is None:
            sentences.append(f"{question.name} was not measured.")
            continue
        size = max(number(whole(result, point), "size", 0) for point in result.points)
        runtime_s = sum(point.elapsed_s / max(1, point.repeats) for point in result.points) / len(result.points)
        parts = []
        if size and size < question.size_bytes:
            parts.append(f"a file of {format_size(size)} instead of {format_size(question.size_bytes)}")
        if runtime_s < 0.95 * question.runtime_s:
            repeats = min(point.repeats for point in result.points)
            parts.append(
                f"{repeats} or more readings of {format_duration(runtime_s)} a point instead of one of "
                f"{format_duration(question.runtime_s)}"
            )
        if question.startdelay_s and not any(whole(result, point).get("startdelay") for point in result.points):
            parts.append(f"no start delay instead of {format_duration(question.startdelay_s)}")
        largest = max((number(whole(result, point), "bs") for point in result.points), default=0)
        largest_of_study = max(_values(question.blocks, "bs"), default=0)
        if 0 < largest < largest_of_study:
            parts.append(f"blocks of at most {format_size(largest)} instead of {format_size(largest_of_study)}")
        most = max((number(whole(result, point), "n", 0) for point in result.points), default=0)
        full = max(_values(question.blocks, "n"), default=0)
        if 0 < most < full:
            parts.append(f"at most {most} equations instead of {full}")
        for axis in question.brief:
            values = {whole(result, point).get(axis) for point in result.points}
            every = set(_values(question.blocks, axis))
            if axis != "n" and len(values) < len(every):
                parts.append(f"{len(values)} of {len(every)} values of {axis}")
        if parts:
            sentences.append(f"{question.name} is scaled down (profile {run.profile}): {', '.join(parts)}.")
    return sentences


def _values(blocks: Iterable[object], axis: str) -> list[int]:
    found: list[int] = []
    for block in blocks:
        values = block.get(axis, ()) if isinstance(block, dict) else ()
        found += [value for value in (values if isinstance(values, tuple) else (values,)) if isinstance(value, int)]
    return found
