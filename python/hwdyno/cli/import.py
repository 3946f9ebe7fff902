"""``hwdyno import``: stores a Run of what a bare engine has read on another host, or of another tool's result."""

from __future__ import annotations

import argparse
from pathlib import Path

from hwdyno.cli.help import Help
from hwdyno.cli.options import add_output
from hwdyno.cli.perform import keep, perform_scenario, show, status

HELP = Help(
    usage="FILE",
    examples=(
        "hwdyno import readings.jsonl",
        "hwdyno import fio.json --json",
        "hwdyno import readings.jsonl --no-page",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno import``."""
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="readings of hwdyno-engine measure, or a result that report can show"
    )
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Make the Run, store it, and report it."""
    from hwdyno.cli import elsewhere
    from hwdyno.measure.hosts import engine_files
    from hwdyno.report.sources import load_run, read_head
    from hwdyno.system.store import open_store

    if engine_files.is_readings(read_head(args.file)):
        words, host = engine_files.read_readings(args.file)
        scenario, planned_by = elsewhere.rebuild_scenario(words, host, args)
        return perform_scenario(scenario, planned_by, host)
    found = load_run(str(args.file), args.store)
    keep(found, open_store(args.store))
    show(found, args)
    return status(found, args.fail_under)
