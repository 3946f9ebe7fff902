"""Every resource that hwdyno measures, one file each, found by walking this folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from hwdyno.analysis.ceilings import parse_given
from hwdyno.analysis.ceilings.host_sums import summed
from hwdyno.analysis.resources.description import Doubt, HeadlineFigure, Resource
from hwdyno.model.machine import Machine
from hwdyno.model.words import Ceiling, Declaration, ExperimentResult, Run

__all__ = [
    "Doubt",
    "HeadlineFigure",
    "Resource",
    "all_resources",
    "ceilings_of",
    "ceilings_of_site",
    "find",
    "rate_word",
    "rate_word_of",
    "why_no_ceiling",
    "with_derived",
]

DERIVED = "derived from this run's own readings: "
"""Begins the source of a ceiling that is computed again whenever a Run is explained."""


@cache
def all_resources() -> Mapping[str, Resource]:
    """Every resource by its name."""
    modules = (importlib.import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__))
    found = (vars(module).get("RESOURCE") for module in modules)
    return {one.name: one for one in found if isinstance(one, Resource)}


def find(name: str) -> Resource:
    """The resource called ``name``; a plain one for an unknown name, which a foreign document may have."""
    return all_resources().get(name) or Resource(name=name, title=name[:1].upper() + name[1:])


# --- words


def rate_word(name: str, declaration: Declaration | None = None) -> str:
    """The field's word for the operations per second of a resource's kernel; empty where there is none.

    The kernel's declaration names the operation; without it, the resource's word applies.
    """
    if declaration is not None and declaration.operation != Declaration().operation:
        return "IOPS" if declaration.operation == "I/O" else f"{_many(declaration.operation)}/s"
    return find(name).rate_word


def rate_word_of(result: ExperimentResult) -> str:
    """The field's word for an experiment's operations per second; empty where there is none."""
    return rate_word(result.resource, result.declaration)


def _many(noun: str) -> str:
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


# --- ceilings


def ceilings_of(machine: Machine, name: str, given: Iterable[Ceiling | str] = ()) -> tuple[Ceiling, ...]:
    """The ceilings of one resource of a Machine, and the given ones.

    Raises ``UserError`` for a given text that cannot be parsed.
    """
    extra = (parse_given(one) if isinstance(one, str) else one for one in given)
    return (*find(name).ceilings(machine), *extra)


def ceilings_of_site(machines: Sequence[Machine], name: str) -> tuple[Ceiling, ...]:
    """The ceilings of one resource of all hosts together."""
    return summed(machines, find(name).ceilings)


def why_no_ceiling(machine: Machine, name: str) -> tuple[str, ...]:
    """A sentence for each expected ceiling of a resource that is unknown."""
    return find(name).why_no_ceiling(machine)


def with_derived(run: Run) -> Run:
    """The Run with the ceilings that follow from its readings, computed again."""
    sources = {kernel: source for one in all_resources().values() for kernel, source in one.derived.items()}
    results = []
    for result in run.experiments:
        kept = tuple(one for one in result.ceilings if not one.source.startswith(DERIVED))
        bare = replace(result, ceilings=kept)
        made = sources[result.kernel](run, bare) if result.kernel in sources else ()
        results.append(replace(bare, ceilings=(*kept, *(replace(one, source=DERIVED + one.source) for one in made))))
    return replace(run, experiments=tuple(results))
