"""Performs the commands of a soak, as programs and in one process, and keeps what each round shows."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from signals.commands import Command, Place, environment
from signals.moments import marked

from soak.series import Verdict, judged

GOOD = {0, 3}
MIN_PEAKS = 10
"""Minimum number of peaks of a command, for a verdict on it alone."""
MAX_AGAIN = 60
"""Maximum number of times that a program is performed after the rounds: three times the rounds of two hours tell growth
a third as large from a peak's variation."""
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
as a share of the median of their program, of a Run's bytes in a round as a share of the median of Runs like it. What is
in use is exact; pages settle for long, because small things that stay are between those that went."""
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
    programs: list[tuple[str, float]] = field(default_factory=list)
    """The command and peak of every program, in order of time."""
    runs: list[tuple[tuple[object, ...], float]] = field(default_factory=list)
    """The command, number of points and bytes of every Run, in order of time."""
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
        found.append(judged("peaks of all programs", *ALLOWED["peaks"], relative_to_median(self.programs)))
        if runs := relative_to_median(self.runs):
            unit, allowed = ALLOWED["store"]
            found.append(judged("bytes of a Run", unit, allowed * self.rounds / len(runs), runs))
        return found


def relative_to_median(seen: Sequence[tuple[object, float]]) -> list[float]:
    """Each value as a share of the median of its kind, in the same order; a kind that was seen once is left out."""
    kinds: defaultdict[object, list[float]] = defaultdict(list)
    for kind, value in seen:
        kinds[kind].append(value)
    medians = {kind: statistics.median(values) for kind, values in kinds.items() if len(values) > 1}
    return [value / medians[kind] for kind, value in seen if kind in medians]


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
        # Small for good: it is started before this process grows, and imports nothing.
        self.launcher = self._start_python("-S", "-m", "soak.launcher")
        self.worker = self._start_python("-m", "soak.worker", GLIBC_TUNABLES=GIVES_BACK)
        self.worker_cpu_s = 0.0
        self.seen = {str(self.worker.pid), str(self.launcher.pid)}
        self.weighed: set[Path] = set()

    def _start_python(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """A Python that takes a request a line and gives an answer a line."""
        path = os.pathsep.join([str(Path(__file__).parents[1]), self.environment["PYTHONPATH"]])
        return subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr,
            env=self.environment | {"PYTHONPATH": path} | environment, cwd=self.place.out, text=True,
            start_new_session=True,
        )  # fmt: skip

    def _answer(self, process: subprocess.Popen[str], command: Command, request: object) -> dict[str, Any]:
        """What a process answers to a request; a process that ended ends the soak."""
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        if not (line := process.stdout.readline()):
            self.stderr.seek(0)
            raise SystemExit(f"the process ended in {command.name}: {self.stderr.read()[-2000:].decode()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def as_program(self, command: Command) -> None:
        """Perform it as a program."""
        began = time.monotonic()
        self.stderr.seek(0)
        self.stderr.truncate()
        environment = self.environment | dict(command.environment)
        request = {"words": command.line(self.place), "environment": environment}
        ended = self._answer(self.launcher, command, request)
        self.soak.peaks[command.name].append(ended["peak_bytes"])
        self.soak.programs.append((command.name, ended["peak_bytes"]))
        self.stderr.seek(0)
        says = self.stderr.read()[-2000:].decode(errors="replace")
        self._judge(command, "program", int(ended["status"]), says, began, ended["cpu_s"])

    def in_process(self, command: Command) -> dict[str, float]:
        """Perform it in the process that goes on, and give that process's figures."""
        began = time.monotonic()
        words = command.line(self.place)[len(command.program) :]
        request = {
            "words": words, "environment": dict(command.environment), "plant": self.args.plant,
            "place": str(self.place.data),
        }  # fmt: skip
        answer = self._answer(self.worker, command, request)
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

    def decide_peaks(self, commands: Sequence[Command]) -> None:
        """Perform the programs whose peaks are undecided again, alone, until they tell, at most ``MAX_AGAIN`` times."""
        for command in commands:
            for _ in range(MAX_AGAIN):
                if {verdict.name: verdict.word for verdict in self.soak.verdicts(1)}.get(
                    f"peak of {command.name}"
                ) != "undecided":
                    break
                self._begin_with_the_same_runs()
                self.as_program(command)

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
        """Keep the size of new Runs with their command and number of points.

        A Run has what it measured, so Runs of other commands, or of as many points as time allowed, differ anyway.
        """
        for path in set(self.home.glob("runs/*.json")) - self.weighed:
            self.weighed.add(path)
            self.soak.runs.append(((command.name, how, _points(path)), path.stat().st_size))

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
        for process in (self.worker, self.launcher):
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
        for pid in marked(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.worker.wait()
        self.stderr.close()
