"""``hwdyno history``: list the saved Runs, and since when which figure is another one."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

from hwdyno.cli.help import Help
from hwdyno.cli.options import add_store
from hwdyno.cli.statuses import ERROR, OK
from hwdyno.model.units import format_value, plural
from hwdyno.model.words import UserError
from hwdyno.system.printable import columns, printable

if TYPE_CHECKING:
    from hwdyno.system.store import HistoryEntry, Store

HEADLINES = 3
"""How many of a Run's best numbers its line shows."""

HELP = Help(examples=("hwdyno history", "hwdyno history --trends", "hwdyno history --prune 365d --yes"))


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno history``."""
    parser.add_argument(
        "--trends",
        action="store_true",
        help="find regressions: when a figure changed, and what changed with it (needs 10 runs)",
    )
    parser.add_argument(
        "--machine", metavar="TEXT", default="", help="part of the machine's name (default: the newest run's)"
    )
    parser.add_argument("--metric", metavar="TEXT", default="", help="only the figures with this in their name")
    parser.add_argument("--rebuild", action="store_true", help="rebuild the index from the stored documents")
    parser.add_argument(
        "--prune", metavar="AGE|COUNT", help="remove runs older than 90d, or all but the newest 100; asks first"
    )
    parser.add_argument("--yes", action="store_true", help="remove them without asking, in scripts")
    parser.add_argument("--send", action="store_true", help="send this machine's runs to the team's database")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    parser.add_argument("--limit", type=_count, metavar="N", help="only the newest N")
    add_store(parser)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' must be a whole number of 0 or more")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Print the list on stdout, and on stderr why a document cannot be read."""
    from hwdyno.system.store import TeamStore, open_store

    store = open_store(args.store)
    if args.send:
        if not isinstance(store, TeamStore):
            raise UserError("--send needs a database to send to; name it with --store postgresql://… or HWDYNO_STORE")
        sent = store.send()
        sys.stderr.write(f"{plural(len(sent), 'run')} sent to {store.place}{': ' if sent else ''}{', '.join(sent)}\n")
        return 0
    if args.yes and args.prune is None:
        raise UserError("--yes answers --prune, which is not given")
    if args.prune is not None:
        return _prune(args, store)
    if args.rebuild:
        count, has_index = store.rebuild()
        if has_index:
            sys.stderr.write(f"the index was rebuilt from {plural(count, 'document')}\n")
    if args.trends:
        return _trends(args, store)
    entries = store.history()
    if args.limit is not None:
        entries = entries[: args.limit]
    if args.json:
        sys.stdout.write(json.dumps([asdict(entry) for entry in entries], indent=2, ensure_ascii=False) + "\n")
    elif not entries:
        sys.stderr.write(f"no runs are stored in {store.place}; `hwdyno run` makes the first\n")
    else:
        sys.stdout.write(table(printable(entries)))
    for entry in entries:
        if entry.error:
            sys.stderr.write(f"hwdyno: {entry.error}\n")
    return 0


def _prune(args: argparse.Namespace, store: Store) -> int:
    """Remove old Runs once that is confirmed; reports and other files stay."""
    from hwdyno.system.store import TeamStore, choose_old, remove_runs

    if isinstance(store, TeamStore):
        raise UserError("--prune removes runs of a folder; a team's database is not pruned from here")
    chosen = choose_old(store.history(), args.prune)
    if not chosen:
        sys.stdout.write(f"nothing to remove in {store.place}\n")
        return OK
    if not args.yes:
        if not sys.stdin.isatty():
            raise UserError("--prune asks before it removes runs, and there is no terminal; add --yes in a script")
        sys.stdout.write(table(printable(chosen)))
        sys.stdout.flush()
        sys.stderr.write(f"remove {plural(len(chosen), 'run')} from {store.place}? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            sys.stdout.write("nothing was removed\n")
            return OK
    gone = remove_runs(store, chosen)
    sys.stdout.write(f"{plural(len(gone), 'run')} removed from {store.place}\n")
    for entry in chosen:
        if entry not in gone:
            sys.stderr.write(f"hwdyno: {entry.path} was not removed\n")
    return OK if len(gone) == len(chosen) else ERROR


def _trends(args: argparse.Namespace, store: Store) -> int:
    """Print the history of one machine's figures."""
    from hwdyno.explain.trends.account import make_account
    from hwdyno.explain.trends.time_series import make_history
    from hwdyno.report import trends

    rows = store.figures()
    # An imported Run's id does not say when it was.
    newest = sorted((entry for entry, _ in rows), key=lambda entry: (entry.started, entry.id), reverse=True)
    names = [entry.machine for entry in newest if args.machine.lower() in entry.machine.lower()]
    if not names:
        machines = sorted({printable(entry.machine) for entry, _ in rows})
        known = f"; there are {', '.join(machines)}" if machines else "; `hwdyno run` makes the first"
        raise UserError(f"no run of such a machine is stored in {store.place}{known}")
    history = make_history(rows, names[0], args.metric)
    accounts = [make_account(event, history.runs, store.load) for event in history.events]
    labels = trends.label_points(store.load(history.runs[-1].path))
    if args.json:
        sys.stdout.write(
            json.dumps(trends.plain_history(history, accounts, labels), indent=2, ensure_ascii=False) + "\n"
        )
    else:
        sys.stdout.write(trends.format_history(history, accounts, labels))
    return 0


def table(entries: list[HistoryEntry]) -> str:
    """Lay the list out in columns."""
    rows = [("id", "when", "machine", "profile", "verdict", "points", "headline")]
    rows += [
        (
            entry.id,
            _when(entry.started),
            entry.machine[:40],
            entry.study or entry.profile,
            entry.verdict,
            str(entry.points),
            ", ".join(f"{name} {format_value(value, unit)}" for name, value, unit in entry.headline[:HEADLINES])
            + (" …" if len(entry.headline) > HEADLINES else ""),
        )
        for entry in entries
    ]
    return columns(rows)


def _when(started: str) -> str:
    try:
        return f"{datetime.fromisoformat(started).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:
        return started
