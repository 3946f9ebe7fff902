"""``hwdyno training``: how many of which accelerator a storage feeds, on data that is generated or already there."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.cli import checkpoint_plan, common, inference, kv_cache_plan, plain_reads, vector_search_plan
from hwdyno.cli.main import INTERRUPTED, OK
from hwdyno.cli.resource import add_axes, add_more_axes, given_axes
from hwdyno.formats.workload import Workload
from hwdyno.units import format_bytes_s, format_duration, format_size, parse_duration
from hwdyno.words import Axis, Parameters, Run, UserError

if TYPE_CHECKING:
    from hwdyno.experiments import Experiment
    from hwdyno.hosts import Host
    from hwdyno.plan import Plan

KERNEL = "training_loader"
_DATA_SET = {"format", "files", "samples_per_file", "record_bytes", "record_bytes_stdev", "subfolders", "prefix"}
_HIDDEN = {
    "path",
    "seed",
    "workload",
    "accelerator",
    "storage",
    "au_pass",
    "subset",
    "row_group",
    "columns",
    *_DATA_SET,
}

QUICK_BYTES = 16 << 30
"""At most what a quick run generates."""
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
    most_bytes: float


CARE = {
    "quick": Care(6.0, (1, 1), QUICK_BYTES),
    "standard": Care(60.0, (1, 3), float("inf")),
    "full": Care(UNLIMITED_S, (3, 5), float("inf")),
}


@dataclass(frozen=True)
class Target:
    """One storage with one workload's data set on it."""

    storage: str
    path: Path
    workload: Workload
    accelerators: tuple[Workload, ...]
    """The same workload for each accelerator that is emulated on it."""
    data: Workload
    """What lies there: of several sizes the largest, of whose files the others read the first."""

    @property
    def folder(self) -> Path:
        """Where the data set is, or will be: the path itself if it holds one."""
        if (self.path / "train").is_dir():
            return self.path
        return self.path / f"hwdyno-{self.data.name}-{self.data.samples}"

    @property
    def ours(self) -> bool:
        """Whether the data set is hwdyno's to generate and remove."""
        return self.folder != self.path


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno training``."""
    parser.add_argument(
        "overrides", nargs="*", metavar="++workload.x.y=VALUE", help="changes to a DLIO file, in DLIO's spelling"
    )
    what = parser.add_argument_group("what is trained")
    what.add_argument("--workload", default="unet3d", metavar="NAMES", help=_known() + ", or a DLIO YAML file")
    what.add_argument("--accelerator", metavar="NAMES", help="v100, a100, h100, b200 … (default: each one known)")
    what.add_argument("--samples", metavar="COUNTS", help="samples of the data set (default: by room and time)")
    what.add_argument("--keep", action="store_true", help="leave generated data where it is, for the next run")
    what.add_argument("--generate", action="store_true", help="only generate the data, and keep it")
    what.add_argument("--no-client", action="store_true", help="leave out what the loader itself can deliver")
    what.add_argument("--no-plain", action="store_true", help="leave out plain reads of the same size beside it")
    what.add_argument("--summary", type=Path, metavar="DIR", help="write DLIO's summary.json of each point here")
    checkpoint_plan.add(parser)
    kv_cache_plan.add(parser)
    vector_search_plan.add(parser)
    add_axes(parser, KERNEL, leave_out=_HIDDEN)
    kv, vectors = kv_cache_plan.KERNEL, vector_search_plan.KERNEL
    add_more_axes(parser, "axes of --kv-cache", kv, KERNEL, kv_cache_plan.HIDDEN)
    add_more_axes(parser, "axes of --vector-search", vectors, (KERNEL, kv), vector_search_plan.HIDDEN)
    common.add_options(parser, many_paths=True)


def _known() -> str:
    from hwdyno.formats import workload

    return ", ".join(path.stem for path in sorted(workload.FOLDER.glob("*.toml")))


def run(args: argparse.Namespace) -> int:
    """Generate what is missing, measure, report, and remove what was generated."""
    host = common.this_machine()
    profile = args.profile or "quick"
    if profile not in CARE:
        raise UserError(f"no profile is called '{profile}'; there are: {', '.join(CARE)}")
    places = [_named(text) for text in args.path or ["."]]
    if args.checkpoint:
        return checkpoint_plan.run(args, places, host)
    if args.kv_cache:
        return kv_cache_plan.run(args, places, host)
    if args.vector_search:
        return vector_search_plan.run(args, places, host)
    targets = targets_of(args, profile, host)
    plan = plan_of(targets, args, profile, host)
    if args.dry_run:
        _list_data(targets)
        plain_reads.tell(plan)
        return common.dry_run(plan, host)
    made: list[Path] = []
    files: list[Path] = []
    indices: list[Path] = []
    try:
        for target in {target.folder: target for target in targets}.values():
            if target.ours and not _generate(target, host, args.quiet, made):
                sys.stderr.write("interrupted while generating: the same command goes on where this one ended\n")
                made.clear()
                return INTERRUPTED
        if args.generate:
            made.clear()
            return OK
        ready = plain_reads.lay_out(plan, host, files) and inference.build(plan, host, indices, quiet=args.quiet)
        if not ready:
            return INTERRUPTED
        found = common.measured(plan, args, host)
    finally:
        for file in files:
            file.unlink(missing_ok=True)
        inference.remove(plan, indices)
        for folder in [] if args.keep else made:
            shutil.rmtree(folder, ignore_errors=True)
    common.show(found, args)
    if args.summary is not None:
        write_summaries(found, args.summary)
    return common.status(found, args.fail_under)


STUDY_SAMPLES = {"quick": "42,112", "standard": "100,350", "full": "1000,3500"}
"""Those of the published study, or fewer where there is less time and room: 42 have epochs
of 6 steps, longer than the 4 batches that 4 readers hold ahead."""


def study(name: str, args: argparse.Namespace) -> int:
    """The study of storage classes: unet3d on A100 and H100, one accelerator, two sizes of data set, 5 epochs.

    Beside training it asks each storage for what inference does: a KV cache, and a vector index.
    """
    told = argparse.Namespace(
        overrides=[], workload="unet3d", accelerator="a100,h100", keep=False, generate=False, no_client=False,
        no_plain=False,
        samples=args.study_samples or STUDY_SAMPLES.get(args.profile or "quick"), summary=None, checkpoint=None,
        kv_cache=None, vector_search=None,
        axis_accelerators="1", axis_epochs="5", load=None, study=name, **vars(args),
    )  # fmt: skip
    return run(told)


def targets_of(args: argparse.Namespace, profile: str, host: Host) -> list[Target]:
    """Every storage with every workload and number of samples."""
    places = [_named(text) for text in args.path or ["."]]
    names = [name for name, _ in places]
    if len(set(names)) < len(names):
        raise UserError(f"two storages are called the same ({', '.join(names)}); name them: --path NAME=DIR")
    most = max(_numbers(given_axes(args).get("accelerators", "1,2,4"), "accelerators"))
    targets = []
    for name, path in places:
        if not path.is_dir():
            raise UserError(f"--path {path} is no directory; make it, or give another")
        for kinds in workloads_of(args):
            sizes = []
            for samples in sorted(_numbers(args.samples, "samples")) if args.samples else [None]:
                sized = [_sized(kind, samples, path, profile, most) for kind in kinds]
                largest = max(sized, key=lambda one: one.samples)
                sizes.append(tuple(one.with_samples(largest.samples) for one in kinds))
            for same in sizes:
                alike = [one[0] for one in sizes if one[0].samples_per_file == same[0].samples_per_file]
                targets.append(Target(name, path, same[0], same, max(alike, key=lambda one: one.files)))
                _check_data(targets[-1])
    return targets


def _check_data(target: Target) -> None:
    """Refuse a folder of data that is another workload's."""
    train, kind = target.folder / "train", target.workload
    # the first file is enough: a folder may have a million
    if target.ours or next(_files_in(train, f".{kind.format}"), None):
        return
    other = min(_files_in(train), default=None)
    raise UserError(
        f"{train} holds no .{kind.format} file of {kind.name}"
        + (f", but {other}: it is another workload's" if other else "")
        + "; name that with --workload, or give another --path"
    )


def _files_in(folder: Path, ending: str = "") -> Iterator[str]:
    """The names of the files below a folder, as they come."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files_in(Path(entry.path), ending)
            elif entry.name.endswith(ending):
                yield entry.name


def _named(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    return (
        (name, Path(path).absolute())
        if equals and not Path(text).exists()
        else (Path(text).name, Path(text).absolute())
    )


def _numbers(text: str, name: str, least: int = 1) -> list[int]:
    """The whole numbers of an option; raises ``UserError`` that names it."""
    from hwdyno.sweep import parse_axis

    values = parse_axis(text, Axis(name, kind="integer", least=least, most=1 << 40))
    return [value for value in values if isinstance(value, int)]


def workloads_of(args: argparse.Namespace) -> list[list[Workload]]:
    """The workloads that are asked for, each with every accelerator that is."""
    from hwdyno.formats import dlio_yaml, workload

    found = []
    overrides = list(args.overrides)
    for name in args.workload.split(","):
        if name.endswith((".yaml", ".yml")):
            found.append([dlio_yaml.read(Path(name), overrides)])
            continue
        if overrides:
            raise UserError(
                f"{overrides[0]} changes a DLIO file; give one with --workload FILE.yaml, or an axis as option"
            )
        known = workload.catalogue().get(name, {})
        wanted = args.accelerator.split(",") if args.accelerator else list(known) or [""]
        found.append([workload.find(name, accelerator) for accelerator in wanted])
    return found


def _sized(kind: Workload, samples: int | None, path: Path, profile: str, most: int) -> Workload:
    """The workload on a data set of ``samples``, or of as many as this profile's time and the room allow."""
    if samples is not None:
        return kind.with_samples(samples)
    if (path / "train").is_dir():
        return kind
    care = CARE[profile]
    free = shutil.disk_usage(path).free
    ahead = (1 + kind.read_threads * kind.prefetch) * kind.batch_size * kind.record_bytes * most
    wanted = kind.need_bytes_s * most * care.runtime_s + ahead
    least = 2 * kind.batch_size * most * kind.record_bytes
    size = max(min(wanted, care.most_bytes, ROOM_SHARE * free, kind.bytes), least)
    return kind.with_samples(min(kind.samples, max(1, int(size / kind.record_bytes))))


def plan_of(targets: list[Target], args: argparse.Namespace, profile: str, host: Host) -> Plan:
    """One experiment for each target and accelerator, and one for what the loader itself delivers."""
    from hwdyno import plan as plans
    from hwdyno.experiments.training import ACCELERATORS, CLIENT

    given = given_axes(args)
    care = CARE[profile]
    runtime = parse_duration(given.pop("runtime")) if "runtime" in given else care.runtime_s
    chosen: list[tuple[Experiment, Any]] = []
    many = len(targets) > 1
    for target in targets:
        for kind in target.accelerators:
            label = ".".join(filter(None, [kind.name, kind.accelerator, str(kind.samples) if many else ""]))
            where = f"@{target.storage}" if many else ""
            one = replace(_on(ACCELERATORS, kind, target), name=f"training.{label}{where}")
            chosen.append((one, {**given, "runtime": runtime or UNLIMITED_S}))
        if not args.no_client and "compute" not in given:
            kind = target.workload
            most = max(_numbers(given.get("accelerators", "1,2,4"), "accelerators"))
            where = f".{kind.samples}@{target.storage}" if many else ""
            own = {name: value for name, value in given.items() if name not in {"cache", "epochs", "steps"}}
            one = _on(CLIENT, replace(kind, accelerator=""), target, subset=_subset(kind, most))
            one = replace(one, name=f"training.client.{kind.name}{where}")
            chosen.append((one, {**own, "runtime": CLIENT_S}))
    if not args.no_plain and not args.generate and "compute" not in given:
        numbers = _numbers(given.get("accelerators", "1,2,4"), "accelerators")
        for target in {(one.storage, one.workload.name): one for one in targets}.values():
            asked = given.get("read_threads")
            readers = _numbers(asked, "read-threads", 0) if asked else [target.workload.read_threads]
            place = (target.storage if many else "", target.path)
            chosen.append((plain_reads.beside(target.workload, place, numbers, readers, given), {}))
    if getattr(args, "study", "") and not args.no_inference:
        chosen += inference.beside(list({one.storage: one.path for one in targets}.items()), profile)
    plan = plans.build(
        chosen,
        host,
        profile=profile,
        path=targets[0].path,
        load=args.load,
        peers=bool(args.peers),
        seed=args.seed,
        command=common.command_line("hwdyno study" if getattr(args, "study", "") else "hwdyno training"),
        ceilings=args.ceiling,
        study=getattr(args, "study", ""),
    )
    low, high = care.repeats
    return replace(plan, profile=replace(plan.profile, runtime_s=runtime, repeats_min=low, repeats_max=high))


def _on(one: Experiment, kind: Workload, target: Target, **more: int) -> Experiment:
    """The experiment on a target's data set: the command names the workload, and what follows from it is settled."""
    named: Parameters = {"workload": kind.name, "accelerator": kind.accelerator}
    settled = {name: value for name, value in kind.parameters.items() if name not in {*named, *one.fixed}}
    places: Parameters = {"path": str(target.folder), "storage": target.storage, **more}
    return replace(one, fixed={**one.fixed, **named}, settled={**settled, **places})


def _subset(kind: Workload, most: int) -> int:
    """Files that make a data set of about a GiB, and two batches for each accelerator."""
    per_file = kind.record_bytes * kind.samples_per_file
    batches = -(-2 * kind.batch_size * most // kind.samples_per_file)
    return min(kind.files, max(1, int(CLIENT_BYTES / per_file), batches))


def _list_data(targets: list[Target]) -> None:
    for target in {target.folder: target for target in targets}.values():
        kind = target.data
        does = "generated and removed" if target.ours else "as it is there"
        sys.stdout.write(
            f"data: {kind.samples} samples of {kind.name}, {format_size(kind.bytes)}, in {target.folder} ({does})\n"
        )
    for one in {kind.accelerator: kind for target in targets for kind in target.accelerators}.values():
        if one.compute_s:
            read = f", {format_bytes_s(one.need_read_bytes_s)} of the columns read" if one.read_columns else ""
            sys.stdout.write(f"need: {format_bytes_s(one.need_bytes_s)} for each {one.accelerator}{read}\n")


def _generate(target: Target, host: Host, quiet: bool, made: list[Path]) -> bool:
    """Write what is missing of the data set; false if it was interrupted."""
    kind = target.data
    if not quiet:
        sys.stderr.write(f"generating {kind.samples} samples of {kind.name} ({format_size(kind.bytes)}) …\n")
    is_new = not target.folder.exists()
    try:
        reading = host.run("training_generate", {**kind.layout, "path": str(target.folder)})
    except OSError as error:
        if is_new:
            shutil.rmtree(target.folder, ignore_errors=True)
        raise UserError(error.strerror or str(error)) from None
    if is_new:
        made.append(target.folder)
    for fault in reading["faults"]:
        if is_new:
            shutil.rmtree(target.folder, ignore_errors=True)
        raise UserError(f"the data set could not be written: {fault['says']}; free some room or give fewer --samples")
    (stream,) = reading["streams"]
    if not quiet and stream["bytes"]:
        speed = format_bytes_s(stream["bytes"] / reading["elapsed_s"])
        sys.stderr.write(
            f"generated {format_size(stream['bytes'])} in {format_duration(reading['elapsed_s'])}: {speed}\n"
        )
    return not reading["interrupted"]


def write_summaries(run: Run, directory: Path) -> None:
    """DLIO's ``summary.json`` of every point, one folder each."""
    import json

    from hwdyno.formats import dlio

    for result in run.experiments:
        for point in result.points:
            if not point.details.get("au_dlio_by_epoch") or result.fixed.get("compute") == 0:
                continue
            folder = directory / f"{result.name.removeprefix('training.')}-{point.parameters.get('accelerators')}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "summary.json").write_text(json.dumps(dlio.write(run, result, point), indent=4) + "\n")
