"""Rules on a Run and what they find: a family of rules is a file, and a rule is a function."""

from __future__ import annotations

from hwdyno.explain.findings.bottleneck import why_not_double
from hwdyno.explain.findings.catalogue import (
    ABOUT_THE_RUN,
    OF_OTHERS,
    about_this_run,
    all_rules,
    rules_by_name,
)
from hwdyno.explain.findings.explanation import explain

__all__ = [
    "ABOUT_THE_RUN",
    "OF_OTHERS",
    "about_this_run",
    "all_rules",
    "explain",
    "rules_by_name",
    "why_not_double",
]
