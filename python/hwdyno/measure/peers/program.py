"""A peer that is one program, which any host of a site can run; and a command of this machine, run to its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from hwdyno.measure.hosts import Outcome, Program, programs
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.model.words import UNNUMBERED, UserError


class ProgramPeer(ABC):
    """A tool that takes a point as its arguments and prints its figures."""

    name: ClassVar[str]
    kernels: ClassVar[frozenset[str]]
    names: ClassVar[tuple[str, ...]]
    """The program's common names on the path."""
    asks_version: ClassVar[tuple[str, ...]] = ()
    """The arguments that print the version; none where the program has no such option."""

    @abstractmethod
    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why the tool cannot measure this point, on whichever host; none if it can."""

    @abstractmethod
    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line."""

    @abstractmethod
    def program(self, kernel: str, parameters: Mapping[str, Any]) -> Program:
        """The program that measures this point."""

    @abstractmethod
    def reading(self, parameters: Mapping[str, Any], outcome: Outcome) -> PeerReading:
        """Read what the program printed. Raises ``OSError`` in one line if it failed."""

    def parse_version(self, printed: str) -> str:
        """The version in what the program printed of it."""
        return printed.strip() or "unknown"

    @property
    def asking_version(self) -> Program:
        """The program that prints the version."""
        return Program(self.name, self.names, self.asks_version)

    def version(self) -> str | None:
        """The version on this machine, or ``here`` where it has none; none if it is not installed."""
        found = programs.find_program(self.asking_version)
        if found is None or not self.asks_version:
            return UNNUMBERED if found else None
        printed = _print_version(found, self.asks_version)
        return None if printed is None else self.parse_version(printed)

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run the tool once on this machine; see ``Peer.run`` for what it raises."""
        if why := self.unsupported_reason(kernel, parameters):
            raise UserError(why)
        return self.reading(parameters, programs.execute(self.program(kernel, parameters)))


@cache
def _print_version(path: str, arguments: tuple[str, ...]) -> str | None:
    try:
        return output([path, *arguments], 10)
    except OSError:
        return None


def output(command: Sequence[str], timeout_s: float) -> str:
    """The program's stdout. Raises ``OSError`` in one line if it cannot be started, fails or does not end."""
    out, err, status = programs.run_program(command, timeout_s)
    return checked_output(command[0].rpartition("/")[2], Outcome(status, out, err, 0.0))


def checked_output(name: str, outcome: Outcome) -> str:
    """What a program printed. Raises ``OSError`` in one line if it failed."""
    if outcome.status:
        lines = [*outcome.stderr.splitlines(), *outcome.stdout.splitlines()]
        complaint = next((line.strip() for line in lines if line.strip()), "no message")
        raise OSError(f"{name} failed with status {outcome.status}: {complaint[:200]}")
    return outcome.stdout
