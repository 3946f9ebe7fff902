"""Keys for pacing: rates and minimum rates, think time, a latency target, a ratio to other jobs."""

from __future__ import annotations

from hwdyno.formats.fio_job.block_sizes import directions
from hwdyno.formats.fio_job.reader import Reader, traits
from hwdyno.model.words import Parameters, UserError

PER_JOB = (
    *("rate", "rate_bytes", "rate_iops_read", "rate_iops_write", "rate_read", "rate_write"),
    *("rate_iops_min_read", "rate_iops_min_write", "rate_min_read", "rate_min_write"),
)
"""Keys that fio counts per thread, and our kernel over all threads."""


def read(reader: Reader, given: Parameters) -> None:
    """Read the keys of pacing; ``given`` already has ``rw``."""
    _rates(reader, given)
    _least(reader, given)
    _pauses(reader, given)
    _target(reader, given)
    _flow(reader, given)


def _rates(reader: Reader, given: Parameters) -> None:
    rw = str(given["rw"])
    found = {key: reader.limits(key) for key in ("rate", "rate_iops")}
    if all(limits is not None and any(limits) for limits in found.values()):
        raise UserError(f"{reader.file}: rate and rate_iops in one job exclude each other, as in fio; use one of them")
    for key, limits in found.items():
        if limits is None:
            continue
        used = directions(rw)
        if {"trims", "writes"} <= traits(rw):
            raise UserError(f"{reader.file}: {key} with {rw} is not supported: a trim and its write belong together")
        if {"reads", "writes"} <= traits(rw):
            names = ("rate_read", "rate_write") if key == "rate" else ("rate_iops_read", "rate_iops_write")
            given.update({name: limit for name, limit in zip(names, limits, strict=False) if limit})
        elif limits[used[0]]:
            given["rate_bytes" if key == "rate" else "rate"] = limits[used[0]]
    process = reader.text("rate_process")
    if process not in {None, "linear", "poisson"}:
        raise UserError(f"{reader.file}: rate_process={process} is neither linear nor poisson")
    if process == "poisson":
        given["rate_process"] = "poisson"


def _least(reader: Reader, given: Parameters) -> None:
    cycle = reader.seconds("rate_cycle", "ms")
    used = directions(str(given["rw"]))
    for key in ("rate_min", "rate_iops_min"):
        limits = reader.limits(key)
        for name, way in ((f"{key}_read", used[0]), (f"{key}_write", used[-1])):
            # Only one direction has a rate: writes have a parameter of their own.
            if limits is not None and limits[way] and (len(used) == 2 or name.endswith("write") == (way == 1)):
                given[name] = limits[way]
                if cycle:
                    given["rate_cycle"] = cycle


def _pauses(reader: Reader, given: Parameters) -> None:
    think = reader.seconds("thinktime", "us")
    blocks = reader.integer("thinktime_blocks", 1, 1 << 30)
    spin, busy = reader.seconds("thinktime_spin", "us"), reader.seconds("thinktime_iotime", "s")
    kind, ignored = reader.text("thinktime_blocks_type"), reader.flag("rate_ignore_thinktime")
    if kind not in {None, "complete", "issue"}:
        raise UserError(f"{reader.file}: thinktime_blocks_type={kind} is neither complete nor issue")
    if kind == "issue" and int(given.get("iodepth") or 1) > 1:
        reader.notes["thinktime_blocks_type"] = "operations in flight complete before each pause, as with complete"
    if think:
        given["thinktime"], given["thinktime_blocks"] = think, blocks or 1
        if spin:
            given["thinktime_spin"] = min(spin, think)
        if busy:
            given["thinktime_iotime"] = busy
        if ignored:
            given["rate_ignore_thinktime"] = True


def _target(reader: Reader, given: Parameters) -> None:
    target, window = reader.seconds("latency_target", "us"), reader.seconds("latency_window", "us")
    share, run = reader.number("latency_percentile"), reader.flag("latency_run")
    if share is not None and not 0 < share <= 100:
        raise UserError(f"{reader.file}: latency_percentile={share:g} is not a share above 0 and up to 100")
    if target:
        given["latency_target"], given["latency_window"] = target, window or 0.0
        given["latency_percentile"], given["latency_run"] = share or 100.0, bool(run)


def _flow(reader: Reader, given: Parameters) -> None:
    weight, number = reader.integer("flow", 0, 1 << 30), reader.integer("flow_id", 0, 1 << 30)
    sleep = reader.seconds("flow_sleep", "us")
    if weight:
        given["flow"], given["flow_id"], given["flow_sleep"] = weight, number or 0, sleep or 0.0
