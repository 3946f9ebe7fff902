"""Reads the documents of one run: its summary, its metadata, the configuration, the changed parameters, its stamp."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hwdyno.formats.mlpstorage_runs.leaves import METADATA, Leaf
from hwdyno.formats.result_folder import ResultFolder
from hwdyno.model.units import as_number
from hwdyno.model.words import UserError
from hwdyno.system import foreign

_SUMMARIES = {
    "vector_database": (
        "summary.json", "vectordb/enhanced/enhanced_statistics.json", "statistics.json",
        "vectordb/enhanced/vdb_multi_node_summary.json",
    ),
    "kv_cache": ("summary.json",),
}  # fmt: skip
LARGEST_CONFIGURATION = 64 << 10
"""A configuration has 1 or 2 kB."""


@dataclass(slots=True)
class Documents:
    """What a run's files have; empty where a file is absent or cannot be read."""

    leaf: Leaf
    summary: dict[str, Any] = field(default_factory=dict)
    summary_text: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    configuration: dict[str, Any] = field(default_factory=dict)
    overrides: dict[str, str] | None = None
    """The changed parameters of ``overrides.yaml``; none without that file."""
    stamp: dict[str, Any] = field(default_factory=dict)
    verdict: dict[str, Any] = field(default_factory=dict)
    loaded: dict[str, Any] = field(default_factory=dict)
    separation: dict[str, Any] = field(default_factory=dict)
    """Whether data and results are on different filesystems, as mlpstorage probed it."""
    refused: list[str] = field(default_factory=list)
    """Why a file could not be read, a phrase each."""

    def number(self, *paths: str) -> float | None:
        """The first number under a list of dotted paths, as ``metadata.args.num_processes``."""
        found = (as_number(self.value(path)) for path in paths)
        return next((number for number in found if number is not None), None)

    def text(self, *paths: str) -> str:
        """The first text under a list of dotted paths; empty without one."""
        found = (self.value(path) for path in paths)
        return next((value for value in found if isinstance(value, str) and value), "")

    def value(self, path: str) -> Any:
        """What is under a dotted path of the documents; ``parameters.`` looks wherever they are stated."""
        name, _, inside = path.partition(".")
        if name == "parameters":
            places = (
                self.metadata.get("parameters"), self.metadata.get("combined_params"),
                self.configuration.get("workload", self.configuration),
            )  # fmt: skip
            return next((value for place in places if (value := _dig(place, inside)) is not None), None)
        return _dig(getattr(self, name), inside)


def _dig(table: Any, path: str) -> Any:
    for part in path.split("."):
        table = table.get(part) if isinstance(table, Mapping) else None
    return table


def read_documents(folder: ResultFolder, leaf: Leaf) -> Documents:
    """Read what a run has; what cannot be read is refused in a phrase."""
    found = Documents(leaf)
    found.metadata = _without_hardware(_json(folder, leaf.find(METADATA), found.refused))
    kind = leaf.kind or str(found.metadata.get("benchmark_type") or "")
    summary = leaf.find(*_SUMMARIES.get(kind, ("summary.json",)))
    if not summary:
        name = next((name for name in leaf.files if re.fullmatch(r"kvcache_run_summary\w*\.json", name)), "")
        summary = f"{leaf.folder}/{name}".lstrip("/") if name else leaf.find("statistics.json")
    found.summary_text, found.summary = _text_and_json(folder, summary, found.refused)
    found.configuration = _yaml(folder, leaf.find("/config.yaml"), found.refused)
    found.overrides = _overrides(folder, leaf.find("/overrides.yaml"), found.refused)
    found.stamp = _json(folder, leaf.find("provenance.json"), found.refused)
    found.verdict = _json(folder, leaf.find("result_verdict.json"), found.refused)
    found.loaded = _json(folder, leaf.find("load_statistics.json"), found.refused)
    found.separation = _json(folder, leaf.find("fs_separation.json"), found.refused)
    return found


def _without_hardware(metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata without its lists of each host's disks and interfaces, three times a megabyte with 50 hosts."""
    kept = {key: value for key, value in metadata.items() if key != "cluster_snapshots"}
    if isinstance(system := kept.get("system_info"), Mapping):
        kept["system_info"] = {key: value for key, value in system.items() if key != "hosts"}
    return kept


def _text_and_json(folder: ResultFolder, name: str, refused: list[str]) -> tuple[str, dict[str, Any]]:
    if not name:
        return "", {}
    try:
        text = folder.text(name)
        document = foreign.parse_json(text, name)
    except UserError as error:
        refused.append(str(error))
        return "", {}
    if not isinstance(document, dict):
        refused.append(f"{name} has no table")
        return "", {}
    return text, document


def _json(folder: ResultFolder, name: str, refused: list[str]) -> dict[str, Any]:
    return _text_and_json(folder, name, refused)[1]


def _parse_yaml(folder: ResultFolder, name: str, refused: list[str]) -> Any:
    if not name:
        return None
    try:
        return foreign.parse_yaml(folder.text(name, LARGEST_CONFIGURATION, is_slow=True), name)
    except UserError as error:
        refused.append(re.sub(r"\s+", " ", str(error)))
        return None


def _yaml(folder: ResultFolder, name: str, refused: list[str]) -> dict[str, Any]:
    document = _parse_yaml(folder, name, refused)
    return document if isinstance(document, dict) else {}


def _overrides(folder: ResultFolder, name: str, refused: list[str]) -> dict[str, str] | None:
    """Hydra's list of what the command line changed, as ``++workload.reader.read_threads=4``."""
    document = _parse_yaml(folder, name, refused)
    if not isinstance(document, list):
        return None
    found = {}
    for entry in document:
        key, equals, value = str(entry).lstrip("+~").partition("=")
        if equals:
            found[key] = value
    return found
