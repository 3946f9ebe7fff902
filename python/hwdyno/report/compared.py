"""A comparison in words: what differs first, then each experiment's ratio, then the points that changed most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from hwdyno.analysis.resources import find_rate_word
from hwdyno.explain.comparison import (
    Change,
    ChangeVerdict,
    Compared,
    Difference,
    Unlike,
    assumed_spread,
    fails,
    overall,
    status,
)
from hwdyno.explain.comparison.matching import LOAD, LOOPBACK, UNIT, WAY
from hwdyno.model.units import format_number, format_percent, plural
from hwdyno.model.words import ExperimentResult, Run, Scalar, Value
from hwdyno.report import figures
from hwdyno.report.machine import fact_name, fact_text
from hwdyno.report.rows import point_label
from hwdyno.system.printable import columns, printable

VERDICTS: tuple[ChangeVerdict, ...] = ("slower", "faster", "same", "unknown")
FIRST_DIFFERENCES = 6
"""Differences of a side that are shown above the table; the others wait for ``--verbose``."""
FIRST_EXPERIMENTS, FIRST_POINTS = 10, 5
_MAX_NAME, _MAX_VALUE = 34, 40
"""Characters of a point's label, and of a value in the line of differences."""
_LINE = 100
_UNITS = {"bytes/s": "bandwidth (bytes/s)", "operations/s": "rate (operations/s)"}


def difference_words(difference: Difference) -> str:
    """``kernel 6.1 → 6.8``; of a list, only what one side has alone."""
    name = fact_name(difference.path)
    if isinstance(difference.before, list) and isinstance(difference.after, list):
        gone, new = (
            [str(word) for word in some if word not in other]
            for some, other in ((difference.before, difference.after), (difference.after, difference.before))
        )
        marks = [f"−{word}" for word in gone] + [f"+{word}" for word in new]
        return _short(f"{name} {' '.join(marks)}", 2 * _MAX_VALUE)
    before, after = (
        _short(fact_text(difference.path, value), _MAX_VALUE) for value in (difference.before, difference.after)
    )
    return f"{name} {before} → {after}"


def unlike_words(unlike: Unlike) -> str:
    """What parts two results: ``bs 4 KiB against 128 KiB``, ``cached against direct``."""
    if unlike.fact == "direct":
        before, after = ("direct" if value else "cached" for value in (unlike.before, unlike.after))
        return f"{before} against {after}"
    if unlike.fact == UNIT:
        before, after = (_UNITS.get(str(value), str(value)) for value in (unlike.before, unlike.after))
        return f"{before} against {after}"
    if unlike.fact == LOAD:
        return f"another axis, {unlike.before} against {unlike.after}"
    if unlike.fact == WAY:
        ways = (str(value) if value == LOOPBACK else f"a network ({value})" for value in (unlike.before, unlike.after))
        return " against ".join(ways)
    return f"{unlike.fact} {_scalar(unlike, unlike.before)} against {_scalar(unlike, unlike.after)}"


def _scalar(unlike: Unlike, value: Scalar) -> str:
    return "not stated" if value is None else figures.parameter(unlike.axis, value)


def refusal(sides: Sequence[Compared], base: str) -> str:
    """Why nothing can be compared, in one line that names what differs."""
    side = sides[0]
    base, name = (_short(printable(side_name), _MAX_VALUE) for side_name in (base, side.name))
    if side.before is None:
        return f"{base} has no result that {name} has a figure for; compare it with a run of that device"
    reasons = dict.fromkeys(
        printable(f"{unlike_words(mismatch)} in {_short(mismatch.experiment, _MAX_VALUE)}")
        for mismatch in _each_experiment(side.matching.unlike)
    )
    if not reasons:
        resources = {experiment.resource for experiment in side.before.experiments} ^ {
            experiment.resource for experiment in side.after.experiments
        }
        others = _short(printable(", ".join(sorted(resources))), _MAX_VALUE)
        reasons = {f"they measured other things ({others or 'no result is valid'})": None}
    more = f" and {len(reasons) - 3} more" if len(reasons) > 3 else ""
    return (
        f"{base} and {name} are unlike: {'; '.join(list(reasons)[:3])}{more}; "
        "compare results of the same test and settings"
    )


def _each_experiment(unlike: Iterable[Unlike]) -> list[Unlike]:
    """The first reason of each experiment, the page cache and the path before any parameter."""
    order = {"direct": 0, WAY: 0, LOAD: 1, UNIT: 1}
    first: dict[str, Unlike] = {}
    for mismatch in sorted(unlike, key=lambda mismatch: order.get(mismatch.fact, 2)):
        first.setdefault(mismatch.experiment, mismatch)
    return list(first.values())


def format_comparison(
    base: str, sides: Sequence[Compared], limit: float | None = None, *, verbose: bool = False
) -> str:
    """What the terminal shows: one screen, or with ``verbose`` every difference and every point."""
    lines = [line for side in sides for line in _head(base, side, verbose=verbose)]
    if any(side.changes for side in sides):
        tables = _whole(base, sides) if verbose else _screen(base, sides, limit)
        lines += ["", *(printable(line) for line in tables)]
    lines.append("")
    # Lines that hold for several sides are printed once, below each side's own.
    last = dict.fromkeys(line for side in sides for line in summary(base, side, limit, named=len(sides) > 1))
    lines += [printable(line) for line in last]
    return "".join(f"{line}\n" for line in lines)


def _head(base: str, side: Compared, *, verbose: bool) -> Iterator[str]:
    name, first = printable(side.name), printable(base)
    if side.before is None:
        yield f"{first} beside {name}: each figure of the maker and the point that comes nearest to it"
        return
    found = [printable(difference_words(difference)) for difference in side.differences]
    yield f"{first} → {name} ({describe_machines(side)})"
    if verbose:
        yield from (f"  {text}" for text in found)
    elif found:
        more = len(found) - FIRST_DIFFERENCES
        yield from _wrap_parts(
            "Differs: ", found[:FIRST_DIFFERENCES] + ([f"{more} more (--verbose)"] if more > 0 else [])
        )
    else:
        yield (
            "No difference is known in machine and settings."
            if is_described(side)
            else ("A side describes no machine, so what differs is unknown.")
        )
    left = [f"{mismatch.experiment}: {unlike_words(mismatch)}" for mismatch in _each_experiment(side.matching.unlike)]
    if left:
        shown = left if verbose else left[:3]
        more_words = [f"{len(left) - len(shown)} more (--verbose)"] if len(left) > len(shown) else []
        yield from _wrap_parts("Not compared: ", [printable(text) for text in shown] + more_words)
    if verbose:
        for experiment, before, after in side.matching.alone:
            yield f"  without partner in {printable(experiment)}: {before} before, {after} after"


def describe_machines(side: Compared) -> str:
    """Whether the two sides are of one machine, in words."""
    if side.before is None:
        return "catalogue"
    if not is_described(side):
        return "machine unknown"
    return "one machine" if side.is_one_machine else "different machines"


def is_described(side: Compared) -> bool:
    """Whether both sides say what machine they are from."""
    return side.before is not None and all(run.machine.cpu.model is not None for run in (side.before, side.after))


def _wrap_parts(start: str, parts: Sequence[str]) -> Iterator[str]:
    line = start
    for at, part in enumerate(parts):
        text = part + ("; " if at < len(parts) - 1 else "")
        if len(line) + len(text) > _LINE and line.strip() != start.strip():
            yield line.rstrip()
            line = " " * len(start)
        line += text
    yield line.rstrip()


# --- tables


def list_rows(side: Compared) -> list[Change]:
    """One change an experiment, all its points together or the only one: what is proven first, the largest first."""
    whole = {change.experiment: change for change in side.changes if change.points > 1}
    lone = [change for change in side.changes if change.points == 1 and change.experiment not in whole]
    return sorted((*whole.values(), *lone), key=_urgency)


def _urgency(change: Change) -> tuple[int, float]:
    """Losses first, then gains, then what has no repeats, each by its size."""
    order = {"slower": 0, "faster": 1, "unknown": 2, "same": 3}[change.verdict]
    return order, -change.ratio.value if change.verdict == "faster" else change.ratio.value


def list_moved(side: Compared) -> list[Change]:
    """The points that are slower or faster, the largest change first."""
    found = [change for change in side.changes if change.points == 1 and change.verdict in {"slower", "faster"}]
    return sorted(found, key=_urgency)


def label(side: Compared, change: Change) -> str:
    """A change's point among those of its experiment, or ``all 7 points``."""
    return f"all {plural(change.points, 'point')}" if change.points > 1 else _label(side.after, change) or "-"


def _label(run: Run, change: Change) -> str:
    return _labels(_key(run, change.experiment)).get(repr(change.parameters), "")


class _Of:
    """An experiment by its identity, so that its labels are made once."""

    def __init__(self, result: ExperimentResult | None) -> None:
        self.result = result

    def __hash__(self) -> int:
        return id(self.result)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Of) and other.result is self.result


def _key(run: Run, experiment: str) -> _Of:
    return _Of(next((result for result in run.experiments if result.name == experiment), None))


@lru_cache(maxsize=256)
def _labels(of: _Of) -> dict[str, str]:
    if of.result is None:
        return {}
    return {repr(point.parameters): point_label(of.result, at) for at, point in enumerate(of.result.points)}


def ratio_text(change: Change) -> str:
    """``0.902``, with more digits below a tenth."""
    return format_number(change.ratio.value, "")


def interval_text(ratio: Value) -> str:
    """The 95% interval of a ratio, or why there is none."""
    if ratio.low is None or ratio.high is None:
        return "no repeats"
    return f"{format_number(ratio.low, '')} to {format_number(ratio.high, '')}"


def format_sides(side: Compared, change: Change) -> tuple[str, str]:
    """Both sides in one unit; empty for an experiment as a whole."""
    both = [value for value in (change.before, change.after) if value is not None]
    if not both:
        return "", ""
    result = _key(side.after, change.experiment).result
    word = find_rate_word(result) if result is not None else ""
    values = [value.value for value in both]
    timed = both[0].unit == "ns"
    scale = figures.latency_scale(values) if timed else figures.scale_for(values, both[0].unit, word)
    before, after = (scale.quantity(value.value) if value else "" for value in (change.before, change.after))
    return before, after


def _screen(base: str, sides: Sequence[Compared], limit: float | None) -> Iterator[str]:
    if len(sides) > 1:
        yield from _many(base, sides)
        return
    (side,) = sides
    found = list_rows(side)
    first = (
        ("experiment", "point", "before", "after") if side.before is not None else ("figure", "point", "maker", base)
    )
    rows: list[tuple[str, ...]] = [(*first, "ratio", "95% interval", "verdict")]
    rows += [_row(side, change, limit) for change in found[:FIRST_EXPERIMENTS]]
    yield from columns([tuple(map(_cell, row)) for row in printable(rows)]).splitlines()
    if len(found) > FIRST_EXPERIMENTS:
        yield f"… and {len(found) - FIRST_EXPERIMENTS} more experiments (--verbose)"
    wholes = {change.experiment for change in side.changes if change.points > 1}
    points = [change for change in list_moved(side) if change.experiment in wholes]
    if points:
        yield ""
        yield "Points that changed most:"
        rows = [_row(side, change, limit) for change in points[:FIRST_POINTS]]
        yield from columns([tuple(map(_cell, row)) for row in printable(rows)]).splitlines()
        if len(points) > FIRST_POINTS:
            yield f"… and {plural(len(points) - FIRST_POINTS, 'more point')} (--verbose)"


def _cell(text: str) -> str:
    return _short(text, _MAX_NAME)


def _row(side: Compared, change: Change, limit: float | None) -> tuple[str, ...]:
    before, after = format_sides(side, change)
    verdict = verdict_words(side, change) + (" (below the limit)" if fails(change, limit) and limit is not None else "")
    name = change.stated.partition(",")[0] if change.stated else change.experiment
    return (name, label(side, change), before, after, ratio_text(change), interval_text(change.ratio), verdict)


def verdict_words(side: Compared, change: Change) -> str:
    """The verdict; beside a maker's figure a point is below or above it."""
    if change.verdict == "unknown":
        return f"cannot tell ({change.doubt or 'no repeats'})"
    return _word(side, change.verdict)


def _word(side: Compared, verdict: ChangeVerdict) -> str:
    if verdict == "unknown":
        return "cannot tell"
    if side.before is not None:
        return verdict
    return {"slower": "below", "faster": "above", "same": "not told apart"}.get(verdict, verdict)


def _many(base: str, sides: Sequence[Compared]) -> Iterator[str]:
    """Several sides in columns: the ratio of each experiment to the first side, with a mark for what is proven."""
    marks = {"slower": "-", "faster": "+", "same": "=", "unknown": "?"}
    names: dict[tuple[str, str], dict[int, str]] = {}
    for at, side in enumerate(sides):
        for change in list_rows(side):
            name = (
                change.stated.partition(",")[0] or change.experiment,
                "" if change.points > 1 else label(side, change),
            )
            names.setdefault(name, {})[at] = f"{ratio_text(change)} {marks[change.verdict]}"
    rows = [("experiment", *(_short(side.name, 24) for side in sides))]
    shown = list(names.items())[:FIRST_EXPERIMENTS]
    rows += [
        (_short(" ".join(filter(None, name)), _MAX_NAME), *(of.get(at, "") for at in range(len(sides))))
        for name, of in shown
    ]
    yield f"Ratio to {base}: - slower, + faster, = same, ? cannot tell"
    yield from columns(printable(rows)).splitlines()
    if len(names) > len(shown):
        yield f"… and {len(names) - len(shown)} more experiments (--verbose)"


def _whole(base: str, sides: Sequence[Compared]) -> Iterator[str]:
    for side in sides:
        if len(sides) > 1:
            yield f"{base} → {side.name}"
        rows: list[tuple[str, ...]] = [("experiment", "point", "before", "after", "ratio", "95% interval", "verdict")]
        rows += [_row(side, change, None) for change in sorted(side.changes, key=lambda change: change.ratio.value)]
        yield from columns(printable(rows)).splitlines()


def summary(base: str, side: Compared, limit: float | None, *, named: bool = False) -> list[str]:
    """How many points changed, by how much in all, and what that is worth."""
    return list(_summary(base, side, limit, named=named))


def _summary(base: str, side: Compared, limit: float | None, *, named: bool) -> Iterator[str]:
    if side.finding is not None:
        yield f"{side.finding.says} {side.finding.advice}"
    points = [change for change in side.changes if change.points == 1]
    if not points:
        return
    counts = Counter(change.verdict for change in points)
    is_blind = counts["unknown"] == len(points)
    tally = ", ".join(
        f"{counts[verdict]} {_word(side, verdict)}"
        for verdict in VERDICTS
        if counts[verdict] or (verdict != "unknown" and side.before is not None and not is_blind)
    )
    mean = overall(list(side.changes))
    start = f"{side.name}: " if named else ""
    common = plural(len(points), "common point") if side.before is not None else plural(len(points), "figure")
    yield f"{start}{common}: {tally}; geometric mean {mean:.3f}" if mean is not None else f"{start}{common}: {tally}"
    if any(change.before is not None and change.before.unit == "ns" for change in points):
        yield "A ratio is of speeds: above 1 is faster, also where times are shown."
    if doubted := sum(change.unverified for change in points):
        yield f"{doubted} of them are unverified on a side: one reading there, without repeats, counters or a ceiling."
    spread = assumed_spread(side.before, side.after) if side.before is not None else None
    if spread is not None and any(change.p_value is not None for change in side.changes):
        yield (
            f"Runs are assumed to differ by {format_percent(spread)} (standard deviation) by themselves: fewer than "
            "two earlier runs tell."
        )
    if limit is not None:
        state, whose = status([side], limit), base if side.before is not None else "the maker's figure"
        worst = [change for change in side.changes if fails(change, limit)]
        says = {
            "passed": f"No loss below {format_percent(limit)} is proven.",
            "failed": f"Failed: {plural(len(worst), 'result')} below {format_percent(limit)} of {whose}.",
            "open": f"Open: of results below {format_percent(limit)} of {whose}, nothing proves that they are.",
        }
        yield start + says[state]
    elif any(fails(change, None) for change in side.changes) and not side.is_one_machine and side.before is not None:
        yield "Another machine's loss is no regression: exit 0. Use --fail-under to fail on it."


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
