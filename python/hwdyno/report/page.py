"""The report as one HTML file that needs nothing else: works offline, light and dark, on paper and on a phone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from hwdyno import door, units
from hwdyno.axes import is_mixed, splits
from hwdyno.printable import printable
from hwdyno.report import distributions, figures, study, tables, theme
from hwdyno.report.audit import audit
from hwdyno.report.charts import Chart, charts_of
from hwdyno.report.machine import machines_of
from hwdyno.report.overview import overview_of, ranked
from hwdyno.report.rows import Row, parameters_of, rows_of
from hwdyno.resources import rate_word_of
from hwdyno.statistics import half_width
from hwdyno.words import ExperimentResult, Run, Value

CHARTS_IN_SIGHT = 6
"""Charts of one experiment that stand open; the others wait in folds, one a part of the sweep."""
MOST_EVIDENCE = 400
"""Characters of one piece of evidence: whole histograms and lists stay in the raw data."""

_WEB = Path(__file__).parent / "web"


HEADER = b'<meta name="generator" content="hwdyno '
"""What every page has near its beginning."""


def write(run: Run, path: Path, *, overwrite: bool = False) -> None:
    """Write the whole page as one file; raises ``UserError`` where another's is in the way."""
    door.write_output(path, html(run).encode(), overwrite=overwrite, header=HEADER)


def html(run: Run) -> str:
    """The whole page. Every name from the machine or a foreign file is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_WEB), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["tight"] = _tight
    return environment.get_template("page.html.j2").render(_context(run))


def _context(whole: Run) -> dict[str, Any]:
    run = printable(whole)
    charts = charts_of(run)
    rows = rows_of(run)
    text = run_json(whole)
    experiments = [
        _experiment(experiment, at, charts) for at, experiment in enumerate(run.experiments) if experiment.points
    ]
    machine = machines_of(run.machines)
    scripts = [vega(), (_WEB / "page.js").read_text()]
    studied = study.page(run)
    links = [
        ("figures", "Figures", rows),
        ("findings", "Findings", run.findings),
        ("study", "Study", studied),
        *_experiment_links(experiments),
    ]
    links += [("machine", "Machine", machine), ("method", "Method", True), ("data", "Data", True)]
    stem = "".join(letter for letter in run.id if letter.isascii() and (letter.isalnum() or letter in "-_"))[:60]
    host = run.machine.hostname or (f"from {run.imported_from}" if run.imported_from else "this machine")
    host += f" and {len(run.machines) - 1} more" if len(run.machines) > 1 else ""
    return {
        "title": f"{host}, {run.started[:10]} – hwdyno",
        "version": run.version,
        "id": run.id,
        "schema": run.schema,
        "css": theme.css() + (_WEB / "page.css").read_text(),
        "scripts": scripts,
        "policy": policy(scripts),
        "links": [{"id": name, "says": says} for name, says, there in links if there],
        "overview": overview_of(run),
        "heading": _heading(run, host),
        "grid": _grid(run, rows),
        "grid_note": _grid_note(rows),
        "findings": [_finding(finding) for finding in ranked(run.findings)],
        "study": studied,
        "experiments": experiments,
        "machine": machine,
        "rules": audit(run),
        "commands": _commands(run),
        "run_json": embedded(text),
        "raw_size": units.format_bytes(len(text)),
        "file_name": f"hwdyno-{stem or 'run'}.json",
        "specs_json": embedded(json.dumps([_spec(chart) for chart in charts], separators=(",", ":"))),
        "themes_json": embedded(json.dumps({"page": theme.config(page=True), "paper": theme.config()})),
    }


def _tight(text: str) -> str:
    """Keeps a number and its unit on one line."""
    return re.sub(r"(?<=\d) (?=[A-Za-zµ%])", "\N{NO-BREAK SPACE}", text)


def run_json(run: Run) -> str:
    """The Run's document."""
    from hwdyno.store import to_json

    return to_json(run)


def _spec(chart: Chart) -> dict[str, Any]:
    spec = chart.spec()
    # An address that nothing follows; without it the page holds none of its own.
    spec.pop("$schema", None)
    return spec


def embedded(text: str) -> str:
    """JSON that no parser of HTML can end early: ``<``, ``>`` and ``&`` stand as their escapes."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def policy(scripts: list[str]) -> str:
    """The page's Content-Security-Policy: nothing is loaded, and no script runs but these, known by their hashes."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script of 0.9 MB; vl-convert carries them."""
    import vl_convert

    script = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    return script.replace("</script", "<\\/script")


def _heading(run: Run, host: str) -> list[str]:
    texts = [
        host,
        run.machine.cpu.model,
        run.machine.storage.path,
        run.started[:16].replace("T", " "),
        _took(run),
        f"{run.profile} profile" if run.profile else "",
    ]
    texts += [
        f"study {run.study}" if run.study else "",
        f"imported from {run.imported_from}" if run.imported_from else "",
    ]
    return [one for one in texts if one]


def _took(run: Run) -> str:
    from datetime import datetime

    try:
        began, ended = datetime.fromisoformat(run.started), datetime.fromisoformat(run.finished or "")
        took_s = (ended - began).total_seconds()
        return units.format_duration(took_s) if took_s >= 0 else ""  # The clock was set back meanwhile.
    except (ValueError, TypeError):
        return ""


def _quantity(value: Value, rate_word: str, *, interval: bool = True) -> dict[str, str]:
    scale = figures.scale_for([value.value], value.unit, rate_word)
    return {
        "number": scale.number(value.value),
        "unit": scale.unit,
        "interval": scale.interval(value) if interval else "",
    }


def _grid(run: Run, rows: list[Row]) -> list[dict[str, Any]]:
    parts: dict[int, dict[str, Any]] = {}
    for row in rows:
        made = parts.setdefault(
            id(row.experiment), {"name": row.experiment.name, "asks": row.experiment.asks, "rows": []}
        )
        made["rows"].append(_grid_row(run, row))
    return list(parts.values())


def _grid_row(run: Run, row: Row) -> dict[str, Any]:
    point, rate_word = row.measurement, rate_word_of(row.experiment)
    latency = point.latency_ns
    made: dict[str, Any] = {
        "label": row.label,
        "validity": point.validity,
        "measured": _quantity(point.throughput, rate_word),
        "rate": _quantity(point.rate, rate_word, interval=False) if point.rate else None,
        "latency": None,
        "peer": None,
        "ceiling": None,
        "no_ceiling": _why_no_ceiling(run, row),
        "percent": figures.percent(row.share) if row.share is not None else "",
        "bar": f"{min(1.0, row.share or 0.0) * 100:.1f}",
        "over": row.share is not None and row.share > 1 and row.ceiling is not None and row.ceiling.kind == "physical",
        "why": row.why_not_double,
    }
    if latency:
        scale = figures.latency_scale([latency.mean])
        tail = f"p99 {scale.number(latency.p99)}" if latency.p99 is not None else ""
        made["latency"] = {"number": scale.number(latency.mean), "unit": scale.unit, "interval": tail}
    if row.peer:
        made["peer"] = _quantity(row.peer.value, rate_word, interval=False)
        ratio = f": ours is {tables.ratio_words(row.peer.ratio)}" if row.peer.ratio else ""
        made["peer_says"] = f"{row.peer.named}{ratio}"
    if row.ceiling:
        made["ceiling"] = _quantity(Value(row.ceiling.value, row.ceiling.unit), rate_word)
        label = f"{row.ceiling.label}: " if row.ceiling.label and row.ceiling.label != row.ceiling.kind else ""
        formula = row.ceiling.source if row.ceiling.formula in {"", "as rated"} else row.ceiling.formula
        made["ceiling_says"] = f"{row.ceiling.kind}, {label}{formula}"
        made["ceiling_source"] = row.ceiling.source
    return made


def _why_no_ceiling(run: Run, row: Row) -> str:
    """Why the machine gives no bound, as the survey has it."""
    if any(ceiling for ceiling in row.experiment.ceilings):
        return figures.NONE
    reasons = run.machine.unknown.items()
    found = next((why for path, why in reasons if path.startswith(row.experiment.resource) and "link" in path), "")
    return f"unknown: {found}" if found else "unknown"


def _grid_note(rows: list[Row]) -> str:
    peers = dict.fromkeys(f"{row.peer.named}" for row in rows if row.peer)
    return f"{' and '.join(peers)} ran in turn with hwdyno on the same points." if peers else ""


def _finding(finding: Any) -> dict[str, Any]:
    evidence = [(str(name), _evidence(value)) for name, value in finding.evidence.items()]
    return {
        "severity": finding.severity,
        "says": finding.says,
        "advice": finding.advice,
        "rule": finding.rule,
        "experiment": finding.experiment,
        "evidence": evidence,
    }


def _evidence(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MOST_EVIDENCE else text[:MOST_EVIDENCE] + " …"


def _experiment_links(experiments: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    if len(experiments) > 5:
        return [(experiments[0]["id"], "Experiments", True)]
    return [(part["id"], part["name"].rpartition(".")[2][:24], True) for part in experiments]


def _experiment(experiment: ExperimentResult, at: int, charts: list[Chart]) -> dict[str, Any]:
    curves = tables.curves_table(experiment)
    chosen = distributions.chosen_points(experiment)
    shown = [tables.distribution_table(experiment, chosen)] if len(experiment.points) > 1 else []
    whole = tables.points_table(experiment)
    drawn = [
        {"index": index, "name": chart.name, "title": chart.title, "caption": chart.caption}
        for index, chart in enumerate(charts)
        if chart.experiment == at
    ]
    return {
        "id": f"experiment-{at + 1}",
        "name": experiment.name,
        "asks": experiment.asks or experiment.name,
        "fixed": _fixed(experiment),
        "curve_heads": curves.heads if curves else (),
        "curves": curves.rows if curves else (),
        "charts": _folds(drawn),
        "tables": [
            *({"caption": table.caption, "heads": table.heads, "rows": table.rows, "fold": ""} for table in shown),
            {"caption": whole.caption, "heads": whole.heads, "rows": whole.rows, "fold": whole.caption},
        ],
        "remarks": _remarks(experiment),
    }


def _fixed(experiment: ExperimentResult) -> list[tuple[str, str]]:
    """Parameters that all points share; those that are off or empty are in the raw data only."""
    axes = splits(experiment.declaration.axes)
    unused = {
        axis.split
        for axis in axes
        if not any(is_mixed(axis, parameters_of(experiment, point)) for point in experiment.points)
    }
    shown = []
    for name, value in experiment.fixed.items():
        unset = value in (None, "", "[]", 0) and name != "direct"
        if not unset and name not in unused:
            rounded = float(f"{value:.3g}") if isinstance(value, float) else value
            shown.append((name, figures.parameter(experiment.axis(name), rounded)))
    return shown


def _folds(charts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first charts in the open, and the rest folded away: a page of a thousand points must open at once."""
    groups = [{"fold": "", "charts": charts[:CHARTS_IN_SIGHT]}]
    if charts[CHARTS_IN_SIGHT:]:
        groups.append({"fold": f"{len(charts) - CHARTS_IN_SIGHT} more charts", "charts": charts[CHARTS_IN_SIGHT:]})
    return [group for group in groups if group["charts"]]


def _remarks(experiment: ExperimentResult) -> list[str]:
    """What the kernels remarked, and faults, each once with how many points it touched."""
    counts: dict[str, int] = {}
    for point in experiment.points:
        texts = [note.says for note in point.notes if note.code != "interval_not_reached"]
        texts += [f"{fault.operation}: {fault.says}" for fault in point.faults]
        for one in dict.fromkeys(texts):
            counts[one] = counts.get(one, 0) + 1
    many = len(experiment.points)
    loose = [point for point in experiment.points if any(n.code == "interval_not_reached" for n in point.notes)]
    widths = [width for point in loose if (width := half_width(point.throughput)) is not None]
    if loose:
        worst = f", up to {figures.percent(max(widths))}" if widths else ""
        counts[f"the 95% interval stayed wider than the profile aims at{worst}"] = len(loose)
    remarks = [one if count == many else f"{one} ({count} of {many} points)" for one, count in counts.items()]
    return [*remarks, *([figures.run_to_run(experiment.run_to_run)] if experiment.run_to_run else [])]


def _commands(run: Run) -> list[dict[str, Any]]:
    groups = [("This run", [run.command])]
    for experiment in run.experiments:
        groups.append((experiment.name, list(experiment.commands)))
        for tool in dict.fromkeys(peer.tool for peer in experiment.peers):
            lines = dict.fromkeys(peer.command for peer in experiment.peers if peer.tool == tool)
            groups.append((f"{experiment.name}, {tool}", list(lines)))
    return [{"title": title, "lines": kept} for title, lines in groups if (kept := [line for line in lines if line])]
