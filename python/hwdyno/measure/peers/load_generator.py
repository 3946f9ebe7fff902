"""Shared by the load generators for language models: the same server, load and lengths, and a result file that is read.

Each needs the tokenizer of the served model, which ``HWDYNO_TOKENIZER`` names; without it they would ask a registry.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from hwdyno.formats.load_generator import KERNEL, Reported
from hwdyno.measure.peers import program as programs
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.model.words import UNNUMBERED, UserError
from hwdyno.system import safe_files

TOKENIZER = "HWDYNO_TOKENIZER"
START_S = 120.0
"""These programs load libraries and a tokenizer before they send."""


class LoadGenerator(ABC):
    """A tool that drives a server and writes a file of results."""

    name: ClassVar[str]
    kernels = frozenset({KERNEL})
    program: ClassVar[str]
    """Its file name on the path."""
    variable: ClassVar[str]
    """The environment variable that names it instead."""
    result: ClassVar[str]
    """Where below its folder the results are, as a pattern."""
    takes_bursts: ClassVar[bool] = False

    def version(self) -> str | None:
        """The program's version; none if it is not installed."""
        found = self._find_program()
        return _version(found) if found else None

    def _find_program(self) -> str | None:
        return os.environ.get(self.variable) or shutil.which(self.program)

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why the tool cannot measure this point; none if it can."""
        if kernel not in self.kernels:
            return f"{self.name} cannot measure {kernel}"
        if not os.environ.get(TOKENIZER):
            return f"{self.name} counts tokens itself; set {TOKENIZER} to the folder of the model's tokenizer"
        for name in ("input_tokens", "output_tokens"):
            if not str(parameters.get(name) or "32").isdecimal():
                return f"{self.name} is compared at fixed lengths only; use --{name.replace('_', '-')} 128"
        if parameters.get("trace") or parameters.get("think_time"):
            return f"{self.name} is not compared with a trace or with users that think"
        if parameters.get("arrivals") == "gamma" and not self.takes_bursts:
            return f"{self.name} has no gamma arrivals; use --arrivals poisson"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line, with ``results`` for its folder."""
        return [
            self._find_program() or self.program,
            *self.arguments(GeneratorLoad.from_parameters(parameters), "results"),
        ]

    @abstractmethod
    def arguments(self, load: GeneratorLoad, folder: str) -> list[str]:
        """The arguments for a load whose results go to a folder."""

    @abstractmethod
    def reading(self, text: str) -> PeerReading:
        """The figures of a result file. Raises ``OSError`` in one line if it cannot be read."""

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run the tool once, in a temporary folder; see ``Peer.run`` for what it raises."""
        if why := self.unsupported_reason(kernel, parameters):
            raise UserError(why)
        load = GeneratorLoad.from_parameters(parameters)
        with safe_files.temporary(f"hwdyno-{self.program}-", Path.cwd()) as folder:
            command = [self._find_program() or self.program, *self.arguments(load, str(folder))]
            programs.output(command, START_S + 2 * load.runtime_s + float(parameters.get("timeout") or 0))
            found = sorted(folder.glob(self.result))
            if not found:
                raise OSError(f"{self.name} wrote no results")
            return self.reading(found[0].read_text(encoding="utf-8", errors="replace"))


def reading(read: Callable[[str], Reported], text: str) -> PeerReading:
    """A tool's load as a peer's reading. Raises ``OSError`` in one line if it cannot be read."""
    try:
        reported = read(text)
    except UserError as error:
        raise OSError(f"its answer cannot be read: {error}") from None
    total = reported.times.get("total")
    return PeerReading(
        throughput=reported.requests_s,
        unit="operations/s",
        rate=None,
        latency_ns_mean=total.mean if total else None,
        cpu_s=None,
        operations=reported.completed,
        details={
            "output_tokens_s": reported.output_tokens_s,
            **{f"{kind}_ns_mean": latency.mean for kind, latency in reported.times.items()},
            **{f"{kind}_ns_p50": latency.p50 for kind, latency in reported.times.items() if latency.p50},
        },
    )


class GeneratorLoad:
    """A point in the words of the load generators."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self.server = str(parameters.get("server") or "")
        self.path = "/v1/chat/completions" if parameters.get("endpoint") == "chat" else "/v1/completions"
        self.is_chat = parameters.get("endpoint") == "chat"
        self.model = str(parameters.get("served_model") or "")
        self.rate = float(parameters.get("rate") or 0.0)
        self.users = int(parameters.get("concurrency") or 1)
        self.is_constant = parameters.get("arrivals") == "constant"
        bursts = parameters.get("arrivals") == "gamma"
        self.burstiness = float(parameters.get("burstiness") or 1.0) if bursts else 1.0
        self.prompt = int(parameters.get("input_tokens") or 128)
        self.output = int(parameters.get("output_tokens") or 32)
        self.runtime_s = float(parameters.get("runtime") or 10.0)
        self.seed = int(parameters.get("seed") or 1) % (1 << 31)
        self.tokenizer = os.environ.get(TOKENIZER, "")

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> GeneratorLoad:
        """The load of a point."""
        return cls(parameters)

    @property
    def seconds(self) -> int:
        """The time for which requests are sent, in whole seconds."""
        return max(1, math.ceil(self.runtime_s))

    def requests(self, requests_s: float = 10.0) -> int:
        """A number of requests for tools that take no time: of a rate as many as come; else a few for each user."""
        return max(1, round(self.rate * self.runtime_s)) if self.rate else max(self.users * 8, round(requests_s))


@cache
def _version(path: str) -> str:
    try:
        printed = programs.output([path, "--version"], 60.0).strip().splitlines()[-1]
    except (OSError, IndexError):
        return UNNUMBERED
    found = re.search(r"\d+(?:\.\w+)+", printed)
    return found[0] if found else printed[:80]
