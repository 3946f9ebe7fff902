"""What a foreign result format is, and how a text in one is read into a Run."""

from __future__ import annotations

from typing import Protocol

from hwdyno.formats.result_folder import ResultFolder
from hwdyno.model.axes import declare_axes
from hwdyno.model.words import Run, UserError
from hwdyno.system import foreign

LARGEST_BYTES = 512 << 20
"""A larger result file is refused rather than read into memory."""


class Format(Protocol):
    """The interface of every file in this folder."""

    NAME: str
    """The value of ``Run.imported_from``, such as ``fio-json``."""

    def recognizes(self, text: str) -> bool:
        """Whether the text looks like this format; cheap, and never raises."""
        ...

    def read(self, text: str, name: str) -> Run:
        """Convert the text to a Run; ``name`` is the file's name in messages. Raises ``UserError`` in one line."""
        ...


class FolderFormat(Protocol):
    """The interface of a part of this folder that reads results which are many files."""

    NAME: str
    """The value of ``Run.imported_from``, such as ``mlpstorage-folder``."""

    def recognizes_folder(self, folder: ResultFolder) -> bool:
        """Whether the folder has such results, by the names of its files; never raises."""
        ...

    def read_folder(self, folder: ResultFolder) -> Run:
        """Convert the folder to a Run, whose notes say what was not read. Raises ``UserError`` in one line."""
        ...


def read_as(form: Format, text: str, name: str) -> Run:
    """Read text in a format into a Run whose every figure can be kept. Raises ``UserError`` in one line."""
    try:
        return foreign.check_document(declare_axes(form.read(text, name)), name, foreign.MAX_COUNT)
    except UserError as error:
        raise UserError(str(error) if name in str(error) else f"{name}: {error}") from None
