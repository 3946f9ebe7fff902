"""Plain values of a document as the typed fields of a frozen class, with what does not fit kept aside."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Any

_NO_FIT = object()


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def typed_fields(kind: type, plain: Mapping[str, Any], at: str, other: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments for ``kind``; what has no field, or another type than the field's, goes to ``other``."""
    hints, values = _hints(kind), {}
    for key, value in plain.items():
        path = f"{at}.{key}" if at else str(key)
        made = _convert_value(hints[key], value, path, other) if key in hints else _NO_FIT
        if made is not _NO_FIT:
            values[key] = made
        elif value is not None:
            other[path] = value
    return values


def _convert_value(hint: Any, value: Any, path: str, other: dict[str, Any]) -> Any:
    """``value`` as the type of a field; ``_NO_FIT`` where it is of another."""
    if isinstance(hint, types.UnionType):
        made = (_convert_value(choice, value, path, other) for choice in hint.__args__)
        return next((typed for typed in made if typed is not _NO_FIT), _NO_FIT)
    if is_dataclass(hint) and isinstance(hint, type):
        return hint(**typed_fields(hint, value, path, other)) if isinstance(value, Mapping) else _NO_FIT
    if typing.get_origin(hint) is tuple:
        return _tuple(hint.__args__[0], value, path, other) if isinstance(value, list | tuple) else _NO_FIT
    if typing.get_origin(hint) is dict:
        return {str(key): str(why) for key, why in value.items()} if isinstance(value, Mapping) else _NO_FIT
    if hint is int and isinstance(value, float) and value.is_integer() and path.endswith("_bytes"):
        return int(value)
    return value if type(value) is hint else _NO_FIT


def _tuple(hint: Any, values: Sequence[Any], path: str, other: dict[str, Any]) -> Any:
    found: list[Any] = []
    unfit: dict[str, Any] = {}
    for at, value in enumerate(values):
        found.append(_convert_value(hint, value, f"{path}.{at}", unfit))
    if any(typed is _NO_FIT for typed in found):
        return _NO_FIT
    other.update(unfit)
    return tuple(found)
