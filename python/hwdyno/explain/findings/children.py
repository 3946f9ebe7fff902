"""Whether jobs of unequal duration make the sum of their rates more than the bytes moved over wall-clock time."""

from __future__ import annotations

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.commands import make_command
from hwdyno.explain.findings.rule import Case, Verdict, as_flag, as_number, percent, quantity

UNEQUAL = 0.05
"""The share by which the sum of the jobs' rates must exceed the total rate."""
# IOzone's patterns in fio's words, where fio has them.
_RW = {"write": "write", "rewrite": "write", "read": "read", "reread": "read"}
_RW |= {word: word for word in ("randread", "randwrite", "randrw")}


def unequal_jobs(case: Case) -> Verdict | None:
    """Children and parent, in IOzone's words: each job's rate over its own time, and all bytes over wall-clock time.

    With jobs of equal duration both are the same. Otherwise only the parent's is a rate at which bytes moved.
    """
    over = as_number(case.point.details.get("children_sum_over_parent"))
    shortest = as_number(case.point.details.get("children_shortest_share"))
    if over is None or over <= 1 + UNEQUAL or case.point.throughput.unit != "bytes/s":
        return None
    if case.parameter("rw") and as_flag(case.parameter("time_based", True)):
        return None  # Each runs for the same time; differences between starts are the scheduler's.
    whole = case.point.throughput.value
    early = f": one ended after {percent(shortest)} of it" if shortest is not None and shortest < 1 else ""
    parent, total = quantity(whole, "bytes/s"), quantity(whole * over, "bytes/s")
    return Verdict(
        "warning",
        f"The jobs' rates add up to {total} ({case.label}), {percent(over - 1)} more than all bytes over wall-clock "
        f"time: quote {parent}. Not all jobs ran all the time{early}. "
        "The sum (IOzone's children) counts each job as if it had kept its rate to the end.",
        {
            "children_sum_bytes_s": whole * over,
            "parent_bytes_s": whole,
            "over": over - 1,
            "shortest_share": shortest,
            "tolerance": UNEQUAL,
        },
        _advice(case),
        weight=over,
    )


def _advice(case: Case) -> str:
    """How to let all jobs run for the same time."""
    if case.parameter("rw"):
        return f"Let all jobs run for the same time: {case.command(time_based=True, runtime=10)}"
    rw, point = _RW.get(str(case.parameter("pattern"))), case.point.parameters
    if rw is None:
        return f"Compare runs by the total rate only, or use one job: {case.command(numjobs=1)}"
    same = {"rw": rw, "bs": case.parameter("bs"), "numjobs": point.get("numjobs", case.parameter("numjobs"))}
    same |= {"ioengine": "psync", "direct": case.parameter("direct", False), "runtime": 10}
    return f"Let all jobs run for the same time: {make_command(case.run, case.result, same, {})}"


RULES = (Rule("unequal_jobs", "point", unequal_jobs, Applies(needs=("details.children_sum_over_parent",))),)
