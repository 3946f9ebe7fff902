"""What is already measured: a stored Run, other tools' results, comparisons, the history and the fleet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.api.api_run import Run
from hwdyno.api.outcomes import one_family
from hwdyno.model import words
from hwdyno.model.units import plural
from hwdyno.model.words import Finding, UserError

if TYPE_CHECKING:
    from hwdyno.explain.comparison import Compared
    from hwdyno.explain.fleet.slow import Fleet
    from hwdyno.system.store import HistoryEntry

Named = str | Path | words.Run
"""A Run, or what names one: an id or its beginning, ``last``, a document, a page, another tool's output or a table."""
Several = str | Iterable[str]


@dataclass(frozen=True, slots=True)
class Audit:
    """Other tools' results as one Run, and what cannot be true in them."""

    run: Run
    faults: tuple[Finding, ...]
    """What is wrong, each table's by itself; empty where no law is broken."""

    def __repr__(self) -> str:
        return f"<Audit: {plural(len(self.faults), 'fault')} in {self.run!r}>"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A base beside other Runs and makers' figures; its text is what ``hwdyno compare`` prints."""

    base: str
    sides: tuple[Compared, ...]
    """Each of the others, with what differs, what is alike, and each ratio with its interval."""
    verdict: str
    """``failed`` where a loss is proven, ``open`` where none can be for want of repeats, else ``passed``."""
    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        changes = sum(len(side.changes) for side in self.sides)
        return f"<Comparison with {self.base}: {self.verdict}, {plural(changes, 'point')}>"


@one_family()
def load(name: str | Path = "last", store: str | Path | None = None) -> Run:
    """A stored Run by its id, the latest one, or a file: a Run document, a page, or another tool's result."""
    from hwdyno.report.sources import load_run

    return Run.from_document(load_run(str(name), _place(store)))


@one_family()
def audit(
    *files: str | Path,
    ceiling: Several = (),
    link: Several = (),
    device: Several = (),
    columns: Mapping[str, str] | None = None,
) -> Audit:
    """Check other tools' results and tables for what cannot be true, as ``hwdyno audit``.

    ``columns`` says what a table's columns are, as ``--map`` does: ``{"bw": "MB/s"}``. Raises ``UserError``.
    """
    from hwdyno.cli.audit import list_faults
    from hwdyno.report.scorecard import explain_run
    from hwdyno.report.sources import ceilings_given, merge_sources, read_sources

    if not files:
        raise UserError("name a file to audit")
    sources = read_sources([str(file) for file in files], dict(columns or {}))
    given = ceilings_given(_list(ceiling), _list(link), _list(device), limits=True)
    document = explain_run(merge_sources(sources, given))
    return Audit(Run.from_document(document), tuple(list_faults(document)))


@one_family()
def compare(
    base: Named,
    *others: Named,
    device: Several = (),
    fail_under: float | None = None,
    store: str | Path | None = None,
) -> Comparison:
    """Compare Runs, other tools' results and makers' figures with the first, as ``hwdyno compare``.

    ``fail_under`` is a share such as 0.95: a proven loss that leaves less fails. Raises ``UserError``.
    """
    from hwdyno.analysis.ceilings.named import parse_device
    from hwdyno.explain.comparison import device_compared, runs_compared, status
    from hwdyno.report import compared

    devices = _list(device)
    if not others and not devices:
        raise UserError("one result has nothing to be compared with; name another one, or device=NAME")
    name, first = _find(base, store)
    found = [_find(other, store) for other in others]
    sides = [runs_compared(first, run, side_name) for side_name, run in found]
    sides += [device_compared(first, maker, parse_device(maker)) for maker in devices]
    if not any(side.is_alike for side in sides):
        raise UserError(compared.refusal(sides, name))
    sides = [side for side in sides if side.is_alike]
    text = compared.format_comparison(name, sides, fail_under, verbose=False)
    return Comparison(name, tuple(sides), status(sides, fail_under), text)


@one_family()
def history(store: str | Path | None = None) -> tuple[HistoryEntry, ...]:
    """Every stored Run in a line, newest first, as ``hwdyno history``; ``error`` says why one cannot be read."""
    from hwdyno.system.store import open_store

    return tuple(open_store(_place(store)).history())


@one_family()
def fleet(*runs: str | Path, metric: str = "", store: str | Path | None = None) -> Fleet:
    """Find the slow machine of many and what is different about it, as ``hwdyno fleet``.

    ``runs`` are Runs or folders of Runs, one a machine; without any, all that are stored. Raises ``UserError``.
    """
    from hwdyno.cli.fleet import judge_runs

    return judge_runs([str(run) for run in runs], metric, _place(store))[0]


def _find(named: Named, store: str | Path | None) -> tuple[str, words.Run]:
    """What a side is called, and its Run."""
    if isinstance(named, words.Run):
        return named.id, named
    return Path(named).name or str(named), load(named, store)


def _place(store: str | Path | None) -> str | None:
    return None if store is None else str(store)


def _list(value: Several) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
