"""The verdict on a Run: how far its quoted figures can be trusted, and why not further, in one sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from hwdyno.explain.comparison.matching import DISBELIEVED
from hwdyno.explain.findings.rule import first_sentence
from hwdyno.model.units import plural
from hwdyno.model.words import Run
from hwdyno.report.headlines import Headline

RunVerdict = Literal["sound", "use with care", "not to be trusted"]

MAX_REASON = 270
"""Characters of the verdict's reason."""
MEASURED = 0.5
"""The share of planned points below which a Run that ended early gives no verdict on its machine."""
MAX_WORDS = 25
"""Words of a sentence."""
MAX_NAMED = 4
"""Figures that the verdict names."""
DOUBTS = frozenset(DISBELIEVED.values())
CAUSES = ("steal", "noisy_neighbour", "others_at_work", "another_run", "load_before", "throttled", "swapping")
"""Rules whose findings are a cause of noise."""
NOISE = {"interval_not_reached", "repeats_disagree", "two_modes", "not_steady", "stalls", *CAUSES}


def count_points(run: Run) -> tuple[int, int]:
    """How many points were measured, and how many were planned."""
    measured = sum(len(experiment.points) for experiment in run.experiments)
    return measured, sum(max(experiment.planned, len(experiment.points)) for experiment in run.experiments)


def tally_points(run: Run) -> str:
    """How many points there are: ``64 points``, or ``12 of 64 points``."""
    measured, planned = count_points(run)
    return f"{measured} of {plural(planned, 'point')}" if planned > measured else plural(measured, "point")


def verdict_on(run: Run, rows: Sequence[Headline]) -> tuple[RunVerdict, str]:
    """How far the quoted figures can be trusted; points that are not quoted are remarked on, never judged."""
    points = [point for experiment in run.experiments for point in experiment.points]
    if not points:
        return "not to be trusted", shorten_reason(
            "Nothing was measured: " + (" ".join(run.degraded) or "the run ended first.")
        )
    _, planned = count_points(run)
    if wrong := [row for row in rows if row.state == "invalid"]:
        finding = next((candidate for candidate in run.findings if candidate.severity == "invalid"), None)
        why = first_sentence(finding.says) if finding else f"{_names(wrong, rows)}: {wrong[0].why}."
        return "not to be trusted", shorten_reason(why)
    if not rows or len(points) < MEASURED * planned:
        ended = f"{len(points)} of {plural(planned, 'point')} were measured." if rows else "No point can be quoted."
        return "not to be trusted", ended
    # A point that is quoted twice, by its rate and its latency, fails once.
    by_point = {(row.experiment, row.point): row for row in reversed(rows)}
    if bad := [row for row in reversed(by_point.values()) if row.state == "degraded"]:
        return "use with care", _describe_doubts(run, bad, list(by_point.values()))
    if run.interrupted:
        return "use with care", f"Interrupted: {len(points)} of {plural(planned, 'point')} were measured."
    if run.degraded:
        return "use with care", shorten_reason(run.degraded[0])
    if doubted := sum(row.state == "unverified" for row in rows):
        which = f"{doubted} of {plural(len(rows), 'figure')} {'is' if doubted == 1 else 'are'}"
        return "use with care", f"{which} unverified: one reading, and nothing confirms it."
    if run.imported_from:
        return "use with care", f"Imported from {run.imported_from}: how it was measured is not known."
    remarks = [
        f"{_of_points(count, len(points))} {state}"
        for state in ("invalid", "degraded")
        if (count := sum(point.validity == state for point in points))
    ]
    return "sound", ". ".join(["All figures below hold", *remarks]) + "."


def _describe_doubts(run: Run, bad: Sequence[Headline], quoted: Sequence[Headline]) -> str:
    """Which of the quoted figures fail, and what was measured of the cause: ``2 of 14 figures are noisy: …. …``."""

    def is_noisy(row: Headline) -> bool:
        return NOISE.issuperset(run.experiments[row.experiment].points[row.point].why) and row.why not in DOUBTS

    noisy, others = [row for row in bad if is_noisy(row)], [row for row in bad if not is_noisy(row)]
    causes = {
        finding.rule: finding
        for finding in reversed(run.findings)
        if finding.rule in CAUSES and finding.severity == "warning"
    }
    known = Counter(why for row in noisy for why in run.experiments[row.experiment].points[row.point].why)
    cause = max(causes.values(), key=lambda finding: (known[finding.rule], -CAUSES.index(finding.rule)), default=None)
    why = first_sentence(without_brackets(cause.says)).rstrip(".") if cause else _reasons(noisy)
    parts = [(noisy, "noisy", why)] if noisy else []
    parts += [(others, "doubtful", _reasons(others))] if others else []
    text = ""
    for most in range(MAX_NAMED, 0, -1):
        left = most
        sentences: list[str] = []
        # Of what is doubtful, the names first: noise is the commoner.
        for at, (rows, state, why) in enumerate(reversed(parts)):
            named = max(1, min(len(rows), left - (len(parts) - 1 - at)))
            left -= named
            is_or_are = "is" if len(rows) == 1 else "are"
            names = _names(rows, quoted, named)
            figures = f"{len(rows)} of {plural(len(quoted), 'figure')} {is_or_are} {state}: {names}."
            sentences.insert(0, f"{figures} {why[:1].upper()}{why[1:]}.")
        text = " ".join(sentences)
        if len(text) <= MAX_REASON and all(len(sentence.split()) <= MAX_WORDS for sentence in text.split(". ")):
            break
    return text


def _reasons(rows: Sequence[Headline]) -> str:
    return ", ".join(dict.fromkeys(row.why for row in rows if row.why)) or "a wide interval"


def _names(rows: Sequence[Headline], quoted: Sequence[Headline], most: int = MAX_NAMED) -> str:
    """The names of some of the quoted figures with their intervals, and how many more there are."""
    named = []
    shorter = Counter(row.title.partition(",")[0] for row in quoted)
    for row in rows:
        name = row.title.partition(",")[0]
        name = row.title if shorter[name] > 1 else name
        name = f"{row.resource.lower()} {name}" if name.isalpha() and name.islower() else name
        named.append(f"{name} {row.interval}" if row.interval.startswith("±") else name)
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more


def _of_points(count: int, total: int) -> str:
    return f"{count} of {plural(total, 'point')} {'is' if count == 1 else 'are'}"


def without_brackets(text: str) -> str:
    """A text without its brackets and their content, those within others included."""
    inner = re.compile(r" \([^()]*\)")
    while inner.search(text):
        text = inner.sub("", text)
    return text


def shorten_reason(text: str, most: int = MAX_REASON) -> str:
    """A sentence within this many characters: without its brackets if it has to, or its first clause, or cut."""
    if len(text) > most:
        text = without_brackets(text)
    clause = re.split(r"[:;] |, which ", text)[0]
    if len(text) > most > len(clause) >= most // 2:
        return f"{clause}."
    if len(text) > most:
        text = text[: most - 1].rsplit(" ", 1)[0].rstrip(" ,;:") + "…"
    return text
