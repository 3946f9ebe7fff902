"""Runs likwid-bench, the reference for loops of known bytes and FLOPs, on one of our points."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hwdyno.measure.hosts import programs
from hwdyno.measure.peers import program
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.model.kernels import COMPUTE_FLOPS, MEMORY_BANDWIDTH
from hwdyno.model.units import positive, printed_number
from hwdyno.model.words import UserError

# likwid-bench sets up and calibrates before it measures for a second.
TIMEOUT_S = 120.0
_BANDWIDTH = {
    "read": "load",
    "write": "store",
    "nt_write": "store_mem",
    "copy": "copy",
    "nt_copy": "copy_mem",
    "triad": "stream",
    "nt_triad": "stream_mem",
}
_ARITHMETIC = {"double": "peakflops", "single": "peakflops_sp"}
# Suffixes of the loops' names, the widest first, each with the instruction set that it needs.
_ENDINGS = (("_avx512_fma", "avx512f"), ("_avx512", "avx512f"), ("_avx_fma", "fma"), ("_avx", "avx"), ("_sse", "sse2"))
_ISAS = {"avx512": "_avx512", "avx2": "_avx", "sse": "_sse", "scalar": ""}


class Likwid:
    """likwid-bench, on the path."""

    name = "likwid"
    kernels = frozenset({MEMORY_BANDWIDTH, COMPUTE_FLOPS})

    def version(self) -> str | None:
        """likwid's version; none if it is not installed."""
        found = shutil.which("likwid-bench")
        return _version(found) if found else None

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why likwid-bench cannot measure this point; none if it can."""
        if kernel not in self.kernels:
            return f"likwid-bench cannot measure {kernel}"
        plain = parameters.get("pattern", "sequential") == "sequential" and not int(parameters.get("stride") or 0)
        if kernel == MEMORY_BANDWIDTH and (not plain or parameters.get("pages") == "4k"):
            return "likwid-bench is sequential only, with the system's default pages"
        if int(parameters.get("threads", 1)) > len(os.sched_getaffinity(0)):
            return "likwid-bench pins each thread to its own CPU"
        return None if _test(kernel, parameters) else "likwid-bench has no such loop"

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line."""
        threads = int(parameters.get("threads", 1))
        # Arithmetic stays in the L1 cache; likwid's kB are 10^3.
        thread_bytes = 16_000 if kernel == COMPUTE_FLOPS else int(parameters.get("working_set") or 512 << 20)
        test = _test(kernel, parameters) or str(parameters.get("operation"))
        return ["likwid-bench", "-t", test, "-w", f"N:{max(1, thread_bytes * threads // 1000)}kB:{threads}"]

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run likwid-bench once on this point."""
        why = self.unsupported_reason(kernel, parameters)
        if why:
            raise UserError(why)
        before = programs.cpu_s()
        text = program.output(self.command(kernel, parameters), TIMEOUT_S)
        return parse_output(text, kernel, programs.cpu_s() - before)


PEER = Likwid()


def parse_output(text: str, kernel: str, cpu_s: float | None = None) -> PeerReading:
    """Read likwid-bench's output. Raises ``OSError`` in one line if the figure is missing."""
    label, unit = ("MFlops/s", "FLOP/s") if kernel == COMPUTE_FLOPS else ("MByte/s", "bytes/s")
    rate, iterations = positive(_figure(text, label)), _figure(text, "Iterations")
    if not rate:
        raise OSError(f"likwid-bench printed no {label}")
    details = {"test": found[1] if (found := re.search(r"^Test: (\S+)", text, re.M)) else ""}
    return PeerReading(rate * 1e6, unit, None, None, cpu_s, int(iterations or 0), details)


def _figure(text: str, label: str) -> float | None:
    found = re.search(rf"^{re.escape(label)}:\s+([0-9][0-9.e+]*)", text, re.M)
    return printed_number(found[1]) if found else None


def _test(kernel: str, parameters: Mapping[str, Any]) -> str | None:
    """The widest loop for this operation that the processor supports, or that of ``isa``."""
    operation, precision = str(parameters.get("operation", "read")), str(parameters.get("precision", "double"))
    if kernel == COMPUTE_FLOPS:
        stem = _ARITHMETIC.get(precision) if operation == "fma" else None
    else:
        stem = _BANDWIDTH.get(operation)
    if stem is None:
        return None
    here, flags, wanted = tests(), processor_flags(), str(parameters.get("isa", "auto"))
    for ending, needs in (*_ENDINGS, ("", "")):
        fits = wanted == "auto" or ending.removesuffix("_fma") == _ISAS.get(wanted)
        if fits and (not needs or needs in flags) and stem + ending in here:
            return stem + ending
    return None


@cache
def tests() -> frozenset[str]:
    """The names of likwid-bench's loops; empty if it is not installed."""
    if shutil.which("likwid-bench") is None:
        return frozenset()
    try:
        text = program.output(["likwid-bench", "-a"], 20)
    except OSError:
        return frozenset()
    return frozenset(line.partition(" - ")[0].strip() for line in text.splitlines() if " - " in line)


@cache
def processor_flags() -> frozenset[str]:
    """The processor's feature flags, as Linux names them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.M)
    return frozenset(found[1].split()) if found else frozenset()


@cache
def _version(path: str) -> str:
    try:
        text = program.output([path, "-h"], 20)
    except OSError:
        return "unknown"
    found = re.search(r"\d+(?:\.\d+)+", text)
    return found[0] if found else "unknown"
