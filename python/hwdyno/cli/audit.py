"""``hwdyno audit``: reads other tools' files and published tables, and names what cannot be true in them."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli.help import Help
from hwdyno.cli.main import DEGRADED, OK
from hwdyno.units import format_ratio, plural
from hwdyno.words import UserError

if TYPE_CHECKING:
    from hwdyno.words import Ceiling, ExperimentResult, Finding, Measurement, Run

STDIN = "-"
OURS = "hwdyno"
LARGEST_STDIN = 64 << 20
MOST_ROWS = 60
"""Rows of the table that puts tools side by side."""
Ceilings = Callable[[str], "tuple[Ceiling, ...]"]

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
        "files", metavar="FILE", nargs="+", help="a tool's output, a table (CSV, Markdown, HTML), or - for pasted cells"
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="COL=UNIT",
        help="what a column is: 'bw=MB/s', 'delay=lat us'; '-' leaves it out",
    )
    from hwdyno.cli.runs import add_ceiling

    add_ceiling(parser)
    parser.add_argument(
        "--link",
        action="append",
        default=[],
        metavar="LINK",
        help="the link: 'PCIe 3 x4', 'SATA 3', 'USB 3.1 Gen 1', '10GbE'",
    )
    parser.add_argument(
        "--device", action="append", default=[], metavar="NAME", help="the device: its maker's figures and its link"
    )
    parser.add_argument("--all", action="store_true", help="also print tables, curves and observations")
    parser.add_argument("--json", action="store_true", help="print the audit as a Run document")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the page: one self-contained file")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that hwdyno did not write")


def run(args: argparse.Namespace) -> int:
    """Print how each file was read and what is wrong in it; 3 where a law is broken."""
    from hwdyno import findings
    from hwdyno.store import to_json

    sources = sources_of(args.files, maps_of(args.map))
    given = ceilings_given(args.ceiling, args.link, args.device)
    document = findings.explain(merged(sources, given))
    if args.html is not None:
        from hwdyno.report import page

        page.write(document, args.html, overwrite=args.overwrite)
    if args.json:
        sys.stdout.write(to_json(document))
    else:
        sys.stdout.write(_readings(sources, document))
        sys.stdout.write(side_by_side(sources))
        if args.all:
            from hwdyno.report.terminal import print_run

            print_run(document)
        else:
            sys.stdout.write(_verdict(document))
    return DEGRADED if faults_of(document) else OK


@dataclass(frozen=True)
class Source:
    """One file: its name, the Runs in it, and how its columns were read."""

    name: str
    runs: tuple[Run, ...]
    readings: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether hwdyno measured it."""
        return any(not one.imported_from for one in self.runs)


def faults_of(document: Run) -> list[Finding]:
    """What is wrong: findings that are more than observations. How well a curve fits is an observation."""
    from hwdyno.findings import RULES
    from hwdyno.findings.laws import FAR_ABOVE_RATED

    of_curves = {rule.name for rule in RULES if rule.scope == "curve"}
    return [
        one
        for found in document.findings
        for one in _by_experiment(document, found)
        if (one.severity != "info" and one.rule not in of_curves) or one.evidence.get("ratio", 0) > FAR_ABOVE_RATED
    ]


def _by_experiment(document: Run, found: Finding) -> list[Finding]:
    """A finding on several tables as one of each, so that none hides behind the worst."""
    from hwdyno.findings import explain

    names = found.evidence.get("points")
    if not isinstance(names, dict) or len(names) < 2:
        return [found]
    alone = [replace(document, experiments=(one,)) for one in document.experiments if one.name in names]
    each = [one for run in alone for one in explain(run).findings if one.rule == found.rule]
    return each or [found]


# --- reading


def sources_of(names: Sequence[str], maps: Mapping[str, str]) -> list[Source]:
    """Read every file. Raises ``UserError`` in one line."""
    from hwdyno import foreign, formats
    from hwdyno.formats import published, table_rows

    texts = []
    for name in names:
        text = _stdin() if name == STDIN else foreign.text_of(Path(name), formats.LARGEST_BYTES, errors="replace")
        texts.append((("clipboard" if name == STDIN else name), text))
    heads = [head for _, text in texts if maps for head in published.heads_of(text)]
    for wanted in maps:
        if not any(table_rows.is_head(wanted, head) for head in heads):
            from hwdyno.spelling import hint

            raise UserError(f"--map names the column '{wanted}', which no table has; {hint(wanted, heads)}")
    return [_source(name, text, maps) for name, text in texts]


def _stdin() -> str:
    data = sys.stdin.buffer.read(LARGEST_STDIN + 1)
    if len(data) > LARGEST_STDIN:
        raise UserError(f"the input is larger than {LARGEST_STDIN >> 20} MiB; write it to a file")
    return data.decode(errors="replace")


def _source(name: str, text: str, maps: Mapping[str, str]) -> Source:
    from hwdyno import formats
    from hwdyno.store import from_json

    if '"hwdyno.run/' in text[:65536]:
        return Source(name, (from_json(text.encode()),))
    runs, readings = formats.read_every(text, name, maps)
    return Source(name, tuple(runs), tuple(readings))


def maps_of(texts: Iterable[str]) -> dict[str, str]:
    """The columns that ``--map`` names, with what each is. Raises ``UserError``."""
    found = {}
    for text in texts:
        head, mark, unit = text.rpartition("=")
        if not mark or not head.strip() or not unit.strip():
            raise UserError(f"'{text}' does not map a column; write --map 'bw=MB/s' or --map 'delay=lat us'")
        found[head.strip()] = unit.strip()
    return found


# --- ceilings


def ceilings_given(ceilings: Sequence[str], links: Sequence[str], devices: Sequence[str]) -> Ceilings:
    """The ceilings of a resource that the options give. Raises ``UserError``."""
    from hwdyno.ceilings.named import link_ceilings, parse_device, parse_link

    stated = [_stated(text) for text in ceilings]
    rates = [parse_link(text) for text in links]
    makers = [parse_device(text) for text in devices]

    def of(resource: str) -> tuple[Ceiling, ...]:
        found = [one for one in stated if _measures(one, resource)]
        found += [one for rate in rates for one in link_ceilings(rate, resource)]
        found += [one for maker in makers for one in maker(resource)]
        return tuple(found)

    return of


def _stated(text: str) -> Ceiling:
    """A ceiling from the command line; without a class it is a limit, which nothing may exceed."""
    from hwdyno.ceilings import parse_given

    first = text.split()[0].lower() if text.split() else ""
    if first in {"rated", "reference"}:
        return parse_given(text)
    limit = parse_given(text if first == "physical" else f"physical {text}")
    return replace(limit, formula="given", label="the stated link or device")


def _measures(ceiling: Ceiling, resource: str) -> bool:
    arithmetic = ceiling.unit in {"FLOP/s", "IOP/s"}
    return arithmetic == (resource == "compute")


def _labelled(result: ExperimentResult) -> tuple[Ceiling, ...]:
    """The ceilings of the device and the link that a table's rows name."""
    from hwdyno.ceilings.named import device_ceilings, link_ceilings, link_rate, only_link

    found: list[Ceiling] = []
    found += device_ceilings(str(result.fixed.get("device") or ""), result.resource)
    link = str(result.fixed.get("link") or "")
    rate = link_rate(link, most=True) if link else only_link(result.asks)
    if rate is not None and not any(one.kind == "physical" for one in found):
        found += link_ceilings(rate, result.resource)
    return tuple(found)


def merged(sources: Sequence[Source], given: Ceilings) -> Run:
    """All files as one Run, each experiment with its ceilings."""
    from hwdyno.words import Run

    runs = [one for source in sources for one in source.runs]
    names: set[str] = set()
    experiments = []
    for one in runs:
        for result in one.experiments:
            ceilings = () if result.kernel == "claim" else (*_labelled(result), *given(result.resource))
            name, number = result.name, 1
            while name in names:
                number += 1
                head, mark, tail = result.name.partition("@")
                name = f"{head}-{number}{mark}{tail}"
            names.add(name)
            experiments.append(replace(result, name=name, ceilings=tuple(dict.fromkeys((*result.ceilings, *ceilings)))))
    if len(runs) == 1:
        return replace(runs[0], experiments=tuple(experiments))
    digest = hashlib.sha256(" ".join(one.id for one in runs).encode()).hexdigest()[:8]
    kinds = dict.fromkeys(one.imported_from or "hwdyno" for one in runs)
    return Run(
        id=f"audit-{digest}",
        started="",
        finished=None,
        machines=(),
        profile="imported",
        command="hwdyno audit " + " ".join(source.name for source in sources),
        experiments=tuple(experiments),
        imported_from=", ".join(kinds),
    )


# --- what is printed


def _readings(sources: Sequence[Source], document: Run) -> str:
    from hwdyno.printable import printable

    lines = []
    for source in sources:
        for one in source.runs:
            points = sum(len(result.points) for result in one.experiments)
            kind = one.imported_from or "a Run of hwdyno"
            lines.append(f"{source.name}: {kind}, {plural(points, 'result')}")
        lines += [f"  {reading}" for reading in source.readings]
    seen = dict.fromkeys(
        (one.kind, one.label, one.formula, one.source) for result in document.experiments for one in result.ceilings
    )
    lines += [f"ceiling, {kind}: {label or formula} ({formula}; {source})" for kind, label, formula, source in seen]
    return "".join(f"{line}\n" for line in printable(lines))


def side_by_side(sources: Sequence[Source]) -> str:
    """Several tools' results in one table, with ratios where they measured the same; empty for one tool."""
    from hwdyno.findings.rule import label_of
    from hwdyno.printable import columns, printable
    from hwdyno.units import format_quantity

    tools = [(tool, result, point) for source in sources for tool, result, point in _results(source)]
    if len({tool for tool, _, _ in tools}) < 2:
        return ""
    groups: dict[tuple[str, ...], list[tuple[str, ExperimentResult, Measurement]]] = {}
    for tool, result, point in tools:
        groups.setdefault(_same(result, point), []).append((tool, result, point))
    shared = [group for group in groups.values() if len({tool for tool, _, _ in group}) > 1]
    alone = [max(of, key=lambda one: one[2].throughput.value) for of in _alone(groups.values())]
    rows = [("tool", "what", "value", "ratio")]
    for group in (*shared, *([one] for one in alone)):
        base = next((one for one in group if one[0] == OURS), group[0])
        for tool, result, point in (base, *(one for one in group if one is not base)):
            what = f"{result.resource} {label_of(point.parameters, result.declaration)}".strip()
            ratio = base[2].throughput.value / point.throughput.value if point.throughput.value else 0.0
            text = f"{base[0]} / {tool} = {format_ratio(ratio, 3)}" if tool != base[0] and ratio else ""
            rows.append((tool, what[:60], format_quantity(point.throughput.value, point.throughput.unit), text))
    kept = rows[: MOST_ROWS + 1]
    more = f"… and {plural(len(rows) - len(kept), 'more row')}\n" if len(rows) > len(kept) else ""
    return "\n" + columns(printable(kept)) + more


def _alone(
    groups: Iterable[list[tuple[str, ExperimentResult, Measurement]]],
) -> Iterable[list[tuple[str, ExperimentResult, Measurement]]]:
    """The results that one tool alone has, by its experiment."""
    found: dict[tuple[str, str], list[tuple[str, ExperimentResult, Measurement]]] = {}
    for group in groups:
        if len({tool for tool, _, _ in group}) == 1:
            for one in group:
                found.setdefault((one[0], one[1].name), []).append(one)
    return found.values()


def _results(source: Source) -> Iterable[tuple[str, ExperimentResult, Measurement]]:
    for one in source.runs:
        tool = OURS if not one.imported_from else _tool(one, source.name)
        for result in one.experiments:
            rated = [one for one in result.points if one.throughput.unit != "1"] if result.kernel != "claim" else []
            for point in rated:
                yield tool, result, point


def _tool(one: Run, name: str) -> str:
    return Path(name).name if one.imported_from == "table" else one.command.partition(" ")[0] or one.imported_from


def _same(result: ExperimentResult, point: Measurement) -> tuple[str, ...]:
    """What two results must share to be the same quantity."""
    given = {**result.fixed, **point.parameters}
    names = ("rw", "rwmixread", "bs", "iodepth", "numjobs", "operation", "protocol", "n", "direction", "accelerators")
    workers = given.get("threads") or given.get("streams") or 1
    return (result.resource, point.throughput.unit, str(workers), *(f"{name}={given.get(name)}" for name in names))


def _verdict(document: Run) -> str:
    from hwdyno.printable import printable

    faults, lines = faults_of(document), []
    results = sum(len(one.points) for one in document.experiments)
    observed = len(document.findings) - len(faults)
    if faults:
        lines.append(f"\n{plural(len(faults), 'fault')} in {plural(results, 'result')}:")
    else:
        lines.append(f"\nNo law is broken in {plural(results, 'result')}.")
    for one in faults:
        mark = "✗" if one.severity == "invalid" else "!"
        lines += [f"{mark} {one.says}", f"    {one.advice}  (hwdyno explain {one.rule})"]
    if observed:
        lines.append(f"\n{plural(observed, 'observation')} more: --all")
    return "".join(f"{line}\n" for line in (printable(line) for line in lines)).replace("\\n", "\n")
