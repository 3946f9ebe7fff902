"""Runs llama-bench on one of our points: the same file of weights, decoded by llama.cpp's own program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwdyno.formats import llama_bench
from hwdyno.measure.hosts import Outcome, Program
from hwdyno.measure.models import GGUF
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.measure.peers.program import ProgramPeer, checked_output
from hwdyno.model.words import UserError

TIMEOUT_S = 600.0
TOKENS = 64
"""It decodes a number of tokens, not for a time: a second of a model of 250 MB."""


class LlamaBench(ProgramPeer):
    """llama-bench, on the path or named by ``HWDYNO_LLAMA_BENCH``."""

    name = "llama_bench"
    kernels = frozenset({"inference_decode"})
    names = ("llama-bench",)

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why llama-bench cannot measure this point; none if it can."""
        if kernel not in self.kernels or parameters.get("stack") != "llama.cpp":
            return "llama-bench decodes with llama.cpp only; use --decode llama.cpp"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line: no test of a prompt, and one repeat of decoding after a prompt as long as ours."""
        return [
            "llama-bench", "-m", str(Path(str(parameters.get("path") or ".")) / GGUF),
            "-p", "0", "-n", str(TOKENS), "-d", str(int(parameters.get("prompt") or 0)),
            "-t", str(int(parameters.get("threads") or 1)), "-ngl", "0", "-r", "1", "-o", "json",
        ]  # fmt: skip

    def program(self, kernel: str, parameters: Mapping[str, Any]) -> Program:
        """llama-bench on this point."""
        return Program(self.name, self.names, tuple(self.command(kernel, parameters)[1:]), TIMEOUT_S)

    def reading(self, parameters: Mapping[str, Any], outcome: Outcome) -> PeerReading:
        """Read llama-bench's JSON."""
        return parse_output(checked_output(self.name, outcome), outcome.cpu_s)


PEER = LlamaBench()


def parse_output(text: str, cpu_s: float | None = None) -> PeerReading:
    """Read llama-bench's JSON of one test. Raises ``OSError`` in one line if it cannot be read."""
    try:
        (point,) = llama_bench.read(text, "its answer").experiments[0].points
    except (UserError, ValueError) as error:
        raise OSError(f"llama-bench printed no readable rate: {error}") from None
    rate = point.throughput.value
    return PeerReading(rate, "operations/s", None, 1e9 / rate, cpu_s, TOKENS * point.repeats)
