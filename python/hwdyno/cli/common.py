"""What ``run`` and the commands of single resources share: their options, and the way from a Plan to a report."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hwdyno.cli.main import BEGAN, BELOW, DEGRADED, GIVEN, INTERRUPTED, OK
from hwdyno.cli.sources import add_limits, add_names, add_store, named_by
from hwdyno.model.units import format_bytes, format_duration, plural
from hwdyno.model.words import Run, UserError
from hwdyno.system import safe_files
from hwdyno.system.program_name import as_called

if TYPE_CHECKING:
    from hwdyno.measure.dry_run import Line
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.peers import Peer
    from hwdyno.measure.plan import Limits, Plan
    from hwdyno.measure.scenarios import Kind, Preparation, Request, Scenario
    from hwdyno.model.machine import Machine
    from hwdyno.system.store import Store


SHORTEST_SHOWN_S = 0.1
PAGE = "report.html"
AXIS_PREFIX = "axis_"
"""Prefix of an axis option's name among the parsed arguments."""


def add_options(parser: argparse.ArgumentParser, *, many_paths: bool = False) -> None:
    """The options for how to measure and how to report; ``--path`` may be repeated, as text."""
    how = parser.add_argument_group("measurement")
    how.add_argument("--profile", type=_named, metavar="NAME", help="quick, standard or full (default quick)")
    if many_paths:
        help_text = "storage to measure (default: here); repeat it to compare several"
        how.add_argument("--path", action="append", default=[], metavar="[NAME=]DIR", help=help_text)
    else:
        how.add_argument("--path", type=Path, metavar="DIR", help="directory or device to measure (default: here)")
    how.add_argument(
        "--peers", action="store_true", default=None, help="also run the reference tools (fio, STREAM, iperf3 …)"
    )
    how.add_argument("--seed", type=_seed, metavar="N", help="seed of the order of points and of random offsets")
    how.add_argument("--budget", metavar="TIME", help="finish within this time, e.g. 10m")
    add_limits(how)
    what = add_output(parser)
    what.add_argument(
        "--dry-run", action="store_true", help="list the points with their time and bytes; measure nothing"
    )


def add_output(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The options for how to report and to keep a Run."""
    what = parser.add_argument_group("output")
    what.add_argument("--json", action="store_true", help="print the Run as JSON instead of the report")
    what.add_argument("--verbose", action="store_true", help="print every table and finding below the scorecard")
    what.add_argument("--out", type=_folder, metavar="DIR", help="folder of the report (default ./hwdyno-runs/ID)")
    what.add_argument("--overwrite", action="store_true", help="replace files that hwdyno did not write, but no link")
    add_store(what)
    add_names(what)
    what.add_argument("--no-page", action="store_true", help="write no HTML page")
    what.add_argument("--quiet", action="store_true", help="no progress on stderr")
    what.add_argument(
        "--fail-under",
        type=share,
        metavar="PERCENT",
        help="exit with 1 below this share of a ceiling",
    )
    return what


def add_scenario(parser: argparse.ArgumentParser, kind: Kind) -> None:
    """The options that a scenario declares."""
    where = parser.add_argument_group(kind.title) if kind.title else parser
    for one in kind.options:
        if not one.flag.startswith("-"):
            parser.add_argument(one.name, nargs="*", metavar=one.metavar, help=one.help)
        elif one.kind is bool:
            where.add_argument(one.flag, dest=one.name, action="store_true", help=one.help)
        else:
            how: dict[str, Any] = {"action": "append", "default": []} if one.is_list else {"default": one.default}
            how["type"] = one.kind
            where.add_argument(one.flag, dest=one.name, metavar=one.metavar, help=one.help, **how)


def given_axes(args: argparse.Namespace) -> dict[str, str]:
    """The axes given on the command line, as typed."""
    given = {
        name.removeprefix(AXIS_PREFIX): value
        for name, value in vars(args).items()
        if name.startswith(AXIS_PREFIX) and value is not None
    }
    return given | {"overwrite": "true"} if args.overwrite and "write_iolog" in given else given


def request_of(args: argparse.Namespace, command: str, **more: Any) -> Request:
    """The request that the options make; ``more`` has the fields that no option sets."""
    from hwdyno.measure.scenarios import Request, place_of
    from hwdyno.model.units import parse_duration

    if isinstance(args.path, list):
        places = tuple(place_of(text) for text in args.path or ["."])
    else:
        path = args.path or Path()
        places = ((path.name, path.absolute()),)
    return Request(
        places=places,
        command=command_line(command, getattr(args, "typed", None)),
        profile=args.profile or "quick",
        axes=given_axes(args),
        load=getattr(args, "load", None),
        peers=bool(args.peers),
        seed=args.seed,
        budget_s=parse_duration(args.budget) if args.budget else None,
        limits=limits_of(args),
        **{"options": vars(args), **more},
    )


def limits_of(args: argparse.Namespace) -> Limits:
    """The limits that ``--ceiling``, ``--link`` and ``--device`` give. Raises ``UserError`` before anything is made."""
    from hwdyno.analysis.ceilings.limits import known_ceilings
    from hwdyno.measure.plan import Limits

    given = Limits(tuple(args.ceiling), tuple(args.link), tuple(args.device))
    for resource in ("storage", "compute"):
        known_ceilings(resource, given.ceilings, given.links, given.devices)
    return given


def _named(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("name a profile: quick, standard or full")
    return text


def _folder(text: str) -> Path:
    """A folder that can be written or created: the report must not fail after the measurement."""
    path = Path(text)
    try:
        there = next(one for one in (path, *path.absolute().parents) if one.exists())
        writable = os.access(there, os.W_OK)
    except OSError as error:  # Such as a name that is too long.
        raise argparse.ArgumentTypeError(f"{text[:60]}: {error.strerror}") from None
    if not there.is_dir():
        raise argparse.ArgumentTypeError(f"{there} is not a directory")
    if not writable:
        raise argparse.ArgumentTypeError(f"{there} is not writable")
    return path


def _seed(text: str) -> int:
    from hwdyno.measure.plan import MAX_SEED

    if not text.isdecimal() or int(text[:20]) > MAX_SEED:
        raise argparse.ArgumentTypeError(f"'{text[:30]}' must be a whole number from 0 to {MAX_SEED}")
    return int(text)


def share(text: str) -> float:
    """A percentage from 0 to 100 as a share of one, of a command line. Raises ``argparse.ArgumentTypeError``."""
    try:
        percent = float(text.rstrip("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise argparse.ArgumentTypeError(f"'{text}' must be a percentage from 0 to 100")
    return percent / 100


def this_machine(args: argparse.Namespace | None = None) -> Host:
    """The host that points run on, or the site of the agents that the commands in ``HWDYNO_AGENTS`` start.

    With ``--plan-for`` it is the host of that survey, on which nothing can be run from here.
    """
    if survey := getattr(args, "plan_for", None):
        from hwdyno.cli import elsewhere

        return elsewhere.host_of(survey)
    from hwdyno.measure.hosts import ranks

    if (site := ranks.site()) is not None:
        return site
    if commands := os.environ.get("HWDYNO_AGENTS"):
        from hwdyno.measure.hosts.several_hosts import of_commands

        return of_commands(commands)
    from hwdyno.measure.hosts.local import Local

    return Local()


def command_line(command: str, arguments: Sequence[str] | None = None) -> str:
    """The command line, quoted for a shell, without a database's password."""
    from hwdyno.system.store import without_password

    typed = shlex.join([*command.split(), *map(without_password, GIVEN[1:] if arguments is None else arguments)])
    # A name that is not UTF-8 fits no document, so it is escaped.
    return os.fsencode(typed).decode(errors="backslashreplace")


def perform(
    what: Plan | Scenario,
    args: argparse.Namespace,
    host: Host | None = None,
    also: Callable[[Run, argparse.Namespace], None] | None = None,
) -> int:
    """Measure a plan or a scenario, keep the Run, report it (by ``also``, too), and give the exit status."""
    from hwdyno.measure.scenarios import Interrupted, Scenario

    host = host or this_machine()
    scenario = what if isinstance(what, Scenario) else Scenario(plan=what)
    if getattr(args, "plan_for", None) and not args.dry_run:
        from hwdyno.cli import elsewhere

        return elsewhere.print_plan(scenario, cast(Any, host))
    if not args.quiet:
        for text in scenario.remarks:
            sys.stderr.write(text + "\n")
    if args.dry_run:
        return dry_run(scenario, host)
    try:
        if scenario.is_prepared_only:
            with scenario.ready(host, says(args)):
                return OK
        run = measured(scenario, args, host)
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
        sys.stderr.write(f"exit status 3: {run.verdict or 'the Run was not judged'}\n")
    return ends


def says(args: argparse.Namespace) -> Callable[[str], None]:
    """Write a scenario's messages about its preparations to stderr."""

    def write(text: str) -> None:
        if not args.quiet:
            sys.stderr.write(f"{text}\n")

    return write


def measured(scenario: Scenario, args: argparse.Namespace, host: Host) -> Run:
    """Measure a scenario with progress shown, and keep the Run."""
    from hwdyno.cli import progress
    from hwdyno.measure.scenarios.scenario import Bench
    from hwdyno.system.store import new_id, open_store

    store = open_store(args.store)
    if args.out is not None and not args.no_page and os.path.lexists(args.out / PAGE):
        from hwdyno.report import page

        # A page that is in the way is named before the measurement, not after it.
        safe_files.check_output(args.out / PAGE, overwrite=args.overwrite, header=page.HEADER)
    before_s = time.monotonic() - BEGAN[0] if BEGAN else 0.0
    with scenario.ready(host, says(args)) as plan, progress.shown(args.quiet) as shown:
        # Findings and report load and do about twice as much as the start did, at this machine's present speed.
        plan = replace(plan, prepared_s=plan.prepared_s + before_s, ending_s=2 * before_s)
        bench = Bench(
            host=host,
            store=store,
            run_id=new_id(),
            progress=shown,
            peers=peers_of(plan, host, shown),
            explain=lambda run: explained(with_stored(run, store) if scenario.has_earlier else run),
        )
        run = scenario.measure(plan, bench)
    if store.trouble:
        sys.stderr.write(f"hwdyno: {store.trouble}\n")
    return run


def with_stored(run: Run, store: Store) -> Run:
    """The Run with the spread between earlier runs of its machine stated, if the store has any."""
    from hwdyno.explain.repeatability import MAX_EARLIER, with_earlier
    from hwdyno.system.store import StoreError, machine_of

    names = {one.name for one in run.experiments}
    earlier: list[Run] = []
    with suppress(StoreError):
        for entry in store.history():
            alike = entry.machine == machine_of(run) and names & {name for name, _, _ in entry.headline}
            if entry.id != run.id and alike and len(earlier) < MAX_EARLIER:
                with suppress(StoreError):  # An unreadable Run is left out.
                    earlier.append(store.load(entry.path))
    return with_earlier(run, earlier)


def peers_of(plan: Plan, host: Host, shown: Any) -> list[Peer]:
    """The plan's peers that are installed; missing ones are reported. On several hosts, the runner checks each."""
    if not plan.peers:
        return []
    from hwdyno.measure import peers
    from hwdyno.measure.hosts.measured_site import site_of

    wanted = dict.fromkeys(name for planned in plan.experiments for name in planned.experiment.peers)
    here = []
    for name in wanted:
        peer = peers.find(name)
        if not site_of(host).several and peer.version() is None:
            shown.says(
                f"{name} is not installed, so it is left out; {getattr(peer, 'install', 'install it')} to compare"
            )
        else:
            here.append(peer)
    return here


def explained(run: Run) -> Run:
    """The Run with its curves, findings and verdict."""
    from hwdyno.report import scorecard

    return scorecard.explained(run)


def show(run: Run, args: argparse.Namespace) -> None:
    """Print the report (or the document, as it is stored) on stdout, and write the page, which others may see."""
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
    if args.no_page:
        return
    from hwdyno.report import page
    from hwdyno.report.redaction import without_names

    shared = run if args.with_names else without_names(run)
    again = as_called(f"hwdyno report {shlex.join(named_by(run, args.store))}")
    path = (args.out or Path("hwdyno-runs") / run.id) / PAGE
    try:
        safe_files.output_folder(path.parent)
        page.write(shared, path, overwrite=args.overwrite)
    except UserError as error:
        sys.stderr.write(f"no page: {error}; run `{again} --html FILE` to try again\n")
        return
    sys.stderr.write(f"report: {path}\nagain:  {again}\n")


def status(run: Run, fail_under: float | None) -> int:
    """The exit status for a Run."""
    if run.interrupted:
        return INTERRUPTED
    if fail_under is not None and below(run, fail_under):
        return BELOW
    if run.imported_from or not run.verdict:  # How it was measured is not known: its points alone decide.
        from hwdyno.system.store import status_of

        return OK if status_of(run) == "valid" else DEGRADED
    return OK if run.verdict == "sound" else DEGRADED


def below(run: Run, share: float) -> bool:
    """Whether some metric's best point stays below ``share`` of the tightest ceiling that bounds it; each is named."""
    from hwdyno.analysis.ceilings import Bound, bounds_for

    best: dict[str, float] = {}
    for experiment in run.experiments:
        for point in experiment.points:
            tightest: dict[str, Bound] = {}
            for bound in bounds_for(experiment.ceilings, {**experiment.fixed, **point.parameters}):
                tightest.setdefault(bound.ceiling.metric, bound)
            for metric, bound in tightest.items():
                if point.validity != "invalid" and bound.unit == point.throughput.unit:
                    best[metric] = max(best.get(metric, 0.0), point.throughput.value / bound.value)
    for metric, reached in best.items():
        if reached < share:
            sys.stderr.write(f"below {share:.0%}: {metric} reaches {reached:.1%} of its ceiling\n")
    return any(reached < share for reached in best.values())


def dry_run(scenario: Scenario, host: Host) -> int:
    """List each point and each preparation, with their bytes and times; measures and writes nothing."""
    from hwdyno.cli.progress import described

    preparations, write_bytes_s = scenario.prepares(), write_speed(scenario, host)
    lines = scenario.points(write_bytes_s)
    out = sys.stdout.write
    width = max(len(described(line.parameters, line.axes)) for line in lines)
    name_width = max(len(line.experiment) for line in lines)
    for text in scenario.needs:
        out(f"{text}\n")
    for line in lines:
        out(
            f"{line.experiment:{name_width}}  {described(line.parameters, line.axes):{width}}  "
            f"{format_duration(line.takes_s):>8}  writes {_amount(line.least_bytes, line.writes_bytes) or 'nothing'}\n"
        )
    list_preparations(preparations, write_bytes_s)
    out(total_of(lines, preparations, write_bytes_s))
    return OK


def total_of(lines: Sequence[Line], preparations: Sequence[Preparation], write_bytes_s: float) -> str:
    """The last line of a dry run: the points, their time, and the bytes that they and what is prepared write."""
    total_s = sum(line.takes_s for line in lines) + sum(one.seconds(write_bytes_s) for one in preparations)
    made = sum(one.bytes for one in preparations if not one.by_points)
    least, most = (made + sum(map(attrgetter(of), lines)) for of in ("least_bytes", "writes_bytes"))
    known = all(line.least_bytes or not line.writes_bytes for line in lines)
    total = _amount(least if known else 0.0, most) or "nothing"
    return f"total: {plural(len(lines), 'point')}, at least {format_duration(total_s)}, {total} written\n"


def _amount(least: float, most: float) -> str:
    """``12 MB``, ``12 MB to 20 MB``, or ``up to 20 MB`` where nothing less is known; empty for no byte."""
    texts = [format_bytes(one) for one in dict.fromkeys((least, most)) if one]
    return " to ".join(dict.fromkeys(texts)) if least else "".join(f"up to {text}" for text in texts)


def list_preparations(preparations: Sequence[Preparation], write_bytes_s: float) -> None:
    """List each preparation with the bytes that it writes and the time that it takes."""
    for one in preparations:
        if one.what:
            sys.stdout.write(": ".join(filter(None, [one.what, _cost(one, write_bytes_s)])) + "\n")


def _cost(one: Preparation, write_bytes_s: float) -> str:
    if one.by_points:
        return f"{'at most ' if one.is_limit else ''}{format_bytes(one.bytes)} at a time, written by its points"
    seconds = one.seconds(write_bytes_s)
    takes = f"{'about' if one.compute_s else 'at least'} {format_duration(max(SHORTEST_SHOWN_S, seconds))}"
    if one.bytes:
        return f"writes {format_bytes(one.bytes)}, {takes}"
    return f"takes {takes}" if seconds else ""


def write_speed(scenario: Scenario, host: Host) -> float:
    """The most that the storage can take, bytes/s: its link's rate, or a fast drive's where the link is unknown."""
    from hwdyno.measure.plan import WRITE_BYTES_S

    return _link_speed(host.survey(scenario.plan.path)) or WRITE_BYTES_S


def _link_speed(machine: Machine) -> float | None:
    """The raw rate of the link to the disk, bytes/s, before any encoding; none where it is unknown."""
    speeds = [float((disk.link.bits_s if disk.link else None) or 0) for disk in machine.storage.disks]
    return max(speeds) / 8 if speeds and all(speeds) else None
