"""What differs between two machines and their settings: read before any ratio, because it may explain it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hwdyno.analysis.resources import find
from hwdyno.model.machine import Machine, survey_from_machine
from hwdyno.model.words import Run

_TOLERANCE = 0.01
"""Relative tolerance of an amount: what firmware and kernel take of memory differs from boot to boot."""
_AMOUNT = 1000
"""A smaller number is a count."""
_PASSING = re.compile(
    r"hostname|.*\.serial|.*free_bytes|.*available_bytes|.*_left_bytes|.*temperature_c|.*\.address|.*locator|unknown.*|"
    r"other.*|cpu\.clock_hz\.measured|storage\.(path|mount_point|source|chain.*|disks\.\d+\.name)|nics\..*\.(name|up)|"
    r"cpu\.caches\..*instances|gpus\..*_id|conditions\.(load_1m|others_cpu_share|steal_share|swap_.*)"
)
"""What differs between any two runs, or names a thing instead of describing it."""
_IDENTITY = re.compile(
    r"board|cpu\.(model|threads)|memory\.total_bytes|storage\.disks\.\d+\.(model|kind|size_bytes)|storage\.filesystem|"
    r"storage\.disks\.\d+\.link\.(type|bits_s)|hypervisor|gpus\..*model"
)
"""What makes two machines different ones."""
_ABSENT = re.compile(r"settings\.(environment|mitigations|limits)\..*|container\.(cpu|memory)_limit.*|hypervisor")
"""Where nothing known means that nothing is set."""
_COUNTED = {"memory.modules"}
"""Lists of which one machine may have fewer, with none in the place of what is missing."""
NOT_SET = "not set"


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact in which two Runs' machines or settings differ."""

    path: str
    """Dotted, as in the survey: ``os.kernel``; ``version`` and ``profile`` are the Run's."""
    before: Any
    after: Any
    is_identity: bool = False
    """Whether it makes them two machines, and not two states of one."""


def differences(before: Run, after: Run) -> list[Difference]:
    """Every fact that both Runs know and that differs: what makes them two machines first, then settings."""
    found = [
        replace(difference, is_identity=False)
        if difference.path.startswith("storage.") and not (_measures_storage(before) and _measures_storage(after))
        else difference
        for difference in _of_machines(before.machine, after.machine)
    ]
    if len(before.machines) != len(after.machines):
        found.append(Difference("hosts", len(before.machines), len(after.machines), True))
    found += [
        Difference(name, earlier, other)
        for name, earlier, other in (
            ("version", _tool(before), _tool(after)),
            ("profile", before.profile, after.profile),
            ("study", before.study, after.study),
        )
        if earlier != other and earlier and other
    ]
    return sorted(found, key=lambda difference: not difference.is_identity)


def is_one_machine(before: Run, after: Run) -> bool:
    """Whether nothing tells the machines apart, and both Runs describe theirs, or neither."""
    described = {_describes(run) for run in (before, after)}
    return len(described) == 1 and not any(difference.is_identity for difference in differences(before, after))


def _describes(run: Run) -> bool:
    return run.machine.cpu.model is not None or run.machine.os.kernel is not None


def _measures_storage(run: Run) -> bool:
    """Whether the disks below the Run's path were measured; else they are those of the folder that it began in."""
    return any("storage" in find(result.resource).survey_parts for result in run.experiments)


def _tool(run: Run) -> str:
    return f"{run.imported_from or 'hwdyno'} {run.version}".strip()


def _of_machines(before: Machine, after: Machine) -> Iterator[Difference]:
    old, new = (dict(_flat(survey_from_machine(machine), "")) for machine in (before, after))
    for path in dict.fromkeys((*old, *new)):
        old_value, new_value = old.get(path), new.get(path)
        if _PASSING.fullmatch(path) or _same(old_value, new_value):
            continue
        if old_value is None or new_value is None:
            if not _ABSENT.fullmatch(path) or _is_unknown(path, before, after) or not (old and new):
                continue
            old_value, new_value = (NOT_SET if value is None else value for value in (old_value, new_value))
        yield Difference(path, old_value, new_value, _IDENTITY.fullmatch(path) is not None)


def _is_unknown(path: str, *machines: Machine) -> bool:
    """Whether a machine could not read this part, or lacks it."""
    part = path.partition(".")[0]
    return any(path in machine.unknown or part in machine.unknown or machine.os.kernel is None for machine in machines)


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every fact by its dotted path; interfaces that are virtual or down are left out."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        if path in _COUNTED:
            yield f"{path}.count", len(value)
        kept = [nic for nic in value if path != "nics" or (nic.get("up") and not nic.get("virtual"))]
        for at, inner in enumerate(kept):
            yield from _flat(inner, f"{path}.{at}")
    elif value is not None and value != []:
        yield path, value


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, list) and isinstance(second, list):
        return sorted(map(str, first)) == sorted(map(str, second))
    if isinstance(first, int | float) and isinstance(second, int | float):
        far, most = float(abs(first - second)), max(abs(first), abs(second))
        return far <= _TOLERANCE * most if most > _AMOUNT else far == 0
    return bool(first == second)
