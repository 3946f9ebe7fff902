"""Runs IOzone's throughput mode on one of our points: one process a job, each with a separate file.

It overwrites the files that it is given, so it gets new ones beside the data file, which are removed afterwards. IOzone
ends by size and not by time, and writes its files before it reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwdyno.formats import iozone as iozone_text
from hwdyno.measure.hosts import Outcome, Program, programs
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.measure.peers.program import checked_output
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.units import as_number
from hwdyno.model.words import UNNUMBERED, UserError
from hwdyno.system import safe_files

TIMEOUT_S = 300.0
MAX_BYTES = 256 << 20
"""All files of one run together: they are written, and read once."""
_KIB = 1024
# Its test 0 writes the files, without which nothing can be read.
_TESTS = {
    "write": ("initial writers", ()),
    "read": ("readers", ("-i", "1")),
    "randread": ("random readers", ("-i", "2")),
    "randwrite": ("random writers", ("-i", "2")),
}


class Iozone:
    """IOzone, on the path or named by ``HWDYNO_IOZONE``."""

    name = "iozone"
    kernels = frozenset({STORAGE_BLOCKS})
    install = "get it from https://www.iozone.org and set HWDYNO_IOZONE to its path"

    def version(self) -> str | None:
        """The version that ``iozone -v`` prints; none if it is not installed."""
        found = programs.find_program(_program())
        if found is None:
            return None
        try:
            out, err, _ = programs.run_program([found, "-v"], 10)
        except OSError:
            return None
        match = re.search(r"\$Revision:\s*([\d.]+)|Version\s+([\d.]+)", out + err)
        return (match[1] or match[2]) if match else UNNUMBERED

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why IOzone cannot measure this point; none if it can."""
        if kernel not in self.kernels:
            return f"IOzone cannot measure {kernel}"
        if (rw := str(parameters.get("rw", "read"))) not in _TESTS:
            return f"IOzone has no throughput test of {rw}"
        if parameters.get("ioengine", "psync") not in {"psync", "sync"} or int(parameters.get("iodepth", 1)) != 1:
            return "IOzone has one operation in flight per process"
        if int(parameters.get("bs", 4096)) % _KIB:
            return "IOzone's records are whole KiB"
        if Path(str(parameters.get("path", ""))).is_block_device():
            return "IOzone makes files, and a raw device has none"
        jobs, block = int(parameters.get("numjobs", 1)), int(parameters.get("bs", 4096))
        if jobs * block > MAX_BYTES:
            return f"IOzone's files would have more than {MAX_BYTES >> 20} MiB"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line, with the files in the folder of the data file."""
        folder = Path(str(parameters.get("path", ""))).parent
        jobs, block = int(parameters.get("numjobs", 1)), int(parameters.get("bs", 4096))
        room = min(int(parameters.get("size") or MAX_BYTES), MAX_BYTES)
        region = max(block, room // jobs // block * block)
        _, tests = _TESTS[str(parameters.get("rw", "read"))]
        direct = ["-I"] if parameters.get("direct") else []
        files = [str(folder / f"job{job}") for job in range(jobs)]
        # -+n: no second pass, which would be of a warm cache.
        return [
            *(
                "iozone",
                "-t",
                str(jobs),
                "-s",
                f"{region // _KIB}k",
                "-r",
                f"{block // _KIB}k",
                "-i",
                "0",
                *tests,
                "-+n",
            ),
            *(*direct, "-F", *files),
        ]

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run IOzone once on this point, on files that exist no longer than that."""
        if why := self.unsupported_reason(kernel, parameters):
            raise UserError(why)
        with safe_files.temporary("hwdyno-iozone-", Path(str(parameters["path"])).parent) as folder:
            command = self.command(kernel, {**parameters, "path": str(folder / "data")})
            outcome = programs.execute(_program(tuple(command[1:])))
        return parse_output(outcome, str(parameters.get("rw", "read")))


PEER = Iozone()


def _program(arguments: tuple[str, ...] = ()) -> Program:
    return Program("iozone", ("iozone",), arguments, TIMEOUT_S)


def parse_output(outcome: Outcome, rw: str) -> PeerReading:
    """Read the test of a pattern from what IOzone printed. Raises ``OSError`` in one line if it is missing.

    The children's sum is the rate that IOzone is quoted by; the parent's, over wall-clock time, is in the details.
    """
    text = checked_output("iozone", outcome)
    test = _TESTS[rw][0]
    try:
        run = iozone_text.read(text, "iozone")
    except UserError as error:
        raise OSError(f"IOzone printed no throughput: {error}") from None
    for point in (point for result in run.experiments for point in result.points):
        if point.parameters.get("test") == test and "numjobs" in point.parameters:
            parent = as_number(point.details.get("parent_bytes_s"))
            details = {} if parent is None else {"parent_bytes_s": parent}
            return PeerReading(point.throughput.value, "bytes/s", None, None, outcome.cpu_s, 0, details)
    raise OSError(f"IOzone printed no throughput of {test}")
