"""A published study: its questions at its original sizes or scaled down; network questions also between two nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.measure.scenarios import storage_classes, two_nodes
from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.request import Option, Request, refuse_stores
from hwdyno.measure.scenarios.scenario import Scenario
from hwdyno.measure.topology import why_no_gpu
from hwdyno.model.words import Declaration, Parameters, UserError

if TYPE_CHECKING:
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan
    from hwdyno.studies import Block, Question, Study

# The share of free memory that blocks in flight may use.
BUFFER_SHARE = 0.5


def make(request: Request, host: Host) -> Scenario:
    """The study that the request names."""
    from hwdyno import studies

    if source := request.options.get("stream"):
        if not Path(source).is_file():
            raise UserError(f"--stream {source} does not exist; name STREAM's program or its source, stream.c")
        os.environ["HWDYNO_STREAM"] = str(Path(source).absolute())
    study = studies.find(request.study)
    if study.method:
        does = f"hwdyno storage {study.name.replace('-', ' ')}"
        raise UserError(f"{study.name} is a test method, not a study; run {does}")
    if not study.questions:
        return storage_classes.make(request, host)
    refuse_stores(request)
    if len(request.places) > 1:
        raise UserError(f"{study.name} measures one storage; give --path once")
    asks_network = any(
        question.name.startswith("network.") for question in _choose_questions(study, request.options["only"])
    )
    server = request.options["server"]
    second = two_nodes.find_server(server) if asks_network else None
    plan = make_plan(study, request, host, second)
    if second is None or server:
        return Scenario(plan=plan)
    names = (planned.experiment.name for planned in plan.experiments)
    far = frozenset(name for name in names if name.endswith(_suffix()))
    return Scenario(plan=plan, preparations=(two_nodes.SecondNode(experiments=far),))


def make_plan(study: Study, request: Request, host: Host, second: tuple[str, int] | None = None) -> Plan:
    """The study's plan: at its own sizes and times with the profile ``full``, scaled down otherwise.

    Its questions about the network are measured over loopback, and again to the server at ``second``.
    """
    from hwdyno.measure import plan as plans

    is_full, largest = request.profile == "full", _largest_buffers(host)
    chosen = _on_device(_choose_questions(study, request.options.get("only")), request, host)
    questions = [*chosen, *(_on_two_nodes(chosen, second, host) if second else ())]
    budget_s = plans.choose_budget(request.profile, request.peers)
    # A study has more points than a first look at a machine, so the profile quick takes all of its five minutes.
    budget_s = storage_classes.LONGEST_QUICK_S if budget_s is not None else None
    budget_s = budget_s if request.budget_s is None else request.budget_s
    made = replace(request, load=None, budget_s=budget_s, study=study.name)
    plan = made.plan([(_experiment(question, request.profile, largest), {}) for question in questions], host)
    return _at_full_length(plan, questions) if is_full else plan


def _experiment(question: Question, profile: str, largest: int) -> Experiment:
    """A question as an experiment, with the ceilings and peers of the catalogue's experiment on the same kernel."""
    from hwdyno.measure import experiments as catalogue
    from hwdyno.measure import plan as plans
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.sweep import Sweep

    alike = [experiment for experiment in catalogue.all() if experiment.kernel == question.kernel]
    like = next((experiment for experiment in alike if experiment.name == question.name), alike[0] if alike else None)
    is_full, on_disk = profile == "full", like is not None and "data_file" in like.needs
    scaled_bytes = plans.PROFILES[profile].size_bytes if profile in plans.PROFILES else 0
    size = question.size_bytes if is_full else min(question.size_bytes, scaled_bytes)
    fixed: Parameters = {**question.fixed, **({"size": size} if on_disk else {})}
    if is_full and question.startdelay_s:
        fixed["startdelay"] = question.startdelay_s
    blocks = question.blocks if is_full else tuple(_brief(block, question) for block in question.blocks)
    of_site = {name: like.sweep.axes[name] for name in question.of_site} if like else {}
    blocks = tuple({**of_site, **block} for block in blocks)
    sweeps = [Sweep(_fitting(block, size, largest) if on_disk else block) for block in blocks]
    sweep = sweeps[0]
    for more in sweeps[1:]:
        sweep = sweep + more
    made = Experiment(
        name=question.name,
        asks=question.asks,
        kernel=question.kernel,
        load=question.load,
        sweep=sweep,
        fixed=fixed,
    )
    if like is None:
        return made
    return replace(
        made,
        metric=like.metric,
        ceilings=like.ceilings,
        peers=(*like.peers, *question.peers),
        needs=like.needs,
        time_share=like.time_share * question.time_share,
        setup_s=like.setup_s,
        writes=like.writes,
    )


def _choose_questions(study: Study, only: str | None) -> list[Question]:
    """The study's questions, or those of the resources named; ``cpu`` and ``disk`` say compute and storage."""
    if only is None:
        return list(study.questions)
    words = {"cpu": "compute", "disk": "storage"}
    wanted = {words.get(name.strip(), name.strip()) for name in only.split(",")}
    resources = {question.name.partition(".")[0] for question in study.questions}
    if not wanted <= resources:
        unknown = ", ".join(sorted(wanted - resources))
        raise UserError(f"{study.name} does not measure '{unknown}'; it measures: {', '.join(sorted(resources))}")
    return [question for question in study.questions if question.name.partition(".")[0] in wanted]


def _on_device(questions: list[Question], request: Request, host: Host) -> list[Question]:
    """The questions with those about a GPU on the device that the request names, or without them where none is here.

    Raises ``UserError`` where they were requested by name and no GPU is here.
    """
    asks_gpu = [question for question in questions if question.name.startswith("gpu.")]
    if not asks_gpu:
        return questions
    if device := request.options.get("on"):
        return [
            replace(question, fixed={**question.fixed, "on": device}) if question in asks_gpu else question
            for question in questions
        ]
    if host.topology().gpus():
        return questions
    if request.options.get("only"):
        drivers = host.survey(None).gpu_drivers
        raise UserError(why_no_gpu(drivers, f"hwdyno study {request.study} --only gpu --on cpu"))
    return [question for question in questions if question not in asks_gpu]


def _on_two_nodes(questions: list[Question], second: tuple[str, int], host: Host) -> list[Question]:
    """The questions about the network, measured to a server on another node."""
    place: Parameters = {"server": second[0], "port": second[1]}
    kernels = host.kernels()

    def reaches(question: Question) -> Parameters:
        declared = kernels.get(question.kernel, Declaration()).names
        return {name: value for name, value in place.items() if name in declared}

    return [
        replace(
            question,
            name=question.name + _suffix(),
            asks=f"{question.asks}, between two nodes",
            fixed={**question.fixed, **reaches(question)},
        )
        for question in questions
        if question.name.startswith("network.")
    ]


def _suffix() -> str:
    """What the names of experiments between two nodes end with."""
    from hwdyno.studies.cloud_vm_network import TWO_NODES

    return TWO_NODES


def _at_full_length(plan: Plan, questions: Sequence[Question]) -> Plan:
    """Every reading as long as the study's own was, three of each point at least; a budget bounds the further ones."""
    runtimes = {question.name: question.runtime_s for question in questions}
    experiments = tuple(
        replace(planned, fixed={**planned.fixed, "runtime": runtimes[planned.experiment.name]})
        if "runtime" in planned.fixed
        else planned
        for planned in plan.experiments
    )
    profile = replace(plan.profile, repeats_min=3)
    return replace(plan, experiments=experiments, profile=profile, given=plan.given | {"startdelay", "runtime"})


def _brief(block: Block, question: Question) -> Block:
    """The axes with fewer values, for a study that is not done at full length."""
    return {**block, **{name: values for name, values in question.brief.items() if name in block}}


def _fitting(block: object, size: int, largest: int) -> dict[str, object]:
    """The axes with no block above a quarter of the file, and no more in flight than memory has room for."""
    axes = dict(block) if isinstance(block, dict) else {}
    depth = axes.get("iodepth", 1)
    deepest = max(depth) if isinstance(depth, tuple) else depth
    sizes = axes.get("bs", 4096)
    room = min(size // 4, largest // max(1, deepest))
    room = 1 << max(12, room.bit_length() - 1)
    axes["bs"] = tuple(min(wanted, room) for wanted in sizes) if isinstance(sizes, tuple) else min(sizes, room)
    return axes


def _largest_buffers(host: Host) -> int:
    available = host.survey(None).memory.available_bytes
    return int(available * BUFFER_SHARE) if available else 1 << 30


KIND = Kind(
    name="study",
    command="study",
    make=make,
    takes_stores=True,
    options=(
        Option("--stream", "STREAM to compare with: its program, or its source to build", "FILE"),
        Option("--only", "only these resources of the study, e.g. memory,cpu,disk", "NAMES"),
        Option("--on", "device of the GPU's part: gpu, cuda, opencl, or cpu by OpenCL", "DEVICE"),
        Option(
            "--server",
            "address of a second node that runs `hwdyno network server`",
            "ADDR[:PORT]",
        ),
        *storage_classes.OPTIONS,
    ),
)
