"""What a rule sees (a Case) and what it answers (a Verdict), with the words that all rules share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hwdyno.axes import is_mixed, read_share, splits, traits_of
from hwdyno.findings.commands import command_of, shared_options, takes, typed
from hwdyno.resources import Resource, find, rate_word_of
from hwdyno.units import as_number as as_number
from hwdyno.units import format_load, format_ns, format_percent, format_quantity, format_ratio, format_size, plural
from hwdyno.words import (
    Axis,
    Curve,
    Declaration,
    ExperimentResult,
    Measurement,
    OperatingPoint,
    Parameters,
    Run,
    Scalar,
    Severity,
    Trait,
    Value,
)

OTHERS_USER = 0.1
Scope = Literal["point", "curve", "experiment", "run"]


PACING_ROLES = {"rate", "delay"}
PACING = ("latency_target", "flow", "read_iolog")
"""Beside axes of these roles, what else than the depth says how many operations are in flight."""

# The numbers of a finding's sentences, under short names.
percent, quantity, times = format_percent, format_quantity, format_ratio


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule found. ``weight`` says which of several alike speaks for all; greater is graver."""

    severity: Severity
    says: str
    evidence: dict[str, Any]
    advice: str
    weight: float = 0.0
    points: tuple[int, ...] = ()
    resource: str = ""
    explains: tuple[str, ...] = ()
    """Rules that this one is reason enough for: its points count here, and are not reported again."""


@dataclass(frozen=True)
class Case:
    """A Run and the part of it that a rule looks at."""

    run: Run
    result: ExperimentResult = field(
        default_factory=lambda: ExperimentResult(name="", resource="", asks="", load="", kernel="", points=())
    )
    at: int = -1
    curve: Curve | None = None

    @property
    def point(self) -> Measurement:
        """The point that the rule looks at."""
        return self.result.points[self.at]

    @property
    def resource(self) -> Resource:
        """What is known of the resource that was measured."""
        return find(self.result.resource)

    @property
    def imported(self) -> bool:
        """Whether the Run was made from somebody else's table."""
        return bool(self.run.imported_from)

    @property
    def tolerance(self) -> float:
        """How far rounding may carry a law: 1% for our own figures, 5% for a published table."""
        return 0.05 if self.imported else 0.01

    def parameter(self, name: str, default: Scalar = None) -> Scalar:
        """A parameter of the point, or of the whole experiment."""
        value = self.point.parameters.get(name) if self.at >= 0 else None
        if value is None and self.curve is not None:
            value = self.curve.series.get(name)
        return self.result.fixed.get(name, default) if value is None else value

    def number(self, name: str) -> float | None:
        """A parameter that is a number, or a size written out; none if it is neither."""
        return as_number(self.parameter(name))

    @property
    def direct(self) -> bool:
        """Whether direct I/O was asked for, and not refused."""
        return as_flag(self.parameter("direct")) and all(note.code != "direct_refused" for note in self.point.notes)

    @property
    def read_share(self) -> float | None:
        """Share of reads in the point's operations: from the streams, or by its parameters."""
        operations = {stream.name: stream.operations for stream in self.point.streams}
        if set(operations) & {"read", "write"} and sum(operations.values()):
            return operations.get("read", 0) / sum(operations.values())
        return read_share(self.result.declaration.axes, self.parameters)

    @property
    def parameters(self) -> Parameters:
        """All parameters of the point, what its experiment shares included."""
        return {**self.result.fixed, **self.point.parameters}

    @property
    def traits(self) -> frozenset[Trait]:
        """What the words of the point's choices mean, such as its access pattern and its engine."""
        return traits_of(self.result.declaration.axes, self.parameters)

    @property
    def carries_data(self) -> bool:
        """Whether the bytes counted go over the device's link: those of a trim, or of the loop alone, do not."""
        return "trims" not in self.traits and self.parameter("ioengine") != "null"

    @property
    def random(self) -> bool:
        """Whether the order is random."""
        return "random" in self.traits

    @property
    def requested(self) -> float | None:
        """Operations asked to be in flight."""
        if self.point.concurrency is not None and self.point.concurrency.asked:
            return self.point.concurrency.asked
        axes = self.result.declaration.axes
        paced = [self.parameter(axis.name) for axis in axes if axis.role in PACING_ROLES]
        if any(paced) or any(map(self.parameter, PACING)):
            return None  # In an open loop any number may be waiting, and a search keeps fewer.
        depths = [self.number(axis.name) for axis in axes if axis.role == "concurrency" and not axis.workers]
        (depth,) = depths if len(depths) == 1 else (None,)
        return None if depth is None else depth * self.jobs

    @property
    def effective(self) -> float | None:
        """Operations in flight by Little's law: throughput x latency."""
        if self.point.concurrency is not None and self.point.concurrency.effective:
            return self.point.concurrency.effective
        timed = [bool(stream.latency_ns) for stream in self.point.streams if stream.operations]
        if any(timed) and not all(timed):
            return None  # Latency of a probe, throughput of others: no law binds them.
        rate = mean_rate(self.point)
        if rate is None or self.point.latency_ns is None or not self.point.latency_ns.mean:
            return None
        return rate * self.point.latency_ns.mean / 1e9

    @property
    def edges(self) -> float:
        """How far operations that straddle the ends of the timed region may carry Little's law, as a share.

        Each repeat counts whole operations whose time lies partly outside of it, at most the longest one's.
        """
        point = self.point
        if point.latency_ns is None or point.elapsed_s <= 0:
            return 0.0
        return point.latency_ns.max / 1e9 * max(1, point.repeats) / point.elapsed_s

    @property
    def jobs(self) -> float:
        """Measuring threads, on all hosts of the site together."""
        workers = (self.number(axis.name) for axis in self.result.declaration.axes if axis.workers)
        return next(filter(None, workers), 1) * max(1, len(self.run.machines))

    @property
    def cpu_share(self) -> float | None:
        """CPU time of the measuring threads as a share of the cores that they could use."""
        return cpu_share_of(self.point, self.jobs, self.threads)

    @property
    def threads(self) -> int | None:
        """Processors of all hosts of the site together; none where they are not known of each."""
        known = [machine.cpu.threads or 0 for machine in self.run.machines]
        return sum(known) if known and all(known) else None

    @property
    def others_share(self) -> float | None:
        """Share of the machine's CPU that other processes kept busy while the point ran; none where nothing tells.

        The kernel's own threads work for our I/O too (encryption, write-back), so that nothing is charged
        to others unless they had a good part of it outside of the kernel.
        """
        point, conditions = self.point, self.point.conditions
        if self.threads is None or point.elapsed_s <= 0 or self.resource.two_ended:
            return None  # A peer at the other end of a loopback is part of the measurement.
        if (not point.cpu_user_s and not point.cpu_system_s) or not {"cpu_busy", "cpu_user"} <= set(conditions):
            return None
        had = point.elapsed_s * self.threads
        user, system = (point.cpu_user_s or 0.0) / had, (point.cpu_system_s or 0.0) / had
        if conditions["cpu_user"] - user < OTHERS_USER:
            return 0.0
        return max(0.0, conditions["cpu_busy"] - conditions.get("steal", 0.0) - user - system)

    @property
    def label(self) -> str:
        """The point in the field's words: ``randread 4 KiB, iodepth 32``; the experiment's name where no axis tells."""
        parameters = self.point.parameters if self.at >= 0 else self.curve.series if self.curve is not None else {}
        shown = {"rw": self.parameter("rw"), "bs": self.parameter("bs"), **parameters}
        left_out = self.one_valued - {"rw", "bs", self.result.load}
        return label_of(shown, self.result.declaration, left_out) or self.result.name

    @property
    def storage(self) -> str:
        """The storage's name where several were measured, and otherwise ``this storage``."""
        return self.result.name.partition("@")[2] or "this storage"

    @property
    def one_valued(self) -> set[str]:
        """Axes that have one value throughout the experiment: saying it each time tells nothing."""
        names = {name for point in self.result.points for name in point.parameters}
        return {n for n in names if len({str(point.parameters.get(n)) for point in self.result.points}) == 1}

    def command(self, **changes: Scalar) -> str:
        """What to type to measure this point or curve again, with those changes that its command has an axis for."""
        base = dict(self.point.parameters if self.at >= 0 else self.curve.series if self.curve is not None else {})
        if self.at < 0 and self.curve is not None and self.result.load not in changes:
            loads = [as_number(self.result.points[at].parameters.get(self.result.load)) for at in self.curve.points]
            axis = self.result.axis(self.result.load)
            base[self.result.load] = ",".join(typed(axis, load) for load in loads if load is not None)
        named = {**({} if self.imported else shared_options(self.result)), **base}
        for axis in splits(self.result.declaration.axes):
            if is_mixed(axis, named) and axis.split in self.result.fixed:
                named.setdefault(axis.split, self.result.fixed[axis.split])
        changes = {name: value for name, value in changes.items() if self.imported or takes(self.result, name)}
        return command_of(self.result.resource, {**named, **changes}, self.result.declaration)

    def quantity(self, value: Value | float, unit: str = "") -> str:
        """A quantity with its interval; of operations in the words of what is measured: IOPS of storage alone."""
        return quantity(value, unit, rate_word_of(self.result))


def as_flag(value: Scalar) -> bool:
    """Whether a flag is set, however it is written."""
    return str(value).lower() in {"1", "true", "yes", "on"}


def operations_per_s(point: Measurement) -> float | None:
    """Operations a second; none where only bytes are known."""
    if point.rate is not None:
        return point.rate.value
    return point.throughput.value if point.throughput.unit == "operations/s" else None


def mean_rate(point: Measurement) -> float | None:
    """Operations a second over all repeats, as the merged latencies are; the stated rate where only that is known."""
    if point.operations and point.elapsed_s > 0:
        return point.operations / point.elapsed_s
    return operations_per_s(point)


def cpu_share_of(point: Measurement, jobs: float, threads: int | None) -> float | None:
    """CPU time as a share of what ``jobs`` threads could have had; none where it was not measured."""
    if point.cpu_user_s is None or point.cpu_system_s is None or point.elapsed_s <= 0:
        return None
    cores = min(jobs, threads) if threads else jobs
    return (point.cpu_user_s + point.cpu_system_s) / (point.elapsed_s * max(1.0, cores))


def apart(less: Value, more: Value) -> bool:
    """Whether one figure is beyond the other's interval and its own: what noise alone could part is no difference."""
    return (more.low if more.low is not None else more.value) > (less.high if less.high is not None else less.value)


def load_words(axis: Axis, load: float) -> str:
    """A load with its axis: ``iodepth 32``, ``4 jobs``, ``16 KiB blocks``."""
    if axis.role == "size":
        return f"{format_size(load)} {axis.words.removesuffix(' size')}s"
    if axis.role == "delay":
        return f"a {axis.words} of {format_load(load)} {axis.unit}".rstrip()
    if axis.unit == "B":
        return f"{axis.words} {format_size(load)}"
    if axis.role == "concurrency" and axis.words.endswith("s"):
        return plural(load, axis.words.removesuffix("s"))
    return f"{axis.name} {format_load(load)}"


def label_of(
    parameters: Mapping[str, Scalar], kernel: Declaration, left_out: set[str] | frozenset[str] = frozenset()
) -> str:
    """Parameters in the field's words: the access pattern and the block size first."""
    first: list[str] = []
    shown = {
        name: value
        for name, value in parameters.items()
        if value is not None and name != "path" and not kernel.axis(name).seeds
    }
    for axis in splits(kernel.axes):
        word, share = shown.pop(axis.name, None), shown.pop(axis.split, None)
        if word is not None:
            mixed = share is not None and is_mixed(axis, {axis.name: word})
            first.append(f"{word} {share}%" if mixed else str(word))
        elif share is not None:
            first.append(f"{share}% reads")
    block = as_number(shown.pop("bs", None))
    if block is not None:
        first.append(format_size(block))
    rest = []
    for name, value in shown.items():
        axis, number = kernel.axis(name), as_number(value)
        if name not in left_out:
            known = number is not None and (axis.role != "label" or axis.unit)
            rest.append(load_words(axis, number) if known and number is not None else f"{name} {value}")
    return ", ".join(filter(None, [" ".join(first), *rest]))


def at_place(case: Case, place: OperatingPoint, unit: str) -> str:
    """Throughput and latency of an operating point."""
    latency = f" at {format_ns(place.latency_ns)}" if place.latency_ns else ""
    return f"{case.quantity(place.throughput, unit)}{latency}"
