"""Whether a claimed ceiling is one: its formula, memory by a CPU's clock, FLOP that no GPU core does, bits as bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from hwdyno.analysis.ceilings.named import gpu_named
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.model.units import format_value
from hwdyno.model.words import Run

CLAIM = "claim"
TRANSFERS_GT_S = (
    0.2, 0.266, 0.333, 0.4, 0.533, 0.667, 0.8, 1.066, 1.333, 1.6, 1.866, 2.133, 2.4, 2.666, 2.933, 3.2, 3.6, 3.733,
    4.0, 4.266, 4.4, 4.8, 5.2, 5.5, 5.6, 6.0, 6.4, 6.8, 7.2, 7.5, 8.0, 8.533, 8.8, 9.6, 10.667,
)  # fmt: skip
"""Transfers per second that JEDEC defines for DDR, DDR2 … DDR5 and their low-power kin, 10^9."""
LINE_RATES_GBIT = (1.0, 2.5, 5.0, 10.0, 25.0, 40.0, 50.0, 100.0, 200.0, 400.0, 800.0)
NEAR = 0.02
PER_CORE = 2
"""FLOP that a GPU's core does in a clock: one fused multiply-add."""
MIN_CORES = 128
"""A factor of at least this is a GPU's number of cores."""
_FACTOR = r"(\d+(?:\.\d+)?)\s*((?!x\b)[a-z/]+)?"
_PRODUCT = re.compile(rf"{_FACTOR}(?:\s*[x×*·]\s*{_FACTOR})+", re.I)
_ONE = re.compile(_FACTOR, re.I)


def _factors(text: str) -> list[tuple[float, str]]:
    """The factors of a product in a text, with the words behind them; none where one is beyond all numbers."""
    match = _PRODUCT.search(text)
    found = [(float(factor[1]), (factor[2] or "").lower()) for factor in _ONE.finditer(match[0])] if match else []
    return found if all(math.isfinite(factor) for factor, _ in found) else []


def _claim(case: Case) -> tuple[str, float, str]:
    return str(case.point.parameters.get("claim") or ""), case.point.throughput.value, case.point.throughput.unit


def formula_yields_other(case: Case) -> Verdict | None:
    """The product in a claim is not the value beside it."""
    text, value, unit = _claim(case)
    factors = _factors(text)
    product = math.prod(factor for factor, _ in factors) if factors else 0.0
    if not 0 < product < math.inf or value <= 0:
        return None
    ratio = value / product
    power = round(math.log10(ratio) / 3) if ratio > 0 else 0
    if abs(ratio / 1000.0**power - 1) <= NEAR:
        return None
    scaled = product * 1000.0**power
    return Verdict(
        "warning",
        f"The formula does not yield the ceiling ({text}): its product is {format_value(scaled, unit)}, but "
        f"{format_value(value, unit)} is claimed.",
        {"product": scaled, "claimed": value},
        "Compute the product again, and check each factor's unit.",
        weight=abs(ratio / 1000.0**power - 1),
    )


def memory_by_clock(case: Case) -> Verdict | None:
    """Memory's bandwidth is transfers x channels x 8 B; the processor's clock is no factor of it."""
    text, value, unit = _claim(case)
    rates = [(factor, words) for factor, words in _factors(text) if factor != round(factor) or "ghz" in words]
    if case.result.resource != "memory" or unit != "bytes/s" or not rates:
        return None
    rate, words = rates[0]
    known = rate / 1000 if rate > 100 else rate
    if min(abs(known / transfers - 1) for transfers in TRANSFERS_GT_S) <= NEAR / 4 and "ghz" not in words:
        return None
    clocks = set(_clocks(case.run, str(case.point.parameters.get("study") or "")))
    same = any(abs(rate / clock - 1) <= NEAR / 4 for clock in clocks)
    cause = (
        "the clock of the same study's CPU" if same else "no transfer rate of DDR memory, and looks like a CPU's clock"
    )
    return Verdict(
        "warning",
        f"The memory's ceiling is computed from a CPU's clock ({text}): {rate:g} is {cause}. "
        f"Memory carries transfers/s x channels x 8 B, so {format_value(value, unit)} is no ceiling.",
        {"rate": rate, "claimed": value, "same_clock": same},
        "Take the transfer rate and the channels from the modules (dmidecode -t memory), or run: hwdyno machine",
        weight=2.0 if same else 1.0,
    )


def _clocks(run: Run, study: str) -> Iterator[float]:
    """The clocks in a study's claims on its processor, GHz."""
    for result, _, point, _ in run.measured_points(CLAIM):
        if result.resource == "compute" and str(point.parameters.get("study") or "") == study:
            for factor, words in _factors(str(point.parameters.get("claim") or "")):
                if "ghz" in words or (factor != round(factor) and 0.5 < factor < 7):
                    yield factor


def flops_per_core(case: Case) -> Verdict | None:
    """A GPU's core does one fused multiply-add in a clock, 2 FLOP, no matter what a CPU's vector unit does."""
    text, value, unit = _claim(case)
    factors = [factor for factor, _ in _factors(text)]
    gpu = gpu_named(text) or gpu_named(str(case.point.parameters.get("device") or ""))
    cores = next((factor for factor in factors if factor >= MIN_CORES and factor == round(factor)), None)
    if case.result.resource != "gpu" or unit != "FLOP/s" or (cores is None and gpu is None):
        return None
    if gpu is not None and value <= gpu.flops_s * (1 + NEAR):
        return None
    small = [f for f in factors if f == round(f) and 2 < f <= 64 and f != cores]
    if gpu is None and not small:
        return None
    per_core = f"{small[0]:g} FLOP a core and clock" if small else "too many FLOP a core and clock"
    correct = ""
    if gpu is not None:
        most = format_value(gpu.cores * gpu.boost_hz * PER_CORE, unit)
        correct = f" {gpu.cores} cores x {gpu.boost_hz / 1e9:g} GHz x 2 is {most}."
    return Verdict(
        "warning",
        f"The GPU's ceiling counts {per_core} ({text}): {format_value(value, unit)}. "
        f"A GPU's core does {PER_CORE}, one fused multiply-add.{correct}",
        {"claimed": value, "correct": gpu.flops_s if gpu else None, "per_core": small[0] if small else None},
        "Compute cores x boost clock x 2 from the maker's data sheet.",
        weight=value / gpu.flops_s if gpu else 1.0,
    )


def line_rate_in_bytes(case: Case) -> Verdict | None:
    """A network's line rate is in bits: 10 GB/s is eight times what 10 Gbit/s carry."""
    text, value, unit = _claim(case)
    stated = str(case.point.details.get("claimed_unit") or "")
    if case.result.resource != "network" or unit != "bytes/s" or not stated.endswith("B/s"):
        return None
    giga = value / 1e9
    if min(abs(giga / rate - 1) for rate in LINE_RATES_GBIT) > NEAR:
        return None
    return Verdict(
        "warning",
        f"The network's ceiling is 8 times too high if its link is {giga:g} Gbit/s ({text}): line rates are in bits. "
        f"{giga:g} Gbit/s carry {format_value(value / 8, unit)}, and loopback has no link at all.",
        {"claimed": value, "correct": value / 8},
        "Read the link's rate: ethtool INTERFACE, and divide by 8.",
    )


def claim_exceeded(case: Case) -> list[Verdict]:
    """A result of the same study above its claimed ceiling: the claim or the measurement is wrong."""
    found: list[Verdict] = []
    for at, point in enumerate(case.result.points):
        study, value = str(point.parameters.get("study") or ""), point.throughput.value
        for other in case.run.experiments:
            if (
                other.kernel == CLAIM
                or other.resource != case.result.resource
                or str(other.fixed.get("study") or "") != study
            ):
                continue
            above = [
                (result.throughput.value, place)
                for place, result in enumerate(other.points)
                if result.throughput.unit == point.throughput.unit
                and result.throughput.value > value * (1 + NEAR / 2)
                and _bounds(
                    str(point.parameters.get("claim") or ""),
                    result.parameters.get("rw"),
                    as_number(result.parameters.get("rwmixread")),
                )
            ]
            if not above:
                continue
            most, _ = max(above)
            text = str(point.parameters.get("claim") or "")
            cached = case.result.resource == "storage" and most > 1.2 * value
            cause = "A cache answered, or the claim is wrong." if cached else "The claim or the measurement is wrong."
            found.append(
                Verdict(
                    "warning",
                    f"Measured above the claimed ceiling ({text}): "
                    f"{format_value(most, point.throughput.unit)} is {percent(most / value - 1)} above "
                    f"{format_value(value, point.throughput.unit)}. {cause}",
                    {"claimed": value, "measured": most, "results": len(above), "experiment": other.name},
                    "Check the ceiling first: instruction sets, measured clock and link state: hwdyno machine",
                    weight=most / value,
                    points=(at,),
                )
            )
    return found


def _bounds(text: str, pattern: object, reads: float | None) -> bool:
    """Whether a claim on reads or on writes bounds a result with this pattern."""
    word = str(pattern or "")
    only_reads, only_writes = reads == 100 or word.endswith("read"), reads == 0 or word.endswith("write")
    if re.search(r"\bwrit", text, re.I):
        return only_writes
    return only_reads if re.search(r"\bread", text, re.I) else True


_OF_CLAIMS = Applies(imported=True, needs=("details.claimed_unit",))


RULES = (
    Rule("formula_yields_other", "point", formula_yields_other, _OF_CLAIMS, degrades=True),
    Rule("memory_by_clock", "point", memory_by_clock, _OF_CLAIMS, degrades=True),
    Rule("flops_per_core", "point", flops_per_core, _OF_CLAIMS, degrades=True),
    Rule("line_rate_in_bytes", "point", line_rate_in_bytes, _OF_CLAIMS, degrades=True),
    Rule("claim_exceeded", "experiment", claim_exceeded, _OF_CLAIMS),
)
