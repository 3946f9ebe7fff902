"""The calls that are kept, with what each comes to: ``tests/data/calls.jsonl``.

A line names a function and has the arguments of a call that a test made. Those that follow say what it comes to, as it
is or with other values in some places. What several calls have in common stands once, before them.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from hwdyno.words import UserError
from mutants.changes import ROOT

from calls.functions import called, functions
from calls.nudged import Nudge, nudged
from calls.written import KIND, Tree, read, text_of

PAGE = ROOT / "tests/data/calls.jsonl"
PART, SHARED = "part", 120
"""What stands for a part that is written apart, and the characters from which one is."""


@dataclass(frozen=True)
class Call:
    """One call and what it comes to."""

    function: str
    arguments: Tree
    """As a test gave them."""
    nudges: tuple[Nudge, ...]
    """What stands there instead."""
    text: str

    def comes_to(self) -> str:
        """What it comes to now."""
        return comes_to(self.function, nudged(self.arguments, self.nudges))

    def __str__(self) -> str:
        changed = ", ".join(f"{'.'.join(map(str, place))} = {json.dumps(value)}" for place, value in self.nudges)
        return f"{self.function} of {json.dumps(self.arguments)}" + (f" with {changed}" if changed else "")


def comes_to(function: str, arguments: Tree) -> str:
    """What a call comes to; a user's error is its sentence."""
    try:
        return text_of(called(functions()[function], read(arguments)))
    except UserError as error:
        return f"UserError: {error}"


@cache
def kept() -> dict[str, list[Call]]:
    """All that are kept, by function."""
    found: dict[str, list[Call]] = defaultdict(list)
    parts: dict[str, Tree] = {}
    function, arguments = "", None
    for line in PAGE.read_text().splitlines():
        document = json.loads(line)
        if "part" in document:
            parts[document["part"]] = _whole(document["is"], parts)
        elif "of" in document:
            function, arguments = document["of"], _whole(document["arguments"], parts)
        else:
            nudges = tuple((tuple(place), value) for place, value in document.get("with", ()))
            found[function].append(Call(function, arguments, nudges, document["gives"]))
    return dict(found)


def _whole(tree: Tree, parts: Mapping[str, Tree]) -> Tree:
    """A tree with the parts in it that stand apart."""
    if isinstance(tree, list):
        return [_whole(one, parts) for one in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get(KIND) == PART:
        return parts[tree["as"]]
    return {name: _whole(one, parts) for name, one in tree.items()}


class _Parts:
    """What several trees have in common is written once."""

    def __init__(self, trees: Iterable[Tree]) -> None:
        self._count: Counter[str] = Counter()
        self.lines: dict[str, str] = {}
        """By name, each after those that it has in it."""
        for one in trees:
            self._look(one)

    def _look(self, tree: Tree) -> None:
        if isinstance(tree, dict | list):
            text = json.dumps(tree)
            self._count[text] += len(text) >= SHARED
            # What is within a part that is known stands in that one alone.
            if self._count[text] < 2:
                for one in tree.values() if isinstance(tree, dict) else tree:
                    self._look(one)

    def apart(self, tree: Tree, *, is_part: bool = False) -> Tree:
        """A tree with its parts named."""
        if not isinstance(tree, dict | list):
            return tree
        text = json.dumps(tree)
        if self._count[text] > 1 and not is_part:
            name = hashlib.sha256(text.encode()).hexdigest()[:8]
            if name not in self.lines:
                line = json.dumps({"part": name, "is": self.apart(tree, is_part=True)}, ensure_ascii=False)
                self.lines[name] = line
            return {KIND: PART, "as": name}
        if isinstance(tree, list):
            return [self.apart(one) for one in tree]
        return {name: self.apart(one) for name, one in tree.items()}


def write(calls: Iterable[Call]) -> None:
    """Keep these."""
    of_base: dict[tuple[str, str], dict[str, Call]] = defaultdict(dict)
    for one in calls:
        of_base[one.function, json.dumps(one.arguments)][json.dumps(one.nudges)] = one
    parts = _Parts(json.loads(arguments) for _, arguments in sorted(of_base))
    lines = []
    for (function, arguments), several in sorted(of_base.items()):
        apart = parts.apart(json.loads(arguments))
        lines.append(json.dumps({"of": function, "arguments": apart}, ensure_ascii=False))
        for nudges, one in several.items():
            changed = {} if nudges == "[]" else {"with": one.nudges}
            lines.append(json.dumps({**changed, "gives": one.text}, ensure_ascii=False))
    text = "".join(f"{line}\n" for line in (*parts.lines.values(), *lines))
    # Where the project lies on the machine that chose them is nobody's matter.
    PAGE.write_text(text.replace(str(ROOT), "/hwdyno"))
