"""``hwdyno fleet``: which machine of many is slow, in what, by how much, and what is different about it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli.help import Help
from hwdyno.cli.options import add_store
from hwdyno.cli.statuses import BELOW, OK
from hwdyno.model.units import plural
from hwdyno.model.words import UserError
from hwdyno.report.sources import runs_in

if TYPE_CHECKING:
    from hwdyno.explain.fleet.slow import Fleet
    from hwdyno.model.words import Run
    from hwdyno.system.store import HistoryEntry, PointFigure

    Row = tuple[HistoryEntry, Sequence[PointFigure]]

HELP = Help(
    usage="[FOLDER | RUN …]",
    examples=("hwdyno fleet", "hwdyno fleet runs/ --json", "hwdyno fleet --metric storage"),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno fleet``."""
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="*",
        help="runs or folders of Run documents, one run a machine (default: all that are stored; of each the newest)",
    )
    parser.add_argument("--metric", metavar="TEXT", default="", help="only the figures with this in their name")
    parser.add_argument("--json", action="store_true", help="print the fleet as JSON")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Print the slow nodes; 1 where there is one."""
    from hwdyno.report import fleet as words
    from hwdyno.report.trends import label_points

    found, load, nameless = judge_runs(args.runs, args.metric, args.store)
    if nameless:
        sys.stderr.write(f"{plural(nameless, 'run')} without a host name: each file counts as one machine\n")
    labels = {slow_node.node.name: label_points(load(slow_node.node.entry.path)) for slow_node in found.slow}
    if args.json:
        sys.stdout.write(json.dumps(words.plain_fleet(found, labels), indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(words.format_fleet(found, labels))
    return BELOW if found.slow else OK


def judge_runs(names: Sequence[str], metric: str, where: str | None) -> tuple[Fleet, Callable[[str], Run], int]:
    """The fleet of the named Runs, or of all that are stored; what reads one again; how many have no host's name.

    Raises ``UserError``.
    """
    from hwdyno.explain.fleet.slow import judge_fleet, list_nodes
    from hwdyno.system.store import open_store

    nameless = 0
    if names:
        rows, load, nameless = _load_figures(names, where)
    else:
        store = open_store(where)
        rows, load = list(store.figures()), store.load
        if not rows:
            raise UserError(f"no runs are stored in {store.place}; `hwdyno run` makes the first")
    return judge_fleet(list_nodes(rows, metric), load), load, nameless


def _load_figures(names: Sequence[str], where: str | None) -> tuple[list[Row], Callable[[str], Run], int]:
    """The figures of the named Runs, what reads one again by its entry's path, and how many have no host's name.

    A Run without a host's name counts as one machine, named by its file: nothing else tells like machines apart.
    Raises ``UserError``.
    """
    from hwdyno.system.store import list_figures, make_entry

    runs = dict(runs_in(names, where))
    rows: list[Row] = []
    nameless = 0
    for path, run in runs.items():
        entry = make_entry(run, Path(path))
        if run.machine.hostname in {None, "", "unknown"}:
            nameless += 1
            entry = replace(entry, machine=f"{path.replace(', ', ',')}, {run.machine.cpu.model or 'unknown'}")
        rows.append((entry, list_figures(run)))
    return rows, runs.__getitem__, nameless
