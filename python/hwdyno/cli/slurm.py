"""``hwdyno slurm``: a batch script that measures a plan or a command on the nodes of a job, as one Run."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from pathlib import Path

from hwdyno import __version__
from hwdyno.cli import dry_run, elsewhere
from hwdyno.cli.help import Help
from hwdyno.cli.parser import Parser
from hwdyno.cli.statuses import OK
from hwdyno.model.units import parse_duration
from hwdyno.model.words import UserError

HELP = Help(
    usage="script [PLAN.toml | -- COMMAND …]",
    title="what it writes",
    rows=lambda: (("script", "A batch script for sbatch, on stdout"),),
    examples=(
        "hwdyno slurm script --nodes 4 -- storage --rw randread --iodepth 1..64 --path /tmp > job.sh",
        "hwdyno slurm script --nodes 2 --ranks-per-node 8 -- memory --threads 1 | sbatch",
        "hwdyno slurm script --nodes 16 --partition short --time 30m -- compute clock",
    ),
)
SPARE = 2.0
"""The limit over the time that the plan is estimated to take: ranks that share a store, and clean-up, take longer."""
START_S = 300.0
"""Time for the start of the ranks, s, from a shared store of programs."""
STEP = "srun --distribution=block --cpu-bind=none --kill-on-bad-exit=0"
MAX_NODES = 100_000


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno slurm``."""
    parser.add_argument("what", choices=("script",), metavar="script", help="what to write")
    parser.add_argument("plan", nargs="?", type=Path, metavar="PLAN.toml", help="a plan file, as for hwdyno run")
    parser.add_argument("--nodes", type=int, default=2, metavar="N", help="nodes of the job [2]")
    parser.add_argument("--ranks-per-node", type=int, default=1, metavar="N", help="ranks on each of them [1]")
    parser.add_argument("--partition", metavar="NAME", help="partition of the job (default: the cluster's)")
    parser.add_argument("--time", metavar="TIME", help="limit of the job (default: from the plan's own estimate)")
    if isinstance(parser, Parser):
        parser.takes_pasted = True


def run(args: argparse.Namespace) -> int:
    """Print the script; raises ``UserError`` for a command that several hosts cannot measure."""
    if (args.plan is None) == (not args.pasted):
        raise UserError("name a plan file or a command, such as: hwdyno slurm script -- storage --path /scratch")
    for name, value in (("--nodes", args.nodes), ("--ranks-per-node", args.ranks_per_node)):
        if not 1 <= value <= MAX_NODES:
            raise UserError(f"{name} {value} must be from 1 to {MAX_NODES}")
    words = ["run", str(args.plan)] if args.plan is not None else list(args.pasted)
    limit_s = (
        parse_duration(args.time)
        if args.time
        else SPARE * estimated_s(words, args.nodes * args.ranks_per_node) + START_S
    )
    sys.stdout.write(script(words, args.nodes, args.ranks_per_node, limit_s, args.partition))
    return OK


def script(words: list[str], nodes: int, ranks_per_node: int, limit_s: float, partition: str | None) -> str:
    """The batch script of a command's words (sbatch(1), srun(1)).

    Ranks go to nodes in blocks, so that rank 0 is on the first one, where the script itself runs. A rank that dies
    ends no other (``--kill-on-bad-exit=0``), and hwdyno pins its threads itself.
    """
    if partition is not None and (not partition.isprintable() or not partition.replace(",", "").strip()):
        raise UserError(f"--partition '{partition}' is no name of a partition; sinfo lists them")
    lines = [
        "#!/bin/bash",
        "#SBATCH --job-name=hwdyno",
        f"#SBATCH --nodes={nodes}",
        f"#SBATCH --ntasks-per-node={ranks_per_node}",
        "#SBATCH --exclusive",
        f"#SBATCH --time={max(1, math.ceil(limit_s / 60))}",
        "#SBATCH --output=hwdyno-%j.txt",
        *([f"#SBATCH --partition={shlex.quote(partition)}"] if partition else []),
        f"# Made by hwdyno {__version__}. Each node needs that version in PATH; one Run is made of all ranks.",
        'export HWDYNO_RENDEZVOUS="$(hostname):$((20000 + SLURM_JOB_ID % 10000))"',
        "HWDYNO_SECRET=\"$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')\"",
        "export HWDYNO_SECRET",
        "# Status 3 is a Run that is done, but with degraded points, as its report says: no failed job.",
        f"{STEP} {shlex.join(['hwdyno', *words])} || test $? -eq 3",
    ]
    return "\n".join(lines) + "\n"


def estimated_s(words: list[str], ranks: int) -> float:
    """What a dry run of the command estimates for this many ranks, each like this machine; raises ``UserError``."""
    from hwdyno.measure.hosts.local import Alike

    if words[0] not in elsewhere.COMMANDS:
        raise UserError(f"'{words[0]}' is not for several nodes; use one of {', '.join(elsewhere.COMMANDS)}")
    host = Alike(ranks)
    scenario = elsewhere.parse_scenario(words, host)
    if scenario.preparations:
        name = scenario.plan.experiments[0].experiment.name
        raise UserError(f"{name} needs what is prepared on one machine; choose other experiments")
    return sum(line.takes_s for line in scenario.points(dry_run.write_speed(scenario, host)))
