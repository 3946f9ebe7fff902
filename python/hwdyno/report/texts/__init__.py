"""The text formats of a report, one file each, found by walking this folder: a file's name is the option for it."""

from __future__ import annotations

from hwdyno.report.texts.catalogue import all_texts
from hwdyno.report.texts.text_format import Text

__all__ = [
    "Text",
    "all_texts",
]
