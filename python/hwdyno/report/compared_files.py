"""A comparison for other programs: JSON, and JUnit XML as CI systems read it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from hwdyno.explain.comparison import Change, Compared, fails, is_open, overall, status
from hwdyno.report.compared import (
    difference_words,
    format_sides,
    interval_text,
    label,
    ratio_text,
    unlike_words,
    verdict_words,
)
from hwdyno.report.machine import fact_name
from hwdyno.system.printable import printable

SCHEMA = "hwdyno.comparison/1"


def plain(base: str, sides: Sequence[Compared], limit: float | None) -> dict[str, Any]:
    """The whole comparison as JSON values; units and ratios are those of a Run document."""
    first = next((side.before for side in sides if side.before is not None), sides[0].after)
    return {
        "schema": SCHEMA,
        "base": {"name": base, "run": first.id, "started": first.started},
        "fail_under": limit,
        "status": status(sides, limit),
        "sides": [_side(side, limit) for side in sides],
    }


def json_text(base: str, sides: Sequence[Compared], limit: float | None) -> str:
    """The comparison as a JSON document."""
    return json.dumps(plain(base, sides, limit), indent=2, ensure_ascii=False) + "\n"


def _side(side: Compared, limit: float | None) -> dict[str, Any]:
    return {
        "name": side.name,
        "run": side.after.id if side.before is not None else None,
        "started": side.after.started if side.before is not None else None,
        "one_machine": side.is_one_machine,
        "differences": [
            {**asdict(difference), "name": fact_name(difference.path), "says": difference_words(difference)}
            for difference in side.differences
        ],
        "not_compared": [
            {
                "experiment": mismatch.experiment,
                "what": mismatch.fact,
                "before": mismatch.before,
                "after": mismatch.after,
                "says": unlike_words(mismatch),
            }
            for mismatch in side.matching.unlike
        ],
        "finding": asdict(side.finding) if side.finding is not None else None,
        "geometric_mean": overall(list(side.changes)),
        "changes": [
            {**asdict(change), "label": label(side, change), "fails": _fails(side, change, limit)}
            for change in side.changes
        ],
    }


def _fails(side: Compared, change: Change, limit: float | None) -> bool:
    return (limit is not None or side.is_one_machine) and fails(change, limit)


# --- JUnit


def junit(base: str, sides: Sequence[Compared], limit: float | None) -> str:
    """JUnit XML: a suite for each side and experiment, a case for each ratio; a proven loss is a failure.

    A case without repeats is skipped: it proves nothing.
    """
    root = ElementTree.Element("testsuites", name=_xml(f"hwdyno compare {base}"))
    for side in sides:
        for name in dict.fromkeys(change.experiment for change in side.changes):
            _suite(root, base, side, name, limit)
    suites = list(root)
    for attribute in ("tests", "failures", "skipped"):
        root.set(attribute, str(sum(int(suite.get(attribute, "0")) for suite in suites)))
    root.set("errors", "0")
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(root: ElementTree.Element, base: str, side: Compared, name: str, limit: float | None) -> None:
    changes = [change for change in side.changes if change.experiment == name]
    failed = sum(_fails(side, change, limit) for change in changes)
    skipped = sum(change.p_value is None for change in changes)
    counts = {"tests": len(changes), "failures": failed, "errors": 0, "skipped": skipped}
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=_xml(f"{side.name}: {name}"),
        time="0",
    )
    for attribute, count in counts.items():
        suite.set(attribute, str(count))
    facts = [("base", base), ("compared with", side.name)]
    facts += [(fact_name(difference.path), difference_words(difference)) for difference in side.differences]
    properties = ElementTree.SubElement(suite, "properties")
    for fact, value in facts:
        ElementTree.SubElement(properties, "property", name=_xml(fact), value=_xml(value))
    for at, change in enumerate(changes):
        words = label(side, change) + (f" ({change.stated})" if change.stated else "")
        case = ElementTree.SubElement(suite, "testcase", classname=_xml(name), name=_xml(words or str(at)), time="0")
        says = f"ratio {ratio_text(change)} ({interval_text(change.ratio)}) to {base}: {verdict_words(side, change)}"
        before, after = format_sides(side, change)
        both = f"\n{base}: {before}\n{side.name}: {after}" if before or after else ""
        if _fails(side, change, limit):
            ElementTree.SubElement(case, "failure", message=_xml(says), type="slower").text = _text(says + both)
        elif change.p_value is None:
            why = "below the limit, but " if is_open(change, limit) else ""
            ElementTree.SubElement(case, "skipped", message=_xml(f"{says}; {why}without repeats nothing is proven"))
        ElementTree.SubElement(case, "system-out").text = _text(says + both)


def _xml(text: str) -> str:
    """Text for one line of XML 1.0, which has no place for some characters."""
    return "".join(letter for letter in printable(text) if letter not in "\ufffe\uffff")


def _text(lines: str) -> str:
    return "\n".join(map(_xml, lines.split("\n")))
