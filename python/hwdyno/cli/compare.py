"""``hwdyno compare``: compare two Runs of one machine, and fail on a regression."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from hwdyno.cli.help import Help
from hwdyno.cli.main import BELOW, OK
from hwdyno.cli.runs import add_ceiling, add_store, loaded
from hwdyno.printable import columns, printable
from hwdyno.units import format_percent, format_value
from hwdyno.words import UserError, Value

if TYPE_CHECKING:
    from hwdyno.comparison import Change, Verdict

VERDICTS: tuple[Verdict, ...] = ("slower", "faster", "same", "unknown")

HELP = Help(
    usage="BEFORE AFTER",
    examples=(
        "hwdyno compare before.json after.json",
        "hwdyno compare before.json last --force",
        "hwdyno compare before.json after.json --json",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno compare``."""
    parser.add_argument("before", metavar="BEFORE", help="id or its beginning, last, or a file (also fio's JSON)")
    parser.add_argument("after", metavar="AFTER", help="the same")
    parser.add_argument("--force", action="store_true", help="compare runs of different machines")
    parser.add_argument("--json", action="store_true", help="print the changes as JSON")
    add_ceiling(parser)
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Print the ratio of each like point with its interval; 1 if any point or experiment became slower."""
    from hwdyno import comparison

    before, after = (loaded(name, args.store, args.ceiling) for name in (args.before, args.after))
    differ = comparison.unlike(before, after)
    if differ and not args.force:
        raise UserError(f"these runs are from different machines ({'; '.join(differ)}); use --force to compare them")
    changes = comparison.changes_of(before, after)
    if not changes:
        raise UserError("these runs have no point in common; compare runs of the same experiments and parameters")
    if args.json:
        plain = [asdict(change) for change in changes]
        sys.stdout.write(json.dumps(plain, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(table(printable(changes)))
        sys.stdout.write(_summary(changes, comparison.overall(changes), comparison.assumed(before, after)))
    return BELOW if any(change.verdict == "slower" for change in changes) else OK


def table(changes: list[Change]) -> str:
    """Lay the changes out in columns, the worst first; every throughput in one unit."""
    from hwdyno.report import figures

    moving = {
        name
        for change in changes
        for name in change.parameters
        if len({str(other.parameters.get(name)) for other in changes if other.parameters}) > 1
    }
    both = [value for change in changes for value in (change.before, change.after) if value]
    scale = figures.scale_for([value.value for value in both if value.unit == "bytes/s"], "bytes/s")

    def quantity(value: Value | None) -> str:
        if value is None:
            return ""
        return scale.quantity(value.value) if value.unit == "bytes/s" else format_value(value.value, value.unit)

    rows = [("experiment", "point", "before", "after", "after/before", "95% interval", "verdict")]
    for change in sorted(changes, key=lambda change: change.ratio.value):
        low, high = change.ratio.low, change.ratio.high
        rows.append(
            (
                change.experiment,
                f"all {change.points} points"
                if change.points > 1
                else " ".join(f"{name}={value}" for name, value in change.parameters.items() if name in moving) or "-",
                quantity(change.before),
                quantity(change.after),
                f"{change.ratio.value:.3f}",
                "unknown (no repeats)" if low is None or high is None else f"{low:.3f} to {high:.3f}",
                change.verdict,
            )
        )
    return columns(rows)


def _summary(changes: list[Change], mean: float | None, assumed: float | None) -> str:
    points = [change for change in changes if change.points == 1]
    counts = Counter(change.verdict for change in points)
    tally = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict] or verdict != "unknown")
    says = f"\n{len(points)} common points: {tally}; geometric mean {mean:.3f}\n"
    if doubted := sum(change.unverified for change in points):
        says += (
            f"{doubted} of them are unverified on a side: one reading there, without repeats, counters or a ceiling.\n"
        )
    if assumed is not None:
        says += (
            f"Runs are assumed to differ by {format_percent(assumed)} (standard deviation) by themselves: fewer than "
            "two earlier runs tell. Repeat each run three times for a sharper comparison.\n"
        )
    return says
