"""Runs Intel's Memory Latency Checker, the reference for loaded latency on x86, on one of our points.

It comes from Intel alone, whose licence lets no one pass it on. ``HWDYNO_MLC`` names it where it is not on the path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hwdyno.formats import mlc as mlc_text
from hwdyno.measure.hosts import Outcome, Program, programs
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.measure.peers.program import checked_output
from hwdyno.model.kernels import MEMORY_LOADED_LATENCY
from hwdyno.model.units import as_number
from hwdyno.model.words import UNNUMBERED, UserError

GRACE_S = 60.0
MIN_S = 1
# Its help: -Wn is the traffic; without it, all threads read.
_TRAFFIC = {
    **{"1:0": "", "2:1": "2", "3:1": "3", "3:2": "4", "1:1": "5", "0:1": "6"},
    **{"2:1-nt": "7", "1:1-nt": "8", "3:1-nt": "9"},
}
_BLOCK_BYTES = 64


class Mlc:
    """MLC, on the path or named by ``HWDYNO_MLC``."""

    name = "mlc"
    kernels = frozenset({MEMORY_LOADED_LATENCY})
    install = "get it from Intel (search for 'Intel Memory Latency Checker') and set HWDYNO_MLC to its path"

    def version(self) -> str | None:
        """The version that its first line states; none if it is not installed."""
        found = programs.find_program(_program())
        if found is None:
            return None
        try:
            out, err, _ = programs.run_program([found, "--help"], 10)
        except OSError:
            return None
        match = re.search(r"Memory Latency Checker - (v?[\w.]+)", out + err)
        return match[1] if match else UNNUMBERED

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why MLC cannot measure this point; none if it can."""
        if kernel not in self.kernels:
            return f"MLC cannot measure {kernel}"
        if _mix(parameters) not in _TRAFFIC:
            return f"MLC has no traffic of {_mix(parameters)}"
        if int(parameters.get("block") or _BLOCK_BYTES) != _BLOCK_BYTES:
            return "MLC moves lines of 64 B; its larger sizes are strides, which skip lines"
        if int(parameters.get("node", -1)) >= 0 or parameters.get("cpus"):
            return "MLC is not pinned to these nodes or CPUs"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line: one delay, random loads, and no change of the prefetchers, which needs root."""
        size_mib = max(1, int(parameters.get("working_set") or 256 << 20) >> 20)
        seconds = max(MIN_S, round(float(parameters.get("runtime") or MIN_S)))
        traffic = _TRAFFIC[_mix(parameters)]
        random = ["-U"] if parameters.get("pattern") == "random" else []
        threads = max(1, int(parameters.get("threads") or 1))
        return [
            *("mlc", "--loaded_latency", f"-d{int(parameters.get('delay') or 0)}", f"-t{seconds}", f"-b{size_mib}m"),
            *("-e", "-r", *random, f"-k1-{threads}", *([f"-W{traffic}"] if traffic else [])),
        ]

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run MLC once on this point."""
        if why := self.unsupported_reason(kernel, parameters):
            raise UserError(why)
        command = self.command(kernel, parameters)
        timeout_s = GRACE_S + 3 * float(parameters.get("runtime") or MIN_S)
        outcome = programs.execute(_program(tuple(command[1:]), timeout_s))
        return parse_output(outcome, int(parameters.get("delay") or 0))


PEER = Mlc()


def _program(arguments: tuple[str, ...] = (), timeout_s: float = GRACE_S) -> Program:
    return Program("mlc", ("mlc", "mlc_avx512"), arguments, timeout_s)


def _mix(parameters: Mapping[str, Any]) -> str:
    operation = str(parameters.get("operation", "read"))
    return str(parameters.get("mix", "1:0")) if operation == "mix" else "1:0" if operation == "read" else operation


def parse_output(outcome: Outcome, delay: int) -> PeerReading:
    """Read the row of a delay from what MLC printed. Raises ``OSError`` in one line if it is missing."""
    text = checked_output("mlc", outcome)
    try:
        run = mlc_text.read(text, "mlc")
    except UserError as error:
        raise OSError(f"MLC printed no loaded latency: {error}") from None
    for result in run.experiments:
        for point in result.points:
            if result.kernel != MEMORY_LOADED_LATENCY or point.latency_ns is None:
                continue
            if as_number(point.parameters.get("delay")) == delay:
                mean_ns = point.latency_ns.mean
                return PeerReading(point.throughput.value, "bytes/s", None, mean_ns, outcome.cpu_s, 0)
    raise OSError(f"MLC printed no loaded latency at a delay of {delay}")
