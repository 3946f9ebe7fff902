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
    rng = random.Random(seed)
    trees = [tree for seed_bytes in seeds if (tree := _tree(seed_bytes)) is not None]
    for _ in range(count):
        if trees and rng.random() < 0.6:
            data = _changed_tree(rng, rng.choice(trees), words)
            if rng.random() < 0.9:
                yield data
                continue
        else:
            data = rng.choice(seeds)
        for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
            data = _changed(rng, data, seeds, words)
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
    for container in waiting:
        inner = list(container.items()) if isinstance(container, dict) else list(enumerate(container))
        found += [(container, key) for key, _ in inner]
        waiting += [value for _, value in inner if isinstance(value, dict | list)]
    return found


def _odd(rng: random.Random, words: Sequence[str]) -> Any:
    kind = rng.randrange(8)
    if kind < 4:
        return f"\x01{rng.choice(NUMBERS)}\x01" if kind else rng.choice(NUMBERS)
    if kind == 4:
        return rng.choice((None, True, False, [], {}, [[]], [{}], "", [None], {"": None}))
    if kind == 5:
        return rng.choice((*WORDS, *words))
    if kind == 6:
        return [rng.choice((0, -1, 1e300, 3, "x", None)) for _ in range(rng.randrange(4))]
    return rng.choice((rng.randrange(1 << 70), -rng.random(), rng.random() * 10 ** rng.randrange(-40, 40)))


def _changed_tree(rng: random.Random, data: bytes, words: Sequence[str]) -> bytes:
    tree = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        places = _places(tree)
        if not places:
            break
        container, key = rng.choice(places)
        step = rng.randrange(6)
        if step == 0:
            del container[key]
        elif step == 1:
            other, at = rng.choice(places)
            container[key] = json.loads(json.dumps(other[at]))
        elif step == 2 and isinstance(container, list):
            container.insert(key, container[key])
        elif step == 3 and isinstance(container, dict):
            container[rng.choice((*words, *container)) if words else key] = container.pop(key)
        else:
            container[key] = _odd(rng, words)
    return _RAW.sub(lambda match: match[1], json.dumps(tree).replace("\\u0001", "\x01")).encode()


def _changed(rng: random.Random, data: bytes, seeds: Sequence[bytes], words: Sequence[str]) -> bytes:
    start, end = sorted(rng.randint(0, len(data)) for _ in range(2))
    step = rng.randrange(9)
    if step <= 2 and (numbers := list(_NUMBER.finditer(data))):
        match = rng.choice(numbers)
        return data[: match.start()] + rng.choice(NUMBERS).encode() + data[match.end() :]
    if step == 3:
        word = rng.choice((*WORDS, *words, *NUMBERS)).encode()
        return data[:start] + word + data[start:]
    if step == 4:
        return data[:start] + data[end:] if rng.random() < 0.7 else data[:start]
    if step == 5:
        lines = data.splitlines(keepends=True) or [b""]
        at = rng.randrange(len(lines))
        other = rng.choice(lines)
        return b"".join([*lines[:at], *rng.choice(((), (other,), (other, lines[at]))), *lines[at + 1 :]])
    if step == 6:
        other = rng.choice(seeds)
        cut = rng.randint(0, len(other))
        return data[:start] + other[cut : cut + rng.randint(0, 200)] + data[start:]
    if step == 7:
        return data[:start] + bytes(rng.randrange(256) for _ in range(rng.randint(1, 4))) + data[start + 1 :]
    return data[:start] + data[start : start + rng.randint(1, 40)] * rng.choice((2, 3, 50)) + data[start:]
