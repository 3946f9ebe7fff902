"""``hwdyno export``: write Runs as CSV or Parquet, one row per point, or as OpenMetrics text."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hwdyno.cli.help import Help
from hwdyno.cli.options import add_ceiling, add_names, add_store
from hwdyno.model.words import UserError
from hwdyno.system import output_files

ALL = "all"

HELP = Help(
    usage="[RUN ...]",
    examples=(
        "hwdyno export --csv -",
        "hwdyno export all --parquet points.parquet",
        "hwdyno export before.json after.json --openmetrics points.txt",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno export``."""
    parser.add_argument(
        "runs",
        nargs="*",
        default=["last"],
        metavar="RUN",
        help="id or its beginning, last, all, or a file (default: last)",
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write CSV; - for stdout")
    parser.add_argument("--parquet", type=Path, metavar="FILE", help="write Parquet")
    parser.add_argument("--openmetrics", type=Path, metavar="FILE", help="write OpenMetrics text; - for stdout")
    parser.add_argument("--overwrite", action="store_true", help="replace files that hwdyno did not write")
    add_names(parser)
    add_ceiling(parser)
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Write the points of all the Runs together; CSV on stdout where no file is named."""
    from hwdyno.formats import openmetrics, table
    from hwdyno.report.redaction import name_machines, without_names
    from hwdyno.report.sources import ceilings_given, load_run

    names = args.runs if ALL not in args.runs else _all(args.store)
    given = ceilings_given(args.ceiling)
    runs = [load_run(name, args.store, given) for name in names]
    machines = name_machines(runs, with_names=args.with_names)
    if not args.with_names:
        runs = [without_names(run) for run in runs]
    named = list(zip(machines, runs, strict=True))
    rows = [{"machine": machine, **row} for machine, run in named for row in table.make_rows(run)]
    if not rows:
        raise UserError("these runs have no points to export")
    if args.parquet is not None:
        output_files.write_output(args.parquet, table.encode_parquet(rows), overwrite=args.overwrite)
    is_none_named = args.csv is None and args.parquet is None and args.openmetrics is None
    if args.csv is not None or is_none_named:
        _put(args.csv, table.format_csv(rows), overwrite=args.overwrite)
    if args.openmetrics is not None:
        _put(args.openmetrics, openmetrics.format_runs(named), overwrite=args.overwrite)
    return 0


def _put(path: Path | None, text: str, *, overwrite: bool) -> None:
    """Write to a file, or to stdout where there is none or it is ``-``."""
    if path is None or str(path) == "-":
        sys.stdout.write(text)
    else:
        output_files.write_output(path, text.encode(), overwrite=overwrite)


def _all(where: str | None) -> list[str]:
    from hwdyno.system.store import open_store

    entries = open_store(where).history()
    for entry in entries:
        if entry.error:
            sys.stderr.write(f"hwdyno: {entry.error}\n")
    return [entry.path for entry in reversed(entries) if entry.verdict not in {"running", "unreadable"}]
