"""Foreign formats, one file each: somebody's result becomes a Run, and gets the same curves, findings and charts."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Protocol, cast

from hwdyno.axes import declared
from hwdyno.words import Run, UserError

LARGEST_BYTES = 512 << 20
"""A result file above this is a slip; it is refused rather than read into memory."""

FORMATS = ("fio", "dlio", "mlc", "stream", "linpack", "iperf3")
"""Each is the file ``formats/<name>.py`` that fills ``Format``."""


class Format(Protocol):
    """What every file in this folder offers."""

    NAME: str
    """What ``Run.imported_from`` says, such as ``fio-json``."""

    def recognizes(self, text: str) -> bool:
        """Whether this looks like such a file; cheap, and never raises."""
        ...

    def read(self, text: str, name: str) -> Run:
        """Make a Run of it; ``name`` stands in messages. Raises ``UserError`` in one line."""
        ...


def known() -> dict[str, Format]:
    """Every format by the name of its file."""
    return {name: cast(Format, _module(name)) for name in FORMATS}


def _module(name: str) -> Any:
    return importlib.import_module(f"hwdyno.formats.{name}")


def read(path: Path) -> Run:
    """Make a Run of somebody's result file. Raises ``UserError`` in one line for what is none that is known."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise UserError(f"{path} is larger than any result that can be read ({LARGEST_BYTES >> 20} MiB)")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    for form in known().values():
        if form.recognizes(text):
            return declared(form.read(text, str(path)))
    names = ", ".join(form.NAME for form in known().values())
    raise UserError(f"{path} is in no format that is known ({names})")
