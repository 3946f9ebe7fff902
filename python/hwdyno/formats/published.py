"""Reads a published table (CSV, Markdown, HTML, pasted cells) into a Run, and says how each column was read."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hwdyno.formats import printed, workload
from hwdyno.formats.column import (
    COUNTS,
    FIGURES,
    PARAMETERS,
    SIZES,
    Meaning,
    Number,
    Unit,
    flag_of,
    meaning_of,
    number_in,
    parameter_value,
    pattern_of,
    size_of,
    unit_readings,
)
from hwdyno.formats.grid import Grid, grids_of
from hwdyno.formats.row import point_of
from hwdyno.printable import escaped
from hwdyno.units import LARGEST, SMALLEST
from hwdyno.words import ExperimentResult, Measurement, Parameters, Run, UserError

NAME = "table"
CLAIM = "claim"
"""The kernel of rows that state what the hardware could deliver."""
KERNELS = {
    "storage": "storage_blocks",
    "memory": "memory_bandwidth",
    "network": "network_throughput",
    "compute": "linpack",
    "training": "training_table",
    "gpu": "gpu_copy",
}
_SHARED = ("study", "device", "link")
"""Labels of rows that make an experiment of their own: what decides their ceilings."""
LOADS = ("delay", "iodepth", "numjobs", "threads", "streams", "accelerators", "n", "bs", "working_set", "nodes")
LONGEST_LABEL = 60
LONGEST_CONTEXT = 200_000
"""Characters around a table in which its workload may be named."""
BY_ROW = "unit of each row"
_BY_KIND = {"bytes/s": "bw", "operations/s": "iops", "FLOP/s": "flops", "s": "lat", "1": "share"}
_RESOURCES = {"cpu": "compute", "processor": "compute", "disk": "storage", "ssd": "storage", "ram": "memory"}
_KEYS = (
    ("accelerator", r"accelerator|simulated gpu|emulated gpu"),
    ("device", r"device|drive|disk|ssd|model|product|gpu|card|adapter|nic"),
    ("link", r"interface|link|bus"),
    ("study", r"study|paper"),
    ("path", r"path|route|where"),
    ("workload", r"workload|model"),
    ("resource", r"resource|category"),
    ("claim", r"claim|ceiling|limit|theory|formula"),
    ("unit", r"(?:.* )?unit"),
)
_COMMENTS = re.compile(r"source|why|notes?|comments?|explanation|remarks?|url|correct|date|capacity")
_RESOURCE_WORDS = (
    ("training", r"mlperf|dlio|unet3d|resnet|cosmoflow|accelerator utili|training"),
    ("gpu", r"\bgpus?\b|cuda|nvlink|nvbandwidth|host[ -]to[ -]device|\bh2d\b|\bhbm"),
    (
        "network",
        r"network|iperf|netperf|\btcp\b|\budp\b|ethernet|\bgbe\b|rdma|infiniband|\bnic\b|loopback|\brtt\b|\bping\b",
    ),
    ("memory", r"memory|\bdram\b|\bddr\d?|stream (?:triad|copy|bench)|\bmlc\b|\bnuma\b|\bdimm"),
    ("compute", r"linpack|\bhpl\b|flop|\bcpu\b|\bgemm\b"),
    ("storage", r"storage|disk|\bssd\b|nvme|\bfio\b|\bhdd\b|\bfile ?system|flash|iozone|drive"),
)
_RESOURCE_WORDS_COMPILED = tuple((name, re.compile(pattern, re.I)) for name, pattern in _RESOURCE_WORDS)
_STATISTIC_ALONE = re.compile(
    r"p ?\d{2,5}(?:\.\d+)?|\d{2}(?:\.\d+)?(?:th|st|nd|rd)?(?: ?(?:%|percentile|pct))?(?:ile)"
    r"?|min(?:imum)?|max(?:imum)?|avg|average|"
    r"mean|median|std ?dev"
)
_CLAIMS = re.compile(r"theoretical|theory|peak|rated|maker|claim|ceiling|link|\d ?[x×*] ?\d", re.I)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table with its meaning and the unit that its numbers are in."""

    at: int
    head: str
    meaning: Meaning
    key: str = ""
    """Of a label: the parameter that it becomes."""
    unit: Unit | None = None
    inferred: str = ""
    """Why it has this unit, where its head does not say so."""

    @property
    def is_figure(self) -> bool:
        """Whether it holds results."""
        return self.meaning.quantity in FIGURES

    def says(self) -> str:
        """How it was read, in a few words."""
        what = self.meaning
        if what.quantity == "label":
            return "not used" if not self.key else "label"
        if what.quantity == "percent":
            return "not used"
        words = _TITLES.get(what.quantity, what.quantity)
        parts = [words, what.statistic, *(f"{name} {value}" for name, value in what.given.items())]
        unit = f" in {self.unit.name}" if self.unit and self.unit.name else ""
        return " ".join(filter(None, parts)) + unit + (f" ({self.inferred})" if self.inferred else "")


_TITLES = {
    "bw": "bandwidth", "iops": "operations/s", "lat": "latency", "flops": "FLOP/s", "au": "accelerator utilisation",
    "bs": "block size", "iodepth": "queue depth", "numjobs": "jobs", "rw": "access pattern", "n": "equations",
    "read_percent": "share of reads", "write_percent": "share of writes", "size": "file size",
    "lda": "leading dimension", "share": "share of a whole", "cpu": "CPU use",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Published:
    """A text's tables as a Run, with a line on each table that says how its columns were read."""

    run: Run
    readings: tuple[str, ...]


def recognizes(text: str, *, marked: bool = False) -> bool:
    """Whether this looks like a table with at least one result; of HTML or Markdown if ``marked``."""
    try:
        found = grids_of(text[:LONGEST_CONTEXT], marked=marked)
    except UserError:
        return True
    return any(_has_figures(grid.heads) or _has_figures([row[0] for row in grid.rows]) for grid in found)


def _has_figures(heads: Iterable[str]) -> bool:
    meanings = [meaning_of(head) for head in heads]
    named = [one for one in meanings if one.quantity in FIGURES and (one.quantity != "value" or not one.units)]
    return any(one.quantity not in {"value", "cpu", "speedup"} for one in named) or (
        any(one.quantity == "value" for one in named)
        and any(re.fullmatch("units?", head.strip().lower()) for head in heads)
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
    for number, grid in enumerate(grids_of(text, marked=marked), start=1):
        table = _Table.of(grid, maps, name, text[:LONGEST_CONTEXT])
        if table is None:
            continue
        found = table.experiments(number)
        if any(one.points for one in found):
            experiments += found
            readings.append(table.says())
    return Published(printed.run(NAME, "a table", text, name, _numbered(experiments)), tuple(readings))


def heads_of(text: str) -> list[str]:
    """The heads of every table in a text, as a map may name them."""
    grids = grids_of(text)
    return [head for grid in grids for head in (*grid.heads, *(row[0] for row in grid.rows)) if head]


def _numbered(experiments: Sequence[ExperimentResult]) -> list[ExperimentResult]:
    """Each with a name of its own."""
    counts: Counter[str] = Counter()
    made = []
    for one in experiments:
        counts[one.name] += 1
        head, mark, tail = one.name.partition("@")
        name = one.name if counts[one.name] == 1 else f"{head}-{counts[one.name]}{mark}{tail}"
        made.append(replace(one, name=name))
    return made


def is_head(one: str, other: str) -> bool:
    """Whether a name means a head: the same words, or those before its unit."""
    return " ".join(re.findall(r"\w+", one.lower())) == " ".join(re.findall(r"\w+", other.lower())) or (
        one.strip().lower() == re.sub(r"[(\[].*", "", other).strip().lower()
    )


@dataclass(frozen=True)
class _Row:
    """One row: its parameters, and its numbers by column."""

    at: int
    parameters: Parameters
    numbers: Mapping[int, Number]
    texts: Mapping[int, str]


@dataclass(frozen=True)
class _Table:
    grid: Grid
    columns: tuple[Column, ...]
    rows: tuple[_Row, ...]
    resource: str
    context: str
    text: str
    notes: tuple[str, ...] = ()
    common: Parameters = field(default_factory=dict)

    @classmethod
    def of(cls, grid: Grid, maps: Mapping[str, str], context: str, text: str) -> _Table | None:
        """The table with its columns read; none without results. Raises ``UserError`` where two readings fit."""
        if not _has_figures(grid.heads) and not maps:
            if not _has_figures([row[0] for row in grid.rows]):
                return None
            grid = grid.transposed()
        columns = _columns(grid, maps)
        if not any(column.is_figure for column in columns):
            return None
        whole, rows = _long(columns, _rows(grid, columns))
        if not rows:
            return None
        bare = _TITLE_ONLY.sub(" ", context)
        table = cls(grid, whole, rows, _resource(whole, rows, bare, grid.title), bare, text)
        return table._defaults()._units()._jobs()

    # --- what the table does not say

    def _defaults(self) -> _Table:
        """Parameters that only the title states."""
        stated = pattern_of(self.grid.title)
        known = {name for row in self.rows for name in row.parameters}
        known |= {name for column in self.columns for name in column.meaning.given}
        if self.resource not in {"storage", "gpu"}:
            stated = {name: value for name, value in stated.items() if name in {"threads", "streams", "protocol"}}
        common = {name: value for name, value in stated.items() if name not in known}
        return replace(self, common=common)

    def _units(self) -> _Table:
        """A unit for each column that needs one; by a law where the head leaves it open."""
        table = self
        for quantity in ("bs", "iops", "bw", "lat", "flops", "time", "data", "size", "ceiling"):
            for at, column in enumerate(table.columns):
                if column.meaning.quantity == quantity and column.unit is None:
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

    def number(self, row: _Row, quantity: str, statistics: Sequence[str] = ("", "mean")) -> Number | None:
        """A row's figure in its base unit, if one column alone has it."""
        found = [c for c in self.columns if c.meaning.quantity == quantity and c.meaning.statistic in statistics]
        found = [c for c in found if c.at in row.numbers]
        return self.figure(row, found[0]) if len(found) == 1 else None

    def figure(self, row: _Row, column: Column) -> Number | None:
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

    def _claim(self, row: _Row) -> Measurement | None:
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

    def _points(self, row: _Row) -> list[Measurement]:
        groups: dict[tuple[tuple[str, Any], ...], dict[str, Number]] = defaultdict(dict)
        figures = [column for column in self.columns if column.is_figure and column.at in row.numbers]
        shared = {}
        for column in figures:
            number = self.figure(row, column)
            if number is None:
                continue
            quantity = column.meaning.quantity
            if column.inferred == BY_ROW and number.unit is not None:
                quantity = _BY_KIND.get(number.unit.kind, quantity)
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
        known = workload.catalogue()
        words = " ".join([str(parameters.get("workload") or ""), self.grid.title, self.text]).lower()
        named = [name for name in known if re.search(rf"(?<![a-z0-9]){re.escape(name)}", words)]
        stated = [name for name in named if name in str(parameters.get("workload") or "").lower()]
        chosen = stated or named
        if len(chosen) != 1:
            return {}
        return {
            "workload": chosen[0],
            "needs_bytes_s": {name: one.need_bytes_s for name, one in known[chosen[0]].items()},
        }

    def _is_mixed(self, row: _Row) -> bool:
        given = {**self.common, **row.parameters}
        return str(given.get("rw", "")).endswith("rw") or given.get("rwmixread") not in {None, 0, 100}

    def _point(self, row: _Row, given: Parameters, numbers: Mapping[str, Number]) -> Measurement | None:
        parameters = _joined({**self.common, **row.parameters}, given)
        for name in ("resource", *_SHARED):
            parameters.pop(name, None)
        if "rwmixread" in parameters:
            parameters.setdefault("rw", "rw")
        return point_of(parameters, numbers, row=row.at, **self._need(parameters))

    def says(self) -> str:
        """How the columns were read, in one line."""
        where = f"{self.grid.title or 'table'}: {self.resource}, {len(self.rows)} rows. "
        parts = [f"'{column.head}' is {column.says()}" for column in self.columns if column.head.strip()]
        stated = [
            f"{_TITLES.get(name, name)} {value} by the title"
            for name, value in self.common.items()
            if name != "numjobs"
        ]
        return escaped(where + "; ".join([*parts, *stated, *self.notes]))


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


# --- columns and rows


def _columns(grid: Grid, maps: Mapping[str, str]) -> list[Column]:
    found = []
    for at, head in enumerate(grid.heads):
        text = next((value for key, value in maps.items() if is_head(key, head)), None)
        meaning = meaning_of(head) if text is None else _mapped(head, text)
        if meaning.quantity == "value" and meaning.unit is not None:
            meaning = replace(meaning_of(meaning.unit.name), given=meaning.given, statistic=meaning.statistic)
        key = ""
        if meaning.quantity in {"label", "percent"}:
            words = " ".join(re.findall(r"[a-z0-9/]+", head.lower().replace("_", " ")))
            key = next((name for name, pattern in _KEYS if re.fullmatch(pattern, words)), "")
            key = key or ("" if _COMMENTS.fullmatch(words) else "_".join(words.split())[:40] or f"column{at + 1}")
            if meaning.quantity == "percent":
                key = ""
        elif meaning.quantity in {"share", "cpu", "accelerators", "streams", "bs", "rw", "operation"}:
            # A word may also be a label: a column called "disk" or "block" that holds names.
            cells = [row[at] for row in grid.rows if row[at].strip()]
            if cells and not any(number_in(cell) for cell in cells) and meaning.quantity not in {"rw", "operation"}:
                key, meaning = "_".join(re.findall(r"[a-z0-9]+", head.lower())), Meaning("label")
        found.append(Column(at, head, meaning, key, meaning.unit))
    return _with_statistics(found)


def _with_statistics(columns: Sequence[Column]) -> list[Column]:
    """Heads such as ``p99`` or ``max`` alone belong to the latency, or else to the figure, that stands before them."""
    found: list[Column] = []
    for column in columns:
        alone = _STATISTIC_ALONE.fullmatch(column.head.strip().lower())
        before = [one for one in found if one.meaning.quantity in {"lat", "bw", "iops"}]
        latencies = [one for one in before if one.meaning.quantity == "lat"]
        base = (latencies if latencies else before)[-1:]
        if alone and column.meaning.quantity == "label" and base:
            same = meaning_of(f"{base[0].meaning.quantity} {column.head}")
            meaning = replace(same, quantity=base[0].meaning.quantity, units=base[0].meaning.units, rest="")
            column = replace(column, meaning=meaning, key="", unit=base[0].unit)
        found.append(column)
    return found


def _mapped(head: str, text: str) -> Meaning:
    """What the user says that a column is."""
    words = " ".join(text.split())
    if words in {"-", "label"}:
        return Meaning("label")
    own = meaning_of(head)
    if words.lower() in {*FIGURES, *PARAMETERS}:
        return replace(own, quantity=words.lower(), units=own.units if words.lower() == own.quantity else ())
    readings, _ = unit_readings(words)
    if len(words.split()) == 1 and readings:
        plain = re.search(r"(?i)bytes?|B", words) is not None
        unit = readings[0] if len(readings) == 1 else readings[1 if plain and "b" not in words.replace("/", "") else 0]
        kind = FIGURES.get(own.quantity)
        if (own.quantity in FIGURES and kind in {unit.kind, ""}) or (own.quantity in SIZES and unit.kind == "bytes"):
            return replace(own, units=(unit,))
        return replace(meaning_of(words), statistic=own.statistic, given=own.given, units=(unit,))
    made = meaning_of(words)
    if made.quantity in {"label", "percent"}:
        raise UserError(
            f"--map gives '{head}' as '{text}', which is neither a unit nor a quantity; write --map 'bw=MB/s'"
        )
    return replace(made, given={**own.given, **made.given})


def _rows(grid: Grid, columns: Sequence[Column]) -> list[_Row]:
    found = []
    direct = next((c for c in columns if c.meaning.quantity == "direct"), None)
    for at, cells in enumerate(grid.rows, start=1):
        if [cell.lower() for cell in cells] == [head.lower() for head in grid.heads]:
            continue
        parameters: Parameters = {}
        numbers: dict[int, Number] = {}
        for column in columns:
            cell, what = cells[column.at].strip(), column.meaning
            if not cell or cell in {"-", "–", "—", "N/A", "n/a", "NA", "nan", "null", "None"}:
                continue
            if column.is_figure:
                number = number_in(cell)
                if number is not None:
                    numbers[column.at] = number
            elif what.quantity == "rw":
                stated = pattern_of(cell)
                parameters |= stated if stated else {column.head.lower()[:40]: cell[:LONGEST_LABEL]}
            elif what.quantity in {"read_percent", "write_percent"}:
                value = parameter_value(what.quantity, cell, column.unit)
                stated = pattern_of(cell)
                if "rwmixread" in stated:
                    parameters["rwmixread"] = stated["rwmixread"]
                elif isinstance(value, int | float) and 0 <= value <= 100:
                    share = value * 100 if 0 < value < 1 else value
                    parameters["rwmixread"] = round(share)
            elif what.quantity in PARAMETERS:
                value = parameter_value(what.quantity, cell, column.unit)
                if value is not None and column is not direct:
                    parameters[what.quantity] = value
                elif column is direct and value is not None:
                    parameters["direct"] = flag_of(cell)
            elif column.key and len(cell) <= (LONGEST_LABEL if column.key != "claim" else 200):
                parameters[column.key] = cell
        found.append(_Row(at, _with_pattern(parameters), numbers, {c.at: cells[c.at] for c in columns}))
    return [row for row in found if row.numbers]


def _with_pattern(parameters: Parameters) -> Parameters:
    """A pattern that a label states where no column does, such as ``4k randread qd32``."""
    if "rw" in parameters or "rwmixread" in parameters:
        return parameters
    for name, value in parameters.items():
        if isinstance(value, str) and name not in {"device", "study", "source", "claim", "unit", "path", "link"}:
            stated = pattern_of(value)
            if (
                ("rw" in stated and len(stated) > 1)
                or "operation" in stated
                or str(stated.get("rw", "")).startswith("rand")
            ):
                return {**stated, **parameters}
    return parameters


def _long(columns: Sequence[Column], rows: Sequence[_Row]) -> tuple[tuple[Column, ...], tuple[_Row, ...]]:
    """A column of units gives each number its unit, to the columns that name none."""
    unit_column = next((c for c in columns if c.key == "unit"), None)
    if unit_column is None:
        return tuple(columns), tuple(rows)
    stem = re.sub(r"[ _]?units?$", "", unit_column.head.strip().lower())
    made = []
    wanted: set[int] = set()
    for row in rows:
        readings, _ = unit_readings(row.texts[unit_column.at].strip())
        numbers = dict(row.numbers)
        for column in columns:
            fits = column.meaning.quantity == "value" or (column.is_figure and stem and column.meaning.quantity in stem)
            if column.at in numbers and readings and column.unit is None and fits:
                unit = readings[0] if len(readings) == 1 else replace(readings[1], kind="bits or bytes")
                numbers[column.at] = replace(numbers[column.at], unit=numbers[column.at].unit or unit)
                wanted.add(column.at)
        made.append(replace(row, numbers=numbers, parameters={k: v for k, v in row.parameters.items() if k != "unit"}))
    found = []
    for column in columns:
        if column.meaning.quantity == "value":
            kinds = [row.numbers[column.at].unit for row in made if column.at in row.numbers]
            kind = next((unit.kind for unit in kinds if unit), "")
            quantity = _BY_KIND.get(kind, "value")
            column = replace(column, meaning=replace(column.meaning, quantity=quantity))
        if column.at in wanted:
            column = replace(column, unit=Unit("", 1.0, ""), inferred=BY_ROW)
        found.append(column)
    return tuple(found), tuple(made)


def _resource(columns: Sequence[Column], rows: Sequence[_Row], context: str, title: str) -> str:
    """Which resource a table measures: by its columns, and where they leave it open by its words."""
    names = {column.meaning.quantity for column in columns}
    given = {name for column in columns for name in column.meaning.given}
    words = " ".join([title, *(column.head for column in columns)])
    values = " ".join(str(value) for row in rows[:50] for value in row.parameters.values() if isinstance(value, str))
    bits = any(
        unit.name.endswith("bit/s")
        for column in columns
        for unit in column.meaning.units[:1]
        if len(column.meaning.units) == 1
    )
    operations = {str(row.parameters.get("operation")) for row in rows} | {
        str(column.meaning.given.get("operation")) for column in columns
    }
    if "au" in names:
        return "training"
    if any(one.startswith(("host-to", "device-to")) for one in operations):
        return "gpu"
    if "delay" in names or operations & {"triad", "scale"}:
        return "memory"
    if names & {"iodepth", "numjobs"} and names & {"iops", "bw", "lat"}:
        return "storage"
    if names & {"streams", "loss", "jitter", "retransmits", "protocol"} or "protocol" in given or bits:
        return "network"
    if "iops" in names and re.search(r"(?i)iops", words) and names & {"bs", "bw"}:
        return "storage"
    texts = [" ".join([title, *(column.head for column in columns)]), values, context]
    for text in texts[:1]:
        for name, pattern in _RESOURCE_WORDS_COMPILED:
            if pattern.search(text):
                return name
    if "flops" in names:
        return "compute"
    if "iops" in names or "rw" in names or "rw" in given:
        return "storage"
    for text in texts[1:]:
        for name, pattern in _RESOURCE_WORDS_COMPILED:
            if pattern.search(text):
                return name
    return "storage" if "bs" in names else "table"


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
        own = [number.unit for number in cells if number.unit is not None and number.unit.kind != "short"]
        if cells and len(own) == len(cells):
            sure = [unit for unit in own if unit.kind != "bits or bytes"]
            if sure or self.table.resource == "network":
                return None, "unit in each cell"
            bytes_ = replace(own[0], kind="bytes/s")
            head_units = (Unit("bytes/s", bytes_.factor / 8, bytes_.name.replace("B/s", "bit/s")), bytes_)
        if quantity == "iops" or (quantity in {"flops"} and not head_units):
            return (Unit("operations/s", 1.0, ""), "") if quantity == "iops" else self._asked(_FLOPS)
        if quantity in {"time", "data", "ceiling"} and not head_units:
            return (Unit("s", 1.0, "s"), "") if quantity == "time" else (None, "")
        if len(head_units) > 1:
            if self.table.resource == "network":
                return head_units[0], "bits, as in networks"
            return self._by_law(head_units) or self._asked(head_units)
        if quantity == "bw":
            return self._by_law(_BANDWIDTHS) or self._asked(self._likely())
        if quantity == "lat":
            return self._by_little() or self._asked(_LATENCIES)
        return None, ""

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
            return self._asked((kib, byte))
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

    def _asked(self, units: Sequence[Unit]) -> tuple[Unit, str]:
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
