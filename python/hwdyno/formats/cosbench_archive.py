"""Reads COSBench's folder of an archived workload into a Run: the CSV of its operations, and the workers of its XML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hwdyno.formats import cosbench, printed
from hwdyno.formats.result_folder import ResultFolder
from hwdyno.model.words import ExperimentResult, Run, UserError
from hwdyno.system import foreign

NAME = "cosbench-archive"
CONFIGURATION = "workload-config.xml"
MAX_WORKERS = 10**6


def recognizes_folder(folder: ResultFolder) -> bool:
    """Whether a folder has an archived workload of COSBench."""
    return next(_list_workloads(folder), None) is not None


def read_folder(folder: ResultFolder) -> Run:
    """Read every workload of a folder. Raises ``UserError`` in one line where none has a figure."""
    experiments, texts, refused = list[ExperimentResult](), list[str](), list[UserError]()
    for below in _list_workloads(folder):
        workers = read_workers(folder.text(f"{below}{CONFIGURATION}"), f"{below}{CONFIGURATION}")
        for name in folder.files:
            if name.rpartition("/")[0] != below.rstrip("/") or not name.endswith(".csv"):
                continue
            text = folder.text(name)
            if cosbench.recognizes(text):
                try:
                    experiments.append(cosbench.read_stages(text, name, workers))
                    texts.append(text)
                except UserError as error:
                    refused.append(error)
    if refused and not experiments:
        raise refused[0]
    return printed.run(NAME, "COSBench", "\n".join(texts), str(folder.root), experiments)


def _list_workloads(folder: ResultFolder) -> Iterator[str]:
    """The folders with a workload's configuration, each with ``/`` at its end."""
    yield from (name.removesuffix(CONFIGURATION) for name in folder.files if f"/{name}".endswith(f"/{CONFIGURATION}"))


def read_workers(text: str, name: str) -> dict[str, int]:
    """The workers of each stage that does work, by the name that the CSV has for it. Raises ``UserError``."""
    root, found = foreign.parse_xml(text, name), dict[str, int]()
    for at, stage in enumerate(root.iter("workstage"), 1):
        workers = sum(_count_workers(work) for work in stage.iter("work"))
        if 0 < workers <= MAX_WORKERS:
            found[f"s{at}-{stage.get('name') or ''}"] = workers
    return found


def _count_workers(work: Any) -> int:
    text = work.get("workers") or ""
    return int(text) if text.isdecimal() and len(text) <= 7 else 0
