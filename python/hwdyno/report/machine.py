"""The machine as rows for a reader: what is known, and what is not with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hwdyno.model import units
from hwdyno.model.machine import Machine, survey_from_machine
from hwdyno.report import figures

_GROUPS = {
    "os": "System",
    "cpu": "Processor",
    "memory": "Memory",
    "storage": "Storage",
    "nics": "Network",
    "gpus": "GPU",
    "gpu_drivers": "GPU drivers",
    "hypervisor": "Hypervisor",
    "container": "Container",
    "conditions": "Conditions",
    "settings": "Settings",
}
_ON_DISK = re.compile(r"storage\.(disks\.\d+\.)?(size|free)_bytes")
_SECTION_OF_LONG_LISTS = 24


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: a name, what is known of it, and where nothing is, why."""

    name: str
    says: str
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Facts of one part of the machine."""

    title: str
    facts: tuple[Fact, ...]


_SHORT = {
    "os.kernel": "kernel",
    "os.distribution": "distribution",
    "cpu.model": "processor",
    "memory.total_bytes": "memory",
    "memory.transparent_huge_pages": "transparent huge pages",
    "version": "tool",
}
"""What a reader calls a fact whose path says more than is needed."""
_HEADS = re.compile(r"^(?:conditions|settings(?:\.environment|\.limits)?|storage|container|os)\.|(?<=\.)queue\.")
_ONLY = re.compile(r"\b(disks|nics|gpus)\.(\d+)\.")
_ONE = {"disks": "disk", "nics": "interface", "gpus": "GPU"}


def fact_name(path: str) -> str:
    """A fact of the survey by its dotted path, in a reader's words: ``kernel``, ``disk scheduler``, ``governor``."""
    if path in _SHORT:
        return _SHORT[path]

    def part_name(found: re.Match[str]) -> str:
        number = int(found[2])
        return f"{_ONE[found[1]]}{f' {number + 1}' if number else ''}."

    short = _HEADS.sub("", _ONLY.sub(part_name, path))
    short = _HEADS.sub("", short)
    *heads, last = short.split(".")
    if last == "model" and heads:
        return " ".join(heads)
    return " ".join((*heads, last if last.isupper() else _words(last))).replace("_", "_" if last.isupper() else " ")


def fact_text(path: str, value: Any) -> str:
    """A fact's value in its unit."""
    return _text(path.rpartition(".")[2], value, path)


def describe_machines(machines: Sequence[Machine]) -> list[Group]:
    """The parts of every host, each under its host's name where there are several."""
    if len(machines) == 1:
        return describe_machine(machines[0])
    return [
        Group(f"{machine.hostname}: {group.title}", group.facts)
        for machine in machines
        for group in describe_machine(machine)
    ]


def describe_machine(machine: Machine) -> list[Group]:
    """The machine's parts in a fixed order, then all else that the survey gave; empty parts are left out."""
    survey = {key: value for key, value in survey_from_machine(machine).items() if key not in {"unknown", "other"}}
    survey |= machine.other
    reasons = machine.unknown
    parts: dict[str, list[Fact]] = {}
    keys = [*_GROUPS, *(key for key in survey if key not in _GROUPS)]
    used: set[str] = set()
    for key in keys:
        title = _GROUPS.get(key, "Host" if not isinstance(survey[key], (dict, list)) else _words(key))
        parts.setdefault(title, []).extend(_facts(survey[key], key, key, reasons, used, top=True))
    for path, why in reasons.items():
        if path not in used:
            part = path.partition(".")[0]
            name = _words(path[len(part) :].lstrip(".") or part)
            parts.setdefault(_GROUPS.get(part, _words(part)), []).append(Fact(name, "", why))
    return [Group(title, tuple(facts)) for title, facts in parts.items() if facts]


def _facts(
    value: Any, path: str, name: str, reasons: dict[str, str], used: set[str], *, top: bool = False
) -> Iterator[Fact]:
    label = _words(name)
    if value is None:
        if path in reasons:
            used.add(path)
            yield Fact(label, "", reasons[path])
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _facts(inner, f"{path}.{key}", str(key) if top else f"{name} {key}", reasons, used)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for at, item in enumerate(value):
            if _one_line(item):
                yield Fact(f"{_words(name)} {at + 1}" if len(value) > 1 else _words(name), _one_line(item))
                yield from _missing(f"{path}.{at}", reasons, used)
            else:
                yield from _facts(item, f"{path}.{at}", "" if top else name, reasons, used, top=True)
    elif isinstance(value, list):
        if value:
            yield Fact(label, _format_list(value))
    else:
        yield Fact(label, _text(name, value, path))


def _missing(path: str, reasons: dict[str, str], used: set[str]) -> Iterator[Fact]:
    for key, why in reasons.items():
        if key.startswith(path + "."):
            used.add(key)
            yield Fact(_words(key[len(path) + 1 :].replace(".", " ")), "", why)


def _one_line(item: Any) -> str:
    """A small record in one line: a cache, a link of the storage chain, a NUMA node; empty for larger ones."""
    if not isinstance(item, dict) or any(isinstance(value, dict) for value in item.values()):
        return ""
    texts = [
        f"{_words(str(key))} {_text(str(key), value)}" for key, value in item.items() if value not in (None, "", [])
    ]
    return ", ".join(texts)


def _format_list(values: list[Any]) -> str:
    if (
        len(values) > 3
        and all(isinstance(value, int) for value in values)
        and values == list(range(values[0], values[-1] + 1))
    ):
        return f"{values[0]} to {values[-1]}"
    shown = [str(value) for value in values[:_SECTION_OF_LONG_LISTS]]
    left = len(values) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "")


def _words(name: str) -> str:
    for suffix in ("_bytes_s", "_bits_s", "_bytes", "_hz", "_c", "_share"):
        if name.endswith(suffix):
            name = name[: -len(suffix)]
            break
    return name.replace("clock_hz", "clock").replace("bits_s", "rate").replace("_", " ").strip()


def amount(path: str, value: float) -> str:
    """A fact in bytes by its dotted path: what a disk holds in decimal units, memory and blocks in binary ones."""
    return units.format_bytes(value) if _ON_DISK.fullmatch(path) else units.format_memory(value)


def _text(name: str, value: Any, path: str = "") -> str:
    """A value in the unit that its name ends with."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return _format_list(value)
    if not isinstance(value, (int, float)):
        return str(value)
    last = name.rpartition(" ")[2]
    if "bits_s" in last:
        return units.format_value(value, "bit/s")
    if last.endswith("bytes_s"):
        return units.format_bytes_s(value)
    if last.endswith("bytes"):
        return amount(path, value)
    if last.endswith("_hz") or " clock_hz " in f" {name} ":
        return units.format_value(value, "Hz")
    if last.endswith("_c"):
        return f"{value:g} °C"
    if last.endswith("_share"):
        return figures.percent(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
