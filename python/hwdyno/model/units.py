"""Reads sizes, times and numbers as people type them, and writes them as people read them.

MB is 10^6 bytes and MiB is 2^20 bytes, always. A bare ``k``, ``m``, ``g`` or ``t`` is a power of 1024, as
in fio's job files; ``kB``, ``MB`` … are powers of 1000 and ``KiB``, ``MiB`` … of 1024 (IEC 80000-13).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Literal, TypeGuard

from hwdyno.model.words import UserError, Value

DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
BINARY = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
LONG_PREFIXES = {
    **{"kilo": ("k", ""), "mega": ("m", ""), "giga": ("g", ""), "tera": ("t", ""), "peta": ("p", "")},
    **{"kibi": ("k", "i"), "mebi": ("m", "i"), "gibi": ("g", "i"), "tebi": ("t", "i"), "pebi": ("p", "i")},
}
LARGEST = 1e24
"""No measurement reaches it in any unit, and products and quotients of twelve numbers within it stay finite …"""
SMALLEST = 1 / LARGEST
"""… where what is nearer to 0 than this counts as 0."""
LARGEST_SIZE = (1 << 64) - 1
LONGEST_S = 100 * 365.25 * 86400
_NUMBER = re.compile(r"\s*[~≈]?\s*([-+]?\d[\d.,' ]*(?:[eE][-+]?\d+)?)\+?\s*(.*)", re.DOTALL | re.ASCII)
_THOUSANDS = re.compile(r"\d{1,3}(?:([,' ])\d{3})(?:\1\d{3})*(?:\.\d+)?", re.ASCII)
_TYPED = re.compile(r"\d{1,40}(?:\.\d{1,40})?", re.ASCII)
_OF_SIZE = re.compile(r"([kmgtp]?)(i?)(b|bytes?)|([kmgtp]?)|(\w{4})[ -]?bytes?", re.IGNORECASE | re.ASCII)
_OF_TIME = re.compile(
    r"(n|u|m|nano|micro|milli)?[ -]?(?:s|secs?|seconds?)|(m|mins?|minutes?)|(h|hrs?|hours?)|(d|days?)", re.I | re.ASCII
)
_PARTS = {"": "s", "n": "ns", "nano": "ns", "u": "us", "micro": "us", "m": "ms", "milli": "ms"}
_PRINTED = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?\s*", re.IGNORECASE | re.ASCII)


def split_number(text: str) -> tuple[str, str] | None:
    """The number that a text begins with, without its separators, and the text behind it; none for words.

    ``1,234.5 MB/s`` gives ``1234.5`` and ``MB/s``. A comma is a decimal one where no three digits follow.
    """
    match = _NUMBER.match(text.replace("µ", "u").replace("μ", "u").replace("\u202f", " ").replace("\u00a0", " "))
    return (_plain_number(match[1].strip()), match[2].strip()) if match else None


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


def parse_size(text: str | int) -> int:
    """Bytes of ``4096``, ``4k`` (= 4 KiB), ``4KiB`` or ``4kB`` (= 4000); raises ``UserError``."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    number, unit = _split_typed(str(text))
    factor = _size_factor(unit)
    if not number or factor is None:
        raise UserError(f"'{text}' is not a size; write it as 4096, 4k, 4KiB or 4kB")
    size = float(number) * factor if "." in number else int(number) * factor
    if size > LARGEST_SIZE:
        raise UserError(f"'{text}' is too large")
    if size != int(size):
        raise UserError(f"'{text}' is not a whole number of bytes")
    return int(size)


def _split_typed(text: str) -> tuple[str, str]:
    """A number without a sign or exponent, and its unit; two empty texts for anything else."""
    number, unit = (text.strip()[:1].isdigit() and "+" not in text and split_number(text)) or ("", "")
    return (number, unit) if _TYPED.fullmatch(number) else ("", "")


def _size_factor(unit: str) -> int | None:
    match = _OF_SIZE.fullmatch(unit)
    if match is None:
        return None
    prefix, binary, _, bare, long = match.groups()
    if long:
        prefix, binary = LONG_PREFIXES.get(long.lower(), ("none", ""))
    # A bare k is fio's, of 1024.
    return (BINARY if binary or bare else DECIMAL).get((prefix or bare or "").lower())


def parse_duration(text: str | float) -> float:
    """Seconds of ``30``, ``30s``, ``2m``, ``500ms``; raises ``UserError``."""
    if is_number(text):
        seconds = as_number(text)
    else:
        number, unit = _split_typed(str(text))
        factor = parse_time_unit(unit or "s")
        seconds = float(number) * factor if factor and number else None
    if seconds is None or seconds < 0:
        raise UserError(f"'{text}' is not a time; write it as 30, 30s, 2m or 500ms")
    if seconds > LONGEST_S:
        raise UserError(f"'{text}' is longer than 100 years")
    return seconds


def parse_time_unit(word: str) -> float | None:
    """Seconds of a unit of time in any spelling (``ms``, ``usecs``, ``minutes``); none for other words.

    A bare ``m`` is a minute, as every tool's options have it.
    """
    match = _OF_TIME.fullmatch(word)
    if match is None:
        return None
    part, *others = match.groups()
    longer = next((name for name, found in zip(("min", "h", "d"), others, strict=True) if found), "")
    return SECONDS[longer or _PARTS[(part or "").lower()]]


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a quantity; a flag is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_number(value: object) -> float | None:
    """A finite number in range, also one typed as a size (``64k``); none for anything else."""
    if is_number(value):
        return None if not abs(value) <= LARGEST else float(value) if abs(value) >= SMALLEST else 0.0
    try:
        return float(parse_size(value)) if isinstance(value, str) else None
    except UserError:
        return None


def positive(value: object) -> float | None:
    """A number above zero; none for anything else."""
    number = as_number(value)
    return number if number is not None and number > 0 else None


def number_at(table: Mapping[str, object], name: str, default: float = 0.0) -> float:
    """The number that a table has under a name; ``default`` where there is none."""
    number = as_number(table.get(name))
    return default if number is None else number


def amount_at(table: Mapping[str, object], name: str, default: float = 0.0) -> float:
    """The number of 0 or more that a table has under a name; ``default`` for anything else."""
    value = number_at(table, name, default)
    return value if value >= 0 else default


def printed_number(text: str | None) -> float | None:
    """A finite number in range as a program prints it (``12``, ``1.5e+03``); none for anything else."""
    return as_number(float(text)) if text is not None and _PRINTED.fullmatch(text) else None


def printed_error(number: str | float) -> float:
    """One unit in the last printed place, as a share of the number: 0.01 for ``1.00``; 0 for 0 and for other text.

    A whole unit, because some tools cut digits off instead of rounding. Of a number whose text is not known, zeros at
    its end count as not printed, but two digits always do, and the error is at most 5%.
    """
    if not isinstance(number, str):
        mantissa, _, exponent = f"{float(f'{number:.12g}'):.11e}".partition("e")
        digits = max(2, len(mantissa.strip("-").replace(".", "").rstrip("0")))
        return min(0.05, 10.0 ** (int(exponent) + 1 - digits) / abs(number)) if number else 0.0
    match, value = _PRINTED.fullmatch(number), printed_number(number)
    if match is None or not value:
        return 0.0
    decimals, power = len(match[1].partition(".")[2]), int((match[3] or "e0")[1:])
    return float(min(1.0, 10.0 ** (power - decimals) / abs(value)))


SLIPS: dict[float, tuple[str, str, str]] = {
    1.024: ("1.024", "KiB", "kB"),
    1.024**2: ("1.0486", "MiB", "MB"),
    1.024**3: ("1.0737", "GiB", "GB"),
    8.0: ("8", "bytes", "bits"),
    1000.0: ("1000", "one prefix (k, M or G)", "the next"),
    1024.0: ("1024", "one prefix (Ki, Mi or Gi)", "the next"),
    1e6: ("1,000,000", "one prefix (k, M or G)", "the next but one"),
}
"""Factors between two figures that should be one: the digits of each, and the two units that it parts."""
_SLIP_ERROR = 0.001


def slip(ratio: float, error: float = 0.0) -> str:
    """The slip with a unit that explains this ratio of two figures; empty for none. ``error`` is the ratio's."""
    if ratio <= 0:
        return ""
    far = max(ratio, 1 / ratio)
    near = (
        f"{digits} is what parts {unit} from {other}"
        for factor, (digits, unit, other) in SLIPS.items()
        if abs(far / factor - 1) <= min(max(error, _SLIP_ERROR), 0.01)
    )
    return next(near, "")


def format_number(value: float, thousands: Literal[",", ""] = ",") -> str:
    """A number with three significant digits and no exponent: ``0.120``, ``1.23``, ``12.3``, ``1,234``."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    rounded = float(f"{value:.3g}")  # First: 9.996 has one decimal less than it seems.
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded if abs(rounded) < 1000 else value:{thousands}.{decimals}f}"


def _scale_prefix(value: float, step: int, prefixes: tuple[str, ...]) -> tuple[str, str]:
    """``value`` as three digits and the prefix that goes with them."""
    index = 0
    while abs(value) >= step * 0.9995 and index < len(prefixes) - 1:
        value /= step
        index += 1
    return format_number(value, ""), prefixes[index]


def _plain(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


def format_size(size_bytes: float) -> str:
    """A block or file size: ``4 KiB``, ``1 GiB``, and ``500 MB`` where it is a round decimal size."""
    if size_bytes >= 1000 and size_bytes % 1024 and size_bytes % 1000 == 0:
        return format_bytes(size_bytes)
    return format_memory(size_bytes)


def format_memory(size_bytes: float) -> str:
    """Memory in binary units, as modules and caches are sold: ``62.7 GiB``."""
    number, prefix = _scale_prefix(size_bytes, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))
    return f"{_plain(number)} {prefix}"


def format_bytes(amount: float) -> str:
    """An amount of bytes in decimal units: ``1.34 GB``."""
    number, prefix = _scale_prefix(amount, 1000, ("", "k", "M", "G", "T", "P", "E"))
    return f"{_plain(number)} {prefix}B"


def bytes_s_scale(most: float) -> tuple[float, str]:
    """What to divide bytes/s by, and the name of the unit, for figures of at most ``most``.

    ``MB/s`` up to 10 GB/s, as the field's tools have it, so that a drive's figures are in one unit everywhere.
    """
    for least, divisor, unit in ((1e13, 1e12, "TB/s"), (1e10, 1e9, "GB/s"), (1e5, 1e6, "MB/s")):
        if abs(most) >= least * 0.9995:
            return divisor, unit
    return 1e3, "kB/s"


def format_bytes_s(rate: float) -> str:
    """A throughput in decimal units: ``1,340 MB/s``, ``13.4 GB/s``."""
    divisor, unit = bytes_s_scale(rate)
    return f"{format_number(rate / divisor)} {unit}"


def format_count(count: float) -> str:
    """A count or rate with a decimal prefix: ``138 k``, ``1.69 M``; below 1000 as it is."""
    number, prefix = _scale_prefix(count, 1000, ("", "k", "M", "G", "T", "P", "E"))
    return f"{number} {prefix}".strip() if prefix else _plain(number)


def format_value(value: float, unit: str) -> str:
    """A quantity in its unit, with three digits and a decimal prefix: ``13.4 GB/s``, ``138 k operations/s``."""
    if unit == "bytes/s":
        return format_bytes_s(value)
    if unit == "bytes":
        return format_bytes(value)
    if unit == "ns":
        return format_ns(value)
    if unit == "s":
        return format_ns(value * 1e9)
    if unit in {"", "1"}:
        return format_number(value)
    number, prefix = _scale_prefix(value, 1000, ("", "k", "M", "G", "T", "P", "E"))
    return f"{number} {prefix}{unit}" if len(unit) < 8 else f"{number} {prefix} {unit}".replace("  ", " ")


def format_quantity(value: Value | float, unit: str = "", rate_word: str = "") -> str:
    """A quantity with its interval, if it has one; operations a second in the field's word for them.

    ``13.4 GB/s (13.0 GB/s to 13.8 GB/s)``, ``138 k IOPS``.
    """
    if not isinstance(value, Value):
        counted = rate_word and unit == "operations/s"
        return f"{format_count(value)} {rate_word}" if counted else format_value(value, unit)
    alone = format_quantity(value.value, value.unit, rate_word)
    if value.low is None or value.high is None:
        return alone
    low, high = (format_quantity(end, value.unit, rate_word) for end in (value.low, value.high))
    return f"{alone} ({low} to {high})"


def format_ns(ns: float | None) -> str:
    """A latency: ``812 ns``, ``7.10 µs``, ``1.23 ms``, ``1.20 s``; ``unknown`` for none."""
    if ns is None:
        return "unknown"
    number, prefix = _scale_prefix(ns, 1000, ("ns", "µs", "ms", "s"))
    return f"{number} {prefix}"


def format_duration(seconds: float) -> str:
    """A time to wait: ``20 ms``, ``0.5 s``, ``45 s``, ``2 min 5 s``, ``1 h 2 min``."""
    if 0 < seconds < 0.05:
        return format_ns(seconds * 1e9)
    if seconds < 9.95:
        return f"{_plain(f'{seconds:.1f}')} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        minutes, remainder = divmod(whole, 60)
        return f"{minutes} min {remainder} s" if remainder else f"{minutes} min"
    hours, remainder = divmod(round(whole / 60), 60)
    return f"{hours} h {remainder} min" if remainder else f"{hours} h"


def format_percent(share: float, *, precise: bool = False) -> str:
    """A share of one: ``12%``, ``3.4%``; ``precise``, for what is compared or bounds an error: ``12.3%``, ``3.40%``."""
    if precise:
        return f"{format_number(share * 100)}%"
    return f"{share:.0%}" if abs(share) >= 0.0995 or share == 0 else f"{share:.1%}"


def format_ratio(ratio: float, digits: int = 2) -> str:
    """A ratio without an exponent: ``2.1``, ``120``, ``4.50 k``."""
    return format_count(float(f"{ratio:.{digits}g}"))


def format_load(load: float) -> str:
    """A load as people type it: ``32``, ``2.5``."""
    return f"{load:.0f}" if load >= 10 or load == round(load) else f"{load:.1f}"


def plural(count: float, noun: str) -> str:
    """A count with its noun: ``1 job``, ``4 jobs``."""
    return f"{format_load(count)} {noun if count == 1 else noun + 's'}"
