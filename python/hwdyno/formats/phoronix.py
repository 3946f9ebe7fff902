"""Reads a result of the Phoronix Test Suite (composite XML, or its JSON) into a Run: a point per system and test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from hwdyno import foreign, statistics
from hwdyno.formats import printed
from hwdyno.formats.column import unit_readings
from hwdyno.formats.row import figures, number, point_of
from hwdyno.units import as_number, printed_number
from hwdyno.words import ExperimentResult, Measurement, Parameters, Run

NAME = "phoronix"
MOST_TESTS = 2000
_KINDS = {"bytes/s": "bw", "operations/s": "iops", "FLOP/s": "flops", "s": "time"}
_RESOURCES = (
    ("storage", r"fio|disk|iozone|sqlite|dbench|compilebench|ior\b|postmark|fs-mark|flexible io"),
    ("memory", r"stream\b|ramspeed|tinymembench|mbw|memory|cachebench"),
    ("network", r"network|iperf|netperf|sockperf|ethr"),
    ("gpu", r"opencl\b|cuda|clpeak|gpu|vulkan"),
)


def recognizes(text: str) -> bool:
    """Whether this looks like a result of the Phoronix Test Suite."""
    head = text[:65536]
    return "<PhoronixTestSuite" in head or (
        '"results"' in head and '"scale"' in head and ('"title"' in head or '"identifier"' in head)
    )


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    tests = _of_xml(text, name) if "<PhoronixTestSuite" in text[:65536] else _of_json(text, name)
    groups: dict[str, list[Measurement]] = {}
    for identifier, title, scale, system, value, repeats in list(tests)[: printed.MOST_POINTS]:
        units, _ = unit_readings(scale)
        unit = units[0] if units else None
        kind = _KINDS.get(unit.kind, "value") if unit else "value"
        parameters: Parameters = {"operation": title[:80], "system": system[:60]}
        found = number(value, unit.factor if unit and kind != "value" else 1.0)
        made = point_of(parameters, figures(**{kind: found})) if kind != "value" else _plain(parameters, value, scale)
        if made is None:
            continue
        if len(repeats) > 1 and unit is not None:
            interval, _ = statistics.interval_of_repeats([one * unit.factor for one in repeats], made.throughput.unit)
            made = replace(made, throughput=replace(interval, value=made.throughput.value), repeats=len(repeats))
        groups.setdefault(_resource(f"{identifier} {title}"), []).append(made)
    tables = [_table(resource, points) for resource, points in groups.items()]
    return printed.run(NAME, "Phoronix", text, name, tables)


def _table(resource: str, points: list[Measurement]) -> ExperimentResult:
    return printed.experiment(f"{resource}.phoronix", "Phoronix Test Suite results", "phoronix", "operation", points)


def _plain(parameters: Parameters, value: str, scale: str) -> Measurement | None:
    found = printed_number(value)
    return printed.point(parameters, found, scale[:40] or "score") if found is not None and found > 0 else None


def _resource(words: str) -> str:
    return next((name for name, pattern in _RESOURCES if re.search(rf"\b(?:{pattern})", words.lower())), "compute")


_Test = tuple[str, str, str, str, str, list[float]]


def _of_xml(text: str, name: str) -> Iterator[_Test]:
    root = foreign.xml_of(text, name)
    for result in list(root.iter("Result"))[:MOST_TESTS]:
        title = " ".join(filter(None, (result.findtext(one) for one in ("Title", "Description"))))
        for entry in result.iter("Entry"):
            raw = [printed_number(one) for one in (entry.findtext("RawString") or "").split(":")]
            repeats = [one for one in raw if one]
            texts = (
                result.findtext("Identifier") or "",
                title,
                result.findtext("Scale") or "",
                entry.findtext("Identifier") or "",
            )
            yield (*texts, entry.findtext("Value") or "", repeats)


def _of_json(text: str, name: str) -> Iterator[_Test]:
    document = foreign.json_of(text, name)
    results = document.get("results") if isinstance(document, dict) else None
    rows = list(results.values()) if isinstance(results, dict) else results if isinstance(results, list) else []
    for row in rows[:MOST_TESTS]:
        if not isinstance(row, dict):
            continue
        title = " ".join(str(row[key]) for key in ("title", "description") if row.get(key))
        systems = row.get("results")
        for system, entry in systems.items() if isinstance(systems, dict) else ():
            value = entry.get("value") if isinstance(entry, dict) else entry
            raw = entry.get("all_results") or entry.get("raw_values") if isinstance(entry, dict) else None
            repeats = [one for one in (as_number(each) for each in raw) if one] if isinstance(raw, list) else []
            number_ = as_number(value)
            if number_ is not None:
                yield (
                    str(row.get("identifier") or ""),
                    title,
                    str(row.get("scale") or ""),
                    str(system),
                    json.dumps(number_),
                    repeats,
                )
