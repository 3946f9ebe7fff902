"""``hwdyno storage``: any sweep of this storage, each axis an option of the same name."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hwdyno.cli import elsewhere, storage_check, storage_job, storage_snia
from hwdyno.cli.axes import add_resource_axes
from hwdyno.cli.help import Help, Rows, list_experiments
from hwdyno.cli.options import add_options, make_request
from hwdyno.cli.parser import Parser
from hwdyno.cli.perform import choose_host, measure_with_progress, perform, status
from hwdyno.measure.scenarios import make_scenario
from hwdyno.model.words import UserError

if TYPE_CHECKING:
    from hwdyno.measure.scenarios import Request

GROUPS = {
    "rates and pauses": (
        *("rate", "rate_bytes", "rate_process", "rate_iops_read", "rate_iops_write", "rate_read", "rate_write"),
        *("rate_iops_min_read", "rate_iops_min_write", "rate_min_read", "rate_min_write", "rate_cycle"),
        *("rate_ignore_thinktime", "thinktime", "thinktime_blocks", "thinktime_iotime", "thinktime_spin"),
        *("flow", "flow_id", "flow_sleep"),
    ),
    "order of blocks": (
        *("random_distribution", "pattern", "stride", "gap", "sequential_read", "sequential_write", "random_every"),
        *("rw_sequencer", "positions_apart", "norandommap", "zonesize", "zonerange", "zoneskip", "write_iolog"),
        *("read_iolog", "replay_skip", "replay_time_scale"),
    ),
    "block sizes": (*("bssplit", "bssplit_write", "blockalign", "blockalign_write", "bs_unaligned", "bs_is_seq_rand"),),
    "data and durability": (
        *("fsync", "fdatasync", "sync", "end_fsync", "verify", "verify_seed", "generation", "journal", "mem"),
        *("buffer_compress_percentage", "buffer_compress_chunk", "dedupe_percentage", "buffer_pattern"),
        *("drop_cache", "pre_read"),
    ),
    "end and steady state": (
        *("io_size", "loops", "number_ios", "steadystate", "steadystate_duration", "steadystate_ramp_time"),
        *("steadystate_interval", "latency_target", "latency_window", "latency_percentile", "latency_run"),
    ),
    "files and metadata": (
        *("operation", "nrfiles", "filesize", "depth", "directories", "file_service_type", "openfiles"),
    ),
}
"""The axes of ``--help-all`` by subject; all others are shown first."""


def _topics() -> Rows:
    return (
        *list_experiments("storage"),
        ("job FILE.fio", "Run a fio job file, or after `job --` a command line of fio"),
        ("snia TEST", "SNIA test: iops, throughput, latency or demand"),
        ("check JOURNAL", "Check acknowledged writes after a crash"),
    )


HELP = Help(
    usage="[EXPERIMENT ...]",
    title="experiments (default: the first five)",
    rows=_topics,
    options=("rw", "bs", "iodepth", "numjobs", "size", "rate", "path", "runtime", "profile", "peers"),
    examples=(
        "hwdyno storage --path .",
        "hwdyno storage iodepth --path . --peers",
        "hwdyno storage --rw randread,randwrite --bs 4k,128k --iodepth 1..64 --path .",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno storage``."""
    add_resource_axes(parser, "storage", GROUPS)
    raw_device = parser.add_argument_group("raw devices", "--path DEVICE is only read, unless --destroy names it")
    raw_device.add_argument(
        "--destroy",
        metavar="DEVICE",
        default="",
        help="overwrite this device, the same as --path: all its data is lost",
    )
    raw_device.add_argument(
        "--serial", metavar="TEXT", default="", help="its serial number from the label (without one: its size in bytes)"
    )
    storage_job.add_options(parser)
    if isinstance(parser, Parser):
        parser.takes_pasted = True
    storage_check.add_options(parser)
    add_options(parser)
    elsewhere.add_option(parser)


def request(args: argparse.Namespace) -> Request:
    """What the options request, where they name no job, test or journal."""
    return make_request(args, "storage")


def run(args: argparse.Namespace) -> int:
    """Measure what the options request."""
    if args.pasted and args.question[:1] != ["job"]:
        raise UserError("a command line of fio follows `hwdyno storage job --`")
    if args.question[:1] == ["job"]:
        if args.destroy:
            raise UserError("a job file never writes to a raw device; use --rw, --bs … with --destroy")
        return storage_job.run(args.question[1:], args)
    if args.question[:1] == ["check"]:
        return storage_check.run(args.question[1:], args)
    if args.question[:1] == ["snia"]:
        return storage_snia.run(args.question[1:], args)
    if args.output_format == "report" or args.dry_run:
        return perform(request(args), args)
    host = choose_host(args)
    done = measure_with_progress(make_scenario(request(args), host), args, host)
    storage_job.show_in_format(done, args)
    return status(done, args.fail_under)
