"""The table of a resource's figures in the page, each beside its reference tool and its ceiling."""

from __future__ import annotations

from typing import Any

from hwdyno.analysis.resources import find_rate_word
from hwdyno.model.words import Run, Value
from hwdyno.report import figures, tables
from hwdyno.report.rows import HeadlineRow

UNKNOWN = "unknown"


def _quantity(value: Value, rate_word: str, *, interval: bool = True) -> dict[str, str]:
    scale = figures.scale_for([value.value], value.unit, rate_word)
    return {
        "number": scale.number(value.value),
        "unit": scale.unit,
        "interval": scale.interval(value) if interval else "",
    }


def grid_parts(run: Run, rows: list[HeadlineRow]) -> list[dict[str, Any]]:
    """The rows by their experiments, as the page's template takes them."""
    parts: dict[int, dict[str, Any]] = {}
    for row in rows:
        made = parts.setdefault(
            id(row.experiment), {"name": row.experiment.name, "asks": row.experiment.asks, "rows": []}
        )
        made["rows"].append(_grid_row(run, row))
    return list(parts.values())


def grid_columns(grid: list[dict[str, Any]]) -> list[str]:
    """The columns of a resource's figures that have anything to say."""
    rows = [row for part in grid for row in part["rows"]]
    known = {"Rate": "rate", "Mean latency": "latency", "Reference": "peer", "Ceiling": "ceiling"}
    names = [name for name, key in known.items() if any(row[key] for row in rows)]
    return [*names, "Of ceiling"] if "Ceiling" in names else names


def _grid_row(run: Run, row: HeadlineRow) -> dict[str, Any]:
    point, rate_word = row.measurement, find_rate_word(row.experiment)
    latency, unit = point.latency_ns, point.throughput.unit
    made: dict[str, Any] = {
        "label": row.label,
        "validity": point.validity,
        "measured": _quantity(point.throughput, rate_word),
        # Operations a second beside arithmetic say nothing: each has its own count of them.
        "rate": _quantity(point.rate, rate_word, interval=False) if point.rate and unit == "bytes/s" else None,
        "latency": None,
        "peer": None,
        "ceiling": None,
        "no_ceiling": "unknown" if _why_no_ceiling(run, row) else figures.NONE,
        "percent": figures.percent(row.share) if row.share is not None else "",
        "bar": f"{min(1.0, row.share or 0.0) * 100:.1f}",
        "over": row.share is not None and row.share > 1 and row.ceiling is not None and row.ceiling.kind == "physical",
        "why": row.why_not_double,
    }
    if latency:
        scale = figures.latency_scale([latency.mean])
        tail = f"p99 {scale.number(latency.p99)}" if latency.p99 is not None else ""
        mean = {"number": scale.number(latency.mean), "unit": scale.unit, "interval": tail}
        # Of a latency test the time is the figure.
        made["measured" if row.experiment.metric == "latency" else "latency"] = mean
    if row.peer:
        made["peer"] = _quantity(row.peer.value, rate_word, interval=False)
        ratio = f": ours is {tables.ratio_words(row.peer.ratio)}" if row.peer.ratio else ""
        made["peer_says"] = f"{row.peer.full_name}{ratio}"
    if row.ceiling:
        made["ceiling"] = _quantity(Value(row.ceiling.value, row.ceiling.unit), rate_word)
        label = row.ceiling.label if row.ceiling.label != row.ceiling.kind else ""
        made["ceiling_says"] = f"{row.ceiling.kind}: {label or row.ceiling.formula or row.ceiling.source}"
        made["ceiling_source"] = f"{row.ceiling.formula} ({row.ceiling.source})"
    return made


def _why_no_ceiling(run: Run, row: HeadlineRow) -> str:
    """Why the machine gives no bound, as the survey has it; empty where there is one for other points."""
    if row.experiment.ceilings:
        return ""
    reasons = run.machine.unknown.items()
    return next((why for path, why in reasons if path.startswith(row.experiment.resource) and "link" in path), UNKNOWN)


def grid_note(run: Run, rows: list[HeadlineRow]) -> list[str]:
    """What the small print means, and why a ceiling is unknown."""
    notes = []
    if any(row.measurement.throughput.low is not None for row in rows):
        notes.append("Small print: 95% interval; for latencies, p99.")
    peers = dict.fromkeys(f"{row.peer.full_name}" for row in rows if row.peer)
    notes += [f"{' and '.join(peers)} ran in turn with hwdyno on the same points."] if peers else []
    reasons = dict.fromkeys(_why_no_ceiling(run, row) for row in rows if row.ceiling is None)
    return notes + [f"Ceiling unknown: {reason}." for reason in reasons if reason not in {"", UNKNOWN}]
