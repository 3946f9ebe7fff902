"""Changes single values in a call's arguments: a count by one, a figure by a share, a word to another known one."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING
from types import CodeType, FunctionType
from typing import Any

from calls.written import KIND, Tree, fields_of, named

Place = tuple[str | int, ...]
Nudge = tuple[Place, Tree]
OF_A_NAME = 12
"""Values that are kept of a name."""
LONGEST = 400
"""Of such a value, in characters."""
FACTORS = (1.05, 0.9, 2.0, 0.5, 10.0, 0.0)


class Known:
    """The values that each field, key and argument has anywhere."""

    def __init__(self, calls: Iterable[tuple[str, Tree]]) -> None:
        found: dict[str, dict[str, Tree]] = defaultdict(dict)
        for function, arguments in calls:
            for _, label, value in places(arguments, function):
                texts = found[label]
                if len(texts) < OF_A_NAME and not (isinstance(value, float) and len(texts) > OF_A_NAME // 2):
                    text = json.dumps(value)
                    if len(text) <= LONGEST and '"same"' not in text:
                        texts[text] = value
        self.values = {label: list(texts.values()) for label, texts in found.items()}

    def others(self, label: str, value: Tree, constants: Sequence[float] = ()) -> list[Tree]:
        """What else could stand there; ``constants`` are those of the function."""
        found = [one for one in self.values.get(label, []) if one != value]
        if value is not None and _has_default(label):
            found.append(None)
        if type(value) in (int, float):
            found += [type(value)(one) for one in constants]
        if isinstance(value, bool):
            found.append(not value)
        elif isinstance(value, int):
            found += [value + 1, value - 1, 2 * value]
        elif isinstance(value, float):
            found += [factor * value for factor in FACTORS]
            if value.is_integer():
                found += [value + 1.0, value - 1.0]
        elif isinstance(value, list) and value:
            found += [value[:-1], value[1:]]
        return found


def _has_default(label: str) -> bool:
    kind, _, name = label.rpartition(".")
    return ":" in kind and "(" not in label and fields_of(named(kind)).get(name, MISSING) is None


def places(tree: Tree, label: str, place: Place = ()) -> Iterator[tuple[Place, str, Tree]]:
    """Every value in a tree: where it stands, whose it is, and the value; None for a field that has its default."""
    if isinstance(tree, list):
        if place:
            yield place, label, tree
        for at, one in enumerate(tree):
            yield from places(one, label, (*place, at))
        return
    if not isinstance(tree, dict):
        yield place, label, tree
        return
    kind = tree.get(KIND)
    if kind in ("same", "name", "path"):
        return
    if kind is None:
        for name, one in tree.items():
            yield from places(one, f"{label}({name})", (*place, name))
        return
    if "of" in tree:
        inner = tree["of"]
        if isinstance(inner, dict):
            for name, one in inner.items():
                yield from places(one, f"[{name}]", (*place, "of", name))
        else:
            yield from places(inner, label, (*place, "of"))
        return
    for name in fields_of(named(kind)):
        if name in tree:
            yield from places(tree[name], f"{kind}.{name}", (*place, name))
        else:
            yield (*place, name), f"{kind}.{name}", None


def nudged(tree: Tree, nudges: Sequence[Nudge]) -> Tree:
    """The tree with other values in these places."""
    for place, value in nudges:
        tree = _set(tree, place, value)
    return tree


def _set(tree: Tree, place: Sequence[str | int], value: Tree) -> Tree:
    if not place:
        return value
    copied = dict(tree) if isinstance(tree, dict) else list(tree)
    copied[place[0]] = value if len(place) == 1 else _set(tree[place[0]], place[1:], value)  # type: ignore[index]
    return copied


def singles(tree: Tree, function: str, known: Known, draw: random.Random) -> Iterator[Nudge]:
    """One nudge of each place, in any order."""
    every = [
        (place, others) for place, label, value in places(tree, function) if (others := known.others(label, value))
    ]
    draw.shuffle(every)
    for place, others in every:
        yield place, draw.choice(others)


def more(
    tree: Tree, function: str, known: Known, sensitive: Sequence[Place], draw: random.Random
) -> Iterator[list[Nudge]]:
    """One or two nudges at a time of the places that the function looks at."""
    options = {place: others for place, label, value in places(tree, function)
               if place in set(sensitive) and (others := known.others(label, value))}  # fmt: skip
    if not options:
        return
    while True:
        chosen = draw.sample(sorted(options, key=str), min(len(options), draw.choice((1, 1, 2))))
        yield [(place, draw.choice(options[place])) for place in chosen]


def removable(tree: Tree, place: Place = ()) -> Iterator[Place]:
    """The places of fields and keys that a call may do without, the outer ones first."""
    if isinstance(tree, list):
        for at, one in enumerate(tree):
            yield from removable(one, (*place, at))
    elif isinstance(tree, dict):
        kind = tree.get(KIND)
        inner, below = (tree, place) if kind is None or "of" not in tree else (tree["of"], (*place, "of"))
        if isinstance(inner, list):
            yield from removable(inner, below)
            return
        if not isinstance(inner, dict) or kind in ("same", "name", "path", "array"):
            return
        for name, one in inner.items():
            if name != KIND and place:
                yield (*below, name)
            yield from removable(one, (*below, name))


def without(tree: Tree, place: Place) -> Tree:
    """The tree without a field or key; raises ``KeyError`` and ``IndexError`` where it is gone already."""
    copied: Any = dict(tree) if isinstance(tree, dict) else list(tree)
    if len(place) > 1:
        copied[place[0]] = without(tree[place[0]], place[1:])
    else:
        del copied[place[0]]
    return copied


def constants_of(function: FunctionType) -> list[float]:
    """The numbers that a function and its module name, each also a little more and less."""
    found = {one for one in vars_of_module(function) if type(one) in (int, float)}
    return sorted(found | set(_numbers(function.__code__)))


def vars_of_module(function: FunctionType) -> list[Any]:
    """What the module of a function names that the function uses."""
    names = function.__code__.co_names
    return [function.__globals__[name] for name in names if name in function.__globals__]


def _numbers(code: CodeType) -> Iterator[float]:
    for one in code.co_consts:
        if type(one) in (int, float):
            yield one
        elif isinstance(one, CodeType):
            yield from _numbers(one)


WAYS = (0.5, 2.0, 0.1, 10.0, 1000.0, 0.0)
"""Factors by which an edge is looked for."""
HALVES = 8
_FIGURE = re.compile(r"[\d.,]*\d")


def is_alike(one: str, other: str) -> bool:
    """Whether two texts differ in figures alone."""
    return _FIGURE.sub("#", one) == _FIGURE.sub("#", other)


def edges(tree: Tree, function: str, draw: random.Random, differs: Callable[[Nudge], bool | None]) -> Iterator[None]:
    """Tries figures just below and just above where the function takes another course, place by place.

    ``differs`` tries a nudge: whether it takes another course, none where the call fails. Each step yields, so that the
    caller can end it.
    """
    every = [(place, value) for place, _, value in places(tree, function) if type(value) in (int, float)]
    draw.shuffle(every)
    for place, value in every:
        for factor in WAYS if value else (1.0, -1.0):
            far = factor * value if value else type(value)(factor)
            far = round(far) if type(value) is int else far
            yield
            if far == value or not differs((place, far)):
                continue
            near = value
            for _ in range(HALVES):
                middle: float = (near + far) / 2 if near * far <= 0 else (near * far) ** 0.5 * (1 if near > 0 else -1)
                middle = round(middle) if type(value) is int else middle
                if middle in (near, far):
                    break
                yield
                if differs((place, middle)):
                    far = middle
                else:
                    near = middle
