"""Puts a job together from its keys, and a job file from its jobs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from hwdyno.axes import FIELD_AXES, write_share
from hwdyno.formats.fio_job import course, data, engine, files, lengths, logs, order, pace
from hwdyno.formats.fio_job.files import Files
from hwdyno.formats.fio_job.reader import Entry, Reader, traits
from hwdyno.formats.fio_job.text import LARGEST_BYTES, Open, no_files, sections
from hwdyno.formats.fio_log import NO_LOGS, Logs
from hwdyno.words import Parameters, Scalar, UserError

MOST_JOBS = 256
_PER_JOB = (*pace.PER_JOB, *course.PER_JOB)


@dataclass(frozen=True, slots=True)
class Job:
    """One job, in the words of our kernel ``storage_blocks``."""

    name: str
    line: int
    group: int
    """Jobs of one group run at the same time; groups follow one another."""
    parameters: Parameters
    files: Files
    size: int | None
    """Bytes of the region a thread; none for all of a file that is there."""
    size_share: float | None
    """Or its share of the file."""
    logs: Logs = NO_LOGS
    notes: tuple[tuple[str, str], ...] = ()
    """Code and sentence."""
    after: tuple[int, ...] = ()
    """The jobs of its group by whose end it begins, by their place in it."""
    ends: tuple[int, ...] = ()
    """Those of its group that end when it does, likewise."""

    @property
    def writes(self) -> bool:
        """Whether what lies there will not be the same after it."""
        return "trims" in traits(self.parameters["rw"]) or write_share(FIELD_AXES, self.parameters) > 0


@dataclass(frozen=True, slots=True)
class JobFile:
    """A whole job file."""

    name: str
    jobs: tuple[Job, ...]
    notes: tuple[tuple[str, str], ...] = field(default=())

    @property
    def groups(self) -> tuple[tuple[Job, ...], ...]:
        """The jobs by group, in order."""
        return tuple(
            tuple(job for job in self.jobs if job.group == group) for group in sorted({job.group for job in self.jobs})
        )


@dataclass(slots=True)
class _Section:
    """The jobs of one section, and how they stand to those of others."""

    title: str
    group: int
    reported: int
    """The number of its reporting group."""
    beside: course.Beside
    jobs: list[Job]


def parse(
    text: str,
    name: str,
    ignore: Collection[str] = (),
    environment: Mapping[str, str] | None = None,
    included: Open = no_files,
    traces: Open = no_files,
) -> JobFile:
    """Read a job file; ``ignore`` names keys that the user wants left out. Raises ``UserError`` in one line.

    ``included`` gives the text of a file that it includes, ``traces`` that of one that it runs again.
    """
    if len(text) > LARGEST_BYTES:
        raise UserError(f"{name} is larger than any job file ({LARGEST_BYTES >> 20} MiB)")
    made: list[_Section] = []
    group = reported = count = 0
    known = os.environ if environment is None else environment
    for title, line, options in sections(text, name, known, included):
        stops = any(_set(options, key) for key in ("stonewall", "wait_for_previous"))
        if made:
            group += stops
            # As in fio: what waits reports apart too.
            reported += stops or _set(options, "new_group")
        beside, jobs = _jobs(title, line, group, options, name, frozenset(ignore), traces)
        made.append(_Section(title, group, reported, beside, jobs))
        count += len(jobs)
        if count > MOST_JOBS:
            raise UserError(f"{name}:{line}: more than {MOST_JOBS} jobs; split the file")
    if not made:
        raise UserError(f"{name} has no job: write a section such as [reads] with rw=randread and size=1g")
    jobs, cut = _joined(made, name)
    told = dict.fromkeys([note for job in jobs for note in job.notes] + cut)
    return JobFile(name, tuple(jobs), tuple(told))


def _set(options: Mapping[str, Entry], key: str) -> bool:
    return key in options and options[key].value != "0"


def _joined(made: list[_Section], name: str) -> tuple[list[Job], list[tuple[str, str]]]:
    """All jobs with their places in each other's lists; and a note where some never run."""
    cut: list[tuple[str, str]] = []
    last = min((section.group for section in made if section.beside.ends == "all"), default=None)
    if last is not None and made[-1].group > last:
        cut.append(("exit_what", "jobs behind the group that exit_what=all ends never run, as in fio"))
        made = [section for section in made if section.group <= last]
    jobs: list[Job] = []
    for group in sorted({section.group for section in made}):
        sections_ = [section for section in made if section.group == group]
        places: list[range] = []
        for section in sections_:
            first = places[-1].stop if places else 0
            places.append(range(first, first + len(section.jobs)))
        for at, (section, own) in enumerate(zip(sections_, places, strict=True)):
            after = _after(section, at, sections_, places, made, name)
            ends = tuple(
                number
                for other, numbers in zip(sections_, places, strict=True)
                for number in numbers
                if section.beside.ends
                and number not in own
                and (section.beside.ends != "group" or other.reported == section.reported)
            )
            jobs += [replace(job, after=after, ends=ends) for job in section.jobs]
    return jobs, cut


def _after(
    section: _Section, at: int, beside: list[_Section], places: list[range], made: list[_Section], name: str
) -> tuple[int, ...]:
    entry = section.beside.waits_for
    if entry is None:
        return ()
    for other, numbers in zip(beside[:at], places, strict=False):
        if entry.value in {other.title, other.jobs[0].name}:
            return tuple(numbers)
    if any(entry.value in {other.title, other.jobs[0].name} for other in made if other.group < section.group):
        return ()
    raise UserError(f"{entry.file or name}:{entry.line}: wait_for={entry.value}: no job before this one has that name")


def _jobs(
    title: str, line: int, group: int, options: dict[str, Entry], file: str, ignore: frozenset[str], traces: Open
) -> tuple[course.Beside, list[Job]]:
    reader = Reader(file, options, ignore)
    for key in ("stonewall", "wait_for_previous", "new_group"):
        reader.text(key)
    name = reader.text("name") or title
    given: Parameters = {}
    engine.check(reader)
    order.read_rw(reader, given, line)
    lengths.read(reader, given)
    order.read(reader, given)
    engine.read(reader, given, line)
    trace = logs.replayed(reader, given, traces)
    course.times(reader, given)
    pace.read(reader, given)
    data.read(reader, given)
    beside = course.beside(reader)
    threads = reader.integer("numjobs", 1, 1024) or 1
    increment = reader.size("offset_increment") or 0
    own, size, share = files.read(reader, given, line)
    if trace is not None:
        own, size, share = files.of_trace(trace, own), trace.bytes, None
        if threads > 1:
            raise reader.error(line, "read_iolog is run by one thread; leave numjobs out")
    told = logs.read(reader, given, name)
    given["offset"] = reader.size("offset") or 0
    course.passes(reader, given)
    reader.leave(line)
    if given["ioengine"] == "null" and size is None and share is None:
        raise reader.error(line, "ioengine=null has no file whose size it could take; give it size=1g, for example")
    made = Job(name, line, group, given, own, size, share, told, tuple(reader.notes.items()))
    if not increment or threads == 1:
        # In fio, jobs that name a file each cover all of it; without a name each has a file of its own.
        spread = "whole" if own.shared and threads > 1 else "partition"
        scaled = {key: _times(given[key], threads) for key in _PER_JOB if given.get(key)}
        return beside, [replace(made, parameters={**given, **scaled, "numjobs": threads, "share": spread})]
    return beside, [
        replace(
            made,
            name=f"{name}.{number}",
            parameters={**given, "numjobs": 1, "offset": int(given["offset"] or 0) + number * increment},
        )
        for number in range(threads)
    ]


def _times(value: Scalar, threads: int) -> int:
    return int(value or 0) * threads
