"""``hwdyno study``: reproduce a published study on this machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli import common, manifests
from hwdyno.words import Parameters, UserError

if TYPE_CHECKING:
    from hwdyno.hosts import Host
    from hwdyno.plan import Plan
    from hwdyno.studies import Block, Question, Study

# Of the memory that is free, so much may hold blocks in flight.
BUFFER_SHARE = 0.5


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno study``."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="which study; without one, they are listed")
    parser.add_argument("--only", metavar="NAMES", help="only these resources of the study, e.g. memory,cpu,disk")
    storage = parser.add_argument_group("kubernetes-ai-storage")
    storage.add_argument(
        "--samples", dest="study_samples", metavar="COUNTS", help="samples of the data sets (default: the profile's)"
    )
    storage.add_argument("--no-inference", action="store_true", help="leave out the KV cache and the vector index")
    manifests.add(storage)
    parser.add_argument(
        "--server",
        metavar="ADDR[:PORT]",
        help="a second node, where `hwdyno network server` runs, for questions about the network",
    )
    common.add_options(parser, many_paths=True)


def run(args: argparse.Namespace) -> int:
    """List the studies, or perform one."""
    from hwdyno import studies

    if args.name is None:
        width = max(len(study.name) for study in studies.all())
        for study in studies.all():
            sys.stdout.write(f"{study.name:{width}}  {study.title}: {study.asks}\n")
        return 0
    study = studies.find(args.name)
    if args.manifests:
        return manifests.run(study.name, args)
    if study.method:
        does = f"hwdyno storage {study.name.replace('-', ' ')}"
        raise UserError(f"{study.name} is a method of testing and no study; it is done by {does}")
    host = common.this_machine()
    if not study.questions:
        from hwdyno.cli import training

        return training.study(study.name, args)
    if len(args.path) > 1:
        raise UserError(f"{study.name} is about one storage; give --path once")
    args.path = Path(args.path[0]) if args.path else None
    if not any(question.name.startswith("network.") for question in _chosen(study, args.only)):
        return common.perform(plan_of(study, args, host), args, host)
    from hwdyno.cli.two_nodes import second_node

    with second_node(args.server, dry_run=args.dry_run) as place:
        return common.perform(plan_of(study, args, host, place), args, host)


def plan_of(study: Study, args: argparse.Namespace, host: Host, second: tuple[str, int] | None = None) -> Plan:
    """The study's plan: at its own sizes and times with ``--profile full``, scaled down otherwise.

    What it asks of the network is asked over loopback, and again of the server at ``second``.
    """
    from hwdyno import experiments as catalogue
    from hwdyno import plan as plans
    from hwdyno.experiments import Experiment
    from hwdyno.sweep import Sweep
    from hwdyno.units import parse_duration

    profile = args.profile or "quick"
    full = profile == "full"
    scaled_bytes = plans.PROFILES[profile].size_bytes if profile in plans.PROFILES else 0
    largest = _largest_buffers(host)
    experiments = []
    chosen = _chosen(study, args.only)
    questions = [*chosen, *(_on_two_nodes(chosen, second) if second else ())]
    for question in questions:
        size = question.size_bytes if full else min(question.size_bytes, scaled_bytes)
        on_disk = question.kernel == "storage_blocks"
        alike = [one for one in catalogue.all() if one.kernel == question.kernel]
        like = next((one for one in alike if one.name == question.name), alike[0] if alike else None)
        fixed: Parameters = {**question.fixed, **({"size": size} if on_disk else {})}
        if full and question.startdelay_s:
            fixed["startdelay"] = question.startdelay_s
        blocks = question.blocks if full else tuple(_brief(block, question) for block in question.blocks)
        sweeps = [Sweep(_fitting(block, size, largest) if on_disk else block) for block in blocks]
        sweep = sweeps[0]
        for more in sweeps[1:]:
            sweep = sweep + more
        experiments.append(
            Experiment(
                name=question.name,
                asks=question.asks,
                kernel=question.kernel,
                load=question.load,
                sweep=sweep,
                fixed=fixed,
                metric=like.metric if like else "throughput",
                ceilings=like.ceilings if like else (),
                peers=like.peers if like else (),
                needs=like.needs if like else (),
                time_share=like.time_share if like else 1.0,
                setup_s=like.setup_s if like else 0.0,
            )
        )
    budget_s = parse_duration(args.budget) if args.budget else plans.budget_of(profile, bool(args.peers))
    plan = plans.build(
        [(experiment, {}) for experiment in experiments],
        host,
        profile=profile,
        path=args.path,
        peers=bool(args.peers),
        seed=args.seed,
        budget_s=budget_s,
        command=common.command_line("hwdyno study"),
        study=study.name,
    )
    return _at_full_length(plan, questions) if full else plan


def _chosen(study: Study, only: str | None) -> list[Question]:
    """The study's questions, or those of the resources named; ``cpu`` and ``disk`` say compute and storage."""
    if only is None:
        return list(study.questions)
    words = {"cpu": "compute", "disk": "storage"}
    wanted = {words.get(name.strip(), name.strip()) for name in only.split(",")}
    resources = {question.name.partition(".")[0] for question in study.questions}
    if not wanted <= resources:
        unknown = ", ".join(sorted(wanted - resources))
        raise UserError(f"{study.name} asks nothing of '{unknown}'; it asks of: {', '.join(sorted(resources))}")
    return [question for question in study.questions if question.name.partition(".")[0] in wanted]


def _on_two_nodes(questions: list[Question], second: tuple[str, int]) -> list[Question]:
    """The questions about the network, asked of a server on another node."""
    from hwdyno.studies.cloud_vm_network import TWO_NODES

    place: Parameters = {"server": second[0], "port": second[1]}
    return [
        replace(
            question,
            name=question.name + TWO_NODES,
            asks=f"{question.asks[:-1]}, between two nodes?",
            fixed={**question.fixed, **({"server": second[0]} if question.kernel == "network_ping" else place)},
        )
        for question in questions
        if question.name.startswith("network.")
    ]


def _at_full_length(plan: Plan, questions: Sequence[Question]) -> Plan:
    """Every reading as long as the study's own was, three of each point at least; a budget bounds the further ones."""
    runtimes = {question.name: question.runtime_s for question in questions}
    experiments = tuple(
        replace(one, fixed={**one.fixed, "runtime": runtimes[one.experiment.name]}) if "runtime" in one.fixed else one
        for one in plan.experiments
    )
    profile = replace(plan.profile, repeats_min=3)
    return replace(plan, experiments=experiments, profile=profile, given=plan.given | {"startdelay", "runtime"})


def _brief(block: Block, question: Question) -> Block:
    """The axes with those values alone that are asked where the study is not done at full length."""
    return {**block, **{name: values for name, values in question.brief.items() if name in block}}


def _fitting(block: object, size: int, largest: int) -> dict[str, object]:
    """The axes with no block above a quarter of the file, and no more in flight than memory has room for."""
    axes = dict(block) if isinstance(block, dict) else {}
    depth = axes.get("iodepth", 1)
    deepest = max(depth) if isinstance(depth, tuple) else depth
    sizes = axes.get("bs", 4096)
    room = min(size // 4, largest // max(1, deepest))
    room = 1 << max(12, room.bit_length() - 1)
    axes["bs"] = tuple(min(one, room) for one in sizes) if isinstance(sizes, tuple) else min(sizes, room)
    return axes


def _largest_buffers(host: Host) -> int:
    available = host.survey(None).memory.available_bytes
    return int(available * BUFFER_SHARE) if available else 1 << 30
