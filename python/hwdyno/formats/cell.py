"""What a cell of a published table says: a number as it is printed, a flag, or the value of a parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hwdyno.formats.column import SIZES, given_in
from hwdyno.formats.unit_readings import BINARY, DECIMAL, Unit, unit_readings
from hwdyno.model.units import printed_number
from hwdyno.model.words import Scalar


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A number as a table prints it. A range and a bound (``1-2 ms``, ``< 5``) are no numbers."""

    value: float
    rounding: float
    """Half a unit in its last printed digit, as a share of it; 0 for an exact zero."""
    unit: Unit | None = None
    """The unit in the cell itself."""


_CELL = re.compile(r"\s*[~≈]?\s*([-+]?\d[\d.,' ]*(?:[eE][-+]?\d+)?)\+?\s*(.*)", re.DOTALL)
_UNIT = re.compile(
    r"[A-Za-z%/]+(?:[ -]?(?:bytes?|bits?))?(?: ?/ ?s(?:ec(?:ond)?s?)?| per s(?:ec(?:ond)?s?)?)?(?![A-Za-z])", re.I
)
_NAMED_FACTOR = re.compile(r"(thousand|million|billion|trillion)\b\s*", re.I)
_FACTORS = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_RANGE = re.compile(r"(?:[A-Za-z%]{1,6}(?:/s)?\s+)?(?:[-–…]|to\b|\.\.)\s*\d")
_THOUSANDS = re.compile(r"\d{1,3}(?:([,' ])\d{3})(?:\1\d{3})*(?:\.\d+)?")


def number_in(cell: str) -> PrintedNumber | None:
    """The number that a cell begins with; none for words, empty cells and what is out of range."""
    match = _CELL.match(cell.replace("µ", "u").replace("μ", "u").replace("\u202f", " "))
    if match is None:
        return None
    digits, after = match[1].strip(), match[2].strip()
    plain = _plain_number(digits)
    value = printed_number(plain)
    if value is None or _RANGE.match(after):
        return None
    mantissa, _, exponent = plain.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    unit_last = 10.0 ** (-decimals + int(exponent or 0)) if abs(int(exponent or 0)) < 30 else 0.0
    if not decimals and not exponent:
        # From three zeros on, an integer was probably rounded there: 138000 is 138 k.
        zeros = len(mantissa) - len(mantissa.rstrip("0"))
        figures = len(mantissa.lstrip("+-")) - zeros
        unit_last = 10.0 ** (zeros if zeros >= 3 and figures >= 2 else 0)
    scale, unit = 1.0, None
    if named := _NAMED_FACTOR.match(after):
        scale, after = _FACTORS[named[1].lower()], after[named.end() :]
    if word := _UNIT.match(after):
        short = re.fullmatch(r"([kKMG])", word[0])
        counted = unit_readings(after[1:])[0] if short else ()
        if short and counted and counted[0].kind == "operations/s":
            scale, unit = scale * DECIMAL[short[1].lower()], counted[0]  # 95 k IOPS
        elif short:
            scale *= DECIMAL[short[1].lower()]
            unit = Unit("short", BINARY[short[1].lower()], short[1])
        else:
            readings, _ = unit_readings(word[0])
            unit = readings[0] if readings else None
            if len(readings) > 1:
                unit = replace(readings[1], kind="bits or bytes")
    rounding = 0.5 * unit_last / abs(value) if value else 0.0
    return PrintedNumber(value * scale, rounding, unit)


def _plain_number(digits: str) -> str:
    digits = digits.strip(" '.,") if digits[-1:] in " '.," else digits
    if "," in digits and "." in digits:
        last = max(digits.rfind(","), digits.rfind("."))
        return digits[:last].replace(",", "").replace(".", "").replace(" ", "") + "." + digits[last + 1 :]
    if _THOUSANDS.fullmatch(digits) and not digits.startswith("0"):
        return digits.replace(",", "").replace("'", "").replace(" ", "")
    if digits.count(",") == 1:
        return digits.replace(",", ".")
    return digits.replace("'", "").split(" ")[0].replace(",", "")


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
