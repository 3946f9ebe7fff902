"""The way from a request to a report: measure it, print and write the report, and give the exit status."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hwdyno import session
from hwdyno.cli.options import named_by
from hwdyno.cli.statuses import BELOW, DEGRADED, INTERRUPTED, OK
from hwdyno.model.words import Run, UserError
from hwdyno.system import output_files
from hwdyno.system.failures import attempt
from hwdyno.system.program_name import as_called

if TYPE_CHECKING:
    from hwdyno.cli import progress
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.hosts.elsewhere import Elsewhere
    from hwdyno.measure.scenarios import Request, Scenario
    from hwdyno.system.store import Store

PAGE = "report.html"


def perform(
    request: Request, args: argparse.Namespace, also: Callable[[Run, argparse.Namespace], None] | None = None
) -> int:
    """Measure a request, keep the Run, report it (by ``also``, too), and give the exit status."""
    from hwdyno.measure.scenarios import make_scenario

    host = choose_host(args)
    return perform_scenario(make_scenario(request, host), args, host, also)


def choose_host(args: argparse.Namespace) -> Host:
    """The host that points run on; with ``--plan-for`` that of a survey, on which nothing can be run from here."""
    if survey := getattr(args, "plan_for", None):
        from hwdyno.measure.hosts import engine_files

        return engine_files.host_of_survey(survey)
    return session.this_site()


def perform_scenario(
    scenario: Scenario,
    args: argparse.Namespace,
    host: Host,
    also: Callable[[Run, argparse.Namespace], None] | None = None,
) -> int:
    """Measure a scenario, keep the Run, report it (by ``also``, too), and give the exit status."""
    from hwdyno.cli import dry_run, elsewhere
    from hwdyno.measure.scenarios import Interrupted

    if getattr(args, "plan_for", None) and not args.dry_run:
        return elsewhere.print_plan(scenario, cast("Elsewhere", host), args)
    if not args.quiet:
        for text in scenario.remarks:
            sys.stderr.write(text + "\n")
    if args.dry_run:
        return dry_run.list_scenario(scenario, host)
    try:
        if scenario.is_prepared_only:
            with scenario.ready(host, _make_progress(args).says):
                return OK
        run = measure_with_progress(scenario, args, host)
    except Interrupted as stop:
        sys.stderr.write(f"{stop}\n")
        return INTERRUPTED
    show(run, args)
    if not args.json:
        for line in scenario.summary(run):
            sys.stdout.write(line + "\n")
    if also is not None:
        also(run, args)
    ends = status(run, args.fail_under)
    if ends == DEGRADED and not args.quiet:
        sys.stderr.write(f"exit status 3: {run.verdict or _explain_missing_verdict(run)}\n")
    return ends


def _explain_missing_verdict(run: Run) -> str:
    from hwdyno.measure.runner.faults import NO_FINDINGS

    return next((why for why in run.degraded if why.startswith(NO_FINDINGS)), "the Run was not judged")


def _make_progress(args: argparse.Namespace) -> progress.LiveBar | progress.Lines:
    from hwdyno.cli import progress

    return progress.choose_progress(args.quiet)


def measure_with_progress(scenario: Scenario, args: argparse.Namespace, host: Host) -> Run:
    """Measure a scenario with progress shown, and keep the Run."""
    from hwdyno.system.store import open_store

    store = open_store(args.store)
    if args.out is not None and not args.no_page and os.path.lexists(args.out / PAGE):
        from hwdyno.report import page

        # A page that is in the way is named before the measurement, not after it.
        output_files.check_output(args.out / PAGE, overwrite=args.overwrite, header=page.HEADER)
    now_s = time.monotonic()
    run = session.measure_scenario(
        scenario, host, store, _make_progress(args), spent_s=now_s - getattr(args, "began_s", now_s)
    )
    report_trouble(store)
    return run


def keep(run: Run, store: Store) -> None:
    """Store a whole Run; where a database does not take it, say that it is kept on this machine."""
    store.save(run)
    report_trouble(store)


def report_trouble(store: Store) -> None:
    """Say on stderr why a Run is not in its store, and where it is."""
    if store.trouble:
        sys.stderr.write(f"hwdyno: {store.trouble}\n")


def show(run: Run, args: argparse.Namespace) -> None:
    """Print the report (or the document, as it is stored) on stdout, and write the page, which others may see."""
    try:
        with contextlib.suppress(BrokenPipeError):  # The reader has seen enough: that changes no status.
            _print(run, args)
    finally:  # A stdout that takes nothing does not keep the page, nor the words by which the Run is found.
        _write_page(run, args)


def _print(run: Run, args: argparse.Namespace) -> None:
    if args.json:
        from hwdyno.system.store import to_json

        sys.stdout.write(to_json(run) + "\n")
        for why in run.degraded:
            sys.stderr.write(f"degraded: {why}\n")
    else:
        from hwdyno.measure.runner.faults import why_not_stored
        from hwdyno.report.terminal import print_run

        print_run(run, verbose=args.verbose, named=named_by(run, args.store))
        sys.stdout.flush()
        if why := why_not_stored(run):  # No finding: without a place for the Run nothing else can show it later.
            sys.stderr.write(f"degraded: {why}\n")
    sys.stdout.flush()


def _write_page(run: Run, args: argparse.Namespace) -> None:
    if args.no_page:
        return
    from hwdyno.report import page
    from hwdyno.report.redaction import without_names

    shared = run if args.with_names else without_names(run)
    again = as_called(f"hwdyno report {shlex.join(named_by(run, args.store))}")
    path = (args.out or Path("hwdyno-runs") / run.id) / PAGE
    try:
        output_files.output_folder(path.parent)
        written = attempt("the page", partial(page.write, shared, path, overwrite=args.overwrite), None)
    except UserError as error:
        sys.stderr.write(f"no page: {error}; run `{again} --html FILE` to try again\n")
        return
    sys.stderr.write((f"report: {written}\n" if written else "") + f"again:  {again}\n")


def status(run: Run, fail_under: float | None) -> int:
    """The exit status for a Run."""
    if run.interrupted:
        return INTERRUPTED
    if fail_under is not None and below(run, fail_under):
        return BELOW
    if run.imported_from or not run.verdict:  # How it was measured is not known: its points alone decide.
        from hwdyno.system.store import run_status

        return OK if run_status(run) == "valid" else DEGRADED
    return OK if run.verdict == "sound" else DEGRADED


def below(run: Run, share: float) -> bool:
    """Whether some metric's best point is below ``share`` of the tightest ceiling that bounds it; each is named."""
    from hwdyno.report.ceiling_shares import reached_shares

    reached = reached_shares(run)
    for metric, best in reached.items():
        if best < share:
            sys.stderr.write(f"below {share:.0%}: {metric} reaches {best:.1%} of its ceiling\n")
    return any(best < share for best in reached.values())
