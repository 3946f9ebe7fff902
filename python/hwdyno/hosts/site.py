"""A site is a set of hosts that is measured as one; that of one host passes everything straight to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hwdyno.hosts import Host
from hwdyno.machine import Machine
from hwdyno.topology import Topology
from hwdyno.words import Declaration
from hwdyno.workspace import DataFile, Place, Workspace, check_place


class Site(ABC):
    """Some hosts. It is a ``Host`` itself: a call goes to each host, and the results are merged."""

    lost: Mapping[str, str]
    """Lost hosts, each with the reason."""

    @property
    @abstractmethod
    def several(self) -> bool:
        """Whether it has more than one host."""

    @abstractmethod
    def machines(self, path: Path | None = None) -> tuple[Machine, ...]:
        """Describe each host, with the storage behind ``path``."""

    def survey(self, path: Path | None = None) -> Machine:
        """Describe the first host."""
        return self.machines(path)[0]

    @abstractmethod
    def topology(self) -> Topology:
        """The processors and NUMA nodes that every host has."""

    @abstractmethod
    def kernels(self) -> dict[str, Declaration]:
        """The kernels that every host has."""

    @abstractmethod
    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Run a kernel once on every host, and give one Reading of all; see ``Host.run``."""

    @abstractmethod
    def snapshot(self) -> dict[str, float]:
        """Counters summed over the hosts, gauges at their worst."""

    @abstractmethod
    def place(self, path: Path, *, writes: bool, destroy: str = "", serial: str = "") -> Place:
        """Check a path against what the points do there; raises ``UserError``."""

    @abstractmethod
    def data_file(self, place: Place) -> DataFile:
        """Make a data file on every host; raises ``UserError``."""

    @abstractmethod
    def close(self) -> None:
        """Release the hosts."""


class SingleHost(Site):
    """A site of one host, whose Readings are the host's own."""

    lost: Mapping[str, str] = MappingProxyType({})

    def __init__(self, host: Host) -> None:
        self.host = host

    @property
    def several(self) -> bool:
        """No."""
        return False

    def machines(self, path: Path | None = None) -> tuple[Machine, ...]:
        """Describe the host, with the storage behind ``path``."""
        return (self.host.survey(path),)

    def topology(self) -> Topology:
        """The host's."""
        return self.host.topology()

    def kernels(self) -> dict[str, Declaration]:
        """The host's."""
        return self.host.kernels()

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Run a kernel once; see ``Host.run``."""
        return self.host.run(kernel, parameters)

    def snapshot(self) -> dict[str, float]:
        """The host's counters now."""
        return self.host.snapshot()

    def place(self, path: Path, *, writes: bool, destroy: str = "", serial: str = "") -> Place:
        """Check a path of this machine; raises ``UserError``."""
        return check_place(path, writes=writes, destroy=destroy, serial=serial)

    def data_file(self, place: Place) -> DataFile:
        """Make a data file in a directory of its own; raises ``UserError``."""
        return Workspace(place)

    def close(self) -> None:
        """Nothing to release."""


def site_of(host: Host) -> Site:
    """The site that a host is: itself, or one of a single host."""
    return host if isinstance(host, Site) else SingleHost(host)
