"""Reads a ceiling as a person gives it, such as ``rated read 400 MB/s`` or ``rated randread 1000k IOPS``."""

from __future__ import annotations

import re
from typing import get_args

from hwdyno.model.unit_readings import unit_readings
from hwdyno.model.units import DECIMAL, printed_number, split_number
from hwdyno.model.words import Ceiling, CeilingClass, UserError

_HOW = "write it as 'rated read 400 MB/s', 'physical 3.94 GB/s' or 'rated randread 1000k IOPS'"
_INTEGER = re.compile(r"([kKMGTP]?)I?OP(?:/s|ps)|([GTP])OPS")
"""Operations of integers, as makers rate accelerators in TOP/s."""
_OPERATIONS = re.compile(r"[kKMG]?(?:IOPS|(?:I/?Os?|ops|operations)(?:/s(?:ec)?| per second))", re.I)
_DIRECTIONS = {
    "read": "read",
    "write": "write",
    "randread": "randread",
    "randwrite": "randwrite",
    "random-read": "randread",
    "random-write": "randwrite",
    "total": "total",
    "both": "total",
}


def parse_given(text: str) -> Ceiling:
    """The ceiling that ``text`` states: class (``rated`` if left out), direction, amount and unit.

    Without a direction it bounds reads and writes together. IOPS are of 4 KiB, and k, M, G are powers of
    1000; MiB/s is 2^20 bytes/s, and Gbit/s is 10^9 / 8 bytes/s. Raises ``UserError`` for anything else.
    """
    words = text.split()
    kinds = get_args(CeilingClass)
    named = [known for known in kinds if words and known == words[0].lower()]
    kind: CeilingClass = named[0] if named else "rated"
    words = words[len(named) :]
    direction = _DIRECTIONS[words.pop(0).lower()] if words and words[0].lower() in _DIRECTIONS else "total"
    number, unit_text = split_number(" ".join(words)) or ("", "")
    value = printed_number(number)
    if value is None or not unit_text:
        raise UserError(f"'{text}' is not a ceiling; {_HOW}")
    factor, unit = _unit(re.sub(r"^([kKMGTP]) (?=[A-Za-z])", r"\1", unit_text))
    if unit is None:
        raise UserError(f"'{unit_text}' in the ceiling '{text}' is not a unit; {_HOW}")
    value *= factor
    if value <= 0:
        raise UserError(f"the ceiling '{text}' must be more than 0; {_HOW}")
    metric = _metric(direction, unit)
    if metric is None:
        raise UserError(f"'{direction}' does not go with {unit} in the ceiling '{text}'; {_HOW}")
    return Ceiling(metric, kind, value, unit, f"given: {text.strip()}", "given on the command line", f"{kind}, given")


def _unit(text: str) -> tuple[float, str | None]:
    """The factor to the base unit, and that unit; none if it is not one."""
    if match := _INTEGER.fullmatch(text):
        return float(DECIMAL[(match[1] or match[2] or "").lower()]), "IOP/s"
    units, place = unit_readings(text)
    known = place == (0, len(text)) and (units[0].kind in {"bytes/s", "FLOP/s"} or _OPERATIONS.fullmatch(text))
    return (units[0].factor, units[0].kind) if known else (0.0, None)


def _metric(direction: str, unit: str) -> str | None:
    if unit == "operations/s":
        random = {"read": "randread", "write": "randwrite"}.get(direction, direction)
        return f"{random}_4k_iops" if random != "total" else "total_operations_s"
    if unit == "bytes/s":
        return f"{direction.removeprefix('rand')}_bytes_s"
    return {"FLOP/s": "flop_s", "IOP/s": "iop_s"}[unit] if direction == "total" else None
