"""What is found of one rule of MLPerf Storage: that it is broken, or that the files do not tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hwdyno.analysis.mlperf_storage.editions import cite, find_section
from hwdyno.analysis.mlperf_storage.run_facts import RunFacts


@dataclass(frozen=True, slots=True)
class Judgement:
    """One rule that is broken or cannot be decided; a rule that is kept has none."""

    name: str
    """The rule's name in ``Rules.md``."""
    source: str
    """Document, section and edition, such as ``Rules.md 3.3.2, MLPerf Storage 3.0``."""
    says: str
    """A sentence; or, where the rule is undecided, what the files do not state."""
    is_unknown: bool = False
    advice: str = ""
    runs: tuple[str, ...] = ()
    """The runs that break it; empty for all."""
    evidence: dict[str, Any] = field(default_factory=dict)


def report_broken(
    name: str, runs: Sequence[RunFacts], says: str, advice: str, at: Sequence[RunFacts] = (), **evidence: Any
) -> list[Judgement]:
    """A broken rule; none where the runs' edition has no such rule."""
    if not find_section(name, runs[0]):
        return []
    place, edition = cite(name, runs[0])
    source = f"{place}, {edition}"
    sentence = f"{place}, {says.removesuffix('.')} ({edition})."
    return [
        Judgement(
            name, source, sentence, advice=advice, runs=tuple(facts.run for facts in at),
            evidence={**evidence, "rule": name, "source": f"mlcommons/storage, {source}"},
        )
    ]  # fmt: skip


def report_unknown(name: str, runs: Sequence[RunFacts], why: str) -> list[Judgement]:
    """A rule that cannot be decided, by what is not stated; none where the runs' edition has no such rule."""
    if not find_section(name, runs[0]):
        return []
    return [Judgement(name, ", ".join(cite(name, runs[0])), why, is_unknown=True)]


def report_closed(
    name: str, runs: Sequence[RunFacts], says: str, advice: str, at: Sequence[RunFacts] = (), **evidence: Any
) -> list[Judgement]:
    """A broken rule of CLOSED alone: none in another division, and undecided where the division is not stated."""
    if runs[0].division == "closed":
        return report_broken(name, runs, says, advice, at, **evidence)
    return report_without_division(name, runs)


def report_without_division(name: str, runs: Sequence[RunFacts]) -> list[Judgement]:
    """A rule of CLOSED alone, undecided where the division is not stated."""
    return [] if runs[0].division else report_unknown(name, runs, "the division: CLOSED alone has this rule")
