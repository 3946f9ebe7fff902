"""Plain values of a document as the typed fields of a frozen class, with what does not fit kept aside."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Any

_NO_FIT = object()
Converter = Callable[[Any, str, dict[str, Any]], Any]


def typed_fields(kind: type, plain: Mapping[str, Any], at: str, other: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments for ``kind``; what has no field, or another type than the field's, goes to ``other``."""
    converters, values = _converters(kind), {}
    for key, value in plain.items():
        path = f"{at}.{key}" if at else str(key)
        made = converters[key](value, path, other) if key in converters else _NO_FIT
        if made is not _NO_FIT:
            values[key] = made
        elif value is not None:
            other[path] = value
    return values


@cache
def _converters(kind: type) -> dict[str, Converter]:
    return {name: _converter(hint) for name, hint in typing.get_type_hints(kind).items()}


@cache
def _converter(hint: Any) -> Converter:
    """Gives a value as the type of a field; ``_NO_FIT`` where it is of another."""
    if isinstance(hint, types.UnionType):
        return _union_converter([_converter(choice) for choice in hint.__args__])
    if is_dataclass(hint) and isinstance(hint, type):
        return lambda value, path, other: (
            hint(**typed_fields(hint, value, path, other)) if isinstance(value, Mapping) else _NO_FIT
        )
    if typing.get_origin(hint) is tuple:
        return _tuple_converter(_converter(hint.__args__[0]))
    if typing.get_origin(hint) is dict:
        return lambda value, path, other: (
            {str(key): str(why) for key, why in value.items()} if isinstance(value, Mapping) else _NO_FIT
        )
    if hint is int:
        return _whole
    return lambda value, path, other: value if type(value) is hint else _NO_FIT


def _whole(value: Any, path: str, other: dict[str, Any]) -> Any:
    if isinstance(value, float) and value.is_integer() and path.endswith("_bytes"):
        return int(value)
    return value if type(value) is int else _NO_FIT


def _union_converter(choices: Sequence[Converter]) -> Converter:
    def convert(value: Any, path: str, other: dict[str, Any]) -> Any:
        for choice in choices:
            if (made := choice(value, path, other)) is not _NO_FIT:
                return made
        return _NO_FIT

    return convert


def _tuple_converter(convert_item: Converter) -> Converter:
    def convert(values: Any, path: str, other: dict[str, Any]) -> Any:
        if not isinstance(values, list | tuple):
            return _NO_FIT
        unfit: dict[str, Any] = {}
        found = tuple([convert_item(value, f"{path}.{at}", unfit) for at, value in enumerate(values)])
        if any(typed is _NO_FIT for typed in found):
            return _NO_FIT
        other.update(unfit)
        return found

    return convert
