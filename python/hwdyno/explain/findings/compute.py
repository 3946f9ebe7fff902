"""What compute figures mean: noisy neighbours, clocks that fall under wide instructions, shares of the peak."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hwdyno.analysis.ceilings import bound_for
from hwdyno.analysis.ceilings.compute import LOOPS, field_name
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, apart, contrast, percent, quantity
from hwdyno.model.units import format_percent, format_value, number_at, plural
from hwdyno.model.words import Measurement, Parameters

LINPACK = "linpack"
NOISY = 0.90
"""Share of its best operations per cycle below which a core was shared."""
CLOCK_DROP = 0.03
DATA_COST = 0.05
"""A loop on numbers is slower than on zeros beyond this share; between two points the clock drifts by less."""
MEASURED_PEAK = 0.02
"""No program exceeds the peak of FMA; the two are measured one after the other, and the clock drifts by as much."""
NARROW = {"scalar", "sse"}
WIDE = {"avx2", "avx512", "amx", "sve"}


def _on_zeros(parameters: Parameters) -> bool:
    """Whether the operands are zeros, which draw less power: clock and peak are then not those of real data."""
    return parameters.get("operands") == "zero"


def _points(case: Case, kernel: str) -> Iterator[tuple[Parameters, Measurement]]:
    for _, _, point, given in case.run.measured_points(kernel):
        if point.validity != "invalid" and point.throughput.value > 0:
            yield given, point


def noisy_neighbour(case: Case) -> Verdict | None:
    """Operations per cycle far below the same loop's best: another thread shares the core's units.

    The ratio of arithmetic to a dependent chain shows this where the steal time stays 0.
    """
    details = case.point.details
    mean, best = number_at(details, "flop_per_cycle"), number_at(details, "flop_per_cycle_best_slice")
    threads = case.number("threads") or 1
    if not mean or not best or (case.threads is not None and threads > case.threads):
        return None
    share = mean / best
    if share >= NOISY:
        return None
    return Verdict(
        "warning",
        f"Noisy neighbour: other work took {percent(1 - share)} of the execution units ({case.label}). "
        f"The loop did {mean:.1f} operations per cycle on average and {best:.1f} in its best slice. "
        "Steal time may not show this.",
        {"flop_per_cycle": mean, "best_flop_per_cycle": best, "share": share},
        f"Repeat at a quieter time or on a dedicated host: {case.command()}",
        weight=1 - share,
    )


def _is_undisturbed(point: Measurement) -> bool:
    """Whether the loop had the core to itself; otherwise the dependent chain misreads the clock."""
    mean, best = (number_at(point.details, name) for name in ("flop_per_cycle", "flop_per_cycle_best_slice"))
    return not mean or not best or NOISY <= mean / best <= 1 / NOISY


def wide_clock_drop(case: Case) -> Verdict | None:
    """The clock under wide instructions, beside the clock under narrow ones."""
    clocks: dict[str, float] = {}
    for parameters, point in _points(case, LOOPS):
        isa, during = str(point.details.get("isa")), number_at(point.details, "clock_hz_during")
        if number_at(parameters, "threads") == 1 and during and _is_undisturbed(point) and not _on_zeros(parameters):
            clocks[isa] = max(clocks.get(isa, 0.0), during)
    narrow = max((hz for isa, hz in clocks.items() if isa in NARROW), default=0.0)
    drops = [(1 - hz / narrow, isa, hz) for isa, hz in clocks.items() if isa in WIDE and narrow]
    if not drops:
        return None
    drop, isa, hz = max(drops)
    if drop <= CLOCK_DROP:
        return None
    return Verdict(
        "info",
        f"The clock falls by {percent(drop)} under {field_name(isa)} "
        f"({contrast(format_value(narrow, 'Hz'), format_value(hz, 'Hz'))}), compared with narrow instructions.",
        {"isa": isa, "clock_hz": hz, "narrow_clock_hz": narrow, "drop": drop},
        "Compare wide code with a ceiling at the clock under its own load, not at the base or turbo clock.",
    )


def operands_cost(case: Case) -> Verdict | None:
    """The same loop on zeros and on other numbers: where zeros are faster, real data lower the clock."""
    by_loop: dict[tuple[Any, ...], dict[bool, Measurement]] = {}
    for parameters, point in _points(case, LOOPS):
        if _is_undisturbed(point):
            loop = tuple(parameters.get(name) for name in ("operation", "precision", "threads"))
            by_loop.setdefault((point.details.get("isa"), *loop), {})[_on_zeros(parameters)] = point
    costs = [
        (1 - pair[False].throughput.value / pair[True].throughput.value, loop, pair[False], pair[True])
        for loop, pair in by_loop.items()
        if len(pair) == 2 and _wider_apart(pair[False], pair[True])
    ]
    if not costs:
        return None
    cost, (isa, operation, precision, threads), data, zeros = max(costs, key=lambda candidate: candidate[0])
    clocks = [number_at(point.details, "clock_hz_during") for point in (data, zeros)]
    hz = contrast(format_value(clocks[1], "Hz"), format_value(clocks[0], "Hz")) if all(clocks) else ""
    work = f"{field_name(str(isa))} {operation} in {field_name(str(precision))}"
    return Verdict(
        "info",
        f"Real data cost {percent(cost)} in {work}: {quantity(data.throughput)} on numbers, "
        f"{quantity(zeros.throughput)} on zeros."
        + (f" Clock: {hz}." if hz else "")
        + " Possible cause: switching bits draw power.",
        {
            "isa": isa,
            "precision": precision,
            "threads": threads,
            "on_numbers": data.throughput.value,
            "on_zeros": zeros.throughput.value,
            "cost": cost,
        },
        "Plan with the figure on numbers; no model reaches a peak measured on zeros, as by cpufp.",
    )


def _wider_apart(slower: Measurement, faster: Measurement) -> bool:
    """Whether one is slower by more than the clock drifts, with separate intervals."""
    low, high = slower.throughput, faster.throughput
    return apart(low, high) and high.value * (1 - DATA_COST) > low.value


def peak_share(case: Case) -> Verdict | None:
    """The best FMA in FP64, as a share of cores x clock x FLOP per cycle.

    A point above the peak is invalid, and another rule names it. What its interval excuses is at the peak, not above.
    """
    best: tuple[float, Measurement, str] | None = None
    for result, _, point, given in case.run.measured_points(LOOPS):
        if (given.get("precision"), given.get("operation")) != ("double", "fma") or _on_zeros(given):
            continue
        if point.validity == "invalid":
            continue
        bound = bound_for(result.ceilings, given, "physical")
        if bound is not None and (best is None or point.throughput.value > best[1].throughput.value):
            best = (point.throughput.value / bound.value, point, bound.formula)
    if best is None:
        return None
    share, point, formula = best
    part = "its FP64 peak" if share >= 1 else f"{percent(share)} of its FP64 peak"
    return Verdict(
        "info",
        f"The processor reaches {part}: {quantity(point.throughput)}. Peak: {formula}.",
        {"flop_s": point.throughput.value, "share": share, "formula": formula},
        "Nothing to do." if share > 0.95 else "Check for other load, throttling or a shared core.",
    )


def linpack_share(case: Case) -> Verdict | None:
    """LINPACK's best beside the measured FMA peak, the theoretical peak and a matrix product."""
    solved = [(p, w) for w, p in _points(case, LINPACK) if w.get("operation", "lu") == "lu"]
    if not solved:
        return None
    point, parameters = max(solved, key=lambda candidate: candidate[0].throughput.value)
    value = point.throughput.value
    count = number_at(parameters, "threads") or 1
    measured = [
        (number_at(w, "threads") or 1, p.throughput.value)
        for w, p in _points(case, LOOPS)
        if (w.get("operation"), w.get("precision")) == ("fma", "double") and not _on_zeros(w)
    ]
    # What fewer threads reach, these reach too: less on more threads is other work's doing.
    peaks = [peak for at, peak in measured if at <= count] if count in dict(measured) else []
    products = [p.throughput for w, p in _points(case, LINPACK) if w.get("operation") == "gemm"]
    average = sum(p.throughput.value for p, _ in solved) / len(solved)
    ceilings = [ceiling for result, *_ in case.run.measured_points(LINPACK) for ceiling in result.ceilings]
    bound = bound_for(ceilings, parameters, "physical")
    theory = bound.value if bound is not None else None
    disturbed = bool(peaks) and value > max(peaks) * (1 + MEASURED_PEAK)
    parts = [f"{format_percent(value / max(peaks), precise=True)} of the measured FMA peak"] if peaks else []
    parts = ["more than the measured FMA peak, which other work must have disturbed,"] if disturbed else parts
    parts += [f"{format_percent(value / theory, precise=True)} of the theoretical peak"] if theory else []
    product = f" A matrix product reaches {quantity(max(products, key=lambda v: v.value))}." if products else ""
    library = str(point.details.get("library") or "LAPACK")
    return Verdict(
        "info",
        f"LINPACK by {library} reaches {quantity(point.throughput)} at n = {parameters.get('n')} on "
        f"{plural(count, 'thread')}."
        + (f" That is {' and '.join(parts)}." if parts else "")
        + (f" Mean over {len(solved)} sizes: {quantity(average, 'FLOP/s')}." if len(solved) > 1 else "")
        + product,
        {
            "flop_s": value,
            "average_flop_s": average,
            "n": parameters.get("n"),
            "measured_peak_share": value / max(peaks) if peaks else None,
            "theory_share": value / theory if theory else None,
            "library": library,
        },
        f"Try larger systems, which come closer to the peak: {case.next_run('compute', operation='lu', n='4k,8k,16k')}",
    )


_LOOPS = Applies(kernels=(LOOPS,))
RULES = (
    Rule("noisy_neighbour", "point", noisy_neighbour, _LOOPS, degrades=True),
    Rule("wide_clock_drop", "run", wide_clock_drop, _LOOPS, about="compute"),
    Rule("operands_cost", "run", operands_cost, _LOOPS, about="compute"),
    Rule("peak_share", "run", peak_share, _LOOPS, about="compute"),
    Rule("linpack_share", "run", linpack_share, Applies(kernels=(LINPACK,)), about="compute"),
)
