"""Columns of a published table that belong together: one figure in two units, reads and writes of one load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hwdyno.formats.table_rows import Column
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.words import Parameters


def find_twin(column: Column, figures: Sequence[Column]) -> Column | None:
    """An earlier column with the same figure in another unit."""
    for other in figures:
        meaning, other_meaning = column.meaning, other.meaning
        alike = (meaning.quantity, meaning.statistic, meaning.given, meaning.remainder) == (
            other_meaning.quantity,
            other_meaning.statistic,
            other_meaning.given,
            other_meaning.remainder,
        )
        if other.at < column.at and alike and column.unit and other.unit and column.unit.factor != other.unit.factor:
            return other
    return None


def collides(column: Column, figures: Sequence[Column]) -> bool:
    """Whether another column has the same figure with the same statistic and parameters."""
    meaning = column.meaning
    alike = [
        other
        for other in figures
        if (other.meaning.quantity, other.meaning.statistic, other.meaning.given)
        == (meaning.quantity, meaning.statistic, meaning.given)
    ]
    return len(alike) > 1


def summed_directions(parts: Sequence[Mapping[str, PrintedNumber]]) -> dict[str, PrintedNumber]:
    """Reads and writes of one mixed load together: rates add up, latencies are weighted by rates."""
    found: dict[str, PrintedNumber] = {}
    for key in {key for part in parts for key in part}:
        numbers = [part[key] for part in parts if key in part]
        if key.startswith(("bw", "iops")) and len(numbers) == len(parts):
            total = sum(number.value for number in numbers)
            found[key] = PrintedNumber(total, max(number.rounding for number in numbers), numbers[0].unit)
        elif key in {"lat", "lat_mean"} and len(numbers) == len(parts):
            rates = [
                next((part[name].value for name in ("iops", "iops_mean", "bw", "bw_mean") if name in part), 1.0)
                for part in parts
            ]
            whole = sum(rates) or 1.0
            mean = sum(rate * number.value for rate, number in zip(rates, numbers, strict=True)) / whole
            found[key] = PrintedNumber(mean, max(number.rounding for number in numbers), numbers[0].unit)
    return found


def joined_parameters(row: Parameters, given: Parameters) -> Parameters:
    """A row's parameters with those of a column's head; a direction keeps the row's random pattern."""
    found = {**row, **{name: value for name, value in given.items() if name != "rw"}}
    way, pattern = str(given.get("rw") or ""), str(row.get("rw") or "")
    if way:
        random = "rand" in pattern and not way.startswith("rand")
        found["rw"] = f"rand{way}" if random else way
        found.pop("rwmixread", None)
    return found


def is_vague_time(column: Column, number: PrintedNumber) -> bool:
    """Whether a time is of something that its head names, and in no unit that the head or the cell does."""
    meaning = column.meaning
    return meaning.quantity == "time" and not meaning.units and number.unit is None and bool(meaning.remainder)
