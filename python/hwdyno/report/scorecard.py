"""The scorecard on top of every report: the machine, a verdict, the figures that the field quotes, and what to do."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from functools import partial

from hwdyno.explain.findings import about_this_run, explain, rules_by_name
from hwdyno.explain.findings.rule import USELESS, first_sentence
from hwdyno.explain.findings.summary import ORDER
from hwdyno.model.point_details import Quoted
from hwdyno.model.units import format_memory, plural
from hwdyno.model.words import Finding, Run
from hwdyno.report.headlines import Headline, headlines
from hwdyno.report.verdict import RunVerdict, count_points, shorten_reason, tally_points, verdict_on
from hwdyno.system.failures import attempt, collecting

NO_VERDICT = "The verdict could not be formed."
"""The reason of a Run whose verdict failed."""
MAX_TODO = 3
MAX_SENTENCE = 76
"""Characters of a thing to do."""
COMMAND_COLUMNS = 76
"""Columns of a command before it goes on in the next line."""
OF_A_RUN = "hwdyno-scratch-"
"""Begins the name of a run's own directory, which is gone when the run has ended."""
MORE_OF_A_CURVE = {"knee", "saturated", "load_without_effect", "best_block_size", "best_combination"}
"""Rules that describe a curve and advise to measure more of it."""
_ENDS = r"`|;|(?<! )\. |(?<= \.) [A-Z]|(?<! )\.?$"
_COMMAND = re.compile(rf"(?:(?<=: )|(?<=`)|(?<=, then ))hwdyno [a-z][^`;]*?(?={_ENDS})")
_UNQUOTED = re.compile(r"[\w@%+=:,./-]+")
_HALF = re.compile(r",? ±([\d.]+)%")
_PLACEHOLDER = re.compile(r"(?<![\w./-])[A-Z]{3,}(?![\w./-])|\.\.\.|…")


@dataclass(frozen=True, slots=True)
class Todo:
    """One thing to do: a sentence, and a command that works as printed."""

    says: str
    command: str


@dataclass(frozen=True, slots=True)
class Scorecard:
    """What a reader takes from a Run in ten seconds."""

    machine: str
    """The machine in one line."""
    verdict: RunVerdict
    reason: str
    """The verdict's one reason, a sentence."""
    rows: tuple[Headline, ...]
    """The rows, ``MAX_ROWS`` at most, those of one resource together."""
    todo: tuple[Todo, ...]
    """What to do, ``MAX_TODO`` at most, what is about the machine before what is about this run."""
    lost: str
    """Why points that were planned are missing; empty where none is, or where the reason says it."""
    counts: str
    """How much the Run has in all: ``64 points, 14 findings``."""


def scorecard(run: Run) -> Scorecard:
    """The scorecard of a Run, no matter what it lacks."""
    rows, every = attempt("the list of headline figures", partial(headlines, run), ((), []))
    verdict, reason = attempt("the verdict", partial(verdict_on, run, every), ("use with care", NO_VERDICT))
    machine = attempt("the machine's description", partial(machine_line, run), run.machine.hostname or "")
    todo = attempt("the list of what to do", partial(_todo, run), ())
    return Scorecard(machine, verdict, reason, rows, todo, _explain_missing(run, reason), _counts(run))


def explain_run(run: Run) -> Run:
    """The Run with its curves, its findings, its verdict and the figures that it is quoted by.

    What fails on the way is missing, and the Run is degraded by it.
    """
    with collecting() as missing:
        run = _degrade(attempt("the list of findings", partial(explain, run), run), missing)
        run = attempt("the verdict", partial(_judge, run), replace(run, verdict="use with care", reason=NO_VERDICT))
    return _degrade(run, missing)


def _degrade(run: Run, missing: list[str]) -> Run:
    new = (sentence for sentence in missing if sentence not in run.degraded)
    return replace(run, degraded=(*run.degraded, *new))


def _judge(run: Run) -> Run:
    _, every = headlines(run)
    verdict, reason = verdict_on(run, every)
    quoted = tuple(Quoted(row.title, row.amount.value, row.amount.unit) for row in every)
    return replace(run, verdict=verdict, reason=reason, quoted=quoted)


# --- the machine


def machine_line(run: Run) -> str:
    """The machine in one line: host, processor, memory, and the storage if it was measured."""
    machine = run.machine
    if not run.machines:
        return f"Imported from {run.imported_from}: the machine is unknown" if run.imported_from else "Unknown machine"
    more = f" and {plural(len(run.machines) - 1, 'more host')}" if len(run.machines) > 1 else ""
    threads = plural(machine.cpu.threads, "thread") if machine.cpu.threads else ""
    parts = [", ".join(filter(None, [machine.cpu.model, threads]))]
    parts.append(format_memory(machine.memory.total_bytes) if machine.memory.total_bytes else "")
    if any(experiment.resource in {"storage", "training", "inference"} for experiment in run.experiments):
        disk = machine.storage.disk
        parts.append(" on ".join(filter(None, [machine.storage.filesystem, disk.model or disk.kind])))
    parts.append(f"{machine.hypervisor} guest" if machine.hypervisor else "")
    return f"{machine.hostname or 'This machine'}{more}: " + (
        "; ".join(filter(None, parts)) or "nothing is known of it"
    )


# --- what to do


def _todo(run: Run) -> tuple[Todo, ...]:
    """What is wrong first, then warnings, on the machine before this run's noise (once), then the rest."""
    made: dict[str, Todo] = {}
    if run.interrupted and _is_plain(run.command):
        made[run.command] = Todo("Measure the rest.", run.command)
    rules: set[str] = set()
    for finding in sorted(run.findings, key=urgency):
        command, only_run = command_in(finding.advice), about_this_run(finding) and finding.severity != "invalid"
        if " --ceiling " in command and " --ceiling " not in run.command:
            continue  # Its value is an example, and only the user knows the true one.
        if not command and not only_run and finding.severity != "info" and finding.rule in rules_by_name():
            command = f"hwdyno explain {finding.rule}"  # What to do has no command, such as to move a drive.
        kind = "noise" if only_run else finding.rule
        if command and command not in made and kind not in rules and not (only_run and finding.severity == "info"):
            rules.add(kind)
            made[command] = Todo(shorten_reason(_without_wide(first_sentence(finding.says)), MAX_SENTENCE), command)
    return tuple(made.values())[:MAX_TODO]


def urgency(finding: Finding) -> tuple[int, bool, bool]:
    """The key by which findings are sorted, the most urgent first."""
    only_run = about_this_run(finding)
    more_of_a_curve = finding.severity == "info" and finding.rule in MORE_OF_A_CURVE
    return ORDER[finding.severity], more_of_a_curve, only_run


def command_in(advice: str) -> str:
    """The first command in an advice that works as printed; empty where there is none."""
    found = (match[0].strip() for match in _COMMAND.finditer(advice))
    return next((command for command in found if not _PLACEHOLDER.search(command) and _is_plain(command)), "")


def _is_plain(command: str) -> bool:
    """Whether a shell takes a line as one command of the same words, and what it names outlives the run."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    again = " ".join(word if _UNQUOTED.fullmatch(word) else shlex.quote(word) for word in words)
    return command.startswith("hwdyno ") and again == command and OF_A_RUN not in command


def command_lines(command: str, columns: int = COMMAND_COLUMNS) -> list[str]:
    """A command in lines that a shell takes as one, each but the last with a backslash."""
    lines = [""]
    for word in re.split(r" (?=--)", command):
        if lines[-1] and len(lines[-1]) + len(word) + 3 > columns:
            lines.append("  " + word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def _without_wide(text: str) -> str:
    """A text without intervals that say nothing."""
    text = text.replace(" (few repeats)", "")
    return _HALF.sub(lambda half: "" if float(half[1]) > 100 * USELESS else half[0], text)


def _explain_missing(run: Run, reason: str) -> str:
    measured, planned = count_points(run)
    why = shorten_reason(next(iter(run.degraded), ""))
    return "" if run.interrupted or measured >= planned or why in reason else why


def _counts(run: Run) -> str:
    findings = [plural(len(run.findings), "finding")] if run.findings else []
    return ", ".join([tally_points(run), *findings])
