"""A site is a set of hosts that is measured as one; that of one host passes everything straight to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hwdyno.measure.hosts.host import Host
from hwdyno.measure.hosts.reference_tools import Outcome, Program, Programs
from hwdyno.measure.topology import Topology
from hwdyno.measure.workspace import DataFile, Place, Workspace, check_place
from hwdyno.model.machine import Machine
from hwdyno.model.words import Declaration


class Site(ABC):
    """Some hosts. It is a ``Host`` itself: a call goes to each host, and the results are merged."""

    lost: Mapping[str, str]
    """Lost hosts, each with the reason."""
    job: Mapping[str, str] = MappingProxyType({})
    """What started its hosts, as a Run keeps it."""

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
    def parameters_of_each(self, parameters: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """A kernel's parameters as each host gets them, with its own data file, by the host's name."""

    @abstractmethod
    def which(self, program: Program) -> dict[str, str | None]:
        """Where each host has a reference tool; none where it is not installed."""

    @abstractmethod
    def execute_each(self, programs: Mapping[str, Program]) -> dict[str, Outcome | ValueError | OSError]:
        """Run a reference tool once on each named host from one moment on: each host's outcome, or its error."""

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

    def parameters_of_each(self, parameters: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The same, for a host that needs no name."""
        return {"": parameters}

    def which(self, program: Program) -> dict[str, str | None]:
        """Where the host has a reference tool."""
        return {"": self.host.find(program) if isinstance(self.host, Programs) else None}

    def execute_each(self, programs: Mapping[str, Program]) -> dict[str, Outcome | ValueError | OSError]:
        """Run a reference tool once on the host."""
        if not isinstance(self.host, Programs):
            return {"": OSError("this host runs no reference tools")}
        try:
            return {"": self.host.execute(programs[""])}
        except (ValueError, OSError) as error:
            return {"": error}

    def snapshot(self) -> dict[str, float]:
        """The host's counters now."""
        return self.host.snapshot()

    def place(self, path: Path, *, writes: bool, destroy: str = "", serial: str = "") -> Place:
        """Check a path of this machine; raises ``UserError``."""
        return check_place(path, writes=writes, destroy=destroy, serial=serial)

    def data_file(self, place: Place) -> DataFile:
        """Make a data file in a new directory; raises ``UserError``."""
        return Workspace(place)

    def close(self) -> None:
        """Nothing to release."""


def make_site(host: Host) -> Site:
    """The site that a host is: itself, or one of a single host."""
    return host if isinstance(host, Site) else SingleHost(host)
