"""Makes foreign text harmless where it is shown: on a terminal, in a cell of CSV, in Markdown.

A name from a machine, a file or an imported result may hold anything. A report shows such text; nothing may obey it.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

_STEERING = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, 7 and 8 bits; ESC and CSI start orders to a terminal
    "\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, or they reorder a line
    "\ud800-\udfff\U000e0000-\U000e0fff"  # undecodable bytes of a file's name, and invisible tags
)
_NOT_IN_TEXT = re.compile(f"[{_STEERING}]")
_NOT_IN_A_LINE = re.compile(f"[\t\n{_STEERING}]")


def escape_text(text: str) -> str:
    """Text of many lines with each steering character as the escape that JSON has for it, such as ``\\u001b``.

    A JSON document stays what it is.
    """
    return _NOT_IN_TEXT.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def printable(value: T) -> T:
    """The same value with every text in it, also inside of words, maps and lists, fit for one line."""
    result: Any = value
    if isinstance(value, str):
        result = _NOT_IN_A_LINE.sub(_escape, value)
    elif is_dataclass(value) and not isinstance(value, type):
        before = {field.name: getattr(value, field.name) for field in fields(value)}
        changed = {name: after for name, old in before.items() if (after := printable(old)) is not old}
        result = replace(value, **changed) if changed else value
    elif isinstance(value, dict):
        items = {printable(name): printable(inner) for name, inner in value.items()}
        same = all(
            name is key and items[key] is inner for name, (key, inner) in zip(items, value.items(), strict=False)
        )
        result = value if same and len(items) == len(value) else items
    elif isinstance(value, (tuple, list)):
        parts = [printable(inner) for inner in value]
        same = all(new is old for new, old in zip(parts, value, strict=True))
        result = value if same else tuple(parts) if isinstance(value, tuple) else parts
    return result  # type: ignore[no-any-return]


_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]")


def csv_cell(cell: T) -> T | str:
    """A cell that a spreadsheet shows as it is: a number stays one, text that would be a formula begins with ``'``."""
    if not isinstance(cell, str):
        return cell
    text = printable(cell)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


_MARKDOWN = re.compile(r"[\\`\[\]*|$#&<>]")


def markdown_text(text: str) -> str:
    """Text that cannot turn into markup, nor split a table's cell, where Markdown is shown."""
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", printable(text))


def markdown_code(text: str) -> str:
    """Text as a span of code; as plain text where it could end the span, or where a lax reader sees markup in it."""
    return markdown_text(text) if _MARKDOWN.search(text) else f"`{printable(text)}`"


WIDEST = 120
"""Characters of a cell in columns of plain text; what is longer is cut, so that one name cannot hide the others."""


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text laid out in columns, a line each."""
    cut = [[cell if len(cell) <= WIDEST else f"{cell[: WIDEST - 1]}…" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cut, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in cut)
    return "".join(f"{line}\n" for line in lines)


class Escaping:
    """A text stream through which no steering character passes; all else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text, escaped."""
        self.stream.write(escape_text(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write each line, escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextlib.contextmanager
def escaping() -> Iterator[None]:
    """Escape all that is written to stdout and stderr while inside."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (Escaping(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def console_on(stream: TextIO, width: int | None = None) -> Console:
    """A console whose colours and movements are hwdyno's own: text is neither markup nor an order to the terminal."""
    from rich import console as rich
    from rich.segment import Segment

    class Escaped(rich.Console):
        def on_broken_pipe(self) -> None:
            raise  # rich would end the program, with a status that says something else

        def render(
            self, renderable: rich.RenderableType, options: rich.ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                text = segment.text if segment.control else escape_text(segment.text)
                yield segment._replace(text=text)

    file = stream.stream if isinstance(stream, Escaping) else stream
    return Escaped(file=file, width=width, markup=False, emoji=False, highlight=False, soft_wrap=False)
