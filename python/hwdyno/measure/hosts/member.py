"""A host of a site of several: its events, its scratch files, and what it must be able to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hwdyno.measure.hosts.host import Host
from hwdyno.measure.hosts.reference_tools import Outcome, Program, Programs


@dataclass(frozen=True, slots=True)
class ScratchFile:
    """A data file of a run on one host, in a directory that is removed at the end."""

    data: str
    """Path of the data file, as that host knows it."""
    directory: str
    size_bytes: int
    free_bytes: int
    """Size and room of its filesystem."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A host's threads are set up, and wait for the common start."""


@dataclass(frozen=True, slots=True)
class Done:
    """A host's Reading, with the start of its timed region by its own clock."""

    reading: Mapping[str, Any]
    started_ns: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A program has ended on a host."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Refused:
    """What a host raised instead of a Reading or an Outcome."""

    error: ValueError | OSError


MemberEvent = Ready | Done | Ended | Refused


class Member(Host, Programs, Protocol):
    """A host of a site of several: it sets a kernel or a program up, waits, and starts at a time by the host's clock.

    Every method raises ``HostLostError`` where the host is gone.
    """

    @property
    def display_name(self) -> str:
        """What messages call it before its host is known."""
        ...

    @property
    def boot(self) -> str:
        """What names the start of the kernel that it runs under; empty where that is not known."""
        ...

    @property
    def processors(self) -> frozenset[int]:
        """The numbers of those that it measures with, as far as they are known here."""
        ...

    @property
    def server(self) -> tuple[str, int] | None:
        """Address and port where it serves network measurements of the others; none where it does not."""
        ...

    @property
    def descriptor(self) -> int | None:
        """What can be read once it has an event; none where only ``poll`` shows that."""
        ...

    def clock_ns(self) -> int:
        """The host's monotonic clock now."""
        ...

    def prepare(self, kernel: str, parameters: dict[str, Any]) -> None:
        """Begin to set a kernel up; ``poll`` gives ``Ready`` then."""
        ...

    def prepare_program(self, program: Program) -> None:
        """Begin to set a program up; ``poll`` gives ``Ready`` then, and ``Ended`` when it has run."""
        ...

    def start(self, at_ns: int) -> None:
        """Start the threads that are ready at this time of the host's clock."""
        ...

    def poll(self, timeout_s: float) -> MemberEvent | None:
        """The next event of the running kernel; none at the timeout."""
        ...

    def silent_s(self) -> float:
        """How long a pulse has been unanswered; 0 where none is pending."""
        ...

    def pulse(self) -> None:
        """Request a sign of life."""
        ...

    def stop(self) -> None:
        """End the running kernel early; it still gives its Reading."""
        ...

    def claim(self, path: Path) -> ScratchFile:
        """Make a scratch directory below ``path``; raises ``OSError`` where that is refused."""
        ...

    def file_size(self, path: str) -> int:
        """The length of a file, bytes."""
        ...

    def release(self, scratch: ScratchFile) -> None:
        """Remove a scratch directory."""
        ...

    def close(self) -> None:
        """Release the host and end what runs there."""
        ...

    def abandon(self) -> None:
        """Release a lost host without waiting for it."""
        ...
