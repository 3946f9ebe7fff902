"""What ``hwdyno training --checkpoint`` does: saves and loads a model's checkpoint at a stated scale."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli import common
from hwdyno.units import format_bytes_s, format_duration, format_size
from hwdyno.words import Parameters, Run, UserError

if TYPE_CHECKING:
    from hwdyno.hosts import Host

KERNEL = "training_checkpoint"
QUICK_TIMES = 3
ROOM_SHARE = 0.5
"""Of the free room, what checkpoints side by side may take."""
MOST_OF_ROOM = 0.98
"""What a single one may."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of checkpoints."""
    group = parser.add_argument_group("checkpoints, instead of a workload")
    group.add_argument("--checkpoint", metavar="MODEL", help="llama3-8b, llama3-70b, llama3-405b or llama3-1t")
    group.add_argument(
        "--scale",
        type=float,
        default=0.01,
        metavar="FACTOR",
        help="share of its size, or, of a KV cache, of the contexts' tokens (default 0.01)",
    )
    group.add_argument("--ranks", metavar="COUNTS", help="ranks that save at once (default: the model's, at most 16)")


def run(args: argparse.Namespace, places: Sequence[tuple[str, Path]], host: Host) -> int:
    """Save and load, report, and leave nothing behind."""
    from hwdyno import plan as plans
    from hwdyno.experiments.training import CHECKPOINT
    from hwdyno.formats import checkpoint
    from hwdyno.sweep import parse_axis

    what = checkpoint.find(args.checkpoint, args.scale)
    given = args.ranks or str(min(16, what.ranks))
    ranks = [int(value) for value in parse_axis(given, host.kernels()[KERNEL].axis("ranks")) if value]
    chosen = []
    for name, path in places:
        if not path.is_dir():
            raise UserError(f"--path {path} is no directory; make it, or give another")
        settled: Parameters = {**what.parameters, "path": str(path / "hwdyno-checkpoint")}
        fixed: Parameters = {name: settled.pop(name) for name in ("model", "scale")}
        if (args.profile or "quick") == "quick":
            settled |= {"writes": QUICK_TIMES, "reads": QUICK_TIMES}
        # as many side by side as there are saves, or as the room has for
        free = shutil.disk_usage(path).free
        if what.bytes > free * MOST_OF_ROOM:
            raise UserError(
                f"a checkpoint of {format_size(what.bytes)} does not fit into the {format_size(free)} free in {path}; "
                f"give --scale {free * ROOM_SHARE / what.full_bytes:.1g} or less"
            )
        fits = int(free * ROOM_SHARE / what.bytes)
        settled["slots"] = max(1, min(int(settled["writes"] or 1), fits))
        where = f"@{name}" if len(places) > 1 else ""
        called = f"training.checkpoint.{what.model}{where}"
        chosen.append((replace(CHECKPOINT, name=called, fixed=fixed, settled=settled), {"ranks": ranks}))
    plan = plans.build(
        chosen,
        host,
        profile=args.profile or "quick",
        path=places[0][1],
        load="ranks",
        seed=args.seed,
        command=common.command_line("hwdyno training"),
    )
    plan = replace(plan, profile=replace(plan.profile, repeats_min=1, repeats_max=1))
    if not args.quiet:
        for count in ranks:
            sys.stderr.write(what.memory(count) + "\n")
        if (args.profile or "quick") == "quick":
            sys.stderr.write(
                f"profile quick: {QUICK_TIMES} saves, then {QUICK_TIMES} loads, where MLPerf Storage has {what.writes} "
                f"and then {what.reads} (--profile standard)\n"
            )
    if args.dry_run:
        return common.dry_run(plan, host)
    try:
        found = common.measured(plan, args, host)
    finally:
        for _, path in places:
            _remove(path / "hwdyno-checkpoint")
    common.show(found, args)
    if not args.json:
        _say(found)
    return common.status(found, args.fail_under)


def _remove(folder: Path) -> None:
    for file in folder.glob("checkpoint-*.hwdyno"):
        file.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _say(found: Run) -> None:
    """Each point's save and load, in GB/s and s."""
    for result in found.experiments:
        for point in result.points:
            for word in ("save", "load"):
                speed, took = point.details.get(f"{word}_bytes_s"), point.details.get(f"{word}_mean_s")
                if speed and took:
                    sys.stdout.write(
                        f"{result.name} ranks {point.parameters.get('ranks')}: {word} {format_bytes_s(speed)}, "
                        f"{format_duration(took)} each\n"
                    )
