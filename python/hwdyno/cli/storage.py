"""``hwdyno storage``: any sweep of this storage, each axis an option of the same name."""

from __future__ import annotations

import argparse
from dataclasses import replace

from hwdyno.cli import common, storage_check, storage_job, storage_snia
from hwdyno.cli.resource import add_axes, plan_of
from hwdyno.scenarios import Scenario
from hwdyno.words import UserError

KERNEL = "storage_blocks"
KERNELS = (KERNEL, "storage_patterns", "storage_metadata")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno storage``."""
    parser.add_argument(
        "question",
        nargs="*",
        metavar="QUESTION",
        help="grid, iodepth, blocksize, mix, jobs, rate, patterns, threads, metadata, names, `job FILE.fio`, "
        "`snia TEST` (iops, throughput, latency, demand), or `check JOURNAL`; without one, the axes "
        "that are given, or all questions",
    )
    add_axes(
        parser, KERNELS, leave_out={"path", "cpus", "seed", "files", "purge", "destroy", "serial"}, resource="storage"
    )
    raw_device = parser.add_argument_group("raw devices", "--path DEVICE is only read, unless its data is given away")
    raw_device.add_argument(
        "--destroy", metavar="DEVICE", default="", help="write over this device, the same as --path: all on it is lost"
    )
    raw_device.add_argument(
        "--serial", metavar="TEXT", default="", help="its serial number, typed from its label (without one: its bytes)"
    )
    storage_job.add_options(parser)
    storage_check.add_options(parser)
    common.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Build the plan and perform it."""
    if args.question[:1] == ["job"]:
        if args.destroy:
            raise UserError("a job file never writes to a raw device; measure it by --rw, --bs … with --destroy")
        return storage_job.run(args.question[1:], args)
    if args.question[:1] == ["check"]:
        return storage_check.run(args.question[1:], args)
    if args.question[:1] == ["snia"]:
        return storage_snia.run(args.question[1:], args)
    host = common.this_machine()
    plan = replace(plan_of("storage", KERNELS, args, host), destroy=args.destroy, serial=args.serial)
    if args.output_format == "report" or args.dry_run:
        return common.perform(plan, args, host)
    done = common.measured(Scenario(plan=plan), args, host)
    storage_job.show(done, args)
    return common.status(done, args.fail_under)
