"""Stores the points of a Run that is being measured, each synced to storage as it ends."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from hwdyno import foreign
from hwdyno.store.document import plain_of, run_from, word_from
from hwdyno.store.files import StoreError, cause, publish, write_all
from hwdyno.words import ExperimentResult, Measurement, PeerResult, Run, UserError

JOURNAL = "hwdyno.journal/1"


class Writer:
    """The journal of a Run that is being measured; as a context manager it keeps the journal after an exception.

    Every line is synced to storage before the call returns. A lock on the file shows other processes that the
    Run is still being measured.
    """

    def __init__(self, path: Path, run: Run, save: Callable[[Run], Path]) -> None:
        self._save = save
        self.path = path
        self._names = {experiment.name for experiment in run.experiments}
        # It gets its name once it is locked and has its first line, so that nobody reads it earlier.
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        head = {"journal": JOURNAL, "run": plain_of(Run, run)}
        try:
            self._file: IO[bytes] = temporary.open("xb", buffering=0)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self._append(head)
            publish(temporary, path)
        except FileExistsError:
            self._file.close()
            raise StoreError(f"run {run.id} is already being measured: its journal is {self.path}") from None
        except OSError as error:
            raise StoreError(f"cannot begin a journal in {path.parent}: {cause(error)}") from None
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    def experiment(self, result: ExperimentResult) -> None:
        """Add an experiment that was not planned at the start."""
        self._append({"opens": plain_of(ExperimentResult, result)})
        self._names.add(result.name)

    def point(self, experiment: str, measurement: Measurement) -> None:
        """Store a point; a later state of the same point replaces it."""
        self._known(experiment)
        self._append({"experiment": experiment, "point": plain_of(Measurement, measurement)})

    def peer(self, experiment: str, result: PeerResult) -> None:
        """Store a peer's result on a point."""
        self._known(experiment)
        self._append({"experiment": experiment, "peer": plain_of(PeerResult, result)})

    def finish(self, run: Run) -> Path:
        """Store the whole Run as its document and remove the journal.

        Raises ``StoreError`` if there is no space; the journal is then kept, and the Run can still be loaded.
        """
        try:
            path = self._save(run)
        except StoreError as error:
            self.close()
            raise StoreError(f"{error}; what was measured is kept in {self.path}") from None
        self.abandon()
        return path

    def abandon(self) -> None:
        """Close the journal and remove it."""
        # Removed before it is unlocked, so that it never looks like the journal of a killed process.
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Close the journal and keep it."""
        self._file.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _known(self, experiment: str) -> None:
        if experiment not in self._names:
            raise ValueError(f"{experiment} is no experiment of this Run: {sorted(self._names)}")

    def _append(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        end = os.lseek(self._file.fileno(), 0, os.SEEK_END)
        try:
            write_all(self._file.fileno(), line)
            os.fsync(self._file.fileno())
        except OSError as error:
            # A partial line would corrupt the next one.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), end)
            raise StoreError(
                f"cannot store a point in {self.path}: {cause(error)}; the points before it are kept"
            ) from None


def from_journal(text: bytes, path: Path) -> Run:
    """Read a journal into a valid partial Run; the last line may be incomplete."""
    lines = text.split(b"\n")
    head = _record(lines[0])
    if head.get("journal") != JOURNAL:
        raise StoreError(f"{path} is not a journal that this hwdyno reads: remove it")
    try:
        run = run_from(head.get("run"), str(path))
    except StoreError as error:
        raise StoreError(f"{error}: the journal cannot be read; remove it") from None
    experiments = {experiment.name: experiment for experiment in run.experiments}
    lost = 0
    for line in lines[1:-1]:
        try:
            record = _record(line)
            if "opens" in record:
                opened = word_from(ExperimentResult, record["opens"])
                experiments[opened.name] = opened
                continue
            experiment = experiments[record["experiment"]]
            if "point" in record:
                point = word_from(Measurement, record["point"])
                experiment = replace(experiment, points=_with(experiment.points, point))
            else:
                peer = word_from(PeerResult, record["peer"])
                experiment = replace(experiment, peers=(*experiment.peers, peer))
            experiments[experiment.name] = experiment
        except (ValueError, KeyError, TypeError):
            lost += 1
    done = sum(len(experiment.points) for experiment in experiments.values())
    planned = max(done, sum(experiment.planned for experiment in experiments.values()))
    why = f"the run was cut short: {done} of {planned} points were measured"
    if lost:
        why += f", and {lost} more could not be read"
    return replace(run, experiments=tuple(experiments.values()), interrupted=True, degraded=(*run.degraded, why))


def _record(line: bytes) -> dict[str, Any]:
    """A line's table; an empty one where it was torn or damaged."""
    try:
        record = foreign.json_of(line, "it", is_ours=True)
    except UserError:
        return {}
    return record if isinstance(record, dict) else {}


def is_being_written(path: Path) -> bool:
    """Whether a running process is writing this journal."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _with(points: tuple[Measurement, ...], point: Measurement) -> tuple[Measurement, ...]:
    """The points with this one added, in place of its earlier state if there is one."""
    same = [index for index, earlier in enumerate(points) if earlier.parameters == point.parameters]
    return (*points[: same[0]], point, *points[same[0] + 1 :]) if same else (*points, point)
