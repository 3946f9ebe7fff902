"""Finds the functions of what is changed: those of its modules and the methods of its classes, by name."""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Any

from mutants.changes import files, module_of


@cache
def functions() -> dict[str, FunctionType]:
    """All by name, such as ``hwdyno.curves:curves_of`` and ``hwdyno.findings.rule:Case.label``."""
    found: dict[str, FunctionType] = {}
    for path in files():
        module = import_module(module_of(path))
        for one in vars(module).values():
            if getattr(one, "__module__", "") != module.__name__:
                continue
            for function in [one] if not isinstance(one, type) else vars(one).values():
                plain = _plain(function)
                if plain is not None and plain.__module__ == module.__name__ and "<" not in plain.__qualname__:
                    found[f"{plain.__module__}:{plain.__qualname__}"] = plain
    return found


def _plain(one: Any) -> FunctionType | None:
    one = getattr(one, "fget", None) or getattr(one, "func", None) or one
    one = inspect.unwrap(one) if callable(one) else one
    if not isinstance(one, FunctionType) or one.__name__.startswith("__") or one.__code__.co_filename == "<string>":
        return None
    return one


def is_private(name: str) -> bool:
    """Whether a function is one of its module's own."""
    return any(part.startswith("_") for part in name.partition(":")[2].split("."))


def called(function: FunctionType, arguments: dict[str, Any]) -> Any:
    """Call it with all arguments by name."""
    code = function.__code__
    given = dict(arguments)
    positional = [given.pop(name) for name in code.co_varnames[: code.co_argcount]]
    names = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
    rest: tuple[Any, ...] = ()
    if code.co_flags & inspect.CO_VARARGS:
        rest, names = given.pop(names[0]), names[1:]
    more = given.pop(names[0]) if code.co_flags & inspect.CO_VARKEYWORDS else {}
    return function(*positional, *rest, **given, **more)
