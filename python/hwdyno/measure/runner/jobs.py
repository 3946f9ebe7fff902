"""Runs groups of storage jobs once each, as a job file asks: files made ready, jobs of a group at the same time."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hwdyno import __version__
from hwdyno.analysis.ceilings.limits import known_ceilings
from hwdyno.analysis.resources import ceilings_of_site, rate_word
from hwdyno.measure.concurrent_runs import announce_run
from hwdyno.measure.hosts import Host
from hwdyno.measure.hosts.measured_site import make_site
from hwdyno.measure.measurement import Reading, Snapshot, make_measurement
from hwdyno.measure.plan import NO_LIMITS, Limits
from hwdyno.measure.runner import faults
from hwdyno.measure.runner.observers import Journal, Keeper, NextReading, Progress
from hwdyno.measure.runner.watch import Watch
from hwdyno.measure.workspace import Workspace, check_place, room
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Note
from hwdyno.model.units import format_bytes, plural
from hwdyno.model.words import Declaration, ExperimentResult, Measurement, Parameters, Run, UserError
from hwdyno.system import safe_files, signals
from hwdyno.system.store import StoreError

KERNEL = STORAGE_BLOCKS
EXPERIMENT = "storage.job"
# The mark that the engine's layout leaves in a file's first 8 bytes (crates/engine/src/sys/memory.rs, mark(0)).
_MARK = (0x6877_6479_6E6F_2121 * 0x9E37_79B9_7F4A_7C15 % (1 << 64)).to_bytes(8, "little")
# What a point's parameters show: the axes of every job, and what was set beyond them, but for these.
_AXES = ("rw", "rwmixread", "bs", "iodepth", "numjobs", "ioengine", "direct", "size")
_HIDDEN = {
    *("path", "seed", "interval_s", "cpus", "share", "generation", "verify_seed", "drop_cache", "offset"),
    *("files", "log", "positions_apart", "overwrite"),
}


@dataclass(frozen=True)
class Work:
    """One job: the parameters of its kernel, and the file that it works on."""

    name: str
    parameters: Parameters
    directory: Path
    files: tuple[Path, ...]
    """None for files that are created for the job and removed at the end."""
    size: int | None
    """Bytes of each thread's region, or on a named file of all threads; none for the whole of an existing file."""
    size_share: float | None
    writes: bool
    count: int = 1
    """Files for each thread."""
    file_bytes: int | None = None
    """Bytes of the region of one of several files."""
    notes: tuple[Note, ...] = ()
    after: tuple[int, ...] = ()
    """Indices of the jobs in its group after whose end it starts."""
    ends: tuple[int, ...] = ()
    """Indices of the jobs in its group that end with it."""

    @property
    def touches_files(self) -> bool:
        """Whether it reads or writes a file; otherwise only the loop runs."""
        return self.parameters.get("ioengine") != "null"

    @property
    def several(self) -> bool:
        """Whether it works on more than one file."""
        return len(self.files) > 1 or self.count > 1


def run(
    groups: Sequence[Sequence[Work]],
    host: Host,
    store: Keeper,
    run_id: str,
    *,
    asks: str,
    command: str,
    seed: int,
    progress: Progress,
    limits: Limits = NO_LIMITS,
    explain: Callable[[Run], Run] = lambda run: run,
    logged: Callable[[Work, list[dict[str, Any]]], None] = lambda work, threads: None,
) -> Run:
    """Make the files ready, run group after group, and keep the Run.

    Raises ``UserError`` before anything is written where a job cannot be. No file of the user's is written to.
    ``logged`` gets the logs of a job's threads, where it has any.
    """
    site = make_site(host)
    if site.several:
        raise UserError("a job file works on one machine, and this site has several; run it on each")
    begun = _now()
    works = [work for group in groups for work in group]
    machines = site.machines(works[0].directory)
    empty = _empty_result(works, host, machines, limits, asks=asks, command=command, seed=seed)
    header = Run(
        id=run_id,
        started=begun,
        finished=None,
        machines=machines,
        profile="job file",
        command=command,
        experiments=(empty,),
        version=__version__,
    )
    watch = Watch(host, progress)
    stack = contextlib.ExitStack()
    with signals.keeping(), announce_run(), stack as files, signals.at_leave(signals.Stage.REMOVE, files.close):
        watch.snapshot()
        given = _files(works, host, seed, progress, files)
        record = _JobRecord(store.begin(header), progress, len(works))
        record.measure_all(
            groups, lambda group: _group(group, [given[id(work)] for work in group], host, watch, logged)
        )
        with signals.delay_exit():
            files.close()
        done = replace(
            header,
            finished=_now(),
            experiments=(replace(empty, points=tuple(record.points)),),
            degraded=tuple(record.degraded),
        )
        done = explain(faults.mark_interrupted(done, record.interrupted, len(works), "jobs"))
        return _finish_journal(faults.mark_interrupted(done, record.interrupted, len(works), "jobs"), record.journal)


@dataclass
class _JobRecord:
    """What a run of jobs has measured so far, and what degrades it."""

    journal: Journal
    progress: Progress
    planned: int
    points: list[Measurement] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    interrupted: bool = False

    def measure_all(
        self, groups: Sequence[Sequence[Work]], measure: Callable[[Sequence[Work]], list[Measurement]]
    ) -> None:
        """Measure group after group until one is interrupted or fails; raises what the first one fails with."""
        try:
            for number, group in enumerate(groups, 1):
                signals.check()
                shown: Parameters = {"group": number, "jobs": len(group)}
                self.progress.begins(NextReading(EXPERIMENT, shown, 1, len(self.points), self.planned, 0.0))
                made = measure(group)
                for measurement in made:
                    self.points.append(measurement)
                    self.journal.point(EXPERIMENT, measurement)
                    self.progress.end_point(EXPERIMENT, measurement, rate_word("storage"))
                self.interrupted = any("interrupted" in point.why for point in made)
                if self.interrupted:
                    break
        except KeyboardInterrupt:
            self.interrupted = True
        except StoreError as error:
            self.degraded.append(f"points could not be stored as they ended: {error}")
        except (OSError, ValueError) as error:
            if not self.points:
                self.journal.abandon()
                raise
            self.degraded.append(f"the run ended early: {error}")


def _empty_result(
    works: Sequence[Work],
    host: Host,
    machines: Sequence[Machine],
    limits: Limits,
    *,
    asks: str,
    command: str,
    seed: int,
) -> ExperimentResult:
    """The jobs as an experiment, before the first point."""
    return ExperimentResult(
        name=EXPERIMENT,
        resource="storage",
        asks=asks,
        load="iodepth",
        kernel=KERNEL,
        points=(),
        ceilings=(
            *ceilings_of_site(machines, "storage"),
            *known_ceilings("storage", limits.ceilings, limits.links, limits.devices),
        ),
        planned=len(works),
        fixed={"seed": seed},
        commands=(command,),
        declaration=_declaration(works, host),
    )


def _declaration(works: Sequence[Work], host: Host) -> Declaration:
    """The kernel's declaration, with the axes that the jobs set and those that curves and rules read."""
    kernel = host.kernels()[KERNEL]
    given = {*_AXES, *(name for work in works for name in work.parameters)} - _HIDDEN
    axes = tuple(axis for axis in kernel.axes if axis.name in given or axis.role != "label" or axis.traits)
    return replace(kernel, axes=axes)


def _finish_journal(run: Run, journal: Journal) -> Run:
    try:
        journal.finish(run)
    except StoreError as error:
        return faults.not_stored(run, error)
    return run


def _group(
    group: Sequence[Work],
    given: Sequence[dict[str, Any]],
    host: Host,
    watch: Watch,
    logged: Callable[[Work, list[dict[str, Any]]], None],
) -> list[Measurement]:
    """Jobs that run at the same time; a job alone is an ordinary reading."""
    before = watch.snapshot()
    if len(group) == 1:
        readings = [host.run(KERNEL, given[0])]
    else:
        dependencies = [{"after": work.after, "ends": work.ends} for work in group]
        jobs = [{**job_parameters, **lists} for job_parameters, lists in zip(given, dependencies, strict=True)]
        together = host.run("storage_group", {"jobs": json.dumps(jobs)})
        readings = together["details"]["jobs"]
    pair = (before, watch.snapshot())
    for work, reading in zip(group, readings, strict=True):
        # Long lists belong in log files, not in the Run.
        if logs := reading["details"].pop("logs", None):
            logged(work, logs)
    return [
        _measure_job(work, parameters, reading, pair, host, len(group))
        for work, parameters, reading in zip(group, given, readings, strict=True)
    ]


def _measure_job(
    work: Work, given: dict[str, Any], reading: Reading, pair: tuple[Snapshot, Snapshot], host: Host, group_size: int
) -> Measurement:
    declaration = host.kernels()[KERNEL]
    defaults = {axis.name: axis.default for axis in declaration.axes}
    parameters: Parameters = {"job": work.name}
    parameters |= {name: given[name] for name in _AXES if name in given}
    parameters |= {name: value for name, value in given.items() if name not in _HIDDEN and value != defaults.get(name)}
    if given.get("files"):
        parameters["nrfiles"] = len(json.loads(given["files"]))
    notes = list(work.notes)
    if group_size > 1:
        says = f"it ran together with {plural(group_size - 1, 'other job')} of its group (no stonewall between them)"
        notes.append(Note("ran_beside_others", says))
        reading = {**reading, "counters": {}}  # The system's counters include the whole group.
    return make_measurement(parameters, [reading], declaration, [pair], notes)


def _files(
    works: Sequence[Work], host: Host, seed: int, progress: Progress, stack: contextlib.ExitStack
) -> dict[int, dict[str, Any]]:
    """The parameters of each job's kernel, its file laid out; raises ``UserError`` before the first byte is written."""
    needed = laid_out(works)
    by_directory: dict[Path, int] = {}
    for work in works:
        if not work.files and work.touches_files:
            by_directory[work.directory] = by_directory.get(work.directory, 0) + files_bytes(work)
    for path, end in needed.items():
        missing = end - (path.stat().st_size if path.exists() else 0)
        by_directory[path.parent] = by_directory.get(path.parent, 0) + max(0, missing)
    for directory, wanted in by_directory.items():
        free = room(check_place(directory, writes=True))
        if wanted > free:
            raise UserError(
                f"the jobs' files need {format_bytes(wanted)} in {directory} but {format_bytes(free)} are free (minus "
                "a reserve); reduce size, or use another directory"
            )
    for path, end in needed.items():
        if not path.exists():
            try:
                with signals.delay_exit():
                    stack.callback(safe_files.create(path).remove)
            except OSError as error:
                raise UserError(f"{path}: {error.strerror}; name a file that you may create") from None
        if not path.is_block_device():
            _lay_out(host, path, end, seed, progress)
    given = {}
    for work in works:
        parameters: dict[str, Any] = {"seed": seed, **work.parameters}
        if isinstance(cpus := parameters.get("cpus"), str):
            parameters["cpus"] = [int(number) for number in cpus.split(",")]
        paths: tuple[Path, ...]
        size: int
        if not work.touches_files:
            paths, size = (Path("null"),), files_bytes(work)
        elif not work.files:
            workspace = stack.enter_context(Workspace(check_place(work.directory, writes=True)))
            offset = int(work.parameters.get("offset") or 0)
            paths = (workspace.data,)
            size = files_bytes(work) - offset
            if work.several:
                threads = int(work.parameters.get("numjobs") or 1)
                paths, size = workspace.files(work.count * threads), work.file_bytes or 0
            for path in paths:
                _lay_out(host, path, offset + size, seed, progress)
        else:
            paths, size = work.files, (work.file_bytes if work.several else work.size) or 0
            if work.size_share is not None:
                size = int(min(map(_length, paths)) * work.size_share)
        given[id(work)] = {**parameters, "path": str(paths[0]), "size": size}
        if work.several and work.touches_files:
            given[id(work)]["files"] = json.dumps([str(path) for path in paths])
    return given


def laid_out(works: Sequence[Work]) -> dict[Path, int]:
    """The files of the user's names that are written first, with their length; raises ``UserError`` for a wrong job."""
    needed: dict[Path, int] = {}
    for work in works:
        _check(work, needed)
    return needed


def files_bytes(work: Work) -> int:
    """Total length of the files created for a job; a single file has one region for each thread."""
    offset, threads = int(work.parameters.get("offset") or 0), int(work.parameters.get("numjobs") or 1)
    if work.several:
        return (offset + (work.file_bytes or 0)) * work.count * threads
    return offset + (work.size or 0) * threads


def _check(work: Work, needed: dict[Path, int]) -> None:
    if not work.files:
        if work.size is None:
            raise UserError(f"job {work.name} has neither size nor filename; add for example size=1g")
        return
    for path in work.files:
        _check_file(work, path, needed)


def _check_file(work: Work, path: Path, needed: dict[Path, int]) -> None:
    size = work.file_bytes if work.several else work.size
    end = int(work.parameters.get("offset") or 0) + (size or 0)
    if path.is_symlink() and (work.writes or not path.exists()):
        raise UserError(
            f"job {work.name}: {path} is a symbolic link, and nothing is written through one; name what it leads to"
        )
    if not path.exists():
        if size is None:
            raise UserError(f"job {work.name}: {path} does not exist and has no size; add for example size=1g")
        if not path.parent.is_dir():
            raise UserError(f"job {work.name}: directory {path.parent} does not exist; create it or use --path")
        needed[path] = max(end, needed.get(path, 0))
        return
    if path.is_block_device():
        if work.writes:
            raise UserError(f"job {work.name} writes to the raw device {path}; only reads are allowed there")
        return
    if not path.is_file():
        raise UserError(f"job {work.name}: {path} is neither a regular file nor a block device; name another")
    has_mark = _has_mark(path)
    if work.writes and not has_mark:
        raise UserError(
            f"job {work.name} would overwrite {path}, which is not a hwdyno data file; use a new name, or remove "
            "filename"
        )
    if end > path.stat().st_size:
        if not has_mark:
            raise UserError(f"job {work.name} needs {end} bytes but {path} has {path.stat().st_size}; reduce size")
        needed[path] = max(end, needed.get(path, 0))


def _has_mark(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            first = file.read(8)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a readable file") from None
    return first == _MARK


def _length(path: Path) -> int:
    with path.open("rb") as file:
        return file.seek(0, 2)


def _lay_out(host: Host, path: Path, size: int, seed: int, progress: Progress) -> None:
    progress.says(f"writing {format_bytes(size)} of incompressible data in {path.parent}")
    reading = host.run("storage_layout", {"path": str(path), "size": size, "seed": seed})
    if reading.get("interrupted"):
        raise KeyboardInterrupt
    if faults := reading.get("faults"):
        raise UserError(f"{path}: {faults[0]['says']}; free space or use another directory")


def _now() -> str:
    return datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")


def names(given: Sequence[str]) -> Iterator[str]:
    """Each job's name, numbered where two are alike."""
    seen: dict[str, int] = {}
    for name in given:
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name}#{seen[name]}"
