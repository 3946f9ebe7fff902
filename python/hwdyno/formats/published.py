"""Reads a published table (CSV, Markdown, HTML, pasted cells) into a Run, and says how each column was read."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hwdyno.formats import printed, workload
from hwdyno.formats.column import (
    COUNTS,
    FIGURES,
    PARAMETERS,
    SIZES,
    Number,
    Unit,
    meaning_of,
    number_in,
    pattern_of,
    size_of,
    unit_readings,
)
from hwdyno.formats.grid import Grid, grids_of
from hwdyno.formats.named_cells import parted_by_name
from hwdyno.formats.pairs import parted
from hwdyno.formats.row import point_of
from hwdyno.formats.table_rows import (
    BY_KIND,
    BY_ROW,
    TITLES,
    Column,
    Row,
    has_figures,
    has_values,
    read_columns,
    read_rows,
    resource_of,
    with_row_units,
)
from hwdyno.printable import escaped
from hwdyno.units import LARGEST, SMALLEST, plural
from hwdyno.words import ExperimentResult, Measurement, Parameters, Run, UserError

NAME = "table"
MOST_SHARE = 1.5
CLAIM = "claim"
"""The kernel of rows that state what the hardware could deliver."""
KERNELS = {
    "storage": "storage_blocks",
    "memory": "memory_bandwidth",
    "network": "network_throughput",
    "compute": "linpack",
    "training": "training_table",
    "gpu": "gpu_transfer",
}
_SHARED = ("study", "device", "link")
"""Labels of rows that make an experiment of their in_cells: what decides their ceilings."""
LOADS = ("delay", "iodepth", "numjobs", "threads", "streams", "accelerators", "n", "bs", "working_set", "nodes")
LONGEST_CONTEXT = 200_000
"""Characters around a table in which its workload may be named."""
_RESOURCES = {"cpu": "compute", "processor": "compute", "disk": "storage", "ssd": "storage", "ram": "memory"}


@dataclass(frozen=True, slots=True)
class Published:
    """A text's tables as a Run, with a line on each table that says how its columns were read."""

    run: Run
    readings: tuple[str, ...]


def recognizes(text: str, *, marked: bool = False) -> bool:
    """Whether this looks like a table with at least one result; of HTML or Markdown if ``marked``."""
    try:
        found = _grids(text[:LONGEST_CONTEXT], {}, marked=marked)
    except UserError:
        return True
    heads = [[*grid.heads, grid.title] for grid in found]
    return (
        any(map(has_figures, heads))
        or any(map(has_values, found))
        or any(has_figures([row[0] for row in grid.rows]) for grid in found)
    )


def read(text: str, name: str) -> Run:
    """Make a Run of all tables. Raises ``UserError`` in one line, also where two readings fit a column."""
    return read_mapped(text, name, {}).run


def read_mapped(text: str, name: str, maps: Mapping[str, str], *, marked: bool = False) -> Published:
    """The same with columns that the user mapped: by head, its unit, its quantity, or both (``lat us``).

    ``marked`` leaves out all tables but those of HTML and Markdown.
    """
    experiments: list[ExperimentResult] = []
    readings: list[str] = []
    for number, grid in enumerate(_grids(text, maps, marked=marked), start=1):
        table = _Table.of(grid, maps, name, text[:LONGEST_CONTEXT])
        if table is None:
            continue
        found = table.experiments(number)
        if any(one.points for one in found):
            experiments += found
            readings.append(table.says())
    return Published(printed.run(NAME, "a table", text, name, _numbered(experiments)), tuple(readings))


def _grids(text: str, maps: Mapping[str, str], *, marked: bool) -> list[Grid]:
    return [parted_by_name(grid, maps) for grid in grids_of(text, marked=marked)]


def heads_of(text: str) -> list[str]:
    """The heads of every table in a text, as a map may name them."""
    grids = [one for grid in grids_of(text) for one in (grid, parted_by_name(grid, {}))]
    return [head for grid in grids for head in (*grid.heads, *(row[0] for row in grid.rows)) if head]


def _numbered(experiments: Sequence[ExperimentResult]) -> list[ExperimentResult]:
    """Each with a name of its in_cells."""
    counts: Counter[str] = Counter()
    made = []
    for one in experiments:
        counts[one.name] += 1
        head, mark, tail = one.name.partition("@")
        name = one.name if counts[one.name] == 1 else f"{head}-{counts[one.name]}{mark}{tail}"
        made.append(replace(one, name=name))
    return made


@dataclass(frozen=True)
class _Table:
    grid: Grid
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    resource: str
    context: str
    text: str
    notes: tuple[str, ...] = ()
    common: Parameters = field(default_factory=dict)

    @classmethod
    def of(cls, grid: Grid, maps: Mapping[str, str], context: str, text: str) -> _Table | None:
        """The table with its columns read; none without results. Raises ``UserError`` where two readings fit."""
        titled = meaning_of(grid.title)
        by_title = titled.quantity in FIGURES and titled.unit is not None
        if not has_figures(grid.heads) and not has_values(grid) and not maps and not by_title:
            if not has_figures([row[0] for row in grid.rows]):
                return None
            grid = grid.transposed()
        grid = parted(grid, maps)
        columns = read_columns(grid, maps)
        if not any(column.is_figure for column in columns):
            return None
        whole, rows = with_row_units(columns, read_rows(grid, columns))
        if not rows:
            return None
        bare = _TITLE_ONLY.sub(" ", context)
        table = cls(grid, whole, rows, resource_of(whole, rows, bare, grid.title), bare, text)
        return table._defaults()._units()._jobs()

    # --- what the table does not say

    def _defaults(self) -> _Table:
        """Parameters that only the title states."""
        stated = _titled(self.grid)
        known = {name for row in self.rows for name in row.parameters}
        known |= {name for column in self.columns for name in column.meaning.given}
        if self.resource not in {"storage", "gpu"}:
            stated = {name: value for name, value in stated.items() if name in {"threads", "streams", "protocol"}}
        common = {name: value for name, value in stated.items() if name not in known}
        return replace(self, common=common)

    def _units(self) -> _Table:
        """A unit for each column that needs one; by a law where the head leaves it open."""
        table = self
        for quantity in ("bs", "iops", "bw", "lat", "flops", "time", "data", "size", "ceiling", "au", "share", "loss"):
            for at, column in enumerate(table.columns):
                holds = quantity in SIZES or any(column.at in row.numbers for row in table.rows)
                if column.meaning.quantity == quantity and column.unit is None and holds:
                    unit, why = _Resolver(table, column).unit()
                    table = table._with(at, replace(column, unit=unit, inferred=why))
        return table

    def _with(self, at: int, column: Column) -> _Table:
        columns = (*self.columns[:at], column, *self.columns[at + 1 :])
        return replace(self, columns=columns)

    def _jobs(self) -> _Table:
        """The number of jobs where no column has it, and rate × latency fits one whole number in every row."""
        known = {name for row in self.rows for name in row.parameters} | set(self.common)
        if "numjobs" in known or "threads" in known or "iodepth" not in known:
            return self
        ratios = []
        for row in self.rows:
            depth = row.parameters.get("iodepth", self.common.get("iodepth"))
            rate, latency = self.number(row, "iops"), self.number(row, "lat")
            if isinstance(depth, int | float) and depth and rate and latency:
                ratios.append(rate.value * latency.value / depth)
        whole = round(min(ratios)) if ratios else 1
        if whole < 2 or any(abs(ratio / whole - 1) > 0.07 for ratio in ratios):
            return self
        note = f"jobs are not stated; rate × latency fits {whole}"
        return replace(self, common={**self.common, "numjobs": whole}, notes=(*self.notes, note))

    def number(self, row: Row, quantity: str, statistics: Sequence[str] = ("", "mean")) -> Number | None:
        """A row's figure in its base unit, if one column alone has it."""
        found = [c for c in self.columns if c.meaning.quantity == quantity and c.meaning.statistic in statistics]
        found = [c for c in found if c.at in row.numbers]
        return self.figure(row, found[0]) if len(found) == 1 else None

    def figure(self, row: Row, column: Column) -> Number | None:
        """A cell's number in the base unit of its quantity."""
        number = row.numbers.get(column.at)
        if number is None:
            return None
        unit = number.unit if number.unit is not None and number.unit.kind != "short" else None
        if unit is not None and unit.kind == "bits or bytes":
            bits = self.resource == "network"
            unit = replace(unit, factor=unit.factor / 8) if bits else unit
        kind = FIGURES.get(column.meaning.quantity, "")
        by_row = column.inferred == BY_ROW
        if unit is not None and kind and not by_row and unit.kind not in {kind, "bits or bytes"}:
            unit = None
        chosen = unit or column.unit
        value = number.value * (chosen.factor if chosen else 1.0)
        if not abs(value) <= LARGEST or (value and abs(value) < SMALLEST):
            raise UserError(f"'{column.head}' has a number out of range: {number.value:g}")
        return Number(value, number.rounding, chosen)

    # --- points

    def experiments(self, number: int) -> list[ExperimentResult]:
        """The table's rows as points, in one experiment for each kind of result."""
        groups: dict[tuple[str, Subject], list[Measurement]] = defaultdict(list)
        claims: list[Measurement] = []
        for row in self.rows:
            if (claim := self._claim(row)) is not None:
                claims.append(claim)
                continue
            for point in self._points(row):
                groups[self._resource_of(row.parameters), _subject(row.parameters)].append(point)
        title = self.grid.title or f"table {number}"
        made = [self._experiment(resource, subject, title, points) for (resource, subject), points in groups.items()]
        by_resource: dict[str, list[Measurement]] = defaultdict(list)
        for claim in claims:
            by_resource[self._resource_of(claim.parameters)].append(claim)
        for resource, points in by_resource.items():
            made.append(printed.experiment(f"{resource}.claims", f"Claimed ceilings: {title}", CLAIM, CLAIM, points))
        return made

    def _resource_of(self, parameters: Parameters) -> str:
        named = str(parameters.get("resource") or self.resource).lower()
        return _RESOURCES.get(named, named)

    def _experiment(
        self, resource: str, subject: Subject, title: str, points: Sequence[Measurement]
    ) -> ExperimentResult:
        values: dict[str, set[str]] = defaultdict(set)
        for point in points:
            for name, value in point.parameters.items():
                values[name].add(str(value))
        load = next((name for name in LOADS if len(values.get(name, ())) > 1), None)
        load = load or next((name for name in LOADS if name in values), "row")
        kernel = KERNELS.get(resource, "table")
        if resource == "memory" and "delay" in values:
            kernel = "memory_loaded_latency"
        words = ", ".join(value for _, value in subject)
        where, title = (f"@{words}", f"{title}: {words}") if words else ("", title)
        return printed.experiment(f"{resource}.table{where}", title[:120], kernel, load, points, **dict(subject))

    def _claim(self, row: Row) -> Measurement | None:
        """A row that states a ceiling; none for a result."""
        text = str(row.parameters.get("claim") or "")
        if not text:
            return None
        for column in self.columns:
            if column.is_figure and (number := self.figure(row, column)) is not None and number.value > 0:
                unit = number.unit or column.unit
                if unit is None:
                    continue
                parameters = {k: v for k, v in row.parameters.items() if k in {"claim", "study", "resource", "device"}}
                return printed.point(parameters, number.value, unit.kind, row=row.at, claimed_unit=unit.name)
        return None

    def _points(self, row: Row) -> list[Measurement]:
        groups: dict[tuple[tuple[str, Any], ...], dict[str, Number]] = defaultdict(dict)
        figures = [column for column in self.columns if column.is_figure and column.at in row.numbers]
        shared = {}
        for column in figures:
            number = self.figure(row, column)
            if number is None:
                continue
            quantity = column.meaning.quantity
            if column.inferred == BY_ROW and number.unit is not None:
                quantity = BY_KIND.get(number.unit.kind, quantity)
            key = "_".join(filter(None, (quantity, column.meaning.statistic)))
            given = dict(column.meaning.given)
            twin = _twin(column, figures)
            if twin is not None and twin.at in row.numbers:
                shared[f"{key}_again"] = number
                continue
            if _collides(column, figures):
                given["series"] = column.meaning.rest or column.head
            if not given:
                shared[key] = number
            else:
                groups[tuple(sorted(given.items(), key=str))][key] = number
        if not groups:
            return [made for made in (self._point(row, {}, shared),) if made]
        mixed = self._is_mixed(row) and all({name for name, _ in given} <= {"rw"} for given in groups)
        if mixed:
            return [made for made in (self._point(row, {}, {**_summed(list(groups.values())), **shared}),) if made]
        made = [self._point(row, dict(given), {**shared, **numbers}) for given, numbers in groups.items()]
        if shared and len(groups) > 1:
            # What stands for the whole row belongs to none of its parts.
            made = [self._point(row, dict(given), numbers) for given, numbers in groups.items()]
            made.append(self._point(row, {}, shared))
        return [one for one in made if one]

    def _need(self, parameters: Parameters) -> dict[str, Any]:
        """The needs of the accelerators that the row's workload is defined for, bytes/s."""
        if self.resource != "training":
            return {}
        labels = " ".join(value for value in parameters.values() if isinstance(value, str))
        named = workload.named_in(labels)
        if not named and not self._has_models():
            named = workload.named_in(f"{self.grid.title} {self.text}")
        if len(named) != 1:
            return {}
        needs = workload.catalogue()[named[0]]
        return {"workload": named[0], "needs_bytes_s": {name: one.need_bytes_s for name, one in needs.items()}}

    def _has_models(self) -> bool:
        """Whether the rows name their models, so that a row's is not another's."""
        return any(re.fullmatch(r"(?i)\W*(?:model|workload|benchmark|task)s?\W*", head) for head in self.grid.heads)

    def _is_mixed(self, row: Row) -> bool:
        given = {**self.common, **row.parameters}
        return str(given.get("rw", "")).endswith("rw") or given.get("rwmixread") not in {None, 0, 100}

    def _point(self, row: Row, given: Parameters, numbers: Mapping[str, Number]) -> Measurement | None:
        parameters = _joined({**self.common, **row.parameters}, given)
        need = self._need(parameters)
        for name in ("resource", *_SHARED):
            parameters.pop(name, None)
        if "rwmixread" in parameters:
            parameters.setdefault("rw", "rw")
        return point_of(parameters, numbers, row=row.at, heads=self._heads(row, numbers), **need)

    def _heads(self, row: Row, numbers: Mapping[str, Number]) -> dict[str, str]:
        """The heads of the bandwidths in a row, as a map names them."""
        found = [c.head for c in self.columns if c.meaning.quantity == "bw" and c.at in row.numbers]
        return {"bw": re.sub(r"\s*[(\[].*", "", found[0]).strip()} if len(found) == 1 and "bw" in numbers else {}

    def says(self) -> str:
        """How the columns were read, in one line."""
        left = len(self.grid.rows) - len(self.rows)
        out = f", {left} without a figure left out" if left else ""
        where = f"{self.grid.title or 'table'}: {self.resource}, {plural(len(self.rows), 'row')}{out}. "
        parts = [f"'{column.head}' is {column.says()}" for column in self.columns if column.head.strip()]
        stated = [
            f"{TITLES.get(name, name)} {value} by the title" for name, value in self.common.items() if name != "numjobs"
        ]
        return escaped(where + "; ".join([*parts, *stated, *self.notes]))


_SIZES = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT])i?B? ?[/x×] ?(\d+(?:\.\d+)?) ?([KMGT])i?B\b", re.I)
_DIRECTIONS = re.compile(r"(?:rand(?:om)?|seq(?:uential)?)?[ _-]?(?:read|write)s?\b")


def _titled(grid: Grid) -> Parameters:
    """What the title states, or the first head where it is a pattern: ``read`` above the names of what was tested."""
    stated = pattern_of(grid.title)
    if match := _SIZES.search(grid.title):
        one, two = (float(match[at]) * 1024.0 ** (1 + "kmgt".index(match[at + 1].lower())) for at in (1, 3))
        stated |= {"size": int(max(one, two)), "bs": int(min(one, two))}
    named = {word.strip() for word in _DIRECTIONS.findall(grid.title.lower())}
    if len(named) > 1:
        stated.pop("rw", None)
    first = pattern_of(grid.heads[0]) if _DIRECTIONS.fullmatch(grid.heads[0].strip().lower()) else {}
    return {**stated, **first}


_TITLE_ONLY = re.compile(r"\S*/")


def _twin(column: Column, figures: Sequence[Column]) -> Column | None:
    """An earlier column with the same figure in another unit."""
    for other in figures:
        one, two = column.meaning, other.meaning
        alike = (one.quantity, one.statistic, one.given, one.rest) == (two.quantity, two.statistic, two.given, two.rest)
        if other.at < column.at and alike and column.unit and other.unit and column.unit.factor != other.unit.factor:
            return other
    return None


def _collides(column: Column, figures: Sequence[Column]) -> bool:
    one = column.meaning
    alike = [
        other
        for other in figures
        if (other.meaning.quantity, other.meaning.statistic, other.meaning.given)
        == (one.quantity, one.statistic, one.given)
    ]
    return len(alike) > 1


Subject = tuple[tuple[str, str], ...]


def _subject(parameters: Parameters) -> Subject:
    """What rows with the same ceilings share."""
    return tuple((name, str(parameters[name])) for name in _SHARED if parameters.get(name))


def _summed(parts: Sequence[Mapping[str, Number]]) -> dict[str, Number]:
    """Reads and writes of one mixed load together: rates add up, latencies are weighted by rates."""
    found: dict[str, Number] = {}
    for key in {key for part in parts for key in part}:
        numbers = [part[key] for part in parts if key in part]
        if key.startswith(("bw", "iops")) and len(numbers) == len(parts):
            total = sum(number.value for number in numbers)
            found[key] = Number(total, max(number.rounding for number in numbers), numbers[0].unit)
        elif key in {"lat", "lat_mean"} and len(numbers) == len(parts):
            rates = [
                next((part[name].value for name in ("iops", "iops_mean", "bw", "bw_mean") if name in part), 1.0)
                for part in parts
            ]
            whole = sum(rates) or 1.0
            mean = sum(rate * number.value for rate, number in zip(rates, numbers, strict=True)) / whole
            found[key] = Number(mean, max(number.rounding for number in numbers), numbers[0].unit)
    return found


def _joined(row: Parameters, given: Parameters) -> Parameters:
    """A row's parameters with those of a column's head; a direction keeps the row's random pattern."""
    found = {**row, **{name: value for name, value in given.items() if name != "rw"}}
    way, pattern = str(given.get("rw") or ""), str(row.get("rw") or "")
    if way:
        random = "rand" in pattern and not way.startswith("rand")
        found["rw"] = f"rand{way}" if random else way
        found.pop("rwmixread", None)
    return found


# --- units that a head leaves open


@dataclass(frozen=True)
class _Resolver:
    """Finds the unit of a column by a law that it must obey with others, by its magnitude, or asks."""

    table: _Table
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
            return (Unit("1", 0.01, "%"), "by magnitude") if most > MOST_SHARE else (Unit("1", 1.0, ""), "")
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
        if quantity == "bw":
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
        """The unit with which IOPS × block size is the bandwidth in most rows."""
        votes: Counter[str] = Counter()
        rows = 0
        for row in self.table.rows:
            rate, number = self.table.number(row, "iops"), row.numbers.get(self.column.at)
            size = row.parameters.get("bs", self.table.common.get("bs"))
            if rate is None or number is None or not isinstance(size, int | float) or not rate.value or not size:
                continue
            rows += 1
            for unit in units:
                if abs(number.value * unit.factor / (rate.value * size) - 1) <= 0.1 + number.rounding + rate.rounding:
                    votes[unit.name] += 1
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
                    row.parameters["bs"] = round(size_of(number, None) * 1024)
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
            f"column '{escaped(self.column.head)}' can be read as {first} or as {second}; "
            f'say which: --map "{escaped(short)}={first}"'
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
assert set(COUNTS) <= set(PARAMETERS)
