"""A fio job file, run as fio does: on the files that it names, or on created ones."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.measure.plan import Plan, Profile
from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.preparation import Preparation
from hwdyno.measure.scenarios.request import Option, Request
from hwdyno.measure.scenarios.scenario import Bench, Scenario
from hwdyno.model.point_details import Note
from hwdyno.model.words import Axis, Parameters, Run, UserError
from hwdyno.system import output_files

if TYPE_CHECKING:
    from hwdyno.formats.fio_job import FioJob, JobFile
    from hwdyno.measure.dry_run import Line
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.runner.jobs import Work

_SILENT: dict[str, list[int]] = {"operations": []}
TRACES = ("write_iolog", "read_iolog")


@dataclass(frozen=True, kw_only=True)
class JobScenario(Scenario):
    """Groups of jobs; the jobs of a group run at the same time."""

    has_earlier: bool = False
    job_file: JobFile
    title: str
    groups: list[list[Work]]
    axes: tuple[Axis, ...]
    """The kernel's."""
    overwrite: bool = False
    """Whether logs may replace files that hwdyno did not write."""

    def points(self, write_bytes_s: float) -> list[Line]:
        """Every job with the bytes that it writes: exactly where it ends by its size, at most where by time."""
        from hwdyno.measure.dry_run import Line, written_blocks
        from hwdyno.model.axes import write_share

        lines = []
        for work in (work for group in self.groups for work in group):
            parameters = {**work.parameters, "size": _pass_bytes(work)}
            share = write_share(self.axes, parameters) if work.touches_files else 0.0
            runtime_s = float(work.parameters.get("runtime") or 0.0)
            most, is_known = written_blocks(parameters, share, write_bytes_s, runtime_s)
            if runtime_s and is_known and share:
                by_time, _ = written_blocks({**parameters, "time_based": True}, share, write_bytes_s, runtime_s)
                most, is_known = min(most, by_time), False
            least = most if is_known else 0.0
            lines.append(Line(work.name, work.parameters, most, least, runtime_s, self.axes))
        return lines

    def measure(self, plan: Plan, bench: Bench) -> Run:
        """Run the groups in sequence, and write each job's logs as it ends; without peers."""
        from hwdyno.measure.runner import jobs

        return jobs.run(
            self.groups,
            bench.host,
            bench.store,
            bench.run_id,
            asks=f"Job file {self.title}",
            command=plan.command,
            seed=plan.seed,
            progress=bench.progress,
            limits=plan.limits,
            explain=bench.explain,
            logged=log_writer(self.job_file, overwrite=self.overwrite),
        )


def make(request: Request, host: Host) -> JobScenario:
    """The job file of the request; ``-`` is standard input."""
    from hwdyno.formats import LARGEST_BYTES, fio_job
    from hwdyno.measure.runner.jobs import KERNEL
    from hwdyno.system import foreign

    files, pasted = request.experiments, request.options.get("pasted") or ()
    if len(files) + bool(pasted) != 1:
        raise UserError(
            "storage job takes one job file: `hwdyno storage job reads.fio`, or `storage job -- fio --rw=…`"
        )
    name = "fio's command line" if pasted else files[0]
    if pasted:
        text = fio_job.make_job_file(pasted)
    elif name == "-":
        text = sys.stdin.buffer.read(fio_job.LARGEST_BYTES + 1).decode(errors="replace")
    else:
        text = foreign.read_text(Path(name), fio_job.LARGEST_BYTES, errors="replace")
    folder = Path() if pasted or name == "-" else Path(name).parent
    job_file = fio_job.parse(
        text,
        name,
        ignore=request.options["ignore"],
        included=lambda other: foreign.read_text(folder / other, fio_job.LARGEST_BYTES, errors="replace"),
        traces=lambda other: foreign.read_text(Path(other), LARGEST_BYTES, errors="replace"),
    )
    _, path = request.places[0]
    overwrite = bool(request.options.get("overwrite"))
    groups = make_groups(job_file, path, overwrite=overwrite)
    for name in _log_names(job_file):
        output_files.check_output(Path(name), overwrite=overwrite)
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
        axes=host.kernels()[KERNEL].axes,
        overwrite=overwrite,
    )


def _pass_bytes(work: Work) -> int:
    """Length of what a job's threads go through once."""
    from hwdyno.measure.runner.jobs import files_bytes

    if not work.files:
        return files_bytes(work) - int(work.parameters.get("offset") or 0)
    if work.several:
        return (work.file_bytes or 0) * len(work.files)
    if work.size is None and work.files[0].exists():
        return int(work.files[0].stat().st_size * (work.size_share or 1.0))
    return work.size or 0


def _files(groups: Sequence[Sequence[Work]]) -> tuple[Preparation, ...]:
    """The files that are laid out for the jobs, by their directories."""
    from hwdyno.measure.runner.jobs import files_bytes, laid_out

    needed: dict[Path, int] = {}
    for work in (work for group in groups for work in group):
        if work.touches_files and not work.files and work.size is not None:
            needed[work.directory] = needed.get(work.directory, 0) + files_bytes(work)
    kept = laid_out([work for group in groups for work in group])
    return (
        *(
            Preparation(description=f"files of the jobs: in {path}, removed afterwards", where=path, bytes=size)
            for path, size in needed.items()
        ),
        *(
            Preparation(description=f"file of a job: {path}", where=path.parent, bytes=size)
            for path, size in kept.items()
        ),
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
                output_files.write_output(Path(name), text.encode(), overwrite=overwrite)
        except UserError as error:
            sys.stderr.write(f"note: the logs of {work.name} could not be written: {error}\n")

    return write


def make_groups(job_file: JobFile, path: Path, *, overwrite: bool = False) -> list[list[Work]]:
    """The jobs as the runner takes them, relative files below ``path``; traces may ``overwrite`` others' files."""
    groups = [[_work(job, path, overwrite) for job in group] for group in job_file.groups]
    titles = iter(unique_names(job_file))
    return [[replace(work, name=next(titles)) for work in group] for group in groups]


def unique_names(job_file: JobFile) -> list[str]:
    """Each job's name in order of the groups; names that are alike get a number."""
    from hwdyno.measure.runner.jobs import names

    return list(names([job.name for job in job_file.jobs]))


def _work(job: FioJob, path: Path, overwrite: bool) -> Work:
    from hwdyno.measure.runner.jobs import Work

    folders = job.files.directories or ("",)
    names = job.files.paths(job.name.partition(".")[0], int(job.parameters.get("numjobs") or 1))
    notes = tuple(Note(code, says) for code, says in job.notes)
    # Like fio's, traces are in the current directory.
    traces = {key: str(Path(str(job.parameters[key])).absolute()) for key in TRACES if key in job.parameters}
    consent: Parameters = {"overwrite": True} if overwrite and "write_iolog" in traces else {}
    return Work(
        name=job.name,
        parameters={**job.parameters, **traces, **consent},
        directory=path / folders[0],
        files=tuple(path / name for name in names),
        count=job.files.count,
        file_bytes=job.files.file_bytes,
        size=job.size,
        size_share=job.size_share,
        writes=job.writes,
        notes=notes,
        after=job.after,
        ends=job.ends,
    )


KIND = Kind(
    name="fio_job",
    command="storage job",
    make=make,
    title="job files",
    options=(Option("--ignore", "run the job file without this key", "KEY", is_list=True),),
)
