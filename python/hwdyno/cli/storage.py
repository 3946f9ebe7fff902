"""``hwdyno storage``: any sweep of this storage, each axis an option of the same name."""

from __future__ import annotations

import argparse

from hwdyno.cli import common, storage_job
from hwdyno.cli.resource import add_axes, plan_of

KERNEL = "storage_blocks"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno storage``."""
    parser.add_argument(
        "question",
        nargs="*",
        metavar="QUESTION",
        help="grid, iodepth, blocksize, mix, jobs, rate …, or `job FILE.fio`; without one, the axes that are given, "
        "or all questions",
    )
    add_axes(parser, KERNEL, leave_out={"path", "cpus", "seed"}, resource="storage")
    storage_job.add_options(parser)
    common.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Build the plan and perform it."""
    if args.question[:1] == ["job"]:
        return storage_job.run(args.question[1:], args)
    host = common.this_machine()
    plan = plan_of("storage", KERNEL, args, host)
    if args.output_format == "report" or args.dry_run:
        return common.perform(plan, args, host)
    done = common.measured(plan, args, host)
    storage_job.show(done, args)
    return common.status(done, args.fail_under)
