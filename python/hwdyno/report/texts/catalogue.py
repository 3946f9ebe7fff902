"""Every text format of a report, found by walking this folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from hwdyno.report.texts.text_format import Text


def all_texts() -> Mapping[str, Text]:
    """Every text format by the name of its file."""
    folder = importlib.import_module(__package__)
    names = [found.name for found in pkgutil.iter_modules(folder.__path__)]
    modules = {name: importlib.import_module(f"{__package__}.{name}") for name in names}
    return {name: text for name, module in modules.items() if isinstance(text := vars(module).get("TEXT"), Text)}
