"""Reads a plan from a TOML file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from hwdyno.measure import experiments as catalogue
from hwdyno.measure.experiments import Experiment
from hwdyno.measure.plan.plan import Limits
from hwdyno.measure.plan.planning import Given, PlannedSite, select
from hwdyno.measure.sweep import Sweep
from hwdyno.model.units import parse_duration
from hwdyno.model.words import Scalar, UserError
from hwdyno.system import foreign
from hwdyno.system.store.former_names import kernel_of_today
from hwdyno.system.suggestions import hint

Made = TypeVar("Made")
LARGEST_FILE = 1 << 20
"""Bytes of a plan file."""
_TOP = {
    "profile": str,
    "path": str,
    "peers": bool,
    "seed": int,
    "only": list,
    "budget": (str, int, float),
    "ceilings": list,
    "links": list,
    "devices": list,
}
_LISTS_OF_NAMES = {"only", "ceilings", "links", "devices"}
_TOP_TABLES = {"experiment"}
_ENTRY = {"name": str, "axes": dict, "options": dict, "kernel": str, "asks": str, "load": str}


def read_toml(
    path: Path,
    target: PlannedSite,
    make: Callable[..., Made],
    overrides: Given | None = None,
    command: str = "hwdyno run",
) -> Made:
    """The result of ``make``, which has the signature of ``build``, for the experiments in a TOML file."""
    if not path.exists():
        raise UserError(f"plan file {path} does not exist")
    document = foreign.parse_toml(foreign.read_text(path, LARGEST_FILE, "a TOML file"), str(path))
    _check_keys(document, _TOP | dict.fromkeys(_TOP_TABLES, list), str(path))
    options = {**document, **{key: value for key, value in (overrides or {}).items() if value is not None}}
    entries = document.get("experiment", [])
    if entries and "only" in document:
        raise UserError(f"{path}: use either 'only' or [[experiment]] entries, not both")
    chosen = (
        [pair for entry in entries for pair in _entry(entry, path)] if entries else select(options.get("only"), target)
    )
    try:
        return make(
            chosen,
            target,
            profile=options.get("profile", "quick"),
            path=None if options.get("path") is None else Path(options["path"]),
            peers=options.get("peers", False),
            seed=options.get("seed"),
            budget_s=parse_duration(options["budget"]) if "budget" in options else None,
            command=command,
            limits=Limits(*(tuple(options.get(name, ())) for name in ("ceilings", "links", "devices"))),
        )
    except UserError as error:
        raise UserError(f"{path}: {str(error).replace('--', '')}") from None


def _check_keys(table: Any, known: Mapping[str, Any], where: str) -> None:
    if not isinstance(table, dict):
        raise UserError(f"{where}: must be a table")
    for key, value in table.items():
        if key not in known:
            raise UserError(f"{where}: unknown key '{key}'; {hint(key, known)}")
        if not isinstance(value, known[key]) or (known[key] is int and isinstance(value, bool)):
            raise UserError(f"{where}: {key} = {value!r} is of the wrong type")
        if key in _LISTS_OF_NAMES and not all(isinstance(name, str) for name in value):
            raise UserError(f"{where}: {key} = {value!r} must be a list of strings")


def _entry(entry: Any, path: Path) -> list[tuple[Experiment, Given]]:
    where = f"{path}: [[experiment]]"
    _check_keys(entry, _ENTRY, where)
    axes = entry.get("axes", {})
    for name, value in axes.items():
        if not all(isinstance(scalar, Scalar) for scalar in (value if isinstance(value, list) else [value])):
            raise UserError(f"{where}: axes.{name} = {value!r}: must be a value, or a list of values")
    if "kernel" not in entry:
        if "name" not in entry:
            raise UserError(f"{where} needs a name, such as storage.iodepth")
        found, options = catalogue.find(entry["name"]), entry.get("options", {})
        return [(replace(base, load=entry.get("load", base.load), options=options), axes) for base in found]
    missing = [key for key in ("name", "load") if key not in entry]
    if missing:
        raise UserError(f"{where} with its own kernel also needs {' and '.join(missing)}")
    kernel = kernel_of_today(entry["kernel"])
    like = next((experiment for experiment in catalogue.all() if experiment.kernel == kernel), None)
    custom = Experiment(
        name=entry["name"],
        asks=entry.get("asks", f"{kernel} by {entry['load']}"),
        kernel=kernel,
        load=entry["load"],
        sweep=Sweep(axes),
        needs=like.needs if like else (),
        check=like.check if like else None,
        ceilings=like.ceilings if like else (),
        peers=like.peers if like else (),
        fixed=like.fixed if like else {},
        writes=like.writes if like else None,
    )
    return [(custom, axes)]
