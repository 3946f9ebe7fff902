"""The scenario that measures chosen experiments of the catalogue, each with the preparations that it needs."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.measure.scenarios.kinds import Kind, all_kinds, of_command
from hwdyno.measure.scenarios.preparation import ScratchFolder
from hwdyno.measure.scenarios.request import Chosen, Request
from hwdyno.measure.scenarios.scenario import Scenario, together
from hwdyno.model.words import UserError
from hwdyno.system.suggestions import hint

if TYPE_CHECKING:
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.hosts import Host


def of_experiments(
    chosen: Sequence[Chosen],
    host: Host,
    *,
    path: Path | None = None,
    load: str | None = None,
    seed: int | None = None,
    **how: Any,
) -> Scenario:
    """The scenario that measures experiments of the catalogue, each with its axes; as ``plan.build``, with its options.

    What has to be prepared for them is made small, in a directory of the run.
    """
    from hwdyno.measure.workspace import ScratchDirectory, check_place

    place = (path or Path()).absolute()
    seed = secrets.randbelow(2**31) if seed is None else seed
    request = Request(places=((place.name, place),), load=load, seed=seed, **how)
    groups = _group_experiments(chosen)
    if any(kind is not None for kind, _ in groups):
        check_place(place, writes=True)
    scratch = ScratchDirectory(place)
    scratch_folder = ScratchFolder(where=place, scratch=scratch)
    parts = []
    for kind, members in groups:
        if kind is None:
            parts.append(Scenario(plan=request.plan(members, host)))
            continue
        part = kind.make(_brief(kind, members, request, scratch.folder), host)
        # The scratch directory's name is random.
        shown = [
            replace(
                preparation,
                description=preparation.description.replace(str(scratch.folder), f"{place}/hwdyno-scratch-…"),
            )
            for preparation in part.preparations
        ]
        parts.append(replace(part, plan=replace(part.plan, path=place), preparations=(scratch_folder, *shown)))
    whole = together(parts)
    return replace(
        whole,
        remarks=(
            *whole.remarks,
            *(_explain_renaming(experiment) for experiment, _ in chosen if experiment.renamed_from),
        ),
    )


def _explain_renaming(experiment: Experiment) -> str:
    """The line on an experiment that was requested by its former name."""
    return f"{experiment.renamed_from} is now {experiment.name}; the old name goes with the next release"


def _group_experiments(chosen: Sequence[Chosen]) -> list[tuple[Kind | None, list[Chosen]]]:
    """Experiments that share their preparations, by the same scenario, options and axes; plain ones all in one."""
    mine = {name: kind for kind in all_kinds() for name in kind.experiments}
    groups: list[tuple[Kind | None, list[Chosen]]] = []
    for experiment, axes in chosen:
        kind = mine.get(experiment.name)
        if kind is None and experiment.options:
            raise UserError(f"{experiment.name} takes no options; remove them")
        for other, members in groups:
            first, its_axes = members[0]
            if other is kind and (kind is None or (first.options, its_axes) == (experiment.options, axes)):
                members.append((experiment, axes))
                break
        else:
            groups.append((kind, [(experiment, axes)]))
    return groups or [(None, [])]


def _brief(kind: Kind, members: Sequence[Chosen], request: Request, folder: Path) -> Request:
    """The request of ``hwdyno run`` to a scenario, whose files go into a directory of the run."""
    (_, place), (first, axes) = request.places[0], members[0]
    return replace(
        request,
        places=((place.name, folder),),
        axes=axes,
        options=_options(kind, first.options),
        only=frozenset(experiment.name for experiment, _ in members),
        is_brief=True,
    )


def _options(kind: Kind, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of the kind's command, those that are given as the command line has them."""
    known = {option.name: option for other in of_command(kind.command) for option in other.options}
    if unknown := sorted(set(given) - set(known)):
        raise UserError(f"{kind.name} has no option '{unknown[0]}'; {hint(unknown[0], known)}")
    typed = {name: known[name].parse_value(value) for name, value in given.items()}
    return {name: option.default for name, option in known.items()} | dict(kind.brief) | typed
