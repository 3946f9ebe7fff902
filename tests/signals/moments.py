"""One moment: a command is started, ended by a signal at some time, and what it leaves is judged."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from hwdyno.system.store import Store, from_json, json_schema

from signals.commands import HWDYNO, ROOT, Command, Place, environment

LIMIT_S = 1.0
"""Longest time between the signal that leaves and the process's end, less the machine's own delay (``Control``)."""
WRITTEN_S = 0.3
"""Time between the last look for a signal and the Run's document, on a busy machine: a later one cuts nothing."""
KEPT_S = 12.0
"""Limit for an end that keeps everything, less the machine's own delay."""
ORDERLY_S = 120.0
"""The same on a busy machine, where the harness gives up."""
START_S = 0.3
"""The beginning of a command, in which its modules are imported."""
STARTUP_S = 0.12
"""``hwdyno --help`` on an idle machine: how much slower it is here stretches every moment."""
HOWS = ("INT", "INT INT", "TERM", "HUP", "KILL", "INT TERM")
RECOVERY = ("storage", "--rw", "read", "--size", "1M", "--runtime", "10ms", "--ramp-time", "0", "--no-page", "--quiet")
_NOT_BEGUN = re.compile("Could not import runpy module|Fatal Python error: init_")
_RESULT = re.compile(r"^[a-z_0-9]+\.\S+  .*:  ", re.MULTILINE)
_WHOLE = {".html": b"</html>", ".png": b"IEND\xaeB`\x82", ".parquet": b"PAR1"}


@dataclass(frozen=True)
class Moment:
    """When and how a command is ended."""

    command: Command
    how: str
    at: float
    """Share of its length, 0 to 1."""
    gap_s: float = 0.1
    """Time between two signals."""


@dataclass
class Verdict:
    """The result of one moment."""

    moment: Moment
    outcome: str = ""
    problems: list[str] = field(default_factory=list)
    took_s: float = 0.0
    """Time between the last signal and the end."""
    late_s: float = 0.0
    """How late the machine itself was meanwhile (``Control``)."""
    details: str = ""


_CONTROL = """
import os, select, time
os.write(1, b"ready")
ran_s, slept_s = time.process_time(), 0.0
began = float(os.read(0, 64) or 0)
while not select.select([0], [], [], 0)[0]:
    time.sleep(0.005)
    slept_s += 0.005
    until = time.process_time() + 0.002
    while time.process_time() < until:
        pass
os.write(1, b"%.6f" % (time.monotonic() - began - slept_s - (time.process_time() - ran_s)))
"""


class Control:
    """A process that sleeps, works a little, and ends with the command: what it takes beyond both is the machine's.

    It waits for a processor as a process that leaves does, after each wake-up and in between, since it uses 2 ms of CPU
    time every 7 ms.
    """

    def __init__(self) -> None:
        line = [sys.executable, "-I", "-S", "-c", _CONTROL]
        self._process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self._process.stdout is not None
        self._process.stdout.read(len(b"ready"))
        self.pid = self._process.pid
        self._is_begun = False

    def go(self) -> None:
        """Begin, beside the process that gets its signal now."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"%.6f" % time.monotonic())
        self._is_begun = True

    def late_s(self) -> float:
        """End, and say how late it was; 0 where it never began."""
        says, _ = self._process.communicate()
        return max(0.0, float(says)) if self._is_begun else 0.0


def sample(commands: Sequence[Command], count: int, seed: int) -> Iterator[Moment]:
    """Moments spread evenly over commands and signals, at random times."""
    rng = random.Random(seed)
    pairs = [(command, how) for command in commands for how in HOWS]
    for number in range(count):
        if number % len(pairs) == 0:
            rng.shuffle(pairs)
        command, how = pairs[number % len(pairs)]
        yield Moment(command, how, rng.random(), rng.choice([0.01, 0.05, 0.2, 0.5, 1.0]))


def sample_starts(commands: Sequence[Command], count: int, seed: int) -> Iterator[Moment]:
    """Moments at random times of a command's beginning, by signals that it owns."""
    rng = random.Random(seed)
    for number in range(count):
        command = commands[number % len(commands)]
        yield Moment(command, rng.choice(("INT", "TERM", "HUP")), rng.uniform(0, START_S) / command.seconds)


def startup_s() -> float:
    """The time of the shortest command here and now."""
    began = time.monotonic()
    path = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    subprocess.run([*HWDYNO, "--help"], env=path, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def perform(moment: Moment, directory: Path, number: int = 0) -> Verdict:
    """End the command at that moment in an empty directory, and judge what it leaves."""
    place, home = Place(directory / "data", directory / "out", 20_000 + number % 10_000), directory / "home"
    startup = startup_s()
    for path in (place.data, place.out, home):
        path.mkdir(parents=True)
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    verdict = Verdict(moment)
    where = environment(place, home, mark) | dict(moment.command.environment)
    with (directory / "stdout").open("wb") as out, (directory / "stderr").open("wb") as err:
        line = moment.command.line(place)
        process = subprocess.Popen(line, env=where, cwd=place.out, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
    after_s = moment.at * moment.command.seconds * max(1.0, startup / STARTUP_S)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(after_s)
        verdict.outcome = "ended before"
    seen = len(_RESULT.findall((directory / "stderr").read_text(errors="replace")))
    if not verdict.outcome:
        _end(process, verdict, startup, directory, seen)
    try:
        if moment.how == "KILL":
            _recover(moment, place, where, verdict)
        _judge_files(moment, place, home, verdict)
        _judge_processes(mark, verdict, 15.0 if moment.how == "KILL" else 2.0)
    finally:
        for pid in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if verdict.problems:
        text = (directory / "stderr").read_text(errors="replace")
        verdict.details = f"at {after_s:.2f} s, {verdict.took_s:.2f} s: {text[-1500:]}"
    shutil.rmtree(directory)
    return verdict


def _end(process: subprocess.Popen[bytes], verdict: Verdict, startup: float, directory: Path, seen: int) -> None:
    """Send the signals, wait for the end, and judge status, time and Runs."""
    moment = verdict.moment
    first, *following = [getattr(signal, f"SIG{word}") for word in moment.how.split()]
    control = Control()
    sent_at, sent_wall = time.monotonic(), time.time()
    if not following:
        control.go()
    is_early = not _owns_signals(process.pid)
    process.send_signal(first)
    leaves = not moment.command.keeps
    for number in following:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment.gap_s)
            break
        while process.poll() is None and is_pending(process.pid, first):
            time.sleep(0.002)  # A second one of the same kind would be merged with it.
        sent_at, leaves = time.monotonic(), True
        control.go()
        process.send_signal(number)
    try:
        status = process.wait(ORDERLY_S)
    except subprocess.TimeoutExpired:
        verdict.problems.append("does not end")
        process.kill()
        process.wait()
        control.late_s()
        return
    verdict.took_s = time.monotonic() - sent_at
    verdict.late_s = control.late_s()
    runs = _runs(directory / "home", verdict, moment.how == "KILL")
    says = (directory / "stderr").read_text(errors="replace")
    if moment.how == "KILL":
        verdict.outcome = "killed"
        return
    # Two signals that arrive while the process waits for a processor are taken in any order.
    numbers = {int(number) for number in (first, *following)}
    # Python's own handler raises, also where the interpreter still looks for its modules: then it gives 1.
    if is_early and (-status in numbers or (status == 1 and _NOT_BEGUN.search(says))):
        verdict.outcome = "at its start"
        return
    if "Traceback" in says:
        verdict.problems.append("traceback")
    if status - 128 not in numbers:
        # All was done, and the interpreter was ending: as slowly as it starts on a busy machine.
        verdict.outcome = "finished"
        if verdict.took_s - verdict.late_s > LIMIT_S + startup or status not in {0, 1, 2, 3}:
            verdict.problems.append(f"status {status}")
        return
    verdict.outcome = "kept" if runs else "left"
    if verdict.took_s - verdict.late_s > (LIMIT_S if leaves else KEPT_S):
        verdict.problems.append(f"takes over {LIMIT_S if leaves else KEPT_S:g} s")
    for path, run in runs:
        if not run.interrupted and path.stat().st_mtime > sent_wall + WRITTEN_S:
            verdict.problems.append("interrupted: false")
        if run.interrupted and not run.finished:
            verdict.problems.append("finished: null")
        if sum(len(experiment.points) for experiment in run.experiments) < seen:
            verdict.problems.append("points lost")
    if seen and not runs:
        verdict.problems.append("no Run")


def is_pending(pid: int, number: int) -> bool:
    """Whether a signal was sent but not taken yet (proc(5): ShdPnd)."""
    return _has_signal(pid, "ShdPnd", number)


def _owns_signals(pid: int) -> bool:
    """Whether the command has taken over its signals: Python itself handles SIGINT alone (proc(5): SigCgt)."""
    return _has_signal(pid, "SigCgt", signal.SIGTERM)


def _has_signal(pid: int, mask: str, number: int) -> bool:
    with contextlib.suppress(OSError):
        found = re.search(rf"^{mask}:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        return found is not None and bool(int(found[1], 16) >> number - 1 & 1)
    return False


@cache
def _schema() -> Any:
    schema = json_schema()
    return jsonschema.validators.validator_for(schema)(schema)


def _runs(home: Path, verdict: Verdict, is_killed: bool) -> list[tuple[Path, Any]]:
    """The Runs of a store; anything else there is a problem, but for the journal of a killed process."""
    found = []
    for path in sorted((home / "runs").glob("*")) if (home / "runs").exists() else []:
        if path.suffix == ".json" and not path.name.startswith("."):
            text = path.read_text()
            found.append((path, from_json(text)))
            if next(_schema().iter_errors(json.loads(text)), None) is not None:
                verdict.problems.append("Run not valid")
        elif path.suffix == ".journal" and is_killed:
            run = Store(home).load(path.stem)
            if not run.interrupted:
                verdict.problems.append("journal not interrupted")
        elif not is_killed:
            verdict.problems.append("journal left" if path.suffix == ".journal" else "temporary file in the store")
    return found


def _recover(moment: Moment, place: Place, where: dict[str, str], verdict: Verdict) -> None:
    """The next run in the same place."""
    where = {name: value for name, value in where.items() if name not in {"HWDYNO_AGENTS"}}
    done = subprocess.run(
        [*HWDYNO, *RECOVERY, "--path", str(place.data)], env=where, cwd=place.out, capture_output=True, text=True
    )
    if done.returncode not in {0, 3}:
        verdict.problems.append("the next run fails")
        verdict.details = done.stderr
    for pattern in moment.command.stays_when_killed:
        for path in place.data.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _judge_files(moment: Moment, place: Place, home: Path, verdict: Verdict) -> None:
    stay = moment.command.stays_when_generating if verdict.outcome == "left" else ()
    left = sorted(path.name for path in place.data.iterdir() if not any(path.match(pattern) for pattern in stay))
    if left:
        verdict.problems.append(f"left in the measured place: {re.sub('[0-9a-f]{6,}', 'X', left[0])}")
    if moment.how == "KILL":
        return
    for path in (place.out / "tmp").iterdir():
        verdict.problems.append(f"temporary file left: {path.name}")
    for path in place.out.rglob("*"):
        if path.name.startswith("."):
            verdict.problems.append("hidden file left beside the report")
        elif path.suffix in _WHOLE and not path.read_bytes().rstrip().endswith(_WHOLE[path.suffix]):
            verdict.problems.append(f"half a {path.suffix[1:]}")


def _judge_processes(mark: str, verdict: Verdict, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while left := marked(mark):
        if time.monotonic() > until:
            name = Path(f"/proc/{left[0]}/comm").read_text().strip()
            verdict.problems.append(f"process left: {name}")
            return
        time.sleep(0.02)


def marked(mark: str) -> list[int]:
    """Processes that have this mark in their environment."""
    found = []
    wanted = f"HWDYNO_MOMENT={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found
