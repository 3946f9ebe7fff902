"""Finds the tables in a text: CSV, tab-separated, Markdown, HTML, or columns that spaces align."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise

from hwdyno.formats.grid_heads import (
    are_figures,
    columns_in_groups,
    has_groups,
    heads_again,
    heads_in_comment,
    is_label_list,
    is_number,
    records_in,
    rows_below_words,
    spread_heads,
    with_wide_heads,
)
from hwdyno.model.unit_readings import unit_readings
from hwdyno.model.words import UserError

MAX_CELLS = 200_000
MAX_COLUMNS = 256
LONGEST_CAPTION = 120
"""Characters of a line right above a table that count as its title."""
LONGEST_RULE = 2000
LONGEST_CELL = 500
"""Characters of a cell that are read; what is longer is prose."""
MAX_SPAN = 64
"""Most cells that one cell of HTML may span."""
_RULE = re.compile(r"\s*[|+]?\s*:?[-=]+:?\s*(?:[|+]\s*:?[-=]+:?\s*)+[|+]?\s*|\s*[|+]?\s*:?[-=]{2,}:?\s*[|+]?\s*")
_HEADING = re.compile(r"\s*(?:#{1,6}\s+|\*\*|=+\s+)(.{1,200}?)\s*(?:\*\*|#*|=+)?:?\s*|\s*(.{1,100}):\s*")
_CAPTION = re.compile(r"(?:\*\*|__|\*|_)?(?:table|tab\.|figure|fig\.)\s*[\dIVXLA-Z.-]{1,8}\s*[:.|–—-]?\s*(.*)", re.I)
"""Begins the line that a paper's caption is, also with an empty line below it."""
_UNIT_LINE = re.compile(r"\(.{1,12}\)|[kKMG]?i?B/s(?:ec)?|[nmu]s|%|IOPS|[GTP]FLOPS?(?:/s)?", re.I)
_CLOSING = re.compile(r"(?:^|[,;:(]\s*|\b(?:in|are|unit)\s+)(?P<unit>[A-Za-z][A-Za-z/ ]{0,30})[).]?$")
_TOTAL = re.compile(r"([A-Za-z.]{2,12}):\s{1,20}(\d[\d.]{0,20})")
"""``total:   1216 | 464``: a label without a pipe behind it."""
_HTML = re.compile(r"<(?:table|tr)\b", re.I)
_EMPHASIS = re.compile(r"(\*\*|__|`|\*(?=\S))|(?<=\S)\*")
_BREAK = re.compile(r"<br\s{0,4}/?>", re.I)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Grid:
    """One table: its title, its heads, and rows with as many cells as it has heads."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def transpose(self) -> Grid:
        """The same table with its first column as heads."""
        lines = [self.heads, *self.rows]
        turned = list(zip(*lines, strict=True))
        return Grid(self.title, tuple(turned[0]), tuple(turned[1:]))

    def pivot(self, at: int) -> Grid:
        """The same table with the cells of a column as heads: a row for each column after it and each start of a row.

        ``| 1 job | p50 | 3 | 4 |`` and ``| 1 job | p99 | 5 | 6 |`` become ``| 1 job | first | 3 | 5 |`` and the second.
        """
        names = tuple(dict.fromkeys(row[at] for row in self.rows))
        cells: dict[tuple[tuple[str, ...], str], dict[str, str]] = {}
        for row in self.rows:
            for head, cell in zip(self.heads[at + 1 :], row[at + 1 :], strict=True):
                cells.setdefault((row[:at], head), {}).setdefault(row[at], cell)
        rows = ((*start, head, *(found.get(name, "") for name in names)) for (start, head), found in cells.items())
        return Grid(self.title, (*self.heads[:at], self.heads[at], *names), tuple(rows))


def find_grids(text: str, *, marked: bool = False) -> list[Grid]:
    """Every table of a text with heads and at least one row; only those of HTML and Markdown if ``marked``.

    Raises ``UserError`` for one that is too large.
    """
    if _HTML.search(text):
        return [grid for title, rows in _html(text) for grid in _grid(title, rows)]
    if any("|" in line for line in text.splitlines()):
        found = [grid for title, rows in _read_pipes(text) for grid in _grid(title, rows)]
        if found:
            return found
    if marked:
        return []
    found = [grid for title, rows in _read_separated(text) for grid in _grid(title, rows)]
    found = [grid for grid in found if not is_label_list(grid.heads, grid.rows)]
    rows = [] if found else _single_spaced([line for line in text.splitlines() if line.strip()])
    if rows and len(rows[0]) > len(rows[1]):
        raise UserError(
            f"{len(rows[1])} columns have the {len(rows[0])} words '{' '.join(rows[0])[:60]}' as heads, and a word "
            "may belong to the column before or after; separate the cells by commas or tabs"
        )
    return found or list(_grid("", rows))


def _grid(title: str, rows: Sequence[Sequence[str]]) -> Iterator[Grid]:
    """The table with whole rows; a second line of heads (units, or what a wide head covers) joins the first."""
    lines = [[_plain(cell) for cell in row] for row in rows]
    lines = [line for line in lines if any(line)]
    if len(lines) < 2:
        return
    if again := next((at for at in range(2, len(lines) - 1) if heads_again(lines, at)), 0):
        yield from _grid(title, lines[:again])
        yield from _grid(title, lines[again:])
        return
    width = Counter(map(len, lines)).most_common(1)[0][0] if len(lines) > 2 else max(map(len, lines))
    width = max(width, len(lines[0]))
    if width < 2:
        return
    if width > MAX_COLUMNS or width * len(lines) > MAX_CELLS:
        raise UserError(f"a table has {len(lines)} rows of {width} columns; split the file")
    if len(lines[0]) == width - 1 and all(len(line) == width and line[-1] for line in lines[1:]):
        # Heads without one above the labels of the rows.
        lines[0] = [""] * (not any(is_number(line[0]) for line in lines[1:])) + lines[0]
    whole = [(line + [""] * width)[:width] for line in lines]
    heads, body = whole[0], whole[1:]
    heads = spread_heads(heads, body[0])
    twice = len(set(filter(None, heads))) < len(list(filter(None, heads))) or "" in heads[1:]
    units = any(_UNIT_LINE.fullmatch(cell) for cell in body[0])
    if len(body) > 1 and (twice or units) and not any(map(is_number, body[0])) and any(body[0]):
        heads = [
            f"{first} {second}".strip() if first != second else first
            for first, second in zip(heads, body[0], strict=True)
        ]
        body = body[1:]
    if body and any(heads) and not are_figures(heads, body):
        for section, some in _sections(body):
            yield Grid(" ".join(filter(None, (title, section))), tuple(heads), tuple(map(tuple, some)))


def _sections(rows: Sequence[Sequence[str]]) -> Iterator[tuple[str, list[Sequence[str]]]]:
    """The rows below each heading in the table: a row of one text, alone or in all its cells.

    A row whose figures are merely missing is no heading: headings do not follow each other, and have no number alone.
    """
    section, found = "", list[Sequence[str]]()
    for row, following in zip(rows, [*rows[1:], ()], strict=True):
        if _is_section(row) and following and not _is_section(following):
            if found:
                yield section, found
            section, found = row[0], []
        else:
            found.append(row)
    if found:
        yield section, found


def _is_section(row: Sequence[str]) -> bool:
    alone = len(row) > 2 and not any(row[1:])
    return bool(row[0]) and not is_number(row[0]) and (alone or (len(row) > 1 and len(set(row)) == 1))


def _plain(cell: str) -> str:
    bare = _EMPHASIS.sub("", _LINK.sub(r"\1", _BREAK.sub(" ", cell[:LONGEST_CELL])))
    return " ".join(bare.replace("\u00a0", " ").split())


def _is_rule(line: str) -> bool:
    """Whether a line is made of dashes that part heads from rows."""
    return len(line) <= LONGEST_RULE and _RULE.fullmatch(line) is not None


# --- Markdown


def _read_pipes(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Blocks of lines with pipes; a line of dashes below the heads makes them a table."""
    title, above, block, ruled = "", "", list[list[str]](), False
    for line in [*text.splitlines(), ""]:
        if "|" in line and not _is_rule(line):
            block.append(_cells(line))
        elif _is_rule(line) and (block or line.lstrip()[:1] == "+"):
            ruled = True
        elif line.strip() or block:
            if block and (ruled or _is_table(block)) and not has_groups(block):
                yield above or title, block
            elif columns := columns_in_groups(block) or records_in(block):
                yield above or title, columns
            block, ruled, above = [], False, ""
            if match := _HEADING.fullmatch(line[:LONGEST_RULE]):
                title = match[1] or match[2]
            elif unit := _closing_unit(line.strip()):
                title = f"{title.partition(' in ')[0] or 'table'} in {unit}"
            elif 0 < len(line) <= LONGEST_CAPTION:
                above = line.strip()
                if match := _CAPTION.fullmatch(above):
                    title = _plain(match[1])
        else:
            above = ""


def _is_table(block: Sequence[Sequence[str]]) -> bool:
    """Whether lines with pipes are a table without a rule: as many cells in each, words above, and figures below."""
    heads, rows = block[0], block[1:]
    return (
        len({len(row) for row in block}) == 1
        and bool(rows)
        and len(heads) > 1
        and all(heads)
        and not any(map(is_number, heads))
        and all(not is_number(row[0]) and any(map(is_number, row[1:])) for row in rows)
    )


def _closing_unit(line: str) -> str:
    """The unit that a line above a table consists of or ends with (``12 disks, 32 GB RAM, KBps``); else empty."""
    if len(line) > LONGEST_CAPTION:
        return ""
    if _UNIT_LINE.fullmatch(line):
        return line
    end = _CLOSING.search(line)
    readings, place = unit_readings(end["unit"]) if end else ((), (0, 0))
    is_whole = end is not None and place == (0, len(end["unit"]))
    return end["unit"] if end is not None and is_whole and readings[0].kind.endswith("/s") else ""


def _cells(line: str) -> list[str]:
    parts = re.split(r"(?<!\\)\|", line.strip())
    if parts and not parts[0].strip() and line.lstrip().startswith("|"):
        parts = parts[1:]
    if parts and not parts[-1].strip() and line.rstrip().endswith("|"):
        parts = parts[:-1]
    cells = [part.replace("\\|", "|").strip() for part in parts]
    total = _TOTAL.fullmatch(cells[0]) if len(cells) > 2 else None
    return [*total.groups(), *cells[1:]] if total else cells


# --- CSV, tabs and aligned columns


_SHELL_TIME = re.compile(r"(?:real|user|sys)\s{1,8}\d{1,4}m[\d.,]{1,9}s$")
"""What a shell's ``time`` prints of a command, which is no table."""


def _read_separated(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Blocks of lines that one separator cuts into like numbers of cells."""
    title, block, was_comment = "", list[str](), False
    lines = ["" if _SHELL_TIME.match(line) else line for line in [*text.splitlines(), "", ""]]
    for line, following in pairwise(lines):
        comment = line.lstrip().startswith("#")
        if comment and (heads := heads_in_comment(line, following)):
            if len(block) > 1:
                yield from _block(title, block)
            block = [heads]
            continue
        if line.strip() and not comment:
            block.append(line)
            continue
        if comment:
            bare = line.lstrip("# \t")
            title = title if was_comment or len(block) > 1 or _is_rule(bare) else bare
            was_comment = True
            continue
        was_comment = False
        if len(block) == 1:
            title = block[0].strip().rstrip(":")
        elif block:
            yield from _block(title, block)
        block = []


_BETWEEN_CELLS = re.compile(r",(?!\d{3}(?!\d))|(?<!\d),")
"""A comma that cannot be between the thousands of a number."""


_BETWEEN_WORDS = re.compile(r"\s+(?![(\[])")
_BETWEEN_MARKS = re.compile(r"\s+[:/]\s+")
_BETWEEN_COLUMNS = re.compile(r"\s{2,}|\t")
_SEPARATOR = re.compile(r"[,;]|\S[^\S\n]+\S")


def _block(title: str, lines: list[str]) -> Iterator[tuple[str, list[list[str]]]]:
    if not any(map(_SEPARATOR.search, lines)):
        return
    for mark in ("\t", ",", ";"):
        if mark == "," and not _BETWEEN_CELLS.search("\n".join(lines)):
            continue
        rows = _split(lines, mark)
        widths = [len(row) for row in rows]
        most = max(widths)
        alike = sum(width == most for width in widths)
        # Copied from a browser, a row ends at its last cell that is not empty.
        headed = mark == "\t" and widths[0] == most and min(widths) > 1
        if most > 1 and (headed or alike >= max(2, 0.6 * len(rows))):
            first = next(at for at, width in enumerate(widths) if width == most)
            yield " ".join([title, *lines[:first]]) if first else title, rows[first:]
            return
    if spread := with_wide_heads([_BETWEEN_COLUMNS.split(line.strip()) for line in lines if not _is_rule(line)]):
        yield title, spread
        return
    for between, least in ((_BETWEEN_MARKS, 3), (_BETWEEN_COLUMNS, 2)):
        rows = [between.split(line.strip()) for line in lines if not _is_rule(line)]
        above = next((at for at, row in enumerate(rows) if len(row) > 1), 0)
        if len(rows) - above < 3 or any(map(is_number, rows[above])):
            above = 0  # A sentence is above heads and several rows.
        if len(rows) - above > 1 and len({len(row) for row in rows[above:]}) == 1 and len(rows[above]) >= least:
            yield " ".join([title, *(row[0] for row in rows[:above])]).strip(), rows[above:]
            return
    rows = _single_spaced(lines)
    if not rows or len(rows[0]) != len(rows[1]):
        rows = rows_below_words([_BETWEEN_COLUMNS.split(line.strip()) for line in lines if not _is_rule(line)])
    if rows:
        yield title, rows


def _single_spaced(lines: list[str]) -> list[list[str]]:
    """Words above rows of figures that single spaces part: more words than columns may be; empty for other lines.

    A unit in brackets belongs to the head before it.
    """
    if not any(map(_SEPARATOR.search, lines)):
        return []
    cells = [_BETWEEN_WORDS.split(line.strip()) for line in lines if not _is_rule(line)]
    heads, rows = cells[0] if cells else [], cells[1:]
    if len(rows) > 1 and 1 < len(rows[-1]) < len(rows[0]) == len(heads):
        rows[-1] += [""] * (len(heads) - len(rows[-1]))  # A text that ends early.
    widths = {len(row) for row in rows}
    if any(cell.endswith(",") for row in cells[:2] for cell in row):
        return []  # Commas part the cells.
    if len(rows) < 2 or len(widths) > 1 or len(rows[0]) < 2 or len(heads) < 2 or any(map(is_number, heads)):
        return []
    if (
        not all(is_number(cell) for row in rows for cell in row[1:] if cell)
        or len({is_number(row[0]) for row in rows}) > 1
    ):
        return []
    fits = len(heads) == len(rows[0]) or (len(heads) > len(rows[0]) and is_number(rows[0][0]))
    return [heads, *rows] if fits else []


def _split(lines: list[str], mark: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(io.StringIO("\n".join(lines)), delimiter=mark) if row]
    except csv.Error:
        return [[""]]


# --- HTML


_Cell = tuple[str, int, int]
_CELLS, _ROWS = ("td", "th"), ("tr", "td", "th")
_HEADINGS = ("caption", "h1", "h2", "h3", "h4", "h5", "title")


class _Tables(HTMLParser):
    """Collects each table's rows of cells, with how many columns and rows a cell spans."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[tuple[str, list[list[_Cell]]]] = []
        self.title = ""
        self.texts: list[str] | None = None
        self.heading = False
        self.span = (1, 1)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a table, a row, a cell or a heading."""
        if tag == "table" or (tag in _ROWS and not self.tables):
            self._end_cell()
            self.tables.append((self.title, []))
        if tag == "tr" or (tag in _CELLS and not self.tables[-1][1]):
            self._end_cell()
            self.tables[-1][1].append([])
        if tag in _CELLS:
            self._end_cell()
            given = dict(attrs)
            self.span = (_span(given.get("colspan")), _span(given.get("rowspan")))
            self.texts = []
        elif tag in _HEADINGS:
            self.heading, self.title = True, ""
        elif tag == "br" and self.texts is not None:
            self.texts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        """End a cell or a heading."""
        if tag in {*_CELLS, "tr", "table"}:
            self._end_cell()
        elif tag in _HEADINGS:
            self.heading = False
            if tag == "caption" and self.tables:
                self.tables[-1] = (self.title, self.tables[-1][1])

    def handle_data(self, data: str) -> None:
        """Take a text."""
        if self.heading:
            self.title = f"{self.title}{' '.join(data.split())}"[:200]
        elif self.texts is not None:
            self.texts.append(data)

    def _end_cell(self) -> None:
        if self.texts is not None:
            self.tables[-1][1][-1].append(("".join(self.texts), *self.span))
        self.texts = None


def _laid_out(rows: list[list[_Cell]]) -> list[list[str]]:
    """The cells in their columns, wide and tall ones repeated where they reach."""
    below: dict[int, tuple[int, str]] = {}
    lines = []
    for row in rows:
        line: list[str] = []
        following: dict[int, tuple[int, str]] = {}
        cells = [(text, tall) for text, wide, tall in row for _ in range(wide)]
        while cells or any(at >= len(line) for at in below):
            at = len(line)
            tall, text = below.pop(at, (0, ""))
            if not tall:
                text, tall = cells.pop(0) if cells else ("", 1)
            if tall > 1:
                following[at] = (tall - 1, text)
            line.append(text)
            if len(line) > MAX_COLUMNS:
                raise UserError(f"a table has more than {MAX_COLUMNS} columns; split the file")
        below = following
        lines.append(line)
    return lines


def _span(text: str | None) -> int:
    return min(MAX_SPAN, max(1, int(text))) if text and text.isascii() and text.isdigit() and len(text) < 6 else 1


def _html(text: str) -> list[tuple[str, list[list[str]]]]:
    parser = _Tables()
    try:
        parser.feed(text)
        parser.close()
    except (AssertionError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"the HTML cannot be read ({error})") from None
    return [(title, _laid_out(rows)) for title, rows in parser.tables]
