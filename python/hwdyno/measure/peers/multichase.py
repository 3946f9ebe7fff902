"""Runs Google's multichase, the reference for pointer chasing, on one of our points."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwdyno.measure.hosts import programs
from hwdyno.measure.peers import program
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.model.kernels import MEMORY_LATENCY
from hwdyno.model.units import printed_number
from hwdyno.model.words import UNNUMBERED, UserError

TIMEOUT_S = 120.0
SAMPLE_S = 0.5
_SAMPLES_MAX = 20
_NEVER = "[never]"


class Multichase:
    """multichase, on the path or named by ``HWDYNO_MULTICHASE``."""

    name = "multichase"
    kernels = frozenset({MEMORY_LATENCY})

    def version(self) -> str | None:
        """``here`` if it is installed: multichase has no version."""
        return UNNUMBERED if _program() else None

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why multichase cannot measure this point; none if it can."""
        if kernel not in self.kernels:
            return f"multichase cannot measure {kernel}"
        if int(parameters.get("threads") or 1) != 1:
            return "multichase threads share one chase, ours have one each"
        if int(parameters.get("node", -1)) >= 0 or parameters.get("cpus"):
            return "multichase cannot select CPUs or memory nodes"
        if parameters.get("pages", "2m") == "1g":
            return "multichase needs a hugetlbfs file for 1 GiB pages"
        if parameters.get("pages", "2m") == "2m" and _NEVER in _transparent():
            return "multichase needs transparent huge pages, and they are off"
        if parameters.get("pages") == "4k" and "[always]" in _transparent():
            return "this system always gives multichase huge pages"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line: working set, stride, and TLB locality."""
        working_set = int(parameters.get("working_set") or 256 << 20)
        locality = str(parameters.get("locality", "random"))
        near = int(parameters.get("local_size") or 256 << 10) if locality == "local" else working_set
        # The first sample is not counted; -a reports the mean of the others, as we do, rather than the best.
        samples = max(1, min(_SAMPLES_MAX, round(float(parameters.get("runtime") or SAMPLE_S) / SAMPLE_S)))
        command = ["multichase", "-a", "-m", str(working_set), "-s", str(int(parameters.get("stride") or 64))]
        command += ["-T", str(min(near, working_set)), "-n", str(samples)]
        if locality == "sequential":
            command.append("-o")
        if parameters.get("pages", "2m") == "2m":
            command.append("-H")
        return command

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run multichase once on this point."""
        why, found = self.unsupported_reason(kernel, parameters), _program()
        if why:
            raise UserError(why)
        if found is None:
            raise FileNotFoundError("multichase is not installed; build it and set HWDYNO_MULTICHASE to its path")
        before = programs.cpu_s()
        text = program.output([found, *self.command(kernel, parameters)[1:]], TIMEOUT_S)
        return parse_output(text, programs.cpu_s() - before)


PEER = Multichase()


def parse_output(text: str, cpu_s: float | None = None) -> PeerReading:
    """Read multichase's output: ns per load, on the last line. Raises ``OSError`` in one line if it is missing."""
    words = text.split()
    ns = printed_number(words[-1]) if words else None
    if ns is None or not 0 < ns < 1e9:
        raise OSError("multichase printed no latency")
    return PeerReading(1e9 / ns, "operations/s", None, ns, cpu_s, 0)


def _program() -> str | None:
    return shutil.which(os.environ.get("HWDYNO_MULTICHASE") or "multichase")


def _transparent() -> str:
    try:
        return Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text(encoding="ascii")
    except OSError:
        return _NEVER
