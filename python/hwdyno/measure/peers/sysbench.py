"""Runs sysbench's memory test on one of our points: it reads or writes one buffer word by word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwdyno.formats.sysbench import parse_transfer
from hwdyno.measure.hosts import Outcome, Program
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.measure.peers.program import ProgramPeer, checked_output
from hwdyno.model.kernels import MEMORY_BANDWIDTH
from hwdyno.model.words import UserError

TIMEOUT_S = 120.0


class Sysbench(ProgramPeer):
    """sysbench, on the path."""

    name = "sysbench"
    kernels = frozenset({MEMORY_BANDWIDTH})
    names = ("sysbench",)
    asks_version = ("--version",)

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why sysbench cannot measure this point; none if it can."""
        if kernel not in self.kernels or parameters.get("operation", "read") not in {"read", "write"}:
            return "sysbench only reads or writes"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line: one buffer of the working set's size per thread."""
        random = parameters.get("pattern") == "random"
        return [
            "sysbench",
            "memory",
            f"--memory-block-size={int(parameters.get('working_set') or 512 << 20)}",
            "--memory-total-size=1P",
            "--memory-scope=local",
            f"--memory-oper={parameters.get('operation', 'read')}",
            f"--memory-access-mode={'rnd' if random else 'seq'}",
            f"--threads={int(parameters.get('threads', 1))}",
            f"--time={max(1, round(float(parameters.get('runtime') or 1)))}",
            "run",
        ]

    def program(self, kernel: str, parameters: Mapping[str, Any]) -> Program:
        """sysbench on this point."""
        return Program(self.name, self.names, tuple(self.command(kernel, parameters)[1:]), TIMEOUT_S)

    def reading(self, parameters: Mapping[str, Any], outcome: Outcome) -> PeerReading:
        """Read sysbench's output."""
        return parse_output(checked_output(self.name, outcome), outcome.cpu_s)

    def parse_version(self, printed: str) -> str:
        """The number alone."""
        return printed.strip().removeprefix("sysbench ")


PEER = Sysbench()


def parse_output(text: str, cpu_s: float | None = None) -> PeerReading:
    """Read sysbench's output. Raises ``OSError`` in one line if the figure is missing."""
    try:
        _, rate, operations = parse_transfer(text)
    except UserError as error:
        raise OSError(f"sysbench printed no readable rate: {error}") from None
    if rate is None or rate.value <= 0:
        raise OSError("sysbench printed no MiB/sec")
    return PeerReading(rate.value, "bytes/s", None, None, cpu_s, operations)
