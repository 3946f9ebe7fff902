"""The ceilings of a resource: those of its machine, those given, and those derived from a Run's readings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hwdyno.analysis.ceilings import parse_given
from hwdyno.analysis.ceilings.host_sums import sum_ceilings
from hwdyno.analysis.resources.catalogue import all_resources, find
from hwdyno.model.machine import Machine
from hwdyno.model.words import Ceiling, Run

DERIVED = "derived from this run's own readings: "
"""Begins the source of a ceiling that is computed again whenever a Run is explained."""


def list_ceilings(machine: Machine, name: str, given: Iterable[Ceiling | str] = ()) -> tuple[Ceiling, ...]:
    """The ceilings of one resource of a Machine, and the given ones.

    Raises ``UserError`` for a given text that cannot be parsed.
    """
    extra = (parse_given(ceiling) if isinstance(ceiling, str) else ceiling for ceiling in given)
    return (*find(name).ceilings(machine), *extra)


def ceilings_of_site(machines: Sequence[Machine], name: str) -> tuple[Ceiling, ...]:
    """The ceilings of one resource of all hosts together."""
    return sum_ceilings(machines, find(name).ceilings)


def why_no_ceiling(machine: Machine, name: str) -> tuple[str, ...]:
    """A sentence for each expected ceiling of a resource that is unknown."""
    return find(name).why_no_ceiling(machine)


def with_derived(run: Run) -> Run:
    """The Run with the ceilings that follow from its readings, computed again."""
    sources = {kernel: source for resource in all_resources().values() for kernel, source in resource.derived.items()}
    results = []
    for result in run.experiments:
        kept = tuple(ceiling for ceiling in result.ceilings if not ceiling.source.startswith(DERIVED))
        bare = replace(result, ceilings=kept)
        made = sources[result.kernel](run, bare) if result.kernel in sources else ()
        results.append(
            replace(bare, ceilings=(*kept, *(replace(ceiling, source=DERIVED + ceiling.source) for ceiling in made)))
        )
    return replace(run, experiments=tuple(results))
