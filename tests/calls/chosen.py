"""Chooses the calls that tell single-line changes from the product as it is."""

from __future__ import annotations

import gc
import inspect
import json
import os
import random
import signal
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import islice, zip_longest
from types import FrameType, FunctionType
from typing import Any, TypeVar

from mutants import resident
from mutants.changes import ROOT, Change, files, module_of
from mutants.covered import is_cache, users

from calls.functions import functions, is_private
from calls.kept import Call, comes_to
from calls.nudged import (
    Known,
    Nudge,
    Place,
    constants_of,
    edges,
    is_alike,
    more,
    nudged,
    places,
    removable,
    singles,
    without,
)
from calls.written import Tree

T = TypeVar("T")
PATHS = {str(ROOT / path): at for at, path in enumerate(files())}
PLACES = 1_000_000
"""More than the lines of a file."""
SLOWEST_S = 0.3
"""Of a call that is a candidate."""
OF_A_FUNCTION_S = 2.0
"""Processor time for each of three ways to make candidates."""
BASES, NUDGES = 8, 250
"""Of a function the calls whose values are changed, and of such a call the changes of one or two values."""
ALIKE = 10
"""Of such a call the changes of a value that change nothing else."""
SEARCHED_S, QUICK_S = 2.0, 0.02
"""Processor time for each of two ways to make more, and of a call whose edges are looked for."""
OF_A_COURSE = 60
"""Candidates of a function that run the same lines."""


@dataclass
class Candidate:
    """A call that could be chosen."""

    function: str
    base: int
    nudges: list[Nudge]
    text: str
    seconds: float
    lines: frozenset[int] = field(default=frozenset(), repr=False)


def traced(function: str, arguments: Tree) -> tuple[str, frozenset[int]]:
    """The same with the lines of the product that it runs."""
    lines: set[int] = set()
    Caches.clear()

    def local(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            lines.add(numbers[frame.f_code.co_filename] + frame.f_lineno)
        return local

    def entered(frame: FrameType, _event: str, _argument: Any) -> Any:
        return local if frame.f_code.co_filename in numbers else None

    numbers = {path: at * PLACES for path, at in PATHS.items()}
    sys.settrace(entered)
    try:
        text = comes_to(function, arguments)
    finally:
        sys.settrace(None)
    return text, frozenset(lines)


class Caches:
    """The caches of the product."""

    every: Sequence[Any] = ()

    @classmethod
    def find(cls) -> None:
        """Find those of all modules that are imported."""
        for path in files():
            import_module(module_of(path))
        cls.every = [one for one in gc.get_objects() if is_cache(one)]

    @classmethod
    def clear(cls) -> None:
        for one in cls.every:
            one.cache_clear()


def tried(function: str, base: int, tree: Tree, nudges: list[Nudge]) -> Candidate | None:
    """A candidate; none where the call fails, warns or takes long."""
    try:
        arguments = nudged(tree, nudges)
        text, lines = traced(function, arguments)
        before = time.perf_counter()
        again = comes_to(function, arguments)
        seconds = time.perf_counter() - before
    except Exception:
        return None
    if again != text or seconds > SLOWEST_S:
        return None
    return Candidate(function, base, nudges, text, seconds, SAME.setdefault(lines, lines))


SAME: dict[frozenset[int], frozenset[int]] = {}


def candidates(function: str, trees: list[Tree], known: Known) -> list[Candidate]:
    """The calls of a function, and what comes of them with other values in single places."""
    draw = random.Random(function)
    plain = [one for at, tree in _for(OF_A_FUNCTION_S, enumerate(trees)) if (one := tried(function, at, tree, []))]
    bases = _bases(plain)
    made: list[Candidate] = []
    each_s = OF_A_FUNCTION_S / max(1, len(bases))
    for base in bases:
        tree = trees[base.base]
        sensitive: list[Place] = []
        alike = 0
        for nudge in _for(each_s, singles(tree, function, known, draw)):
            one = tried(function, base.base, tree, [nudge])
            if one is None:
                continue
            is_other = (one.text, one.lines) != (base.text, base.lines)
            if is_other:
                sensitive.append(nudge[0])
            if is_other or alike < ALIKE:
                alike += not is_other
                made.append(one)
        for nudges in _for(each_s, islice(more(tree, function, known, sensitive, draw), NUDGES)):
            one = tried(function, base.base, tree, nudges)
            if one is not None:
                made.append(one)
    return list(_apart(plain + made))


def _for(seconds: float, many: Iterable[T]) -> Iterator[T]:
    """These for as long in processor time."""
    ends = time.process_time() + seconds
    for one in many:
        yield one
        if time.process_time() > ends:
            return


def _bases(plain: list[Candidate]) -> list[Candidate]:
    """Calls whose values are changed: those that run the most lines, and others that run or come to something else."""
    found: list[Candidate] = []
    lines: set[int] = set()
    texts: set[str] = set()
    for one in sorted(plain, key=lambda one: -len(one.lines)):
        if len(found) < BASES and (one.lines - lines or one.text not in texts):
            found.append(one)
            lines |= one.lines
            texts.add(one.text)
    return found


def _apart(every: list[Candidate]) -> Iterator[Candidate]:
    """Those that differ in what they come to, and of each course through the lines not too many."""
    of_course: dict[frozenset[int], set[str]] = defaultdict(set)
    for one in every:
        texts = of_course[one.lines]
        if one.text not in texts and len(texts) < OF_A_COURSE:
            texts.add(one.text)
            yield one


def searched(function: str, trees: list[Tree], known: Known) -> list[Candidate]:
    """More candidates of a function: edges of its courses, and values that are its own constants."""
    draw = random.Random(function)
    plain = [one for at, tree in _for(OF_A_FUNCTION_S, enumerate(trees)) if (one := tried(function, at, tree, []))]
    constants = constants_of(functions()[function])
    made: list[Candidate] = []
    bases = _bases([one for one in plain if one.seconds < QUICK_S])
    each_s = SEARCHED_S / max(1, len(bases))
    for base in bases:
        tree = trees[base.base]

        def differs(nudge: Nudge, base: Candidate = base, tree: Tree = tree) -> bool | None:
            one = tried(function, base.base, tree, [nudge])
            if one is None:
                return None
            made.append(one)
            return one.lines != base.lines or not is_alike(one.text, base.text)

        for _ in _for(each_s, edges(tree, function, draw, differs)):
            pass
        every = [
            (place, other)
            for place, label, value in places(tree, function)
            for other in known.others(label, value, constants)
        ]
        draw.shuffle(every)
        for nudge in _for(each_s, every):
            differs(nudge)
    return list(_apart(made))


def search(part: int, of: int, taken: dict[str, list[Tree]], places: Sequence[tuple[str, int]]) -> list[Candidate]:
    """More candidates of a share of the functions that have these lines."""
    warnings.simplefilter("error")
    known = Known((name, tree) for name, trees in taken.items() for tree in trees[:30])
    Caches.find()
    of_path: dict[str, set[int]] = defaultdict(set)
    for path, line in places:
        of_path[str(ROOT / path)] |= {line, *users(path, line)}
    wanted = {name for name, one in functions().items() if name in taken and _has_any(one, of_path)}
    found: list[Candidate] = []
    for at, name in enumerate(sorted(wanted)[part::of]):
        found += searched(name, taken[name], known)
        if at % 10 == 0:
            print(part, at, len(wanted), len(found), flush=True)
    return found


def _has_any(function: FunctionType, of_path: Mapping[str, set[int]]) -> bool:
    """Whether one of these lines is a function's own."""
    lines, first = inspect.getsourcelines(function)
    return not of_path.get(function.__code__.co_filename, set()).isdisjoint(range(first, first + len(lines)))


def gather(part: int, of: int, taken: dict[str, list[Tree]]) -> list[Candidate]:
    """All candidates of a share of the functions."""
    warnings.simplefilter("error")
    known = Known((name, tree) for name, trees in taken.items() for tree in trees[:30])
    Caches.find()
    found: list[Candidate] = []
    for at, name in enumerate(sorted(taken)[part::of]):
        found += candidates(name, taken[name], known)
        if at % 50 == 0:
            print(part, at, len(found), flush=True)
    return found


MOST_S, MOST = 0.7, 600
"""Processor time and candidates for a change."""
KNOWN = 30
"""Candidates that are chosen already, of those tried first."""
FIRST = 30
"""Calls of public functions that are tried before any of a private one."""
HANGS_S = 20


class Choice:
    """For each change a candidate that shows it, as few in all as a greedy choice takes."""

    def __init__(self, every: list[Candidate], trees: dict[str, list[str]]) -> None:
        self.every, self.trees = every, trees
        groups: dict[tuple[str, frozenset[int]], list[int]] = defaultdict(list)
        for number, one in enumerate(every):
            groups[one.function, one.lines].append(number)
        self.groups = list(groups.values())
        self.by_line: dict[int, list[int]] = defaultdict(list)
        for at, (_, lines) in enumerate(groups):
            for line in lines:
                self.by_line[line].append(at)
        self.chosen: dict[int, None] = {}
        """By number; a dictionary keeps their order."""
        self.bases: set[tuple[str, int]] = set()

    def candidates(self, lines: list[int]) -> list[int]:
        """Those that run one of these lines, in the order in which they are tried."""
        groups = sorted({at for line in lines for at in self.by_line.get(line, ())})
        known = sorted(
            (one for at in groups for one in self.groups[at] if one in self.chosen),
            key=lambda one: len(self.every[one].lines),
        )
        public: list[list[int]] = []
        private: list[list[int]] = []
        for at in groups:
            fresh = sorted((one for one in self.groups[at] if one not in self.chosen), key=self._cost)
            if fresh:
                (private if is_private(self.every[fresh[0]].function) else public).append(fresh)
        first, second = (_in_turn(sorted(some, key=self._cost_of_group)) for some in (public, private))
        return (known[:KNOWN] + first[:FIRST] + _in_turn([first[FIRST:], second]))[:MOST]

    def _cost(self, number: int) -> tuple[bool, int, float]:
        one = self.every[number]
        is_new = (one.function, one.base) not in self.bases
        characters = len(one.text) + (len(self.trees[one.function][one.base]) if is_new else 0)
        return is_new, characters // 1000, one.seconds

    def _cost_of_group(self, group: list[int]) -> tuple[int, bool]:
        one = self.every[group[0]]
        return len(one.lines), (one.function, one.base) not in self.bases

    def take(self, number: int) -> None:
        """Choose it."""
        self.chosen[number] = None
        self.bases.add((self.every[number].function, self.every[number].base))

    def call(self, number: int) -> Call:
        """A candidate as a call."""
        one = self.every[number]
        return Call(one.function, json.loads(self.trees[one.function][one.base]), tuple(one.nudges), one.text)


def _in_turn(many: list[list[int]]) -> list[int]:
    return [one for turn in zip_longest(*many) for one in turn if one is not None]


def choose(part: int, of: int, choice: Choice, todo: Sequence[Change]) -> tuple[list[Call], list[str]]:
    """Candidates that show the changes, and the changes that none shows."""
    Caches.find()
    resident.Known.find()
    gc.freeze()
    words: Counter[str] = Counter()
    alive: list[str] = []
    paths = files()
    for at, change in enumerate(todo[part::of]):
        start = paths.index(change.path) * PLACES
        lines = [start + change.line]
        if change.of_threshold or lines[0] not in choice.by_line:
            lines = [start + one for one in users(change.path, change.line)]
        numbers = choice.candidates(lines)
        word = _shown(change, choice, numbers) if numbers else "untested"
        if word.isdigit():
            choice.take(numbers[int(word)])
        else:
            alive.append(f"{word}: {change}")
            print(alive[-1], flush=True)
        words["killed" if word.isdigit() else word] += 1
        if at % 100 == 0:
            print(part, at, dict(words), len(choice.chosen), flush=True)
    print(part, "end", dict(words), len(choice.chosen), flush=True)
    return [choice.call(one) for one in choice.chosen], alive


def _shown(change: Change, choice: Choice, numbers: list[int]) -> str:
    """Which of the candidates shows the change, tried in a fork: its place; else a word."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.setitimer(signal.ITIMER_PROF, HANGS_S)
            os.write(write_end, _tried_under(change, choice, numbers, write_end).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        # One that ends the process or hangs is the last that it has begun.
        word = ["elsewhere", *pipe.read().split()][-1]
    os.waitpid(child, 0)
    return word


def _tried_under(change: Change, choice: Choice, numbers: list[int], out: int) -> str:
    how = resident.patched(change, resident.Known.functions[str(ROOT / change.path)])
    if not how:
        return "elsewhere"
    Caches.clear()
    ended = time.process_time() + MOST_S
    for at, number in enumerate(numbers):
        os.write(out, f"{at} ".encode())
        one = choice.call(number)
        try:
            text = one.comes_to()
        except Exception:
            return ""
        if text != one.text:
            return ""
        if time.process_time() > ended:
            break
    return "alive"


SHRUNK_S = 4.0
"""Processor time to make a call smaller."""


def shrunk(calls: Sequence[Call]) -> list[Call]:
    """The calls of one base with fewer arguments, as long as each runs the same lines and comes to the same."""
    tree, function = calls[0].arguments, calls[0].function
    courses = [traced(function, nudged(tree, one.nudges)) for one in calls]
    used = {place[: at + 1] for one in calls for place, _ in one.nudges for at in range(len(place))}
    gone: list[Place] = []
    for place in _for(SHRUNK_S, sorted(removable(tree), key=len)):
        if place in used or any(place[: len(one)] == one for one in gone):
            continue
        try:
            smaller = without(tree, place)
            alike = all(
                traced(function, nudged(smaller, one.nudges)) == course
                for one, course in zip(calls, courses, strict=True)
            )
        except Exception:
            continue
        if alike:
            tree = smaller
            gone.append(place)
    return [replace(one, arguments=tree) for one in calls]
