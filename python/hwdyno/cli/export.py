"""``hwdyno export``: write Runs as CSV or Parquet, one row a point, the unit in each column's name."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hwdyno.words import UserError


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno export``."""
    parser.add_argument(
        "runs", nargs="*", default=["last"], metavar="RUN", help="id, the beginning of one, or a file (default: last)"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write CSV; - is stdout")
    parser.add_argument("--parquet", type=Path, metavar="FILE", help="write Parquet")
    parser.add_argument(
        "--store", metavar="WHERE", help="where Runs are kept (default $HWDYNO_HOME or the data directory)"
    )


def run(args: argparse.Namespace) -> int:
    """Write the rows of all the Runs together; CSV on stdout where no file is named."""
    from hwdyno.cli.runs import loaded
    from hwdyno.formats import table

    rows = [row for name in args.runs for row in table.rows_of(loaded(name, args.store))]
    if not rows:
        raise UserError("these runs have no points, so there is nothing to export")
    if args.parquet is not None:
        table.write_parquet(rows, args.parquet)
    if args.csv is not None and str(args.csv) != "-":
        table.write_text(table.csv_of(rows), args.csv)
    elif args.csv is not None or args.parquet is None:
        sys.stdout.write(table.csv_of(rows))
    return 0
