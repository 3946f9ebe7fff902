"""``hwdyno storage job FILE.fio``: run a fio job file as fio does, and report it like any Run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli import dry_run
from hwdyno.cli.axes import add_scenario
from hwdyno.cli.options import make_request
from hwdyno.cli.perform import choose_host, measure_with_progress, show, status
from hwdyno.cli.statuses import OK
from hwdyno.measure.hosts import Host
from hwdyno.measure.scenarios import fio_job

if TYPE_CHECKING:
    from hwdyno.measure.runner.jobs import Work
    from hwdyno.measure.scenarios import Request
    from hwdyno.model.words import Run

FORMATS = ("report", "json", "fio-json", "fio-json+")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that only ``job`` has."""
    add_scenario(parser, fio_job.KIND)
    group = parser.add_argument_group("job files", "hwdyno storage job FILE.fio runs a fio job file")
    group.add_argument("--keys", action="store_true", help="list the keys of job files and how each is handled")
    group.add_argument(
        "--fio-dir",
        type=Path,
        metavar="DIR",
        help="also write fio's JSON and logs (with --log 1) of each point to DIR, for fio-plot",
    )
    group.add_argument(
        "--output-format", choices=FORMATS, default="report", help="format of stdout (fio-json: like fio's own)"
    )


def request(files: list[str], args: argparse.Namespace) -> Request:
    """What the options request of a job file."""
    options = {"ignore": args.ignore, "pasted": args.pasted, "overwrite": args.overwrite}
    return make_request(args, "storage job", experiments=tuple(files), options=options)


def run(files: list[str], args: argparse.Namespace) -> int:
    """Read the job file, run it, report it."""
    if args.keys:
        return list_keys()
    host = choose_host(args)
    scenario = fio_job.make(request(files, args), host)
    for code, says in scenario.job_file.notes:
        sys.stderr.write(f"note: {code.removeprefix('left_out_')}: {says}\n")
    if args.dry_run:
        return list_jobs(scenario, host)
    run = measure_with_progress(scenario, args, host)
    show_in_format(run, args)
    return status(run, args.fail_under)


def list_keys() -> int:
    """Print the table of keys."""
    from hwdyno.formats.fio_job.keys import HARMLESS, SUPPORTED, WHY

    runs = {
        name: f"{key.does}; differs from fio: {key.unlike}" if key.unlike else key.does
        for name, key in SUPPORTED.items()
    }
    for title, table in (
        ("runs", runs),
        ("ignored with a note: no effect on the result", HARMLESS),
        ("refused: it would change the result", WHY),
    ):
        sys.stdout.write(f"{title}\n")
        for key in sorted(table):
            sys.stdout.write(f"  {key:30}{table[key]}\n")
    return 0


def show_in_format(run: Run, args: argparse.Namespace) -> None:
    """Print the Run in the format that ``--output-format`` names."""
    if args.fio_dir is not None:
        from hwdyno.formats.fio_write import write_directory

        write_directory(run, args.fio_dir, overwrite=args.overwrite)
    if args.output_format in {"report", "json"}:
        args.json = args.json or args.output_format == "json"
        show(run, args)
        return
    from hwdyno.formats.fio_write import format_run

    sys.stdout.write(format_run(run, plus=args.output_format.endswith("+")))


def list_jobs(scenario: fio_job.JobScenario, host: Host) -> int:
    """List the jobs of a dry run; measures and writes nothing."""
    from hwdyno.cli.progress import describe_point

    for number, group in enumerate(scenario.groups, 1):
        for work in group:
            sys.stdout.write(f"group {number}  {work.name}  {describe_point(work.parameters)}  on {_where(work)}\n")
    preparations, write_bytes_s = scenario.prepares(), dry_run.write_speed(scenario, host)
    dry_run.list_preparations(preparations, write_bytes_s)
    points = scenario.points(write_bytes_s)
    sys.stdout.write(dry_run.format_record(points) + dry_run.format_total(points, preparations, write_bytes_s))
    return OK


def _where(work: Work) -> str:
    if not work.touches_files:
        return "nothing"
    if work.several:
        return f"{len(work.files) or work.count * int(work.parameters.get('numjobs') or 1)} files"
    return str(work.files[0]) if work.files else f"a new file in {work.directory}"
