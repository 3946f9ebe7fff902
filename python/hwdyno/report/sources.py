"""The Runs that a name gives: of the store, of a page or a document, of another tool's output or a table; and the
ceilings that options give."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.model.words import UserError

if TYPE_CHECKING:
    from hwdyno.model.words import Ceiling, ExperimentResult, Run
    from hwdyno.system.store import Store, TeamStore

STDIN = "-"
LARGEST_STDIN = 64 << 20
Ceilings = Callable[[str], "tuple[Ceiling, ...]"]


def load_run(name: str, where: str | None, given: Ceilings | None = None, maps: Mapping[str, str] | None = None) -> Run:
    """A Run by name from the store, or from a file: a Run document, another tool's output or a table; with findings.

    A stored Run keeps the findings that it has, unless ``given`` adds ceilings, which it is then judged by too. Raises
    ``UserError``.
    """
    from hwdyno import formats
    from hwdyno.report.scorecard import explain_run
    from hwdyno.system.store import StoreError, open_store

    if name != "last" and formats.is_result_folder(Path(name)):
        return explain_run(merge_sources(read_sources([name], maps or {}), given))
    try:
        run = _of_report(Path(name)) or open_store(where).load(name)
        with_ceilings = _add_ceilings(run, given)
        return run if with_ceilings is run else explain_run(with_ceilings)
    except StoreError:
        if not maps and not _is_foreign(Path(name)):
            raise
    return explain_run(merge_sources(read_sources([name], maps or {}), given))


def _of_report(path: Path) -> Run | None:
    """The Run inside a page that hwdyno wrote, or inside the one page or document of a folder; raises ``UserError``."""
    from hwdyno.report.embedding import run_in_page
    from hwdyno.system.store import from_json

    if path.is_dir() and path.name != "last":
        inside = sorted({*path.glob("*.html"), *path.glob("*.json")})
        if len(inside) != 1:
            has = ", ".join(path.name for path in inside[:3]) or "neither"
            raise UserError(f"{path} is a folder, and a Run is one page (.html) or document (.json) in it: has {has}")
        return load_run(str(inside[0]), None)
    if path.suffix not in {".html", ".htm"} or not path.is_file():
        return None
    try:
        text = run_in_page(path.read_text(encoding="utf-8", errors="replace"))
        return None if text is None else from_json(text, path.name)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} has no Run that can be read: {error}") from None


def runs_in(names: Sequence[str], where: str | None) -> Iterator[tuple[str, Run]]:
    """The Runs that are named, and those of each folder that is, with what each was read by; raises ``UserError``."""
    from hwdyno.system.store import open_store

    store = open_store(where)
    for name in names:
        folder = Path(name)
        if not folder.is_dir():
            yield name, load_run(name, where)
            continue
        documents = sorted((folder / "runs" if (folder / "runs").is_dir() else folder).glob("*.json"))
        if not documents:
            raise UserError(f"{folder} has no Run documents (*.json); name a folder that has some")
        for path in documents:
            if (run := _read(store, path)) is not None:
                yield str(path), run


def _read(store: Store | TeamStore, path: Path) -> Run | None:
    from hwdyno.system.store import StoreError

    try:
        return store.load(path)
    except StoreError as error:
        sys.stderr.write(f"hwdyno: {error}\n")
        return None


def read_head(path: Path) -> str:
    """How a file begins; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(65536).decode(errors="replace")
    except OSError:
        return ""


_JSON = re.compile(r"\s*(?:\{|\[\s*[\[{\"\]])")
"""Begins a document; a log's line may begin with its time in brackets."""


def _is_foreign(path: Path) -> bool:
    """Whether a file is another tool's output, a table or any other text, and no document of hwdyno's."""
    from hwdyno import formats

    if not path.is_file():
        return False
    try:
        text = formats.read_result_file(path)
    except UserError:
        return False
    may_be_ours = _JSON.match(text) is not None
    return '"hwdyno.run/' not in text[:65536] and (not may_be_ours or formats.is_known(text))


def _add_ceilings(run: Run, given: Ceilings | None) -> Run:
    """The Run with the ceilings that options give; itself where they give none."""
    if given is None:
        return run
    results = []
    for experiment in run.experiments:
        ceilings = tuple(dict.fromkeys((*experiment.ceilings, *given(experiment.resource))))
        results.append(experiment if ceilings == experiment.ceilings else replace(experiment, ceilings=ceilings))
    changed = any(new is not old for new, old in zip(results, run.experiments, strict=True))
    return replace(run, experiments=tuple(results)) if changed else run


# --- reading


@dataclass(frozen=True)
class ResultFile:
    """One file: its name, the Runs in it, and how its columns were read."""

    name: str
    runs: tuple[Run, ...]
    readings: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether hwdyno measured it."""
        return any(not run.imported_from for run in self.runs)


def read_sources(names: Sequence[str], maps: Mapping[str, str]) -> list[ResultFile]:
    """Read every file. Raises ``UserError`` in one line."""
    from hwdyno import formats
    from hwdyno.formats import published, table_rows

    texts = list[tuple[str, str | None]]()
    for name in names:
        if not name:
            raise UserError("an empty name is no file; name a file, or - for the standard input")
        if name != STDIN and Path(name).is_dir():
            texts.append((name, None))
            continue
        text = _stdin() if name == STDIN else formats.read_result_file(Path(name))
        texts.append((("clipboard" if name == STDIN else name), text))
    heads = [head for _, text in texts if maps and text for head in published.list_heads(text)]
    for wanted in maps:
        if not any(table_rows.is_head(wanted, head) for head in heads):
            from hwdyno.system.suggestions import hint

            raise UserError(f"--map names the column '{wanted}', which no table has; {hint(wanted, heads)}")
    return [_source(name, text, maps) for name, text in texts]


def _stdin() -> str:
    from hwdyno.formats.compressed import unpack
    from hwdyno.system import foreign

    data = foreign.read_at_most(sys.stdin.buffer, LARGEST_STDIN + 1)
    if len(data) > LARGEST_STDIN:
        raise UserError(f"the input is larger than {LARGEST_STDIN >> 20} MiB; write it to a file")
    return unpack(data, "the input").decode(errors="replace")


def _source(name: str, text: str | None, maps: Mapping[str, str]) -> ResultFile:
    """What a file or, without a text, a folder has."""
    from hwdyno import formats
    from hwdyno.system.store import from_json

    if text is None:
        return ResultFile(name, (formats.read_folder(Path(name)),))
    if '"hwdyno.run/' in text[:65536]:
        return ResultFile(name, (from_json(text.encode()),))
    runs, readings = formats.read_every(text, name, maps)
    return ResultFile(name, tuple(runs), tuple(readings))


def parse_maps(texts: Iterable[str]) -> dict[str, str]:
    """The columns that ``--map`` names, with what each is. Raises ``UserError``."""
    found = {}
    for text in texts:
        head, mark, unit = text.rpartition("=")
        if not mark or not head.strip() or not unit.strip():
            raise UserError(f"'{text}' does not map a column; write --map 'bw=MB/s' or --map 'delay=lat us'")
        found[head.strip()] = unit.strip()
    return found


# --- ceilings


def ceilings_given(
    ceilings: Sequence[str], links: Sequence[str] = (), devices: Sequence[str] = (), *, limits: bool = False
) -> Ceilings | None:
    """The ceilings of a resource that the options give; none where they give none. Raises ``UserError``.

    With ``limits`` a ceiling without a class is what nothing may exceed, else a maker's figure.
    """
    from hwdyno.analysis.ceilings import parse_given
    from hwdyno.analysis.ceilings.limits import known_ceilings

    if not (ceilings or links or devices):
        return None

    def find_ceilings(resource: str) -> tuple[Ceiling, ...]:
        return known_ceilings(resource, ceilings, links, devices, _limit if limits else parse_given)

    find_ceilings("")  # What cannot be read is refused now.
    return find_ceilings


def _limit(text: str) -> Ceiling:
    """A ceiling from the command line; without a class it is a limit, which nothing may exceed."""
    from hwdyno.analysis.ceilings import parse_given

    first = text.split()[0].lower() if text.split() else ""
    if first in {"rated", "reference"}:
        return parse_given(text)
    limit = parse_given(text if first == "physical" else f"physical {text}")
    return replace(limit, formula="given", label="the stated link or device")


def _named_ceilings(result: ExperimentResult) -> tuple[Ceiling, ...]:
    """The ceilings of the device and the link that a table's rows name."""
    from hwdyno.analysis.ceilings.named import device_ceilings, link_ceilings, link_rate, only_link

    found: list[Ceiling] = []
    found += device_ceilings(str(result.fixed.get("device") or ""), result.resource)
    link = str(result.fixed.get("link") or "")
    rate = link_rate(link, most=True) if link else only_link(result.asks)
    if rate is not None and not any(ceiling.kind == "physical" for ceiling in found):
        found += link_ceilings(rate, result.resource)
    return tuple(found)


def merge_sources(sources: Sequence[ResultFile], given: Ceilings | None = None) -> Run:
    """All files as one Run, each experiment with its ceilings."""
    from hwdyno.model.words import Run

    runs = [run for source in sources for run in source.runs]
    names: set[str] = set()
    experiments = []
    for run in runs:
        for result in run.experiments:
            ceilings = (
                ()
                if result.kernel == "claim"
                else (*_named_ceilings(result), *(given(result.resource) if given else ()))
            )
            name, number = result.name, 1
            while name in names:
                number += 1
                head, mark, tail = result.name.partition("@")
                name = f"{head}-{number}{mark}{tail}"
            names.add(name)
            experiments.append(replace(result, name=name, ceilings=tuple(dict.fromkeys((*result.ceilings, *ceilings)))))
    if len(runs) == 1:
        return replace(runs[0], experiments=tuple(experiments))
    digest = hashlib.sha256(" ".join(run.id for run in runs).encode()).hexdigest()[:8]
    kinds = dict.fromkeys(run.imported_from or "hwdyno" for run in runs)
    return Run(
        id=f"audit-{digest}",
        started="",
        finished=None,
        machines=(),
        profile="imported",
        command="hwdyno audit " + " ".join(source.name for source in sources),
        experiments=tuple(experiments),
        imported_from=", ".join(kinds),
        notes=tuple(note for run in runs for note in run.notes),
    )
