"""What ``hwdyno training --vector-search`` does: builds a vector index on the storage and searches it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli import common
from hwdyno.cli.main import INTERRUPTED
from hwdyno.cli.resource import given_axes
from hwdyno.units import format_count, format_duration, format_ns, format_size
from hwdyno.words import Parameters, Run, Scalar, UserError

if TYPE_CHECKING:
    from hwdyno.experiments import Experiment
    from hwdyno.hosts import Host
    from hwdyno.plan import Plan

KERNEL = "training_vector_search"
BUILDER = "training_vector_index"
HIDDEN = {"path", "index", "storage", "seed", "interval_s"}
INDICES = ("diskann", "hnsw", "ivf")
RUNTIME_S = {"quick": 2.0, "standard": 30.0, "full": 120.0}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options beside the kernel's axes."""
    group = parser.add_argument_group("vector search, instead of a workload")
    group.add_argument(
        "--vector-search",
        metavar="INDEX",
        help="build a diskann, hnsw or ivf index of --vectors on the storage and search it",
    )


def run(args: argparse.Namespace, places: Sequence[tuple[str, Path]], host: Host) -> int:
    """Build each index once, search it, report, and leave nothing behind unless told to."""
    plan = plan_of(args, places, host)
    if args.dry_run:
        return common.dry_run(plan, host)
    made: list[Path] = []
    try:
        for planned in plan.experiments:
            if not build(planned.fixed, host, args.quiet, made):
                sys.stderr.write("interrupted while the index was built\n")
                return INTERRUPTED
        if args.generate:
            made.clear()
            return 0
        found = common.measured(plan, args, host)
    finally:
        for folder in [] if args.keep else made:
            remove(folder)
    common.show(found, args)
    if not args.json:
        _say(found)
    return common.status(found, args.fail_under)


def remove(folder: Path) -> None:
    """Remove an index of ours, and its folder if that is empty then."""
    for name in ("vectors.hwdyno", "vectors.part"):
        (folder / name).unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def plan_of(args: argparse.Namespace, places: Sequence[tuple[str, Path]], host: Host) -> Plan:
    """One experiment for each index: each storage, and each value of what an index is made of."""
    from hwdyno import plan as plans

    kinds = args.vector_search.split(",")
    for kind in kinds:
        if kind not in INDICES:
            raise UserError(f"no index is called '{kind}'; there are: {', '.join(INDICES)}")
    declared = {axis.name: axis for axis in host.kernels()[KERNEL].axes}
    makes = set(host.kernels()[BUILDER].names) - HIDDEN - {"threads"}
    given = given_axes(args)
    own: list[tuple[str, list[Scalar]]] = [
        (name, list(plans.read_axis(given.pop(name), declared, name, KERNEL))) for name in list(given) if name in makes
    ]
    for _, path in places:
        if not path.is_dir():
            raise UserError(f"--path {path} is no directory; make it, or give another")
    chosen = [
        (experiment(kind, shape, (place, path), own=own, many=len(places) > 1), given)
        for place, path in places
        for kind in kinds
        for shape in _shapes(own)
    ]
    profile = args.profile or "quick"
    plan = plans.build(
        chosen,
        host,
        profile=profile,
        path=places[0][1],
        load=args.load,
        seed=args.seed,
        command=common.command_line("hwdyno training"),
        ceilings=args.ceiling,
    )
    if "runtime" in given:
        return plan
    return replace(plan, profile=replace(plan.profile, runtime_s=RUNTIME_S[profile]))


def _shapes(own: list[tuple[str, list[Scalar]]]) -> list[Parameters]:
    """Every combination of what an index is made of."""
    shapes: list[Parameters] = [{}]
    for name, values in own:
        shapes = [{**shape, name: value} for shape in shapes for value in values]
    return shapes


def experiment(
    kind: str,
    shape: Parameters,
    place: tuple[str, Path],
    *,
    own: Sequence[tuple[str, list[Scalar]]] = (),
    many: bool,
) -> Experiment:
    """The experiment for one index on one storage, by name and path, one of many or not."""
    from hwdyno.experiments.training import VECTOR_SEARCH

    several = [f"{name}-{shape[name]}" for name, values in own if len(values) > 1]
    words = "-".join(str(value) for value in shape.values())
    storage, path = place
    folder = path / "-".join(filter(None, ["hwdyno-vectors", kind, words]))
    name = ".".join([VECTOR_SEARCH.name, kind, *several]) + (f"@{storage}" if many else "")
    return replace(
        VECTOR_SEARCH,
        name=name,
        fixed={**VECTOR_SEARCH.fixed, "index": kind, **shape},
        settled={"path": str(folder), "storage": storage},
    )


def build(fixed: Parameters, host: Host, quiet: bool, made: list[Path]) -> bool:
    """Build an index unless it is there; false if it was interrupted."""
    makes = set(host.kernels()[BUILDER].names) - {"threads"}
    told = {name: value for name, value in fixed.items() if name in makes}
    folder = Path(str(told["path"]))
    is_new = not (folder / "vectors.hwdyno").exists()
    if not quiet and is_new:
        sys.stderr.write(f"building a {told['index']} index in {folder} …\n")
    try:
        reading = host.run(BUILDER, told)
    except OSError as error:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        raise UserError(error.strerror or str(error)) from None
    if is_new:
        made.append(folder)
    if not quiet and reading["streams"]:
        size = format_size(reading["streams"][0]["bytes"])
        sys.stderr.write(f"built {size} in {format_duration(reading['elapsed_s'])}\n")
    return not reading["interrupted"]


def _say(found: Run) -> None:
    """Each point's queries a second, their latency, what they read and how much of the truth they found."""
    for result in found.experiments:
        for point in result.points:
            details, latency = point.details, point.latency_ns
            if latency is None or details.get("recall") is None:
                continue
            k = {**result.fixed, **point.parameters}.get("k", 10)
            words = " ".join(f"{name} {value}" for name, value in point.parameters.items())
            tail = f" p99.9 {format_ns(latency.p999)}" if latency.p999 else ""
            sys.stdout.write(
                f"{result.name} {words}: {format_count(details['queries_s'])} queries/s, p50 {format_ns(latency.p50)} "
                f"p99 {format_ns(latency.p99)}{tail}, {details['reads_per_query']:.1f} reads and "
                f"{format_size(details['bytes_per_query'])} a query, recall@{k} {details['recall']:.3f}\n"
            )
