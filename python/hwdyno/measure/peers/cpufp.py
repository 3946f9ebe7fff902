"""Runs cpufp, the reference for vector and tile instruction peaks, on one of our points."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from typing import Any

from hwdyno.measure.hosts import programs
from hwdyno.measure.peers import program
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.model.kernels import COMPUTE_FLOPS
from hwdyno.model.units import positive, printed_number
from hwdyno.model.words import UNNUMBERED, UserError

# cpufp runs every loop that it was built with, about a second each, and prints all of them at the end.
TIMEOUT_S = 600.0
# cpufp's loop for each of hwdyno's, the widest first: instruction set, cpufp's name for it, its computation.
_LOOPS: Mapping[tuple[str, str], tuple[tuple[str, str, str], ...]] = {
    ("dot", "int8"): (("amx", "AMX_INT8", "MM(s32,s8,s8)"), ("avx512", "AVX512_VNNI", "DP4A(s32,u8,s8)")),
    ("dot", "int16"): (("avx512", "AVX512_VNNI", "DP2A(s32,s16,s16)"),),
    ("dot", "bfloat16"): (
        ("amx", "AMX_BF16", "MM(f32,bf16,bf16)"),
        ("avx512", "AVX512_BF16", "DP2A(f32,bf16,bf16)"),
    ),
    ("dot", "half"): (("amx", "AMX_FP16", "MM(f32,f16,f16)"),),
    ("fma", "double"): (("avx512", "AVX512F", "FMA(f64,f64,f64)"), ("avx2", "FMA", "FMA(f64,f64,f64)")),
    ("fma", "single"): (("avx512", "AVX512F", "FMA(f32,f32,f32)"), ("avx2", "FMA", "FMA(f32,f32,f32)")),
    ("fma", "half"): (("avx512", "AVX512_FP16", "FMA(f16,f16,f16)"),),
}
# Newer versions have another column, the vector length.
_ROW = re.compile(r"^\|\s*(\S+)\s*\|(?:[^|\n]*\|)?\s*(\S+)\s*\|\s*([0-9.]+) ([KMGTP]?)(FLOPS|OPS)\s*\|", re.M)
_POWERS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


class Cpufp:
    """cpufp, on the path or named by ``HWDYNO_CPUFP``."""

    name = "cpufp"
    kernels = frozenset({COMPUTE_FLOPS})

    def version(self) -> str | None:
        """``here`` if it is installed: cpufp has no version."""
        return UNNUMBERED if _program() else None

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why cpufp cannot measure this point; none if it can."""
        if kernel not in self.kernels or not _loops(parameters):
            return "cpufp has no such loop"
        if parameters.get("operands") != "zero":
            return "cpufp computes with zeros, which may run at a higher clock; add --operands zero"
        if int(parameters.get("threads") or 1) > len(os.sched_getaffinity(0)):
            return "cpufp pins each thread to its own CPU"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line; cpufp only takes the processors to pin to."""
        cpus = sorted(os.sched_getaffinity(0))[: int(parameters.get("threads") or 1)]
        return ["cpufp", f"--thread_pool=[{','.join(map(str, cpus))}]"]

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run all of cpufp's loops once, and take the one for this point."""
        why, found = self.unsupported_reason(kernel, parameters), _program()
        if why:
            raise UserError(why)
        if found is None:
            raise FileNotFoundError("cpufp is not installed; build it and set HWDYNO_CPUFP to its path")
        before = programs.cpu_s()
        text = program.output([found, *self.command(kernel, parameters)[1:]], TIMEOUT_S)
        return parse_output(text, parameters, programs.cpu_s() - before)


PEER = Cpufp()


def parse_output(text: str, parameters: Mapping[str, Any], cpu_s: float | None = None) -> PeerReading:
    """Read one loop from cpufp's output. Raises ``OSError`` in one line if it is missing."""
    rates = {
        (row[1], row[2]): figure * _POWERS[row[4]]
        for row in _ROW.finditer(text)
        if (figure := positive(printed_number(row[3]))) is not None
    }
    for _, name, computation in _loops(parameters):
        rate = rates.get((name, computation))
        if rate:
            whole = str(parameters.get("precision", "double")).startswith("int")
            details = {"test": f"{name} {computation}"}
            return PeerReading(rate, "IOP/s" if whole else "FLOP/s", None, None, cpu_s, 0, details)
    raise OSError(f"cpufp printed no rate of {parameters.get('operation', 'fma')} in {parameters.get('precision')}")


def _loops(parameters: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """cpufp's loops for this point, the widest first."""
    wanted = str(parameters.get("isa", "auto"))
    found = _LOOPS.get((str(parameters.get("operation", "fma")), str(parameters.get("precision", "double"))), ())
    return [loop for loop in found if wanted in {"auto", loop[0]}]


def _program() -> str | None:
    return shutil.which(os.environ.get("HWDYNO_CPUFP") or "cpufp")
