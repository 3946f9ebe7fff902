"""Reads a text that no reader knows by its shape: each line's figures, with the words before them as their labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from hwdyno.formats import printed
from hwdyno.formats.column import FIGURES, parse_head, parse_pattern
from hwdyno.formats.line_shapes import (
    block_size,
    find_named_numbers,
    heads_above,
    is_ceiling,
    is_not_measured,
    is_of_settings,
    label_end,
    labels_behind,
    read_listed,
    take_estimates,
    ways_behind,
    with_bits,
    with_decimal_points,
)
from hwdyno.formats.request_times import RequestTimes, find_behind, find_statistic
from hwdyno.formats.row import make_point
from hwdyno.formats.stated_load import find_load, find_options
from hwdyno.formats.statistics_line import find_statistics
from hwdyno.formats.table_resource import UNKNOWN, find_by_words
from hwdyno.model.quantities import PrintedNumber, Quantity, find_quantities, number_in
from hwdyno.model.unit_readings import counted_in
from hwdyno.model.words import Measurement, Parameters, Run, UserError

NAME = "text"
LONGEST_LINE = 500
LONGEST_LABEL = 60
MAX_LINES = 2 * printed.MAX_POINTS
"""Lines of figures, and ends of blocks between them."""
RATES = {"bytes/s": "bw", "operations/s": "iops", "FLOP/s": "flops"}
"""What a figure is by the kind of its unit; a time or a size alone may be anything, so their words must say it."""
_COMMAND = re.compile(
    r"^\s*(?:[$#>]\s+|\w+@\w\S*[$#]\s+)?((?:sudo\s+)?[a-z][\w./-]{1,30}(?:\s+(?:-{1,2}[\w-]+|[a-z_]+)(?:=\S+)?)+.*)$"
)
_IS_TYPED = re.compile(r"^\s*[$#>]|@|\s-{1,2}[a-zA-Z]|\w=\w")
"""A prompt or an option; words with a quantity and neither are no command."""
_SECTION = re.compile(
    r"\s*(?:#{1,6}\s+(?P<marked>.{1,80}?)|(?:={2,9} )?(?P<ruled>[^=:]{1,60}) ={2,80}|"
    r"(?P<above>[^\s:=][^:=]{0,58}?)\s*:)\s*"
)
_NAME_ALONE = re.compile(r"[A-Za-z][\w/.:<>,-]{2,79}\s*")
"""A word at the beginning of a line, which the lines with indentation below it are of."""
_ONE = re.compile(
    r"\s*(?P<head>[^\s:=][^:=]{0,60}?)\s*[:=]\s*(?P<figure>\d[\d.,']{0,30})\s*(?:\[[#\w/]{1,20}\])?"
    r"\s*(?:\(mean\))?\s*"
)
"""``read, MiB/s:  6.92``: the unit is in the words, or in those above."""
_UNIT_HEADING = re.compile(r"\s*(?P<head>[A-Za-z][^:=|]{0,58}\((?P<unit>[A-Za-z/]{2,10})\))\s*")
"""``Word scan (GBPS)`` above lines without units."""
_PER_SECOND = re.compile(
    r"\s*(?P<head>[A-Za-z_][\w /-]{0,60})[ .]{0,80}[:=]\s{0,40}(?:\d[\d,]{0,20}\s{1,20})?(?P<figure>\d[\d.,]{0,30})/s\b"
    r"(?![^\n]*\d)"
)
"""``requests...: 1000  98.5/s``: the words say of what."""
_NAMED = re.compile(r"(?i)\b(?:iops|tps|qps)\s{0,2}[=:]\s{0,2}(\d[\d.,]{0,30}[kM]?)(?![\w./]|,\d|\s{0,3}[–-]\s{0,3}\d)")
"""``IOPS=729856, …`` and ``tps = 108.8 (…)``: the name of the figure is its unit."""
_MEAN = re.compile(r"(?i)\(\s*(?:avg|average|mean)\s*[:=]?\s*")
_CLAUSE = re.compile(r"(?<!seq)(?<!rand)[.;!?]\s+", re.I)
"""Parts sentences: a sentence states parameters of the figures in it."""
_READ_AND_WRITE = re.compile(r"(?i)\bread ?/ ?write\b")
_JOINING = re.compile(r"^\W*(?:and|or|to|vs\.?|versus|respectively)\b", re.I)
_WRONG_UNIT = 1100.0
"""Greatest factor between bytes over time and a stated rate that units in a tool's output may be wrong by."""
_OF_SERVICES = re.compile(r"(?i)\b(?:quer(?:y|ies)|requests?|transactions?|records?|rows?|[qrt]ps)\b")
"""What servers are asked, whose rate is none of a CPU alone."""
_SAME = 1.01
"""Greatest ratio of two figures that are one in two units."""
_OF_TOKENS = {"ttft", "tpot", "itl", "e2el"}
"""Times of a serving test that its tools print by these letters alone."""
_IN_BRACKETS = re.compile(r"\((\d[\d.,]{0,20}[kM]?)\)")
_BARS = re.compile(r"[\s|:=*#_.,(\-–—>]+$|^[\s|:=*#_.,)\-–—>]+")
_SENTENCE = re.compile(r"(?<=[A-Za-z0-9)][.?!]) (?=[A-Z])")
_PROSE = 120
"""Characters from which on a line is parted into its sentences."""
_COPY_PROGRESS = re.compile(
    r"(?<!records out\n)(?:^\d{1,20} bytes\b[^\n]{0,120}\bcopied,[^\n]{0,60}\n)+(?=\d{1,15}\+\d{1,9} records in)", re.M
)
"""Lines of dd before its last one, with ``status=progress``."""
_TOOLS = (
    ("dd", "storage", re.compile(r"^\d+ bytes\b.*\bcopied,", re.M)),
    ("hdparm", "storage", re.compile(r"^\s*Timing (?:O_DIRECT |buffered |cached )*(?:disk )?reads:", re.M)),
    ("sysbench", "", re.compile(r"^\s*(?:sysbench \d|\$?\s*sysbench\b|\d[\d.]* Mi?B transferred \()", re.M)),
    ("cryptsetup", "compute", re.compile(r"^#? *Algorithm \| +Key \| +Encryption \|", re.M)),
    ("google-benchmark", "", re.compile(r"^Benchmark\s+Time\s+CPU\s+Iterations", re.M)),
)
"""Tools without a reader, by what they print: their names and what they measure come from it, and no figure."""


@dataclass(frozen=True, slots=True)
class _Line:
    label: str
    numbers: Mapping[str, PrintedNumber]
    given: Parameters = field(default_factory=dict)
    figure: str = ""
    """The words that name the figure."""


def read_by_shape(text: str, name: str) -> tuple[Run, str] | None:
    """The Run of a text's labelled figures, and how it was read; none where it has no figure with a unit."""
    text = with_decimal_points(text)
    found = _LineReader(is_of_network=find_by_words(text) == "network")
    for line in _COPY_PROGRESS.sub("", text).splitlines():
        cut = line[:LONGEST_LINE]
        for sentence in _SENTENCE.split(line[: 4 * LONGEST_LINE]) if len(line) > _PROSE and "|" not in cut else [cut]:
            found.take(sentence[:LONGEST_LINE])
        if len(found.lines) > MAX_LINES:
            raise UserError(f"{name} has more than {printed.MAX_POINTS} results; split the file")
    found.end_times()
    points = [point for block in _blocks(found.lines) if (point := _point(block)) is not None]
    if not points:
        return None
    tool, of_tool = next(((tool, of) for tool, of, pattern in _TOOLS if pattern.search(text)), ("a text", ""))
    labels = " ".join(f"{line.given.get('section', '')} {line.label}" for line in found.lines if line is not None)
    is_copied = any(str(point.parameters.get("operation")).startswith(("device-to", "host-to")) for point in points)
    has_bytes = any(point.throughput.unit == "bytes/s" for point in points)
    units = [number.unit for line in found.lines if line is not None for number in line.numbers.values()]
    counted = {counted_in(unit.name) for unit in units if unit is not None}
    is_of_cpu = not has_bytes and not _OF_SERVICES.search(f"{labels} {' '.join(counted)}")
    found_of = (of for of in map(find_by_words, (labels, text)) if of != UNKNOWN and (of != "compute" or is_of_cpu))
    resource = of_tool or ("gpu" if is_copied else next(found_of, UNKNOWN))
    if resource in {"gpu", UNKNOWN} and "token" in counted:
        resource = "inference"
    made = printed.experiment(f"{resource}.text", f"Figures of {tool}", "table", "row", points)
    says = f"read by shape, {resource}: the words before a figure are its label"
    return printed.run(NAME, tool, text, name, [made]), says


class _LineReader:
    """Takes a text line by line, with what the lines above state."""

    def __init__(self, *, is_of_network: bool) -> None:
        self.is_of_network = is_of_network
        self.lines: list[_Line | None] = []
        """The figures of each line; none for a line that ends a block."""
        self.chapter = ""
        """The heading above that is marked as one."""
        self.section = ""
        """The heading above that ends in a colon, with one right above that."""
        self.above = ""
        """The last line that ends in a colon."""
        self.is_heading = False
        """Whether the last line was a heading."""
        self.unit = ""
        """The unit at the end of the heading above."""
        self.command: dict[str, str] = {}
        self.heads: list[str] = []
        self.words_above = ""
        """The last line without figures, which may be the heads of columns."""
        self.times = RequestTimes()

    def take(self, line: str) -> None:
        """Take one line."""
        if self.times.take(line):
            self.is_heading = False
            return
        self.end_times(is_end=not line.strip())
        self._take_other(line)

    def end_times(self, *, is_end: bool = True) -> None:
        """Add the distributions of times that end above this line."""
        for times in self.times.finish(is_end=is_end):
            self._end_block()
            subject = "" if self.section.endswith(times.subject) else times.subject
            self.lines += [self._line(subject, times.numbers), None]

    def _take_other(self, line: str) -> None:
        line = take_estimates(line)  # A hostile text has a million lines: most need neither.
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if "|" in line else []
        quantities = self._find_quantities(line)
        rates = [found for found in quantities if found.kind in RATES] if quantities else []
        if not rates and (match := _COMMAND.match(line)) and (not quantities or _IS_TYPED.search(line)):
            self.section, self.command = "", find_options(match[1])
            self._end_block()
        elif not rates and is_of_settings(line):
            self.command = find_options(line)
        elif (listed := read_listed(line)) is not None:
            if listed.subject != self.section:
                self.section = listed.subject
                self._end_block()
            self._take_one(listed.head, listed.figure)
        elif not quantities and (match := _UNIT_HEADING.fullmatch(line)) and parse_head(f"({match['unit']})").unit:
            self.section = self.above = _clean(match["head"])
            self.unit, self.is_heading = match["unit"], False
            self._end_block()
            return
        elif (match := _SECTION.fullmatch(line)) and not (match["marked"] and len(cells) > 2):
            self.unit = ""
            if marked := match["marked"] or match["ruled"]:
                self.chapter, self.section, self.above = _clean(marked), "", ""
            else:
                heading = _clean(match["above"])
                self.section = f"{self.above}, {heading}" if self.is_heading and self.above else heading
                self.above = heading
            self.is_heading = True
            self._end_block()
            return
        elif len(cells) > 1 and len(rates) > 1:
            self._take_cells(cells)
        elif not rates and (numbers := find_statistics(line, quantities)):
            self.lines += [self._line(_label_of_statistics(line[: quantities[0].start]), numbers), None]
        elif not rates and (match := _PER_SECOND.match(line)) and (number := number_in(match["figure"])) is not None:
            self.lines.append(self._line(_clean(match["head"]), {"iops": replace(number, unit=None)}))
        elif not rates and (match := _NAMED.search(line)) and (number := number_in(match[1])) is not None:
            label = _clean(line[: match.end() - len(match[1])])
            self.lines.append(self._line(label, {"iops": replace(number, unit=None)}))
        elif len(cells) > 1 and {found.kind for found in quantities} == {"bytes"}:
            self.heads = cells
        elif quantities:
            self._take_quantities(line, quantities)
        elif match := _ONE.fullmatch(line):
            self._take_one(match["head"], match["figure"])
        elif named_numbers := find_named_numbers(line):
            self._take_named(named_numbers)
        elif len(cells) > 1:
            self.heads = cells if any(any(map(str.isalpha, cell)) for cell in cells) else self.heads
        elif not line.strip():
            self._end_block()
            return
        elif _NAME_ALONE.fullmatch(line):
            self.section, self.above = line.strip(), ""
            self._end_block()
        if not quantities:
            self.words_above = line
        self.is_heading = False

    def _find_quantities(self, line: str) -> list[Quantity]:
        quantities = [found for found in find_quantities(line) if found.kind]
        return with_bits(line, quantities) if self.is_of_network else quantities

    def _end_block(self) -> None:
        if self.lines and self.lines[-1] is not None:
            self.lines.append(None)

    def _take_cells(self, cells: list[str]) -> None:
        """A row of a table that is none by its lines: the first cell and the head above name each figure."""
        heads = self.heads if len(self.heads) == len(cells) else [""] * len(cells)
        for head, cell in zip(heads[1:], cells[1:], strict=True):
            if quantities := [found for found in find_quantities(cell) if found.kind in RATES]:
                self._end_block()
                named = re.sub(r"\s*\(IOPS\)", "", head)
                numbers = _numbers(named, quantities)
                if named != head and (rate := _IN_BRACKETS.search(cell)) and (number := number_in(rate[1])):
                    numbers.setdefault("iops", replace(number, unit=None))
                self.lines.append(self._line(f"{cells[0]} {named}", numbers))

    def _take_quantities(self, line: str, quantities: list[Quantity]) -> None:
        results = _results(line, quantities)
        end = label_end(line)
        first = _clean(line[: end or quantities[0].start]) or _outside(line, quantities)
        if len(results) < 2:
            rates = results[0] if results else []
            quantities = sorted({*rates, *(found for found in quantities if found.kind not in RATES)}, key=_start)
            named = _NAMED.search(line, 0, quantities[0].start)
            rate = number_in(named[1]) if named and rates and "operations/s" not in {of.kind for of in rates} else None
            if named and rate is not None:
                first = _clean(line[: named.start()])
            behind = line[quantities[-1].end :]
            self._take_result(first, quantities, rate=rate, times=find_behind(line) if rates else {}, behind=behind)
            return
        if not re.search(r"\w", first):
            return  # Columns without heads.
        heads = heads_above(self.words_above, [result[0] for result in results])
        if heads:
            for head, result in zip(heads, results, strict=True):
                # 128b in front of a cipher's rate is its key's length, and no block's.
                self._take_result(f"{_clean(line[: results[0][0].start])} {head}", result, is_alone=False)
            return
        if asides := labels_behind(line, [result[-1] for result in results]):
            for aside, result in zip(asides, results, strict=True):
                self._take_result(aside, result, is_alone=False)
            return
        if ways := ways_behind(line, [result[0] for result in results]):
            for way, result in zip(ways, results, strict=True):
                self._take_result(f"{first} {way}", result)
            return
        ends = [0, *(result[-1].end for result in results)]
        between = [line[end : result[0].start] for end, result in zip(ends, results, strict=False)]
        is_pair = len(results) == 2 and _READ_AND_WRITE.search(first) and between[1].strip() == "/"
        for at, (words, result) in enumerate(zip(between, results, strict=True)):
            label = _clean(_JOINING.sub("", words)) if at else first
            if at and is_ceiling(words) and self.lines and self.lines[-1] is not None:
                ceiling = {"ceiling": _in_base(result[0])}
                self.lines[-1] = replace(self.lines[-1], numbers={**self.lines[-1].numbers, **ceiling})
            elif is_pair:
                self._take_result(f"{first} {('read', 'write')[at]}", result)
            else:
                # Words between two figures may be of the one before.
                is_alone = not at or words.rstrip().endswith((":", "="))
                self._take_result(label or first, result, is_alone=is_alone, behind=line[result[-1].end :])

    def _take_result(
        self,
        label: str,
        quantities: list[Quantity],
        *,
        is_alone: bool = True,
        rate: PrintedNumber | None = None,
        times: Mapping[str, PrintedNumber] = MappingProxyType({}),
        behind: str = "",
    ) -> None:
        numbers = {**_numbers(label, quantities), **times}
        if rate is not None:
            numbers["iops"] = replace(rate, unit=None)
        if numbers and not is_not_measured(label, behind):
            line = self._line(label, numbers)
            if block := block_size(quantities):
                line = replace(line, given={"bs": block, **line.given})
            apart = {name: value for name, value in line.given.items() if name == "section"}
            self.lines.append(line if is_alone else replace(line, given=apart))

    def _take_named(self, named_numbers: list[tuple[str, str]]) -> None:
        for head, figure in named_numbers:
            self._take_one(head, figure)
            self._end_block()

    def _take_one(self, head: str, figure: str) -> None:
        """A number whose unit is in the words before it, or in those above."""
        for words in (head, f"{self.section} {head}", *([f"{head} ({self.unit})"] if self.unit else [])):
            meaning = parse_head(words)
            units = meaning.units[:1] if self.is_of_network else meaning.units
            name = meaning.quantity if meaning.quantity in RATES.values() else ""
            name = "lat" if meaning.quantity == "lat" and not meaning.remainder else name
            if len(units) == 1 and name and (number := number_in(figure)) is not None:
                name += f"_{meaning.statistic}" if meaning.statistic else ""
                number = PrintedNumber(number.value * units[0].factor, number.rounding, units[0])
                self.lines.append(self._line(head, {name: number}, "" if words == head else words))
                return

    def _line(self, label: str, numbers: Mapping[str, PrintedNumber], whole: str = "") -> _Line:
        section = ", ".join(filter(None, (self.chapter, "" if whole else self.section)))[:LONGEST_LABEL]
        given = {**({"section": section} if section else {}), **(parse_pattern(self.chapter) if self.chapter else {})}
        given |= find_load(self.command, _CLAUSE.split(label)[-1])
        return _Line(label[:LONGEST_LABEL], numbers, given, whole or label)


def _results(line: str, quantities: list[Quantity]) -> list[list[Quantity]]:
    """The rates of a line by result: each of another kind, a mean in brackets instead of what it is the mean of."""
    results: list[list[Quantity]] = []
    for rate in (found for found in quantities if found.kind in RATES):
        last = results[-1] if results else []
        same = next((found for found in last if found.kind == rate.kind), None)
        between = line[same.end : rate.start].strip() if same is not None else ""
        if same is None:
            last.append(rate)
            results = results or [last]
        elif _MEAN.fullmatch(between):
            last[last.index(same)] = rate
        elif between != "(" or not same.base / _SAME <= rate.base <= same.base * _SAME:
            results.append([rate])
    return results


def _numbers(label: str, quantities: list[Quantity]) -> dict[str, PrintedNumber]:
    """The figures of a line by name: one of each kind of rate, and times and sizes that words or a rate explain."""
    found: dict[str, PrintedNumber] = {}
    rates = [quantity for quantity in quantities if quantity.kind in RATES]
    for quantity in rates:
        found.setdefault(RATES[quantity.kind], _in_base(quantity))
    if not rates:
        (first, *others) = quantities
        unit = first.number.unit
        meaning = parse_head(f"{label} ({unit.name})") if unit is not None else None
        is_latency = meaning is not None and meaning.quantity == "lat" and not others
        if meaning is not None and is_latency and (not meaning.remainder or meaning.remainder in _OF_TOKENS):
            found["lat" + (f"_{meaning.statistic}" if meaning.statistic else "")] = _in_base(first)
        return found
    times = [quantity for quantity in quantities if quantity.kind == "s"]
    sizes = [quantity for quantity in quantities if quantity.kind == "bytes"]
    if len(times) == 1 and sizes and "bw" in found and times[0].base > 0 and found["bw"].value > 0:
        moved = sizes[0].base / times[0].base / found["bw"].value
        if 1 / _WRONG_UNIT < moved < _WRONG_UNIT:  # A size may also be of a block.
            found["time"], found["data"] = _in_base(times[0]), _in_base(sizes[0])
    return found


def _label_of_statistics(words: str) -> str:
    """What a line of statistics is of: the words before the first one's name."""
    label = _clean(words.rpartition(":")[0])
    return "" if find_statistic(label) else label


def _start(quantity: Quantity) -> int:
    return quantity.start


def _in_base(quantity: Quantity) -> PrintedNumber:
    return PrintedNumber(quantity.base, quantity.number.rounding, quantity.number.unit)


def _blocks(lines: list[_Line | None]) -> Iterator[list[_Line]]:
    """Lines that are figures of one result: next to each other, each of another kind, and named as nothing else."""
    block: list[_Line] = []
    for line in [*lines, None]:
        joins = line is not None and block and _is_bare(line) and all(map(_is_bare, block))
        if joins and line is not None and not {*line.numbers} & {name for other in block for name in other.numbers}:
            block.append(line)
            continue
        if block:
            yield block
        block = [line] if line is not None else []


def _is_bare(line: _Line) -> bool:
    """Whether a line's label says which figure it is, and nothing else."""
    return all(
        (meaning := parse_head(line.figure)).quantity in FIGURES and not meaning.remainder and not meaning.given
        for _ in line.numbers
    )


def _point(block: list[_Line]) -> Measurement | None:
    numbers = {name: number for line in block for name, number in line.numbers.items()}
    parameters = dict(block[0].given)
    if len(block) == 1 and block[0].label:
        parameters = {"row": block[0].label, **parameters}
    requested = parameters.pop("request_rate", None)
    return make_point(parameters, numbers, **({"requested_operations_s": requested} if requested else {}))


def _outside(line: str, quantities: list[Quantity]) -> str:
    """The words between and after the figures, where there are none before: ``20480 MB transferred (37471 MB/sec)``."""
    ends = [0, *(quantity.end for quantity in quantities)]
    starts = [*(quantity.start for quantity in quantities), len(line)]
    return " ".join(filter(None, (_clean(line[end:start]) for end, start in zip(ends, starts, strict=True))))


def _clean(words: str) -> str:
    words = " ".join(_BARS.sub("", words).split())
    return words.replace("(", "").replace(")", "") if words.count("(") != words.count(")") else words
