"""The report as one HTML file that needs nothing else: works offline, light and dark, on paper and on a phone."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import fields
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.analysis.resources import find
from hwdyno.explain.findings import about_this_run
from hwdyno.model import units
from hwdyno.model.axes import is_mixed, splits
from hwdyno.model.words import ExperimentResult, Finding, Run
from hwdyno.report import contention, distributions, evidence, figures, scaling, study, svg, tables, theme
from hwdyno.report.benchmarking_rules import judged_rules
from hwdyno.report.charts import Chart, list_charts
from hwdyno.report.embedding import KEPT_DIGITS, KEPT_SAMPLES, MAX_PLAIN, Embedded, embed_run, pack_text
from hwdyno.report.headlines import Headline
from hwdyno.report.machine import describe_machines
from hwdyno.report.overview import rank_findings
from hwdyno.report.page_grid import grid_columns, grid_note, grid_parts
from hwdyno.report.rows import make_rows, point_parameters
from hwdyno.report.scorecard import Scorecard, scorecard, urgency
from hwdyno.report.story import ChartGroup, make_story
from hwdyno.system import output_files
from hwdyno.system.failures import attempt, collecting
from hwdyno.system.printable import printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

CHARTS_IN_SIGHT = 4
"""Charts of one experiment that are open; the others wait in a fold."""
FIRST_FINDINGS = 3
"""Findings beside the scorecard; the resources have all of theirs."""

_WEB = Path(__file__).parent / "web"


HEADER = b'<meta name="generator" content="hwdyno '
"""What every page has near its beginning."""


def write(run: Run, path: Path, *, overwrite: bool = False, full_data: bool = False) -> Path:
    """Write the whole page as one file, and return its path; raises ``UserError`` where another's is in the way."""
    output_files.write_output(path, html(run, full_data=full_data).encode(), overwrite=overwrite, header=HEADER)
    return path


def html(run: Run, *, full_data: bool = False) -> str:
    """The whole page. Every name from the machine or a foreign file is escaped.

    A Run of many points is shortened in its page, and long folds are packed, unless it is to have its ``full_data``.
    A part that fails is left out, and the page says so.
    """
    with collecting() as missing:
        context = _context(run, embed_run(run, whole=full_data))
    return render_page("page.html.j2", context | {"missing": missing}, full_data=full_data)


def render_page(template: str, context: dict[str, Any], *, full_data: bool = False, is_live: bool = False) -> str:
    """A page of the house: its own parts, in the frame of style, scripts and policy that all pages have.

    One that ``is_live`` asks its server for what is new.
    """
    scripts = [(_WEB / name).read_text() for name in ("page.js", *(("live.js",) if is_live else ()))]
    css = theme.css() + (_WEB / "page.css").read_text()
    allowed = policy(scripts) + ("; connect-src 'self'" if is_live else "")
    return render_part(template, {"css": css, "scripts": scripts, "policy": allowed, **context}, full_data=full_data)


def render_part(template: str, context: dict[str, Any], *, full_data: bool = False) -> str:
    """What a template makes of its context; every name in it is escaped."""
    return _environment(full_data).get_template(template).render(**context)


@cache
def _environment(full_data: bool) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_WEB), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["tight"] = _tight
    environment.filters["coded"] = _mark_code
    environment.filters["folded"] = partial(_fold_markup, plain=full_data)
    return environment


def _fold_markup(markup: str, plain: bool) -> Markup:
    """What a fold holds; where it is long, packed until a script unpacks it, or the words that say so."""
    from markupsafe import Markup

    if plain or len(markup) <= MAX_PLAIN:
        return Markup(markup)
    words = "Packed to keep this page small; a script unpacks it. <code>hwdyno report --full-data</code> packs nothing."
    return Markup(f'<p class="note" data-packed="{pack_text(markup)}">{words}</p>')


def _context(whole: Run, data: Embedded) -> dict[str, Any]:
    run = printable(whole)
    findings = rank_findings(run.findings)
    card = scorecard(run)
    story = [_figure(figure) for figure in attempt("the first charts", partial(make_story, run), ())]
    # One of each rule: what holds for every resource is read once. Noise comes last: the verdict has named it.
    first: dict[str, Finding] = {}
    for finding in sorted(
        findings, key=lambda finding: (finding.severity != "invalid" and about_this_run(finding), urgency(finding))
    ):
        first.setdefault(finding.rule, finding)
    shown = list(first.values())[:FIRST_FINDINGS]
    resources = _resources(run, card, findings)
    machine = attempt("the machine's table", partial(describe_machines, run.machines), ())
    studied = attempt("the study's table", partial(study.page, run), None)
    matrices = attempt("the table of contention", partial(contention.matrices, run), ())
    clients = attempt("the table of clients", partial(scaling.matrices, run), ())
    commands = _commands(run)
    named = {part["name"] for part in resources}
    others = [_finding(finding) for finding in findings if finding.resource not in named]
    contents = [
        ("top", "Summary", True),
        ("findings", "Findings", findings),
        ("charts", "Charts", story),
        ("contention", "Contention", matrices),
        ("clients", "Clients", clients),
        ("study", "Study", studied),
        *((part["id"], part["title"], True) for part in resources),
        ("others", "Other findings", others),
        ("machine", "Machine", machine),
        ("method", "Method", True),
        ("commands", "Commands", commands),
        ("data", "Data", True),
    ]
    stem = "".join(letter for letter in run.id if letter.isascii() and (letter.isalnum() or letter in "-_"))[:60]
    host = run.machine.hostname or (f"from {run.imported_from}" if run.imported_from else "this machine")
    host += f" and {len(run.machines) - 1} more" if len(run.machines) > 1 else ""
    return {
        "title": f"{host}, {run.started[:10]} – hwdyno",
        "version": run.version,
        "id": run.id,
        "schema": run.schema,
        "contents": [{"id": name, "says": says} for name, says, there in contents if there],
        "card": card,
        "score": _score(card),
        "score_columns": [
            head
            for head, there in (
                ("Share of the ceiling", any(row.share or row.no_ceiling for row in card.rows)),
                ("Typical", any(row.typical for row in card.rows)),
            )
            if there
        ],
        "heading": _heading(run),
        "findings": [_finding(finding) for finding in shown],
        "more_findings": len(findings) - len(shown),
        "story": story,
        "study": studied,
        "contention": matrices,
        "worst_pair": contention.worst_pair(run) if matrices else "",
        "clients": clients,
        "clients_notes": scaling.notes(run) if clients else [],
        "resources": resources,
        "others": others,
        "machine": machine,
        "rules": attempt("the table of benchmarking rules", partial(judged_rules, run), ()),
        "commands": commands,
        "data": data.packed,
        "data_size": units.format_bytes(data.characters),
        "shortened": _shortened_words(run) if data.shortened else "",
        "file_name": f"hwdyno-{stem or 'run'}{'-short' if data.shortened else ''}.json",
    }


def _shortened_words(run: Run) -> str:
    points = sum(len(experiment.points) for experiment in run.experiments)
    return (
        f"This page stays small: of {units.plural(points, 'point')} it has {KEPT_DIGITS} digits, "
        f"at most {KEPT_SAMPLES} samples each, and latency histograms within 1.6%. "
        f"The file that hwdyno stored has all of them: `hwdyno report {run.id} --html FILE --full-data`."
    )


def _score(card: Scorecard) -> list[dict[str, Any]]:
    """The scorecard's rows under their resources; the verdict or the first row that has a reason shows it."""
    reasons: set[str] = set()
    made: list[dict[str, Any]] = []
    for resource, some in groupby(card.rows, key=lambda row: row.resource):
        rows = []
        for headline in some:
            is_new = headline.why not in reasons and headline.why not in card.reason.lower()
            reasons.add(headline.why)
            rows.append(_headline(headline, headline.why if is_new else ""))
        made.append({"resource": resource, "rows": rows})
    return made


def _headline(headline: Headline, why: str) -> dict[str, Any]:
    share = headline.share.of_ceiling if headline.share else 0.0
    plain = {field.name: getattr(headline, field.name) for field in fields(headline)} | {"why": why}
    return {**plain, "width": f"{100 * min(1.0, max(0.0, share)):.1f}", "percent": figures.percent(share)}


def _figure(figure: ChartGroup) -> dict[str, Any]:
    paint = theme.paint(page=True)
    return {
        "name": figure.name,
        "title": figure.title,
        "caption": figure.caption,
        "drawings": [
            attempt(f"the chart {picture.title}", partial(svg.draw, picture, paint), "") for picture in figure.pictures
        ],
    }


def _resources(run: Run, card: Scorecard, findings: list[Finding]) -> list[dict[str, Any]]:
    """A section a resource, in the order in which they were measured."""
    charts, rows = list_charts(run), attempt("the table of figures", partial(make_rows, run), ())
    made = []
    for number, name in enumerate(dict.fromkeys(experiment.resource for experiment in run.experiments), start=1):
        some = [
            (at, experiment)
            for at, experiment in enumerate(run.experiments)
            if experiment.resource == name and experiment.points
        ]
        if not some:
            continue
        theirs = [_finding(finding) for finding in findings if finding.resource == name]
        figures_ = [row for row in rows if row.experiment.resource == name]
        points = sum(len(experiment.points) for _, experiment in some)
        tally = [units.plural(len(some), "experiment"), units.plural(points, "point")]
        made.append(
            {
                "id": f"resource-{number}",
                "name": name,
                "title": find(name).title,
                "says": " · ".join(
                    f"{row.title}: {row.value}" for row in card.rows if run.experiments[row.experiment].resource == name
                ),
                "tally": ", ".join([*tally, *([units.plural(len(theirs), "finding")] if theirs else [])]),
                "grid": (grid := attempt(f"the table of {name}", partial(grid_parts, run, figures_), [])),
                "columns": grid_columns(grid),
                "grid_note": grid_note(run, figures_),
                "findings": theirs,
                "experiments": [
                    shown
                    for at, experiment in some
                    if (
                        shown := attempt(
                            f"the section of {experiment.name}", partial(_experiment, run, at, charts), None
                        )
                    )
                ],
            }
        )
    return made


def _tight(text: str) -> str:
    """Keeps a number and its unit on one line, and a name such as AVX-512."""
    text = re.sub(r"(?<![\w-])([\d.,]+) (?=[A-Za-zµ%])", "\\1\N{NO-BREAK SPACE}", text)
    return re.sub(r"(?<=[A-Z])-(?=\d)", "\N{NON-BREAKING HYPHEN}", text)


def _mark_code(text: str) -> Markup:
    """Text with each ``part`` in single backquotes as code; everything in it is escaped."""
    from markupsafe import Markup, escape

    parts = _tight(text).split("`")
    if len(parts) % 2 == 0:
        return escape(_tight(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )


def policy(scripts: list[str]) -> str:
    """The page's Content-Security-Policy: nothing is loaded, and no script runs but these, known by their hashes."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _heading(run: Run) -> list[str]:
    texts = [
        run.started[:16].replace("T", " "),
        _took(run),
        f"{run.profile} profile" if run.profile else "",
        run.machine.storage.path,
    ]
    texts += [
        f"study {run.study}" if run.study else "",
        f"imported from {run.imported_from}" if run.imported_from else "",
    ]
    return [text for text in texts if text]


def _took(run: Run) -> str:
    from datetime import datetime

    try:
        began, ended = datetime.fromisoformat(run.started), datetime.fromisoformat(run.finished or "")
        took_s = (ended - began).total_seconds()
        return units.format_duration(took_s) if took_s >= 0 else ""  # The clock was set back meanwhile.
    except (ValueError, TypeError):
        return ""


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity,
        "says": finding.says,
        "advice": finding.advice,
        "rule": finding.rule,
        "experiment": finding.experiment,
        "evidence": evidence.sentences(finding.evidence),
    }


def _experiment(run: Run, at: int, charts: list[Chart]) -> dict[str, Any]:
    experiment = run.experiments[at]
    curves = tables.curves_table(experiment)
    chosen = distributions.chosen_points(experiment)
    spread = tables.distribution_table(experiment, chosen)
    shown = [spread] if len(experiment.points) > 1 and len(spread.heads) > 1 else []
    whole = tables.points_table(experiment)
    drawn = [
        _figure(ChartGroup(chart.name, chart.title, chart.caption, (chart.picture,)))
        for chart in charts
        if chart.experiment == at
    ]
    return {
        "id": f"experiment-{at + 1}",
        "name": experiment.name,
        "asks": experiment.asks or experiment.name,
        "fixed": _list_fixed(experiment),
        "curves": curves if curves and any(curve.state != "unknown" for curve in experiment.curves) else None,
        "charts": _folds(drawn),
        "tables": [
            *({"caption": table.caption, "heads": table.heads, "rows": table.rows, "fold": ""} for table in shown),
            {"caption": whole.caption, "heads": whole.heads, "rows": whole.rows, "fold": whole.caption},
        ],
        "remarks": figures.remarks(experiment),
    }


def _list_fixed(experiment: ExperimentResult) -> list[tuple[str, str]]:
    """Parameters that all points share; those that are off or empty are in the raw data only."""
    axes = splits(experiment.declaration.axes)
    unused = {
        axis.split
        for axis in axes
        if not any(is_mixed(axis, point_parameters(experiment, point)) for point in experiment.points)
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


def _commands(run: Run) -> list[dict[str, Any]]:
    """What to type, each line once: the whole run, then what measures a part of it, then the reference tools."""
    seen: set[str] = set()

    def new(lines: Iterable[str]) -> list[str]:
        kept = [line for line in dict.fromkeys(lines) if line and line not in seen]
        seen.update(kept)
        return kept

    groups = [("This run", new([run.command]), False)]
    for name in dict.fromkeys(experiment.resource for experiment in run.experiments):
        lines = (line for experiment in run.experiments if experiment.resource == name for line in experiment.commands)
        groups.append((find(name).title, new(lines), False))
    peers = [peer for experiment in run.experiments for peer in experiment.peers]
    tools = dict.fromkeys(peer.tool for peer in peers)
    groups += [(tool, new(peer.command for peer in peers if peer.tool == tool), True) for tool in tools]
    return [{"title": title, "lines": lines, "fold": fold} for title, lines, fold in groups if lines]
