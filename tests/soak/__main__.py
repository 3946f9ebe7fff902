"""Runs all commands in rounds, each as a program and in one process, and prints what grew: ``--minutes 120``.

Exit status: 0 if every figure is flat, 1 if one grows or something is left, 3 if the soak was too short to tell.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from signals.commands import Command, here

from soak.rounds import Runner
from soak.series import HEAD

FLAT, GROWS, UNDECIDED = 0, 1, 3


class TimeIsOverError(Exception):
    """The time is over, or a signal came."""


class Watch:
    """The time of the soak, without that in which it paused."""

    def __init__(self, seconds: float, pause: Path | None) -> None:
        self.seconds = seconds
        self.pause = pause
        self.began = time.monotonic()
        self.paused_s = 0.0
        self.is_to_end = False

    @property
    def spent_s(self) -> float:
        """Time without the pauses."""
        return time.monotonic() - self.began - self.paused_s

    def check(self) -> None:
        """Wait while the soak pauses; raise ``TimeIsOverError`` when its time is over."""
        since = time.monotonic()
        while self.pause is not None and self.pause.exists() and not self.is_to_end:
            time.sleep(1)
        self.paused_s += time.monotonic() - since
        if self.is_to_end or self.spent_s >= self.seconds:
            raise TimeIsOverError


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--rounds", type=int, default=1 << 30, help="end after so many rounds")
    parser.add_argument("--only", action="append", default=[], help="a command's name; may be repeated")
    parser.add_argument("--programs", type=int, default=1 << 30, help="commands as programs in a round, in turn")
    parser.add_argument("--cpu-share", type=float, default=1.0, help="of one processor, at most")
    parser.add_argument("--pause-while", type=Path, metavar="FILE", help="begin no command while this file exists")
    parser.add_argument("--path", type=Path, help="where to work; the system's temporary directory by default")
    parser.add_argument("--port", type=int, default=19_800, help="of the servers")
    planted = ["", "memory", "little memory", "object", "descriptor", "thread", "disk", "process"]
    parser.add_argument("--plant", default="", choices=planted)
    return parser.parse_args()


def shortened(command: Command) -> Command:
    """The command with a limit on its time, where it takes one: what leaks in each run shows by the number of runs."""
    more: tuple[str, ...] = ()
    if "--no-page" in command.words and "--budget" not in command.words:
        more = ("--budget", "1s")
    if "--workload" in command.words:
        more += ("--no-plain",)  # Their file has a gigabyte.
    if command.words[0] == "network" and "streams" in command.words:
        more += ("--streams", "1,2", "--direction", "up")  # All of them keep every processor busy for minutes.
    return replace(command, words=(*command.words, *more))


def main() -> int:
    """Soak, print the verdicts, and give the exit status."""
    args = _parsed()
    commands = [shortened(command) for command in here() if not args.only or command.name in args.only]
    # A command with a different program cannot be performed in the process.
    inside = [command for command in commands if command.program == here()[0].program]
    watch = Watch(args.minutes * 60, args.pause_while)
    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, lambda *_: setattr(watch, "is_to_end", True))
    with tempfile.TemporaryDirectory(prefix="hwdyno-soak-", dir=args.path) as folder:
        runner = Runner(Path(folder).resolve(), args)
        soak, rounds = runner.soak, 0
        try:
            while rounds < args.rounds:
                seen: dict[str, list[float]] = {}
                for number, command in enumerate(commands):
                    watch.check()
                    if (number - rounds * args.programs) % len(commands) < args.programs:
                        runner.as_program(command)
                    if command in inside:
                        watch.check()
                        for name, value in runner.in_process(command).items():
                            seen.setdefault(name, []).append(value)
                rounds += 1
                runner.end_round(seen)
                shown = ", ".join(f"{name} {values[-1]:,.0f}" for name, values in seen.items())
                print(f"round {rounds}, {watch.spent_s / 60:.1f} min: {shown}", flush=True)
        except TimeIsOverError:
            pass
        try:
            if rounds and not watch.is_to_end:
                runner.decide_peaks(commands)
        finally:
            runner.end()
    print(
        f"{watch.spent_s / 60:.1f} minutes ({watch.paused_s / 60:.1f} more in pauses), {rounds} whole rounds of "
        f"{len(commands)} commands: {soak.performed['program']} programs, {soak.performed['process']} in one process, "
        f"{soak.cpu_s:.0f} s of CPU time"
    )
    verdicts = soak.verdicts(len(inside))
    print(HEAD)
    for verdict in verdicts:
        print(verdict.line())
    for leftover, count in [*soak.left.items(), *soak.failed.items()]:
        print(f"BAD {count} x {leftover}")
    words = {verdict.word for verdict in verdicts}
    if "GROWS" in words or soak.left or soak.failed:
        return GROWS
    return FLAT if words == {"flat"} else UNDECIDED


if __name__ == "__main__":
    sys.exit(main())
