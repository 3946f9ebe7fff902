"""Makes inputs that are nearly right: the same seed gives the same inputs, so that what fails once fails again."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

NUMBERS = (
    *("0", "-0", "1", "-1", "0.5", "-0.5", "1e999", "-1e999", "1e308", "1e-320", "1e-30", "1e30", "1e400", "1E+20"),
    *(str(1 << 31), str(1 << 53), str(1 << 63), str(1 << 64), "1" + "0" * 30, "1_0", "²", "１"),
    *("9" * 19, "9" * 25, "9" * 400, "9" * 5000, "NaN", "nan", "-nan", "Infinity", "-Infinity", "inf", ".inf"),
    *("1.2.3", "1e", "1e+", ".", "-", "0x10"),
)
"""Figures that are out of range, no number, or one in some languages only."""
WORDS = (
    *("", " ", "\0", "\n", "\r\n", "\t", "\u2028", "é", "\ufeff", "\\ud800", "\ud7ff", "%", "$", '"', "'", "\\"),
    *("true", "false", "null", "[]", "{}", "[", "]", "{", "}", ",", ":", "=", "-", "..", "../"),
    *("[[" * 40, "[" * 3000, '{"a":' * 3000),
)
_RAW = re.compile(r'"\x01([^"\x01]*)\x01"')
_NUMBER = re.compile(rb"[-+]?\d[\d.eE+-]*")
_PLACE = tuple[Any, Any]


def mutants(seeds: Sequence[bytes], words: Sequence[str], count: int, seed: int) -> Iterator[bytes]:
    """Yield ``count`` inputs, each some steps away from one of the seeds."""
    dice = random.Random(seed)
    trees = [tree for one in seeds if (tree := _tree(one)) is not None]
    for _ in range(count):
        if trees and dice.random() < 0.6:
            data = _changed_tree(dice, dice.choice(trees), words)
            if dice.random() < 0.9:
                yield data
                continue
        else:
            data = dice.choice(seeds)
        for _ in range(dice.choice((1, 1, 1, 2, 3, 5))):
            data = _changed(dice, data, seeds, words)
        yield data


def _tree(data: bytes) -> Any:
    try:
        found = json.loads(data)
    except ValueError:
        return None
    return data if isinstance(found, dict | list) else None


def _places(tree: Any) -> list[_PLACE]:
    """Each inner place of a tree, as its container and key."""
    found: list[_PLACE] = []
    waiting = [tree]
    for one in waiting:
        inner = list(one.items()) if isinstance(one, dict) else list(enumerate(one))
        found += [(one, key) for key, _ in inner]
        waiting += [value for _, value in inner if isinstance(value, dict | list)]
    return found


def _odd(dice: random.Random, words: Sequence[str]) -> Any:
    kind = dice.randrange(8)
    if kind < 4:
        return f"\x01{dice.choice(NUMBERS)}\x01" if kind else dice.choice(NUMBERS)
    if kind == 4:
        return dice.choice((None, True, False, [], {}, [[]], [{}], "", [None], {"": None}))
    if kind == 5:
        return dice.choice((*WORDS, *words))
    if kind == 6:
        return [dice.choice((0, -1, 1e300, 3, "x", None)) for _ in range(dice.randrange(4))]
    return dice.choice((dice.randrange(1 << 70), -dice.random(), dice.random() * 10 ** dice.randrange(-40, 40)))


def _changed_tree(dice: random.Random, data: bytes, words: Sequence[str]) -> bytes:
    tree = json.loads(data)
    for _ in range(dice.choice((1, 1, 2, 4))):
        places = _places(tree)
        if not places:
            break
        container, key = dice.choice(places)
        step = dice.randrange(6)
        if step == 0:
            del container[key]
        elif step == 1:
            other, at = dice.choice(places)
            container[key] = json.loads(json.dumps(other[at]))
        elif step == 2 and isinstance(container, list):
            container.insert(key, container[key])
        elif step == 3 and isinstance(container, dict):
            container[dice.choice((*words, *container)) if words else key] = container.pop(key)
        else:
            container[key] = _odd(dice, words)
    return _RAW.sub(lambda match: match[1], json.dumps(tree).replace("\\u0001", "\x01")).encode()


def _changed(dice: random.Random, data: bytes, seeds: Sequence[bytes], words: Sequence[str]) -> bytes:
    start, end = sorted(dice.randint(0, len(data)) for _ in range(2))
    step = dice.randrange(9)
    if step <= 2 and (numbers := list(_NUMBER.finditer(data))):
        match = dice.choice(numbers)
        return data[: match.start()] + dice.choice(NUMBERS).encode() + data[match.end() :]
    if step == 3:
        word = dice.choice((*WORDS, *words, *NUMBERS)).encode()
        return data[:start] + word + data[start:]
    if step == 4:
        return data[:start] + data[end:] if dice.random() < 0.7 else data[:start]
    if step == 5:
        lines = data.splitlines(keepends=True) or [b""]
        at = dice.randrange(len(lines))
        other = dice.choice(lines)
        return b"".join([*lines[:at], *dice.choice(((), (other,), (other, lines[at]))), *lines[at + 1 :]])
    if step == 6:
        other = dice.choice(seeds)
        cut = dice.randint(0, len(other))
        return data[:start] + other[cut : cut + dice.randint(0, 200)] + data[start:]
    if step == 7:
        return data[:start] + bytes(dice.randrange(256) for _ in range(dice.randint(1, 4))) + data[start + 1 :]
    return data[:start] + data[start : start + dice.randint(1, 40)] * dice.choice((2, 3, 50)) + data[start:]
