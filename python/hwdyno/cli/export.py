"""``hwdyno export``: write Runs as CSV or Parquet, one row per point, with the unit in each column's name."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hwdyno import door
from hwdyno.cli.help import Help
from hwdyno.cli.sources import add_ceiling
from hwdyno.words import UserError

HELP = Help(
    usage="[RUN ...]",
    examples=(
        "hwdyno export --csv -",
        "hwdyno export last --csv points.csv",
        "hwdyno export before.json after.json --parquet points.parquet",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno export``."""
    parser.add_argument(
        "runs", nargs="*", default=["last"], metavar="RUN", help="id or its beginning, last, or a file (default: last)"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write CSV; - for stdout")
    parser.add_argument("--parquet", type=Path, metavar="FILE", help="write Parquet")
    parser.add_argument("--overwrite", action="store_true", help="replace files that hwdyno did not write")
    add_ceiling(parser)
    parser.add_argument("--store", metavar="WHERE", help="folder of the stored Runs (default $HWDYNO_HOME)")


def run(args: argparse.Namespace) -> int:
    """Write the rows of all the Runs together; CSV on stdout where no file is named."""
    from hwdyno.cli.sources import ceilings_given, loaded
    from hwdyno.formats import table

    given = ceilings_given(args.ceiling)
    rows = [row for name in args.runs for row in table.rows_of(loaded(name, args.store, given))]
    if not rows:
        raise UserError("these runs have no points to export")
    if args.parquet is not None:
        door.write_output(args.parquet, table.parquet_of(rows), overwrite=args.overwrite)
    if args.csv is not None and str(args.csv) != "-":
        door.write_output(args.csv, table.csv_of(rows).encode(), overwrite=args.overwrite)
    elif args.csv is not None or args.parquet is None:
        sys.stdout.write(table.csv_of(rows))
    return 0
