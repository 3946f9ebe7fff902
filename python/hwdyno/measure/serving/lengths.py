"""Lengths of prompts and answers, in tokens, drawn from a stated distribution."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from hwdyno.model.units import printed_number
from hwdyno.model.words import UserError

MAX_TOKENS = 1 << 20
"""Tokens of one prompt or answer at most."""
FORMS = "128, uniform:64:256, normal:128:32, lognormal:128:0.5 (median:sigma) or exponential:128 (mean)"
"""What ``parse`` takes."""
_CHOICES = {"uniform": 2, "normal": 2, "lognormal": 2, "exponential": 1}


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of whole numbers from 1 to ``MAX_TOKENS``; values beyond are cut to these ends."""

    form: str
    """``fixed``, ``uniform``, ``normal``, ``lognormal`` or ``exponential``."""
    figures: tuple[float, ...]

    @property
    def least(self) -> int:
        """The smallest length that can be drawn."""
        return int(self.figures[0]) if self.form in {"fixed", "uniform"} else 1

    def draw(self, numbers: random.Random) -> int:
        """One length."""
        first, second = (*self.figures, 0.0)[:2]
        draws: dict[str, Callable[[], float]] = {
            "fixed": lambda: first,
            "uniform": lambda: numbers.randint(int(first), int(second)),
            "normal": lambda: numbers.gauss(first, second),
            "lognormal": lambda: first * math.exp(second * numbers.gauss(0, 1)),
            "exponential": lambda: numbers.expovariate(1 / first),
        }
        return max(1, min(MAX_TOKENS, round(min(draws[self.form](), float(MAX_TOKENS)))))


def parse(text: str, option: str) -> Lengths:
    """The distribution of a text such as ``uniform:64:256``. Raises ``UserError`` that names the option."""
    form, *words = text.strip().split(":")
    if form not in _CHOICES:
        form, words = "fixed", [form, *words]
    figures = [printed_number(word) for word in words]
    known = [figure for figure in figures if figure is not None and 0 <= figure <= MAX_TOKENS]
    right = len(known) == len(figures) == _CHOICES.get(form, 1) and known[0] >= 1
    if form in {"fixed", "uniform"}:
        right = right and all(length == int(length) for length in known) and known == sorted(known)
    # A median times e^(10 sigma) is beyond every length that can be drawn.
    if form == "lognormal":
        right = right and known[1] <= 10
    if not right:
        raise UserError(f"--{option} {text}: lengths of 1 to {MAX_TOKENS} tokens are {FORMS}")
    return Lengths(form, tuple(known))
