"""The text formats of a report, one file each, found by walking this folder: a file's name is the option for it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hwdyno.model.words import Run


@dataclass(frozen=True, slots=True)
class Text:
    """One text format of a report."""

    shows: str
    """What it prints, for the option's help: ``the tables as Markdown``."""
    of: Callable[[Run], str]


def all_texts() -> Mapping[str, Text]:
    """Every text format by the name of its file."""
    modules = {one.name: importlib.import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__)}
    return {name: text for name, module in modules.items() if isinstance(text := vars(module).get("TEXT"), Text)}
