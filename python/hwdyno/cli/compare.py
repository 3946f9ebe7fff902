"""``hwdyno compare``: compare Runs, other tools' results and makers' figures, and fail on a regression."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli.help import Help
from hwdyno.cli.options import add_ceiling, add_link, add_map, add_names, add_store, share
from hwdyno.cli.statuses import BELOW, DEGRADED, OK
from hwdyno.model.words import UserError
from hwdyno.report.sources import STDIN
from hwdyno.system import output_files

if TYPE_CHECKING:
    from hwdyno.explain.comparison import Compared

HELP = Help(
    usage="BASE [OTHER …]",
    options=("device", "fail-under", "verbose", "json", "html", "junit", "map", "overwrite", "store"),
    examples=(
        "hwdyno compare before.json after.json",
        "hwdyno compare before.json after.json --fail-under 95% --junit compare.xml",
        "hwdyno compare last --device 'Samsung 990 PRO 2TB' --html compare.html",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno compare``."""
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        help="id or its beginning, last, a file, another tool's output or a table; the first is the base",
    )
    parser.add_argument(
        "--device", action="append", default=[], metavar="NAME", help="compare with the maker's figures of this device"
    )
    parser.add_argument(
        "--fail-under", type=share, metavar="PERCENT", help="exit with 1 where a proven loss leaves less than this"
    )
    parser.add_argument("--verbose", action="store_true", help="print every difference and every point")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the page: curves over each other, one file")
    parser.add_argument("--junit", metavar="FILE", type=Path, help="write JUnit XML for CI; - for stdout")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that hwdyno did not write")
    add_map(parser)
    add_ceiling(parser)
    add_link(parser)
    add_store(parser)
    add_names(parser)


def run(args: argparse.Namespace) -> int:
    """Print what differs and each ratio; 1 for a proven loss, 3 for one that cannot be proven, by ``exit_status``."""
    from hwdyno.report import compared, compared_files

    base, sides = compared_sides(args)
    if not any(side.is_alike for side in sides):
        raise UserError(compared.refusal(sides, base))
    for side in sides:
        if not side.is_alike:
            sys.stderr.write(f"not compared: {compared.refusal([side], base)}\n")
    sides = [side for side in sides if side.is_alike]
    if args.html is not None:
        from hwdyno.report import compared_page

        compared_page.write(base, sides, args.html, limit=args.fail_under, overwrite=args.overwrite)
    on_stdout = str(args.junit) == STDIN
    if args.junit is not None and not on_stdout:
        text = compared_files.junit(base, sides, args.fail_under)
        output_files.write_output(args.junit, text.encode(), overwrite=args.overwrite)
    if args.json:
        sys.stdout.write(compared_files.json_text(base, sides, args.fail_under))
    elif on_stdout:
        sys.stdout.write(compared_files.junit(base, sides, args.fail_under))
    else:
        sys.stdout.write(compared.format_comparison(base, sides, args.fail_under, verbose=args.verbose))
    return exit_status(sides, args.fail_under)


def exit_status(sides: Sequence[Compared], limit: float | None) -> int:
    """0 where no loss is proven, 1 where one is, 3 where a result is below the limit without repeats to prove it.

    Without ``--fail-under`` any proven loss counts, but only between Runs of one machine.
    """
    from hwdyno.explain.comparison import FAILED, OPEN, status

    return {FAILED: BELOW, OPEN: DEGRADED}.get(status(sides, limit), OK)


def compared_sides(args: argparse.Namespace) -> tuple[str, list[Compared]]:
    """The name of the base, and every other side beside it. Raises ``UserError``."""
    from hwdyno.analysis.ceilings.named import parse_device
    from hwdyno.explain.comparison import device_compared, runs_compared
    from hwdyno.report.sources import ceilings_given, load_run, parse_maps

    if len(args.runs) + len(args.device) < 2:
        raise UserError("one result has nothing to be compared with; name another one, or --device NAME")
    given, maps = ceilings_given(args.ceiling, args.link), parse_maps(args.map)
    first, *others = [load_run(name, args.store, given, maps) for name in args.runs]
    base, *names = _names(args.runs)
    sides = [runs_compared(first, other, name) for name, other in zip(names, others, strict=True)]
    sides += [device_compared(first, name, parse_device(name)) for name in args.device]
    if not args.with_names:
        from hwdyno.report.redaction import hide_names

        # Compared first: two machines differ by the names that a reader need not see.
        sides = hide_names([first, *others], sides)
    return base, sides


def _names(typed: Sequence[str]) -> list[str]:
    """What each side is called: a file without its folder, unless two have the same name."""
    short = [Path(name).name or name for name in typed]
    times = Counter(short)
    return [short_name if times[short_name] == 1 else name for short_name, name in zip(short, typed, strict=True)]
