"""A language model's KV cache on the storage, whose users come back to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.object_folder import CA_FILE, STORE_ENDPOINT, make_object_folder, name_folder, reach
from hwdyno.measure.scenarios.preparation import FolderOfPoints, Preparation
from hwdyno.measure.scenarios.request import Option, Request, free_bytes
from hwdyno.measure.scenarios.scenario import Scenario
from hwdyno.model.kernels import INFERENCE_KV_CACHE
from hwdyno.model.units import format_bytes_s, format_ns, format_size, number_at
from hwdyno.model.words import Latency, Measurement, Parameters, Run, UserError
from hwdyno.system.urls import format_place, in_object_store

if TYPE_CHECKING:
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan, Planned

KERNEL = INFERENCE_KV_CACHE
RUNTIME_S = {"quick": 4.0, "standard": 60.0, "full": 300.0}
"""MLPerf Storage requires 300 s."""
MAX_OF_ROOM = 0.9
ROOM_SHARE = 0.5
CAPACITY_BYTES = 16 << 30
"""Default size of the storage tier: this, or half of the free space if that is less."""
BRIEF_CAPACITY_BYTES = 1 << 30
BRIEF_USERS = (1, 4, 16)
PART_BYTES = 8 << 20
"""Bytes of a part of an entry in an object store, which takes parts of at least 5 MiB."""


def make(request: Request, host: Host) -> Scenario:
    """One experiment for each storage."""
    request.check_places()
    many = len(request.places) > 1
    chosen = [(experiment(request, place, many=many), request.axes) for place in request.places]
    plan = request.plan(chosen, host)
    if not request.is_brief:
        runtime = RUNTIME_S[request.profile]
        plan = replace(plan, profile=replace(plan.profile, runtime_s=runtime, repeats_min=1, repeats_max=1))
    places = zip(plan.experiments, request.places, strict=True)
    folders = [_folder(planned, path, reach(request)) for planned, (_, path) in places]
    return Scenario(plan=plan, preparations=tuple(folders), remarks=(_memory(plan),), summary=_summary)


def experiment(request: Request, place: tuple[str, Path], *, many: bool) -> Experiment:
    """The experiment for one storage, by name and path, one of many or not; raises ``UserError``."""
    from hwdyno.formats import kv_model
    from hwdyno.measure.experiments.inference import KV_CACHE
    from hwdyno.measure.sweep import Sweep

    model, scale = kv_model.find(request.options["kv_cache"]), request.options["scale"]
    if not 0 < scale <= 1:
        raise UserError(f"--scale {scale:g} must be above 0 and at most 1, such as 0.01")
    name, path = place
    most = BRIEF_CAPACITY_BYTES if request.is_brief else CAPACITY_BYTES
    settled: Parameters = {"bytes_per_token": model.bytes_per_token, "storage": name}
    if in_object_store(path):
        settled |= {
            "capacity": most,
            "path": format_place(name_folder(path)),
            "transfer_size": PART_BYTES,
            **reach(request),
        }
    else:
        room = int(ROOM_SHARE * free_bytes(path)) // 4096 * 4096
        settled |= {"capacity": min(most, room), "path": str(path / "hwdyno-kv-cache")}
    called = f"inference.kv_cache.{model.name}" + (f"@{name}" if many else "")
    fixed: Parameters = {**KV_CACHE.fixed, "model": model.name, "scale": scale}
    found = replace(KV_CACHE, name=called, fixed=fixed, settled=settled)
    return request.as_part(found, RUNTIME_S["quick"], Sweep(users=BRIEF_USERS))


def _folder(planned: Planned, path: Path, reached: Parameters) -> Preparation:
    """Where the entries are; refuses a capacity that the engine would refuse, before anything is begun."""
    capacity = max(number_at({**planned.fixed, **point}, "capacity") for point in planned.points)
    if in_object_store(path):
        return make_object_folder("KV cache: entries", str(planned.fixed["path"]), int(capacity), reached)
    free = free_bytes(path)
    if capacity > MAX_OF_ROOM * free:
        raise UserError(
            f"a KV cache of {format_size(capacity)} does not fit in the {format_size(free)} free in {path}; use "
            f"--capacity {int(MAX_OF_ROOM * free) >> 20}M or less"
        )
    folder = Path(str(planned.fixed["path"]))
    description = f"KV cache: entries in {folder}, removed afterwards"
    return FolderOfPoints(description=description, where=folder, bytes=int(capacity), is_limit=True)


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


def _summary(run: Run) -> Iterator[str]:
    """What MLPerf Storage scores of each point: read bandwidth, P95 and P99 of reads and writes, tokens/s."""
    from hwdyno.model.histogram import latency_quantile

    for result in run.experiments:
        if result.kernel != KERNEL:
            continue
        for point in result.points:
            words = [f"{result.name} users {point.parameters.get('users')}:"]
            for name in ("read", "write"):
                speed = point.details.get(f"{name}_bytes_s")
                if latency := entry_latency(point, name):
                    p95 = latency_quantile(latency, 0.95)
                    words.append(
                        f"{name} {format_bytes_s(speed or 0.0)} P95 {format_ns(p95)} P99 {format_ns(latency.p99)},"
                    )
            words.append(f"{point.details.get('tokens_s', 0.0):,.0f} tokens/s")
            yield " ".join(words)


def entry_latency(point: Measurement, stream: str) -> Latency | None:
    """The storage's time of whole entries in one direction."""
    return next(
        (
            measured_stream.latency_ns.get("total")
            for measured_stream in point.streams
            if measured_stream.name == stream
        ),
        None,
    )


KIND = Kind(
    name="kv_cache",
    command="inference",
    make=make,
    title="KV cache",
    options=(
        Option(
            "--kv-cache",
            "the model whose KV cache is stored: llama3.1-8b, llama3.1-70b …",
            "MODEL",
        ),
        Option("--scale", "share of the contexts' tokens to use (default 0.01)", "FACTOR", kind=float, default=0.01),
        STORE_ENDPOINT,
        CA_FILE,
    ),
    chosen_by="kv_cache",
    kernel=KERNEL,
    hidden={
        *("path", "endpoint", "ca_file", "timeout"),
        *("bytes_per_token", "scale", "model", "storage", "seed", "interval_s"),
    },
    experiments=("inference.kv_cache",),
    takes_stores=True,
    brief={"kv_cache": "llama3.1-8b"},
)
