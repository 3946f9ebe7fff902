"""Reads a results folder of ``mlpstorage`` (MLPerf Storage: training, checkpoints, vectors, KV cache) into a Run."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from hwdyno.analysis.mlperf_storage import CHECKED_BY, EDITIONS, LATEST, RunFacts, judge_runs
from hwdyno.formats import printed
from hwdyno.formats.mlpstorage_runs import (
    MLPERF,
    Documents,
    find_leaves,
    find_phase,
    make_points,
    read_documents,
    state_facts,
)
from hwdyno.formats.result_folder import ResultFolder
from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Note
from hwdyno.model.units import plural
from hwdyno.model.words import ExperimentResult, Measurement, Run, UserError

NAME = "mlpstorage-folder"
MAX_EXAMPLES = 3
MAX_HOSTS = 256
_TITLES = {
    "training": "Training", "checkpointing": "Checkpoints", "vector_database": "Vector search", "kv_cache": "KV cache",
}  # fmt: skip
_RESOURCES = {"vector_database": "inference", "kv_cache": "inference"}
_NOT_CHECKED = (
    "the rules on code images, system descriptions and file names "
    "(Rules.md 2.1.1 to 2.1.9, 2.1.13 to 2.1.16, 3.6.1, 4.7.2 to 4.7.4, 5.2.2, 5.4.1, 5.5 to 5.6.1, 6.4 to 6.6)"
)


@dataclass(slots=True)
class _Group:
    """All runs of one workload of one system."""

    runs: list[tuple[Documents, RunFacts]] = field(default_factory=list)
    without_result: list[str] = field(default_factory=list)
    made: list[Documents] = field(default_factory=list)
    sized: list[Documents] = field(default_factory=list)
    points: list[Measurement] = field(default_factory=list)
    checkpoints: list[Measurement] = field(default_factory=list)


def recognizes_folder(folder: ResultFolder) -> bool:
    """Whether a folder has a run of mlpstorage or of DLIO."""
    return bool(find_leaves(folder))


def read_folder(folder: ResultFolder) -> Run:
    """Read every run of a folder. Raises ``UserError`` in one line where none has a figure."""
    groups, refused = _read_groups(folder)
    experiments, undecided = list[ExperimentResult](), Counter[str]()
    for group in groups:
        facts = [RunFacts.from_details(point.details[MLPERF]) for point in group.points]
        for found in judge_runs(facts):
            if found.is_unknown:
                undecided[f"{found.source} ({found.name}): {found.says}"] += len({fact.run for fact in facts})
        experiments += _make_experiments(group)
    points = [point for group in groups for point in group.points]
    if not points:
        why = f": {refused[0]}" if refused else ""
        raise UserError(f"{folder.root} has runs of {CHECKED_BY} without figures{why}")
    if len(points) > printed.MAX_POINTS:
        raise UserError(f"{folder.root} has more than {printed.MAX_POINTS} results; name a smaller folder")
    digest = hashlib.sha256(repr([result.points for result in experiments]).encode(errors="replace")).hexdigest()[:8]
    return Run(
        id=f"{NAME}-undated-{digest}",
        started="",
        finished=None,
        machines=_list_machines(points),
        profile="imported",
        command=f"{CHECKED_BY} ({_one_line(str(folder.root))})",
        experiments=tuple(_number_names(experiments)),
        imported_from=NAME,
        notes=(*_notes_on_rules(points, undecided), *_notes_on_files(folder, refused)),
    )


def _list_machines(points: Sequence[Measurement]) -> tuple[Machine, ...]:
    """The hosts that rows are named by, so that a report leaves out their names; else one of which nothing is known."""
    hosts = sorted({str(point.parameters["host"]) for point in points if "host" in point.parameters})
    unknown = dict.fromkeys(("cpu", "memory"), printed.WHY)
    return tuple(Machine(hostname=host, unknown=unknown) for host in hosts[:MAX_HOSTS]) or (Machine(unknown=unknown),)


def _read_groups(folder: ResultFolder) -> tuple[list[_Group], list[str]]:
    """The runs of each workload, and why files or runs could not be read."""
    groups: dict[tuple[str, ...], _Group] = {}
    phases: dict[str, list[tuple[str, Documents]]] = {}
    refused = []
    for leaf in find_leaves(folder):
        found = read_documents(folder, leaf)
        refused += found.refused
        if (phase := find_phase(found)) != "run":
            phases.setdefault(leaf.group, []).append((phase, found))
            continue
        facts = state_facts(found)
        of = (leaf.group, facts.kind, facts.workload, facts.accelerator, facts.division)
        group = groups.setdefault(of, _Group())
        group.runs.append((found, facts))
    for key, group in groups.items():
        for phase, found in phases.get(key[0], ()):
            (group.made if phase == "datagen" else group.sized).append(found)
        refused += _fill(group)
    return [groups[key] for key in sorted(groups)], refused


def _fill(group: _Group) -> list[str]:
    """Add the points of a group's runs, in their order; why some have none."""
    refused = []
    rows: list[tuple[Documents, RunFacts, list[Measurement]]] = []
    for found, facts in sorted(group.runs, key=lambda run: _natural(run[1].run)):
        try:
            points, checkpoints = make_points(found, facts)
        except UserError as error:
            group.without_result.append(facts.run)
            refused.append(str(error))
            continue
        group.checkpoints += checkpoints
        rows.append((found, facts, points))
    shared = _shared_facts(group)
    for _, _, points in rows:
        group.points += [
            replace(point, details={**point.details, MLPERF: {**point.details[MLPERF], **shared}}) for point in points
        ]
    return refused


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts ``run2`` before ``run10``."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d{1,18})", name)]


def _shared_facts(group: _Group) -> dict[str, object]:
    """What the group's folders state of all its runs."""
    names = sorted({facts.run for _, facts in group.runs}, key=_natural)
    sizes = [
        files * per_file * record
        for found in group.made
        if (files := found.number("parameters.dataset.num_files_train"))
        and (per_file := found.number("parameters.dataset.num_samples_per_file"))
        and (record := found.number("parameters.dataset.record_length_bytes", "parameters.dataset.record_length"))
    ]
    sized = [files for found in group.sized if (files := found.number("parameters.dataset.num_files_train"))]
    loaded = [
        (found.number("summary.inserted_vectors", "loaded.inserted_vectors"),
         found.number("summary.dimension", "loaded.dimension", "metadata.args.dimension"),
         found.number("metadata.args.num_vectors"))
        for found in group.made
    ]  # fmt: skip
    phases = [name for name, found in (("datagen", group.made), ("datasize", group.sized)) if found]
    return RunFacts(
        # Where the folder is one run itself, the others may be beside it.
        run_folders=None if any(not found.leaf.folder for found, _ in group.runs) else float(len(names)),
        first_run=names[0],
        without_result=tuple(group.without_result[:MAX_EXAMPLES]),
        phases=tuple(phases),
        made_bytes=max(sizes, default=None),
        sized_files=sized[-1] if sized else None,
        inserted=loaded[-1][0] if loaded else None,
        loaded_dimension=loaded[-1][1] if loaded else None,
        vectors=loaded[-1][2] if loaded else None,
    ).to_details()


def _make_experiments(group: _Group) -> list[ExperimentResult]:
    if not group.points:
        return []
    facts = RunFacts.from_details(group.points[0].details[MLPERF])
    resource = _RESOURCES.get(facts.kind, "training")
    slug = re.sub(r"[^a-z0-9]+", "_", f"{facts.workload} {facts.accelerator}".lower()).strip("_") or facts.kind
    where = ", ".join(filter(None, (facts.division, facts.system)))
    title = (
        f"{_TITLES[facts.kind]}: {facts.workload or 'unnamed'}{f' on {facts.accelerator}' if facts.accelerator else ''}"
    )
    asks = f"{title} ({where})" if where else title
    made = printed.experiment(f"{resource}.mlperf_{slug}", asks, CHECKED_BY, "run", group.points)
    found = [printed.counting(made, "query" if facts.kind == "vector_database" else "")]
    if group.checkpoints:
        name, title = f"{made.name}_checkpoints", f"{asks}, its checkpoints"
        # The rules are of the training, and judge it once.
        plain = [
            replace(point, details={key: value for key, value in point.details.items() if key != MLPERF})
            for point in group.checkpoints
        ]
        found.append(printed.experiment(name, title, CHECKED_BY, "run", plain))
    return found


def _number_names(experiments: Iterable[ExperimentResult]) -> list[ExperimentResult]:
    """The experiments, each with a name that no other has."""
    seen, found = Counter[str](), []
    for result in experiments:
        seen[result.name] += 1
        number = seen[result.name]
        found.append(result if number == 1 else replace(result, name=f"{result.name}-{number}"))
    return found


def _notes_on_rules(points: Sequence[Measurement], undecided: Counter[str]) -> list[Note]:
    facts = [RunFacts.from_details(point.details[MLPERF]) for point in points]
    editions = Counter(fact.edition for fact in facts)
    by_edition = [
        f"MLPerf Storage {edition} for {plural(number, 'result')}"
        if edition in EDITIONS
        else f"MLPerf Storage {LATEST} for {plural(number, 'result')} that state {edition or 'no edition'}"
        for edition, number in sorted(editions.items())
    ]
    notes = [
        Note("submission", f"{CHECKED_BY} alone makes one; hwdyno checks its results, and submits nothing"),
        Note("rules", f"{', '.join(by_edition)}, by the stamp of a run or by its layout"),
        Note("not_checked", _NOT_CHECKED),
    ]
    if any(fact.kind != "vector_database" for fact in facts):
        notes.append(Note("units", "the files print MiB/s as MB/s and GiB/s as GB/s; here MB are 10^6 bytes"))
    return notes + [Note("unknown", f"{says} ({plural(number, 'run')})") for says, number in sorted(undecided.items())]


def _notes_on_files(folder: ResultFolder, refused: Sequence[str]) -> list[Note]:
    """Which files were not read: those that could not be, by reason, and how many more there are."""
    reasons = [*refused, *folder.left_out]
    notes = [Note(printed.NOT_READ, _one_line(reason)) for reason in reasons[:MAX_EXAMPLES]]
    if len(reasons) > MAX_EXAMPLES:
        notes.append(Note(printed.NOT_READ, f"{len(reasons) - MAX_EXAMPLES} more that could not be read"))
    unread = folder.list_unread()
    if unread:
        notes.append(Note(printed.NOT_READ, f"{plural(len(unread), 'file')}, for example {_one_line(unread[0])}"))
    return notes


def _one_line(text: str) -> str:
    """A text as it may be printed and kept: one line, whole characters, not too long."""
    whole = text.encode(errors="replace").decode(errors="replace").replace("\0", "?")
    return re.sub(r"\s+", " ", whole)[:300]
