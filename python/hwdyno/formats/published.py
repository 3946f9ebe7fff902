"""Reads a published table (CSV, Markdown, HTML, pasted cells) into a Run, and says how each column was read."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hwdyno.formats import printed, workload
from hwdyno.formats.cell import unit_in_column
from hwdyno.formats.column import COUNTS, FIGURES, PARAMETERS, SIZES, parse_head
from hwdyno.formats.column_pairs import collides, find_twin, is_vague_time, joined_parameters, summed_directions
from hwdyno.formats.figure_rows import by_figure
from hwdyno.formats.grid import Grid, find_grids
from hwdyno.formats.grid_shapes import with_one_unit_a_column
from hwdyno.formats.named_cells import parted_by_name
from hwdyno.formats.pairs import split_pairs
from hwdyno.formats.row import make_point
from hwdyno.formats.table_labels import TableRow, note_order, with_implied_random, without_implied_random
from hwdyno.formats.table_laws import COLLECTIVE
from hwdyno.formats.table_resource import RESOURCES, find_resource
from hwdyno.formats.table_rows import (
    BY_KIND,
    BY_ROW,
    TITLES,
    Column,
    has_figures,
    has_values,
    list_repairs,
    read_columns,
    read_rows,
    with_row_units,
)
from hwdyno.formats.table_title import stated_by_title
from hwdyno.formats.table_units import with_unit
from hwdyno.model.kernels import (
    GPU_TRANSFER,
    MEMORY_BANDWIDTH,
    MEMORY_LOADED_LATENCY,
    NETWORK_THROUGHPUT,
    STORAGE_BLOCKS,
)
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.unit_readings import counted_in
from hwdyno.model.units import LARGEST, SMALLEST, plural
from hwdyno.model.words import ExperimentResult, Measurement, Parameters, Run, UserError
from hwdyno.system.printable import escape_text

NAME = "table"
CLAIM = "claim"
"""The kernel of rows that state what the hardware could deliver."""
KERNELS = {
    "storage": STORAGE_BLOCKS,
    "memory": MEMORY_BANDWIDTH,
    "network": NETWORK_THROUGHPUT,
    "compute": "linpack",
    "training": "training_table",
    "gpu": GPU_TRANSFER,
}
_SHARED = ("study", "device", "link")
"""Labels of rows that make an experiment of their in_cells: what decides their ceilings."""
LOADS = ("delay", "iodepth", "numjobs", "threads", "streams", "accelerators", "n", "bs", "working_set", "nodes")
_NEED_UNITS = ("bs", "iops", "bw", "busbw", "lat", "flops", "time", "data", "size", "ceiling", "au", "share", "loss")
LONGEST_CONTEXT = 200_000
"""Characters around a table in which its workload may be named."""
_SIZE_OF = {"network": "bs", "gpu": "bs", "memory": "working_set"}
"""What a column called "size" is of in a table of this resource."""
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
        table = _Table.from_grid(grid, maps, name, text[:LONGEST_CONTEXT])
        if table is None:
            continue
        found = table.experiments(number)
        if any(experiment.points for experiment in found):
            experiments += found
            readings.append(table.says())
    return Published(printed.run(NAME, "a table", text, name, _number_names(experiments)), tuple(readings))


def _grids(text: str, maps: Mapping[str, str], *, marked: bool) -> list[Grid]:
    shaped = [with_one_unit_a_column(grid, maps) for grid in find_grids(text, marked=marked)]
    return [parted_by_name(grid if maps else by_figure(grid), maps) for grid in shaped]


def list_heads(text: str) -> list[str]:
    """The heads of every table in a text, as a map may name them."""
    grids = [shape for grid in find_grids(text) for shape in (grid, parted_by_name(grid, {}))]
    return [head for grid in grids for head in (*grid.heads, *(row[0] for row in grid.rows)) if head]


def _number_names(experiments: Sequence[ExperimentResult]) -> list[ExperimentResult]:
    """Each with a name of its in_cells."""
    counts: Counter[str] = Counter()
    made = []
    for experiment in experiments:
        counts[experiment.name] += 1
        head, mark, tail = experiment.name.partition("@")
        name = experiment.name if counts[experiment.name] == 1 else f"{head}-{counts[experiment.name]}{mark}{tail}"
        made.append(replace(experiment, name=name))
    return made


@dataclass(frozen=True)
class _Table:
    grid: Grid
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    resource: str
    context: str
    text: str
    notes: tuple[str, ...] = ()
    common: Parameters = field(default_factory=dict)

    @classmethod
    def from_grid(cls, grid: Grid, maps: Mapping[str, str], context: str, text: str) -> _Table | None:
        """The table with its columns read; none without results. Raises ``UserError`` where two readings fit."""
        titled = parse_head(grid.title)
        by_title = titled.quantity in FIGURES and titled.unit is not None
        if not has_figures(grid.heads) and not has_values(grid) and not maps and not by_title:
            if not has_figures([row[0] for row in grid.rows]):
                return None
            grid = grid.transpose()
        grid = split_pairs(grid, maps)
        columns = read_columns(grid, maps)
        if not any(column.is_figure for column in columns):
            return None
        whole, rows = with_row_units(columns, without_implied_random(grid, read_rows(grid, columns)))
        if not rows:
            return None
        bare = _TITLE_ONLY.sub(" ", context)
        table = cls(grid, whole, rows, find_resource(whole, rows, bare, grid.title), bare, text)
        return table._sizes()._defaults()._units()._jobs()

    def _sizes(self) -> _Table:
        """A column called "size" as what the size is of in a table of this resource."""
        names = {column.meaning.quantity for column in self.columns}
        size_of = _SIZE_OF.get(self.resource, "size") if names & {"bw", "busbw", "lat", "iops"} else "size"
        if size_of in names:
            return self
        columns = [
            replace(column, meaning=replace(column.meaning, quantity=size_of))
            if column.meaning.quantity == "size"
            else column
            for column in self.columns
        ]
        rows = [replace(row, parameters=_rename_size(row.parameters, size_of)) for row in self.rows]
        return replace(self, columns=tuple(columns), rows=tuple(rows))

    # --- what the table does not say

    def _defaults(self) -> _Table:
        """Parameters that only the title states."""
        stated = stated_by_title(self.grid)
        if any(column.meaning.quantity == "busbw" for column in self.columns):
            stated |= {"operation": match[0].lower()} if (match := COLLECTIVE.search(self.grid.title)) else {}
        known = {name for row in self.rows for name in row.parameters}
        known |= {name for column in self.columns for name in column.meaning.given}
        if self.resource not in {"storage", "gpu"}:
            stated = {name: value for name, value in stated.items() if name in {"threads", "streams", "protocol"}}
        common = {name: value for name, value in stated.items() if name not in known}
        return replace(self, common=common)

    def _units(self) -> _Table:
        """A unit for each column that needs one; by a law where the head leaves it open."""
        table = self
        for quantity in _NEED_UNITS:
            for at, column in enumerate(table.columns):
                holds = quantity in SIZES or any(column.at in row.numbers for row in table.rows)
                if column.meaning.quantity == quantity and column.unit is None and holds:
                    table = table._with(at, with_unit(table, column))
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

    def number(self, row: TableRow, quantity: str, statistics: Sequence[str] = ("", "mean")) -> PrintedNumber | None:
        """A row's figure in its base unit, if one column alone has it."""
        found = [c for c in self.columns if c.meaning.quantity == quantity and c.meaning.statistic in statistics]
        found = [c for c in found if c.at in row.numbers]
        return self.figure(row, found[0]) if len(found) == 1 else None

    def figure(self, row: TableRow, column: Column) -> PrintedNumber | None:
        """A cell's number in the base unit of its quantity."""
        number = row.numbers.get(column.at)
        if number is None:
            return None
        unit = number.unit if number.unit is not None and number.unit.kind != "short" else None
        if unit is not None and unit.kind == "bits or bytes":
            bits = self.resource == "network"
            unit = replace(unit, kind="bytes/s", factor=unit.factor / 8 if bits else unit.factor)
        kind = FIGURES.get(column.meaning.quantity, "")
        by_row = column.inferred == BY_ROW
        if unit is not None and not by_row and kind in BY_KIND and unit.kind in {*BY_KIND} - {kind}:
            return None
        unit = unit_in_column(unit, kind) if unit is not None and not by_row else unit
        chosen = unit or (None if by_row else column.unit)
        of_another = number.unit is not None and bool(kind) and number.unit.kind not in {kind, "short"}
        if chosen is None and (by_row or of_another):
            return None  # Its cell names a unit of something else, and nothing names one of this.
        value = number.value * (chosen.factor if chosen else 1.0)
        if not abs(value) <= LARGEST or (value and abs(value) < SMALLEST):
            raise UserError(f"'{column.head}' has a number out of range: {number.value:g}")
        return PrintedNumber(value, number.rounding, chosen)

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
                groups[self._name_resource(row.parameters), _subject(row.parameters)].append(point)
        title = self.grid.title or f"table {number}"
        made = [self._experiment(resource, subject, title, points) for (resource, subject), points in groups.items()]
        by_resource: dict[str, list[Measurement]] = defaultdict(list)
        for claim in claims:
            by_resource[self._name_resource(claim.parameters)].append(claim)
        for resource, points in by_resource.items():
            made.append(printed.experiment(f"{resource}.claims", f"Claimed ceilings: {title}", CLAIM, CLAIM, points))
        return made

    def _name_resource(self, parameters: Parameters) -> str:
        named = str(parameters.get("resource") or self.resource).lower()
        return _RESOURCES.get(named, named if named in RESOURCES else self.resource)

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
        if resource == "compute" and "n" not in values and not _LINPACK.search(f"{title} {self.context}"):
            kernel = "table"
        if resource == "memory" and "delay" in values:
            kernel = MEMORY_LOADED_LATENCY
        words = ", ".join(value for _, value in subject)
        where, title = (f"@{words}", f"{title}: {words}") if words else ("", title)
        name = f"{resource}.table{where}"
        made = printed.experiment(name, title[:120], kernel, load, points, **dict(subject))
        return printed.counting(made, self._rate_word())

    def _rate_word(self) -> str:
        """What the table's rates count, where their units agree on a word."""
        columns = [column for column in self.columns if column.meaning.quantity == "iops"]
        units = {column.unit.name for column in columns if column.unit is not None}
        units |= {
            number.unit.name
            for column in columns
            for row in self.rows
            if (number := row.numbers.get(column.at)) is not None and number.unit is not None
        }
        words = set(map(counted_in, units))
        return words.pop() if len(words) == 1 else ""

    def _claim(self, row: TableRow) -> Measurement | None:
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

    def _points(self, row: TableRow) -> list[Measurement]:
        groups: dict[tuple[tuple[str, Any], ...], dict[str, PrintedNumber]] = defaultdict(dict)
        figures = [column for column in self.columns if column.is_figure and column.at in row.numbers]
        shared = {}
        for column in figures:
            number = self.figure(row, column)
            if number is None or is_vague_time(column, row.numbers[column.at]):
                continue
            quantity = column.meaning.quantity
            if column.inferred == BY_ROW and number.unit is not None:
                quantity = BY_KIND.get(number.unit.kind, quantity)
            key = "_".join(filter(None, (quantity, column.meaning.statistic)))
            given = dict(column.meaning.given)
            twin = find_twin(column, figures)
            if twin is not None and twin.at in row.numbers:
                shared[f"{key}_again"] = number
                continue
            rivals = any(
                other.meaning.quantity == quantity and other.meaning.given and not given and column.meaning.remainder
                for other in figures
            )
            if collides(column, figures) or rivals:
                if quantity == "ceiling":
                    continue  # Which of them bounds the row's figures is not known.
                given["series"] = column.meaning.remainder or column.head
            if not given:
                shared[key] = number
            else:
                groups[tuple(sorted(given.items(), key=str))][key] = number
        if not groups:
            return [made for made in (self._point(row, {}, shared),) if made]
        mixed = self._is_mixed(row) and all({name for name, _ in given} <= {"rw"} for given in groups)
        if mixed:
            return [
                made for made in (self._point(row, {}, {**summed_directions(list(groups.values())), **shared}),) if made
            ]
        made = [self._point(row, dict(given), {**shared, **numbers}) for given, numbers in groups.items()]
        if shared and len(groups) > 1:
            # What covers the whole row belongs to none of its parts, but bounds each of them.
            ceiling = {name: number for name, number in shared.items() if name == "ceiling"}
            made = [self._point(row, dict(given), {**ceiling, **numbers}) for given, numbers in groups.items()]
            others = {name: number for name, number in shared.items() if name != "ceiling"}
            made.append(self._point(row, {}, others))
        return [point for point in made if point]

    def _need(self, parameters: Parameters) -> dict[str, Any]:
        """The needs of the accelerators that the row's workload is defined for, bytes/s, and the AU that passes."""
        if self.resource != "training":
            return {}
        labels = " ".join(value for value in parameters.values() if isinstance(value, str))
        named = workload.named_in(labels)
        if not named and not self._has_models():
            named = workload.named_in(f"{self.grid.title} {self.text}")
        if len(named) != 1:
            return {}
        needs = workload.catalogue()[named[0]]
        return {
            "workload": named[0],
            "needs_bytes_s": {name: kind.need_bytes_s for name, kind in needs.items()},
            "au_pass": min(kind.au for kind in needs.values()),
            "batches": {name: kind.batch_size for name, kind in needs.items()},
            "samples_per_file": max(kind.samples_per_file for kind in needs.values()),
        }

    def _has_models(self) -> bool:
        """Whether the rows name their models, so that a row's is not another's."""
        return any(re.fullmatch(r"(?i)\W*(?:model|workload|benchmark|task)s?\W*", head) for head in self.grid.heads)

    def _is_mixed(self, row: TableRow) -> bool:
        given = {**self.common, **row.parameters}
        return str(given.get("rw", "")).endswith("rw") or given.get("rwmixread") not in {None, 0, 100}

    def _point(self, row: TableRow, given: Parameters, numbers: Mapping[str, PrintedNumber]) -> Measurement | None:
        parameters = with_implied_random(self.grid, row, joined_parameters({**self.common, **row.parameters}, given))
        need = self._need(parameters)
        for name in ("resource", *_SHARED):
            parameters.pop(name, None)
        if "rwmixread" in parameters:
            parameters.setdefault("rw", "rw")
        made = make_point(parameters, numbers, row=row.at, heads=self._heads(row, numbers), **need)
        return made and replace(made, notes=note_order(parameters, self.text))

    def _heads(self, row: TableRow, numbers: Mapping[str, PrintedNumber]) -> dict[str, str]:
        """The heads of the bandwidths in a row, as a map names them."""
        found = [c.head for c in self.columns if c.meaning.quantity == "bw" and c.at in row.numbers]
        return {"bw": re.sub(r"\s*[(\[].*", "", found[0]).strip()} if len(found) == 1 and "bw" in numbers else {}

    def says(self) -> str:
        """How the columns were read, in one line."""
        left = len(self.grid.rows) - len(self.rows)
        out = f", {left} without a figure left out" if left else ""
        where = f"{self.grid.title[:120] or 'table'}: {self.resource}, {plural(len(self.rows), 'row')}{out}. "
        parts = [f"'{column.head}' is {column.says()}" for column in self.columns if column.head.strip()]
        stated = [
            f"{TITLES.get(name, name)} {value} by the title" for name, value in self.common.items() if name != "numjobs"
        ]
        repairs = [] if self.resource == "network" else list_repairs(self.columns, self.rows)
        return escape_text(where + "; ".join([*parts, *stated, *self.notes, *repairs]))


def _rename_size(parameters: Parameters, size_of: str) -> Parameters:
    """The parameters with the size under another name, in whole bytes."""
    size = parameters.get("size")
    others = {name: value for name, value in parameters.items() if name != "size"}
    return {size_of: round(size) if isinstance(size, float) else size, **others} if size is not None else others


_LINPACK = re.compile(r"(?i)linpack|\bhpl\b|\bxhpl|top ?500|rmax")
_TITLE_ONLY = re.compile(r"\S*/")
Subject = tuple[tuple[str, str], ...]


def _subject(parameters: Parameters) -> Subject:
    """What rows with the same ceilings share."""
    return tuple((name, str(parameters[name])) for name in _SHARED if parameters.get(name))


assert set(COUNTS) <= set(PARAMETERS)
