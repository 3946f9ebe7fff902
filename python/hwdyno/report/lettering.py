"""How wide a text is, and where it has room: a picture is drawn before any font is known."""

from __future__ import annotations

from dataclasses import dataclass, field

# Widths in thousandths of the size, of DejaVu Sans: among the fonts that a reader may have it is a wide one.
_WIDTHS = {
    **dict.fromkeys("ijlI'|", 280),
    **dict.fromkeys(" .,:;/\\!·", 335),
    **dict.fromkeys('-()[]{}frt"', 410),
    **dict.fromkeys("mw%@+=<>×±÷→≤≥…—", 980),
    **dict.fromkeys("MOQWGD", 870),
    **dict.fromkeys("sczk_", 580),
}
_DEFAULT, _CAPITAL, _WIDE = 640, 700, 1000


def text_width(text: str, size: float) -> float:
    """The approximate width of a text, in the unit of its size; rather too wide than too narrow."""
    return sum(_letter(letter) for letter in text) * size / 1000


def _letter(letter: str) -> int:
    known = _WIDTHS.get(letter)
    if known is not None:
        return known
    if ord(letter) > 0x2E80:
        return _WIDE
    return _CAPITAL if letter.isupper() else _DEFAULT


def fit_text(text: str, size: float, room: float) -> str:
    """The text, or what of it fits into ``room`` with an ellipsis."""
    if text_width(text, size) <= room:
        return text
    room -= text_width("…", size)
    for at, letter in enumerate(text):
        room -= _letter(letter) * size / 1000
        if room < 0:
            return f"{text[:at].rstrip()}…"
    return text


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on a picture."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two have a point in common."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def inside(self, other: Box) -> bool:
        """Whether all of it is in the other."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.top >= other.top
            and self.bottom <= other.bottom
        )


Anchor = tuple[float, float, str]
"""Where a text begins (``start``), ends (``end``) or has its middle (``middle``), and its base line."""


@dataclass(slots=True)
class Room:
    """The space of a picture in which texts are put one by one, none over another."""

    limits: Box
    size: float
    texts: list[Box] = field(default_factory=list)
    marks: list[Box] = field(default_factory=list)
    """What a text had better not cover, but may."""

    def box(self, text: str, anchor: Anchor) -> Box:
        """What a text covers."""
        x, y, side = anchor
        wide = text_width(text, self.size)
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[side]
        return Box(left - 2, y - 0.95 * self.size, left + wide + 2, y + 0.28 * self.size)

    def place(self, text: str, anchors: list[Anchor], *, over_marks: bool = False) -> Anchor | None:
        """The first place where the text covers no other text and no mark; none without one.

        With ``over_marks`` a place over marks is better than none.
        """
        boxes = [(anchor, self.box(text, anchor)) for anchor in anchors]
        free = [
            (anchor, box)
            for anchor, box in boxes
            if box.inside(self.limits) and not any(box.meets(other) for other in self.texts)
        ]
        best = next(((a, b) for a, b in free if not any(b.meets(other) for other in self.marks)), None)
        chosen = best or (free[0] if free and over_marks else None)
        if chosen is None:
            return None
        self.texts.append(chosen[1])
        return chosen[0]
