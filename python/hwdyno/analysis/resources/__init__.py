"""Every resource that hwdyno measures, one file each, found by walking this folder."""

from __future__ import annotations

from hwdyno.analysis.resources.catalogue import all_resources, find
from hwdyno.analysis.resources.description import Doubt, HeadlineFigure, Resource
from hwdyno.analysis.resources.rate_words import find_rate_word, rate_word
from hwdyno.analysis.resources.resource_ceilings import (
    DERIVED,
    ceilings_of_site,
    list_ceilings,
    why_no_ceiling,
    with_derived,
)

__all__ = [
    "DERIVED",
    "Doubt",
    "HeadlineFigure",
    "Resource",
    "all_resources",
    "ceilings_of_site",
    "find",
    "find_rate_word",
    "list_ceilings",
    "rate_word",
    "why_no_ceiling",
    "with_derived",
]
