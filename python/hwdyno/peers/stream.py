"""Runs McCalpin's STREAM, as compiled on this machine, on one of our points."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

from hwdyno.formats import stream as stream_text
from hwdyno.peers import PeerReading, program
from hwdyno.words import UserError

TIMEOUT_S = 300.0
# Compilers turn STREAM's copy into memcpy, which uses non-temporal stores.
_OPERATIONS = {"copy", "scale", "add", "triad", "nt_copy"}
NAMES = ("stream_c.exe", "stream_c", "stream")


class Stream:
    """STREAM, on the path under one of its usual names, or named by ``HWDYNO_STREAM``."""

    name = "stream"
    kernels = frozenset({"memory_bandwidth"})

    def version(self) -> str | None:
        """``here`` if it is installed: STREAM prints its version only when it runs."""
        return "here" if _program() else None

    def unsupported(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why STREAM cannot measure this point; none if it can."""
        if kernel not in self.kernels or parameters.get("operation") not in _OPERATIONS:
            return "STREAM copies, scales, adds and does the triad"
        return None if parameters.get("pattern", "sequential") == "sequential" else "STREAM walks in sequence"

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line; the array size was fixed when STREAM was compiled."""
        return ["env", f"OMP_NUM_THREADS={int(parameters.get('threads', 1))}", "OMP_PROC_BIND=true", "stream"]

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run all four loops once, and take the one for this point."""
        why, found = self.unsupported(kernel, parameters), _program()
        if why:
            raise UserError(why)
        if found is None:
            raise FileNotFoundError("STREAM is not here: compile it, and name it by HWDYNO_STREAM")
        before = program.cpu_s()
        environment = {"OMP_NUM_THREADS": str(int(parameters.get("threads", 1))), "OMP_PROC_BIND": "true"}
        text = program.output([found], TIMEOUT_S, environment)
        return reading_of(text, str(parameters.get("operation")), program.cpu_s() - before)


PEER = Stream()


def reading_of(text: str, operation: str, cpu_s: float | None = None) -> PeerReading:
    """Read one loop from STREAM's output. Raises ``OSError`` in one line if it is missing."""
    try:
        rates = stream_text.rates(text)
    except UserError as error:
        raise OSError(f"STREAM printed no rate that can be read: {error}") from None
    rate = rates.get(operation.removeprefix("nt_"))
    if rate is None:
        raise OSError(f"STREAM printed no rate of {operation}")
    return PeerReading(rate, "bytes/s", None, None, cpu_s, 0, dict(rates))


def _program() -> str | None:
    named = os.environ.get("HWDYNO_STREAM")
    # A program called just "stream" may be anything (ImageMagick has one), so the user must name it.
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES[:-1])), None)
