"""A fio job file, run as fio does: on the files that it names, or on created ones."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno import door
from hwdyno.plan import Plan, Profile
from hwdyno.scenarios import Kind, Option
from hwdyno.scenarios.preparation import Preparation
from hwdyno.scenarios.request import Request
from hwdyno.scenarios.scenario import Scenario
from hwdyno.words import Note, Parameters, Run, UserError

if TYPE_CHECKING:
    from hwdyno.formats.fio_job import Job, JobFile
    from hwdyno.hosts import Host
    from hwdyno.peers import Peer
    from hwdyno.runner.jobs import Work
    from hwdyno.runner.progress import Keeper, Progress

_SILENT: dict[str, list[int]] = {"operations": []}
TRACES = ("write_iolog", "read_iolog")


@dataclass(frozen=True, kw_only=True)
class JobScenario(Scenario):
    """Groups of jobs; the jobs of a group run at the same time."""

    has_earlier: bool = False
    job_file: JobFile
    title: str
    groups: list[list[Work]]
    overwrite: bool = False
    """Whether logs may replace files that hwdyno did not write."""

    def measure(
        self,
        plan: Plan,
        host: Host,
        store: Keeper,
        run_id: str,
        progress: Progress,
        peers: Sequence[Peer],
        explain: Callable[[Run], Run],
    ) -> Run:
        """Run the groups in sequence, and write each job's logs as it ends; without peers."""
        from hwdyno.runner import jobs

        return jobs.run(
            self.groups,
            host,
            store,
            run_id,
            asks=f"Job file {self.title}",
            command=plan.command,
            seed=plan.seed,
            progress=progress,
            limits=plan.limits,
            explain=explain,
            logged=log_writer(self.job_file, overwrite=self.overwrite),
        )


def make(request: Request, host: Host) -> JobScenario:
    """The job file of the request; ``-`` is standard input."""
    from hwdyno import foreign
    from hwdyno.formats import LARGEST_BYTES, fio_job

    files, pasted = request.options["files"], request.options.get("pasted") or ()
    if len(files) + bool(pasted) != 1:
        raise UserError(
            "storage job takes one job file: `hwdyno storage job reads.fio`, or `storage job -- fio --rw=…`"
        )
    name = "fio's command line" if pasted else files[0]
    if pasted:
        text = fio_job.job_file_of(pasted)
    elif name == "-":
        text = sys.stdin.buffer.read(fio_job.LARGEST_BYTES + 1).decode(errors="replace")
    else:
        text = foreign.text_of(Path(name), fio_job.LARGEST_BYTES, errors="replace")
    folder = Path() if pasted or name == "-" else Path(name).parent
    job_file = fio_job.parse(
        text,
        name,
        ignore=request.options["ignore"],
        included=lambda other: foreign.text_of(folder / other, fio_job.LARGEST_BYTES, errors="replace"),
        traces=lambda other: foreign.text_of(Path(other), LARGEST_BYTES, errors="replace"),
    )
    _, path = request.places[0]
    overwrite = bool(request.options.get("overwrite"))
    groups = groups_of(job_file, path, overwrite=overwrite)
    for name in _log_names(job_file):
        door.check_output(Path(name), overwrite=overwrite)
    plan = Plan(
        profile=Profile("job file", 0.0, 0.0, 0.0, 1, 1, 0),
        experiments=(),
        path=path,
        seed=secrets.randbelow(2**31) if request.seed is None else request.seed,
        command=request.command,
        limits=request.limits,
    )
    return JobScenario(
        plan=plan,
        preparations=_files(groups),
        job_file=job_file,
        title=Path(name).name,
        groups=groups,
        overwrite=overwrite,
    )


def _files(groups: Sequence[Sequence[Work]]) -> tuple[Preparation, ...]:
    """The files that are laid out for the jobs, by their directories."""
    from hwdyno.runner.jobs import files_bytes

    needed: dict[Path, int] = {}
    for work in (work for group in groups for work in group):
        if work.touches_files and not work.files and work.size is not None:
            needed[work.directory] = needed.get(work.directory, 0) + files_bytes(work)
    return tuple(
        Preparation(what=f"files of the jobs: in {path}, removed afterwards", where=path, bytes=size)
        for path, size in needed.items()
    )


def _log_names(job_file: JobFile) -> Iterator[str]:
    """The names of all log files."""
    from hwdyno.formats import fio_log

    first, silent = 1, {"interval_s": 1.0, "read": _SILENT, "write": _SILENT}
    for job in job_file.jobs:
        threads = int(job.parameters.get("numjobs") or 1)
        yield from (name for name, _ in fio_log.files(job.logs, [silent] * threads, first))
        first += threads


def log_writer(job_file: JobFile, *, overwrite: bool = False) -> Callable[[Work, list[dict[str, Any]]], None]:
    """Writes the log files of each job as it ends, into the current directory, as fio does."""
    from hwdyno.formats import fio_log

    wanted = {}
    thread = 1
    for job, name in zip(job_file.jobs, unique_names(job_file), strict=True):
        wanted[name] = (job.logs, thread)
        thread += int(job.parameters.get("numjobs") or 1)

    def write(work: Work, threads: list[dict[str, Any]]) -> None:
        logs, first = wanted[work.name]
        try:
            for name, text in fio_log.files(logs, threads, first):
                door.write_output(Path(name), text.encode(), overwrite=overwrite)
        except UserError as error:
            sys.stderr.write(f"note: the logs of {work.name} could not be written: {error}\n")

    return write


def groups_of(job_file: JobFile, path: Path, *, overwrite: bool = False) -> list[list[Work]]:
    """The jobs as the runner takes them, relative files below ``path``; traces may ``overwrite`` others' files."""
    groups = [[_work(job, path, overwrite) for job in group] for group in job_file.groups]
    titles = iter(unique_names(job_file))
    return [[replace(work, name=next(titles)) for work in group] for group in groups]


def unique_names(job_file: JobFile) -> list[str]:
    """Each job's name in order of the groups; names that are alike get a number."""
    from hwdyno.runner.jobs import names

    return list(names([job.name for job in job_file.jobs]))


def _work(job: Job, path: Path, overwrite: bool) -> Work:
    from hwdyno.runner.jobs import Work

    folders = job.files.directories or ("",)
    names = job.files.paths(job.name.partition(".")[0], int(job.parameters.get("numjobs") or 1))
    notes = tuple(Note(code, says) for code, says in job.notes)
    # Like fio's, traces lie in the current directory.
    traces = {key: str(Path(str(job.parameters[key])).absolute()) for key in TRACES if key in job.parameters}
    consent: Parameters = {"overwrite": True} if overwrite and "write_iolog" in traces else {}
    return Work(
        name=job.name,
        parameters={**job.parameters, **traces, **consent},
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


KIND = Kind(
    name="fio_job",
    command="storage",
    make=make,
    title="job files",
    options=(Option("--ignore", "run the job file without this key", "KEY", is_list=True),),
)
