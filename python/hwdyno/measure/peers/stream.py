"""Runs McCalpin's STREAM on one of our points: a program of this machine, or its source where a compiler is.

The source comes with no licence that lets hwdyno bring it along. ``HWDYNO_STREAM`` names a program or a ``.c`` file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hwdyno.formats import stream as stream_text
from hwdyno.measure.hosts import Outcome, Program, programs
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.measure.peers.program import ProgramPeer, checked_output, output
from hwdyno.model.kernels import MEMORY_BANDWIDTH
from hwdyno.model.words import UserError
from hwdyno.system import safe_files

TIMEOUT_S = 300.0
# Compilers turn STREAM's copy into memcpy, which uses non-temporal stores.
COMPILERS = ("cc", "gcc", "clang")
BYTES_AN_ELEMENT = 24
"""Bytes of three arrays of doubles."""
LARGE_DATA_BYTES = 1 << 30
"""Static arrays from here on need the larger code model of x86-64."""
_OPERATIONS = {*stream_text.LOOPS, "nt_copy"}


class StreamPeer(ProgramPeer):
    """STREAM, on the path under one of its common names, or named by ``HWDYNO_STREAM``."""

    name = "stream"
    kernels = frozenset({MEMORY_BANDWIDTH})
    # A program called just "stream" may be anything (ImageMagick has one), so the user must name it.
    names = ("stream_c.exe", "stream_c")
    install = (
        "get https://www.cs.virginia.edu/stream/FTP/Code/stream.c and set HWDYNO_STREAM to its path (or install hpcc)"
    )

    def version(self) -> str | None:
        """``here``, or what it is built from; none if neither a program nor source and compiler are here."""
        source = _source()
        if source is None:
            return super().version()
        return f"built from {source.name}" if _compiler() else None

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run STREAM once on this machine; its source is built first, for one thread without OpenMP."""
        source = _source()
        if source is None:
            return super().run(kernel, parameters)
        if why := self.unsupported_reason(kernel, parameters):
            raise UserError(why)
        with safe_files.temporary("hwdyno-stream-") as folder:
            program = folder / "stream"
            output(build_command(source, program, parameters), TIMEOUT_S)
            environment = self.program(kernel, parameters).environment
            before = programs.cpu_s()
            out, err, status = programs.run_program([str(program)], TIMEOUT_S, environment)
            reading = self.reading(parameters, Outcome(status, out, err, programs.cpu_s() - before))
        return replace(reading, details={**reading.details, "openmp": _parallel(parameters)})

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
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
        return parse_output(text, str(parameters.get("operation")), outcome.cpu_s)


PEER = StreamPeer()


def build_command(source: Path, program: Path, parameters: Mapping[str, Any]) -> list[str]:
    """The compiler's command line: arrays of the point's working set, and OpenMP for more than one thread."""
    working_set = int(parameters.get("working_set") or 256 << 20)
    far = ["-mcmodel=medium"] if working_set >= LARGE_DATA_BYTES and os.uname().machine == "x86_64" else []
    threads = ["-fopenmp"] if _parallel(parameters) else []
    size = f"-DSTREAM_ARRAY_SIZE={max(1, working_set // BYTES_AN_ELEMENT)}"
    return [_compiler() or "cc", "-O3", "-march=native", *threads, *far, size, str(source), "-o", str(program)]


def _parallel(parameters: Mapping[str, Any]) -> bool:
    return int(parameters.get("threads") or 1) > 1


def _source() -> Path | None:
    """The ``.c`` file that the user names."""
    given = os.environ.get("HWDYNO_STREAM", "")
    return Path(given) if given.endswith(".c") and Path(given).is_file() else None


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, COMPILERS)), None)


def parse_output(text: str, operation: str, cpu_s: float | None = None) -> PeerReading:
    """Read one loop from STREAM's output. Raises ``OSError`` in one line if it is missing."""
    try:
        rates = stream_text.rates(text)
    except UserError as error:
        raise OSError(f"STREAM printed no readable rate: {error}") from None
    rate = rates.get(operation.removeprefix("nt_"))
    if rate is None:
        raise OSError(f"STREAM printed no rate of {operation}")
    return PeerReading(rate, "bytes/s", None, None, cpu_s, 0, dict(rates))
