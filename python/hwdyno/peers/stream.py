"""Runs McCalpin's STREAM, as compiled on this machine, on one of our points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwdyno.formats import stream as stream_text
from hwdyno.hosts import Outcome, Program
from hwdyno.peers import PeerReading
from hwdyno.peers.program import ProgramPeer, checked_output
from hwdyno.words import UserError

TIMEOUT_S = 300.0
# Compilers turn STREAM's copy into memcpy, which uses non-temporal stores.
_OPERATIONS = {"copy", "scale", "add", "triad", "nt_copy"}


class Stream(ProgramPeer):
    """STREAM, on the path under one of its usual names, or named by ``HWDYNO_STREAM``."""

    name = "stream"
    kernels = frozenset({"memory_bandwidth"})
    # A program called just "stream" may be anything (ImageMagick has one), so the user must name it.
    names = ("stream_c.exe", "stream_c")

    def unsupported(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why STREAM cannot measure this point; none if it can."""
        if kernel not in self.kernels or parameters.get("operation") not in _OPERATIONS:
            return "STREAM has only copy, scale, add and triad"
        return None if parameters.get("pattern", "sequential") == "sequential" else "STREAM is sequential only"

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line; the array size was fixed when STREAM was compiled."""
        return ["env", f"OMP_NUM_THREADS={int(parameters.get('threads', 1))}", "OMP_PROC_BIND=true", "stream"]

    def program(self, kernel: str, parameters: Mapping[str, Any]) -> Program:
        """All four loops, once."""
        environment = {"OMP_NUM_THREADS": str(int(parameters.get("threads", 1))), "OMP_PROC_BIND": "true"}
        return Program(self.name, self.names, (), TIMEOUT_S, environment)

    def reading(self, parameters: Mapping[str, Any], outcome: Outcome) -> PeerReading:
        """Take the loop of this point."""
        text = checked_output("stream", outcome)
        return reading_of(text, str(parameters.get("operation")), outcome.cpu_s)


PEER = Stream()


def reading_of(text: str, operation: str, cpu_s: float | None = None) -> PeerReading:
    """Read one loop from STREAM's output. Raises ``OSError`` in one line if it is missing."""
    try:
        rates = stream_text.rates(text)
    except UserError as error:
        raise OSError(f"STREAM printed no readable rate: {error}") from None
    rate = rates.get(operation.removeprefix("nt_"))
    if rate is None:
        raise OSError(f"STREAM printed no rate of {operation}")
    return PeerReading(rate, "bytes/s", None, None, cpu_s, 0, dict(rates))
