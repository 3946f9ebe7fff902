"""Stores the points of a Run that is being measured, each synced to storage as it ends."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from hwdyno.model.words import ExperimentResult, Measurement, PeerResult, Run, Scalar, UserError
from hwdyno.system import foreign, signals
from hwdyno.system.safe_files import SHARED, Folder, MadeFile, file_identity, made_with, write_all
from hwdyno.system.store.atomic_files import StoreError, cause, open_file, temporary_name, write_once
from hwdyno.system.store.document import plain_values, run_from, to_json, word_from
from hwdyno.system.store.former_names import rename_keys

JOURNAL = "hwdyno.journal/1"
SEAL_S = 0.3
"""Time for a line that is just being written, before a process that leaves keeps the journal as it is."""


class _SoFar:
    """The Run that a journal has so far."""

    def __init__(self, head: Run) -> None:
        self._head = head
        self._experiments: dict[str, ExperimentResult] = {}
        self._points: dict[str, dict[frozenset[tuple[str, Scalar]], Measurement]] = {}
        self._peers: dict[str, list[PeerResult]] = {}
        for experiment in head.experiments:
            self.open(experiment)

    @property
    def run(self) -> Run:
        """The Run with the points that were taken."""
        return replace(self._head, experiments=tuple(map(self.experiment, self._experiments)))

    def experiment(self, name: str) -> ExperimentResult:
        """An experiment with the points that were taken. Raises ``KeyError`` without it."""
        points, peers = self._points[name].values(), self._peers[name]
        return replace(self._experiments[name], points=tuple(points), peers=tuple(peers))

    def open(self, result: ExperimentResult) -> None:
        """Take an experiment with what it has."""
        name = result.name
        self._experiments[name], self._points[name], self._peers[name] = result, {}, list(result.peers)
        for point in result.points:
            self.take_point(name, point)

    def take_point(self, experiment: str, point: Measurement) -> None:
        """Take a point, in place of its earlier state if there is one. Raises ``KeyError`` without its experiment."""
        self._points[experiment][frozenset(point.parameters.items())] = point

    def take_peer(self, experiment: str, result: PeerResult) -> None:
        """Take a peer's result on a point. Raises ``KeyError`` without its experiment."""
        self._peers[experiment].append(result)


class Writer:
    """The journal of a Run that is being measured; as a context manager it keeps the journal after an exception.

    Every line is synced to storage before the call returns. A lock on the file shows other processes that the
    Run is still being measured. If the process has to leave (``signals``), what the journal has becomes the Run.
    """

    def __init__(
        self, path: Path, run: Run, write: Callable[[Run], Path], announce: Callable[[Run, Path], None]
    ) -> None:
        self._write, self._announce = write, announce
        self.path = path
        self._writing = threading.RLock()
        # A process that leaves has no time to read its journal again.
        self._so_far = _SoFar(run)
        self._names = {experiment.name for experiment in run.experiments}
        # It gets its name once it is locked and has its first line, so that it is not read earlier.
        temporary = temporary_name(path)
        head = {"journal": JOURNAL, "run": plain_values(run)}
        with signals.delay_exit():
            try:
                self._folder = Folder.open_named(path.parent)
            except OSError as error:
                raise StoreError(f"cannot create a journal in {path.parent}: {cause(error, path.parent)}") from None
            try:
                self._file: IO[bytes] = os.fdopen(self._folder.create(temporary, SHARED), "r+b", buffering=0)
                self._identity = file_identity(os.fstat(self._file.fileno()))
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX)
                    self._append(head, lambda: None, is_first=True)
                    self._folder.publish(temporary, path.name)
                finally:
                    with contextlib.suppress(OSError):
                        self._folder.remove(temporary, self._identity)
                signals.register(signals.Stage.KEEP, self.seal)
            except FileExistsError:
                self.close()
                raise StoreError(f"run {run.id} is already being measured: its journal is {self.path}") from None
            except StoreError:
                self.close()
                raise
            except OSError as error:
                self._folder.close()
                raise StoreError(f"cannot create a journal in {path.parent}: {cause(error, path.parent)}") from None

    def experiment(self, result: ExperimentResult) -> None:
        """Add an experiment that was not planned at the start."""
        self._append({"opens": plain_values(result)}, lambda: self._so_far.open(result))
        self._names.add(result.name)

    def point(self, experiment: str, measurement: Measurement, left_s: float | None = None) -> None:
        """Store a point, with the time left for who watches; a later state of the same point replaces it."""
        self._check_known(experiment)
        left = {} if left_s is None else {"left_s": round(left_s, 1)}
        record = {"experiment": experiment, "point": plain_values(measurement), **left}
        self._append(record, lambda: self._so_far.take_point(experiment, measurement))

    def peer(self, experiment: str, result: PeerResult) -> None:
        """Store a peer's result on a point."""
        self._check_known(experiment)
        record = {"experiment": experiment, "peer": plain_values(result)}
        self._append(record, lambda: self._so_far.take_peer(experiment, result))

    def finish(self, run: Run) -> Path:
        """Store the whole Run as its document and remove the journal.

        Raises ``StoreError`` if there is no space; the journal is then kept, and the Run can still be loaded.
        """
        with signals.delay_exit(), self._writing:
            try:
                path = self._write(run)
            except StoreError as error:
                self.close()
                raise StoreError(f"{error}; the results are kept in {self.path}") from None
            self.abandon()
        # An index or a database may take its time: the Run is stored, and its journal gone.
        self._announce(run, path)
        return path

    def seal(self) -> None:
        """Store the points so far as a partial Run, without findings; the journal stays where that cannot be."""
        if signals.patiently(lambda step_s: self._writing.acquire(timeout=step_s), SEAL_S) and not self._file.closed:
            run = _cut_short(self._so_far.run, "interrupted")
            run = replace(run, finished=datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds"))
            write_once(self.path.with_suffix(".json"), to_json(run))
            self.abandon()

    def abandon(self) -> None:
        """Close the journal and remove it."""
        # Removed before it is unlocked, so that it never looks like the journal of a killed process.
        with signals.delay_exit(), self._writing:
            with contextlib.suppress(OSError):
                self._folder.remove(self.path.name, self._identity)
            self.close()

    def close(self) -> None:
        """Close the journal and keep it."""
        self._file.close()
        signals.unregister(self.seal)
        self._folder.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _check_known(self, experiment: str) -> None:
        if experiment not in self._names:
            raise ValueError(f"{experiment} is not an experiment of this Run: {sorted(self._names)}")

    def _append(self, record: dict[str, Any], take: Callable[[], None], *, is_first: bool = False) -> None:
        """Write a line, and take what it says once it is stored."""
        line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        with signals.delay_exit(), self._writing:
            end = os.lseek(self._file.fileno(), 0, os.SEEK_END)
            try:
                write_all(self._file.fileno(), line)
                os.fsync(self._file.fileno())
                take()
            except OSError as error:
                # A partial line would corrupt the next one.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file.fileno(), end)
                why = cause(error, self.path.parent)
                says = f"cannot store a point in {self.path}: {why}; earlier points are kept"
                raise StoreError(f"cannot create {self.path}: {why}" if is_first else says) from None


class JournalReader:
    """A journal as the Run that it has so far, also while it is written; a line that is not whole yet waits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: Counter[str] = Counter()
        """How many lines each experiment has; those that are written last come last."""
        self.lost = 0
        """Lines that cannot be read."""
        self.left_s: float | None = None
        """The time that was left when the last point was written."""
        self._so_far: _SoFar | None = None
        self._unread_from = 0
        """Where the first line begins that is not read yet."""

    @property
    def run(self) -> Run:
        """The Run with the points so far; raises ``StoreError`` before its first line was read."""
        return self._read_so_far().run

    def experiment(self, name: str) -> ExperimentResult:
        """An experiment with the points so far; raises as ``run`` does, and ``KeyError`` without it."""
        return self._read_so_far().experiment(name)

    def _read_so_far(self) -> _SoFar:
        if self._so_far is None:
            raise StoreError(f"{self.path} is not a journal that this hwdyno reads; remove it")
        return self._so_far

    def read_more(self) -> bool:
        """Read what was written since the last call; whether there was anything. Raises ``OSError``."""
        with open_file(self.path) as file:
            file.seek(self._unread_from)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self._unread_from += whole
        self.take(text[:whole].split(b"\n")[:-1])
        return whole > 0

    def take(self, lines: Sequence[bytes]) -> None:
        """Take lines; the first of all is the header, which raises ``StoreError`` where it is none."""
        for line in lines:
            if self._so_far is None:
                self._so_far = self._begin(_record(line))
            else:
                self._add(_record(line), self._so_far)

    def _begin(self, head: dict[str, Any]) -> _SoFar:
        if head.get("journal") != JOURNAL:
            raise StoreError(f"{self.path} is not a journal that this hwdyno reads; remove it")
        try:
            return _SoFar(run_from(head.get("run"), str(self.path)))
        except StoreError as error:
            raise StoreError(f"{error}: the journal is not readable; remove it") from None

    def _add(self, record: dict[str, Any], so_far: _SoFar) -> None:
        try:
            if "opens" in record:
                so_far.open(word_from(ExperimentResult, rename_keys(record["opens"], "experiments.*")))
                return
            name = record["experiment"]
            if "point" in record:
                point = word_from(Measurement, rename_keys(record["point"], "experiments.*.points.*"))
                so_far.take_point(name, point)
                left_s = record.get("left_s")
                self.left_s = float(left_s) if isinstance(left_s, int | float) else self.left_s
            else:
                so_far.take_peer(name, word_from(PeerResult, record["peer"]))
            self.lines[name] = self.lines.pop(name, 0) + 1
        except (ValueError, KeyError, TypeError):
            self.lost += 1


def from_journal(text: bytes, path: Path, ended: str = "the run was cut short") -> Run:
    """Read a journal into a valid partial Run; the last line may be incomplete. ``ended`` says how the Run ended."""
    lines = text.split(b"\n")
    reader = JournalReader(path)
    reader.take([lines[0], *lines[1:-1]])
    return _cut_short(reader.run, ended, reader.lost)


def _cut_short(run: Run, ended: str, lost: int = 0) -> Run:
    """The Run as one that ended before its last point."""
    done = sum(len(experiment.points) for experiment in run.experiments)
    planned = max(done, sum(experiment.planned for experiment in run.experiments))
    why = f"{ended}: {done} of {planned} points were measured"
    if lost:
        why += f", and {lost} more could not be read"
    return replace(run, interrupted=True, degraded=(*run.degraded, why))


def _record(line: bytes) -> dict[str, Any]:
    """A line's table; an empty one where it was torn or damaged."""
    try:
        record = foreign.parse_json(line, "it", is_ours=True)
    except UserError:
        return {}
    return record if isinstance(record, dict) else {}


def is_being_written(path: Path) -> bool:
    """Whether a running process is writing this journal."""
    try:
        with open_file(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def left_journal(path: Path) -> MadeFile | None:
    """The journal that an ended process left; none while it is written, or where the file is another's."""
    return None if is_being_written(path) else made_with(path, f'{{"journal": "{JOURNAL}"'.encode())
