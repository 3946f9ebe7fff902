"""A request to measure: the places, the axes, the profile, and the scenario's options."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.measure.plan import NO_LIMITS, Limits
from hwdyno.model.words import UserError
from hwdyno.system.urls import OBJECT_STORE, format_place, in_object_store, split_place

if TYPE_CHECKING:
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan
    from hwdyno.measure.sweep import Sweep

Chosen = tuple["Experiment", Mapping[str, Any]]
"""An experiment with the axes that were given for it."""


@dataclass(frozen=True)
class Option:
    """One option of a scenario, as the command line and a plan file take it."""

    flag: str
    """``--samples``; a name without dashes takes all other words."""
    help: str
    metavar: str | None = None
    kind: type = str
    """``bool`` for a switch."""
    default: Any = None
    is_list: bool = False
    """Whether it may come several times."""
    keyword: str = ""
    """Its name in a request, where that is not the flag's."""
    group: str = ""
    """The title above it in the help, where that is not its scenario's."""

    @property
    def name(self) -> str:
        """Its name in a request."""
        return self.keyword or self.flag.lstrip("-").replace("-", "_")

    def parse_value(self, value: Any) -> Any:
        """A plan file's value as the command line would have it; raises ``UserError``."""
        values = [str(part) for part in value] if isinstance(value, list) else None
        if self.is_list or not self.flag.startswith("-"):
            return values or [str(value)]
        if self.kind is str:
            return ",".join(values) if values else str(value)
        is_right = isinstance(value, bool) if self.kind is bool else isinstance(value, int | float)
        if not is_right or (self.kind is not bool and isinstance(value, bool)):
            raise UserError(f"{self.name} = {value!r} is of the wrong type")
        return value


@dataclass(frozen=True)
class PlanFile:
    """A plan file of ``hwdyno run``, and the settings that replace those in it."""

    path: Path
    replaces: Mapping[str, Any] = field(default_factory=dict)
    """Settings by the key of the file, such as ``profile``."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to measure, where, and by which profile: what the command line and the Python API both make."""

    places: tuple[tuple[str, Path], ...]
    """Storages by name."""
    name: str = "run"
    """The command that measures it: ``run``, ``storage``, ``storage job`` … ``study``."""
    command: str = "hwdyno"
    """The whole command line, which the Run keeps."""
    experiments: tuple[str, ...] = ()
    """Names of experiments, and for ``run`` also of resources; the command's default ones where none is named."""
    plan_file: PlanFile | None = None
    profile: str = "quick"
    axes: Mapping[str, Any] = field(default_factory=dict)
    load: str | None = None
    peers: bool = False
    seed: int | None = None
    budget_s: float | None = None
    limits: Limits = NO_LIMITS
    study: str = ""
    destroy: str = ""
    """The raw device whose data the user allowed to destroy; empty for none."""
    serial: str = ""
    """Its serial number, as it was typed."""
    dry_run: bool = False
    """Whether its points are only listed, so that what they run on may be missing."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The scenario's own, by name."""
    only: frozenset[str] = frozenset()
    """The catalogue's experiments that are wanted; all of the scenario's where none is named."""
    is_brief: bool = False
    """Whether it is a part of ``hwdyno run``: small data in a directory of the run, and times as the plan has them."""

    def wants(self, experiment: str) -> bool:
        """Whether an experiment of the catalogue is to be measured."""
        return not self.only or experiment in self.only

    def as_part(self, experiment: Experiment, time_share: float, quick: Sweep | None = None) -> Experiment:
        """The experiment as ``hwdyno run`` measures it: readings of that share of its resource's time."""
        if not self.is_brief:
            return experiment
        return replace(experiment, time_share=time_share, quick=quick)

    def check_places(self) -> None:
        """Raise ``UserError`` for a place that is not a directory, and for a store without a bucket."""
        for _, path in self.places:
            if in_object_store(path):
                if not split_place(path)[0]:
                    raise UserError("--path s3:// names no bucket; use s3://BUCKET/PREFIX")
            elif not self.is_brief and not path.is_dir():
                raise UserError(f"--path {path} is not a directory; create it or name another")

    def plan(self, chosen: Sequence[Chosen], host: Host) -> Plan:
        """The plan of the given experiments with this request's settings."""
        from hwdyno.measure import plan as plans

        made = plans.build(
            chosen,
            host,
            profile=self.profile,
            path=self.places[0][1],
            load=self.load,
            peers=self.peers,
            seed=self.seed,
            budget_s=self.budget_s,
            command=self.command,
            study=self.study,
            limits=self.limits,
        )
        return replace(made, destroy=self.destroy, serial=self.serial)


def parse_place(text: str) -> tuple[str, Path]:
    """A storage by its name, from ``DIR``, ``NAME=DIR``, ``s3://BUCKET/PREFIX`` or ``NAME=s3://…``."""
    name, equals, path = text.partition("=")
    if text.startswith(OBJECT_STORE) or path.startswith(OBJECT_STORE):
        place = Path(text if text.startswith(OBJECT_STORE) else path)
        return (place.name if text.startswith(OBJECT_STORE) else name), place
    if equals and not Path(text).exists():
        return name, Path(path).absolute()
    return Path(text).name, Path(text).absolute()


def refuse_stores(request: Request) -> None:
    """Raise ``UserError`` where a place is in an object store, for what works on files alone."""
    for _, path in request.places:
        if in_object_store(path):
            raise UserError(
                f"--path {format_place(path)}: this test works on files; training, training --checkpoint, inference "
                "--cold, --kv-cache and --vector-search also take an object store, and hwdyno object measures one"
            )


def free_bytes(path: Path) -> int:
    """Free room where ``path`` is, or will be."""
    there = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    return shutil.disk_usage(there).free


def bytes_below(folder: Path) -> int:
    """Bytes of all files below a folder; 0 where there is none."""
    return sum((Path(root) / name).lstat().st_size for root, _, names in os.walk(folder) for name in names)
