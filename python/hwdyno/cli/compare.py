"""``hwdyno compare``: compare two Runs of one machine, and fail on a regression."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from hwdyno.cli.main import BELOW, OK
from hwdyno.cli.runs import loaded
from hwdyno.printable import columns, printable
from hwdyno.units import format_value
from hwdyno.words import UserError

if TYPE_CHECKING:
    from hwdyno.comparison import Change


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno compare``."""
    parser.add_argument("before", metavar="BEFORE", help="id, the beginning of one, last, or a file (fio's JSON too)")
    parser.add_argument("after", metavar="AFTER", help="likewise")
    parser.add_argument("--force", action="store_true", help="compare runs of unlike machines all the same")
    parser.add_argument("--json", action="store_true", help="print the changes as JSON")
    parser.add_argument(
        "--store", metavar="WHERE", help="where Runs are kept (default $HWDYNO_HOME or the data directory)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the ratio of each like point with its interval; 1 if any point became slower."""
    from hwdyno import comparison

    before, after = loaded(args.before, args.store), loaded(args.after, args.store)
    differ = comparison.unlike(before, after)
    if differ and not args.force:
        raise UserError(f"these runs are of unlike machines ({'; '.join(differ)}): --force compares them all the same")
    changes = comparison.changes_of(before, after)
    if not changes:
        raise UserError("these runs share no point: compare runs of the same experiments and parameters")
    if args.json:
        plain = [{**asdict(change), "verdict": change.verdict} for change in changes]
        sys.stdout.write(json.dumps(plain, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(table(printable(changes)))
        sys.stdout.write(_summary(changes, comparison.overall(changes)))
    return BELOW if any(change.verdict == "slower" for change in changes) else OK


def table(changes: list[Change]) -> str:
    """Lay the changes out in columns, the worst first."""
    moving = {
        name
        for change in changes
        for name in change.parameters
        if len({str(other.parameters.get(name)) for other in changes}) > 1
    }
    rows = [("experiment", "point", "before", "after", "after/before", "95% interval", "verdict")]
    for change in sorted(changes, key=lambda change: change.ratio.value):
        low, high = change.ratio.low, change.ratio.high
        rows.append(
            (
                change.experiment,
                " ".join(f"{name}={value}" for name, value in change.parameters.items() if name in moving) or "-",
                format_value(change.before.value, change.before.unit),
                format_value(change.after.value, change.after.unit),
                f"{change.ratio.value:.3f}",
                "unknown (single values)" if low is None or high is None else f"{low:.3f} to {high:.3f}",
                change.verdict,
            )
        )
    return columns(rows)


def _summary(changes: list[Change], mean: float | None) -> str:
    counts = {verdict: sum(change.verdict == verdict for change in changes) for verdict in ("slower", "faster", "same")}
    tally = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return f"\n{len(changes)} like points: {tally}; geometric mean {mean:.3f}\n"
