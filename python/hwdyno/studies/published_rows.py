"""A study's rows of a published table."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources


@cache
def read_published(table: str, study: str) -> tuple[dict[str, str], ...]:
    """A study's rows of a published table, such as ``storage-fio``."""
    text = (resources.files("hwdyno") / "data" / "published" / f"{table}.csv").read_text(encoding="utf-8")
    return tuple(row for row in csv.DictReader(text.splitlines()) if row["study"] == study)
