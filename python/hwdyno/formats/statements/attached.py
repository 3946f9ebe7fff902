"""Adds to the Runs of a text what the text states beside its results, in the details of their points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from hwdyno.analysis.ceilings.stated import LONGEST_TEXT, ends_with_file, stated_limits
from hwdyno.formats.statements import copies, devices, fio_commands, lost_requests, text_conclusions
from hwdyno.model.words import ExperimentResult, Run

_FINDERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "wrong_options": ("storage", fio_commands.wrong_options),
    "measured_drive": ("storage", lambda text: (drive := devices.measured_drive(text)) and asdict(drive)),
    "stated_depths": ("storage", devices.stated_depths),
    "stated_depth": ("storage", devices.stated_depth),
    "slow_endpoint": ("storage", devices.slow_endpoint),
    "rated_writes": ("storage", devices.rated_writes),
    "called_inverse": ("storage", text_conclusions.called_inverse),
    "concluded_kind": ("storage", text_conclusions.concluded_kind),
    "credits_settings": ("storage", text_conclusions.credits_settings),
    "delay_called_rate": ("memory storage", text_conclusions.delay_called_rate),
    "failed_requests": (
        "network object inference training table storage memory gpu compute",
        lost_requests.failed_requests,
    ),
    "copied_cells": ("storage memory network gpu compute training inference table", copies.copied_cells),
    "quoted_parts": ("storage", copies.quoted_parts_of_iozone),
    "quoted_rows": ("memory", copies.quoted_rows_of_stream),
}
"""What a text may state: the resources whose results it concerns, the first that there is, and what finds it."""


_OF_ROWS = {"measured_drive", "stated_depth", "slow_endpoint", "rated_writes", "credits_settings"}
"""What the rows of each experiment are compared with."""


def add_statements(runs: Sequence[Run], text: str) -> list[Run]:
    """The Runs with what their text states.

    Limits, the end of a run and a formula concern each point of their resource. All else is in the details of the first
    point: of each experiment whose rows are compared with it, or of the first experiment that it concerns.
    """
    text = text[:LONGEST_TEXT]
    resources = {result.resource for run in runs for result in run.experiments if result.kernel != "claim"}
    found: dict[str, dict[str, Any]] = {}
    for name, (concerned, find) in _FINDERS.items():
        resource = next(filter(resources.__contains__, concerned.split()), "")
        if resource and (stated := find(text)):
            found.setdefault(resource, {})[name] = stated
    for stated in text_conclusions.optimal_threads(text) if resources & {"memory", "compute"} else ():
        found.setdefault(str(stated["resource"]), {})["optimal_threads"] = stated
    every = {"storage": _of_every_point(text)} if "storage" in resources else {}
    if "training" in resources and (formula := text_conclusions.utilization_formula(text)):
        every["training"] = {"utilization_formula": formula}
    return [
        replace(run, experiments=tuple(_with_details(result, found, every) for result in run.experiments))
        if found or any(every.values())
        else run
        for run in runs
    ]


def _of_every_point(text: str) -> dict[str, Any]:
    limits = [asdict(limit) for limit in stated_limits(text)]
    return {
        **({"stated_limits": limits} if limits else {}),
        **({"ends_with_file": True} if ends_with_file(text) else {}),
    }


def _with_details(
    result: ExperimentResult, found: dict[str, dict[str, Any]], every: Mapping[str, Mapping[str, Any]]
) -> ExperimentResult:
    """The experiment with what concerns it; what is stated once is then no longer in ``found``."""
    if result.kernel == "claim" or not result.points:
        return result
    once = found.get(result.resource, {})
    found[result.resource] = {name: stated for name, stated in once.items() if name in _OF_ROWS}
    always = every.get(result.resource, {})
    if not once and not always:
        return result
    points = [
        replace(point, details={**point.details, **always, **(once if at == 0 else {})})
        for at, point in enumerate(result.points)
    ]
    return replace(result, points=tuple(points))
