"""Axes and their values: how a sweep is written down, read from the command line, and unfolded into points."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hwdyno.measure.topology import FromSite, Topology
from hwdyno.model.axes import is_mixed, shares_split, split_word
from hwdyno.model.units import is_number, parse_duration, parse_size, printed_number
from hwdyno.model.words import Axis, Parameters, Scalar, UserError
from hwdyno.system.suggestions import hint

Axes = dict[str, tuple[Scalar, ...]]

MAX_POINTS = 100_000
"""A sweep with more points is refused as a mistake."""

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}


def powers(first: int, last: int) -> tuple[int, ...]:
    """``first`` and its doublings up to ``last``, inclusive."""
    if not 0 < first <= last:
        raise UserError(f"{first}..{last} is not a range; start at 1 or more, lower end first")
    values = [first << k for k in range(int(math.log2(last / first)) + 2) if first << k < last]
    return (*values, last)


def octaves(first: int, last: int, per_octave: int) -> tuple[int, ...]:
    """``per_octave`` sizes per octave, evenly spaced in the logarithm; multiples of 64, and of 4 KiB from 4 KiB on."""
    count = round(math.log2(last / first) * per_octave)
    sizes = (first * 2 ** (k / per_octave) for k in range(count + 1))
    grain = [(4096 if size >= 64 << 10 else 64, size) for size in sizes]
    return tuple(dict.fromkeys(round(size / step) * step for step, size in grain))


def parse_axis(text: str, axis: Axis | None = None, name: str = "value") -> tuple[Scalar, ...]:
    """Values of ``4k,16k,1M``, ``1..1024`` (powers of two), ``10..50+10`` (steps) or ``randread,randrw:70``.

    With ``axis``, values have its type and are within its bounds. Raises ``UserError`` in one line that names the axis
    and what it takes.
    """
    name = axis.name if axis else name
    values: list[Scalar] = []
    for part in (piece.strip() for piece in str(text).split(",")):
        if not part:
            raise UserError(f"{_option(name)} {text}: a value is missing between the commas")
        if ".." in part:
            values += _parse_range(part, axis, name)
        else:
            values.append(parse_value(part, axis, name))
    return tuple(dict.fromkeys(values))


def _parse_range(part: str, axis: Axis | None, name: str) -> list[Scalar]:
    first_text, _, tail = part.partition("..")
    last_text, plus, step_text = tail.partition("+")
    if not first_text.strip() or not last_text.strip():
        raise UserError(f"{_option(name)} {part}: a range needs both ends, such as 1..1024")
    first, last = (parse_value(text, axis, name) for text in (first_text, last_text))
    if not isinstance(first, int | float) or not isinstance(last, int | float) or isinstance(first, bool):
        raise UserError(f"{_option(name)} {part}: a range needs a number at both ends, such as 1..1024")
    if plus:
        step = parse_value(step_text, Axis(name, axis.unit if axis else ""))
        if not isinstance(step, int | float) or step <= 0 or first > last:
            raise UserError(f"{_option(name)} {part}: write the lower end first and a step above 0, such as 10..50+10")
        count = int((last - first) / step + 1e-9) + 1
        if count > MAX_POINTS:
            raise UserError(f"{_option(name)} {part}: that is {count} values; use a larger step")
        return [first + type(first)(k * step) for k in range(count)]
    if not isinstance(first, int) or not isinstance(last, int):
        raise UserError(f"{_option(name)} {part}: powers of two need whole numbers; add a step, such as {part}+0.5")
    try:
        return list(powers(first, last))
    except UserError as error:
        raise UserError(f"{_option(name)} {part}: {error}") from None


def parse_value(value: Scalar, axis: Axis | None = None, name: str = "value") -> Scalar:
    """Parse one value of an axis, with its type and bounds. Raises ``UserError``."""
    if axis is None:
        return _guess(value)
    try:
        typed = _parse_text(value, axis)
    except UserError as error:
        raise UserError(f"{_option(axis.name)}: {error}") from None
    low, high = axis.least, axis.most
    if isinstance(typed, int | float) and low is not None and high is not None and not low <= typed <= high:
        raise UserError(f"{_option(axis.name)} {value}: must be {low:.16g} to {high:.16g}")
    return typed


def _option(name: str) -> str:
    """The command line option of an axis."""
    return "--" + name.replace("_", "-")


def _guess(value: Scalar) -> Scalar:
    if not isinstance(value, str):
        return value
    try:
        return parse_size(value)
    except UserError:
        return value


def _parse_text(value: Scalar, axis: Axis) -> Scalar:
    text = str(value).strip()
    if axis.kind == "flag":
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise UserError(f"'{value}' must be 1 or 0")
    if axis.kind == "choice":
        return _choice(text, axis)
    if axis.kind not in {"integer", "number"}:
        return text
    low = axis.least or 0
    if text.startswith("-") and low >= 0:
        raise UserError(f"'{value}' is negative; it must be {low:.12g} or more")
    if re.fullmatch(r"-\d{1,18}", text):
        return int(text)
    # A mean size, such as a sample's, may have a fraction.
    if axis.unit == "B" and not (axis.kind == "number" and isinstance(value, float)):
        return parse_size(text)
    if axis.unit == "s":
        return parse_duration(text)
    try:
        number = parse_size(text) if axis.kind == "integer" else printed_number(text)
    except UserError:
        number = None
    if number is None:
        wanted = f"a {'whole ' if axis.kind == 'integer' else ''}number"
        bounds = "" if axis.most is None else f"; it must be {low:.16g} to {axis.most:.16g}"
        raise UserError(f"'{value}' is not {wanted}{bounds}")
    return number


def _choice(text: str, axis: Axis) -> str:
    word, share = split_word(text)
    if text in axis.choices:  # a word may contain a colon, such as the mix 2:1
        return text
    takes_share = [choice for choice in axis.choices if axis.split and is_mixed(axis, {axis.name: choice})]
    if word not in axis.choices:
        raise UserError(f"'{text}' is unknown; {hint(word, axis.choices, 'use one of: ')}")
    if ":" in text and word not in takes_share:
        raise UserError(f"'{text}': only {' and '.join(takes_share) or 'nothing here'} takes a share after a colon")
    if ":" in text and not re.fullmatch("[0-9]{1,2}|100", share):
        raise UserError(f"'{text}': the share of reads must be 0 to 100, such as {word}:70")
    return text


@dataclass(frozen=True, init=False)
class Sweep:
    """Axes and their points: all combinations of the values, block by block.

    ``Sweep(iodepth=powers(1, 64), rw="randread", bs="4KiB")`` has one block; ``+`` puts the blocks of two
    sweeps one after the other, for questions that are not a full grid. A value may be ``FromSite``, until ``at``.
    """

    blocks: tuple[Axes, ...]

    def __init__(self, axes: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        block = {name: _values(value) for name, value in {**(axes or {}), **named}.items()}
        object.__setattr__(self, "blocks", (block,))

    @classmethod
    def of_blocks(cls, blocks: tuple[Axes, ...]) -> Sweep:
        """A sweep of the given blocks."""
        sweep = cls()
        object.__setattr__(sweep, "blocks", blocks)
        return sweep

    def __add__(self, other: Sweep) -> Sweep:
        return Sweep.of_blocks(self.blocks + other.blocks)

    @property
    def axes(self) -> Axes:
        """All values of each axis, over all blocks."""
        merged: Axes = {}
        for block in self.blocks:
            for name, values in block.items():
                merged[name] = tuple(dict.fromkeys(merged.get(name, ()) + values))
        return merged

    def replace(self, axes: Mapping[str, Any]) -> Sweep:
        """A copy with other values of some axes, or with more axes, in every block."""
        chosen = {name: _values(value) for name, value in axes.items()}
        return Sweep.of_blocks(tuple({**block, **chosen} for block in self.blocks))

    def at(self, site: Topology) -> Sweep:
        """A copy in which the values that depend on the site are resolved."""
        return Sweep.of_blocks(
            tuple({name: _at(values, site) for name, values in block.items()} for block in self.blocks)
        )

    def points(self, axes: Iterable[Axis] = ()) -> list[Parameters]:
        """Every combination once, in the order written; by ``axes``, ``randrw:70`` gives its share apart."""
        axes = tuple(axes)
        total = sum(math.prod(len(values) for values in block.values()) for block in self.blocks)
        if total > MAX_POINTS:
            raise UserError(f"the sweep has {total} points; use fewer values (at most {MAX_POINTS} points)")
        unique: dict[tuple[tuple[str, Scalar], ...], Parameters] = {}
        for block in self.blocks:
            for values in itertools.product(*block.values()):
                point = shares_split(axes, dict(zip(block, values, strict=True)))
                unique.setdefault(tuple(point.items()), point)
        return list(unique.values())

    def load_axis(self, preferred: str = "iodepth") -> str:
        """The load axis: the one with the most numeric values, or ``preferred`` if it has as many."""
        numbers = {name: sum(map(is_number, values)) for name, values in self.axes.items()}
        most = max(numbers.values(), default=0)
        if numbers.get(preferred, 0) == most or most <= 1:
            return preferred
        return next(name for name, count in numbers.items() if count == most)


def _values(value: Any) -> tuple[Scalar, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _at(values: tuple[Any, ...], site: Topology) -> tuple[Scalar, ...]:
    found = (value.values(site) if isinstance(value, FromSite) else (value,) for value in values)
    return tuple(dict.fromkeys(itertools.chain.from_iterable(found)))
