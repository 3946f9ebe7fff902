"""Training: how many accelerators a storage feeds, on a generated or existing data set."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.formats.workload import TrainingWorkload
from hwdyno.measure.plan import WRITE_BYTES_S
from hwdyno.measure.scenarios import plain_gets, plain_reads
from hwdyno.measure.scenarios.file_data_set import DataSet
from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.object_data_set import has_data, make_object_data_set
from hwdyno.measure.scenarios.object_folder import CA_FILE, ENDPOINT, name_folder, reach
from hwdyno.measure.scenarios.object_store import count_client_threads
from hwdyno.measure.scenarios.preparation import Preparation
from hwdyno.measure.scenarios.request import Chosen, Option, Request, bytes_below, free_bytes
from hwdyno.measure.scenarios.scenario import Scenario
from hwdyno.model.kernels import TRAINING_LOADER
from hwdyno.model.units import format_bytes_s, format_size, parse_duration
from hwdyno.model.words import Axis, Parameters, UserError
from hwdyno.system.suggestions import hint
from hwdyno.system.urls import format_place, in_object_store

if TYPE_CHECKING:
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.hosts import Host

KERNEL = TRAINING_LOADER
DEFAULT_ACCELERATORS = "1,2,4"
QUICK_BYTES = 16 << 30
"""The most bytes that a quick run generates."""
BRIEF_BYTES = 512 << 20
"""The same for ``hwdyno run``, whose budget includes generating it."""
BRIEF_PLAIN_BYTES = 256 << 20
BRIEF_RUNTIME_SHARE, BRIEF_CLIENT_SHARE = 3.0, 1.0
ROOM_SHARE = 0.25
"""The share of the free room that a data set takes, where its size is not given."""
CLIENT_BYTES = 1 << 30
CLIENT_S = 2.0
# Beyond any run, and short enough for the engine: no limit, where an epoch's end is waited for.
UNLIMITED_S = 1e6


@dataclass(frozen=True)
class Care:
    """How long and how often a profile reads a point."""

    runtime_s: float
    repeats: tuple[int, int]
    max_bytes: float


CARE = {
    "quick": Care(6.0, (1, 1), QUICK_BYTES),
    "standard": Care(60.0, (1, 3), float("inf")),
    "full": Care(UNLIMITED_S, (3, 5), float("inf")),
}


@dataclass(frozen=True)
class StoredDataSet:
    """One storage with one workload's data set on it."""

    storage: str
    path: Path
    workload: TrainingWorkload
    accelerators: tuple[TrainingWorkload, ...]
    """The same workload for each accelerator that is emulated on it."""
    data: TrainingWorkload
    """The data set in this place; of several sizes the largest, whose first files the others read."""
    objects: Path | None = None
    """Where it is, or will be, in an object store."""

    @property
    def folder(self) -> Path:
        """Where the data set is, or will be: the path itself if it holds one."""
        if self.objects is not None or (self.path / "train").is_dir():
            return self.objects or self.path
        return self.path / f"hwdyno-{self.data.name}-{self.data.samples}"

    @property
    def ours(self) -> bool:
        """Whether the data set is hwdyno's to generate and remove."""
        return self.folder != self.path


def make(request: Request, host: Host) -> Scenario:
    """One experiment for each target and accelerator, one for what the loader itself delivers, and plain reads."""
    if request.profile not in CARE:
        raise UserError(f"no profile is called '{request.profile}'; {hint(request.profile, CARE)}")
    request = _within_budget(request)
    options, reached = request.options, reach(request)
    if reached and (options["keep"] or options["generate"]):
        raise UserError(
            "an object store keeps no generated data: leave out --keep and --generate, or upload a data set"
        )
    targets = list_targets(request, host)
    care, given = CARE[request.profile], dict(request.axes)
    runtime = given.pop("runtime", None)
    runtime_s = care.runtime_s if runtime is None else parse_duration(runtime)
    # A budget divides its time among the readings, unless their length was given.
    is_divided = runtime is None and (request.is_brief or request.budget_s is not None)
    chosen: list[Chosen] = []
    for target in targets:
        if request.wants("training.accelerators"):
            chosen += _accelerators(target, request, given, len(targets) > 1)
        if target.objects is not None:
            continue  # Neither this host's memory nor a file has what the loader reads there.
        if request.wants("training.client") and not options["no_client"] and "compute" not in given:
            chosen.append(_client(target, request, given, len(targets) > 1, is_divided=is_divided))
    timed = {} if is_divided else {"runtime": runtime_s or UNLIMITED_S}
    chosen = [(experiment, {**timed, **axes}) for experiment, axes in chosen]
    if request.wants("training.accelerators") and not options["no_plain"] and not options["generate"]:
        chosen += [] if "compute" in given else _plain_reads(targets, request, given, host, is_divided=is_divided)
    plan = request.plan(chosen, host)
    if not request.is_brief:
        low, high = care.repeats
        plan = replace(plan, profile=replace(plan.profile, runtime_s=runtime_s, repeats_min=low, repeats_max=high))
    keeps = bool(options["keep"] or options["generate"])
    sets = {target.folder: target for target in targets}.values()
    return Scenario(
        plan=plan,
        preparations=(*_list_sets(sets, reached, keeps=keeps), *plain_reads.list_files(plan)),
        needs=_needs(targets),
        is_prepared_only=bool(options["generate"]),
    )


def _list_sets(targets: Iterable[StoredDataSet], reached: Parameters, *, keeps: bool) -> Iterator[Preparation]:
    """The data set of each target; of the user's own objects there is nothing to prepare."""
    for target in targets:
        if target.objects is None:
            yield make_data_set(target, keeps=keeps)
        elif target.ours:
            yield make_object_data_set(target.folder, target.data, reached)


def max_data_bytes(request: Request) -> float:
    """The largest data set that is generated where no size was given."""
    if request.is_brief:
        return BRIEF_BYTES
    from hwdyno.measure.runner.layout import BUDGET_SHARE

    max_bytes = CARE[request.profile].max_bytes
    return max_bytes if request.budget_s is None else min(max_bytes, BUDGET_SHARE * request.budget_s * WRITE_BYTES_S)


def _within_budget(request: Request) -> Request:
    """The request with as many accelerators as a data set feeds that a short budget has time to generate."""
    if (
        request.is_brief
        or request.budget_s is None
        or {"accelerators", "samples"} & {*request.axes, *(name for name, value in request.options.items() if value)}
    ):
        return request
    batch_bytes = max(
        kind.batch_size * kind.record_bytes for kinds in choose_workloads(request.options) for kind in kinds
    )
    counts = [count for count in _accelerator_counts({}) if 2 * batch_bytes * count <= max_data_bytes(request)]
    return replace(request, axes={**request.axes, "accelerators": ",".join(map(str, counts or [1]))})


def list_targets(request: Request, host: Host) -> list[StoredDataSet]:
    """Every storage with every workload and number of samples."""
    names = [name for name, _ in request.places]
    if len(set(names)) < len(names):
        raise UserError(f"two storages have the same name ({', '.join(names)}); name them: --path NAME=DIR")
    most = max(_accelerator_counts(request.axes))
    wanted = request.options["samples"]
    request.check_places()
    targets, reached = [], reach(request)
    for name, path in request.places:
        for kinds in choose_workloads(request.options):
            sizes: list[tuple[TrainingWorkload, ...]] = []
            folders: dict[TrainingWorkload, Path] = {}
            is_remote = in_object_store(path)
            exists = is_remote and has_data(host, path, kinds[0], reached)
            for samples in sorted(_numbers(wanted, "samples")) if wanted else [None]:
                sized = [kind if exists and not samples else _size_workload(kind, samples, path, request, most)
                         for kind in kinds]  # fmt: skip
                largest = max(sized, key=lambda workload: workload.samples)
                sizes.append(tuple(workload.with_samples(largest.samples) for workload in kinds))
            for same in sizes:
                alike = [group[0] for group in sizes if group[0].samples_per_file == same[0].samples_per_file]
                data = max(alike, key=lambda workload: workload.files)
                target = StoredDataSet(name, path, same[0], same, data)
                if is_remote:
                    folders.setdefault(data, path if exists else name_folder(path))
                    target = replace(target, objects=folders[data])
                else:
                    _check_data(target)
                targets.append(target)
    return targets


def _check_data(target: StoredDataSet) -> None:
    """Refuse a folder of data that is another workload's."""
    train, kind = target.folder / "train", target.workload
    # The first file is enough: a folder may have a million.
    if target.ours or next(_files_in(train, f".{kind.format}"), None):
        return
    other = min(_files_in(train), default=None)
    raise UserError(
        f"{train} has no .{kind.format} file of {kind.name}"
        + (f", but {other}: it belongs to another workload" if other else "")
        + "; select that one with --workload, or use another --path"
    )


def _files_in(folder: Path, ending: str = "") -> Iterator[str]:
    """The names of the files below a folder, as they come."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files_in(Path(entry.path), ending)
            elif entry.name.endswith(ending):
                yield entry.name


def _numbers(values: Any, name: str, least: int = 1) -> list[int]:
    """The whole numbers of an option; raises ``UserError`` that names it."""
    from hwdyno.measure.plan import read_axis

    found = read_axis(values, {name: Axis(name, kind="integer", least=least, most=1 << 40)}, name)
    return [value for value in found if isinstance(value, int)]


def _accelerator_counts(axes: Mapping[str, Any]) -> list[int]:
    return _numbers(axes.get("accelerators", DEFAULT_ACCELERATORS), "accelerators")


def choose_workloads(options: Mapping[str, Any]) -> list[list[TrainingWorkload]]:
    """The workloads that are named, each with every accelerator that is."""
    from hwdyno.formats import dlio_yaml, workload

    found = []
    overrides = list(options["overrides"])
    for name in options["workload"].split(","):
        if name.endswith((".yaml", ".yml")):
            found.append([dlio_yaml.read(Path(name), overrides)])
            continue
        if overrides:
            raise UserError(f"{overrides[0]} applies to a DLIO file only; use --workload FILE.yaml, or an axis option")
        known = workload.catalogue().get(name, {})
        wanted = options["accelerator"].split(",") if options["accelerator"] else list(known) or [""]
        found.append([workload.find(name, accelerator) for accelerator in wanted])
    return found


def _size_workload(
    kind: TrainingWorkload, samples: int | None, path: Path, request: Request, most: int
) -> TrainingWorkload:
    """The workload on a data set of ``samples``, or of as many as this profile's time and the room allow."""
    if samples is not None:
        return kind.with_samples(samples)
    if (path / "train").is_dir():
        return kind
    care = CARE[request.profile]
    ahead = (1 + kind.read_threads * kind.prefetch) * kind.batch_size * kind.record_bytes * most
    wanted = kind.need_bytes_s * most * care.runtime_s + ahead
    least = 2 * kind.batch_size * most * kind.record_bytes
    room = math.inf if in_object_store(path) else ROOM_SHARE * free_bytes(path)
    size = max(min(wanted, max_data_bytes(request), room, kind.bytes), least)
    found = min(kind.samples, max(1, int(size / kind.record_bytes)))
    shared = most * kind.batch_size
    # So small a set is worth most where its samples are shared evenly.
    return kind.with_samples(found // shared * shared if request.is_brief and found > shared else found)


def _accelerators(target: StoredDataSet, request: Request, given: Mapping[str, Any], many: bool) -> Iterator[Chosen]:
    """The question for each accelerator."""
    from hwdyno.measure.experiments.training import ACCELERATORS

    for kind in target.accelerators:
        label = ".".join(filter(None, [kind.name, kind.accelerator, str(kind.samples) if many else ""]))
        where = f"@{target.storage}" if many else ""
        # Of so small a set a second epoch would be read from the page cache.
        brief: Parameters = {"epochs": 1} if request.is_brief else {}
        base, more = ACCELERATORS, brief
        if target.objects is not None:
            # This host has no page cache of a store, and no peer reads it here.
            base = replace(base, fixed={"seed": 10}, peers=())
            more = {**brief, "cache": "keep", **reach(request)}
        experiment = replace(_on(base, kind, target, more), name=f"training.{label}{where}")
        yield request.as_part(experiment, BRIEF_RUNTIME_SHARE), given


def _on(experiment: Experiment, kind: TrainingWorkload, target: StoredDataSet, more: Parameters) -> Experiment:
    """The experiment on a target's data set: the command names the workload, and what follows from it is settled."""
    named: Parameters = {"workload": kind.name, "accelerator": kind.accelerator}
    settled = {name: value for name, value in kind.parameters.items() if name not in {*named, *experiment.fixed}}
    places: Parameters = {"path": format_place(target.folder), "storage": target.storage, **more}
    return replace(experiment, fixed={**experiment.fixed, **named}, settled={**settled, **places})


def _client(
    target: StoredDataSet, request: Request, given: Mapping[str, Any], many: bool, *, is_divided: bool
) -> Chosen:
    """What the loader itself delivers on a part of the data set."""
    from hwdyno.measure.experiments.training import CLIENT

    kind = target.workload
    part: Parameters = {"subset": _subset(kind, max(_accelerator_counts(given)))}
    where = f".{kind.samples}@{target.storage}" if many else ""
    options = {name: value for name, value in given.items() if name not in {"cache", "epochs", "steps"}}
    experiment = _on(CLIENT, replace(kind, accelerator=""), target, part)
    experiment = replace(experiment, name=f"training.client.{kind.name}{where}")
    if request.is_brief:
        return request.as_part(experiment, BRIEF_CLIENT_SHARE), options
    if is_divided:
        return replace(experiment, time_share=CLIENT_S / CARE["quick"].runtime_s), options
    return experiment, {**options, "runtime": CLIENT_S}


def _plain_reads(
    targets: list[StoredDataSet], request: Request, given: Mapping[str, Any], host: Host, *, is_divided: bool
) -> list[Chosen]:
    """Plain reads on each storage, with each workload's size and threads; of a store plain GETs."""
    numbers, readers = _accelerator_counts(given), given.get("read_threads")
    max_bytes = BRIEF_PLAIN_BYTES if request.is_brief else plain_reads.FILE_BYTES
    found: list[Chosen] = []
    for target in {(target.storage, target.workload.name): target for target in targets}.values():
        threads = _numbers(readers, "read-threads", 0) if readers else [target.workload.read_threads]
        place = (target.storage if len(targets) > 1 else "", target.objects or target.path)
        if target.objects is not None:
            in_flight, clients = plain_reads.count_readers(numbers, threads), count_client_threads(host)
            experiment = plain_gets.make_experiment(target.workload, place, in_flight, clients, reach(request))
            timed = {} if is_divided else {"runtime": plain_gets.PLAIN_S}
            found.append((request.as_part(experiment, BRIEF_CLIENT_SHARE), timed))
            continue
        found.append((plain_reads.make_experiment(target.workload, place, numbers, threads, given, max_bytes), {}))
    return found


def _subset(kind: TrainingWorkload, most: int) -> int:
    """Files that make a data set of about a GiB, and two batches for each accelerator."""
    per_file = kind.record_bytes * kind.samples_per_file
    batches = -(-2 * kind.batch_size * most // kind.samples_per_file)
    return min(kind.files, max(1, int(CLIENT_BYTES / per_file), batches))


def _needs(targets: list[StoredDataSet]) -> tuple[str, ...]:
    """What each accelerator takes at full speed."""
    found = []
    for workload in {kind.accelerator: kind for target in targets for kind in target.accelerators}.values():
        if workload.compute_s:
            read = (
                f", {format_bytes_s(workload.need_read_bytes_s)} of the columns read" if workload.read_columns else ""
            )
            found.append(f"need: {format_bytes_s(workload.need_bytes_s)} for each {workload.accelerator}{read}")
    return tuple(found)


def make_data_set(target: StoredDataSet, *, keeps: bool) -> DataSet:
    """The data set that a target needs, with the bytes that are still missing of it."""
    from hwdyno.formats.data_set import file_bytes

    kind = target.data
    fate = ("generated and kept" if keeps else "generated and removed") if target.ours else "existing data"
    description = f"data: {kind.samples} samples of {kind.name}, {format_size(kind.bytes)}, in {target.folder} ({fate})"
    missing = max(0, file_bytes(kind) - bytes_below(target.folder)) if target.ours else 0
    return DataSet(
        description=description, where=target.folder, bytes=missing, data=kind, is_ours=target.ours, keeps=keeps
    )


def _list_workloads() -> str:
    from hwdyno.formats import workload

    return ", ".join(path.stem for path in sorted(workload.FOLDER.glob("*.toml")))


KIND = Kind(
    name="training",
    command="training",
    make=make,
    title="training workload",
    options=(
        Option("overrides", "overrides of a DLIO file, as DLIO spells them", "++workload.x.y=VALUE", default=()),
        Option("--workload", f"{_list_workloads()}, or a DLIO YAML file", "NAMES", default="unet3d"),
        Option("--accelerator", "v100, a100, h100, b200 … (default: all known)", "NAMES"),
        Option("--samples", "samples of the data set (default: by free space and time)", "COUNTS"),
        Option("--keep", "keep generated data for the next run", kind=bool, default=False),
        Option("--generate", "generate the data, keep it, and measure nothing", kind=bool, default=False),
        Option("--no-client", "skip the loader alone (data in memory)", kind=bool, default=False),
        Option("--no-plain", "skip the comparison with plain reads", kind=bool, default=False),
        ENDPOINT,
        CA_FILE,
    ),
    kernel=KERNEL,
    hidden={
        *(
            "path",
            "endpoint",
            "ca_file",
            "seed",
            "workload",
            "accelerator",
            "storage",
            "au_pass",
            "subset",
            "row_group",
            "columns",
        ),
        *("format", "files", "samples_per_file", "record_bytes", "record_bytes_stdev", "subfolders", "prefix"),
    },
    experiments=("training.accelerators", "training.client"),
    takes_stores=True,
    brief={"workload": "cosmoflow", "accelerator": "a100,h100"},
)
