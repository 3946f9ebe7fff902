"""``hwdyno storage job FILE.fio``: runs a job file of fio's as fio would, and reports it as any Run."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.cli import common
from hwdyno.words import Note, UserError

if TYPE_CHECKING:
    from hwdyno.formats.fio_job import Job, JobFile
    from hwdyno.runner.jobs import Work
    from hwdyno.words import Run

TRACES = ("write_iolog", "read_iolog")
FORMATS = ("report", "json", "fio-json", "fio-json+")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what only ``job`` takes."""
    group = parser.add_argument_group("job files", "hwdyno storage job FILE.fio runs a job file of fio's")
    group.add_argument(
        "--ignore", action="append", default=[], metavar="KEY", help="run a job file without this key of it"
    )
    group.add_argument("--keys", action="store_true", help="list the keys of job files and what each comes to here")
    group.add_argument(
        "--fio-dir",
        type=Path,
        metavar="DIR",
        help="also write fio's document and logs of each point into DIR, as fio-plot reads them (--log 1 for logs)",
    )
    group.add_argument(
        "--output-format", choices=FORMATS, default="report", help="what goes to stdout (fio-json: fio's own document)"
    )


def run(files: list[str], args: argparse.Namespace) -> int:
    """Read the job file, run it, report it."""
    from hwdyno.cli import progress
    from hwdyno.formats import fio_job
    from hwdyno.runner import jobs
    from hwdyno.store import Store, new_id

    if args.keys:
        return list_keys()
    if len(files) != 1:
        raise UserError("storage job takes one job file, such as hwdyno storage job reads.fio")
    name = files[0]
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot read {name}: {(error.strerror or str(error)).lower()}") from None
    beside = Path() if name == "-" else Path(name).parent
    known = fio_job.parse(
        text,
        name,
        ignore=args.ignore,
        included=lambda other: (beside / other).read_text("utf-8", errors="replace"),
        traces=lambda other: Path(other).read_text("utf-8", errors="replace"),
    )
    groups = groups_of(known, (args.path or Path()).absolute())
    for code, says in known.notes:
        sys.stderr.write(f"note: {code.removeprefix('left_out_')}: {says}\n")
    if args.dry_run:
        return listed(groups)
    write_logs = log_writer(known)
    with progress.shown(args.quiet) as shown:
        done = jobs.run(
            groups,
            common.this_machine(),
            Store(args.store),
            new_id(),
            asks=f"What does the job file {Path(name).name} measure?",
            command=common.command_line("hwdyno storage"),
            seed=secrets.randbelow(2**31) if args.seed is None else args.seed,
            progress=shown,
            explain=common.explained,
            logged=write_logs,
        )
    show(done, args)
    return common.status(done, args.fail_under)


def log_writer(known: JobFile) -> Callable[[Work, list[dict[str, Any]]], None]:
    """Writes the log files of each job as it ends, into the current directory, as fio does."""
    from hwdyno.formats import fio_log

    asked = {}
    thread = 1
    for job, name in zip(known.jobs, unique_names(known), strict=True):
        asked[name] = (job.logs, thread)
        thread += int(job.parameters.get("numjobs") or 1)

    def write(work: Work, threads: list[dict[str, Any]]) -> None:
        logs, first = asked[work.name]
        try:
            for name, text in fio_log.files(logs, threads, first):
                Path(name).write_text(text)
        except OSError as error:
            sys.stderr.write(f"note: the logs of {work.name} could not be written: {error.strerror}\n")

    return write


def list_keys() -> int:
    """Print the table of keys."""
    from hwdyno.formats.fio_job.keys import HARMLESS, SUPPORTED, WHY

    runs = {
        name: f"{key.does}; unlike fio: {key.unlike}" if key.unlike else key.does for name, key in SUPPORTED.items()
    }
    for title, table in (
        ("runs", runs),
        ("is left out with a note: it changes no result", HARMLESS),
        ("stops: it would change the result", WHY),
    ):
        sys.stdout.write(f"{title}\n")
        for key in sorted(table):
            sys.stdout.write(f"  {key:30}{table[key]}\n")
    return 0


def show(run: Run, args: argparse.Namespace) -> None:
    """Print the Run in the format that was asked for."""
    if args.fio_dir is not None:
        from hwdyno.formats.fio_write import write_directory

        write_directory(run, args.fio_dir)
    if args.output_format in {"report", "json"}:
        args.json = args.json or args.output_format == "json"
        common.show(run, args)
        return
    from hwdyno.formats.fio_write import text_of

    sys.stdout.write(text_of(run, plus=args.output_format.endswith("+")))


def groups_of(known: JobFile, path: Path) -> list[list[Work]]:
    """The jobs as the runner takes them, relative files below ``path``."""
    groups = [[_work(job, path) for job in group] for group in known.groups]
    titles = iter(unique_names(known))
    return [[replace(work, name=next(titles)) for work in group] for group in groups]


def unique_names(known: JobFile) -> list[str]:
    """Each job's name in order of the groups, told apart where two are alike."""
    from hwdyno.runner.jobs import names

    return list(names([job.name for job in known.jobs]))


def _work(job: Job, path: Path) -> Work:
    from hwdyno.runner.jobs import Work

    folders = job.files.directories or ("",)
    names = job.files.paths(job.name.partition(".")[0], int(job.parameters.get("numjobs") or 1))
    notes = tuple(Note(code, says) for code, says in job.notes)
    # Like fio's, traces lie in the current directory.
    traces = {key: str(Path(str(job.parameters[key])).absolute()) for key in TRACES if key in job.parameters}
    return Work(
        name=job.name,
        parameters={**job.parameters, **traces},
        directory=path / folders[0],
        files=tuple(path / name for name in names),
        count=job.files.count,
        each=job.files.each,
        size=job.size,
        size_share=job.size_share,
        writes=job.writes,
        notes=notes,
        after=job.after,
        ends=job.ends,
    )


def listed(groups: list[list[Work]]) -> int:
    """Say what would run; measures and writes nothing."""
    from hwdyno.cli.progress import described

    for number, group in enumerate(groups, 1):
        for work in group:
            sys.stdout.write(f"group {number}  {work.name}  {described(work.parameters)}  on {_where(work)}\n")
    return 0


def _where(work: Work) -> str:
    if not work.touches_files:
        return "nothing"
    if work.several:
        return f"{len(work.files) or work.count * int(work.parameters.get('numjobs') or 1)} files"
    return str(work.files[0]) if work.files else f"a file of its own in {work.directory}"
