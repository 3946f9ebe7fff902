"""``hwdyno audit``: reads other tools' files and published tables, and names what cannot be true in them."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli.help import Help
from hwdyno.cli.statuses import DEGRADED, OK
from hwdyno.model.units import format_ratio, plural
from hwdyno.model.words import UserError

if TYPE_CHECKING:
    from hwdyno.model.words import ExperimentResult, Finding, Measurement, Run
    from hwdyno.report.sources import ResultFile

OURS = "hwdyno"
MAX_ROWS = 60
"""Rows of the table that puts tools side by side."""
MAX_OBSERVATIONS = 3
"""Up to this many are printed beside the faults."""

HELP = Help(
    usage="FILE…",
    examples=(
        "hwdyno audit fio.json --device 'Samsung 990 PRO 2TB'",
        "hwdyno audit table.csv --link 'PCIe 3 x4' --map 'bw=MB/s'",
        "hwdyno audit before.json fio.json table.csv",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """The options of ``hwdyno audit``."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="a tool's output, a table (CSV, Markdown, HTML), a results folder of mlpstorage or COSBench, "
        "or - for pasted cells",
    )
    from hwdyno.cli.options import add_limits, add_map

    add_map(parser)
    add_limits(parser)
    parser.add_argument("--formats", action="store_true", help="list what can be read")
    parser.add_argument("--all", action="store_true", help="also print tables, curves and observations")
    parser.add_argument("--json", action="store_true", help="print the audit as a Run document")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the page: one self-contained file")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that hwdyno did not write")


def run(args: argparse.Namespace) -> int:
    """Print how each file was read and what is wrong in it; 3 where a law is broken."""
    from hwdyno.report.scorecard import explain_run
    from hwdyno.report.sources import ceilings_given, merge_sources, parse_maps, read_sources
    from hwdyno.system.store import to_json

    if args.formats:
        sys.stdout.write(list_readers())
        return OK
    if not args.files:
        raise UserError("name a FILE to audit, or see what can be read with --formats")
    sources = read_sources(args.files, parse_maps(args.map))
    given = ceilings_given(args.ceiling, args.link, args.device, limits=True)
    document = explain_run(merge_sources(sources, given))
    if args.html is not None:
        from hwdyno.report import page

        page.write(document, args.html, overwrite=args.overwrite)
    if args.json:
        sys.stdout.write(to_json(document))
    else:
        from hwdyno.report.mlperf_rows import format_runs

        sys.stdout.write(_readings(sources, document))
        sys.stdout.write(format_runs(document))
        sys.stdout.write(side_by_side(sources))
        if args.all:
            from hwdyno.report.terminal import print_run

            print_run(document)
        else:
            sys.stdout.write(_verdict(document))
    return DEGRADED if list_faults(document) else OK


def list_readers() -> str:
    """Every format by its name in a Run, with what its reader takes, and in which order they are tried."""
    from hwdyno.formats import by_shape, list_folder_formats, list_formats
    from hwdyno.system.printable import columns

    documented = [(reader.NAME, reader.__doc__) for reader in list_formats().values()]
    documented += [(reader.NAME, reader.__doc__) for reader in list_folder_formats().values()]
    documented.append((by_shape.NAME, by_shape.__doc__))
    return columns([(name, _describe_input(documentation or "")) for name, documentation in documented])


def _describe_input(documentation: str) -> str:
    """What a reader takes, in the first sentence of its module."""
    sentence = documentation.partition("\n")[0].removeprefix("Reads ").replace("``", "").replace(" into a Run", "")
    return re.sub(r",? and (?:writes|says) .*", "", sentence).rstrip(".,")


def list_faults(document: Run) -> list[Finding]:
    """What is wrong, of each table by itself."""
    return [finding for found in document.findings if _is_fault(found) for finding in _by_experiment(document, found)]


def _is_fault(found: Finding) -> bool:
    """Whether a finding is more than an observation. How well a curve fits is an observation."""
    from hwdyno.explain.findings import all_rules
    from hwdyno.explain.findings.laws import FAR_ABOVE_RATED

    of_curves = {rule.name for rule in all_rules() if rule.scope == "curve"}
    says_wrong = found.severity != "info" and found.rule not in of_curves
    return says_wrong or found.evidence.get("ratio", 0) > FAR_ABOVE_RATED


def _by_experiment(document: Run, found: Finding) -> list[Finding]:
    """A finding on several tables as one of each, so that none hides behind the worst."""
    from hwdyno.explain.findings import explain

    names = found.evidence.get("points")
    if not isinstance(names, dict) or len(names) < 2:
        return [found]
    alone = [
        replace(document, experiments=(experiment,)) for experiment in document.experiments if experiment.name in names
    ]
    findings = [finding for run in alone for finding in explain(run).findings if finding.rule == found.rule]
    return findings or [found]


# --- what is printed


def _readings(sources: Sequence[ResultFile], document: Run) -> str:
    from hwdyno.system.printable import printable

    lines = []
    for source in sources:
        for source_run in source.runs:
            points = sum(len(result.points) for result in source_run.experiments)
            kind = source_run.imported_from or "a Run of hwdyno"
            lines.append(f"{source.name}: {kind}, {plural(points, 'result')}")
            lines += [f"  {note.code.replace('_', ' ')}: {note.says}" for note in source_run.notes]
        lines += [f"  {reading}" for reading in source.readings]
    seen = dict.fromkeys(
        (ceiling.kind, ceiling.label, ceiling.formula, ceiling.source)
        for result in document.experiments
        for ceiling in result.ceilings
    )
    lines += [f"ceiling, {kind}: {label or formula} ({formula}; {source})" for kind, label, formula, source in seen]
    return "".join(f"{line}\n" for line in printable(lines))


def side_by_side(sources: Sequence[ResultFile]) -> str:
    """Several tools' results in one table, with ratios where they measured the same; empty for one tool."""
    from hwdyno.explain.findings.point_labels import format_label
    from hwdyno.report.figures import scale_for
    from hwdyno.system.printable import columns, printable

    tools = [(tool, result, point) for source in sources for tool, result, point in _results(source)]
    if len({tool for tool, _, _ in tools}) < 2:
        return ""
    groups: dict[tuple[str, ...], list[tuple[str, ExperimentResult, Measurement]]] = {}
    for tool, result, point in tools:
        groups.setdefault(_same(result, point), []).append((tool, result, point))
    shared = [group for group in groups.values() if len({tool for tool, _, _ in group}) > 1]
    alone = [max(of, key=lambda row: row[2].throughput.value) for of in _alone(groups.values())]
    rows = [("tool", "what", "value", "ratio")]
    groups_shown = [*shared, *([row] for row in alone)]
    figures = [point.throughput for group in groups_shown for *_, point in group]
    # One unit a quantity in the column.
    scales = {
        unit: scale_for((figure.value for figure in figures if figure.unit == unit), unit)
        for unit in {figure.unit for figure in figures}
    }
    for group in groups_shown:
        base = next((row for row in group if row[0] == OURS), group[0])
        for tool, result, point in (base, *(row for row in group if row is not base)):
            label = f"{result.resource} {format_label(point.parameters, result.declaration)}".strip()
            ratio = base[2].throughput.value / point.throughput.value if point.throughput.value else 0.0
            text = f"{base[0]} / {tool} = {format_ratio(ratio, 3)}" if tool != base[0] and ratio else ""
            value = scales[point.throughput.unit].quantity(point.throughput.value)
            rows.append((tool, label[:60], value, text))
    kept = rows[: MAX_ROWS + 1]
    more = f"… and {plural(len(rows) - len(kept), 'more row')}\n" if len(rows) > len(kept) else ""
    return "\n" + columns(printable(kept)) + more


def _alone(
    groups: Iterable[list[tuple[str, ExperimentResult, Measurement]]],
) -> Iterable[list[tuple[str, ExperimentResult, Measurement]]]:
    """The results that one tool alone has, by its experiment."""
    found: dict[tuple[str, str], list[tuple[str, ExperimentResult, Measurement]]] = {}
    for group in groups:
        if len({tool for tool, _, _ in group}) == 1:
            for row in group:
                found.setdefault((row[0], row[1].name), []).append(row)
    return found.values()


def _results(source: ResultFile) -> Iterable[tuple[str, ExperimentResult, Measurement]]:
    for source_run in source.runs:
        tool = OURS if not source_run.imported_from else _tool(source_run, source.name)
        for result in source_run.experiments:
            rated = (
                [point for point in result.points if point.throughput.unit != "1"] if result.kernel != "claim" else []
            )
            for point in rated:
                yield tool, result, point


def _tool(document: Run, name: str) -> str:
    return (
        Path(name).name
        if document.imported_from == "table"
        else document.command.partition(" ")[0] or document.imported_from
    )


def _same(result: ExperimentResult, point: Measurement) -> tuple[str, ...]:
    """What two results must share to be the same quantity."""
    given = {**result.fixed, **point.parameters}
    names = ("rw", "rwmixread", "bs", "iodepth", "numjobs", "operation", "protocol", "n", "direction", "accelerators")
    workers = given.get("threads") or given.get("streams") or 1
    return (result.resource, point.throughput.unit, str(workers), *(f"{name}={given.get(name)}" for name in names))


def _verdict(document: Run) -> str:
    from hwdyno.system.printable import printable

    faults = list_faults(document)
    lines, observed = [], [finding for finding in document.findings if not _is_fault(finding)]
    results = sum(len(experiment.points) for experiment in document.experiments)
    if faults:
        lines.append(f"\n{plural(len(faults), 'fault')} in {plural(results, 'result')}:")
    else:
        lines.append(f"\nNo law is broken in {plural(results, 'result')}.")
    for fault in faults:
        mark = "✗" if fault.severity == "invalid" else "!"
        lines += [f"{mark} {fault.says}", f"    {fault.advice}  (hwdyno explain {fault.rule})"]
    if len(observed) > MAX_OBSERVATIONS:
        lines.append(f"\n{plural(len(observed), 'observation')} more: --all")
    elif observed:
        lines += ["", *(f"· {finding.says}" for finding in observed)]
    return "".join(f"{line}\n" for line in (printable(line) for line in lines)).replace("\\n", "\n")
