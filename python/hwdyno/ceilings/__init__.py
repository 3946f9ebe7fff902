"""What the hardware could deliver at most: from its links, from makers' figures, or as given, each with its formula.

Metrics: ``read_bytes_s`` and ``write_bytes_s`` bound one direction, ``total_bytes_s`` both together,
``randread_4k_iops`` and ``randwrite_4k_iops`` random operations of 4 KiB or more, ``dram_bytes_s`` what goes past
all caches, ``flop_s/OPERATION/PRECISION/ISA/CORES`` one loop of arithmetic (``flop_s/*/CORES`` any in double).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hwdyno.ceilings import memory
from hwdyno.ceilings.bounds import Bound, Held, block_bytes, bound_for, bound_of, bounds_for, held_against
from hwdyno.ceilings.derived import with_derived
from hwdyno.ceilings.given import parse_given
from hwdyno.ceilings.site import summed
from hwdyno.ceilings.stack import Stack
from hwdyno.machine import Machine
from hwdyno.words import Ceiling

__all__ = [
    "Bound",
    "Held",
    "block_bytes",
    "bound_for",
    "bound_of",
    "bounds_for",
    "ceilings_of",
    "ceilings_of_site",
    "held_against",
    "parse_given",
    "why_none",
    "with_derived",
]


def ceilings_of(
    machine: Machine, resource: str = "storage", given: Iterable[Ceiling | str] = ()
) -> tuple[Ceiling, ...]:
    """The ceilings of one resource of a Machine, and those given beside them.

    Raises ``UserError`` for one given as text that cannot be read.
    """
    found: tuple[Ceiling, ...] = ()
    if resource == "storage":
        found = _stack(machine).ceilings
    elif resource == "memory":
        found = memory.of_modules(machine.memory)
    return (*found, *(parse_given(one) if isinstance(one, str) else one for one in given))


def ceilings_of_site(machines: Sequence[Machine], resource: str = "storage") -> tuple[Ceiling, ...]:
    """The ceilings of one resource of all hosts together."""
    return summed(machines, lambda machine: ceilings_of(machine, resource))


def why_none(machine: Machine, resource: str = "storage") -> tuple[str, ...]:
    """A sentence for each ceiling that one would expect and that cannot be stated."""
    if resource == "memory":
        why = memory.why_none(machine.memory, machine.unknown)
        return (why,) if why else ()
    return tuple(dict.fromkeys(_stack(machine).reasons)) if resource == "storage" else ()


def _stack(machine: Machine) -> Stack:
    return Stack(machine.storage, machine.unknown)
