"""Writes a function's arguments as JSON and reads them back, and writes what it comes to as text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import PurePath
from types import FunctionType
from typing import Any

import numpy as np

KIND = "="
"""The key that names what an object is; a tuple is a plain list, and an absent field has its default."""
SHARED = 150
"""Characters from which a part that occurs again in a call is written once, so that a nudge changes both."""
DIGITS = 4
"""Of a figure that are compared: fits differ in the last ones from one library to the next."""
MOST = 64
"""Of what an iterator gives."""
Tree = Any
"""What JSON has."""


class UnwritableError(TypeError):
    """An argument that no JSON can hold."""


def name_of(kind: Any) -> str:
    """A class or function of a module by name."""
    return f"{kind.__module__}:{kind.__qualname__}"


@cache
def named(name: str) -> Any:
    """What a name stands for."""
    module, _, path = name.partition(":")
    found = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


@cache
def fields_of(kind: Any) -> dict[str, Any]:
    """The fields that a dataclass is made with, and the default of each; ``dataclasses.MISSING`` without one."""
    return {
        one.name: one.default if one.default_factory is dataclasses.MISSING else one.default_factory()
        for one in dataclasses.fields(kind)
        if one.init
    }


class Writer:
    """Writes the arguments of one call."""

    def __init__(self) -> None:
        self.places: dict[str, list[str | int]] = {}
        """By what a larger part is: where it stands first."""

    def arguments(self, values: Mapping[str, Any]) -> Tree:
        """All arguments by name."""
        return {name: self.tree(value, [name]) for name, value in values.items()}

    def tree(self, value: Any, place: list[str | int]) -> Tree:
        """A value as JSON has it."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or type(value) in (bool, int, float, str):
            return value
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._known(self._fields(value, place), place)
        if type(value) is tuple:
            return [self.tree(one, [*place, at]) for at, one in enumerate(value)]
        if isinstance(value, np.ndarray):
            if value.dtype.kind not in "fiub" or value.size > 400:
                raise UnwritableError
            return {KIND: "array", "of": value.tolist(), "type": str(value.dtype)}
        if type(value) in (list, set, frozenset):
            ordered = value if type(value) is list else sorted(value)
            return {
                KIND: type(value).__name__,
                "of": [self.tree(one, [*place, "of", at]) for at, one in enumerate(ordered)],
            }
        if isinstance(value, Mapping):
            if all(type(one) is str for one in value):
                return {KIND: "dict", "of": {name: self.tree(one, [*place, "of", name]) for name, one in value.items()}}
            pairs = [[self.tree(n, [*place, "of", at, 0]), self.tree(v, [*place, "of", at, 1])]
                     for at, (n, v) in enumerate(value.items())]  # fmt: skip
            return {KIND: "pairs", "of": pairs}
        if isinstance(value, PurePath):
            return {KIND: "path", "of": str(value)}
        if isinstance(value, (FunctionType, type)) and "<" not in value.__qualname__:
            return {KIND: "name", "of": name_of(value)}
        raise UnwritableError(type(value).__name__)

    def _fields(self, value: Any, place: list[str | int]) -> Tree:
        kind: Any = type(value)
        if "<" in kind.__qualname__:
            raise UnwritableError(kind.__qualname__)
        written = {KIND: name_of(kind)}
        for name, default in fields_of(kind).items():
            field = getattr(value, name)
            if default is dataclasses.MISSING or type(field) is not type(default) or not _alike(field, default):
                written[name] = self.tree(field, [*place, name])
        return written

    def _known(self, written: Tree, place: list[str | int]) -> Tree:
        text = json.dumps(written)
        if len(text) < SHARED:
            return written
        if text in self.places:
            return {KIND: "same", "as": self.places[text]}
        self.places[text] = place
        return written


def _alike(one: Any, other: Any) -> bool:
    return not isinstance(one, np.ndarray) and bool(one == other)


def read(arguments: Tree) -> dict[str, Any]:
    """The arguments as they were."""
    return {name: _read(value, arguments) for name, value in arguments.items()}


def at_place(tree: Tree, place: list[str | int]) -> Tree:
    """A part of a tree."""
    for part in place:
        tree = tree[part]
    return tree


def _read(tree: Tree, whole: Tree) -> Any:
    if isinstance(tree, list):
        return tuple([_read(one, whole) for one in tree])
    if not isinstance(tree, dict):
        return tree
    kind = tree[KIND]
    if kind == "same":
        return _read(at_place(whole, tree["as"]), whole)
    if kind == "array":
        return np.array(tree["of"], dtype=tree["type"])
    if kind == "dict":
        return {name: _read(one, whole) for name, one in tree["of"].items()}
    if kind == "pairs":
        return {_read(name, whole): _read(one, whole) for name, one in tree["of"]}
    if kind in ("list", "set", "frozenset"):
        return {"list": list, "set": set, "frozenset": frozenset}[kind](_read(one, whole) for one in tree["of"])
    if kind == "path":
        return PurePath(tree["of"])
    if kind == "name":
        return named(tree["of"])
    return named(kind)(**{name: _read(one, whole) for name, one in tree.items() if name != KIND})


def text_of(result: Any) -> str:
    """What a function comes to, in one line."""
    return json.dumps(_plain(result), ensure_ascii=False)


def _plain(value: Any) -> Tree:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if value is None or isinstance(value, bool | int | str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        return {type(value).__name__: {name: _plain(one) for name, one in fields.items() if _is_there(one)}}
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, set | frozenset):
        return sorted((_plain(one) for one in value), key=str)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Iterator):
        return [_plain(one) for one in islice(value, MOST)]
    if isinstance(value, FunctionType | type):
        return value.__qualname__
    raise UnwritableError(type(value).__name__)


def _is_there(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (value not in (None, "", (), False, frozenset()) and value != {})
