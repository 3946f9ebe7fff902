"""Reads the keys of one section of a fio job file: sizes, times, flags, and errors with file and line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass

from hwdyno.formats import fio_options
from hwdyno.formats.fio_job.keys import HARMLESS, SUPPORTED, WHY
from hwdyno.model.axes import FIELD, list_traits
from hwdyno.model.units import LONGEST_S
from hwdyno.model.words import Scalar, Trait, UserError

_SECONDS = {"": 1.0, "us": 1e-6, "usec": 1e-6, "ms": 1e-3, "msec": 1e-3, "s": 1.0, "sec": 1.0}
_SECONDS |= {"m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(r"(\d{1,40}(?:\.\d{1,40})?)\s*([a-z]*)", re.IGNORECASE | re.ASCII)


def traits(rw: Scalar) -> frozenset[Trait]:
    """What an access pattern does, by the field's words."""
    return list_traits((FIELD["rw"],), {"rw": rw})


@dataclass(frozen=True, slots=True)
class JobOption:
    """One key of a section, with its line."""

    value: str
    line: int
    file: str = ""
    """The included file that has it; empty for the job file itself."""


class Reader:
    """The keys of one job; a key that was not read at the end is not supported."""

    def __init__(self, file: str, options: dict[str, JobOption], ignore: frozenset[str]) -> None:
        self.file, self.options, self.ignore = file, dict(options), ignore
        self.notes: dict[str, str] = {}
        kb_base = self.text("kb_base")
        self.kb_base = 1000 if kb_base == "1000" else 1024
        for key in ignore & set(self.options):
            self.options.pop(key)
            self.notes[f"ignored_{key}"] = f"{key} is ignored, as --ignore requests"

    def error(self, at: int | JobOption, says: str) -> UserError:
        """An error whose one line begins with file and line number."""
        if isinstance(at, JobOption):
            return UserError(f"{at.file or self.file}:{at.line}: {says}")
        return UserError(f"{self.file}:{at}: {says}")

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return key in self.options

    def text(self, key: str, default: str | None = None) -> str | None:
        """The key's value."""
        entry = self.options.pop(key, None)
        return default if entry is None else entry.value

    def _read(self, key: str, convert: Callable[[str], float | int | None], wanted: str) -> float | int | None:
        entry = self.options.pop(key, None)
        if entry is None:
            return None
        value = convert(entry.value)
        if value is None:
            raise self.error(entry, f"{key}={entry.value} is not {wanted}")
        return value

    def integer(self, key: str, low: int = 0, high: int = 1 << 62) -> int | None:
        """A whole number; fio takes k, m and g here too."""

        def convert(text: str) -> int | None:
            number = self.parse_bytes(text)
            return number if number is not None and low <= number <= high else None

        found = self._read(key, convert, f"a whole number of {low} or more" if high >= 1 << 62 else f"{low} to {high}")
        return None if found is None else int(found)

    def flag(self, key: str) -> bool | None:
        """Yes or no."""
        entry = self.options.pop(key, None)
        if entry is None:
            return None
        if entry.value not in {"", "0", "1"}:
            raise self.error(entry, f"{key}={entry.value} is neither 0 nor 1")
        return entry.value != "0"

    def parse_bytes(self, text: str) -> int | None:
        """A size in bytes; none if it is not a single size."""
        text = text.strip()
        if re.fullmatch(r"0x[0-9a-f]{1,16}", text, re.IGNORECASE):
            return int(text, 16)
        found = fio_options.size(text, self.kb_base) if not re.search(r"[,:-]", text) else text
        return found if isinstance(found, int) else None

    def size(self, key: str, least: int = 0) -> int | None:
        """A size of at least ``least`` bytes."""

        def convert(text: str) -> int | None:
            number = self.parse_bytes(text)
            return number if number is not None and number >= least else None

        found = self._read(key, convert, f"a size of {least} bytes or more, such as 4k or 1g")
        return None if found is None else int(found)

    def seconds(self, key: str, unit: str = "s") -> float | None:
        """A time, in s."""

        def convert(text: str) -> float | None:
            match = _TIME.fullmatch(text)
            scale = _SECONDS.get((match[2] or unit).lower()) if match else None
            seconds = float(match[1]) * scale if match and scale is not None else None
            return seconds if seconds is not None and seconds <= LONGEST_S else None

        return self._read(key, convert, "a time such as 30s, 2m or 500ms")

    def number(self, key: str) -> float | None:
        """A decimal number."""

        def convert(text: str) -> float | None:
            return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else None

        return self._read(key, convert, "a number such as 99.9")

    def by_direction(self, key: str) -> tuple[JobOption, JobOption, JobOption] | None:
        """The values for reads, writes and trims; as in fio a missing one equals the one before."""
        entry = self.options.pop(key, None)
        if entry is None:
            return None
        parts = [part.strip() for part in entry.value.split(",")]
        read = parts[0] or next((part for part in parts if part), "")
        write = parts[1] if len(parts) > 1 and parts[1] else read
        trim = parts[2] if len(parts) > 2 and parts[2] else write
        return tuple(JobOption(part, entry.line, entry.file) for part in (read, write, trim))  # type: ignore[return-value]

    def limits(self, key: str) -> tuple[int, int, int] | None:
        """Rates of reads, writes and trims, 0 for none: one for all, or a comma-separated list."""
        entry = self.options.pop(key, None)
        if entry is None or not entry.value:
            return None
        parts = [part.strip() for part in entry.value.split(",")]
        if len(parts) == 1:
            parts *= 3
        found = [self.parse_bytes(part) if part else 0 for part in [*parts, "", ""][:3]]
        if any(amount is None for amount in found):
            such = "2000" if "iops" in key else "10m"
            raise self.error(
                entry, f"{key}={entry.value} is not a rate, such as {such}, or {such},{such} for reads and writes"
            )
        read, write, trim = (amount or 0 for amount in found)
        return read, write, trim

    def leave(self, line: int) -> None:
        """Check the keys that are left: ignored ones get a note, others are an error."""
        for key, entry in self.options.items():
            if key in HARMLESS:
                self.notes.setdefault(f"left_out_{key}", HARMLESS[key])
                continue
            raise self.error(entry, _refusal(key))


def _refusal(key: str) -> str:
    if key in WHY:
        return f"{key} is not supported and would change the result: {WHY[key]}; --ignore {key} runs without it"
    near = difflib.get_close_matches(key, [*SUPPORTED, *HARMLESS], n=1, cutoff=0.8)
    hint = f"did you mean {near[0]}?" if near else f"--ignore {key} runs without it"
    return f"{key} is not supported, and leaving it out might change the result; {hint}"
