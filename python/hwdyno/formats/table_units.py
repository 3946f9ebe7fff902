"""The unit of a column of a published table whose head names none: by the title, a law, its magnitude, or the user."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hwdyno.formats.cell import bytes_from_number
from hwdyno.formats.column import FIGURES, SIZES, Meaning
from hwdyno.formats.grid import Grid
from hwdyno.formats.table_labels import TableRow
from hwdyno.formats.table_rows import UNIT_UNKNOWN, Column
from hwdyno.model.quantities import PrintedNumber, number_in
from hwdyno.model.unit_readings import Unit, unit_readings
from hwdyno.model.words import Parameters, UserError
from hwdyno.system.printable import escape_text

MAX_SHARE = 1.5
_RESULTS = {"bw", "iops", "lat"}


class UnitContext(Protocol):
    """What a column's unit follows from: the table that it is in."""

    @property
    def grid(self) -> Grid:
        """The cells and the title."""

    @property
    def columns(self) -> Sequence[Column]:
        """The columns, those before it with their units."""

    @property
    def rows(self) -> Sequence[TableRow]:
        """The rows with their figures."""

    @property
    def resource(self) -> str:
        """What the table measures."""

    @property
    def common(self) -> Parameters:
        """What holds for every row."""

    def number(self, row: TableRow, quantity: str, statistics: Sequence[str] = ("", "mean")) -> PrintedNumber | None:
        """A row's figure in its base unit."""

    def figure(self, row: TableRow, column: Column) -> PrintedNumber | None:
        """A cell's number in its base unit."""


def with_unit(table: UnitContext, column: Column) -> Column:
    """The column with its unit; left out where two fit it, and other figures of the table have theirs."""
    try:
        unit, why = _Resolver(table, column).unit()
    except UserError:
        quantity = column.meaning.quantity
        others = [other for other in table.columns if other.is_figure and other.meaning.quantity != quantity]
        known = [other for other in others if other.unit is not None and other.meaning.quantity in _RESULTS]
        if quantity not in {"lat", "bw"} or not known:
            raise
        return replace(column, meaning=Meaning("label"), inferred=UNIT_UNKNOWN)
    return replace(column, unit=unit, inferred=why)


@dataclass(frozen=True)
class _Resolver:
    """Finds the unit of a column by a law that it must obey with others, by its magnitude, or asks."""

    table: UnitContext
    column: Column

    def unit(self) -> tuple[Unit | None, str]:
        """The unit and why; raises ``UserError`` that names two readings."""
        quantity, head_units = self.column.meaning.quantity, self.column.meaning.units
        cells = [row.numbers[self.column.at] for row in self.table.rows if self.column.at in row.numbers]
        if quantity in SIZES:
            return self._size()
        if quantity in {"au", "share", "loss"}:
            # A share in percent, unless no value is above 1 by more than a slip.
            most = max((number.value for number in cells if number.unit is None), default=0.0)
            return (Unit("1", 0.01, "%"), "by magnitude") if most > MAX_SHARE else (Unit("1", 1.0, ""), "")
        in_cells = [number.unit for number in cells if number.unit is not None and number.unit.kind != "short"]
        if cells and len(in_cells) == len(cells):
            sure = [unit for unit in in_cells if unit.kind != "bits or bytes"]
            if sure or self.table.resource == "network":
                return None, "unit in each cell"
            bytes_ = replace(in_cells[0], kind="bytes/s")
            head_units = (Unit("bytes/s", bytes_.factor / 8, bytes_.name.replace("B/s", "bit/s")), bytes_)
        if not head_units and quantity in FIGURES and (stated := self._in_title()):
            return stated, "by the title"
        if quantity == "iops" or (quantity in {"flops"} and not head_units):
            return (Unit("operations/s", 1.0, ""), "") if quantity == "iops" else self._ambiguous(_FLOPS)
        if quantity in {"time", "data", "ceiling"} and not head_units:
            return (Unit("s", 1.0, "s"), "") if quantity == "time" else (None, "")
        if len(head_units) > 1:
            if self.table.resource == "network":
                return head_units[0], "bits, as in networks"
            return self._by_law(head_units) or self._ambiguous(head_units)
        if quantity in {"bw", "busbw"}:
            return self._by_law(_BANDWIDTHS) or self._ambiguous(self._likely())
        if quantity == "lat":
            return self._by_little() or self._ambiguous(_LATENCIES)
        return None, ""

    def _in_title(self) -> Unit | None:
        """The only unit of its kind that the title names; none where that can be read in two ways."""
        kind = FIGURES[self.column.meaning.quantity]
        parts = re.split(r"[,;()\[\]]|\band\b", self.table.grid.title.replace("µ", "u").replace("μ", "u"))
        readings = [units for part in parts if (units := unit_readings(part.strip())[0]) and units[0].kind == kind]
        return readings[0][0] if kind and len(readings) == 1 and len(readings[0]) == 1 else None

    def _by_law(self, units: Sequence[Unit]) -> tuple[Unit, str] | None:
        """The unit with which IOPS × block size is nearest to the bandwidth in most rows."""
        votes: Counter[str] = Counter()
        rows = 0
        for row in self.table.rows:
            rate, number = self.table.number(row, "iops"), row.numbers.get(self.column.at)
            size = row.parameters.get("bs", self.table.common.get("bs"))
            if rate is None or number is None or not isinstance(size, int | float) or not rate.value or not size:
                continue
            rows += 1
            errors = {unit.name: abs(number.value * unit.factor / (rate.value * size) - 1) for unit in units}
            nearest = min(errors, key=errors.__getitem__)
            if errors[nearest] <= 0.1 + number.rounding + rate.rounding:
                votes[nearest] += 1
        best = votes.most_common(1)
        if not best or best[0][1] * 2 <= rows:
            return None
        return next(unit for unit in units if unit.name == best[0][0]), "by IOPS × block size"

    def _by_little(self) -> tuple[Unit, str] | None:
        """The unit with which rate × latency is at most the queue depth, and nearest to it."""
        votes: Counter[str] = Counter()
        for row in self.table.rows:
            rate, number = self.table.number(row, "iops"), row.numbers.get(self.column.at)
            depth = row.parameters.get("iodepth", self.table.common.get("iodepth"))
            if rate is None or number is None or not isinstance(depth, int | float) or not depth:
                continue
            flights = {unit.name: rate.value * number.value * unit.factor / depth for unit in _LATENCIES}
            near = [name for name, flight in flights.items() if 0.1 < flight < 30]
            if len(near) == 1:
                votes[near[0]] += 1
        best = votes.most_common(1)
        return (next(u for u in _LATENCIES if u.name == best[0][0]), "by Little's law") if best else None

    def _likely(self) -> tuple[Unit, Unit]:
        """The two most likely units of a bandwidth, by its magnitude."""
        numbers = [row.numbers[self.column.at].value for row in self.table.rows if self.column.at in row.numbers]
        middle = sorted(numbers)[len(numbers) // 2] if numbers else 0.0
        by_name = {unit.name: unit for unit in (*_BANDWIDTHS, *_BITS)}
        if self.table.resource == "network":
            names = ("Gbit/s", "Mbit/s") if middle < 500 else ("Mbit/s", "MB/s")
        else:
            names = ("GB/s", "MB/s") if middle < 100 else ("MB/s", "KiB/s") if middle > 20000 else ("MB/s", "MiB/s")
        return by_name[names[0]], by_name[names[1]]

    def _size(self) -> tuple[Unit | None, str]:
        """Bytes or KiB, where neither head nor cells say."""
        column, rows = self.column, self.table.rows
        cells = [self.table.grid.rows[row.at - 1][column.at] for row in rows]
        numbers = [number for cell in cells if (number := number_in(cell)) is not None]
        if not numbers or all(number.unit is not None for number in numbers) or column.meaning.quantity != "bs":
            return None, ""
        values = [number.value for number in numbers if number.unit is None]
        byte, kib = Unit("bytes", 1.0, "B"), Unit("bytes", 1024.0, "KiB")
        chosen, why = None, "by magnitude"
        if votes := self._size_by_law((byte, kib)):
            chosen, why = votes, "by IOPS × block size"
        elif self.table.resource != "storage" or max(values) > 16384 or (max(values) >= 2048 and min(values) >= 512):
            chosen = byte
        elif min(values) < 512:
            chosen = kib
        if chosen is None:
            return self._ambiguous((kib, byte))
        if chosen is kib:
            for row in rows:
                value = row.parameters.get("bs")
                number = number_in(self.table.grid.rows[row.at - 1][column.at])
                if isinstance(value, int | float) and number is not None and number.unit is None:
                    row.parameters["bs"] = round(bytes_from_number(number, None) * 1024)
        return chosen, why

    def _size_by_law(self, units: Sequence[Unit]) -> Unit | None:
        bandwidths = [c for c in self.table.columns if c.meaning.quantity == "bw" and c.unit is not None]
        votes: Counter[str] = Counter()
        for row in self.table.rows:
            rate = self.table.number(row, "iops")
            size = row.parameters.get("bs")
            if rate is None or not isinstance(size, int | float) or not rate.value or not size:
                continue
            for column in bandwidths:
                found = self.table.figure(row, column)
                for unit in units:
                    if found and abs(found.value / (rate.value * size * unit.factor) - 1) <= 0.2:
                        votes[unit.name] += 1
        best = votes.most_common(1)
        return next((unit for unit in units if best and unit.name == best[0][0]), None)

    def _ambiguous(self, units: Sequence[Unit]) -> tuple[Unit, str]:
        first, second = units[0].name, units[1].name
        short = re.sub(r"\s*[(\[].*", "", self.column.head).strip() or self.column.head
        raise UserError(
            f"column '{escape_text(self.column.head)}' can be read as {first} or as {second}; "
            f'say which: --map "{escape_text(short)}={first}"'
        )


_BANDWIDTHS = (
    Unit("bytes/s", 1e6, "MB/s"),
    Unit("bytes/s", 1e9, "GB/s"),
    Unit("bytes/s", 1024.0, "KiB/s"),
    Unit("bytes/s", 2.0**20, "MiB/s"),
    Unit("bytes/s", 1.0, "B/s"),
)
_BITS = (Unit("bytes/s", 1.25e8, "Gbit/s"), Unit("bytes/s", 1.25e5, "Mbit/s"))
_LATENCIES = (Unit("s", 1e-6, "us"), Unit("s", 1e-3, "ms"), Unit("s", 1e-9, "ns"))
_FLOPS = (Unit("FLOP/s", 1e9, "GFLOP/s"), Unit("FLOP/s", 1e12, "TFLOP/s"))
