"""What a row of a published table states twice: figures that follow from its other figures, with their rounding."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from hwdyno.formats.cell import statistics_in_order
from hwdyno.model.point_details import Claim
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.units import as_number
from hwdyno.model.words import Parameters

COLLECTIVE = re.compile(r"\ball[ _-]?(?:reduce|gather|to[ _-]?all)\b|\breduce[ _-]?scatter\b", re.I)
_TITLES = {
    "bw": "bandwidth",
    "busbw": "bandwidth of the bus",
    "iops": "rate",
    "lat": "latency",
    "flops": "rate of arithmetic",
}
_UNITS = {"busbw": "bytes/s", "bw": "bytes/s", "iops": "operations/s", "lat": "s", "flops": "FLOP/s"}
_STATISTICS = {"min": "least", "max": "greatest", "mean": "mean", "": "stated"}
_SHARES = {"au": "accelerator utilisation", "share": "share of a whole", "loss": "loss"}
WORK_ERROR = 0.01
"""Programs count the lower terms of LINPACK's operations differently, and time a little more than the solution."""
MOVED_ERROR = 0.02


def list_claims(numbers: Mapping[str, PrintedNumber], parameters: Parameters) -> Iterator[Claim]:
    """Each figure of a row beside what the row's others make of it; what cannot be compared is left out."""
    for quantity in _TITLES:
        yield from _in_order(quantity, numbers)
        yield from _again(quantity, numbers)
    for quantity, words in _SHARES.items():
        for name, number in numbers.items():
            # Parallel efficiency may exceed 1 where each part fits a cache.
            if name.partition("_")[0] == quantity and number.value > 0 and "speedup" not in numbers:
                yield Claim(words, number.value, 1.0, "1", "at most", number.rounding, at_most=True)
    yield from _work_over_time(numbers, parameters)
    yield from _moved_over_time(numbers)
    yield from _of_collective(numbers, parameters)
    yield from _of_ceiling(numbers)


def _words(quantity: str, statistic: str) -> str:
    percentile = re.fullmatch(r"p(\d\d)(\d*)", statistic)
    named = f"p{percentile[1]}" + (f".{percentile[2]}" if percentile[2] else "") if percentile else ""
    return f"{named or _STATISTICS.get(statistic, statistic)} {_TITLES[quantity]}"


def _in_order(quantity: str, numbers: Mapping[str, PrintedNumber]) -> Iterator[Claim]:
    """min ≤ mean ≤ max, and min ≤ p50 ≤ p90 … ≤ max."""
    found = {name.partition("_")[2]: n for name, n in numbers.items() if name.partition("_")[0] == quantity}
    if "" in found and "mean" not in found:
        found["mean"] = found[""]
    chains: list[Sequence[str]] = [statistics_in_order(iter(found))]
    chains.append([name for name in ("min", "mean", "max") if name in found])
    for chain in chains:
        for less, more in pairwise(chain):
            low, high = found[less], found[more]
            if low.value > 0 and high.value > 0:
                error = low.rounding + high.rounding + 1e-9
                formula = f"as {_words(quantity, more)}"
                yield Claim(
                    _words(quantity, less), low.value, high.value, _UNITS[quantity], formula, error, at_most=True
                )


def _again(quantity: str, numbers: Mapping[str, PrintedNumber]) -> Iterator[Claim]:
    """One figure in two units."""
    for name, number in numbers.items():
        first = numbers.get(name.removesuffix("_again"))
        if name.startswith(quantity) and name.endswith("_again") and first is not None and first.unit and number.unit:
            error = first.rounding + number.rounding + 0.001
            title = f"{_TITLES[quantity]} in {number.unit.name}"
            formula = f"its {first.unit.name}"
            yield Claim(title, number.value, first.value, _UNITS[quantity], formula, error)


def _work_over_time(numbers: Mapping[str, PrintedNumber], parameters: Parameters) -> Iterator[Claim]:
    """LINPACK's rate: (2/3 n³ + 2 n²) / time (Dongarra, Luszczek and Petitet 2003)."""
    n, time = as_number(parameters.get("n")), numbers.get("time") or numbers.get("time_mean")
    rate = next((numbers[name] for name in ("flops", "flops_mean", "flops_max") if name in numbers), None)
    if not n or n < 100 or time is None or rate is None or time.value <= 0 or n > 1e8:
        return
    follows = (2 / 3 * n**3 + 2 * n**2) / time.value
    # The least amount of work is that of its first term alone.
    error = time.rounding + rate.rounding + WORK_ERROR + 2 / n
    yield Claim("rate of arithmetic", rate.value, follows, "FLOP/s", "(2/3 n³ + 2 n²) / time", error)


def _moved_over_time(numbers: Mapping[str, PrintedNumber]) -> Iterator[Claim]:
    """Bandwidth is bytes over time; an amount whose prefix may be binary is taken as what fits better."""
    moved, time = numbers.get("data"), numbers.get("time")
    rate = next((numbers[name] for name in ("bw", "bw_mean") if name in numbers), None)
    if moved is None or time is None or rate is None or min(moved.value, time.value, rate.value) <= 0:
        return
    prefix = (moved.unit.name[:1].lower() if moved.unit else "").strip()
    power = {"k": 1, "m": 2, "g": 3, "t": 4}.get(prefix, 0) if moved.unit and "i" not in moved.unit.name else 0
    readings = [moved.value / time.value * (1.024**power if binary else 1.0) for binary in (False, True)]
    follows = min(readings, key=lambda reading: abs(reading / rate.value - 1))
    error = moved.rounding + time.rounding + rate.rounding + MOVED_ERROR
    yield Claim("bandwidth", rate.value, follows, "bytes/s", "bytes / time", error)


def _of_collective(numbers: Mapping[str, PrintedNumber], parameters: Parameters) -> Iterator[Claim]:
    """A collective's bandwidth is its bytes over its time, and that of the bus is it times a factor of what N ranks do
    (NVIDIA, nccl-tests, PERFORMANCE.md): 2 (N-1)/N for an all-reduce, (N-1)/N for all-gather, reduce-scatter and
    all-to-all, at most 2 where operation or ranks are not stated.
    """
    bus, rate = numbers.get("busbw"), numbers.get("bw")
    time = next((numbers[name] for name in ("lat", "lat_mean", "time") if name in numbers), None)
    size = as_number(parameters.get("bs"))
    if bus is not None and rate is not None and time is not None and size and min(rate.value, time.value) > 0:
        # A table's MB may be 10^6 bytes or 2^20.
        readings = [size / 1.024**power / time.value for power in range(4)]
        follows = min(readings, key=lambda reading: abs(reading / rate.value - 1))
        error = rate.rounding + time.rounding + MOVED_ERROR
        yield Claim("bandwidth", rate.value, follows, "bytes/s", "bytes / time", error)
    if bus is None or rate is None or min(bus.value, rate.value) <= 0:
        return
    error = bus.rounding + rate.rounding + MOVED_ERROR
    words, ranks = str(parameters.get("operation") or ""), as_number(parameters.get("accelerators"))
    if COLLECTIVE.search(words) and ranks and ranks >= 2:
        twice = re.search(r"all[ _-]?reduce", words, re.I) is not None
        formula = f"{'2 ' if twice else ''}(N-1)/N of the algorithm's, N = {ranks:.0f}"
        follows = rate.value * (2 if twice else 1) * (ranks - 1) / ranks
        yield Claim("bandwidth of the bus", bus.value, follows, "bytes/s", formula, error)
    else:
        formula = "twice the algorithm's at most"
        yield Claim("bandwidth of the bus", bus.value, 2 * rate.value, "bytes/s", formula, error, at_most=True)


def _of_ceiling(numbers: Mapping[str, PrintedNumber]) -> Iterator[Claim]:
    """A row's figure is at most the ceiling beside it, and its efficiency is the two figures' quotient."""
    ceiling, share = numbers.get("ceiling"), numbers.get("share")
    if ceiling is None or ceiling.value <= 0 or ceiling.unit is None:
        return
    for quantity, unit in _UNITS.items():
        for statistic in ("", "_mean", "_max"):
            figure = numbers.get(quantity + statistic)
            if figure is None or unit != ceiling.unit.kind or figure.value <= 0:
                continue
            error = figure.rounding + ceiling.rounding
            words = _words(quantity, statistic.removeprefix("_"))
            yield Claim(words, figure.value, ceiling.value, unit, "by the ceiling in its row", error, at_most=True)
            if share is not None and share.value > 0:
                formula = f"{words} / ceiling"
                yield Claim(
                    "efficiency", share.value, figure.value / ceiling.value, "1", formula, error + share.rounding + 0.01
                )
            return
