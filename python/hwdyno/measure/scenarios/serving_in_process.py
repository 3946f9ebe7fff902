"""A made model that answers users, a rate or a trace in this process, beside the memory that bounds its tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hwdyno.measure.scenarios import serving
from hwdyno.measure.scenarios.inference import with_stacks
from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.model import files_for, read_source, usable
from hwdyno.measure.scenarios.request import Option, Request
from hwdyno.measure.scenarios.scenario import Scenario
from hwdyno.measure.serving import lengths
from hwdyno.measure.sweep import Sweep
from hwdyno.model.words import UserError

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host

STACKS = ("onnxruntime",)
EXPERIMENTS = ("inference.in_process", "inference.in_process_rate", "inference.in_process_trace")


def make(request: Request, host: Host) -> Scenario:
    """The closed loop, or the open one where a rate or a trace is given; then the memory with as many threads."""
    from hwdyno.measure.experiments.inference import MEMORY
    from hwdyno.measure.experiments.inference_serving import IN_PROCESS, IN_PROCESS_RATE, IN_PROCESS_TRACE

    source = read_source(request)
    if source.file or source.made_model.decoder is None:
        raise UserError(f"--in-process runs a made decoder, not {source.name}; use --model 62m, or --serve FILE")
    given = request.options.get("in_process")
    stacks = usable(source, given, STACKS, STACKS, "in-process")
    request.check_places()
    _check_room(request, host)
    named = serving.kind_of_load(request, (IN_PROCESS, IN_PROCESS_RATE, IN_PROCESS_TRACE))
    wanted = [experiment for experiment in named if experiment is not IN_PROCESS_TRACE or "trace" in request.axes] or [
        IN_PROCESS
    ]
    place = request.places[0][1]
    placed = source.fixed_parameters(place)
    loads = [
        replace(experiment, fixed={**experiment.fixed, "model": placed["model"]}, settled={"path": placed["path"]})
        for experiment in (with_stacks(experiment, stacks) for experiment in wanted)
    ]
    threads = tuple(
        sorted({int(count) for count in str(request.axes.get("threads", 1)).split(",") if count.isdecimal()})
    )
    memory = replace(MEMORY, sweep=Sweep(operation="read", threads=threads or (1,)), quick=None)
    chosen = [(request.as_part(experiment, experiment.time_share), request.axes) for experiment in loads]
    if not request.is_brief:
        # A run of the whole resource measures the memory once for all.
        chosen.append((memory, {}))
    plan = request.plan(chosen, host)
    if not request.is_brief:
        profile = replace(plan.profile, runtime_s=serving.RUNTIME_S[request.profile], ramp_s=0.0)
        plan = replace(plan, profile=profile)
    return Scenario(
        plan=plan,
        preparations=files_for(source, place, request, with_gguf=False),
        summary=serving.summary,
        is_prepared_only=bool(request.options.get("generate")),
    )


def _check_room(request: Request, host: Host) -> None:
    """Raise ``UserError`` where not even the shortest prompt and answer fit into a slot."""
    known = host.kernels()["inference_in_process"]
    room = int(str(known.axis("context").default))
    least = sum(
        min(
            lengths.parse(text, name.replace("_", "-")).least
            for text in str(request.axes.get(name, known.axis(name).default)).split(",")
        )
        for name in ("input_tokens", "output_tokens")
    )
    if least > room:
        raise UserError(
            f"prompts and answers of {least} tokens are longer than the context of {room}; use fewer --input-tokens "
            "or --output-tokens"
        )


KIND = Kind(
    name="serving_in_process",
    command="inference",
    make=make,
    title="a model in this process",
    options=(Option("--in-process", f"users, a rate or a trace on a made model in: {', '.join(STACKS)}", "STACKS"),),
    chosen_by="in_process",
    kernel="inference_in_process",
    hidden={"path", "model", "stack", "context"},
    experiments=EXPERIMENTS,
    brief={"model": "32m"},
)
