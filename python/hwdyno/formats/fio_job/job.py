"""Builds a job from its keys, and a job file from its jobs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from hwdyno.formats.fio_job import block_sizes, data, files, io_engine, logs, order, pace, timing
from hwdyno.formats.fio_job.files import Files
from hwdyno.formats.fio_job.reader import JobOption, Reader, traits
from hwdyno.formats.fio_job.text import LARGEST_BYTES, Open, no_files, sections
from hwdyno.formats.fio_log import NO_LOGS, Logs
from hwdyno.model.axes import FIELD_AXES, write_share
from hwdyno.model.words import Parameters, Scalar, UserError

MAX_JOBS = 256
_PER_JOB = (*pace.PER_JOB, *timing.PER_JOB)


@dataclass(frozen=True, slots=True)
class FioJob:
    """One job, as parameters of the kernel ``storage_blocks``."""

    name: str
    line: int
    group: int
    """Jobs of one group run at the same time; groups run one after another."""
    parameters: Parameters
    files: Files
    size: int | None
    """Bytes of a thread's region; none for the whole of an existing file."""
    size_share: float | None
    """A thread's share of the file, in place of ``size``."""
    logs: Logs = NO_LOGS
    notes: tuple[tuple[str, str], ...] = ()
    """Pairs of code and sentence."""
    after: tuple[int, ...] = ()
    """Indices in its group of the jobs whose end starts it."""
    ends: tuple[int, ...] = ()
    """Indices in its group of the jobs that its end stops."""

    @property
    def writes(self) -> bool:
        """Whether the job changes the data on storage."""
        return "trims" in traits(self.parameters["rw"]) or write_share(FIELD_AXES, self.parameters) > 0


@dataclass(frozen=True, slots=True)
class JobFile:
    """A whole job file."""

    name: str
    jobs: tuple[FioJob, ...]
    notes: tuple[tuple[str, str], ...] = field(default=())

    @property
    def groups(self) -> tuple[tuple[FioJob, ...], ...]:
        """The jobs of each group, in order."""
        return tuple(
            tuple(job for job in self.jobs if job.group == group) for group in sorted({job.group for job in self.jobs})
        )


@dataclass(slots=True)
class _Section:
    """The jobs of one section and their dependencies."""

    title: str
    group: int
    reported: int
    """The number of its reporting group."""
    dependencies: timing.Dependencies
    jobs: list[FioJob]


def parse(
    text: str,
    name: str,
    ignore: Collection[str] = (),
    environment: Mapping[str, str] | None = None,
    included: Open = no_files,
    traces: Open = no_files,
) -> JobFile:
    """Parse a job file; ``ignore`` names keys to leave out. Raises ``UserError`` in one line.

    ``included`` opens the files that it includes, ``traces`` the traces that it replays.
    """
    if len(text) > LARGEST_BYTES:
        raise UserError(f"{name} is too large for a job file (over {LARGEST_BYTES >> 20} MiB)")
    made: list[_Section] = []
    group = reported = count = 0
    known = os.environ if environment is None else environment
    for title, line, options in sections(text, name, known, included):
        stops = any(_set(options, key) for key in ("stonewall", "wait_for_previous"))
        if made:
            group += stops
            # As in fio, a job that waits also gets a new reporting group.
            reported += stops or _set(options, "new_group")
        dependencies, jobs = _jobs(title, line, group, options, name, frozenset(ignore), traces)
        made.append(_Section(title, group, reported, dependencies, jobs))
        count += len(jobs)
        if count > MAX_JOBS:
            raise UserError(f"{name}:{line}: more than {MAX_JOBS} jobs; split the file")
    if not made:
        raise UserError(f"{name} has no job: write a section such as [reads] with rw=randread and size=1g")
    jobs, cut = _resolve_jobs(made, name)
    notes = dict.fromkeys([note for job in jobs for note in job.notes] + cut)
    return JobFile(name, tuple(jobs), tuple(notes))


def _set(options: Mapping[str, JobOption], key: str) -> bool:
    return key in options and options[key].value != "0"


def _resolve_jobs(made: list[_Section], name: str) -> tuple[list[FioJob], list[tuple[str, str]]]:
    """All jobs with their dependencies resolved to indices, and notes on jobs that never run."""
    cut: list[tuple[str, str]] = []
    last = min((section.group for section in made if section.dependencies.ends == "all"), default=None)
    if last is not None and made[-1].group > last:
        cut.append(("exit_what", "jobs after the group that exit_what=all ends never run, as in fio"))
        made = [section for section in made if section.group <= last]
    jobs: list[FioJob] = []
    for group in sorted({section.group for section in made}):
        sections_ = [section for section in made if section.group == group]
        places: list[range] = []
        for section in sections_:
            first = places[-1].stop if places else 0
            places.append(range(first, first + len(section.jobs)))
        for at, (section, numbers_of_section) in enumerate(zip(sections_, places, strict=True)):
            after = _after(section, at, sections_, places, made, name)
            ends = tuple(
                number
                for other, numbers in zip(sections_, places, strict=True)
                for number in numbers
                if section.dependencies.ends
                and number not in numbers_of_section
                and (section.dependencies.ends != "group" or other.reported == section.reported)
            )
            jobs += [replace(job, after=after, ends=ends) for job in section.jobs]
    return jobs, cut


def _after(
    section: _Section, at: int, sections_: list[_Section], places: list[range], made: list[_Section], name: str
) -> tuple[int, ...]:
    entry = section.dependencies.waits_for
    if entry is None:
        return ()
    for other, numbers in zip(sections_[:at], places, strict=False):
        if entry.value in {other.title, other.jobs[0].name}:
            return tuple(numbers)
    if any(entry.value in {other.title, other.jobs[0].name} for other in made if other.group < section.group):
        return ()
    raise UserError(f"{entry.file or name}:{entry.line}: wait_for={entry.value}: no earlier job has that name")


def _jobs(
    title: str, line: int, group: int, options: dict[str, JobOption], file: str, ignore: frozenset[str], traces: Open
) -> tuple[timing.Dependencies, list[FioJob]]:
    reader = Reader(file, options, ignore)
    for key in ("stonewall", "wait_for_previous", "new_group"):
        reader.text(key)
    name = reader.text("name") or title
    given: Parameters = {}
    io_engine.check(reader)
    order.read_rw(reader, given, line)
    block_sizes.read(reader, given)
    order.read(reader, given)
    io_engine.read(reader, given, line)
    trace = logs.read_trace(reader, given, traces)
    timing.read_times(reader, given)
    pace.read(reader, given)
    data.read(reader, given)
    dependencies = timing.dependencies(reader)
    threads = reader.integer("numjobs", 1, 1024) or 1
    increment = reader.size("offset_increment") or 0
    job_files, size, share = files.read(reader, given, line)
    if trace is not None:
        job_files, size, share = files.of_trace(trace, job_files), trace.bytes, None
        if threads > 1:
            raise reader.error(line, "read_iolog uses one thread; remove numjobs")
    job_logs = logs.read(reader, given, name)
    given["offset"] = reader.size("offset") or 0
    timing.read_lengths(reader, given)
    reader.leave(line)
    if given["ioengine"] == "null" and size is None and share is None:
        raise reader.error(line, "ioengine=null has no file to take its size from; add for example size=1g")
    made = FioJob(name, line, group, given, job_files, size, share, job_logs, tuple(reader.notes.items()))
    if not increment or threads == 1:
        # In fio, each job covers all of a named file; without a name each has a separate file.
        spread = "whole" if job_files.is_shared and threads > 1 else "partition"
        scaled = {key: _times(given[key], threads) for key in _PER_JOB if given.get(key)}
        return dependencies, [replace(made, parameters={**given, **scaled, "numjobs": threads, "share": spread})]
    return dependencies, [
        replace(
            made,
            name=f"{name}.{number}",
            parameters={**given, "numjobs": 1, "offset": int(given["offset"] or 0) + number * increment},
        )
        for number in range(threads)
    ]


def _times(value: Scalar, threads: int) -> int:
    return int(value or 0) * threads
