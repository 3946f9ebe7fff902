"""Former names in stored documents: keys and kernels that were renamed, with their names of today."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_KEYS = {
    "experiments.*.points.*.concurrency.asked": "requested",
    "reading.concurrency_asked": "concurrency_requested",
}
"""Today's name of a key, by the path of its former one in any schema."""
_KERNELS = {
    "training_kv_cache": "inference_kv_cache",
    "training_vector_index": "inference_vector_index",
    "training_vector_search": "inference_vector_search",
}
_VALUES = {"experiments.*.kernel": _KERNELS}
"""Former values of a key by its path, each with its name of today."""


def rename_keys(plain: Any, at: str = "") -> Any:
    """A document, or the part of one that is at a path such as ``experiments.*``, with the names of today."""
    for path, name in _KEYS.items():
        for table, key in _find_tables(plain, path, at):
            table[name] = table.pop(key)
    for path, values in _VALUES.items():
        for table, key in _find_tables(plain, path, at):
            if isinstance(table[key], str):
                table[key] = values.get(table[key], table[key])
    return plain


def kernel_of_today(name: str) -> str:
    """The name of the kernel that is or was called ``name``."""
    return _KERNELS.get(name, name)


def _find_tables(plain: Any, path: str, at: str) -> list[tuple[dict[str, Any], str]]:
    """Each table in the part of a document at ``at`` that has the key of this path, with the key."""
    return list(_within(plain, path[len(at) :].strip(".").split("."))) if path.startswith(at) else []


def _within(plain: Any, path: Sequence[str]) -> Iterator[tuple[dict[str, Any], str]]:
    if path[0] == "*":
        for inner in plain if isinstance(plain, list) else ():
            yield from _within(inner, path[1:])
    elif isinstance(plain, dict) and path[0] in plain:
        if len(path) == 1:
            yield plain, path[0]
        else:
            yield from _within(plain[path[0]], path[1:])
