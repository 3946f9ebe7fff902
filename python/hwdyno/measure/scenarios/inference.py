"""A model's way from storage to its tokens: cold start, decoding, and the KV cache restored or computed again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.measure.models.installed import LOADERS, SPINNING, STACKS
from hwdyno.measure.scenarios import streamed_model
from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.model import MODEL, ModelSource, files_for, read_source, usable
from hwdyno.measure.scenarios.request import Chosen, Option, Request
from hwdyno.measure.scenarios.scenario import Scenario
from hwdyno.model.kernels import INFERENCE_STREAM
from hwdyno.model.units import number_at
from hwdyno.model.words import UserError
from hwdyno.system.urls import in_object_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Planned
    from hwdyno.measure.sweep import Sweep

DEFAULT_LOADERS = ("raw", "read", "mmap", "onnxruntime", "mapped", "llama.cpp")
QUICK_S = 95.0
"""Budget of the profile quick: with its model made and its report it ends within 2 minutes."""
PARTS = ("inference.cold_start", "inference.decode", "inference.memory", "inference.restore")
STREAM = "inference.model_stream"
"""A store's counterpart of the first part."""


def make(request: Request, host: Host) -> Scenario:
    """All parts of one model; those that it has no engine for are left out."""
    if request.axes and not request.is_brief:
        name = next(iter(request.axes)).replace("_", "-")
        raise UserError(f"--{name} is an axis of one test; name it: --cold, --decode, --restore, --kv-cache …")
    source = read_source(request)
    parts = [part for part in PARTS if request.wants(part) and (not source.file or part == PARTS[0])]
    if not parts and request.is_brief:
        raise UserError(
            f"{STREAM} reads from an object store: hwdyno inference --cold raw,read --path s3://BUCKET/PREFIX"
        )
    return make_scenario(request, host, source, parts)


def make_scenario(
    request: Request,
    host: Host,
    source: ModelSource,
    parts: Sequence[str],
    axes: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    names: bool = False,
) -> Scenario:
    """The named parts, for each storage; decoding and memory are the same for all storages and measured once.

    ``axes`` has the axes of each part, where they are not the request's for all of them. With ``names`` an experiment
    has its storage's name also where there is one storage.
    """
    from hwdyno.measure import plan as plans

    request.check_places()
    chosen: list[Chosen] = []
    preparations: list[Any] = []
    many = names or len(request.places) > 1
    first = next((name for name, place in request.places if not in_object_store(place)), "")
    for name, place in request.places:
        if in_object_store(source.file or place):
            streamed = streamed_model.make_experiment(request, source, name, place, many=many)
            chosen.append((request.as_part(streamed, streamed.time_share), streamed_model.choose_axes(request, source)))
            continue
        mine = [
            _place_experiment(experiment, source, name, place, many=many and experiment.name in {PARTS[0], PARTS[3]})
            for experiment in _experiments(request, source, parts)
            if name == first or experiment.name in {PARTS[0], PARTS[3]}
        ]
        chosen += [
            (request.as_part(experiment, experiment.time_share), _axes(experiment, request, axes))
            for experiment in mine
        ]
    is_whole = not request.axes and not request.is_brief and request.budget_s is None
    whole_s = plans.choose_budget(request.profile, request.peers)
    if request.profile == "quick" and not request.peers:
        whole_s = QUICK_S
    budget_s = whole_s if is_whole else request.budget_s
    plan = replace(request, budget_s=budget_s).plan(chosen, host)
    for planned in plan.experiments:
        if planned.experiment.kernel == INFERENCE_STREAM:
            preparations += streamed_model.make_model(planned, source, request)
    for place in (place for _, place in request.places if not in_object_store(source.file or place)):
        with_gguf = any(_uses_llama(planned) for planned in plan.experiments)
        restores = sum(_restored_bytes(planned, source, place) for planned in plan.experiments)
        preparations += files_for(source, place, request, with_gguf=with_gguf, restores=restores)
    of_files = [part.partition(".")[2] for part in parts if part in {PARTS[1], PARTS[3]}]
    remarks = streamed_model.explain_missing(request, DEFAULT_LOADERS, of_files)
    is_prepared_only = bool(request.options.get("generate"))
    return Scenario(plan=plan, preparations=tuple(preparations), remarks=remarks, is_prepared_only=is_prepared_only)


def _experiments(request: Request, source: ModelSource, parts: Sequence[str]) -> list[Experiment]:
    """The parts with the loaders and engines that are wanted, or that are here."""
    from hwdyno.measure.experiments import inference as catalogue
    from hwdyno.measure.sweep import Sweep

    options = request.options
    made: list[Experiment] = []
    for part in parts:
        known_parts = (catalogue.COLD_START, catalogue.DECODE, catalogue.MEMORY, catalogue.RESTORE)
        (experiment,) = (candidate for candidate in known_parts if candidate.name == part)
        if part == PARTS[2]:
            made.append(experiment)
            continue
        option, known, defaults = {
            PARTS[0]: ("cold", LOADERS, DEFAULT_LOADERS),
            PARTS[1]: ("decode", STACKS, STACKS),
            PARTS[3]: ("restore", STACKS, STACKS),
        }[part]
        given = options.get(option)
        words = usable(source, given, known, defaults, option)
        if part == PARTS[0]:
            sweep: Sweep = Sweep(loader=words, cache="cold", threads=4)
            again = tuple(word for word in words if word != "raw" and word != "direct")
            sweep = sweep + Sweep(loader=again, cache="warm", threads=4) if again and not request.axes else sweep
            made.append(replace(experiment, sweep=sweep, base=Sweep(loader=words, cache="cold", threads=4)))
        else:
            made.append(with_stacks(experiment, words))
    return made


def with_stacks(experiment: Experiment, stacks: Sequence[str]) -> Experiment:
    """The experiment with these engines; with the profile quick, those that spin have one thread."""
    from hwdyno.measure.sweep import Sweep

    def make_sweep(sweep: Sweep, stacks: Sequence[str], **more: int) -> Sweep:
        return Sweep(dict(sweep.axes) | {"stack": tuple(stacks)} | more)

    made = replace(experiment, sweep=make_sweep(experiment.sweep, stacks))
    if experiment.quick is None:
        return made
    parts = (
        [make_sweep(experiment.quick, calm)] if (calm := [stack for stack in stacks if stack not in SPINNING]) else []
    )
    spinning = [stack for stack in stacks if stack in SPINNING]
    parts += [make_sweep(experiment.quick, spinning, threads=1)] if spinning else []
    return replace(made, quick=parts[0] if len(parts) == 1 else parts[0] + parts[1])


def _place_experiment(experiment: Experiment, source: ModelSource, name: str, place: Path, *, many: bool) -> Experiment:
    """The experiment of one storage."""
    if experiment.name == PARTS[2]:
        return experiment
    fixed = source.fixed_parameters(place)
    return replace(
        experiment,
        name=f"{experiment.name}@{name}" if many else experiment.name,
        fixed={**experiment.fixed, "model": fixed["model"]},
        settled={"path": fixed["path"]},
    )


def _axes(experiment: Experiment, request: Request, axes: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Any]:
    if axes is not None:
        return dict(axes.get(experiment.name.partition("@")[0], {}))
    return {} if experiment.name == PARTS[2] else dict(request.axes)


def _uses_llama(planned: Planned) -> bool:
    return any("llama.cpp" in {point.get("stack"), point.get("loader")} for point in planned.points)


def _restored_bytes(planned: Planned, source: ModelSource, place: Path) -> int:
    """Bytes of the KV caches that an experiment's points write into this storage's folder."""
    if planned.experiment.kernel != "inference_restore" or str(source.at(place)) != planned.fixed.get("path"):
        return 0
    shape = source.made_model.decoder
    files = {(point.get("stack"), point["tokens"]) for point in planned.points if point.get("way") == "restore"}
    return int(sum(number_at({"tokens": tokens}, "tokens") * shape.kv_bytes for _, tokens in files)) if shape else 0


KIND = Kind(
    name="inference",
    command="inference",
    make=make,
    title="model",
    options=(
        MODEL,
        Option("--keep", "keep what was made for the next run", kind=bool, default=False),
        Option("--generate", "make it, keep it, and measure nothing", kind=bool, default=False),
    ),
    experiments=(*PARTS, STREAM),
    takes_stores=True,
    brief={"model": "32m"},
)
