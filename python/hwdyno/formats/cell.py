"""What a cell of a published table says: a number as it is printed, a flag, or the value of a parameter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from hwdyno.formats.column import SIZES, given_in
from hwdyno.model.quantities import PrintedNumber, number_in
from hwdyno.model.unit_readings import Unit
from hwdyno.model.units import BINARY, DECIMAL
from hwdyno.model.words import Scalar

_OF_ONE = re.compile(r"[\d.,]{1,20} ?[A-Za-zµμ/]{1,10} [a-z][a-z-]{1,30}")


def has_several_figures(cell: str) -> bool:
    """Whether a cell has figures of several things: ``1.5ms read, 12 ms update``."""
    first, comma, second = cell.partition(", ")
    return bool(comma) and _OF_ONE.fullmatch(first) is not None and _OF_ONE.fullmatch(second) is not None


def has_rates_of_many_kinds(cells: Iterable[str]) -> bool:
    """Whether cells of a column have rates of more than one kind: a row's unit is no other row's."""
    units = [number.unit for cell in cells if (number := number_in(cell)) is not None and number.unit]
    return len({unit.kind for unit in units} & {"bytes/s", "operations/s", "FLOP/s"}) > 1


def parse_flag(cell: str) -> bool | None:
    """A yes or a no; none for anything else."""
    word = cell.strip().lower()
    if word in {"1", "true", "yes", "on", "direct"}:
        return True
    return False if word in {"0", "false", "no", "off", "buffered"} else None


def bytes_from_number(number: PrintedNumber, unit: Unit | None) -> float:
    """The bytes of a block, whose prefixes are powers of 1024 regardless of their letters' case."""
    in_cell = number.unit
    if in_cell is not None and in_cell.kind == "short":
        return number.value / DECIMAL[in_cell.name.lower()] * in_cell.factor
    chosen = in_cell or unit
    if chosen is None or chosen.kind not in {"bytes", "bits or bytes"}:
        return number.value
    prefix = chosen.name.strip().lower()[:1]
    return number.value * (BINARY[prefix] if prefix in "kmgt" else 1.0)


def unit_in_column(unit: Unit, kind: str) -> Unit | None:
    """The unit of a cell in a column of a kind; none for one of another kind, but bytes are a rate of bytes/s."""
    if kind == "bytes/s" and unit.kind == "bytes":
        prefix = unit.name.strip().lower()[:1]
        return replace(unit, kind=kind, factor=unit.factor if "i" in unit.name else DECIMAL.get(prefix, 1.0))
    return unit if not kind or unit.kind in {kind, "bits or bytes"} else None


def statistics_in_order(names: Iterator[str]) -> list[str]:
    """Names of statistics in the order that their values must have: least, percentiles, greatest."""

    def place(name: str) -> float:
        if name in {"min", "max"}:
            return -1.0 if name == "min" else 200.0
        digits = name[1:]
        return float(f"{digits[:2]}.{digits[2:] or 0}")

    return sorted((name for name in names if name in {"min", "max"} or name[:1] == "p"), key=place)


def parameter_value(quantity: str, cell: str, unit: Unit | None) -> Scalar:
    """A parameter as its cell states it; none where the cell has none."""
    if quantity == "direct":
        return parse_flag(cell)
    number = number_in(cell)
    if (
        quantity == "operation"
        and (copied := given_in(cell.strip().lower())) == (copied[0], "")
        and len(copied[0]) == 1
    ):
        return copied[0].get("operation") or cell.strip().lower()
    if quantity in {"operation", "protocol"} or number is None:
        return cell.strip().lower()[:60] or None
    if quantity in SIZES:
        value = bytes_from_number(number, unit)
    elif quantity == "write_percent":
        value = 100 - number.value
    else:
        value = number.value
    return int(value) if value == int(value) else value
