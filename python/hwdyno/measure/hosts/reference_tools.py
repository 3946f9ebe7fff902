"""One run of a reference tool on a host, how it ended, and the hosts that can run one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Program:
    """One run of a reference tool: the same on each host, apart from the paths."""

    tool: str
    """What hwdyno calls it."""
    names: tuple[str, ...]
    """Its common file names on the path, the best first."""
    arguments: tuple[str, ...] = ()
    timeout_s: float = 10.0
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)
    """Regular files that it works on, each with the length in bytes that it must have."""

    @property
    def variable(self) -> str:
        """The environment variable of a host that names the file there."""
        return f"HWDYNO_{self.tool.upper()}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended on one host, and what it printed."""

    status: int
    stdout: str
    stderr: str
    cpu_s: float
    """CPU time of the program and its children, user and system."""


@runtime_checkable
class Programs(Protocol):
    """A host that can run reference tools."""

    def find(self, program: Program) -> str | None:
        """Where the host has the tool; none if it is not installed."""
        ...

    def execute(self, program: Program) -> Outcome:
        """Run a tool once.

        Raises ``UserError`` for a file that is missing or too short, and ``OSError`` in one line for a tool that is
        not there (``FileNotFoundError``), cannot be started, prints too much or does not end (``TimeoutError``).
        """
        ...
