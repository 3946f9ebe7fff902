"""The declarations of scenarios: which command has each, its options, and the kernel whose parameters are axes."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from hwdyno.measure.scenarios.request import Option, Request
from hwdyno.measure.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """A scenario's declaration."""

    name: str
    command: str
    """The command that takes its options."""
    make: Callable[[Request, Host], Scenario]
    """Raises ``UserError`` for what cannot be measured, before anything is made."""
    title: str = ""
    """Title of its options in the help."""
    options: tuple[Option, ...] = ()
    chosen_by: str = ""
    """The option that selects it among the scenarios of its command; empty for the default one."""
    kernel: str = ""
    """The kernel whose parameters are axes of the command; empty where none are."""
    hidden: Collection[str] = ()
    """Parameters of that kernel that the scenario sets itself, so they are not axes."""
    experiments: tuple[str, ...] = ()
    """Names of the catalogue's experiments that ``hwdyno run`` and plan files measure by this scenario."""
    takes_stores: bool = False
    """Whether a place may be in an object store."""
    brief: Mapping[str, Any] = field(default_factory=dict)
    """Its options in ``hwdyno run``, where they are not its defaults."""


@cache
def all_kinds() -> tuple[Kind, ...]:
    """Every scenario of this folder; within a command the one without ``chosen_by`` comes first."""
    folder = importlib.import_module(__package__)
    modules = (
        importlib.import_module(f"{__package__}.{module.name}") for module in pkgutil.iter_modules(folder.__path__)
    )
    found = [module.KIND for module in modules if hasattr(module, "KIND")]
    return tuple(sorted(found, key=lambda kind: (kind.command, kind.chosen_by != "", kind.name)))


def of_command(command: str) -> tuple[Kind, ...]:
    """The scenarios of a command."""
    return tuple(kind for kind in all_kinds() if kind.command == command)
