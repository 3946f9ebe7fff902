"""A picture as SVG, in the page's variable colours or in fixed ones for a file."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from hwdyno.report.lettering import Anchor, Box, Room, fit_text, text_width
from hwdyno.report.picture import (
    CEILING,
    NEUTRAL,
    WIDTH,
    Band,
    Bar,
    ChartAxis,
    Dot,
    Mark,
    Picture,
    PicturePoint,
    Polyline,
    ReferenceLine,
    Tip,
    Whisker,
    Words,
)

SMALL = 11.0
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
_ROW = 17.0
_GAP = 10.0
"""Gap between labels and their axis, with the edge."""
_NAMES_SHARE = 0.36
"""Share of the width: longer names of bars are above their bars."""
_CAPTION_LINE = 92

# Shapes of about equal area around their middle; they tell series apart where colours do not.
_SHAPES = (
    "",
    "M-3.6-3.6H3.6V3.6H-3.6Z",
    "M0-4.9L4.7 3.4H-4.7Z",
    "M0-5L5 0L0 5L-5 0Z",
    "M0 4.9L4.7-3.4H-4.7Z",
    "M-1.6-4.6H1.6V-1.6H4.6V1.6H1.6V4.6H-1.6V1.6H-4.6V-1.6H-1.6Z",
    "M4.9 0L-3.4 4.7V-4.7Z",
    "M-4.9 0L3.4 4.7V-4.7Z",
)


@dataclass(frozen=True, slots=True)
class Paint:
    """The colours of a picture: plain ones, or the names of a page's variables."""

    ink: str
    muted: str
    line: str
    ceiling: str
    paper: str
    series: tuple[str, ...]

    def choose_colour(self, series: int) -> str:
        """The colour of a series, or of a mark without one."""
        if series == CEILING:
            return self.ceiling
        return self.muted if series == NEUTRAL else self.series[series % len(self.series)]


def escape_text(text: str) -> str:
    """Text as SVG and HTML have it; what XML has no place for is left out."""
    kept = text.translate(_ENTITIES)
    return "".join(letter for letter in kept if letter not in "\ufffe\uffff")


_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


def label_margin(picture: Picture) -> float:
    """Units that the labels of the upright axis take."""
    return max((text_width(text, SMALL) for _, text in picture.y.ticks), default=0.0) + _GAP


def draw(picture: Picture, paint: Paint, *, alone: bool = False) -> str:
    """The picture as one ``svg`` element; ``alone`` with its title, its caption and a background, for a file."""
    return _Sheet(picture, paint, alone).draw()


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0").replace("-0.", "-.").removeprefix("0") or "0"


class _Sheet:
    def __init__(self, picture: Picture, paint: Paint, alone: bool) -> None:
        self.picture, self.paint, self.alone = picture, paint, alone
        self.parts: list[str] = []
        self.heads = textwrap.wrap(picture.caption, _CAPTION_LINE) if alone else []
        self.bars = picture.y.kind == "names"
        self.left = max(label_margin(picture), picture.margin)
        self.above = self.bars and self.left - _GAP > _NAMES_SHARE * WIDTH
        self.left = 4.0 if self.above else self.left
        head = (30 + 15 * len(self.heads)) if alone else 0
        self.top = head + (22.0 if picture.y.title else 8.0)
        self.bottom = self.top + picture.height
        self.right = WIDTH - self._right_margin()
        limits = Box(self.left, self.top - (0 if self.bars else 4), self.right + 4, self.bottom)
        self.room = Room(limits, SMALL)

    def _right_margin(self) -> float:
        if self.bars:
            texts = [mark.text for mark in self.picture.marks if isinstance(mark, Bar)]
            return max((text_width(text, SMALL) for text in texts), default=0.0) + 12
        last = self.picture.x.ticks[-1][1] if self.picture.x.ticks else ""
        return min(60.0, max(10.0, text_width(last, SMALL) / 2 + 4))

    def across(self, value: float) -> float:
        return self.left + self.picture.x.share(value) * (self.right - self.left)

    def upright(self, value: float) -> float:
        share = self.picture.y.share(value)
        return self.top + (share if self.bars else 1 - share) * (self.bottom - self.top)

    def at(self, place: PicturePoint) -> str:
        return f"{_number(self.across(place[0]))} {_number(self.upright(place[1]))}"

    def draw(self) -> str:
        self._axes()
        for (kind, series), marks in groupby(self.picture.marks, key=lambda mark: (type(mark), mark.series)):
            self._marks(kind, series, list(marks))
        self._words()
        height = self._legend(self.bottom + (38 if self.picture.x.title else 22))
        label = escape_text(f"{self.picture.title}. {self.picture.caption}")
        title = ""
        if self.alone:
            named = fit_text(self.picture.title, 15, WIDTH - 8)
            ground = f'<rect width="{WIDTH:g}" height="{height:g}" fill="{self.paint.paper}"/>'
            title = ground + self._text((4, 18, "start"), named, self.paint.ink, 14, 'font-weight="600"')
            title += "".join(
                self._text((4, 36 + 15 * at, "start"), line, self.paint.muted, 9.5)
                for at, line in enumerate(self.heads)
            )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 {WIDTH:g} {height:g}"'
            f'{f""" width="{WIDTH:g}" height="{height:g}" """ if self.alone else ""}'
            f' role="img" aria-label="{label}" font-family="{FONT}" font-size="{SMALL:g}">'
            f"{title}{''.join(self.parts)}</svg>"
        )

    def _text(self, anchor: Anchor, text: str, fill: str, size: float = SMALL, more: str = "") -> str:
        x, y, side = anchor
        ends = "" if side == "start" else f' text-anchor="{side}"'
        sized = "" if size == SMALL else f' font-size="{size:g}"'
        return f'<text x="{_number(x)}" y="{_number(y)}" fill="{fill}"{ends}{sized} {more}>{escape_text(text)}</text>'

    # --- axes

    def _axes(self) -> None:
        paint, (left, right) = self.paint, (self.left, self.right)
        y = self.picture.y
        lines = (
            ""
            if self.bars
            else "".join(f"M{_number(left)} {_number(self.upright(v))}H{_number(right)}" for v, _ in y.ticks)
        )
        upright = self.bars or self.picture.x.kind == "linear"
        if upright:
            lines += "".join(
                f"M{_number(self.across(v))} {_number(self.top)}V{_number(self.bottom)}"
                for v, _ in self.picture.x.ticks
            )
        foot = f"M{_number(left)} {_number(self.bottom)}H{_number(right)}" if not self.bars else ""
        small = (
            ""
            if upright
            else "".join(f"M{_number(self.across(v))} {_number(self.bottom)}v4" for v, _ in self.picture.x.ticks)
        )
        self.parts.append(f'<path d="{lines}" fill="none" stroke="{paint.line}"/>' if lines else "")
        self.parts.append(f'<path d="{foot}{small}" fill="none" stroke="{paint.muted}"/>' if foot + small else "")
        self._name_ticks(y)
        for value, text in _apart(self.picture.x.ticks, self.across):
            anchor = self._within(text, self.across(value))
            self.parts.append(self._text((anchor, self.bottom + 16, "middle"), text, paint.muted))
        if self.picture.x.title:
            room = WIDTH - 2 * 4
            title = fit_text(self.picture.x.title, SMALL, room)
            middle = min(
                max((left + right) / 2, text_width(title, SMALL) / 2 + 4), WIDTH - text_width(title, SMALL) / 2 - 4
            )
            self.parts.append(self._text((middle, self.bottom + 32, "middle"), title, paint.muted))
        if y.title:
            self.parts.append(self._text((4, self.top - 11, "start"), fit_text(y.title, SMALL, WIDTH - 8), paint.muted))

    def _within(self, text: str, middle: float) -> float:
        half = text_width(text, SMALL) / 2
        return max(half + 1, min(WIDTH - half - 1, middle))

    def _name_ticks(self, y: ChartAxis) -> None:
        row = (self.bottom - self.top) / max(1, len(y.ticks))
        ticks = y.ticks if self.bars else list(_apart(y.ticks, self.upright, upright=True))
        for value, text in ticks:
            middle = self.upright(value)
            if self.above:
                shown, anchor = fit_text(text, SMALL, WIDTH - 8), (4.0, middle - row / 2 + 12, "start")
            else:
                shown, anchor = text, (self.left - 6, middle + 4, "end")
            colour = self.paint.ink if self.bars else self.paint.muted
            self.parts.append(self._text(anchor, shown, colour))

    # --- marks

    def _marks(self, kind: type[Mark], series: int, marks: Sequence[Mark]) -> None:
        colour = self.paint.choose_colour(series)
        attributes = f' data-s="{series}"' if series >= 0 else ""
        drawn = "".join(self._mark(mark) for mark in marks)
        if not drawn:
            return
        look = {
            Polyline: f'fill="none" stroke="{colour}" stroke-linejoin="round"',
            Band: f'fill="{colour}" fill-opacity=".15"',
            Whisker: f'fill="none" stroke="{colour}" stroke-width="1.3"',
            ReferenceLine: f'fill="none" stroke="{colour}" stroke-width="1.2"',
        }.get(kind, f'fill="{colour}" stroke="{colour}"')
        self.parts.append(f"<g{attributes} {look}>{drawn}</g>")

    def _mark(self, mark: Mark) -> str:
        if isinstance(mark, Polyline):
            return self._line(mark)
        if isinstance(mark, Dot):
            return self._dot(mark)
        if isinstance(mark, Bar):
            return self._bar(mark)
        if isinstance(mark, Band):
            up = [self.at((x, high)) for x, _, high in mark.places]
            down = [self.at((x, low)) for x, low, _ in reversed(mark.places)]
            return f'<path d="M{"L".join([*up, *down])}Z"/>'
        if isinstance(mark, Whisker):
            x, low, high = self.across(mark.x), self.upright(mark.low), self.upright(mark.high)
            # Where an interval goes on past the axis, it has no end.
            ends = [at for value, at in ((mark.low, low), (mark.high, high)) if self.picture.y.spans(value)]
            caps = "".join(f"M{_number(x - 3)} {_number(at)}h6" for at in ends)
            return f'<path d="M{_number(x)} {_number(low)}V{_number(high)}{caps}"/>'
        if isinstance(mark, ReferenceLine):
            level, left, right = self.upright(mark.y), self.across(mark.start), self.across(mark.end)
            self.room.marks.append(Box(left, level - 0.6, right, level + 0.6))
            y = _number(level)
            path = f"M{_number(left)} {y}H{_number(right)}"
            return f'<path class="tipped" d="{path}" stroke-dasharray="{mark.dash}">{_title(mark.tip)}</path>'
        return ""

    def _line(self, mark: Polyline) -> str:
        places = [self.at(place) for place in mark.places]
        if len({x for x, _ in mark.places}) == 1:
            x = self.across(mark.places[0][0])
            self.room.marks.append(Box(x - 1, self.top, x + 1, self.bottom))
        if mark.stepped:
            corners = [place.split(" ") for place in places]
            path = f"M{places[0]}" + "".join(f"H{x}V{y}" for x, y in corners[1:])
        else:
            path = f"M{'L'.join(places)}"
        dash = f' stroke-dasharray="{mark.dash}"' if mark.dash else ""
        tipped = ' class="tipped"' if mark.tip else ""
        return f'<path d="{path}" stroke-width="{mark.width:g}"{dash}{tipped}>{_title(mark.tip)}</path>'

    def _dot(self, mark: Dot) -> str:
        x, y = self.across(mark.x), self.upright(mark.y)
        place = f'cx="{_number(x)}" cy="{_number(y)}"'
        title, tipped = _title(mark.tip), ' class="tipped"' if mark.tip else ""
        if mark.look == "unseen":
            return f'<circle {place} r="4" opacity="0"{tipped}>{title}</circle>'
        self.room.marks.append(Box(x - 4, y - 4, x + 4, y + 4))
        if mark.look == "peer":
            return f'<circle {place} r="6" fill="none" stroke-width="1.5"{tipped}>{title}</circle>'
        if mark.look == "ring":
            return f'<circle {place} r="8.5" fill="none" stroke-width="1.8"{tipped}>{title}</circle>'
        if mark.look == "cross":
            cross = f"M{_number(x - 6)} {_number(y - 6)}l12 12m0-12l-12 12"
            return (
                f'<path d="{cross}" fill="none" stroke="{self.paint.ceiling}" stroke-width="1.6"{tipped}>{title}</path>'
            )
        shape = _SHAPES[mark.series % len(_SHAPES)] if mark.series >= 0 else ""
        if not shape:
            return f'<circle {place} r="3.6"{tipped}>{title}</circle>'
        return f'<path transform="translate({_number(x)} {_number(y)})" d="{shape}"{tipped}>{title}</path>'

    def _bar(self, mark: Bar) -> str:
        row = (self.bottom - self.top) / max(1, len(self.picture.y.ticks))
        lift = 8.0 if self.above else 0.0  # The name's line is above the bars of its row.
        scale = (row - 2 * lift) / row
        middle = self.upright(round(mark.row)) + lift + (mark.row - round(mark.row)) * row * scale
        thick, end = mark.thick * row * scale, self.across(mark.value)
        wide = max(0.5, end - self.left)
        shape = f'x="{_number(self.left)}" y="{_number(middle - thick / 2)}" height="{_number(thick)}"'
        shape += f' width="{_number(wide)}" rx="1.5" stroke="none"'
        made = f'<rect class="tipped" {shape}>{_title(mark.tip)}</rect>'
        edge = end
        if mark.low is not None and mark.high is not None:
            low, high = self.across(mark.low), self.across(mark.high)
            edge = max(end, high)
            y = _number(middle)
            ends = [at for value, at in ((mark.low, low), (mark.high, high)) if self.picture.x.spans(value)]
            caps = "".join(f"M{_number(at)} {_number(middle - 3)}v6" for at in ends)
            look = f'fill="none" stroke="{self.paint.ink}" stroke-width="1.2"'
            made += f'<path d="M{_number(low)} {y}H{_number(high)}{caps}" {look}/>'
        if mark.text:
            made += self._text((edge + 6, middle + 4, "start"), mark.text, self.paint.ink, SMALL, 'stroke="none"')
        return made

    # --- words

    def _words(self) -> None:
        """The texts between the axes, each where it covers none before it: the ceilings first."""
        for mark in self.picture.marks:
            if isinstance(mark, ReferenceLine) and mark.text:
                start, end, y = self.across(mark.start), self.across(mark.end), self.upright(mark.y)
                level = [(end - 2, "end"), (start + 3, "start"), ((start + end) / 2, "middle")]
                anchors = [(x, y + drop, side) for x, side in level for drop in (-4, 12)]
                self._put(mark, anchors)
        for mark in self.picture.marks:
            if isinstance(mark, Words) and mark.text:
                x, y = self.across(mark.x), self.upright(mark.y)
                around = [(x + 8, y + 4, "start"), (x - 8, y + 4, "end"), (x, y - 9, "middle"), (x, y + 17, "middle")]
                around += [(x + 9, y + drop, "start") for drop in (-7, 14)] + [
                    (x - 9, y + drop, "end") for drop in (-7, 14)
                ]
                around += [
                    (x + 13, y + 4, "start"),
                    (x - 13, y + 4, "end"),
                    (x, y - 13, "middle"),
                    (x, y + 22, "middle"),
                ]
                self._put(mark, around)

    def _put(self, mark: ReferenceLine | Words, anchors: list[Anchor]) -> None:
        anchor = self.room.place(mark.text, anchors, over_marks=isinstance(mark, ReferenceLine))
        if anchor is not None:
            attributes = f'data-s="{mark.series}" ' if mark.series >= 0 else ""
            # A rim of paper keeps it readable over a line.
            attributes += f'stroke="{self.paint.paper}" stroke-width="3" stroke-linejoin="round" paint-order="stroke"'
            self.parts.append(self._text(anchor, mark.text, self.paint.choose_colour(mark.series), SMALL, attributes))

    def _legend(self, top: float) -> float:
        """The names of the series in rows below the picture; gives where the picture ends."""
        if len(self.picture.series) < 2:
            return top
        x, y = 4.0, top + 10
        for at, name in enumerate(self.picture.series):
            shown = fit_text(name, SMALL, WIDTH - 30)
            wide = 16 + text_width(shown, SMALL) + 14
            if x > 4 and x + wide > WIDTH:
                x, y = 4.0, y + _ROW
            colour = self.paint.choose_colour(at)
            shape = _SHAPES[at % len(_SHAPES)]
            sign = f'<path transform="translate({_number(x + 5)} {_number(y - 4)})" d="{shape}" fill="{colour}"/>'
            if not shape or self.bars:
                sign = f'<circle cx="{_number(x + 5)}" cy="{_number(y - 4)}" r="3.8" fill="{colour}"/>'
            text = self._text((x + 14, y, "start"), shown, self.paint.ink)
            full = f"<title>{escape_text(name)}</title>" if shown != name else ""
            self.parts.append(f'<g class="entry" data-of="{at}">{full}{sign}{text}</g>')
            x += wide
        return y + 8


def _title(tip: Tip) -> str:
    """What a browser shows over a mark even where no script may run, a line each."""
    lines = "\n".join(f"{name}\t{value}" for name, value in tip if value)
    return f"<title>{escape_text(lines)}</title>" if lines else ""


def _apart(
    ticks: Sequence[tuple[float, str]], place: Callable[[float], float], *, upright: bool = False
) -> Iterable[tuple[float, str]]:
    """The ticks whose labels leave each other room: every one, or every second, third … of them."""

    def fit(some: Sequence[tuple[float, str]]) -> bool:
        ends = [(place(value), SMALL * 1.25 if upright else text_width(text, SMALL) + 8) for value, text in some]
        ends.sort()
        return all(b[0] - a[0] >= (a[1] + b[1]) / 2 for a, b in pairwise(ends))

    return next((ticks[::step] for step in range(1, len(ticks)) if fit(ticks[::step])), ticks[:1])
