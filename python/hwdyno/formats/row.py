"""One row of printed figures as a point, with what it states twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hwdyno.formats import printed
from hwdyno.formats.column import FIGURES
from hwdyno.formats.table_laws import list_claims
from hwdyno.model.axes import is_loopback
from hwdyno.model.quantities import PrintedNumber, number_in
from hwdyno.model.unit_readings import Unit
from hwdyno.model.units import LARGEST
from hwdyno.model.words import Latency, Measurement, Parameters, UserError, Value

_STATISTICS = ("", "_mean", "_p50", "_max", "_min", "_p99", "_p95", "_p90", "_p999", "_p9999")


def number(text: str | None, factor: float = 1.0, unit: str = "") -> PrintedNumber | None:
    """A figure of a tool's output in its base unit, ``factor`` to it; none for other text. Raises ``UserError``."""
    found = number_in(text) if text is not None else None
    if found is None or found.value < 0:
        return None
    value = found.value * factor
    if value > LARGEST:
        raise UserError(f"'{str(text)[:40]}' is not a number in range")
    return PrintedNumber(value, found.rounding, Unit("", factor, unit) if unit else None)


def figures(**found: PrintedNumber | None) -> dict[str, PrintedNumber]:
    """The figures that were found, by name: ``bw``, ``lat_mean``, ``lat_p99`` …"""
    return {name: figure for name, figure in found.items() if figure is not None}


def main_figure(numbers: Mapping[str, PrintedNumber]) -> tuple[str, str] | None:
    """The figure that a point is quoted by, with its unit; a latency only where no rate is stated."""
    for name, unit in (
        ("bw", "bytes/s"),
        ("busbw", "bytes/s"),
        ("flops", "FLOP/s"),
        ("iops", "operations/s"),
        ("lat", "s"),
    ):
        for statistic in _STATISTICS:
            found = numbers.get(name + statistic)
            if found is not None and found.value > 0:
                return name + statistic, unit
    for name in ("au", "share", "ceiling", "time", "loss", "data"):
        key = name if name in numbers else f"{name}_mean"
        if key in numbers and numbers[key].value > 0:
            return key, FIGURES[name] or "1"
    return None


def make_point(parameters: Parameters, numbers: Mapping[str, PrintedNumber], **details: Any) -> Measurement | None:
    """A point with the figures in base units; none where there is no figure above 0."""
    main = main_figure(numbers)
    if main is None:
        return None
    (key, unit), latency = main, _latency(numbers)
    made = printed.point(
        parameters,
        numbers[key].value,
        unit,
        None,
        **_stated_details(numbers, parameters),
        printed={name: figure.value for name, figure in numbers.items()},
        rounding={name: figure.rounding for name, figure in numbers.items()},
        printed_in={name: figure.unit.name for name, figure in numbers.items() if figure.unit},
        **details,
    )
    rate = numbers.get("iops") or numbers.get("iops_mean")
    has_both = rate is not None and unit != "operations/s" and rate.value > 0
    return replace(
        made,
        latency_ns=latency,
        claims=tuple(list_claims(numbers, parameters)),
        rate=Value(rate.value, "operations/s") if has_both and rate is not None else None,
    )


def _latency(numbers: Mapping[str, PrintedNumber]) -> Latency | None:
    mean = numbers.get("lat") or numbers.get("lat_mean")
    if mean is None or mean.value <= 0:
        return None

    def at(name: str) -> float | None:
        found = numbers.get(f"lat_{name}")
        return found.value * 1e9 if found is not None else None

    return Latency(mean.value * 1e9, at("p50"), at("p90"), at("p99"), at("p999"), at("min"), at("max"), count=0)


def _stated_details(numbers: Mapping[str, PrintedNumber], parameters: Parameters) -> dict[str, Any]:
    """Figures under the names that rules read."""
    found: dict[str, Any] = {}
    if "loss" in numbers:
        found["loss_share"] = numbers["loss"].value
    if is_loopback(str(parameters.get("path") or "")):
        found["loopback"] = True
    return found
