"""What a rule gets (a Case) and what it returns (a Verdict), with the formatting that all rules share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hwdyno.analysis.estimates import larger_side
from hwdyno.analysis.resources import Resource, find, find_rate_word
from hwdyno.explain.findings.commands import (
    add_launcher,
    format_option,
    make_command,
    named_command,
    shared_options,
    takable,
    takes,
    typed_command,
)
from hwdyno.explain.findings.point_labels import format_label
from hwdyno.model.axes import CLIENTS, is_mixed, list_traits, past_page_cache, read_share, splits
from hwdyno.model.machine import node_name
from hwdyno.model.units import (
    amount_at,
    format_ns,
    format_percent,
    format_quantity,
    format_ratio,
    parse_size,
    printed_error,
)
from hwdyno.model.units import as_number as as_number
from hwdyno.model.words import (
    Curve,
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
from hwdyno.system.urls import OBJECT_STORE

OTHERS_USER = 0.1
Scope = Literal["point", "curve", "experiment", "run"]


ROOM_SHARE = 0.9
"""Largest share of the free space: a filesystem that is nearly full is slow."""
CLOSE = 0.1
"""Two quantities that differ by less keep all their digits beside each other."""
USELESS = 0.5
"""Half an interval beyond this share of its figure is printed by its ends: ±212% says nothing."""
PACING_ROLES = {"rate", "delay"}
PACING = ("latency_target", "flow", "read_iolog")
"""The parameters that set the number of operations in flight instead of the depth, besides axes of such roles."""

# The numbers of a finding's sentences, under short names.
percent, times = format_percent, format_ratio


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule found. Of several points with the same rule, the one with the greatest ``weight`` is printed."""

    severity: Severity
    says: str
    evidence: dict[str, Any]
    advice: str
    weight: float = 0.0
    points: tuple[int, ...] = ()
    resource: str = ""
    experiment: str = ""
    """The experiment that ``points`` belong to, for a rule on the whole Run."""
    explains: tuple[str, ...] = ()
    """Rules whose findings on the same point this one explains: they are counted here and not reported again."""
    several: str = ""
    """What to print instead of ``says`` for several points; ``{count}`` is replaced by their number."""


@dataclass(frozen=True)
class Case:
    """A Run and the part of it that a rule checks."""

    run: Run
    result: ExperimentResult = field(
        default_factory=lambda: ExperimentResult(name="", resource="", asks="", load="", kernel="", points=())
    )
    at: int = -1
    curve: Curve | None = None

    @property
    def point(self) -> Measurement:
        """The point that the rule checks."""
        return self.result.points[self.at]

    @property
    def resource(self) -> Resource:
        """The description of the measured resource."""
        return find(self.result.resource)

    @property
    def in_object_store(self) -> bool:
        """Whether the experiment used an object store as it uses files."""
        return str(self.result.fixed.get("path") or "").startswith(OBJECT_STORE)

    @property
    def has_server_here(self) -> bool:
        """Whether a process that may run here is part of what was measured: a connection's other end, or FUSE's."""
        by_fuse = any((machine.storage.filesystem or "").startswith("fuse") for machine in self.run.machines)
        return self.resource.two_ended or self.in_object_store or (by_fuse and "storage" in self.resource.survey_parts)

    @property
    def on_faults(self) -> str:
        """What to check where operations failed: the store itself, where it is one."""
        return find("object" if self.in_object_store else self.result.resource).on_faults

    @property
    def is_imported(self) -> bool:
        """Whether the Run was imported from another tool's results."""
        return bool(self.run.imported_from)

    def tolerance(self, least: float, *figures: float | None) -> float:
        """Largest relative difference between two figures that agree: ``least``, and what rounding in print adds.

        Our own figures carry all their digits: for them it is ``least``, and at least 1%.
        """
        if not self.is_imported:
            return max(least, 0.01)
        return least + sum(max(printed_error(figure), self._rounding(figure)) for figure in figures if figure)

    def _rounding(self, figure: float) -> float:
        """What rounding makes of a table's figure, whose digits are known: 0.8 Mpps has one, 800,000 may have six."""
        printed, rounding = (self.point.details.get(name) for name in ("printed", "rounding"))
        if not isinstance(printed, dict) or not isinstance(rounding, dict):
            return 0.0
        return max((amount_at(rounding, name) for name, value in printed.items() if value == figure), default=0.0)

    def parameter(self, name: str, default: Scalar = None) -> Scalar:
        """A parameter of the point, or of the whole experiment if the point has none."""
        value = self.point.parameters.get(name) if self.at >= 0 else None
        if value is None and self.curve is not None:
            value = self.curve.series.get(name)
        return self.result.fixed.get(name, default) if value is None else value

    def number(self, name: str) -> float | None:
        """A parameter as a number, also one that is typed as a size (``64k``); none for anything else."""
        return as_number(self.parameter(name))

    @property
    def direct(self) -> bool:
        """Whether direct I/O was requested and not refused."""
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
        """All parameters of the point, including those that its experiment shares."""
        return {**self.result.fixed, **self.point.parameters}

    @property
    def traits(self) -> frozenset[Trait]:
        """The traits of the point's choices, such as its access pattern and its engine."""
        return list_traits(self.result.declaration.axes, self.parameters)

    @property
    def carries_data(self) -> bool:
        """Whether the counted bytes cross the device's link; those of a trim or of the null engine do not."""
        return "trims" not in self.traits and self.parameter("ioengine") != "null"

    @property
    def random(self) -> bool:
        """Whether the access pattern is random."""
        return "random" in self.traits

    @property
    def requested_depth(self) -> float | None:
        """The requested queue depth over all jobs; none where pacing decides it."""
        if self.point.concurrency is not None and self.point.concurrency.requested:
            return self.point.concurrency.requested
        axes = self.result.declaration.axes
        paced = [self.parameter(axis.name) for axis in axes if axis.role in PACING_ROLES]
        if any(paced) or any(map(self.parameter, PACING)):
            return None  # In an open loop any number may wait; a latency search keeps fewer in flight.
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
            return None  # The latency is a probe's and the throughput is of other streams: Little's law does not apply.
        rate = mean_rate(self.point)
        if rate is None or self.point.latency_ns is None or not self.point.latency_ns.mean:
            return None
        return rate * self.point.latency_ns.mean / 1e9

    @property
    def edges(self) -> float:
        """The error in Little's law from operations that straddle the ends of the timed region, as a share.

        Each repeat counts whole operations that are partly outside it, by at most the longest latency.
        """
        point = self.point
        if point.latency_ns is None or point.latency_ns.max is None or point.elapsed_s <= 0:
            return 0.0
        return point.latency_ns.max / 1e9 * max(1, point.repeats) / point.elapsed_s

    @property
    def jobs(self) -> float:
        """The number of measuring threads on all hosts that took part together."""
        axes = (axis for axis in self.result.declaration.axes if axis.workers and axis.name != CLIENTS.name)
        workers = (self.number(axis.name) for axis in axes)
        hosts = len(self.point.hosts) if self.at >= 0 and self.point.hosts else len(self.run.machines)
        return next(filter(None, workers), 1) * max(1, hosts)

    @property
    def part_of_site(self) -> float:
        """The share of the site's nodes that took part in the point."""
        nodes = {node_name(machine.hostname or "") for machine in self.run.machines}
        there = {node_name(share.host) for share in self.point.hosts} & nodes if self.at >= 0 else set()
        return len(there) / len(nodes) if there else 1.0

    @property
    def cpu_share(self) -> float | None:
        """CPU time of the measuring threads, as a share of the cores that they could use."""
        return compute_cpu_share(self.point, self.jobs, self.threads)

    @property
    def threads(self) -> int | None:
        """The number of processors of all hosts of the site together; none unless it is known for each."""
        known = [machine.cpu.threads or 0 for machine in self.run.machines]
        return sum(known) if known and all(known) else None

    @property
    def others_share(self) -> float | None:
        """Share of the machine's CPU that other processes used while the point ran; none where it was not measured.

        Kernel threads also work for our I/O (encryption, write-back). So the share is 0 unless other processes
        used at least ``OTHERS_USER`` of the CPU in user mode.
        """
        point, conditions = self.point, self.point.conditions
        if self.threads is None or point.elapsed_s <= 0 or self.has_server_here:
            return None
        if (not point.cpu_user_s and not point.cpu_system_s) or not {"cpu_busy", "cpu_user"} <= set(conditions):
            return None
        had = point.elapsed_s * self.threads
        user, system = (point.cpu_user_s or 0.0) / had, (point.cpu_system_s or 0.0) / had
        if conditions["cpu_user"] - user < OTHERS_USER:
            return 0.0
        return max(0.0, conditions["cpu_busy"] - conditions.get("steal", 0.0) - user - system)

    @property
    def label(self) -> str:
        """The point in the field's words: ``randread 4 KiB, iodepth=32``; the experiment's name if nothing varies."""
        parameters = self.point.parameters if self.at >= 0 else self.curve.series if self.curve is not None else {}
        shown = {"rw": self.parameter("rw"), "bs": self.parameter("bs"), **parameters}
        left_out = self.one_valued - {"rw", "bs", "operation", self.result.load}
        return format_label(shown, self.result.declaration, left_out) or self.result.name

    @property
    def storage(self) -> str:
        """The storage's name where several were measured, else ``this storage``."""
        return self.result.name.partition("@")[2] or "this storage"

    @property
    def one_valued(self) -> set[str]:
        """Axes that have one value throughout the experiment, which a label leaves out."""
        names = {name for point in self.result.points for name in point.parameters}
        return {n for n in names if len({str(point.parameters.get(n)) for point in self.result.points}) == 1}

    def command(self, **changes: Scalar) -> str:
        """The command that measures this point or curve again, with those changes that its command has an axis for."""
        clients = changes.get(CLIENTS.name)
        if clients is None:
            clients = self.parameter(CLIENTS.name) if self.at >= 0 else None
        return add_launcher(self.run, self.command_alone(**changes), clients)

    def command_alone(self, **changes: Scalar) -> str:
        """The same without what starts it on several hosts."""
        base = dict(self.point.parameters if self.at >= 0 else self.curve.series if self.curve is not None else {})
        if self.at < 0 and self.curve is not None and self.result.load not in changes:
            loads = [as_number(self.result.points[at].parameters.get(self.result.load)) for at in self.curve.points]
            axis = self.result.axis(self.result.load)
            base[self.result.load] = ",".join(format_option(axis, load) for load in loads if load is not None)
        if self.is_imported:
            # Another tool has tests and labels that no command takes.
            base, changes = takable(self.result, base), takable(self.result, changes)
        named = {**({} if self.is_imported else shared_options(self.result)), **base}
        for axis in splits(self.result.declaration.axes):
            if is_mixed(axis, named) and axis.split in self.result.fixed:
                named.setdefault(axis.split, self.result.fixed[axis.split])
        changes = {name: value for name, value in changes.items() if self.is_imported or takes(self.result, name)}
        if changes.get("direct"):
            changes = {**past_page_cache(self.result.declaration.axes, {**self.result.fixed, **named}), **changes}
        if not self.resource.page_cache:
            changes.pop("size", None)
        if "size" in changes and (room := self._room) is not None:
            most = max(room, int(self.number("size") or 0))
            wanted = parse_size(str(changes.pop("size")))
            changes |= {"size": min(wanted, most)} if most else {}
        return make_command(self.run, self.result, named, changes)

    @property
    def _room(self) -> int | None:
        """Whole GiB of a larger file that the storage had room for; none where that is unknown."""
        storage = self.run.machine.storage
        free = storage.size_bytes if storage.free_bytes is None else storage.free_bytes
        return None if free is None or self.is_imported else int(free * ROOM_SHARE) >> 30 << 30

    def command_with(self, options: Mapping[str, str | None], **changes: Scalar) -> str:
        """The same with options of the command, such as ``profile``; a switch has no value."""
        return typed_command(self.command(**changes)).with_options(options).line

    def next_run(self, words: str, **options: str) -> str:
        """A command of other experiments, such as ``memory caches``, with the place and the settings of this Run."""
        dashed = {name.replace("_", "-"): value for name, value in options.items()}
        return add_launcher(self.run, named_command(self.run, self.result, words, dashed))

    @property
    def is_latency_test(self) -> bool:
        """Whether the point is a latency test: one thing at a time, whose rate is its time upside down."""
        by_time = self.result.metric == "latency" or self.result.kernel in self.resource.latency_kernels
        in_flight = self.point.concurrency if self.at >= 0 else None
        return by_time and in_flight is not None and in_flight.requested == 1

    def quantity(self, value: Value | float, unit: str = "") -> str:
        """A quantity with its interval; operations in the field's word for what is measured: IOPS for storage.

        The rate of a latency test is given as the time of one operation.
        """
        if self.is_latency_test and (value.unit if isinstance(value, Value) else unit) == "operations/s":
            value, unit = _as_time(value), "ns"
        return quantity(value, unit, find_rate_word(self.result))


def _as_time(rate: Value | float) -> Value | float:
    """The time of one operation, ns, where one is in flight."""
    if not isinstance(rate, Value):
        return 1e9 / rate if rate > 0 else rate
    low, high = (1e9 / end if end and end > 0 else None for end in (rate.high, rate.low))
    return Value(1e9 / rate.value if rate.value > 0 else 0.0, "ns", low, high)


def quantity(value: Value | float, unit: str = "", rate_word: str = "") -> str:
    """A quantity with its unit once, and the larger side of its interval as a percentage: ``13.4 GB/s ±3.0%``.

    An interval so wide that it says nothing is called so.
    """
    if not isinstance(value, Value):
        return format_quantity(value, unit, rate_word)
    alone = format_quantity(value.value, value.unit, rate_word)
    half = larger_side(value)
    if half is None or value.low is None or value.high is None or value.value < 0:
        return alone
    if half <= USELESS:
        return f"{alone} ±{percent(half)}"
    low, high = (format_quantity(edge, value.unit, rate_word) for edge in (value.low, value.high))
    return f"{alone} ({contrast(low, high, 'to')})" if value.low > 0 else f"{alone} (few repeats)"


def contrast(first: str, second: str, between: str = "→") -> str:
    """Two quantities with no more digits than tell them apart, and a shared unit once: ``49 → 13 µs``."""
    (left, left_unit), (right, right_unit) = (
        (number, unit) for number, _, unit in (first.partition(" "), second.partition(" "))
    )
    brief = [_brief(number) for number in (left, right)]
    ratio = as_number(_value(right)) and _value(left) / _value(right)
    if left_unit != right_unit or not ratio or abs(ratio - 1) >= CLOSE:
        left, right = brief
    return (
        f"{left} {between} {right} {right_unit}"
        if left_unit == right_unit
        else f"{left} {left_unit} {between} {right} {right_unit}"
    )


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _brief(number: str) -> str:
    """A number with one decimal below 10 and none above."""
    value = _value(number)
    return number if value < 1 else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def first_sentence(text: str) -> str:
    """The point of a finding: its first sentence."""
    first, stop, _ = text.partition(". ")
    return first + stop.strip()


def as_flag(value: Scalar) -> bool:
    """Whether a flag is set, in any of its spellings."""
    return str(value).lower() in {"1", "true", "yes", "on"}


def operations_per_s(point: Measurement) -> float | None:
    """Operations per second; none where only bytes are known."""
    if point.rate is not None:
        return point.rate.value
    return point.throughput.value if point.throughput.unit == "operations/s" else None


def mean_rate(point: Measurement) -> float | None:
    """Operations per second over all repeats, like the merged latencies; else the stated rate."""
    if point.operations and point.elapsed_s > 0:
        return point.operations / point.elapsed_s
    return operations_per_s(point)


def compute_cpu_share(point: Measurement, jobs: float, threads: int | None) -> float | None:
    """CPU time as a share of what ``jobs`` threads could have used; none where it was not measured."""
    if point.cpu_user_s is None or point.cpu_system_s is None or point.elapsed_s <= 0:
        return None
    cores = min(jobs, threads) if threads else jobs
    return (point.cpu_user_s + point.cpu_system_s) / (point.elapsed_s * max(1.0, cores))


def apart(less: Value, more: Value) -> bool:
    """Whether two figures differ by more than noise: their intervals do not overlap."""
    return (more.low if more.low is not None else more.value) > (less.high if less.high is not None else less.value)


def at_place(case: Case, place: OperatingPoint, unit: str) -> str:
    """Throughput and latency of an operating point."""
    latency = f" at {format_ns(place.latency_ns)}" if place.latency_ns else ""
    return f"{case.quantity(place.throughput, unit)}{latency}"
