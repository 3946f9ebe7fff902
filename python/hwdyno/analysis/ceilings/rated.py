"""Makers' figures of known drives, found by the model that the drive reports.

A row of ``rated-devices.csv`` is taken only if its pattern is the whole model name and its capacity is the
drive's: a relative with a like name is another drive, and no figure is better than a wrong one. Its source names
the maker's document and says by which reproduction of it the figures were checked, or that they were not.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hwdyno.model.machine import Disk
from hwdyno.model.units import format_bytes_s, format_count
from hwdyno.model.words import Ceiling

CATALOGUE = Path(__file__).with_name("rated-devices.csv")
CAPACITY_TOLERANCE = 0.1
"""Drives of one name and capacity differ by spare space and by how their makers count (128 GB is 2^37 B or less)."""


@dataclass(frozen=True, slots=True)
class Rated:
    """One drive of the catalogue: its maker's figures, in bytes/s and operations/s of 4 KiB; none where not given."""

    name: str
    pattern: re.Pattern[str]
    capacity_bytes: float | None
    interface: str
    figures: Mapping[str, float]
    """Figures by metric: ``read_bytes_s``, ``write_bytes_s``, ``randread_4k_iops``, ``randwrite_4k_iops``."""
    source: str

    def is_it(self, model: str, size_bytes: float | None) -> bool:
        """Whether the drive that states this model and size is this one."""
        if self.pattern.fullmatch(" ".join(model.split())) is None:
            return False
        if self.capacity_bytes is None or not size_bytes:
            return True
        return abs(size_bytes / self.capacity_bytes - 1) <= CAPACITY_TOLERANCE

    def ceilings(self) -> tuple[Ceiling, ...]:
        """One ceiling per figure, of class rated."""
        found = []
        for metric, value in self.figures.items():
            unit = "bytes/s" if metric.endswith("bytes_s") else "operations/s"
            text = format_bytes_s(value) if unit == "bytes/s" else f"{format_count(value)} IOPS of 4 KiB"
            found.append(Ceiling(metric, "rated", value, unit, f"maker's figure: {text}", self.source, self.name))
        return tuple(found)


@cache
def catalogue() -> tuple[Rated, ...]:
    """Every drive whose maker's figures are known."""
    with CATALOGUE.open(encoding="utf-8", newline="") as file:
        return tuple(_parse_row(row) for row in csv.DictReader(file))


def _parse_row(row: Mapping[str, str]) -> Rated:
    columns = {
        "read_bytes_s": ("read_mb_s", 1e6),
        "write_bytes_s": ("write_mb_s", 1e6),
        "randread_4k_iops": ("randread_4k_iops", 1.0),
        "randwrite_4k_iops": ("randwrite_4k_iops", 1.0),
    }
    return Rated(
        name=f"{row['maker']} {row['model']}",
        pattern=re.compile(row["model_pattern"], re.IGNORECASE),
        capacity_bytes=float(row["capacity_gb"]) * 1e9 if row["capacity_gb"] else None,
        interface=row["interface"],
        figures={metric: float(row[key]) * unit for metric, (key, unit) in columns.items() if row[key]},
        source=row["source"],
    )


def of_disk(disk: Disk) -> Rated | None:
    """The catalogue's row of a disk as the survey describes it; none where there is not exactly one."""
    found = [rated for rated in catalogue() if rated.is_it(disk.model or "", disk.size_bytes)]
    return found[0] if len(found) == 1 else None
