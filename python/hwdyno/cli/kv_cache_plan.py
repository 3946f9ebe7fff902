"""What ``hwdyno training --kv-cache`` does: serves users of a language model whose KV cache lies on the storage."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli import common
from hwdyno.cli.resource import given_axes
from hwdyno.units import format_bytes_s, format_ns, format_size, number_at
from hwdyno.words import Latency, Measurement, Parameters, Run, UserError

if TYPE_CHECKING:
    from hwdyno.experiments import Experiment
    from hwdyno.hosts import Host
    from hwdyno.plan import Plan

KERNEL = "training_kv_cache"
HIDDEN = {"path", "bytes_per_token", "scale", "model", "storage", "seed", "interval_s"}
"""Parameters that are no options of their own: the model and the profile settle them."""

RUNTIME_S = {"quick": 4.0, "standard": 60.0, "full": 300.0}
"""300 s are what MLPerf Storage asks for."""
MOST_OF_ROOM = 0.9
ROOM_SHARE = 0.5
CAPACITY_BYTES = 16 << 30
"""The storage tier where its size is not given: so much, or half of the free room where that is less."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options beside the kernel's axes."""
    group = parser.add_argument_group("KV cache, instead of a workload")
    says = "keep the KV cache of this model's --users on the storage: llama3.1-8b, llama3.1-70b …; see also --scale"
    group.add_argument("--kv-cache", metavar="MODEL", help=says)


def run(args: argparse.Namespace, places: Sequence[tuple[str, Path]], host: Host) -> int:
    """Serve the users, report, and leave nothing behind."""
    plan = plan_of(args, places, host)
    if not args.quiet:
        sys.stderr.write(_memory(plan) + "\n")
    if args.dry_run:
        return common.dry_run(plan, host)
    try:
        found = common.measured(plan, args, host)
    finally:
        for _, path in places:
            remove(folder_of(path))
    common.show(found, args)
    if not args.json:
        _say(found)
    return common.status(found, args.fail_under)


def folder_of(path: Path) -> Path:
    """Where the cache's files are."""
    return path / "hwdyno-kv-cache"


def remove(folder: Path) -> None:
    """Remove what a run that was killed may have left."""
    for file in folder.glob("kv-*.hwdyno"):
        file.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def plan_of(args: argparse.Namespace, places: Sequence[tuple[str, Path]], host: Host) -> Plan:
    """One experiment for each storage."""
    from hwdyno import plan as plans

    given = given_axes(args)
    profile = args.profile or "quick"
    many = len(places) > 1
    chosen = [(experiment(args.kv_cache, args.scale, place, many=many), given) for place in places]
    plan = plans.build(
        chosen,
        host,
        profile=profile,
        path=places[0][1],
        load=args.load,
        peers=bool(args.peers),
        seed=args.seed,
        command=common.command_line("hwdyno training"),
        ceilings=args.ceiling,
    )
    for planned, (_, path) in zip(plan.experiments, places, strict=True):
        _check_room(max(number_at({**planned.fixed, **point}, "capacity") for point in planned.points), path)
    runtime = RUNTIME_S[profile]
    return replace(plan, profile=replace(plan.profile, runtime_s=runtime, repeats_min=1, repeats_max=1))


def experiment(model: str, scale: float, place: tuple[str, Path], *, many: bool) -> Experiment:
    """The experiment for one storage, by name and path, one of many or not; raises ``UserError``."""
    from hwdyno.experiments.training import KV_CACHE
    from hwdyno.formats import kv_model

    found = kv_model.find(model)
    if not 0 < scale <= 1:
        raise UserError(f"--scale {scale:g} must be above 0 and at most 1, such as 0.01")
    name, path = place
    if not path.is_dir():
        raise UserError(f"--path {path} is no directory; make it, or give another")
    free = shutil.disk_usage(path).free
    settled: Parameters = {
        "bytes_per_token": found.bytes_per_token,
        "capacity": min(CAPACITY_BYTES, int(ROOM_SHARE * free) // 4096 * 4096),
        "path": str(folder_of(path)),
        "storage": name,
    }
    fixed: Parameters = {**KV_CACHE.fixed, "model": found.name, "scale": scale}
    called = f"training.kv_cache.{found.name}" + (f"@{name}" if many else "")
    return replace(KV_CACHE, name=called, fixed=fixed, settled=settled)


def _check_room(capacity: float, path: Path) -> None:
    """Refuse what the engine would refuse, before anything is begun."""
    free = shutil.disk_usage(path).free
    if capacity > MOST_OF_ROOM * free:
        raise UserError(
            f"a KV cache of {format_size(capacity)} does not fit into the {format_size(free)} free in {path}; give "
            f"--capacity {int(MOST_OF_ROOM * free) >> 20}M or less"
        )


def _memory(plan: Plan) -> str:
    """The memory and the room that it takes, in a sentence."""
    fixed = {**plan.experiments[0].fixed}
    users = max(number_at({**fixed, **point}, "users") for point in plan.experiments[0].points)
    buffers = 2 * users * number_at(fixed, "transfer_size", 1 << 20)
    shortened = "" if fixed["scale"] == 1 else f" (contexts shortened to {fixed['scale']:g} of their tokens)"
    return (
        f"{fixed['model']}: {number_at(fixed, 'bytes_per_token'):.0f} bytes a token{shortened}; at most "
        f"{format_size(number_at(fixed, 'capacity'))} on storage, {format_size(number_at(fixed, 'memory'))} in the "
        f"memory tier, {format_size(buffers)} of buffers"
    )


def _say(found: Run) -> None:
    """What MLPerf Storage scores of each point: read bandwidth, P95 and P99 of reads and writes, tokens/s."""
    from hwdyno.statistics import quantile_of

    for result in found.experiments:
        for point in result.points:
            told = [f"{result.name} users {point.parameters.get('users')}:"]
            for name in ("read", "write"):
                speed = point.details.get(f"{name}_bytes_s")
                if latency := latency_of(point, name):
                    p95 = quantile_of(latency, 0.95)
                    told.append(
                        f"{name} {format_bytes_s(speed or 0.0)} P95 {format_ns(p95)} P99 {format_ns(latency.p99)},"
                    )
            told.append(f"{point.details.get('tokens_s', 0.0):,.0f} tokens/s")
            sys.stdout.write(" ".join(told) + "\n")


def latency_of(point: Measurement, stream: str) -> Latency | None:
    """The storage's time of whole entries in one direction."""
    return next((one.latency_ns.get("total") for one in point.streams if one.name == stream), None)
