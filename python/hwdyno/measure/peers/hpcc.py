"""Runs the HPC Challenge benchmark under MPI: HPL against our LINPACK, and STREAM against our memory loops."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hwdyno.formats import stream
from hwdyno.measure.hosts import programs
from hwdyno.measure.peers import program
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.model.kernels import MEMORY_BANDWIDTH
from hwdyno.model.units import printed_number
from hwdyno.model.words import UserError
from hwdyno.system import output_files, safe_files

TIMEOUT_S = 300.0
MAX_S = 60.0
"""The time limit of a point: hpcc always runs all of its parts."""
SLOWEST_FLOPS = 2e9
"""The slowest rate of a rank, with the reference BLAS that Debian links hpcc with."""
PARTS, START_S = 2.0, 0.7
"""All parts take about twice HPL's time at that rate: 1.0, 2.2, 30.3 s for n of 1000, 2000, 5000 by 2 ranks."""
STREAM_N = 4096
"""HPL's n when only STREAM counts: its three arrays have n^2 / 3 doubles each, 128 MiB in all."""
BLOCK = 80
# The lines of HPL's input (README of hpcc 1.5): one problem, one block size, one grid, defaults for the rest.
_INPUT = """HPLinpack benchmark input file
written by hwdyno
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{n}         Ns
1            # of NBs
{block}           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
{p}            Ps
{q}            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0                               Number of additional problem sizes for PTRANS
1200 10000 30000                values of N
0                               number of additional blocking sizes for PTRANS
40 9 8 13 13 20 16 32 64        values of NB
"""
_VERSION = ("VersionMajor", "VersionMinor", "VersionMicro")
_FIGURE = re.compile(r"^(\w+)=(\S+)\s*$", re.M)


class Hpcc:
    """hpcc and mpirun, on the path; one rank for each of our threads."""

    name = "hpcc"
    kernels = frozenset({"linpack", MEMORY_BANDWIDTH})

    def version(self) -> str | None:
        """``here`` and the BLAS that hpcc is linked with; its version is only printed when it runs."""
        found = shutil.which("hpcc")
        return f"with {_blas(found)}" if found and shutil.which("mpirun") else None

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why hpcc cannot measure this point; none if it can."""
        operation = parameters.get("operation")
        if kernel == MEMORY_BANDWIDTH:
            if operation not in stream.LOOPS or parameters.get("pattern", "sequential") != "sequential":
                return "hpcc's STREAM has only sequential copy, scale, add and triad"
        elif kernel != "linpack" or operation not in {None, "lu"}:
            return "hpcc is compared with LINPACK's LU only; the size of its matrix multiplication follows from HPL's n"
        takes_s = _hpl_s(kernel, parameters)
        if "reference" in (self.version() or "") and takes_s > MAX_S:
            return f"hpcc's reference BLAS takes {takes_s:.0f} s for n = {_n(kernel, parameters)}"
        return None

    def takes_s(self, kernel: str, parameters: Mapping[str, Any]) -> float:
        """The approximate time of a run: it does all of its parts for one figure, even if a point has less time."""
        return PARTS * _hpl_s(kernel, parameters) + START_S

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line, in a folder with the ``hpccinf.txt`` of ``format_input``."""
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return ["mpirun", *root, "--oversubscribe", "-np", str(_ranks(parameters)), "hpcc"]

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run all of hpcc once in a temporary folder, and take the part for this point."""
        why = self.unsupported_reason(kernel, parameters)
        if why:
            raise UserError(why)
        with safe_files.temporary("hwdyno-hpcc-") as folder:
            output_files.write_output(folder / "hpccinf.txt", format_input(kernel, parameters).encode())
            command = self.command(kernel, parameters)
            before = programs.cpu_s()
            program.output([*command[:1], "-wdir", str(folder), *command[1:]], TIMEOUT_S)
            try:
                text = (folder / "hpccoutf.txt").read_text(errors="replace")
            except OSError:
                raise OSError("hpcc wrote no hpccoutf.txt") from None
            return parse_output(text, kernel, parameters, programs.cpu_s() - before)


PEER = Hpcc()


def format_input(kernel: str, parameters: Mapping[str, Any]) -> str:
    """The ``hpccinf.txt`` of a point: one problem on the squarest grid of its ranks."""
    ranks = _ranks(parameters)
    p = max(divisor for divisor in range(1, math.isqrt(ranks) + 1) if ranks % divisor == 0)
    return _INPUT.format(n=_n(kernel, parameters), block=BLOCK, p=p, q=ranks // p)


def parse_output(text: str, kernel: str, parameters: Mapping[str, Any], cpu_s: float | None = None) -> PeerReading:
    """Read the summary of ``hpccoutf.txt``. Raises ``OSError`` in one line if it failed or lacks the figure.

    ``Star`` is the mean rate of a rank while all run at once; the machine's rate is that times the ranks.
    """
    figures = {name: value for name, text in _FIGURE.findall(text) if (value := printed_number(text)) is not None}
    ranks = figures.get("CommWorldProcs", 0.0)
    if figures.get("Success") != 1.0 or not ranks:
        raise OSError("hpcc reports failure (no Success=1 in hpccoutf.txt)")
    details = {
        "n": figures.get("HPL_N"),
        "dgemm_flop_s": figures.get("StarDGEMM_Gflops", 0.0) * ranks * 1e9,
        "dgemm_n": figures.get("DGEMM_N"),
        **{
            f"stream_{name}_bytes_s": figures.get(f"StarSTREAM_{name.title()}", 0.0) * ranks * 1e9
            for name in sorted(stream.LOOPS)
        },
        "stream_array_bytes": figures.get("STREAM_VectorSize", 0.0) * 8,
        "version": ".".join(f"{figures[name]:.0f}" for name in _VERSION if name in figures),
    }
    if kernel == "linpack":
        rate, unit = figures.get("HPL_Tflops", 0.0) * 1e12, "FLOP/s"
    else:
        rate, unit = float(details[f"stream_{parameters.get('operation')}_bytes_s"] or 0.0), "bytes/s"
    if rate <= 0:
        raise OSError(f"hpcc printed no figure for {parameters.get('operation') or kernel}")
    return PeerReading(rate, unit, None, None, cpu_s, 0, details)


def _ranks(parameters: Mapping[str, Any]) -> int:
    return max(1, int(parameters.get("threads") or 1))


def _hpl_s(kernel: str, parameters: Mapping[str, Any]) -> float:
    return 2 / 3 * _n(kernel, parameters) ** 3 / (SLOWEST_FLOPS * _ranks(parameters))


def _n(kernel: str, parameters: Mapping[str, Any]) -> int:
    return int(parameters.get("n") or 2000) if kernel == "linpack" else STREAM_N


@cache
def _blas(path: str) -> str:
    """The BLAS that hpcc is linked with, by the library file."""
    try:
        text = program.output(["ldd", path], 20)
    except OSError:
        return "an unknown BLAS"
    found = re.search(r"lib\w*blas\S* => (\S+)", text)
    if found is None:
        return "its own BLAS"
    file = os.path.realpath(found[1])
    known = ("openblas", "blis", "mkl", "atlas")
    name = next((name for name in known if name in file), "")
    return name or ("the reference BLAS" if "/blas/" in file else Path(file).name)
