"""What resources cost each other when they run at the same time, and the cause where one was measured."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hwdyno.analysis.estimates import ratio_interval
from hwdyno.analysis.resources import find
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.model.axes import BACKGROUND
from hwdyno.model.units import format_bytes_s, format_number, plural
from hwdyno.model.words import ExperimentResult, Measurement, Run, Value

CONFIDENCE = 0.95
MIN_COST = 0.02
"""A smaller cost is not worth a finding."""
HIGH_COST = 0.10
"""Cost from which on it is a warning."""
MIN_RISE = 0.02
"""Minimum rise, as a share of the machine's CPU time: smaller changes of steal or interrupts are no cause."""
EXPLAINS = 0.5
"""A cause explains at least this part of the cost."""
BUSY = 0.9
"""Share of all processors below which a thread that waits has an idle one to run on."""
FULL = 0.85
"""Share of the memory's rate alone from which on its channels are busy."""


@dataclass(frozen=True)
class Cell:
    """What one resource keeps of its throughput beside one load."""

    result: ExperimentResult
    at: int
    load: str
    kept: Value
    """Throughput beside the load over that alone, with its 95% interval."""
    sure: Value
    """The same, with an interval that holds for all cells of the Run together (Bonferroni)."""

    @property
    def resource(self) -> str:
        """The resource that was measured."""
        return self.result.resource

    @property
    def point(self) -> Measurement:
        """Its point beside the load."""
        return self.result.points[self.at]

    @property
    def cost(self) -> float:
        """The share of its throughput that the load takes; negative where it gains."""
        return 1 - self.kept.value

    @property
    def load_kept(self) -> float | None:
        """What the load still delivered, as a share of its throughput alone; none where it was not measured."""
        shares = _numbers(self.point.details, "load_share_by_round")
        return sum(shares) / len(shares) if shares else None

    @property
    def is_certain(self) -> bool:
        """Whether a cost is beyond noise and worth a word."""
        return self.sure.high is not None and self.sure.high < 1 and self.cost >= MIN_COST


def list_cells(run: Run) -> list[Cell]:
    """The cells of the Run's matrix, in its order; less than two rounds give no interval and are left out."""
    found = []
    for result in run.experiments:
        for at, point in enumerate(result.points):
            load = point.parameters.get(BACKGROUND.name)
            loaded, alone = (_numbers(point.details, f"{name}_by_round") for name in ("loaded", "alone"))
            if result.load == BACKGROUND.name and len(loaded) == len(alone) > 1 and min(*loaded, *alone) > 0:
                found.append((result, at, str(load), loaded, alone))
    together = 1 - (1 - CONFIDENCE) / max(1, len(found))
    return [
        Cell(result, at, load, ratio_interval(loaded, alone), ratio_interval(loaded, alone, together))
        for result, at, load, loaded, alone in found
    ]


def _numbers(details: Mapping[str, Any], name: str) -> list[float]:
    """The numbers of a list; empty where there is none."""
    values = details.get(name)
    numbers = [as_number(value) for value in values] if isinstance(values, list | tuple) else []
    return [number for number in numbers if number is not None]


@dataclass(frozen=True, slots=True)
class Cause:
    """What was measured to take the throughput away."""

    name: str
    says: str


def find_cause(cell: Cell, run: Run) -> Cause | None:
    """The cause of a cost, by what was measured of both sides; none where that names none.

    CPU time and interrupts count only if the resource's threads ran less by at least half of the cost. Memory
    bandwidth counts only if they ran on, and the bytes that both sides moved fill what memory moves alone.
    """
    known = {name: number for name, value in cell.point.details.items() if (number := as_number(value)) is not None}
    processors = len(run.machine.container.cpuset) or run.machine.cpu.threads
    cores, cores_alone = known.get("cores"), known.get("cores_alone")
    if not processors or cores is None or not cores_alone:
        return None
    lost_cores = cell.cost * cores_alone
    ran_less = 1 - cores / cores_alone >= EXPLAINS * cell.cost

    def rise(name: str) -> float:
        return known[name] - known[f"{name}_alone"] if {name, f"{name}_alone"} <= set(known) else 0.0

    for name, words, counts in (
        ("steal_share", "Steal", True),
        ("interrupt_share", "Interrupts", ran_less),
    ):
        grew = rise(name)
        if counts and grew >= MIN_RISE and grew * processors >= EXPLAINS * lost_cores:
            before, after = percent(known[f"{name}_alone"]), percent(known[name])
            return Cause(words.lower(), f"{words} rose from {before} to {after} of the CPU time.")
    busy = known.get("busy_share", 0.0)
    if ran_less and busy >= BUSY:
        wanted = cores_alone + known.get("load_cores_alone", 0.0)
        if wanted >= BUSY * processors:
            total = plural(processors, "processor")
            return Cause("CPU", f"CPU time is short: alone, both together use {format_number(wanted)} of {total}.")
        if find(cell.resource).client == "measured":
            # Its threads never sleep: that they ran less is what was lost, also on a machine with other load.
            less = percent(1 - cores / cores_alone)
            return Cause("CPU", f"CPU time is short: its threads ran {less} less, with {percent(busy)} of it in use.")
    capacity = max((known.get(f"{side}bytes_s_alone", 0.0) for side in _memory_sides(cell)), default=0.0)
    both = {"bytes_s", "load_bytes_s"}
    moved = math.fsum(known[name] for name in both) if both <= set(known) else 0.0
    if not ran_less and 0 < FULL * capacity <= moved:
        return Cause(
            "memory bandwidth",
            f"Memory bandwidth is full: both moved {format_bytes_s(moved)}, and memory alone moves "
            f"{format_bytes_s(capacity)}.",
        )
    return None


def _memory_sides(cell: Cell) -> list[str]:
    """The prefix of the details of each side that counts bytes of memory."""
    return [side for name, side in ((cell.resource, ""), (cell.load, "load_")) if find(name).is_memory_traffic]


def contention(case: Case) -> Verdict | None:
    """The pair with the largest certain cost, with its cause, and how many others there are."""
    certain = sorted((cell for cell in list_cells(case.run) if cell.is_certain), key=lambda cell: -cell.cost)
    if not certain:
        return None
    worst, cause = certain[0], find_cause(certain[0], case.run)
    says = [f"Worst pair: {worst.resource} loses {cost_words(worst.kept)} beside {worst.load}."]
    says.append(cause.says if cause else "Limit not identified.")
    if worst.load_kept is not None:
        says.append(f"The load still delivered {percent(worst.load_kept)} of its throughput alone.")
    if certain[1:]:
        verb_phrase = "pair loses" if len(certain) == 2 else "pairs lose"
        says.append(f"{len(certain) - 1} more {verb_phrase} at least {percent(certain[-1].cost)}.")
    return Verdict(
        "warning" if worst.cost >= HIGH_COST else "info",
        " ".join(says),
        {
            "resource": worst.resource,
            "load": worst.load,
            "cost": worst.cost,
            "cause": cause.name if cause else "",
            "costs": {f"{cell.resource} beside {cell.load}": cell.cost for cell in certain},
        },
        _advice(worst, cause),
        points=(worst.at,),
        resource=worst.resource,
    )


def no_contention(case: Case) -> Verdict | None:
    """No pair has a certain cost; says how large one may be at most, or that the readings vary too much to tell."""
    cells = list_cells(case.run)
    if not cells or any(cell.is_certain for cell in cells):
        return None
    most = max(1 - (cell.sure.low if cell.sure.low is not None else cell.kept.value) for cell in cells)
    evidence = {"cells": len(cells), "most": most}
    if most > HIGH_COST:
        return Verdict(
            "info",
            f"Too noisy to find contention: a cost below {percent(most)} would not be seen.",
            evidence,
            f"Measure longer on a quiet machine: {command(cells)} --profile standard",
            resource=cells[0].resource,
        )
    return Verdict(
        "info",
        f"No contention found: together, no resource loses more than {percent(max(most, 0.001))}. "
        f"This holds {f'for all {len(cells)} pairs at once, ' if len(cells) > 1 else ''}with 95% confidence.",
        evidence,
        f"Measure longer for a tighter bound: {command(cells)} --profile standard",
        resource=cells[0].resource,
    )


def _advice(cell: Cell, cause: Cause | None) -> str:
    again = command([cell])
    if cause is None:
        return f"Measure the pair longer: {again} --profile standard"
    remedies = {
        "CPU": "Give each side its own processors, or use fewer threads",
        "interrupts": "Keep interrupts off the processors of the threads",
        "steal": "Use a host that does not share its processors",
        "memory bandwidth": "Use fewer memory threads, or run both at different times",
    }
    return f"{remedies[cause.name]}, then compare: {again}"


def command(cells: Sequence[Cell]) -> str:
    """The command that measures the resources of some cells again, at the same loads."""
    names = dict.fromkeys(name for cell in cells for name in (cell.resource, cell.load))
    details = [cell.point.details for cell in cells]
    loads = dict.fromkeys(str(detail[key]) for detail in details for key in ("at", "load_at") if detail.get(key))
    words = ["hwdyno", "together", "--resources", ",".join(names), *(["--at", ",".join(loads)] if loads else [])]
    path = next(filter(None, (cell.result.fixed.get("path") for cell in cells)), None)
    return " ".join([*map(shlex.quote, words), *(["--path", shlex.quote(str(path))] if path else [])])


def cost_words(kept: Value) -> str:
    """A cost with its interval: ``43% (38 to 47%)``; a gain is negative."""
    if kept.low is None or kept.high is None:
        return percent(1 - kept.value)
    return f"{percent(1 - kept.value)} ({percent(1 - kept.high).removesuffix('%')} to {percent(1 - kept.low)})"


_PAIRS = Applies(under_load=True)
RULES = (
    Rule("contention", "run", contention, _PAIRS),
    Rule("no_contention", "run", no_contention, _PAIRS),
)
