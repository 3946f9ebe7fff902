"""Reads a result of the Phoronix Test Suite (composite XML, or its JSON) into a Run: a point per system and test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from hwdyno.analysis import estimates
from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.unit_readings import unit_readings
from hwdyno.model.units import as_number, printed_number
from hwdyno.model.words import ExperimentResult, Measurement, Parameters, Run
from hwdyno.system import foreign

NAME = "phoronix"
MAX_TESTS = 2000
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
    if "<PhoronixTestSuite" in head:
        return True
    is_now = '"scale"' in head and ('"title"' in head or '"identifier"' in head)
    return '"results"' in head and (is_now or ('"all_results"' in head and '"units"' in head))


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    tests = _of_xml(text, name) if "<PhoronixTestSuite" in text[:65536] else _of_json(text, name)
    groups: dict[str, list[Measurement]] = {}
    for identifier, title, scale, system, value, repeats in list(tests)[: printed.MAX_POINTS]:
        units, _ = unit_readings(scale)
        unit = units[0] if units else None
        kind = _KINDS.get(unit.kind, "value") if unit else "value"
        parameters: Parameters = {"operation": title[:80], "system": system[:60]}
        found = number(value, unit.factor if unit and kind != "value" else 1.0)
        made = make_point(parameters, figures(**{kind: found})) if kind != "value" else _plain(parameters, value, scale)
        if made is None:
            continue
        if len(repeats) > 1 and unit is not None:
            interval, _ = estimates.interval_of_repeats(
                [repeat * unit.factor for repeat in repeats], made.throughput.unit
            )
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
    root = foreign.parse_xml(text, name)
    for result in list(root.iter("Result"))[:MAX_TESTS]:
        title = " ".join(filter(None, (result.findtext(tag) for tag in ("Title", "Description"))))
        for entry in result.iter("Entry"):
            raw = [printed_number(figure) for figure in (entry.findtext("RawString") or "").split(":")]
            repeats = [figure for figure in raw if figure]
            texts = (
                result.findtext("Identifier") or "",
                title,
                result.findtext("Scale") or "",
                entry.findtext("Identifier") or "",
            )
            yield (*texts, entry.findtext("Value") or "", repeats)


def _of_json(text: str, name: str) -> Iterator[_Test]:
    """Each figure of the three layouts it has had: by a hash (since 10.8), as a list, and by the test's identifier."""
    document = foreign.parse_json(text, name)
    results = document.get("results") if isinstance(document, dict) else None
    rows = (
        list(results.items())
        if isinstance(results, dict)
        else list(enumerate(results if isinstance(results, list) else ()))
    )
    for key, row in rows[:MAX_TESTS]:
        if not isinstance(row, dict):
            continue
        identifier = str(row.get("identifier") or row.get("test") or (key if "units" in row else ""))
        words = [row.get("title") or _short(identifier), row.get("description") or row.get("arguments")]
        title = " ".join(str(word) for word in words if word)
        systems = row.get("results")
        for system, entry in systems.items() if isinstance(systems, dict) else ():
            value = entry.get("value") if isinstance(entry, dict) else entry
            raw = entry.get("raw_values") or entry.get("all_results") if isinstance(entry, dict) else None
            # Until 10.8 the readings were one text, as in the XML.
            raw = raw.split(":") if isinstance(raw, str) else raw if isinstance(raw, list) else ()
            repeats = [figure for figure in map(_figure, raw) if figure]
            found = _figure(value)
            if found is not None:
                scale = str(row.get("scale") or row.get("units") or "")
                yield identifier, title, scale, str(system), json.dumps(found), repeats


def _short(identifier: str) -> str:
    """``fio`` of ``pts/fio-1.9.0``, as a title."""
    return re.sub(r"-\d+(\.\d+)*$", "", identifier.rpartition("/")[2])


def _figure(value: object) -> float | None:
    return printed_number(value) if isinstance(value, str) else as_number(value)
