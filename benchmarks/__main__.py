"""``make bench``: prints our figures and the peers', with each target met or not."""

from __future__ import annotations

import argparse
import importlib
import math
import pkgutil
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from hwdyno._engine import Guard
from hwdyno.measure import engine
from hwdyno.model.units import format_count
from hwdyno.system import signals

import benchmarks
from benchmarks import Bench, BenchError, BenchmarkRow

RESOURCES = [found.name for found in pkgutil.iter_modules(benchmarks.__path__) if not found.name.startswith("_")]
HEADS = ("what", "unit", "ours", "theirs", "ratio", "95% interval", "target", "verdict")


def main() -> int:
    """Measure every resource; 0 unless a peer is missing or broken, or a signal ends it."""
    args = _arguments()
    signals.take_over("bench", Guard)
    began = time.monotonic()
    rows: list[BenchmarkRow] = []
    with signals.delay_exit():
        folder = Path(tempfile.mkdtemp(prefix=".hwdyno-bench-", dir=args.path)).resolve()
        signals.register(signals.Stage.REMOVE, partial(shutil.rmtree, folder, ignore_errors=True))
    with signals.keeping(), signals.halting(signals.end_children):
        status = _measure(args, folder, rows)
        print(_table(rows))
        met = sum(row.verdict == "met" for row in rows)
        judged = sum(row.target is not None for row in rows)
        print(
            f"\n{met} of {judged} targets met; median of {args.pairs} pairs in turn, bootstrap intervals; open: the "
            f"interval spans the target; {time.monotonic() - began:.0f} s"
        )
    return signals.status(status)


def _measure(args: argparse.Namespace, folder: Path, rows: list[BenchmarkRow]) -> int:
    """Add the rows as they are measured in this folder, and remove it; gives the exit status."""
    bench = Bench(folder, args.pairs, args.runtime, engine.run, _progress)
    status = 0
    try:
        for name in args.only or RESOURCES:
            for row in importlib.import_module(f"benchmarks.{name}").measure(bench):
                rows.append(row)  # a peer that breaks later must not lose the rows before
                signals.check()
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
    except Exception as error:
        if signals.is_end_requested():  # What it ended has failed in one way or another.
            print("bench: interrupted", file=sys.stderr)
        elif isinstance(error, BenchError):
            print(f"bench: {error}", file=sys.stderr)
            status = 1
        else:
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return status


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--path", type=Path, default=Path(), help="a folder on the storage to measure (default: here)")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of ours and theirs a point (default 5)")
    parser.add_argument("--runtime", type=float, default=1.0, help="seconds a reading (default 1)")
    parser.add_argument(
        "--only", action="append", choices=RESOURCES, help="one resource, such as storage; may be repeated"
    )
    args = parser.parse_args()
    if not args.path.is_dir():
        parser.error(f"--path {args.path}: no such directory; name one on the storage to measure")
    if args.pairs < 1 or not 0 < args.runtime < math.inf:
        parser.error(f"--pairs {args.pairs} --runtime {args.runtime:g}: at least one pair, of more than 0 seconds")
    return args


def _progress(says: str) -> None:
    print(f"bench: {says}", file=sys.stderr, flush=True)


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if unit == "ns" and value < 1000 else f"{value:.0f}" if unit == "ns" else format_count(value)


def _table(rows: list[BenchmarkRow]) -> str:
    cells = [HEADS]
    for row in rows:
        between = "-" if row.low is None or row.high is None else f"{row.low:.3g} to {row.high:.3g}"
        unit = "" if row.ratio is not None else f" {row.unit}"
        cells.append(
            (
                row.title,
                row.unit,
                _figure(row.ours, row.unit),
                _figure(row.theirs, row.unit),
                "-" if row.ratio is None else f"{row.ratio:.3f}",
                between,
                row.target.says(unit) if row.target else "-",
                row.verdict or "-",
            )
        )
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


if __name__ == "__main__":
    sys.exit(main())
