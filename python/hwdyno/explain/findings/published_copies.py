"""Figures of a text that are not what it calls them: a part's, another row's, a delay, more threads than processors."""

from __future__ import annotations

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.published import FASTEST_DRIVE_BYTES_S, is_of_several
from hwdyno.explain.findings.published_statements import find_statement
from hwdyno.explain.findings.rule import Case, Verdict
from hwdyno.model.units import format_bytes_s, number_at, plural

FASTEST_NETWORK_BYTES_S = 100e9
"""Two ports of 400 Gbit/s for each accelerator: more than hosts of 2026 have for storage."""
MAX_QUOTES = 4


def quoted_part(case: Case) -> list[Verdict]:
    """A figure that a text quotes as a result, where its tool printed it of a part of one."""
    quotes = [*(find_statement(case, "quoted_parts") or ()), *(find_statement(case, "quoted_rows") or ())]
    found = []
    for quote in quotes[:MAX_QUOTES]:
        subject = f", quoted for {quote['subject']}," if quote["subject"] else ""
        subject = subject or ", quoted as the best,"
        found.append(
            Verdict(
                "warning",
                f"{quote['quoted']}{subject} is {quote['part']}; {quote['whole_name']} "
                f"{format_bytes_s(quote['whole'])}.",
                {"quoted": quote["quoted"], "part": quote["part"], "whole_bytes_s": quote["whole"]},
                "Quote the figure of the whole test, under the name that the tool prints.",
            )
        )
    return found


def copied_cells(case: Case) -> Verdict | None:
    """Two rows of a table with the same measured figures one after another."""
    copied = find_statement(case, "copied_cells") or {}
    if not copied:
        return None
    (first, second), cells = copied["rows"], copied["cells"]
    lengths = f", and have {cells[0]} and {cells[1]} cells" if cells[0] != cells[1] else ""
    return Verdict(
        "warning",
        f"Two rows share {copied['count']} figures one after another{lengths} (those that begin with '{first}' and "
        f"'{second}'). Measured figures are not equal by chance: cells of one row were copied or typed into the other.",
        dict(copied),
        "Check both rows against the tool's output, and leave out the row that cannot be checked.",
    )


def delay_called_rate(case: Case) -> Verdict | None:
    """An injected delay that a text calls a rate, so that bandwidth seems to fall with more load."""
    words = find_statement(case, "delay_called_rate")
    if not words:
        return None
    return Verdict(
        "warning",
        "The text says that bandwidth falls as an injection rate rises, but what is injected is a delay. "
        "A longer pause between accesses is less load, so bandwidth falls.",
        {"words": words},
        "Plot latency against bandwidth, with the delay as the load that is taken away: hwdyno memory",
    )


def optimal_threads(case: Case) -> Verdict | None:
    """More threads than the stated processors, called best for what processors do."""
    claim = find_statement(case, "optimal_threads") or {}
    threads, processors = number_at(claim, "threads"), number_at(claim, "processors")
    if not claim:
        return None
    return Verdict(
        "warning",
        f"{threads:.0f} threads are called optimal for {claim['resource']}, but the text names "
        f"{plural(processors, 'processor')} at most. Threads beyond them take turns, and add no bandwidth or "
        "arithmetic.",
        {"threads": threads, "processors": processors},
        f"Compare up to {plural(processors, 'thread')}, with repeats: hwdyno {claim['resource']} "
        f"--threads 1..{processors:.0f}",
    )


def utilization_formula(case: Case) -> Verdict | None:
    """A formula that adds load time to compute time, by which a row's storage would be faster than any."""
    formula = find_statement(case, "utilization_formula")
    found = []
    for at, point in enumerate(case.result.points):
        printed = point.details.get("printed") or {}
        share = number_at(printed, "au") or number_at(printed, "au_mean")
        if not formula or point.throughput.unit != "bytes/s" or not 0 < share < 1:
            continue
        labels = " ".join(str(value) for value in point.parameters.values()).lower()
        is_drive = any(word in labels for word in ("nvme", "ssd", "drive")) and not is_of_several(labels)
        accelerators = Case(case.run, case.result, at).number("accelerators") or 1.0
        limit = FASTEST_DRIVE_BYTES_S if is_drive else FASTEST_NETWORK_BYTES_S * accelerators
        if (rate := point.throughput.value / (1 - share)) > limit:
            found.append((rate / limit, rate, limit, share, at))
    if not found:
        return None
    _, rate, limit, share, at = max(found)
    row = Case(case.run, case.result, at)
    kind = "the fastest drive" if limit == FASTEST_DRIVE_BYTES_S else "a network of 800 Gbit/s for each accelerator"
    stated_rate = format_bytes_s(row.point.throughput.value)
    return Verdict(
        "warning",
        f"The stated formula of AU does not hold: by it storage delivers {stated_rate} / "
        f"(1 - {100 * share:.4g}%) = {format_bytes_s(rate)}, where {kind} has {format_bytes_s(limit)} ({row.label}). "
        "Loading overlaps computing (prefetch), so that their times do not add up.",
        {"formula": formula, "rate": rate, "limit": limit},
        "AU is compute time / run time; state that: hwdyno explain published_au",
        points=(at,),
    )


RULES = (
    Rule("quoted_part", "experiment", quoted_part, Applies(imported=True, resources=("storage", "memory"))),
    Rule("copied_cells", "experiment", copied_cells, Applies(imported=True, needs=("details.copied_cells",))),
    Rule(
        "delay_called_rate",
        "experiment",
        delay_called_rate,
        Applies(imported=True, resources=("storage", "memory"), needs=("details.delay_called_rate",)),
    ),
    Rule(
        "optimal_threads",
        "experiment",
        optimal_threads,
        Applies(imported=True, resources=("memory", "compute"), needs=("details.optimal_threads",)),
    ),
    Rule(
        "utilization_formula",
        "experiment",
        utilization_formula,
        Applies(imported=True, resources=("training",), needs=("details.utilization_formula",)),
    ),
)
