"""Reads a text in all formats at once, such as a report with the outputs of several tools."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from hwdyno.formats.by_shape import read_by_shape
from hwdyno.formats.catalogue import list_folder_formats, list_formats
from hwdyno.formats.format import read_as
from hwdyno.formats.printed import NoResultError
from hwdyno.formats.result_folder import ResultFolder
from hwdyno.formats.statements import add_statements
from hwdyno.formats.unread import note_unread
from hwdyno.model.axes import declare_axes
from hwdyno.model.words import Run, UserError
from hwdyno.system import foreign

_QUOTED = re.compile(r"^(?:>|&gt;)+ ?", re.M)


# "12:06:53 DEBUG| [stdout] " of a test's log, "2024-01-02T03:04:05.678Z stdout F " of a container's,
# "Jan 02 03:04:05 host program[12]: " of a system's, "2024/01/02 03:04:05 " of a Go program's, "INFO:root:" of a Python
# program's, "[01/02/2024-03:04:05] [I] " of a log with its level in brackets.
_LOGGED = re.compile(
    r"^(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z? ?"
    r"(?:(?:DEBUG|INFO|WARNING|WARN|ERROR) ?[|:]|std(?:out|err) F)(?: \[std(?:out|err)\])? ?|"
    r"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,60} [\w./@-]{1,60}(?:\[\d{1,9}\])?: |"
    r"^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? (?=[A-Za-z=\[])|"
    r"^(?:INFO|WARNING) \d\d-\d\d \d\d:\d\d:\d\d [^\]\n]{1,60}\] |"
    r"^(?:INFO|DEBUG|WARNING):[\w.]{1,40}:|"
    r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?:?[ \t]+(?=[A-Za-z])|"
    r"^\[[\d/.-]{8,10}[-T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\] ?(?:\[[A-Z]{1,8}\] ?)?",
    re.M,
)


# Readers allow blanks between parts, line ends included; of a million of them each split would be tried.
_BLANKS = re.compile(r"[^\S\n]{257,}")
# 257 blanks have four among every 64th character: a text without those is not searched whole.
_SAMPLED_BLANKS, _STEP = re.compile(r"[^\S\n]{4}"), 64
_BLANK_LINES = re.compile(r"\n[^\S\n]*\n[^\S\n]*\n\s*\n")


_FENCE = re.compile(r"^[ \t]{0,16}(?:```|~~~)[^\n]*$", re.M)
_BOLD = re.compile(r"\*\*(\d[\d.,]{0,30}(?: ?[A-Za-zµ/]{1,12})?)\*\*")
_RULE = re.compile(r"^[ \t]{0,64}([├┝┠┡┢╞╟╠][─━═╌╍\u253c-\u254b\u256a-\u256c]{3,500}[┤┥┨┩┪╡╢╣])[ \t]*$", re.M)
"""The rule below the head of a framed table; a tree's branches have words behind them."""
_FRAME = re.compile(r"^[ \t]{0,64}[┌┏╒╔└┗╘╚][─━═┬┳╤╦┴┻╧╩]{3,500}[┐┓╕╗┘┛╛╝][ \t]*\n?", re.M)
_SIDES = str.maketrans("│┃║", "|||")
_TAB_OR_CODE = re.compile(r"^(?:\t| {4})(?=.*\S)", re.M)
_PARAGRAPH = re.compile(r"(?:^[^\S\n]*\S[^\n]*\n?)+", re.M)
_COMMENT = re.compile(r"^[ \t]{0,16}#[ \t]?", re.M)


def collapse_blanks(text: str) -> str:
    """A text with at most 256 blanks in a row within a line, and two blank lines in a row."""
    text = _BLANK_LINES.sub("\n\n\n", text)
    return _BLANKS.sub(" " * 256, text) if _SAMPLED_BLANKS.search(text[::_STEP]) else text


def is_known(text: str) -> bool:
    """Whether any format recognizes a text."""
    text = collapse_blanks(text)
    return any(form.recognizes(text) for form in list_formats().values())


def strip_quotes(text: str) -> str:
    """A text without the marks that mail, Markdown, a log or a comment puts around its lines and figures."""
    text = _QUOTED.sub("", text) if text.startswith(">") or "\n>" in text else text
    text = _PARAGRAPH.sub(_dedent, text) if "\n\t" in text or "\n    " in text else text
    text = _BOLD.sub(r"\1", _FENCE.sub("", _LOGGED.sub("", text)))
    if _RULE.search(text):
        text = _FRAME.sub("", _RULE.sub(_as_pipes, text)).translate(_SIDES)
    is_comment = all(line.lstrip().startswith("#") for line in text.splitlines() if line.strip())
    return _COMMENT.sub("", text) if is_comment else text


def _dedent(paragraph: re.Match[str]) -> str:
    """The paragraph without what marks it as code in Markdown: a tab or four blanks before each of its lines."""
    lines = paragraph[0].count("\n") + (not paragraph[0].endswith("\n"))
    bare, found = _TAB_OR_CODE.subn("", paragraph[0])
    return bare if found == lines else paragraph[0]


def _as_pipes(rule: re.Match[str]) -> str:
    """The rule below a framed table's head, as Markdown writes it."""
    cells = len(re.findall(r"[─━═]+", rule[1]))
    return "|" + "---|" * cells


def read_every(text: str, name: str, maps: Mapping[str, str] | None = None) -> tuple[list[Run], list[str]]:
    """The Runs of every format that a text has, such as a report with several tools' outputs; and how tables were read.

    ``maps`` say what a table's columns are. Raises ``UserError`` in one line where no format is known.
    """
    text, forms = collapse_blanks(strip_quotes(text)), list_formats()
    table = forms.pop("published")
    runs, readings, refused = list[Run](), list[str](), list[UserError]()
    for form in forms.values():
        if form.recognizes(text):
            try:
                runs.append(read_as(form, text, name))
            except UserError as error:
                refused.append(error)  # A report may name a tool without having its output.
    # A tool's columns are no published table; a report with both marks its tables.
    published = cast(Any, table)
    if maps or published.recognizes(text, marked=bool(runs)):
        try:
            found = published.read_mapped(text, name, maps or {}, marked=bool(runs))
        except UserError as error:
            if maps or not (refused or isinstance(error, NoResultError)):
                raise
            refused.append(error)
        else:
            runs.append(foreign.check_document(declare_axes(found.run), name, foreign.MAX_COUNT))
            readings += found.readings
    if not runs and not maps and (shaped := read_by_shape(text, name)) is not None:
        runs.append(foreign.check_document(declare_axes(shaped[0]), name, foreign.MAX_COUNT))
        readings.append(shaped[1])
    if runs:
        return note_unread(text, add_statements(runs, text)), readings
    if refused:
        raise refused[0]
    raise UserError(f"{name} has no known tool's output and no table with results; name a column: --map 'bw=MB/s'")


def is_result_folder(path: Path) -> bool:
    """Whether a folder has results of a known tool, by the names of its files."""
    if not path.is_dir():
        return False
    folder = ResultFolder.walk(path)
    return any(form.recognizes_folder(folder) for form in list_folder_formats().values())


def read_folder(path: Path) -> Run:
    """The Run of a folder's results. Raises ``UserError`` in one line where no format is known."""
    folder = ResultFolder.walk(path)
    for form in list_folder_formats().values():
        if form.recognizes_folder(folder):
            return foreign.check_document(declare_axes(form.read_folder(folder)), str(path), foreign.MAX_COUNT)
    raise UserError(
        f"{path} is a folder without results of mlpstorage or COSBench; name files, or a folder that has some"
    )
