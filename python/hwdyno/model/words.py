"""The words of hwdyno as frozen types: the Run document, and nothing that computes.

The types of its Machine are in ``machine``.

Names contain their units: ``_s`` seconds, ``_ns`` nanoseconds, ``_bytes``, ``_bytes_s``. MB is 10^6
bytes and MiB is 2^20 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from hwdyno.model.errors import HwdynoError
from hwdyno.model.machine import Machine
from hwdyno.model.per_element import PerElement
from hwdyno.model.point_details import Claim, Concurrency, Fault, Note, Quoted, Samples

SCHEMA: Literal["hwdyno.run/2"] = "hwdyno.run/2"

CeilingClass = Literal["physical", "rated", "reference"]
Severity = Literal["info", "warning", "invalid"]
Validity = Literal["valid", "unverified", "degraded", "invalid"]
"""How far a point can be trusted. ``unverified``: nothing contradicts it and nothing confirms it, because it has no
repeat, no counter and no ceiling."""
Role = Literal["concurrency", "size", "rate", "delay", "label"]
"""What an axis is to a queue. ``concurrency``: operations, threads or streams in flight. ``size``: bytes of one
operation. ``rate``: operations or bytes offered per second, an open loop. ``delay``: a wait between operations, so
that less is more load. ``label``: anything else; it names or orders points, and no model is fitted along it."""
Trait = Literal["reads", "writes", "random", "trims", "synchronous", "synchronous_buffered", "page_cache"]
"""What a word of a choice means: the operations that an access pattern makes; for an access engine, that it has one
operation in flight regardless of the depth (always, or unless it is direct), or that it goes through the page cache."""
AxisKind = Literal["integer", "number", "flag", "choice", "text", "integers"]
"""The type of an axis's values."""
Scalar = str | int | float | bool | None
Parameters = dict[str, Scalar]

LONGEST_ERROR = 2000
"""Characters of an error; a list of all that is known is shorter."""


class UserError(HwdynoError, ValueError):
    """The user's request cannot be met; its text is one line: what is wrong, and what mends it."""

    def __init__(self, says: str) -> None:
        line = " ".join(says.splitlines()).encode(errors="replace").decode()
        # Of a text that is a slip itself, both ends: what is wrong, and what mends it.
        super().__init__(line if len(line) <= LONGEST_ERROR else f"{line[:800]} … {line[-200:]}")


@dataclass(frozen=True, slots=True)
class Value:
    """A quantity with its unit (``bytes/s``, ``operations/s``, ``FLOP/s``, ``s`` …) and its 95% interval."""

    value: float
    unit: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Latency:
    """One latency distribution in ns.

    ``p999`` is given only from 10^4 values on. ``histogram`` is the whole distribution, packed by
    ``histogram.Histogram.pack``; empty where only a summary is known (an imported result). A table may give the mean
    alone: then percentiles and extremes are none, never the mean.
    """

    mean: float
    p50: float | None
    p90: float | None
    p99: float | None
    p999: float | None
    min: float | None
    max: float | None
    count: int
    histogram: str = ""


@dataclass(frozen=True, slots=True)
class Stream:
    """What was done in one direction (``read``, ``write``, or the kernel's own word)."""

    name: str
    operations: int
    bytes: int
    flops: int = 0
    latency_ns: dict[str, Latency] = field(default_factory=dict)
    """Latencies by kind: ``submit``, ``complete``, ``total``."""


@dataclass(frozen=True, slots=True)
class HostShare:
    """What one host of a site did at a Point, merged over its repeats."""

    host: str
    throughput: Value
    """Throughput over the host's own timed region, from its first operation to its last."""
    operations: int
    bytes: int
    elapsed_s: float
    start_offset_s: float
    """How long after the site's first host it started, at worst over the repeats."""
    repeats: int
    faults: tuple[Fault, ...] = ()
    interrupted: bool = False
    failure: str = ""
    """Why it has no part in some of the repeats; empty where it has one in each."""
    latency_ns: Latency | None = None
    """Latency of the host's operations, without the histogram, which is in the point's whole one."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One Point's result, merged over its repeats and over the hosts of its site."""

    parameters: Parameters
    """The axes' values at this Point, by the field's names."""
    throughput: Value
    rate: Value | None
    """Operations per second, where throughput is something else."""
    latency_ns: Latency | None
    """Whole latency over all directions together."""
    streams: tuple[Stream, ...]
    samples: Samples | None
    concurrency: Concurrency | None
    cpu_user_s: float | None
    cpu_system_s: float | None
    elapsed_s: float
    operations: int
    bytes: int
    repeats: int
    repeat_values: tuple[float, ...] = ()
    """Throughput of each repeat."""
    repeat_starts_s: tuple[float, ...] = ()
    """When each of them began, s after the run did; empty where that is unknown."""
    validity: Validity = "valid"
    why: tuple[str, ...] = ()
    """The rules that degraded or invalidated it."""
    counters: dict[str, float] = field(default_factory=dict)
    """System counters over the timed regions, summed over repeats; the name contains the unit."""
    conditions: dict[str, float] = field(default_factory=dict)
    """What was sampled beside it: utilisation shares (0 to 1) such as ``cpu_busy``, clock, steal."""
    details: dict[str, Any] = field(default_factory=dict)
    """Figures of its kernel alone, with the unit in the name."""
    faults: tuple[Fault, ...] = ()
    notes: tuple[Note, ...] = ()
    hosts: tuple[HostShare, ...] = ()
    """Each host's part; empty where the site is one host."""
    claims: tuple[Claim, ...] = ()
    """Figures of an imported result that follow from other figures in it."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """An upper bound of one metric.

    ``physical``: link, bus, ISA x clock; a measurement above it is invalid. ``rated``: a maker's
    figure. ``reference``: what a peer reached in the same run.
    """

    metric: str
    """What it bounds: ``read_bytes_s``, ``write_operations_s`` …"""
    kind: CeilingClass
    value: float
    unit: str
    formula: str
    source: str
    label: str = ""
    """A few words for charts, such as ``PCIe 4.0 x4``."""


UNNUMBERED = "here"
"""The version of a reference tool that is installed and tells none."""


@dataclass(frozen=True, slots=True)
class PeerResult:
    """What a reference tool reached on one Point, run in turn with ours."""

    tool: str
    version: str
    point: int
    """Index of the Point in its experiment."""
    value: Value
    ratio: Value | None
    """Ours over theirs, with its interval, from the pairs."""
    pairs: int = 1
    latency_ns_mean: float | None = None
    cpu_s_per_operation: float | None = None
    cpu_ratio: Value | None = None
    """CPU time an operation, ours over theirs."""
    command: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The tool with its version, once: ``fio-3.33``, ``iperf3 3.16``; the tool alone where it tells none."""
        if self.version == UNNUMBERED:
            return self.tool
        return self.version if self.version.startswith(self.tool) else f"{self.tool} {self.version}".strip()


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A place on a Curve: the load, and what is reached there."""

    load: float
    throughput: float
    latency_ns: float | None
    measured: bool
    """True if a Point is there; false if the model was read off between Points."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """The Measurements of one series in order of load, with the fitted model and what is read off it."""

    series: Parameters
    """The values of the other axes that this curve holds fixed."""
    load: str
    points: tuple[int, ...]
    """Indices of the experiment's points, in order of load."""
    unit: str
    """Unit of its throughputs."""
    model: str
    """``queue-knee``, ``usl``, or ``none`` where there are too few points."""
    parameters: dict[str, Value] = field(default_factory=dict)
    floor: OperatingPoint | None = None
    knee: OperatingPoint | None = None
    """The knee at N* = Xm x R1, the least load that can saturate."""
    ceiling: Value | None = None
    """The throughput that the curve tends to, with its interval."""
    best: OperatingPoint | None = None
    """The least load that reaches 90% of the ceiling found."""
    load_90: float | None = None
    load_95: float | None = None
    state: Literal["knee", "still rising", "saturated at the first point", "flat", "unknown"] = "unknown"
    measured: tuple[tuple[float, float], ...] = ()
    """Load and throughput of each of its points, in order of load."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One parameter of a kernel: a dimension that a sweep can run along."""

    name: str
    unit: str = ""
    """Unit of its value, such as ``B`` or ``s``; empty for a count or a word."""
    role: Role = "label"
    default: Scalar = None
    """What a command takes where the axis is not given; none where the command always names it."""
    means: str = ""
    kind: AxisKind = "number"
    title: str = ""
    """A name for charts and sentences, such as ``queue depth``; empty where ``name`` reads well by itself."""
    option: str = ""
    """The command's option, where it is not called ``name``."""
    workers: bool = False
    """Whether each step of a concurrency adds a thread or process that runs by itself, so that the Universal
    Scalability Law (Gunther 1993) may be fitted; false for the depth of a queue."""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    traits: dict[str, tuple[Trait, ...]] = field(default_factory=dict)
    """What each word of a choice means."""
    per_element: dict[str, PerElement] = field(default_factory=dict)
    """What the loop of each choice does to each element of its arrays; empty where no choice is such a loop."""
    split: str = ""
    """The axis with the share of reads, in percent, where a choice both reads and writes."""
    seeds: bool = False
    """Whether it only draws other random numbers: points that differ in it alone are repeats of one point."""

    @property
    def words(self) -> str:
        """Its name as people say it."""
        return self.title or self.name.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a kernel states about itself, kept in the Run so that nothing is guessed from its name."""

    measures: str = ""
    command: str = ""
    """The command that measures it, without ``hwdyno``: ``compute clock``; empty where the resource's own does."""
    operation: str = "operation"
    """What one pass is, in the field's word: ``I/O``, ``access``, ``round trip`` …"""
    counts: dict[str, str] = field(default_factory=dict)
    """How much one pass counts, as a number or an axis's name, by unit (``operations``, ``bytes``, ``flops``)."""
    writes: Literal["nothing", "file", "folder", "device"] = "nothing"
    """What it may change."""
    consent: tuple[str, ...] = ()
    """The axes by which a user gives away what it destroys."""
    stateful: bool = True
    """Whether a reading changes what the next one finds."""
    grows: bool = False
    """Whether a reading takes longer along an axis, regardless of its runtime."""
    axes: tuple[Axis, ...] = ()
    possible: tuple[Parameters, ...] = ()
    """The combinations of some axes that a machine has; empty where it has all, and in a Run."""

    def lacks(self, parameters: Parameters) -> bool:
        """Whether a machine has no instruction for these parameters."""
        return bool(self.possible) and not any(known.items() <= parameters.items() for known in self.possible)

    def axis(self, name: str) -> Axis:
        """The axis called ``name``; a mere label where there is none of that name."""
        return next((axis for axis in self.axes if axis.name == name), Axis(name))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its axes."""
        return tuple(axis.name for axis in self.axes)


@dataclass(frozen=True, slots=True)
class RunToRun:
    """How much runs of one machine differ in an experiment, as standard deviations of the logarithm (0.03 is 3%)."""

    deviation: float
    """Deviation that all points of a run share: placement, clock, neighbours."""
    point_deviation: float
    """Deviation that one point of a run has beyond that."""
    earlier: int
    """How many earlier runs it was read from; 0 where it is assumed."""


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """One experiment: its question, its points in the order of the plan, and what was read off them."""

    name: str
    resource: str
    asks: str
    load: str
    kernel: str
    points: tuple[Measurement, ...]
    metric: str = "throughput"
    curves: tuple[Curve, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    peers: tuple[PeerResult, ...] = ()
    planned: int = 0
    """How many points the plan had; more than ``points`` holds when it was cut short."""
    fixed: Parameters = field(default_factory=dict)
    """Parameters that every point shares."""
    commands: tuple[str, ...] = ()
    """What to type to measure this experiment again, ours and the peers'."""
    declaration: Declaration = field(default_factory=Declaration)
    """What the kernel states about itself."""
    run_to_run: RunToRun | None = None
    """How much runs of this machine differ here, read from its earlier Runs; none where they do not tell."""

    def axis(self, name: str) -> Axis:
        """The axis called ``name``; a mere label where the kernel declares none of that name."""
        return self.declaration.axis(name)

    @property
    def load_axis(self) -> Axis:
        """The axis that its curves run along."""
        return self.declaration.axis(self.load)

    @property
    def curve(self) -> Curve:
        """Its first curve; raises ``UserError`` where it has none."""
        if not self.curves:
            raise UserError(f"{self.name} has no curve: its points are not a sweep along one load")
        return self.curves[0]

    def judged_value(self, point: Measurement) -> Value:
        """What tells how good a point is: its throughput, or its mean latency in ns where this tests latency."""
        if self.metric != "latency" or point.latency_ns is None:
            return point.throughput
        mean, rate = point.latency_ns.mean, point.throughput
        if not rate.low or not rate.high:
            return Value(mean, "ns")
        # The least rate is of the greatest times.
        return Value(mean, "ns", mean * rate.value / rate.high, mean * rate.value / rate.low)


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule's verdict in one sentence, with its evidence and what to do about it."""

    rule: str
    severity: Severity
    resource: str
    says: str
    evidence: dict[str, Any]
    advice: str
    experiment: str = ""
    points: tuple[int, ...] = ()
    """The points that it is about."""


@dataclass(frozen=True, slots=True)
class Run:
    """An immutable document of one session of measuring."""

    id: str
    started: str
    """ISO 8601 with offset."""
    finished: str | None
    machines: tuple[Machine, ...]
    """The hosts of the site that was measured; none where an imported result describes none."""
    profile: str
    command: str
    experiments: tuple[ExperimentResult, ...]
    findings: tuple[Finding, ...] = ()
    interrupted: bool = False
    degraded: tuple[str, ...] = ()
    """Why the Run is partial or degraded, a sentence each; empty for a whole one."""
    verdict: Literal["", "sound", "use with care", "not to be trusted"] = ""
    """How far its quoted figures can be trusted; empty where it was not judged."""
    reason: str = ""
    """Why, in a sentence or two."""
    quoted: tuple[Quoted, ...] = ()
    """The figures that it is quoted by."""
    version: str = ""
    """Version of hwdyno, or of the tool whose result was imported."""
    study: str = ""
    imported_from: str = ""
    """Format of the foreign result that this Run was made from, such as ``fio-json``."""
    notes: tuple[Note, ...] = ()
    """Remarks on how a foreign result was read; ``not_read`` counts lines with figures that its reader skipped."""
    job: dict[str, str] = field(default_factory=dict)
    """What started its ranks: ``launcher``, and of Slurm the job's ``id``, ``name`` and ``nodes``."""
    schema: Literal["hwdyno.run/2"] = SCHEMA

    @property
    def machine(self) -> Machine:
        """The first host; one without any fact where the Run describes none."""
        return self.machines[0] if self.machines else Machine()

    def measured_points(self, *kernels: str) -> Iterator[tuple[ExperimentResult, int, Measurement, Parameters]]:
        """Every point that one of the kernels measured: its experiment, its index there, and all its parameters."""
        for result in self.experiments:
            if result.kernel in kernels:
                for at, point in enumerate(result.points):
                    yield result, at, point, {**result.fixed, **point.parameters}
