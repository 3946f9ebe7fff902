"""``hwdyno watch``: measure again within a budget, compare with this machine's own history, and report what changed."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.cli import run as measuring
from hwdyno.cli.help import Help
from hwdyno.cli.options import add_dry_run, add_measurement, add_names, add_store, command_line
from hwdyno.cli.perform import choose_host, measure_with_progress, status
from hwdyno.cli.statuses import BELOW, DEGRADED, INTERRUPTED, OK
from hwdyno.model.units import format_duration, parse_duration, plural
from hwdyno.model.words import Run, UserError
from hwdyno.system import output_files, signals

if TYPE_CHECKING:
    from hwdyno.explain.trends.news import News
    from hwdyno.measure.scenarios import Request

SHORTEST_S = 1.0
"""Shortest time from one turn to the next."""

HELP = Help(
    usage="[PLAN.toml]",
    options=("every", "budget", "only", "path", "post", "metrics", "print", "node", "json", "store"),
    examples=(
        "hwdyno watch --only storage.iodepth --budget 1m --path .",
        "hwdyno watch --only memory --budget 1m --every 1h --metrics hwdyno.prom",
        "hwdyno watch --only memory --budget 1m --every 1h --print systemd",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno watch``."""
    measuring.add_plan(parser)
    add_measurement(parser)
    group = parser.add_argument_group("watch")
    group.add_argument("--every", metavar="TIME", help="measure again this often, e.g. 1h (default: once)")
    group.add_argument("--post", metavar="URL", help="post a JSON document there when something changed")
    group.add_argument("--metrics", type=Path, metavar="FILE", help="write OpenMetrics there after each turn")
    group.add_argument(
        "--print", choices=("systemd", "cronjob"), metavar="KIND", help="print a systemd timer or a Kubernetes cronjob"
    )
    group.add_argument("--node", metavar="NAME", help="the cronjob's node: a history is of one machine")
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print what is new as a line of JSON")
    output.add_argument("--overwrite", action="store_true", help="replace a file that hwdyno did not write")
    output.add_argument("--quiet", action="store_true", help="no progress on stderr")
    add_names(output)
    add_store(output)
    add_dry_run(output)
    parser.set_defaults(out=None, no_page=True)


def run(args: argparse.Namespace) -> int:
    """Measure once, or again and again; 1 where something changed."""
    every_s = parse_duration(args.every) if args.every else None
    if every_s is not None and every_s < SHORTEST_S:
        raise UserError(f"--every {args.every} is shorter than {format_duration(SHORTEST_S)}")
    if args.post is not None:
        from hwdyno.system.web_post import check_address

        check_address(args.post)
    if args.print:
        from hwdyno.cli import watch_units

        sys.stdout.write(watch_units.format_units(args, every_s))
        return OK
    if args.node:
        raise UserError("--node names the node of --print cronjob")
    if args.metrics is not None:
        from hwdyno.formats.openmetrics import HEADER

        output_files.check_output(args.metrics, overwrite=args.overwrite, header=HEADER)
    if not args.dry_run:
        from hwdyno.explain.trends.change_points import search_library

        search_library()  # What it needs at the end is missed before it measures.
    if every_s is None or args.dry_run:
        return take_turn(args)
    return _take_turns(args, every_s)


def _request(args: argparse.Namespace) -> Request:
    """What each turn measures, by the command that measures it without the watch."""
    return measuring.request(args, command=command_line("hwdyno run", measuring.list_words(args)))


# --- turns


def next_turn(begun_s: float, every_s: float, now_s: float) -> int:
    """The number of the next turn that is due after now, the first one being 0."""
    return int((now_s - begun_s) // every_s) + 1


def _take_turns(args: argparse.Namespace, every_s: float) -> int:
    """Measure until a signal ends it. What fails in a later turn is a line, and the next turn comes."""
    begun_s, number = time.monotonic(), 0
    while True:
        try:
            ends = take_turn(args)
        except (UserError, OSError) as error:
            if number == 0 or isinstance(error, BrokenPipeError):
                raise
            _says(f"this turn failed: {error}")
        else:
            if signals.is_end_requested():
                return ends
        now_s = time.monotonic()
        due = next_turn(begun_s, every_s, now_s)
        if due > number + 1:
            took = format_duration(now_s - begun_s - number * every_s)
            _says(f"{plural(due - number - 1, 'turn')} missed: this one took {took}, and --every is {args.every}")
        number = due
        time.sleep(max(0.0, begun_s + number * every_s - time.monotonic()))
        args.began_s = time.monotonic()


def take_turn(args: argparse.Namespace) -> int:
    """Measure and store one Run, and report what is new; the exit status."""
    from hwdyno.cli import dry_run
    from hwdyno.measure.scenarios import Interrupted, make_scenario

    host = choose_host(args)
    scenario = make_scenario(_request(args), host)
    if args.dry_run:
        return dry_run.list_scenario(scenario, host)
    try:
        measured = measure_with_progress(scenario, args, host)
    except Interrupted as stop:
        _says(str(stop))
        return INTERRUPTED
    if measured.interrupted:
        return INTERRUPTED
    return _report(_judge(measured, args), args)


# --- what is new


@dataclass(frozen=True)
class Judged:
    """A Run with what is new, in words and as plain values."""

    run: Run
    news: News
    text: str
    plain: dict[str, Any]


def _judge(measured: Run, args: argparse.Namespace) -> Judged:
    """Compare a Run with the earlier ones of the same machine and plan."""
    from hwdyno.explain.trends.account import make_account
    from hwdyno.explain.trends.news import find_news
    from hwdyno.report import trends
    from hwdyno.system.store import list_figures, make_entry, open_store

    store = open_store(args.store)
    mine = make_entry(measured, Path(measured.id))
    # A Run that found no place in its store is judged all the same.
    rows = {entry.id: (entry, figures) for entry, figures in store.figures() if entry.command == measured.command}
    rows.setdefault(mine.id, (mine, list_figures(measured)))
    news = find_news(rows.values(), mine.machine)

    def load(name: str) -> Run:
        return measured if name == mine.path else store.load(name)

    accounts = [make_account(event, news.history.runs, load) for event in news.events]
    labels = trends.label_points(measured)
    text = trends.format_news(news, accounts, labels)
    return Judged(measured, news, text, trends.plain_news(news, accounts, labels))


def _report(judged: Judged, args: argparse.Namespace) -> int:
    """Print, post and write what is new; 1 where something is, else as the Run's verdict says."""
    changed = bool(judged.plain["changed"])
    sys.stdout.write(json.dumps(judged.plain, ensure_ascii=False) + "\n" if args.json else judged.text)
    sys.stdout.flush()
    if changed and args.post:
        _post(args.post, judged.plain)
    if args.metrics is not None:
        counts = {"slower": judged.news.slower, "faster": judged.news.faster}
        _write_metrics(judged.run, counts, args)
    ends = BELOW if changed else status(judged.run, None)
    if ends == DEGRADED and not args.quiet:
        _says(f"exit status 3: {judged.run.verdict or 'the Run was not judged'}")
    return ends


def _post(url: str, document: Mapping[str, Any]) -> None:
    """Post what changed; a server that does not take it costs a line and nothing else."""
    from hwdyno.system.web_post import check_address, post_json

    if why := post_json(url, dict(document)):
        _says(f"the post to {check_address(url)} failed: {why}")


def _write_metrics(run_: Run, changed: Mapping[str, int], args: argparse.Namespace) -> None:
    from hwdyno.formats.openmetrics import HEADER, changed_samples, format_newest, list_samples
    from hwdyno.report.redaction import name_machines, without_names

    (machine,) = name_machines([run_], with_names=args.with_names)
    shown = run_ if args.with_names else without_names(run_)
    text = format_newest([(machine, (*list_samples(shown), *changed_samples(changed)))])
    output_files.write_output(args.metrics, text.encode(), overwrite=args.overwrite, header=HEADER)


def _says(text: str) -> None:
    sys.stderr.write(f"hwdyno: {text}\n")
    sys.stderr.flush()
