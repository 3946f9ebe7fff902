"""Whether jobs that were not at work for the same time make the sum of their own rates more than was ever moved."""

from __future__ import annotations

from hwdyno.findings.applies import Applies, Rule
from hwdyno.findings.commands import command_of
from hwdyno.findings.rule import Case, Verdict, as_flag, as_number, percent, quantity

UNEQUAL = 0.05
"""By so much the sum of the jobs' own rates has to exceed the whole's before there is something to choose."""
# What a pattern of IOzone's is in fio's words, where it has any.
_RW = {"write": "write", "rewrite": "write", "read": "read", "reread": "read"}
_RW |= {word: word for word in ("randread", "randwrite", "randrw")}


def unequal_jobs(case: Case) -> Verdict | None:
    """Children against parent, in IOzone's words: each job's rate over its own time, and all bytes over the wall clock.

    With jobs of equal length both are the same. Otherwise only the parent's is a rate at which bytes moved.
    """
    over = as_number(case.point.details.get("children_sum_over_parent"))
    shortest = as_number(case.point.details.get("children_shortest_share"))
    if over is None or over <= 1 + UNEQUAL or case.point.throughput.unit != "bytes/s":
        return None
    if case.parameter("rw") and as_flag(case.parameter("time_based", True)):
        return None  # Each runs for the same time; what they begin apart is the scheduler's, and no work of theirs.
    whole = case.point.throughput.value
    early = f": one was done after {percent(shortest)} of the time" if shortest is not None and shortest < 1 else ""
    parent, total = quantity(whole, "bytes/s"), quantity(whole * over, "bytes/s")
    return Verdict(
        "warning",
        f"{case.label}: the jobs' own rates add up to {total}, {percent(over - 1)} more than the {parent} that they "
        f"moved together, because not all were at work all the time{early}. Quote {parent}, all bytes over the wall "
        "clock: the sum (what IOzone's children see) counts each job as if it had gone on at its own rate to the end, "
        "and the last ones had the storage to themselves.",
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
    """How to have all jobs at work for the same time."""
    if case.parameter("rw"):
        return f"Let all jobs run for the same time: {case.command(time_based=True, runtime=10)}"
    rw, point = _RW.get(str(case.parameter("pattern"))), case.point.parameters
    if rw is None:
        return f"Compare this with other runs by the whole's rate alone, or take one job: {case.command(numjobs=1)}"
    same = {"rw": rw, "bs": case.parameter("bs"), "numjobs": point.get("numjobs", case.parameter("numjobs"))}
    same |= {"ioengine": "psync", "direct": case.parameter("direct", False), "runtime": 10}
    return f"Let all jobs run for the same time: {command_of('storage', same, case.result.declaration)}"


RULES = (Rule("unequal_jobs", "point", unequal_jobs, Applies(needs=("details.children_sum_over_parent",))),)
