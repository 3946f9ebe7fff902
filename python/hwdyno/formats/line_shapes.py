"""Shapes of single lines: intervals and means as one figure, names listed before figures, and heads right above."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hwdyno.model.quantities import Quantity
from hwdyno.model.unit_readings import Unit

_VALUE = r"\d[\d.,]{0,20} [A-Za-zµμ/]{1,10}"
_INTERVAL = re.compile(rf"\[{_VALUE} ({_VALUE}) {_VALUE}\]")
"""``[375.6 MiB/s 376.0 MiB/s 376.4 MiB/s]``: an estimate within its interval."""
_MEAN = re.compile(
    r"(?<![\w.])\d[\d.,]{0,20} \(avg: {0,8}(\d[\d.,]{0,20})\) (?=[a-zA-Z]{1,12}/s|[mun]?s(?:ec)? latency)"
)
"""``3549 (avg:  3604) ops/sec``: the mean of what is counted, before its unit."""
_LISTED = re.compile(
    r"\[(?P<of>[\w %-]{1,40})\],\s{0,4}(?P<head>[\w .]{1,60}\([\w/]{1,10}\)),\s{0,4}"
    r"(?P<figure>\d[\d.]{0,30}(?:E-?\d{1,2})?)"
)
"""``[READ], AverageLatency(us), 1657.3``: what it is of, the figure's name with its unit, and the figure."""
_UNIT_IN_NAME = re.compile(r"\b([A-Za-z]\w{0,20})\(([kKMG]i?B/s)\)=(\d[\d.]{0,20})(?![\w.])")
"""``BW(KiB/s)=51159``."""
_OPTION = r"[a-z]\w{0,30}=[\w./-]{1,40}"
_SETTINGS = re.compile(rf"\s{{0,40}}{_OPTION}(?:[ \t]{{1,4}}{_OPTION}){{1,20}}\s{{0,40}}")
_SPREAD = re.compile(r"(?<=/s) {1,3}(?:±|\+/-) {0,2}\d[\d.]{0,8} ?%")
"""``1.87MB/s ± 8%``."""
_NAMED_NUMBER = re.compile(
    r"(?<!\S)([A-Za-z][\w./-]{0,30}(?: [\w./-]{1,20}){0,3})\s?[:=]\s{1,20}(\d[\d.,]{0,20})(?=\s{2}|\s*$)"
)
"""``Rx-pps:     12254848  `` among others in a line."""
_BLOCK_LABEL = re.compile(
    r"\s{0,40}(?:[A-Za-z]{3,20}\s{1,8})?\d{1,7}(?:\.\d{1,2})? ?(?:[kKMG]i?B?|B|bytes?)(?: \w{2,12})?(?=\s{0,2}:)"
)
"""``64KiB blocks:`` and ``64B:`` at the beginning of a line are its label."""
_AS_CEILING = re.compile(r"(?i)\(\s*(?:line[ -]?rate|theoretical(?: max(?:imum)?)?|max(?:imum)? possible)\s*[:=]?\s*$")
_NEAR = 0.02
_LINKS = {1e7, 1e8, *(rate * 1e9 for rate in (1, 2.5, 5, 10, 20, 25, 40, 50, 100, 200, 400, 800))}
"""Nominal rates of links, bits/s."""
_SOLD_AS = re.compile(
    r"\b(?:limit|limited|max(?:imum)? (?:speed|rate)|advertised|rated|up to|theoretical|link|interface|bus|"
    r"(?:would|should) be|out of(?: the)?$|the spec(?:s|ification)?|data ?sheet|expect(?:ed|ing)?|"
    r"supposed|estimat\w+|difference)\b",
    re.I,
)
"""Words of what a device is sold with; a text that states it has not measured it."""
_SOLD_AS_BEHIND = re.compile(
    r"(?i)[ \t]{1,3}(?:theoretical|line\b(?! rate reached)|link|fib(?:er|re)|port|interfaces?|nics?|network|switch|"
    r"higher|lower|faster|slower|more\b|less\b|"
    r"plan|advertised|rated|max(?:imum)?\b|peak\b)"
)
_BUT = re.compile(r"\bbut\b", re.I)
_ASIDE = re.compile(r"\s?\(([A-Za-z][^()]{1,60})\)")
_COMMA = re.compile(r"(?<![\d.,])(\d{1,3}),(\d{1,3})(?= ?[kKMGT]?i?[Bb](?:its?|ytes?)?/s)")
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])0,\d{1,3} ?[kKMGT]?i?[Bb](?:its?|ytes?)?/s")
_DECIMAL_POINT = re.compile(r"\d\.\d{1,3} ?[kKMGT]?i?[Bb](?:its?|ytes?)?/s")
_DOING = re.compile(r"\s{1,4}(read|writ)(?:ing|es?|s)?\b", re.I)
_JOINED = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(r"[A-Za-z][\w./%()-]{0,30}")


@dataclass(frozen=True, slots=True)
class ListedFigure:
    """A figure with its name, and what it is of."""

    subject: str
    head: str
    figure: str


def take_estimates(line: str) -> str:
    """The line with the estimate alone of each interval, and the mean of what is printed beside its last value."""
    line = _UNIT_IN_NAME.sub(r"\1=\3 \2", line) if "/s)=" in line else line
    line = _SPREAD.sub("", line) if "±" in line or "+/-" in line else line
    return _MEAN.sub(r"\1 ", _INTERVAL.sub(r"\1", line)) if "[" in line or "(avg" in line else line


def find_named_numbers(line: str) -> list[tuple[str, str]]:
    """The names and numbers of a line that has several pairs of them, and nothing else; empty for other lines."""
    if line.count(":") + line.count("=") < 2:
        return []
    pairs = _NAMED_NUMBER.findall(line)
    return pairs if len(pairs) > 1 and not _NAMED_NUMBER.sub("", line).strip() else []


def label_end(line: str) -> int:
    """Where the size that labels a line from its beginning ends; 0 without one."""
    match = _BLOCK_LABEL.match(line)
    return match.end() if match else 0


def is_ceiling(words: str) -> bool:
    """Whether words between two figures say that the second is the greatest possible: ``(line-rate: ``."""
    return _AS_CEILING.search(words) is not None


def is_not_measured(label: str, behind: str) -> bool:
    """Whether the words before a figure, or those right behind it, say that it is a limit, a rating or a guess."""
    label = _BUT.split(label)[-1]
    return _SOLD_AS.search(label) is not None or _SOLD_AS_BEHIND.match(behind) is not None


def with_decimal_points(text: str) -> str:
    """A text whose rates have decimal commas, as ``0,601 MB/s`` shows, with points in their place."""
    if _DECIMAL_COMMA.search(text) is None or _DECIMAL_POINT.search(text) is not None:
        return text
    return _COMMA.sub(r"\1.\2", text)


def block_size(quantities: Sequence[Quantity]) -> int:
    """The bytes of each operation, where a line has both rates and the size that makes that of the other; else 0."""
    by_kind = {found.kind: found.base for found in quantities}
    if not by_kind.get("bytes/s") or not by_kind.get("operations/s"):
        return 0
    block = by_kind["bytes/s"] / by_kind["operations/s"]
    return next((round(of.base) for of in quantities if of.kind == "bytes" and abs(of.base / block - 1) < _NEAR), 0)


def with_bits(line: str, quantities: Sequence[Quantity]) -> list[Quantity]:
    """The quantities of a text on a network, where ``Mbps`` and ``Gb/s`` are of bits; without what a link is sold as.

    A rate of a link, such as 2.5 Gbps, is a result only where words with a colon name it.
    """
    found = []
    for quantity in quantities:
        unit = quantity.number.unit
        if unit is not None and unit.kind == "bits or bytes":
            whole = Unit("bytes/s", unit.factor / 8, unit.name.replace("B/s", "bit/s"))
            quantity = replace(quantity, number=replace(quantity.number, unit=whole))
            if quantity.base * 8 in _LINKS and not line[: quantity.start].rstrip(" ~*").endswith((":", "=", "|")):
                continue
        found.append(quantity)
    return found


def is_of_settings(line: str) -> bool:
    """Whether a line has options of a test and nothing else: ``blocksize=4K iodepth=64 rw=randread``."""
    return line.count("=") > 1 and _SETTINGS.fullmatch(line) is not None


def ways_behind(line: str, quantities: Sequence[Quantity]) -> list[str]:
    """What is done at each rate, ``read`` or ``write``, by the word behind it; empty unless all differ."""
    matches = [_DOING.match(line, quantity.end) for quantity in quantities]
    found = [{"read": "read", "writ": "write"}[match[1].lower()] for match in matches if match]
    return found if len(set(found)) == len(found) == len(quantities) else []


def labels_behind(line: str, quantities: Sequence[Quantity]) -> list[str]:
    """The words in brackets right behind each of several rates; empty unless each has its label there."""
    matches = [_ASIDE.match(line, quantity.end) for quantity in quantities]
    return [match[1] for match in matches if match] if len(matches) > 1 and all(matches) else []


def read_listed(line: str) -> ListedFigure | None:
    """The figure of a line of comma-separated names; none for other lines, and for a variance."""
    match = _LISTED.fullmatch(line.strip())
    if match is None or "variance" in match["head"].lower():
        return None
    return ListedFigure(match["of"], _JOINED.sub(" ", match["head"]), match["figure"])


def heads_above(heads: str, quantities: Sequence[Quantity]) -> list[str]:
    """The word of a line of heads that is right above each of several figures; empty unless each has another."""
    words = [(match.start(), match.end(), match[0]) for match in _WORD.finditer(heads)]
    found = []
    for quantity in quantities:
        above = [word for start, end, word in words if start < quantity.end and quantity.start < end]
        if len(above) != 1:
            return []
        found.append(above[0].rstrip("."))
    return found if len(set(found)) == len(found) else []
