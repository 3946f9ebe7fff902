"""Figures of a published result that no tool printed so: copied into two rows, at a counter's limit, miscounted."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.published import sum_rounding
from hwdyno.explain.findings.rule import Case, Verdict, operations_per_s
from hwdyno.model.units import format_bytes_s, format_size, number_at, plural
from hwdyno.model.words import Measurement

MIN_DIGITS = 5
"""Digits from which on two measured rates are not equal by chance."""
APART = 0.01
MIN_OBSERVATIONS = 100
"""Observations below which p99 is the greatest of them."""
MIN_IDLE, MIN_IDLE_SHARE = 2, 0.2
"""Intervals without a byte, and their share, from which on a connection stalled."""
MIN_BITS = 16


def equal_figures(case: Case) -> Verdict | None:
    """Two rows with one rate and one block size, but not one bandwidth: a rate was copied, or one figure is wrong."""
    groups: dict[tuple[float, float], list[int]] = defaultdict(list)
    for at, point in enumerate(case.result.points):
        rate, size = _exact_rate(point), Case(case.run, case.result, at).number("bs")
        if rate and size and len(f"{rate:.0f}".rstrip("0")) >= MIN_DIGITS and point.throughput.unit == "bytes/s":
            groups[rate, size].append(at)
    for (rate, size), rows in groups.items():
        for first, second in pairwise(rows):
            points = [case.result.points[at] for at in (first, second)]
            rates = [point.throughput.value for point in points]
            error = APART + sum(sum_rounding(point, "bw") for point in points)
            if max(rates) / min(rates) - 1 <= error or points[0].parameters == points[1].parameters:
                continue
            labels = "; ".join(Case(case.run, case.result, at).label for at in (first, second))
            return Verdict(
                "warning",
                f"Two rows state the same {rate:,.0f} IOPS of {format_size(size)}, but "
                f"{' and '.join(map(format_bytes_s, rates))} ({labels}). One rate of one size is one bandwidth: "
                "the rate was copied, or a figure is wrong.",
                {"rate": rate, "bs": size, "bandwidths": rates},
                "Check both rows against the tool's output.",
                points=(first, second),
            )
    return None


def full_counter(case: Case) -> Verdict | None:
    """A rate of exactly a power of two less one, which a limit or a whole file gives, and a device does not."""
    rate = _exact_rate(case.point)
    bits = round(rate + 1).bit_length() - 1 if rate else 0
    if rate is None or bits < MIN_BITS or rate != 2**bits - 1:
        return None
    return Verdict(
        "warning",
        f"{rate:,.0f} IOPS is 2^{bits} - 1 ({case.label}), which is seldom chance. Possible causes: a counter or a "
        f"setting at its limit, or a file of 2^{bits} blocks that was done in one second.",
        {"rate": rate, "bits": bits},
        f"Measure for longer, on a larger file: {case.command(direct=True, size='64G')}",
    )


def loss_miscounted(case: Case) -> Verdict | None:
    """A share of lost datagrams that is not lost / sent: digits were dropped or typed."""
    wrong = case.point.details.get("wrong_losses") or ()
    if not wrong:
        return None
    share, lost, sent = max(wrong, key=lambda row: row[1] / row[2])
    return Verdict(
        "warning",
        f"The loss is not what its counts make ({plural(len(wrong), 'line')}; {case.label}): {share * 100:.3g}% is "
        f"stated, but {lost:,} of {sent:,} datagrams are {lost / sent * 100:.3g}%.",
        {"stated": share, "lost": lost, "sent": sent, "lines": len(wrong)},
        "Take the loss from the counts, and check the lines against the tool's output.",
        weight=lost / sent,
    )


def percentile_of_few(case: Case) -> Verdict | None:
    """A percentile of so few observations that it is the greatest of them."""
    count = number_at(case.point.details, "observations")
    shares = [
        (float(f"0.{match[1]}"), name)
        for name in case.point.details.get("printed") or {}
        if (match := re.fullmatch(r"lat_p(\d{2,6})", str(name)))
    ]
    empty = [(share, name) for share, name in shares if count * (1 - share) < 1 - 1e-9]
    if not 0 < count < MIN_OBSERVATIONS or not empty:
        return None
    share, _ = min(empty)
    return Verdict(
        "warning",
        f"Percentiles from p{share * 100:g} on are of {plural(round(count), 'observation')} ({case.label}): each is "
        "the greatest one, and says nothing of the tail.",
        {"observations": count, "share": share},
        "Measure for longer: p99 needs hundreds of observations, p99.9 thousands.",
        weight=1 / count,
    )


def stalled_intervals(case: Case) -> Verdict | None:
    """Intervals of a test in which nothing was moved."""
    idle, intervals = case.point.details.get("idle_intervals") or (0, 0)
    if idle < MIN_IDLE or idle < MIN_IDLE_SHARE * intervals:
        return None
    return Verdict(
        "warning",
        f"Nothing was moved in {idle} of {intervals} intervals ({case.label}): the connection stalled, and a mean does "
        "not describe it.",
        {"idle": idle, "intervals": intervals},
        "Look for lost packets, a mismatch of MTU or a driver that stops; then measure again.",
        weight=idle / intervals,
    )


def _exact_rate(point: Measurement) -> float | None:
    """The rate as printed, to its last digit; none where it was rounded or has a fraction."""
    rate = operations_per_s(point)
    rounding = point.details.get("rounding") or {}
    error = max((number_at(rounding, name) for name in rounding if name.removesuffix("_mean") == "iops"), default=1.0)
    return rate if rate and rate == round(rate) and error * rate <= 1 else None


RULES = (
    Rule("equal_figures", "experiment", equal_figures, Applies(imported=True, resources=("storage",))),
    Rule("full_counter", "point", full_counter, Applies(imported=True, resources=("storage",)), degrades=True),
    Rule("percentile_of_few", "point", percentile_of_few, Applies(imported=True, needs=("details.observations",))),
    Rule("stalled_intervals", "point", stalled_intervals, Applies(imported=True, needs=("details.idle_intervals",))),
    Rule("loss_miscounted", "point", loss_miscounted, Applies(imported=True, needs=("details.wrong_losses",))),
)
