"""The columns of a published table with their meanings, its rows, and which resource it measures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hwdyno.formats.cell import has_rates_of_many_kinds, has_several_figures, parameter_value, parse_flag
from hwdyno.formats.column import COUNTS, FIGURES, PARAMETERS, SIZES, Meaning, given_in, parse_head, parse_pattern
from hwdyno.formats.grid import Grid
from hwdyno.formats.languages import in_english
from hwdyno.formats.table_labels import LONGEST_LABEL, TableRow, add_labels
from hwdyno.model.quantities import PrintedNumber, number_in
from hwdyno.model.unit_readings import Unit, unit_readings
from hwdyno.model.words import Parameters, UserError

BY_ROW = "unit of each row"
UNIT_UNKNOWN = "its unit is not stated; --map says it"
TRANSFERS = "transfers/s"
"""A link's clock, which is no result and no ceiling of what passes through it."""
BY_KIND = {"bytes/s": "bw", "bits or bytes": "bw", "operations/s": "iops", "FLOP/s": "flops", "s": "lat", "1": "share"}
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
_STATISTIC_ALONE = re.compile(
    r"p ?\d{2,5}(?:\.\d+)?|\d{2}(?:\.\d+)?(?:th|st|nd|rd)?(?: ?(?:%|percentile|pct))?(?:ile)"
    r"?|min(?:imum)?|max(?:imum)?|avg|average|"
    r"mean|median|std ?dev"
)


_OF_TRAINING = re.compile(
    r"\b(?:epochs?|accuracy|perplexity|(?:global |train(?:ing)? )?batch|(?:samples?|images?|tokens?)/s)", re.I
)
_COUNT = re.compile(r"\s*[~≈]?\d[\d.,' ]*(?:[kKMx]|[a-z]+(?:\(s\))?)?\s*")
_SEQUENTIAL = re.compile(r"\bseq(?:uential(?:ly)?)?\b", re.I)
_TESTS = {"job", "jobs", "job_name", "test", "test_name", "name", "workload", "case"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table with its meaning and the unit that its numbers are in."""

    at: int
    head: str
    meaning: Meaning
    key: str = ""
    """The parameter that a label becomes."""
    unit: Unit | None = None
    inferred: str = ""
    """Why it has this unit, where its head does not say so."""

    @property
    def is_figure(self) -> bool:
        """Whether it holds results."""
        return self.meaning.quantity in FIGURES

    def says(self) -> str:
        """How it was read, in a few words."""
        meaning = self.meaning
        if meaning.quantity == "label":
            return "label" if self.key else " ".join(filter(None, ["not used", self.inferred and f"({self.inferred})"]))
        if meaning.quantity == "percent":
            return "not used"
        words = TITLES.get(meaning.quantity, meaning.quantity)
        parts = [words, meaning.statistic, *(f"{name} {value}" for name, value in meaning.given.items())]
        unit = f" in {self.unit.name}" if self.unit and self.unit.name else ""
        return " ".join(filter(None, parts)) + unit + (f" ({self.inferred})" if self.inferred else "")


TITLES = {
    "bw": "bandwidth", "busbw": "bandwidth of the bus",
    "iops": "operations/s", "lat": "latency", "flops": "FLOP/s", "au": "accelerator utilisation",
    "bs": "block size", "iodepth": "queue depth", "numjobs": "jobs", "rw": "access pattern", "n": "equations",
    "read_percent": "share of reads", "write_percent": "share of writes", "size": "size",
    "working_set": "working set",
    "lda": "leading dimension", "share": "share of a whole", "cpu": "CPU use",
}  # fmt: skip


def has_figures(heads: Iterable[str]) -> bool:
    """Whether any head is of a result."""
    meanings = [parse_head(head) for head in heads]
    named = [
        meaning
        for meaning in meanings
        if meaning.quantity in FIGURES and (meaning.quantity != "value" or not meaning.units)
    ]
    return any(meaning.quantity not in {"value", "cpu", "speedup"} for meaning in named) or (
        any(meaning.quantity == "value" for meaning in named)
        and any(re.fullmatch("units?", head.strip().lower()) for head in heads)
    )


def has_values(grid: Grid) -> bool:
    """Whether a column of results ("Result", "Value") has units in its cells, as its head has none."""
    meanings = [parse_head(head).quantity for head in grid.heads]
    return any(
        (quantity == "value" and _kind_of_cells(grid, at) in BY_KIND)
        or (quantity == "label" and _rate_quantity(grid, at))
        for at, quantity in enumerate(meanings)
    )


def _rate_quantity(grid: Grid, at: int) -> str:
    """The quantity of a column of numbers with a unit of one kind of rate, or of times below 1 s; empty for others."""
    cells = [number_in(row[at]) for row in grid.rows if row[at].strip()]
    if not cells or any(number is None for number in cells) or cells[0] is None or cells[0].unit is None:
        return ""
    units = {number.unit for number in cells if number is not None and number.unit is not None}
    kinds = {unit.kind for unit in units}
    if kinds == {"s"} and all(unit.factor < 1 for unit in units):
        return "lat"
    rates = {"bytes/s": "bw", "bits or bytes": "bw", "FLOP/s": "flops", "operations/s": "iops"}
    return rates.get(kinds.pop(), "") if len(kinds) == 1 else ""


def _shared_unit(grid: Grid, at: int) -> Unit | None:
    """The unit of a column of which some cells name one, always the same, and others none."""
    found = [number for row in grid.rows if (number := number_in(row[at])) is not None]
    units = {number.unit for number in found if number.unit is not None}
    return units.pop() if len(units) == 1 and any(number.unit is None for number in found) else None


def _kind_of_cells(grid: Grid, at: int) -> str:
    """The kind of unit that most cells of a column name; empty where they name none."""
    found = [number.unit.kind for row in grid.rows if (number := number_in(row[at])) is not None and number.unit]
    return max(found, key=found.count, default="")


def is_head(name: str, head: str) -> bool:
    """Whether a name means a head: the same words, or those before its unit."""
    return " ".join(re.findall(r"\w+", name.lower())) == " ".join(re.findall(r"\w+", head.lower())) or (
        name.strip().lower() == re.sub(r"[(\[].*", "", head).strip().lower()
    )


def read_columns(grid: Grid, maps: Mapping[str, str]) -> list[Column]:
    """The columns with their meanings; ``maps`` say what some are. Raises ``UserError`` for a map that says nothing."""
    found = []
    for at, head in enumerate(grid.heads):
        text = next((value for key, value in maps.items() if is_head(key, head)), None)
        meaning = parse_head(head) if text is None else _apply_map(head, text)
        if meaning.quantity == "value" and meaning.unit is not None:
            meaning = replace(parse_head(meaning.unit.name), given=meaning.given, statistic=meaning.statistic)
        elif _by_cells(meaning) and _kind_of_cells(grid, at) in {*BY_KIND} - {"1"}:
            meaning = replace(meaning, quantity=BY_KIND[_kind_of_cells(grid, at)])
            if meaning.quantity in {"bw", "iops", "flops"} and has_rates_of_many_kinds(row[at] for row in grid.rows):
                found.append(Column(at, head, meaning, "", Unit("", 1.0, ""), BY_ROW))
                continue
        key = ""
        if meaning.quantity in {"label", "percent"}:
            words = " ".join(re.findall(r"[a-z0-9/]+", in_english(head).lower().replace("_", " ")))
            key = next((name for name, pattern in _KEYS if re.fullmatch(pattern, words)), "")
            key = key or ("" if _COMMENTS.fullmatch(words) else "_".join(words.split())[:40] or f"column{at + 1}")
            if meaning.quantity == "percent":
                key = ""
        elif meaning.quantity in {"share", "cpu", "bs", "rw", "operation", *COUNTS}:
            # A word may also be a label: a column called "disk" or "block" that holds names.
            cells = [row[at] for row in grid.rows if row[at].strip()]
            is_value = _COUNT.fullmatch if meaning.quantity in COUNTS else number_in
            says_none = meaning.quantity == "rw" and not any(map(parse_pattern, cells))
            # No load is 0: the cells number threads, and do not count them.
            says_none |= meaning.quantity in {"threads", "numjobs", "streams"} and "0" in cells
            if cells and (says_none or (not any(map(is_value, cells)) and meaning.quantity not in {"rw", "operation"})):
                key, meaning = "_".join(re.findall(r"[a-z0-9]+", head.lower())), Meaning("label")
        found.append(Column(at, head, meaning, key, meaning.unit))
    found = _without_training_loss(grid, _without_ratios(grid, _with_statistics(grid, found)))
    if any(column.is_figure for column in found):
        return found
    found = _by_title(grid, found)
    return found if any(column.is_figure for column in found) else _by_unit_of_cells(grid, found)


def _by_unit_of_cells(grid: Grid, columns: Sequence[Column]) -> list[Column]:
    """The columns of rates, by the unit in each of their cells, of a table whose heads and title name no figure."""
    found = []
    for column in columns:
        quantity = _rate_quantity(grid, column.at) if column.meaning.quantity == "label" else ""
        stated = parse_head(f"{quantity} {column.head}") if quantity else column.meaning
        whole = replace(stated, quantity=quantity, units=()) if quantity else stated
        unit = _shared_unit(grid, column.at) if quantity else column.unit
        found.append(replace(column, meaning=whole, key="" if quantity else column.key, unit=unit))
    return found


def _by_cells(meaning: Meaning) -> bool:
    """Whether the units in its cells say what a column holds: a value, or a figure of another kind than they name."""
    return meaning.quantity == "value" or (meaning.quantity in {"bw", "iops", "flops"} and not meaning.units)


def _by_title(grid: Grid, columns: Sequence[Column]) -> list[Column]:
    """The columns of numbers as the figure that the title names, in a table whose heads name no figure."""
    meaning = parse_head(grid.title)
    if meaning.quantity not in FIGURES or meaning.unit is None or meaning.quantity == "value":
        return list(columns)
    found = []
    for column in columns:
        cells = [row[column.at] for row in grid.rows if row[column.at].strip()]
        numbers = [cell for cell in cells if number_in(cell) is not None]
        if column.meaning.quantity == "label" and cells and len(numbers) == len(cells):
            stated = parse_head(f"{meaning.quantity} {column.head}")
            whole = replace(stated, quantity=meaning.quantity, units=meaning.units)
            found.append(replace(column, meaning=whole, key="", unit=meaning.unit))
        else:
            found.append(column)
    return found


def _with_statistics(grid: Grid, columns: Sequence[Column]) -> list[Column]:
    """Heads such as ``p99`` or ``max`` alone belong to a figure before them: by the unit of their cells, or to the one
    that they bound in most rows. A percentile is a latency's.
    """
    found: list[Column] = []
    for column in columns:
        alone = _STATISTIC_ALONE.fullmatch(column.head.strip().lower())
        if alone and column.meaning.quantity == "label":
            before = [candidate for candidate in found if candidate.meaning.quantity in {"lat", "bw", "iops"}]
            latencies = [candidate for candidate in before if candidate.meaning.quantity == "lat"]
            timed = any(number.unit and number.unit.kind == "s" for number in _numbers(grid, column))
            statistic = parse_head(f"lat {column.head}").statistic
            base: Column | None = None
            if latencies and (timed or not before or not statistic.startswith("m")):
                base = latencies[-1]
            elif before and not timed and not statistic.startswith("p"):
                base = max(
                    before, key=lambda candidate: (_bounded_share(grid, column, statistic, candidate), candidate.at)
                )
            if base is not None or timed or (before and statistic.startswith("p")):
                quantity = base.meaning.quantity if base is not None else "lat"
                units = base.meaning.units if base is not None else ()
                meaning = Meaning(quantity, units, parse_head(f"{quantity} {column.head}").statistic)
                column = replace(column, meaning=meaning, key="", unit=base.unit if base is not None else None)
        found.append(column)
    return found


def _numbers(grid: Grid, column: Column) -> list[PrintedNumber]:
    return [number for row in grid.rows if (number := number_in(row[column.at])) is not None]


def _bounded_share(grid: Grid, column: Column, statistic: str, base: Column) -> float:
    """The share of rows in which a least or greatest value may be that of a column of figures."""
    pairs = [(number_in(row[column.at]), number_in(row[base.at])) for row in grid.rows]
    known = [(number.value, other.value) for number, other in pairs if number is not None and other is not None]
    if statistic not in {"min", "max"} or not known:
        return 0.5 if statistic == base.meaning.statistic else 0.4
    fits = [bound <= other if statistic == "min" else bound >= other for bound, other in known]
    near = [0.05 < bound / other < 20 for bound, other in known if other]
    return sum(a and b for a, b in zip(fits, near or [False] * len(fits), strict=False)) / len(known)


def _without_ratios(grid: Grid, columns: Sequence[Column]) -> list[Column]:
    """The columns without a bare "performance" beside figures with units: it is a ratio to a base row."""
    others = [
        candidate
        for candidate in columns
        if candidate.is_figure and candidate.meaning.quantity not in {"flops", "speedup", "time"}
    ]
    found = []
    for column in columns:
        plain = column.meaning.quantity == "flops" and not column.meaning.units and "flop" not in column.head.lower()
        numbers = _numbers(grid, column) if plain and others else []
        if numbers and all(number.unit is None for number in numbers):
            column = replace(column, meaning=Meaning("label"), key="")
        found.append(column)
    return found


def _without_training_loss(grid: Grid, columns: Sequence[Column]) -> list[Column]:
    """The columns without the loss of a model beside what it trains on; a network's is a share."""
    if not any(_OF_TRAINING.search(head) for head in grid.heads):
        return list(columns)
    of_model = [
        column.meaning.quantity == "loss" and column.unit is None and "%" not in column.head for column in columns
    ]
    return [
        replace(column, meaning=Meaning("label"), key="") if no_share else column
        for column, no_share in zip(columns, of_model, strict=True)
    ]


def _apply_map(head: str, text: str) -> Meaning:
    """What the user says that a column is."""
    words = " ".join(text.split())
    if words in {"-", "label"}:
        return Meaning("label")
    named = parse_head(head)
    if not named.given:
        named = replace(named, given=given_in(in_english(head).replace("_", " ").lower())[0])
    if words.lower() in {*FIGURES, *PARAMETERS}:
        return replace(named, quantity=words.lower(), units=named.units if words.lower() == named.quantity else ())
    readings, _ = unit_readings(words)
    if len(words.split()) == 1 and readings:
        plain = re.search(r"(?i)bytes?|B", words) is not None
        unit = readings[0] if len(readings) == 1 else readings[1 if plain and "b" not in words.replace("/", "") else 0]
        kind = FIGURES.get(named.quantity)
        if (named.quantity in FIGURES and kind in {unit.kind, ""}) or (
            named.quantity in SIZES and unit.kind == "bytes"
        ):
            return replace(named, units=(unit,))
        return replace(parse_head(words), statistic=named.statistic, given=named.given, units=(unit,))
    made = parse_head(words)
    if made.quantity in {"label", "percent"}:
        raise UserError(
            f"--map gives '{head}' as '{text}', which is neither a unit nor a quantity; write --map 'bw=MB/s'"
        )
    return replace(made, given={**named.given, **made.given})


def read_rows(grid: Grid, columns: Sequence[Column]) -> list[TableRow]:
    """The rows that have a number in a column of results."""
    found = []
    direct = next((c for c in columns if c.meaning.quantity == "direct"), None)
    for at, cells in enumerate(_carried_down(grid.rows, columns), start=1):
        if [cell.lower() for cell in cells] == [head.lower() for head in grid.heads]:
            continue
        parameters: Parameters = {}
        numbers: dict[int, PrintedNumber] = {}
        for column in columns:
            cell, meaning = cells[column.at].strip(), column.meaning
            if not cell or cell in {"-", "–", "—", "N/A", "n/a", "NA", "nan", "null", "None"}:
                continue
            if column.is_figure:
                number = number_in(cell) if not has_several_figures(cell) else None
                if number is not None and not (number.unit and number.unit.kind == TRANSFERS):
                    numbers[column.at] = number
            elif meaning.quantity == "rw":
                stated = parse_pattern(cell)
                parameters |= stated if stated else {column.head.lower()[:40]: cell[:LONGEST_LABEL]}
            elif meaning.quantity in {"read_percent", "write_percent"}:
                value = parameter_value(meaning.quantity, cell, column.unit)
                stated = parse_pattern(cell)
                if "rwmixread" in stated:
                    parameters["rwmixread"] = stated["rwmixread"]
                elif isinstance(value, int | float) and 0 <= value <= 100:
                    share = value * 100 if 0 < value < 1 else value
                    parameters["rwmixread"] = round(share)
            elif meaning.quantity in PARAMETERS:
                value = parameter_value(meaning.quantity, cell, column.unit)
                if value is not None and column is not direct:
                    parameters[meaning.quantity] = value
                elif column is direct and value is not None:
                    parameters["direct"] = parse_flag(cell)
            elif column.key and len(cell) <= (LONGEST_LABEL if column.key != "claim" else 200):
                parameters[column.key] = cell
        found.append(TableRow(at, _with_pattern(parameters), numbers, {c.at: cells[c.at] for c in columns}))
    made = [row for row in found if row.numbers]
    tests = next((column for column in columns if column.meaning.quantity == "rw"), None)
    return made if tests is None else add_labels(made, tests.at, tests.head)


def _carried_down(rows: Sequence[Sequence[str]], columns: Sequence[Column]) -> Iterator[Sequence[str]]:
    """The rows with the labels of those above them where only the first of their labels are left empty."""
    labels = next((at for at, column in enumerate(columns) if column.is_figure), len(columns))
    above: Sequence[str] = ()
    for row in rows:
        first = next((at for at, cell in enumerate(row) if cell.strip()), len(row))
        if above and 0 < first < labels and not columns[first].is_figure:
            row = (*above[:first], *row[first:])
        above = row
        yield row


def _with_pattern(parameters: Parameters) -> Parameters:
    """A pattern that a label states where no column does, such as ``4k randread qd32``."""
    if "rw" in parameters or "rwmixread" in parameters:
        return parameters
    for name, value in parameters.items():
        if isinstance(value, str) and name not in {"device", "study", "source", "claim", "unit", "path", "link"}:
            stated = parse_pattern(value)
            if (
                ("rw" in stated and len(stated) > 1)
                or "operation" in stated
                or str(stated.get("rw", "")).startswith("rand")
                or ("rw" in stated and _SEQUENTIAL.search(in_english(value)))
                or (name in _TESTS and set(stated) == {"bs"} and "bs" not in parameters)
            ):
                return {**stated, **parameters}
    return parameters


def with_row_units(
    columns: Sequence[Column], rows: Sequence[TableRow]
) -> tuple[tuple[Column, ...], tuple[TableRow, ...]]:
    """A column of units gives each number its unit, to the columns that name none."""
    unit_column = next((c for c in columns if c.key == "unit"), None)
    if unit_column is None:
        return tuple(columns), tuple(rows)
    stem = re.sub(r"[ _]?units?$", "", unit_column.head.strip().lower())
    values = {column.at for column in columns if column.meaning.quantity == "value"}
    made = []
    wanted: set[int] = set()
    for row in rows:
        stated = row.texts[unit_column.at].strip()
        readings, _ = unit_readings(stated)
        numbers = dict(row.numbers)
        if stated and not readings:
            # A value of an unknown unit may be anything; a result of another row's unit it is not.
            numbers = {at: number for at, number in numbers.items() if number.unit or at not in values}
        for column in columns:
            fits = column.meaning.quantity == "value" or (column.is_figure and stem and column.meaning.quantity in stem)
            if column.at in numbers and readings and column.unit is None and fits:
                unit = readings[0] if len(readings) == 1 else replace(readings[1], kind="bits or bytes")
                numbers[column.at] = replace(numbers[column.at], unit=numbers[column.at].unit or unit)
                wanted.add(column.at)
        if not numbers:
            continue
        made.append(replace(row, numbers=numbers, parameters={k: v for k, v in row.parameters.items() if k != "unit"}))
    found = []
    for column in columns:
        if column.meaning.quantity == "value":
            kinds = [row.numbers[column.at].unit for row in made if column.at in row.numbers]
            kind = next((unit.kind for unit in kinds if unit), "")
            quantity = BY_KIND.get(kind, "value")
            column = replace(column, meaning=replace(column.meaning, quantity=quantity))
        if column.at in wanted:
            column = replace(column, unit=Unit("", 1.0, ""), inferred=BY_ROW)
        found.append(column)
    return tuple(found), tuple(made)


_REPAIRS = (
    ("read as bytes", re.compile(r"\d ?[kKMGT]i?b(?:/s)?$")),
    ("read with a decimal comma", re.compile(r"^\d+,\d{1,2}\b")),
)
MAX_EXAMPLES = 3


def list_repairs(columns: Iterable[Column], rows: Iterable[TableRow]) -> list[str]:
    """What figures and sizes of a table without bits were read as, where their cells print something else."""
    known = [column.at for column in columns if column.is_figure or column.meaning.quantity in SIZES]
    texts = list(dict.fromkeys(row.texts.get(at, "").strip() for row in rows for at in known))
    found = []
    for words, pattern in _REPAIRS:
        cells = [f"'{text}'" for text in texts if pattern.search(text)]
        more = f" and {len(cells) - MAX_EXAMPLES} more" if len(cells) > MAX_EXAMPLES else ""
        found += [f"{words}: {', '.join(cells[:MAX_EXAMPLES])}{more}"] if cells else []
    return found
