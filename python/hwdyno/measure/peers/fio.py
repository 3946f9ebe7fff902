"""Runs fio, the reference tool of storage, on one of our points: same file, region and load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwdyno.formats import fio as fio_json
from hwdyno.measure.hosts import Outcome, Program
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.measure.peers.program import ProgramPeer
from hwdyno.model.axes import FIELD, FIELD_AXES, is_mixed, list_traits
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.point_details import Fault
from hwdyno.model.units import as_number
from hwdyno.model.words import UserError

# Allowance for what fio does outside of its timed region: start, open, a final flush.
GRACE_S = 30.0
# fio keeps iodepth blocks per job in memory; with more it would swap or be killed.
LARGEST_BUFFERS_BYTES = 2 << 30
# fio's limit for one block is 4 GiB; one system call moves at most 2 GiB - 4 KiB, and fio stops at a short transfer.
LARGEST_BLOCK_BYTES = (2 << 30) - 4096


MIN_SAMPLES = 2


class Fio(ProgramPeer):
    """fio, on the path or named by ``HWDYNO_FIO``."""

    name = "fio"
    kernels = frozenset({STORAGE_BLOCKS})
    names = ("fio",)
    asks_version = ("--version",)

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why fio cannot measure this point; none if it can."""
        if kernel not in self.kernels:
            return f"fio cannot measure {kernel}"
        block, depth, jobs = (int(parameters.get(name, 1)) for name in ("bs", "iodepth", "numjobs"))
        if block > LARGEST_BLOCK_BYTES:
            return f"a block of {block} bytes exceeds one system call, and fio does not split it"
        if block * depth * jobs > LARGEST_BUFFERS_BYTES:
            return f"fio needs {block * depth * jobs >> 20} MiB of buffers"
        if parameters.get("time_based", True) and not float(parameters.get("runtime", 0)) > 0:
            return "a point without an end cannot be compared"
        reads_only = not list_traits(FIELD_AXES, parameters) & {"writes", "trims"}
        if not reads_only and Path(str(parameters.get("path", ""))).is_block_device():
            return "fio has no guard against overwriting a raw device"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line; fio never creates, grows, truncates or removes the file."""
        given = dict(parameters)
        rw, engine = str(given.get("rw", "read")), str(given.get("ioengine", "io_uring"))
        jobs, block = int(given.get("numjobs", 1)), int(given.get("bs", 4096))
        options: dict[str, object] = {
            "name": "point",
            # fio splits names at colons.
            "filename": str(given.get("path", "")).replace("\\", "\\\\").replace(":", "\\:"),
            "allow_file_create": 0,
            "fallocate": "none",
            "rw": rw,
            "bs": block,
            "iodepth": int(given.get("iodepth", 1)),
            "numjobs": jobs,
            "ioengine": engine,
            "direct": int(bool(given.get("direct", False))),
            "randrepeat": 0,
            "invalidate": int(bool(given.get("drop_cache", False))),
        }
        if is_mixed(FIELD["rw"], given):
            options["rwmixread"] = int(given.get("rwmixread", 50))
        size, offset = int(given.get("size", 0)), int(given.get("offset", 0))
        if jobs > 1 and size and given.get("share", "partition") == "partition":
            size = size // jobs // block * block
            options["offset_increment"] = size
        if size:
            options["size"] = size
        if offset:
            options["offset"] = offset
        for name in ("runtime", "ramp_time", "startdelay"):
            if seconds := float(given.get(name, 0)):
                options[name] = f"{round(seconds * 1e3)}ms"
        if seed := int(given.get("seed", 0)):
            options["randseed"] = seed
        if cpus := given.get("cpus"):
            options["cpus_allowed"] = ",".join(str(cpu) for cpu in cpus)
            options["cpus_allowed_policy"] = "split"
        if given.get("end_fsync"):
            options["end_fsync"] = 1
        flags = ["--norandommap", "--group_reporting", "--thread"]
        if given.get("time_based", True):
            flags.append("--time_based")
        return ["fio", *(f"--{name}={value}" for name, value in options.items()), *flags, "--output-format=json"]

    def program(self, kernel: str, parameters: Mapping[str, Any]) -> Program:
        """fio on this point; it would extend a data file that is too short, and overwrite any path that it is given."""
        timed_s = sum(float(parameters.get(name, 0)) for name in ("runtime", "ramp_time", "startdelay"))
        end = int(parameters.get("offset", 0)) + int(parameters.get("size", 0))
        return Program(
            self.name,
            self.names,
            tuple(self.command(kernel, parameters)[1:]),
            GRACE_S + 3 * timed_s,
            files={str(parameters.get("path", "")): end},
        )

    def reading(self, parameters: Mapping[str, Any], outcome: Outcome) -> PeerReading:
        """Read fio's output."""
        return parse_output(outcome.stdout, outcome.stderr, outcome.status)


PEER = Fio()


def parse_output(out: str, err: str, status: int) -> PeerReading:
    """Read fio's output. Raises ``OSError`` with fio's error message in one line if it failed."""
    complaint = _complaint(err) or _complaint(out)
    ended = f"it ended with status {status}" if status else ""
    try:
        document = fio_json.parse(out)
        jobs = fio_json.list_jobs(document)
    except UserError:
        raise OSError(f"fio failed: {complaint or ended or _unreadable(out)}") from None
    points = [fio_json.convert_job(job) for job in jobs]
    faults = [fault for point in points for fault in point.faults]
    if status or faults or not points[0].operations:
        raise OSError(f"fio failed: {complaint or _fault(faults) or ended or 'it measured nothing'}")
    point = points[0]
    user_s, system_s = point.cpu_user_s or 0.0, point.cpu_system_s or 0.0
    latency_ns = sum((s.latency_ns["total"].mean * s.operations for s in point.streams if "total" in s.latency_ns), 0.0)
    details: dict[str, Any] = {"cpu_user_s": user_s, "cpu_system_s": system_s, "elapsed_s": point.elapsed_s}
    if point.latency_ns is not None:
        details |= {"latency_ns_p50": point.latency_ns.p50, "latency_ns_p99": point.latency_ns.p99}
    details |= _bandwidth_range(document)
    details |= {f"{s.name}_bytes_s": s.bytes / point.elapsed_s for s in point.streams if point.elapsed_s}
    return PeerReading(
        throughput=point.throughput.value,
        unit=point.throughput.unit,
        rate=point.rate.value if point.rate else None,
        latency_ns_mean=latency_ns / point.operations or None,
        cpu_s=user_s + system_s,
        operations=point.operations,
        details=details,
    )


def _bandwidth_range(document: Mapping[str, Any]) -> dict[str, float]:
    """fio's least and greatest sample of bandwidth, bytes/s, where one job went one way and has two samples or more."""
    jobs = document["jobs"] if isinstance(document.get("jobs"), list) else []
    ways = [job.get(name) for job in jobs for name in ("read", "write")]
    used = [way for way in ways if isinstance(way, dict) and as_number(way.get("io_bytes"))]
    if len(jobs) != 1 or len(used) != 1 or (as_number(used[0].get("bw_samples")) or 0) < MIN_SAMPLES:
        return {}
    least, most = (as_number(used[0].get(name)) for name in ("bw_min", "bw_max"))
    return {} if least is None or most is None else {"bytes_s_min": 1024 * least, "bytes_s_max": 1024 * most}


def _unreadable(out: str) -> str:
    first = " ".join(out.strip()[:60].split())
    return f"it printed no JSON, but: {first}" if first else "it printed nothing"


def _fault(faults: list[Fault]) -> str:
    return f"{faults[0].says.lower()} (errno {faults[0].errno})" if faults else ""


def _complaint(text: str) -> str:
    """fio's error message: its first line that begins with its name, without the source location."""
    for line in text.splitlines():
        if match := re.match(r"fio: (?!this platform)(.+)", line.strip()):
            return re.sub(r"(file:)?\S+\.c:\d+,? ?", "", match[1])[:200]
    return ""
