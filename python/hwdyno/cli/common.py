"""What ``run`` and the commands of single resources share: their options, and the way from a Plan to a report."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.cli.main import BELOW, DEGRADED, INTERRUPTED, OK
from hwdyno.units import format_bytes, format_duration
from hwdyno.words import Run

if TYPE_CHECKING:
    from hwdyno.hosts import Host
    from hwdyno.machine import Machine
    from hwdyno.peers import Peer
    from hwdyno.plan import Plan
    from hwdyno.store import Store


def add_options(parser: argparse.ArgumentParser, *, many_paths: bool = False) -> None:
    """The options that say how to measure and what to do with it; ``--path`` may come several times, as text."""
    how = parser.add_argument_group("how to measure")
    how.add_argument(
        "--profile", type=_named, metavar="NAME", help="quick, standard or full: how much care to take (default quick)"
    )
    if many_paths:
        told = "where the storage is (default: here); several times to compare, each DIR or NAME=DIR"
        how.add_argument("--path", action="append", default=[], metavar="[NAME=]DIR", help=told)
    else:
        how.add_argument("--path", type=Path, metavar="DIR", help="where the storage is measured (default: here)")
    how.add_argument("--peers", action="store_true", default=None, help="run the reference tools in turn with ours")
    how.add_argument("--seed", type=_seed, metavar="N", help="of the order of points and of random offsets")
    how.add_argument("--budget", metavar="TIME", help="scale the times so that measuring ends within this, e.g. 10m")
    how.add_argument(
        "--ceiling", action="append", default=[], metavar="TEXT", help='a bound that you know: "rated read 400 MB/s"'
    )
    what = parser.add_argument_group("what to do with it")
    what.add_argument("--dry-run", action="store_true", help="list each point, the bytes it will write and its time")
    what.add_argument("--json", action="store_true", help="print the Run document instead of the report")
    what.add_argument("--out", type=_folder, metavar="DIR", help="where the report goes (default ./hwdyno-runs/ID)")
    what.add_argument("--store", metavar="WHERE", help="where Runs are kept (default $HWDYNO_HOME)")
    what.add_argument("--no-page", action="store_true", help="write no HTML page")
    what.add_argument("--quiet", action="store_true", help="no progress on stderr")
    what.add_argument(
        "--fail-under",
        type=_share,
        metavar="PERCENT",
        help="exit with 1 if a headline reaches less than this share of its ceiling",
    )


def _named(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("it needs a name")
    return text


def _folder(text: str) -> Path:
    """A folder that can be written, or be made: a report must not fail after all was measured."""
    path = Path(text)
    try:
        there = next(one for one in (path, *path.absolute().parents) if one.exists())
        writable = os.access(there, os.W_OK)
    except OSError as error:  # Such as a name that is too long.
        raise argparse.ArgumentTypeError(f"{text[:60]}: {error.strerror}") from None
    if not there.is_dir():
        raise argparse.ArgumentTypeError(f"{there} is no directory")
    if not writable:
        raise argparse.ArgumentTypeError(f"{there} may not be written")
    return path


def _seed(text: str) -> int:
    from hwdyno.plan import MOST_SEED

    if not text.isdecimal() or int(text[:20]) > MOST_SEED:
        raise argparse.ArgumentTypeError(f"'{text[:30]}' must be a whole number from 0 to {MOST_SEED}")
    return int(text)


def _share(text: str) -> float:
    try:
        percent = float(text.rstrip("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise argparse.ArgumentTypeError(f"'{text}' must be a percentage from 0 to 100")
    return percent / 100


def this_machine() -> Host:
    """The host that points run on."""
    from hwdyno.hosts.local import Local

    return Local()


def command_line(command: str, arguments: Sequence[str] | None = None) -> str:
    """What was typed, to be typed again."""
    typed = shlex.join([*command.split(), *(sys.argv[2:] if arguments is None else arguments)])
    # A name that is not UTF-8 fits no document; it is shown as it is escaped.
    return os.fsencode(typed).decode(errors="backslashreplace")


def perform(plan: Plan, args: argparse.Namespace, host: Host | None = None) -> int:
    """Measure a plan, keep the Run, report it, and give the exit status."""
    host = host or this_machine()
    if args.dry_run:
        return dry_run(plan, host)
    run = measured(plan, args, host)
    show(run, args)
    ends = status(run, args.fail_under)
    if ends == DEGRADED and not args.quiet:
        from hwdyno.report.verdict import verdict_of

        verdict = verdict_of(run)
        sys.stderr.write(f"exit status 3: the Run is {verdict.status} ({verdict.tally}); the findings say why\n")
    return ends


def measured(plan: Plan, args: argparse.Namespace, host: Host) -> Run:
    """Measure a plan with progress shown, and keep the Run."""
    from hwdyno import runner
    from hwdyno.cli import progress
    from hwdyno.store import Store, new_id

    store = Store(args.store)
    with progress.shown(args.quiet) as shown:
        return runner.run(
            plan,
            host,
            store,
            new_id(),
            progress=shown,
            peers=peers_here(plan, shown),
            explain=lambda run: explained(beside_earlier(run, store)),
        )


def beside_earlier(run: Run, store: Store) -> Run:
    """The Run with what differs between its machine's runs in its intervals, where the store has earlier ones."""
    from hwdyno.repeatability import MOST_EARLIER, comparable, with_earlier
    from hwdyno.store import StoreError, machine_of

    names = {one.name for one in run.experiments if comparable(one)}
    if not names:
        return run
    earlier: list[Run] = []
    with suppress(StoreError):
        for entry in store.history():
            alike = entry.machine == machine_of(run) and names & {name for name, _, _ in entry.headline}
            if entry.id != run.id and alike and len(earlier) < MOST_EARLIER:
                with suppress(StoreError):  # One that cannot be read says nothing.
                    earlier.append(store.load(entry.path))
    return with_earlier(run, earlier)


def peers_here(plan: Plan, shown: Any) -> list[Peer]:
    """The plan's peers that are on this machine; the others are named."""
    if not plan.peers:
        return []
    from hwdyno import peers

    wanted = dict.fromkeys(name for planned in plan.experiments for name in planned.experiment.peers)
    here = []
    for name in wanted:
        peer = peers.find(name)
        if peer.version() is None:
            shown.says(f"{name} is not here, so there is no reference from it; install it to compare")
        else:
            here.append(peer)
    return here


def explained(run: Run) -> Run:
    """The Run with its curves and findings."""
    from hwdyno import findings

    return findings.explain(run)


def show(run: Run, args: argparse.Namespace) -> None:
    """Print the report (or the document) on stdout, and write the page."""
    if args.json:
        from hwdyno.store import to_json

        sys.stdout.write(to_json(run) + "\n")
        for why in run.degraded:
            sys.stderr.write(f"degraded: {why}\n")
    else:
        from hwdyno.report.terminal import print_run

        print_run(run)
    sys.stdout.flush()
    if args.no_page:
        return
    from hwdyno.report.page import html

    directory = args.out or Path("hwdyno-runs") / run.id
    try:
        directory.mkdir(parents=True, exist_ok=True)
        page = directory / "report.html"
        page.write_text(html(run), encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"no page: {directory}: {error.strerror}; `hwdyno report {run.id}` tries again\n")
        return
    sys.stderr.write(f"report: {page}\nagain:  hwdyno report {run.id}\n")


def status(run: Run, fail_under: float | None) -> int:
    """The exit status that a Run deserves."""
    from hwdyno.report.verdict import verdict_of

    if run.interrupted:
        return INTERRUPTED
    if fail_under is not None and below(run, fail_under):
        return BELOW
    return OK if verdict_of(run).status == "valid" else DEGRADED


def below(run: Run, share: float) -> bool:
    """Whether some metric's best point stays below ``share`` of the tightest ceiling that bounds it; each is named."""
    from hwdyno.ceilings import Bound, bounds_for

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


def dry_run(plan: Plan, host: Host) -> int:
    """List each point, the bytes it will write and the time it will take; measures and writes nothing."""
    from hwdyno.cli.progress import described
    from hwdyno.plan import WRITE_BYTES_S, listing
    from hwdyno.runner import budget
    from hwdyno.workspace import check_place

    raw = None
    if plan.needs_data_file:
        raw = check_place(plan.path, writes=plan.writes, destroy=plan.destroy, serial=plan.serial).device_bytes
    plan = budget.fitted(plan, plan.budget_s)
    lines = listing(plan, _write_speed(host.survey(plan.path)) or WRITE_BYTES_S)
    out = sys.stdout.write
    width = max(len(described(line.parameters)) for line in lines)
    name_width = max(len(line.experiment) for line in lines)
    for line in lines:
        writes = f"writes up to {format_bytes(line.writes_bytes)}" if line.writes_bytes else "writes nothing"
        out(
            f"{line.experiment:{name_width}}  {described(line.parameters):{width}}  "
            f"{format_duration(line.takes_s):>8}  {writes}\n"
        )
    if raw is not None:
        what = "is written over: all data on it is lost" if plan.writes else "is only read"
        out(f"raw device: {format_bytes(min(raw, plan.data_bytes))} of {plan.path}, which {what}\n")
    elif plan.needs_data_file:
        out(f"data file: {format_bytes(plan.data_bytes)} in {plan.path}, removed after\n")
    total_s, total_bytes = sum(line.takes_s for line in lines), sum(line.writes_bytes for line in lines)
    out(
        f"total: {len(lines)} points, {format_duration(total_s)} at least, "
        f"up to {format_bytes(total_bytes + plan.data_bytes)} written\n"
    )
    return OK


def _write_speed(machine: Machine) -> float | None:
    """What the link to the disk carries at most, bytes/s, before any encoding; none where it is unknown."""
    speeds = [float((disk.link.bits_s if disk.link else None) or 0) for disk in machine.storage.disks]
    return max(speeds) / 8 if speeds and all(speeds) else None
