"""Rules on a language model's KV cache on storage: how many users it serves in time, and whether the figures count."""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.commands import format_option
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.model.histogram import latency_quantile
from hwdyno.model.kernels import INFERENCE_KV_CACHE, INFERENCE_VECTOR_SEARCH
from hwdyno.model.units import format_bytes_s, format_count, format_ns, plural
from hwdyno.model.words import ExperimentResult, Latency, Measurement

TARGETS_NS = {"interactive": 50e6, "responsive": 100e6, "batch": 1000e6}
"""The p95 that MLPerf Storage's KV cache requires, by class of user (kv_cache_benchmark/kv_cache/models.py)."""
MIN_READS = 200
"""Minimum number of reads: with fewer, a p95 rests on fewer than ten values."""
CLIENT_SHARE = 0.9


@dataclass(frozen=True)
class ServedUsers:
    """A point's figures for its users."""

    users: int
    read: Latency | None
    write: Latency | None
    read_bytes_s: float
    tokens_s: float

    @property
    def read_p95_ns(self) -> float | None:
        """The time within which 95% of the entries were read from storage."""
        return None if self.read is None else latency_quantile(self.read, 0.95)


def read_users(result: ExperimentResult, point: Measurement) -> ServedUsers | None:
    """Reads a point's figures; none if it has no users."""
    users = as_number({**result.fixed, **point.parameters}.get("users"))
    if not users:
        return None
    latencies = {stream.name: stream.latency_ns.get("total") for stream in point.streams}
    return ServedUsers(
        users=int(users),
        read=latencies.get("read"),
        write=latencies.get("write"),
        read_bytes_s=float(point.details.get("read_bytes_s") or 0.0),
        tokens_s=float(point.details.get("tokens_s") or 0.0),
    )


def who(result: ExperimentResult, users: int) -> str:
    """``8 users of llama3.1-8b``."""
    model = result.fixed.get("model")
    return plural(users, "user") + (f" of {model}" if model else "")


def describe_scale(result: ExperimentResult) -> str:
    """A sentence on the scale where contexts are shortened."""
    scale = as_number(result.fixed.get("scale")) or 1.0
    return "" if scale >= 1 else f" Contexts and entries were shortened to {scale:g} of their tokens."


def io_corrupt(case: Case) -> Verdict | None:
    """A block that was read differs from what was written: the point is invalid."""
    count = as_number(case.point.details.get("corrupt_blocks"))
    if not count:
        return None
    named = next((fault.says for fault in case.point.faults if fault.operation == "verify"), "")
    differ = "differs" if count == 1 else "differ"
    first = f" First: {named}." if named else ""
    check = "Check dmesg, the drive's health (smartctl -a) and other writers to this folder"
    if case.in_object_store:
        check = f"{case.on_faults}, and what else writes below this prefix"
    return Verdict(
        "invalid",
        f"Data corruption ({case.label}): {plural(count, 'block')} {differ} from what was written.{first}",
        {"corrupt_blocks": count},
        f"{check}, then: {case.command()}",
        weight=count,
    )


def _is_full(point: Measurement) -> bool:
    return any(fault.errno in {errno.ENOSPC, errno.EDQUOT} for fault in point.faults)


def io_faults(case: Case) -> Verdict | None:
    """Entries or blocks that could not be written or read, with the remedy."""
    faults = [fault for fault in case.point.faults if fault.operation != "verify"]
    if not faults:
        return None
    count, first = sum(fault.count for fault in faults), faults[0]
    if _is_full(case.point):
        capacity = as_number(case.parameter("capacity")) or 0.0
        why = "The storage filled up before its data were written."
        remedy = f"Free space or reduce the capacity: {case.command(capacity=int(capacity / 2) or None)}"
    elif first.operation in {"get", "put"}:
        why = "Requests to the object store failed."
        remedy = f"{case.on_faults}, then: {case.command()}"
    elif first.errno in {errno.ENOENT, 0}:
        why = "A file was removed or truncated meanwhile."
        remedy = f"Check what else uses that folder, then: {case.command()}"
    else:
        why = "The storage returned an error."
        remedy = f"Check dmesg, then: {case.command()}"
    return Verdict(
        "warning",
        f"{why} {plural(count, 'transfer')} failed ({case.label}). First: {first.operation}: {first.says}.",
        {"faults": count, "errno": first.errno},
        remedy,
        weight=float(count),
    )


def io_nothing_done(case: Case) -> Verdict | None:
    """Not one turn or query ended, so there is nothing to judge."""
    note = next((note for note in case.point.notes if note.code == "no_step"), None)
    if note is None:
        return None
    runtime = as_number(case.parameter("runtime")) or 1.0
    if _is_full(case.point):
        return Verdict(
            "invalid",
            f"Nothing to judge ({case.label}): the storage filled up before anything was answered.",
            {"runtime_s": runtime},
            f"Free space on it, then: {case.command()}",
        )
    return Verdict(
        "invalid",
        f"Nothing to judge ({case.label}): {note.says} in {runtime:g} s. The point does not count.",
        {"runtime_s": runtime},
        f"Measure longer: {case.command(runtime=runtime * 10)}",
    )


def io_client_bound(case: Case) -> Verdict | None:
    """The processors of this machine were the limit, not the storage."""
    point = case.point
    if case.threads is None or point.elapsed_s <= 0:
        return None
    workers = as_number(case.parameter("users")) or as_number(case.parameter("threads")) or 1.0
    cores = min(workers, float(case.threads))
    share = ((point.cpu_user_s or 0.0) + (point.cpu_system_s or 0.0)) / point.elapsed_s / cores
    if share <= CLIENT_SHARE:
        return None
    return Verdict(
        "warning",
        f"Client-bound ({case.label}): the threads used {percent(share)} of {plural(cores, 'processor')}. "
        "This is what the client can issue, not the storage's limit.",
        {"cpu_share": share, "limit": CLIENT_SHARE, "cores": cores},
        "Use more threads while processors are free."
        if workers < case.threads
        else "Use a client with more processors, or several clients.",
        weight=share,
    )


def kv_too_few(case: Case) -> Verdict | None:
    """Too few reads for a meaningful p95."""
    found = read_users(case.result, case.point)
    if found is None or found.read is None or not 0 < found.read.count < MIN_READS:
        return None
    runtime = as_number(case.parameter("runtime")) or 1.0
    longer = runtime * MIN_READS / found.read.count * 1.5
    return Verdict(
        "info",
        f"Too few reads to judge ({who(case.result, found.users)}): the p95 of "
        f"{format_ns(latency_quantile(found.read, 0.95))} rests on {max(1, found.read.count // 20)} of "
        f"{found.read.count} entries read from storage.",
        {"reads": found.read.count, "least": MIN_READS},
        f"Measure longer: {case.command(runtime=round(longer, 1))}",
        weight=1 / found.read.count,
    )


def kv_no_room(case: Case) -> Verdict | None:
    """Entries without room were neither written nor read: the load was less than requested."""
    note = next((note for note in case.point.notes if note.code == "no_room"), None)
    if note is None:
        return None
    capacity = as_number(case.parameter("capacity")) or 0.0
    return Verdict(
        "warning",
        f"Part of the load is missing ({case.label}): {note.says}.",
        {"turned_away": case.point.details.get("turned_away"), "capacity": capacity},
        f"Raise the capacity: {case.command(capacity=int(capacity * 4))}",
        weight=float(case.point.details.get("turned_away") or 0),
    )


def kv_users(case: Case) -> Verdict | None:
    """The number of users that this storage serves within each target, and its peak throughput."""
    found = sorted(
        (
            (served, at)
            for at, point in enumerate(case.result.points)
            if point.validity != "invalid"
            and (served := read_users(case.result, point)) is not None
            and served.read_p95_ns is not None
        ),
        key=lambda pair: pair[0].users,
    )
    if not found or _several_series(case.result):
        return None
    holds: dict[str, int] = {}
    for name, target in TARGETS_NS.items():
        within = 0
        for load, _ in found:
            if (load.read_p95_ns or 0.0) >= target:
                break
            within = load.users
        holds[name] = within
    most = found[-1][0]
    best = max((load for load, _ in found), key=lambda load: load.read_bytes_s)
    words = ", ".join(f"{count} below {format_ns(TARGETS_NS[name])} ({name})" for name, count in holds.items())
    open_end = all(count == most.users for count in holds.values())
    text = (
        f"Users of {case.result.fixed.get('model') or 'this model'} that {case.storage} serves, by read p95: {words}. "
        f"Peak: {format_bytes_s(best.read_bytes_s)} of reads and {format_count(best.tokens_s)} tokens/s with "
        f"{plural(best.users, 'user')}.{describe_scale(case.result)}"
    )
    axis = ",".join(format_option(case.result.axis("users"), float(load.users)) for load, _ in found)
    more = ",".join(format_option(case.result.axis("users"), float(most.users * factor)) for factor in (2, 4, 8))
    return Verdict(
        "info",
        text,
        {
            "headline": {
                "title": f"users of {case.result.fixed.get('model') or 'this model'} within every target",
                "value": min(holds.values()),
            },
            "holds": holds,
            "read_p95_ns": {load.users: load.read_p95_ns for load, _ in found},
            "read_bytes_s": {load.users: load.read_bytes_s for load, _ in found},
            "tokens_s": {load.users: load.tokens_s for load, _ in found},
        },
        f"Try more users, since every target was met: {case.command(users=more)}"
        if open_end
        else f"Try a memory tier above the storage: {case.command(users=axis, memory='1G')}",
        points=tuple(at for _, at in found),
    )


def _several_series(result: ExperimentResult) -> bool:
    """Whether other axes than the number of users vary, so that one sentence cannot describe them all."""
    others = [{k: v for k, v in point.parameters.items() if k != "users"} for point in result.points]
    return any(parameters != others[0] for parameters in others)


_KV = Applies(kernels=(INFERENCE_KV_CACHE,))
_BOTH = Applies(kernels=(INFERENCE_KV_CACHE, INFERENCE_VECTOR_SEARCH))
RULES = (
    Rule("io_corrupt", "point", io_corrupt, replace(_BOTH, needs=("details.corrupt_blocks",))),
    Rule("io_faults", "point", io_faults, replace(_BOTH, needs=("faults",)), degrades=True, instead_of=("faults",)),
    Rule("io_nothing_done", "point", io_nothing_done, replace(_BOTH, needs=("notes.no_step",))),
    Rule("io_client_bound", "point", io_client_bound, _BOTH, degrades=True),
    Rule("kv_too_few", "point", kv_too_few, _KV),
    Rule("kv_no_room", "point", kv_no_room, replace(_KV, needs=("notes.no_room",)), degrades=True),
    Rule("kv_users", "experiment", kv_users, _KV),
)
