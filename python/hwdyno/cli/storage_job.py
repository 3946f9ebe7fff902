"""``hwdyno storage job FILE.fio``: runs a job file of fio's as fio would, and reports it as any Run."""

from __future__ import annotations

import argparse
import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli import common
from hwdyno.words import Note, UserError

if TYPE_CHECKING:
    from hwdyno.formats.fio_job import Job, JobFile
    from hwdyno.runner.jobs import Work
    from hwdyno.words import Run

FORMATS = ("report", "json", "fio-json", "fio-json+")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what only ``job`` takes."""
    group = parser.add_argument_group("job files", "hwdyno storage job FILE.fio runs a job file of fio's")
    group.add_argument(
        "--ignore", action="append", default=[], metavar="KEY", help="run a job file without this key of it"
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

    if len(files) != 1:
        raise UserError("storage job takes one job file, such as hwdyno storage job reads.fio")
    name = files[0]
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot read {name}: {(error.strerror or str(error)).lower()}") from None
    known = fio_job.parse(text, name, ignore=args.ignore)
    groups = groups_of(known, (args.path or Path()).absolute())
    for code, says in known.notes:
        sys.stderr.write(f"note: {code.removeprefix('left_out_')}: {says}\n")
    if args.dry_run:
        return listed(groups)
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
        )
    show(done, args)
    return common.status(done, args.fail_under)


def show(run: Run, args: argparse.Namespace) -> None:
    """Print the Run in the format that was asked for."""
    if args.output_format in {"report", "json"}:
        args.json = args.json or args.output_format == "json"
        common.show(run, args)
        return
    from hwdyno.formats.fio_write import text_of

    sys.stdout.write(text_of(run, plus=args.output_format.endswith("+")))


def groups_of(known: JobFile, path: Path) -> list[list[Work]]:
    """The jobs as the runner takes them, relative files below ``path``."""
    from hwdyno.runner.jobs import names

    groups = [[_work(job, path) for job in group] for group in known.groups]
    titles = iter(names([work for group in groups for work in group]))
    return [[replace(work, name=next(titles)) for work in group] for group in groups]


def _work(job: Job, path: Path) -> Work:
    from hwdyno.runner.jobs import Work

    directory = path / (job.directory or "")
    notes = tuple(Note(code, says) for code, says in job.notes)
    return Work(
        name=job.name,
        parameters=job.parameters,
        directory=directory,
        file=directory / job.filename if job.filename else None,
        size=job.size,
        size_share=job.size_share,
        writes=job.writes,
        notes=notes,
    )


def listed(groups: list[list[Work]]) -> int:
    """Say what would run; measures and writes nothing."""
    from hwdyno.cli.progress import described

    for number, group in enumerate(groups, 1):
        for work in group:
            where = work.file or f"a file of its own in {work.directory}"
            sys.stdout.write(f"group {number}  {work.name}  {described(work.parameters)}  on {where}\n")
    return 0
