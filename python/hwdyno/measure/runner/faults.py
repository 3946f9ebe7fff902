"""Describes a failure during a run in a sentence, and decides whether measuring can continue."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace

from hwdyno.measure.measurement import Reading
from hwdyno.measure.workspace import DataFile
from hwdyno.model.words import ExperimentResult, Parameters, Run
from hwdyno.system import memory_limits, signals

# After these errors the storage is gone or full, and more points would fail the same way.
_GONE = {errno.ENODEV, errno.ENXIO, errno.EIO, errno.ENOSPC, errno.EROFS, errno.ESTALE, errno.ENOTCONN, errno.EDQUOT}

NO_FINDINGS = "the findings are missing"
_NOT_STORED = "the Run could not be stored"


class StopError(Exception):
    """The rest of an experiment cannot be measured; its text says why."""


def format_error(error: Exception) -> str:
    """An error in the system's words, on one line."""
    says = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(str(says).split())


def explain_missing_findings(error: Exception) -> str:
    """Why a Run has no findings, on one line."""
    cause = memory_limits.explain_refusal(error) or f"{type(error).__name__}: {format_error(error)}"
    return f"{NO_FINDINGS}: {cause}"


def ends_all(error: Exception) -> bool:
    """Whether no other point of the storage can be measured after this error."""
    return isinstance(error, OSError) and error.errno in _GONE


def explain_loss(reading: Reading) -> str:
    """Why no more readings can follow this one, from its faults; empty if they can."""
    for fault in reading.get("faults", ()):
        if int(fault["errno"]) in _GONE:
            return f"{fault['operation']}: {fault['says']} ({fault['count']} times)"
    return ""


def hurt(workspace: DataFile, laid_out_bytes: int) -> str:
    """How another process damaged the data file, given its original size; empty if it is intact."""
    try:
        there = workspace.laid_out_bytes
    except OSError:
        return "the data file was removed during the measurement, or its filesystem is gone"
    return "the data file was truncated during the measurement" if there < laid_out_bytes else ""


def list_refusals(experiments: Sequence[ExperimentResult]) -> list[str]:
    """A sentence if direct I/O was refused: what was measured is then memory as much as storage."""
    points = [point for experiment in experiments for point in experiment.points]
    count = sum(any(note.code == "direct_refused" for note in point.notes) for point in points)
    text = f"direct I/O was refused, so {count} of {len(points)} points went through the page cache"
    return [text] if count else []


def mark_interrupted(run: Run, is_interrupted: bool, planned: int, noun: str = "points") -> Run:
    """The Run, marked as interrupted if it is, also by a signal after its last reading."""
    if run.interrupted or not (is_interrupted or signals.is_end_requested()):
        return run
    done = sum(len(experiment.points) for experiment in run.experiments)
    why = f"interrupted: {done} of {planned} {noun} were measured"
    return replace(run, interrupted=True, degraded=(why, *run.degraded))


def not_stored(run: Run, error: Exception) -> Run:
    """The Run, degraded because its document could not be written; its points are in the journal."""
    return replace(run, degraded=(*run.degraded, f"{_NOT_STORED}: {format_error(error)}"))


def why_not_stored(run: Run) -> str:
    """Why its document could not be written; empty if it was."""
    return next((why for why in run.degraded if why.startswith(_NOT_STORED)), "")


def at(parameters: Parameters) -> str:
    """A point by its parameters, for a sentence about it."""
    return " ".join(f"{name}={value}" for name, value in parameters.items())
