"""Performs the commands of a soak, as programs and in one process, and keeps what each round shows."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from signals.commands import Command, Place, environment
from signals.moments import marked

from soak.series import Verdict, judged

GOOD = {0, 3}
MIN_PEAKS = 10
"""Minimum number of peaks of a command, for a verdict on it alone."""
TIMEOUT_S = 2.0
"""Limit for processes that end by themselves."""
ALLOWED = {
    "in use": ("bytes", 128.0),
    "blocks": ("", 0.5),
    "anonymous": ("bytes", 8192.0),
    "resident": ("bytes", 8192.0),
    "descriptors": ("", 0.01),
    "threads": ("", 0.01),
    "objects": ("", 0.5),
    "peak": ("bytes", 65536.0),
    "peaks": ("", 0.001),
    "store": ("", 0.001),
}
"""Growth that counts as flat: of the process's figures for each command, of a program's peak for each time that it ran
(or as the next one, if that is more: a large peak varies by megabytes with what its threads do at once), of all peaks
as a share of the first of their program, of a Run's bytes in a round as a share of the first Run like it. What is in
use is exact; pages settle for long, because small things that stay are between those that went."""
GIVES_BACK = "glibc.malloc.trim_threshold=131072:glibc.malloc.tcache_count=0"
"""The C library raises this default up to 64 MiB after large blocks were freed, and keeps as much for each thread that
ever ran, malloc_trim(3) or not: anonymous memory grew by 3 MB a round for dozens of rounds, and nothing was in use.
What a thread keeps to use again (its tcache) counts as in use."""


@dataclass
class Soak:
    """What was seen so far."""

    process: defaultdict[str, list[list[float]]] = field(default_factory=lambda: defaultdict(list))
    """A list of values for each round, by figure."""
    peaks: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """The most memory of each command's program, a value for each time."""
    relative_peaks: list[float] = field(default_factory=list)
    """Each of them as a share of its command's first, in order of time."""
    like: dict[tuple[object, ...], int] = field(default_factory=dict)
    """The bytes of the first Run of a command with this many points."""
    relative_runs: list[float] = field(default_factory=list)
    """The bytes of each later Run as a share of the first like it, in order of time."""
    rounds: int = 0
    """That are whole."""
    left: Counter[str] = field(default_factory=Counter)
    """Files and processes that stayed after a command, by what they are."""
    failed: Counter[str] = field(default_factory=Counter)
    performed: Counter[str] = field(default_factory=Counter)
    cpu_s: float = 0.0

    def verdicts(self, count: int) -> list[Verdict]:
        """The verdicts on all figures, of rounds with ``count`` commands in the process."""
        found = []
        for name, rounds in self.process.items():
            unit, allowed = ALLOWED[name]
            # The mean of a round: each command leaves other memory behind, and each round has all of them.
            found.append(
                judged(f"process: {name}", unit, allowed * count, [sum(values) / len(values) for values in rounds])
            )
        for name, values in self.peaks.items():
            if len(values) >= MIN_PEAKS:
                unit, allowed = ALLOWED["peak"]
                found.append(judged(f"peak of {name}", unit, max(allowed, ALLOWED["peaks"][1] * values[0]), values))
        found.append(judged("peak of all, of their first", *ALLOWED["peaks"], self.relative_peaks))
        if self.relative_runs:
            unit, allowed = ALLOWED["store"]
            a_run = allowed * self.rounds / len(self.relative_runs)
            found.append(judged("bytes of a Run, of the first like it", unit, a_run, self.relative_runs))
        return found


def _points(path: Path) -> int:
    run = json.loads(path.read_text())
    return sum(len(experiment["points"]) for experiment in run["experiments"])


class Runner:
    """Performs commands as programs and in one process, slowed down to a share of one processor."""

    def __init__(self, folder: Path, args: argparse.Namespace) -> None:
        self.soak = Soak()
        self.args = args
        self.place = Place(folder / "data", folder / "out", args.port)
        self.home = folder / "home"
        self.first_home = folder / "home-of-round-1"
        for path in (self.place.data, self.place.out, self.home):
            path.mkdir(parents=True)
        self.mark = f"soak-{os.getpid()}-{time.monotonic_ns()}"
        self.environment = environment(self.place, self.home, self.mark)
        self.stderr = (folder / "stderr").open("wb+")
        tests = str(Path(__file__).parents[1])
        self.worker = subprocess.Popen(
            [sys.executable, "-m", "soak.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr,
            env=self.environment
            | {"PYTHONPATH": os.pathsep.join([tests, self.environment["PYTHONPATH"]]), "GLIBC_TUNABLES": GIVES_BACK},
            cwd=self.place.out, text=True, start_new_session=True,
        )  # fmt: skip
        self.worker_cpu_s = 0.0
        self.seen = {str(self.worker.pid)}
        self.runs: set[Path] = set()
        """Those that were weighed."""

    def as_program(self, command: Command) -> None:
        """Perform it as a program."""
        began = time.monotonic()
        self.stderr.seek(0)
        self.stderr.truncate()
        process = subprocess.Popen(
            command.line(self.place), env=self.environment | dict(command.environment), cwd=self.place.out,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.stderr, start_new_session=True,
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        peaks = self.soak.peaks[command.name]
        peaks.append(usage.ru_maxrss * 1024)
        if len(peaks) > 1:
            self.soak.relative_peaks.append(peaks[-1] / peaks[0])
        self.stderr.seek(0)
        says = self.stderr.read()[-2000:].decode(errors="replace")
        self._judge(command, "program", process.returncode, says, began, usage.ru_utime + usage.ru_stime)

    def in_process(self, command: Command) -> dict[str, float]:
        """Perform it in the process that goes on, and give that process's figures."""
        began = time.monotonic()
        assert self.worker.stdin is not None and self.worker.stdout is not None
        words = command.line(self.place)[len(command.program) :]
        request = {
            "words": words, "environment": dict(command.environment), "plant": self.args.plant,
            "place": str(self.place.data),
        }  # fmt: skip
        self.worker.stdin.write(json.dumps(request) + "\n")
        self.worker.stdin.flush()
        if not (line := self.worker.stdout.readline()):
            self.stderr.seek(0)
            raise SystemExit(f"the process ended in {command.name}: {self.stderr.read()[-2000:].decode()}")
        answer = json.loads(line)
        cpu_s = answer.pop("cpu_s")
        spent_s, self.worker_cpu_s = cpu_s - self.worker_cpu_s, cpu_s
        self._judge(command, "process", answer.pop("status"), answer.pop("says"), began, spent_s)
        return {name: float(value) for name, value in answer.items()}

    def end_round(self, seen: dict[str, list[float]]) -> None:
        """Keep what a whole round showed."""
        for name, values in seen.items():
            self.soak.process[name].append(values)
        self.soak.rounds += 1
        self._begin_with_the_same_runs()

    def _begin_with_the_same_runs(self) -> None:
        """Give the next round the home that the first left: history and what compares with it read every Run there."""
        if not self.first_home.exists():
            shutil.copytree(self.home, self.first_home)
            return
        shutil.rmtree(self.home)
        shutil.copytree(self.first_home, self.home)

    def _judge(self, command: Command, how: str, status: int, says: str, began: float, cpu_s: float) -> None:
        """Count what failed and what is left, and rest so long that the share of a processor is kept."""
        soak, args = self.soak, self.args
        soak.performed[how] += 1
        soak.cpu_s += cpu_s
        if status not in GOOD:
            soak.failed[f"{command.name} ({how}): status {status}"] += 1
            print(f"{command.name} ({how}) ended with status {status}: {says[-800:]}", flush=True)
        self._weigh(command, how)
        for leftover in self._left():
            soak.left[f"{command.name} ({how}): {leftover}"] += 1
        rest_s = cpu_s / args.cpu_share - (time.monotonic() - began)
        time.sleep(max(0.0, rest_s if args.cpu_share < 1 else 0.0))

    def _weigh(self, command: Command, how: str) -> None:
        """Compare the size of new Runs with the first of the same command and number of points.

        A Run has what it measured, so Runs of other commands, or of as many points as time allowed, differ anyway.
        """
        for path in set(self.home.glob("runs/*.json")) - self.runs:
            self.runs.add(path)
            size, kind = path.stat().st_size, (command.name, how, _points(path))
            if kind in self.soak.like:
                self.soak.relative_runs.append(size / self.soak.like[kind])
            else:
                self.soak.like[kind] = size

    def _left(self) -> Iterator[str]:
        """Files that are no report and no Run, and processes; each is named once."""
        places = (self.place.data, self.place.out / "tmp")
        paths = [path for place in places for path in place.iterdir()] + [*self.home.glob("runs/*.journal")]
        for path in paths:
            if str(path) not in self.seen:
                self.seen.add(str(path))
                yield f"file {path.name}"
        until = time.monotonic() + TIMEOUT_S
        while others := [pid for pid in marked(self.mark) if str(pid) not in self.seen]:
            if time.monotonic() > until:
                break
            time.sleep(0.02)
        for pid in others:
            self.seen.add(str(pid))
            with contextlib.suppress(OSError):
                yield f"process {Path(f'/proc/{pid}/comm').read_text().strip()}"

    def end(self) -> None:
        """End the process, and its children that are left."""
        assert self.worker.stdin is not None
        with contextlib.suppress(OSError):
            self.worker.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.worker.wait(30)
        for pid in marked(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.worker.wait()
        self.stderr.close()
