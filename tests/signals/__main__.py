"""Ends commands at many random moments, and prints a tally by command, signal and outcome."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from signals.commands import here
from signals.moments import HOWS, LIMIT_S, Moment, Verdict, perform, sample, sample_starts


def tally(verdicts: list[Verdict]) -> str:
    """How many moments of each command and signal, with those that ended badly after a slash."""
    made: Counter[tuple[str, str]] = Counter((verdict.moment.command.name, verdict.moment.how) for verdict in verdicts)
    bad = Counter((verdict.moment.command.name, verdict.moment.how) for verdict in verdicts if verdict.problems)
    names = sorted({name for name, _ in made})
    lines = [f"{'command':18}" + "".join(f"{how:>10}" for how in HOWS)]
    for name in names:
        cells = (f"{made[name, how]}/{bad[name, how]}" if bad[name, how] else f"{made[name, how]}" for how in HOWS)
        lines.append(f"{name:18}" + "".join(f"{cell:>10}" for cell in cells))
    outcomes = Counter((verdict.moment.how, verdict.outcome) for verdict in verdicts)
    for how in HOWS:
        found = ", ".join(f"{count} {outcome}" for (by, outcome), count in sorted(outcomes.items()) if by == how)
        lines.append(f"{how:9} {found}")
    kinds = Counter(problem for verdict in verdicts for problem in verdict.problems)
    lines += [f"BAD {count:4} x {problem}" for problem, count in kinds.most_common()]
    leaving = [verdict for verdict in verdicts if verdict.outcome == "left" or len(verdict.moment.how.split()) > 1]
    took = sorted(verdict.took_s for verdict in leaving)
    if took:
        lines.append(f"left after: median {took[len(took) // 2]:.2f} s, longest {took[-1]:.2f} s, of {len(took)}")
    late = [verdict for verdict in verdicts if verdict.late_s > 0.1]
    lines.append(f"machine late by over 0.1 s: {len(late)} of {len(verdicts)} moments")
    excused = sum(verdict.took_s > LIMIT_S and verdict.took_s - verdict.late_s <= LIMIT_S for verdict in leaving)
    lines.append(f"over {LIMIT_S:g} s by the clock, and not without what the machine was late: {excused}")
    return "\n".join(lines)


def format_line(verdict: Verdict) -> str:
    """One moment in a line, with what went wrong below."""
    moment, bad = verdict.moment, ", ".join(verdict.problems)
    line = (
        f"{moment.command.name:18} {moment.how:8} {moment.at:.2f}  {verdict.outcome:12} {verdict.took_s:5.2f} s, "
        f"machine late {verdict.late_s:5.2f} s"
    )
    return f"{line}  {bad}\n{verdict.details}" if bad else line


def main() -> int:
    """End the commands, and give 1 if one ended badly."""
    parser = argparse.ArgumentParser(prog="signals", description=__doc__)
    parser.add_argument("--moments", type=int, default=1000)
    parser.add_argument("--starts", type=int, default=220, help="more moments, in the first 0.3 s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no moment after this time")
    parser.add_argument("--jobs", type=int, default=1, help="moments at a time")
    parser.add_argument("--only", action="append", default=[], help="a command's name; may be repeated")
    parser.add_argument("--pause-while", type=Path, metavar="FILE", help="begin no moment while this file exists")
    args = parser.parse_args()
    # A background job and nohup hand down that these are ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    commands = [command for command in here() if not args.only or command.name in args.only]
    verdicts: list[Verdict] = []
    until = time.monotonic() + args.seconds
    with tempfile.TemporaryDirectory(prefix="hwdyno-moments-") as parent, ThreadPoolExecutor(args.jobs) as jobs:

        def one(number: int, moment: Moment) -> Verdict | None:
            while args.pause_while is not None and args.pause_while.exists():
                time.sleep(1)
            if time.monotonic() > until:
                return None
            try:
                return perform(moment, Path(parent) / str(number), number)
            except Exception as error:
                return Verdict(moment, "harness", [f"harness: {error!r}"])

        moments = [*sample(commands, args.moments, args.seed), *sample_starts(commands, args.starts, args.seed)]
        begun = [jobs.submit(one, *item) for item in enumerate(moments)]
        for future in as_completed(begun):
            if (verdict := future.result()) is not None:
                verdicts.append(verdict)
                print(f"{len(verdicts):4} {format_line(verdict)}", flush=True)
    print(tally(verdicts))
    return 1 if any(judgement.problems for judgement in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
