"""What an experiment is: a kernel, a sweep, an axis of load and a metric, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hwdyno.analysis import resources
from hwdyno.measure.sweep import Sweep
from hwdyno.measure.topology import Topology
from hwdyno.model.words import CeilingClass, Declaration, Parameters


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """One measurement, as data: its title, a kernel, a sweep, the axis of load, the metric, the ceilings that apply."""

    name: str
    """``resource.name``, such as ``storage.iodepth``."""
    asks: str
    kernel: str
    """The engine's name of the measuring loop."""
    load: str
    """The axis that a curve of this experiment runs along."""
    sweep: Sweep
    quick: Sweep | None = None
    """What the quick profile measures instead, where the whole sweep would take too long."""
    base: Sweep | None = None
    """The single point that a sweep from the command line is laid over; on the resource's first experiment."""
    metric: str = "throughput"
    fixed: Parameters = field(default_factory=dict)
    """Parameters that every point shares, unless a plan says otherwise."""
    settled: Parameters = field(default_factory=dict)
    """Shared parameters that the machine or a data set decides: advice does not name them."""
    named_as: Mapping[str, str] = field(default_factory=dict)
    """The command's option for an axis, without the dashes; a command always names these."""
    measured_by: str = ""
    """The resource whose command measures its kernel, where that is another one than its own."""
    by_name: bool = False
    """Whether a command selects its kernel by this experiment's name, because no axis does."""
    ceilings: tuple[CeilingClass, ...] = ()
    """The classes of its resource's ceilings that apply; all of them if none is named."""
    peers: tuple[str, ...] = ()
    """Reference tools that can measure the same points."""
    needs: tuple[str, ...] = ()
    """``data_file``: a laid-out file, given to the kernel as ``path``, with ``size`` bytes. ``main_memory``: a
    ``working_set`` beyond every cache that is claimed. ``instructions``: a point whose instructions this
    processor has not is left out, and not missed. ``gpu``: ``hwdyno run`` leaves it out where there is none."""
    time_share: float = 1.0
    """The share of its resource's reading time that a reading needs."""
    setup_s: float = 0.0
    """Extra overhead of a reading outside its timed region: memory to touch, matrices to fill."""
    check: Callable[[Declaration, Parameters], str | None] | None = None
    """The error of an invalid point of this kernel with its remedy; none for a valid point."""
    default: bool = True
    """Whether ``hwdyno run`` includes it where nothing is chosen."""
    min_processors: int = 1
    """Processors below which ``hwdyno run`` leaves it out."""
    min_clients: int = 1
    """Hosts of the site below which ``hwdyno run`` and its resource's command leave it out."""
    between: bool = False
    """Whether it is of hosts that serve each other; then those of one host's own network are left out."""
    formerly: str = ""
    """Its name until the last release, which still selects it."""
    renamed_from: str = ""
    """That former name, where it was requested by it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the scenario that prepares for it, as in a plan file."""
    writes: Callable[[Declaration, Parameters, float], float] | None = None
    """Bytes that one reading of a point writes at most, given what the storage takes in its time; none where the
    share of writes in that time decides."""

    @property
    def resource(self) -> str:
        """What it measures: ``storage``, ``memory`` …"""
        return self.name.partition(".")[0]

    @property
    def runtime_share(self) -> float:
        """How much of the profile's time a reading needs."""
        return resources.find(self.resource).runtime_share * self.time_share

    @property
    def by_default(self) -> bool:
        """Whether ``hwdyno run`` measures it where nothing is chosen."""
        return self.default and resources.find(self.resource).by_default

    def fits(self, site: Topology) -> bool:
        """Whether a site has the processors and the hosts without which it says nothing."""
        fits = self.min_processors <= site.processors and self.min_clients <= site.clients
        return fits and (self.between == site.between or not (self.between or self.resource == "network"))

    @property
    def words(self) -> tuple[str, str]:
        """The names that select it: its own, and that of its resource."""
        return self.name, self.resource

    @property
    def single_point(self) -> Sweep:
        """The point that a command's axes override: ``base``, or the first of its sweep."""
        return self.base or Sweep(**{name: values[0] for name, values in self.sweep.axes.items()})
