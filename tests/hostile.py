"""A Run in which every text is hostile, made from the types alone, so that a new field is covered by itself."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import made_run
from hwdyno.model.words import Axis, Curve, ExperimentResult, Latency, Measurement, Run, Value

T = TypeVar("T")

MARKUP = (
    """</script></style></title>--><script>window.__pwned="script"</script><img src=x onerror="window.__pwned='img'">"""
)
SVG = """<svg id="pwned" onload="window.__pwned='svg'"><a href="javascript:window.__pwned=1">x</a></svg>'"&]]>"""
SCRIPT = """${window.__pwned=1}{{7*7}}`');window.__pwned='js';('"""
TERMINAL = "\x1b[2J\x1b[31m\x1b]0;owned\x07\x1b]8;;http://evil.invalid\x1b\\\x08\x00\x7f\x9b31m\x85\x90q\x9c"
DIRECTIONS = "\u202e\u202d\u2066\u2067\u2069\u200f\u2028\u2029\ufeff\U000e0041"
LINES = "\r\n| a | b |\n\n# head\v\f- item\t=1+1"
LABELS = r"[/bold][red]:smile:[x](javascript:alert(1)) ![y](http://evil.invalid/p.png) \| | `"
EXPRESSION = r"""\"+warn('pwned')+\"\\"+datum+"]; """
LONG = "W" * 3000
PAYLOAD = "".join(("=HYPERLINK(1)", MARKUP, SVG, SCRIPT, TERMINAL, DIRECTIONS, LINES, LABELS, EXPRESSION, LONG))
"""One text with all that turns data into orders somewhere."""

FORMULAS = ("=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1+1", "\r=1+1", " =1+1", "\n=1+1", "＝1+1", "=cmd|' /C calc'!A0")

STEERING = {
    *map(chr, (*range(0x20), *range(0x7F, 0xA0))),
    *map(chr, (*range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF, 0xE0041)),
} - {"\n", "\t"}
"""Characters that steer a terminal or reorder a line."""


def steers(text: str) -> set[str]:
    """The steering characters in a text; none in one that may be printed."""
    return set(text) & STEERING


def filled(kind: Any, text: str = PAYLOAD, depth: int = 12) -> Any:
    """A value of this type in which every field is there and every free text is ``text``."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is str or kind is Any:
        return text
    if kind in {int, float, bool}:
        return {int: 1, float: 1.5, bool: True}[kind]
    if origin is Literal:
        return inner[0]
    if origin is dict:
        return {text if inner[0] is str else filled(inner[0], text): filled(inner[1], text, depth - 1)}
    if origin in {tuple, list}:
        some = [filled(hint, text, depth - 1) for hint in inner if hint is not Ellipsis]
        return tuple(some) if origin is tuple else some
    if origin in {Union, types.UnionType}:
        return filled(next(hint for hint in inner if hint is not type(None)), text, depth - 1)
    assert is_dataclass(kind), f"{kind} is a new sort of field: say here how it is filled"
    if depth < 0:
        return None
    hints = get_type_hints(kind)
    assert isinstance(kind, type)
    return kind(**{field.name: filled(hints[field.name], text, depth - 1) for field in fields(kind) if field.init})


def list_kinds(kind: Any, seen: set[type] | None = None) -> set[type]:
    """Every dataclass that a document of this type holds."""
    seen = set() if seen is None else seen
    if is_dataclass(kind) and isinstance(kind, type) and kind not in seen:
        seen.add(kind)
        for hint in get_type_hints(kind).values():
            list_kinds(hint, seen)
    for inner in get_args(kind):
        list_kinds(inner, seen)
    return seen


def spoiled(value: T, kinds: set[type], text: str = PAYLOAD) -> T:
    """The same document, with every free text of the given kinds hostile, the names in its maps included."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = get_type_hints(type(value))
        is_spoiled = type(value) in kinds
        changed = {
            field.name: _worse(getattr(value, field.name), hints[field.name], text)
            if is_spoiled
            else getattr(value, field.name)
            for field in fields(value)
            if field.init
        }
        return replace(value, **{name: spoiled(inner, kinds, text) for name, inner in changed.items()})  # type: ignore[return-value]
    if isinstance(value, dict):
        return {name: spoiled(inner, kinds, text) for name, inner in value.items()}  # type: ignore[return-value]
    if isinstance(value, (tuple, list)):
        return type(value)(spoiled(inner, kinds, text) for inner in value)
    return value


def _worse(value: Any, hint: Any, text: str) -> Any:
    """A field's texts made hostile; words that only a few choices allow stay."""
    if get_origin(hint) is Literal:
        return value
    if isinstance(value, str):
        return text
    if isinstance(value, dict):
        of = get_args(hint)[1] if get_args(hint) else Any
        return {**{name: _worse(inner, of, text) for name, inner in value.items()}, text: filled(of, text)}
    if isinstance(value, (tuple, list)):
        inner = next(iter(get_args(hint)), Any)
        return type(value)(_worse(part, inner, text) for part in value)
    return value


def wholly_hostile_run(text: str = PAYLOAD) -> Run:
    """A Run of which every text is hostile, even the words by which it is understood."""
    run: Run = filled(Run, text)
    (experiment,) = run.experiments
    point = experiment.points[0]
    assert point.latency_ns is not None
    point = replace(point, latency_ns=replace(point.latency_ns, histogram=""))
    experiment = replace(experiment, points=(point, point))
    return replace(run, machines=run.machines * 2, experiments=(experiment,))


ALONE = (Value, Measurement, ExperimentResult, Curve, Axis)
"""Kinds whose words a report goes by: spoilt together, little would be left to draw."""
GROUPS: dict[str, set[type]] = {kind.__name__: {kind} for kind in ALONE}
GROUPS["words"] = list_kinds(Run) - {*ALONE, Latency}
RUNS: dict[str, Callable[[], Run]] = {
    "wholly": cache(wholly_hostile_run),
    "named": cache(made_run.hostile_run),
    **{name: cache(partial(spoiled, made_run.whole_run(), kinds)) for name, kinds in GROUPS.items()},
}
"""Hostile Runs by what is hostile in them."""
