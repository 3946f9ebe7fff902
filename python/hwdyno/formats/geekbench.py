"""Reads a JSON or XML result of scores and workloads (as Geekbench writes it) into a Run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.unit_readings import unit_readings
from hwdyno.model.units import as_number, printed_number
from hwdyno.model.words import Measurement, Parameters, Run, UserError
from hwdyno.system import foreign

NAME = "geekbench"
_KINDS = {"bytes/s": "bw", "operations/s": "iops", "FLOP/s": "flops", "s": "time"}
_RATE = re.compile(r"\s*([\d.,]+)\s*(.{1,40})")
_PREFIXED = re.compile(r"([KMG])(?:lines|pixels|pairs|rows|keys|words|pages|images|functions|samples)/s(?:ec)?")
"""Units of a prefix and what is counted; in general a first letter is no prefix (messages)."""
_PREFIX = {"K": 1e3, "M": 1e6, "G": 1e9}
MAX_DEEP = 12


def recognizes(text: str) -> bool:
    """Whether this looks like a result with scores of workloads."""
    head = text[:65536]
    return ('"workloads"' in head and '"score"' in head) or (
        "<workload" in head.lower() and "score" in head.lower() and "<" in head[:200]
    )


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    is_xml = text.lstrip().startswith("<")
    document = _plain(foreign.parse_xml(text, name), 0) if is_xml else foreign.parse_json(text, name)
    groups: dict[str, list[Measurement]] = {}
    for section, workload in _workloads(document, "", 0):
        title = str(workload.get("name") or workload.get("title") or "workload")[:80]
        parameters: Parameters = {"operation": title, **({"section": section[:60]} if section else {})}
        if threads := as_number(workload.get("threads")):
            parameters["threads"] = int(threads)
        made = _make_point(parameters, workload)
        if made is not None:
            words = f"{section} {title}".lower()
            resource = "memory" if re.search(r"memory|stream", words) else "compute"
            groups.setdefault(resource, []).append(made)
    tables = [
        printed.experiment(f"{resource}.geekbench", "Scores and workloads", "geekbench", "operation", points)
        for resource, points in groups.items()
    ]
    return printed.run(NAME, "Geekbench", text, name, tables)


def _make_point(parameters: Parameters, workload: dict[str, Any]) -> Measurement | None:
    """The workload's rate where its text has a unit, else its score."""
    match = _RATE.fullmatch(str(workload.get("rate_string") or ""))
    units, _ = unit_readings(match[2]) if match else ((), (0, 0))
    score = _number(workload.get("score"))
    details = {"score": score} if score else {}
    if match is not None and units and units[0].kind in _KINDS:
        unit = units[-1] if len(units) > 1 else units[0]
        prefixed = _PREFIXED.fullmatch(match[2].strip())
        factor = unit.factor * (_PREFIX[prefixed[1]] if prefixed else 1)
        return make_point(parameters, figures(**{_KINDS[unit.kind]: number(match[1], factor)}), **details)
    return printed.point(parameters, score, "score") if score else None


def _number(value: object) -> float | None:
    found = printed_number(value) if isinstance(value, str) else as_number(value)
    return found if found and found > 0 else None


def _workloads(value: Any, section: str, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    if depth > MAX_DEEP:
        return
    if isinstance(value, list):
        for inner in value:
            yield from _workloads(inner, section, depth + 1)
    elif isinstance(value, dict):
        listed = value.get("workloads") or value.get("workload")
        here = str(value.get("name") or section)
        if isinstance(listed, dict):
            listed = listed.get("workload", listed)
            listed = listed if isinstance(listed, list) else [listed]
        if isinstance(listed, list):
            yield from ((here, workload) for workload in listed if isinstance(workload, dict))
        for key, inner in value.items():
            if key not in {"workloads", "workload"} and isinstance(inner, dict | list):
                yield from _workloads(inner, here if key == "sections" else str(key), depth + 1)


def _plain(element: Any, depth: int) -> Any:
    """An element as JSON would have it: attributes and children by name."""
    if depth > MAX_DEEP:
        raise UserError("the XML is nested too deep")
    found: dict[str, Any] = {key.lower(): value for key, value in element.attrib.items()}
    for child in element:
        value = _plain(child, depth + 1)
        key = str(child.tag).rpartition("}")[2].lower()
        known = found.get(key)
        found[key] = value if known is None else [*(known if isinstance(known, list) else [known]), value]
    return found or (element.text or "").strip()
