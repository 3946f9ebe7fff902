"""Combines the Readings of one point into a Measurement: counts summed, histograms merged, rates derived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal

from hwdyno.analysis import estimates, samples
from hwdyno.model.histogram import Histogram
from hwdyno.model.histogram_arrays import sum_histograms, summarize_histograms
from hwdyno.model.point_details import Concurrency, Fault, Note, Samples
from hwdyno.model.units import format_percent, format_quantity, is_number, plural
from hwdyno.model.words import Declaration, HostShare, Latency, Measurement, Parameters, Stream, Value

Reading = Mapping[str, Any]
Snapshot = Mapping[str, float]

BEGAN = "began_s"
"""Key of a Reading: when it was begun, s after the run was."""
MAX_SAMPLES = 600
APART_SHARE = 0.01
"""Hosts that start further apart than this share of a reading were not measured together."""
MEDIAN_NOTE = "median_of_repeats"
"""Code of the note that throughput is the median of the repeats instead of their harmonic mean."""
OUTSIDE_NOTE = "repeats_outside"
"""Code of the note that repeats are outside of the interval of their mean."""
_RATES = (("flops", "FLOP/s"), ("bytes", "bytes/s"), ("operations", "operations/s"))


def choose_unit(declaration: Declaration | None, readings: Sequence[Reading] = ()) -> tuple[str, str]:
    """The count that throughput is made of (``flops``, ``bytes`` or ``operations``), and its unit.

    By the kernel's declaration of one pass, or, without bytes or FLOPs there, by the counts of the Readings.
    """
    declared = declaration.counts if declaration else {}
    for counted, unit in _RATES[:-1]:
        if counted in declared:
            return counted, unit
    for counted, unit in _RATES[:-1]:
        if any(_total(reading, counted) for reading in readings):
            return counted, "IOP/s" if counted == "flops" and _on_whole_numbers(readings) else unit
    return "operations", "operations/s"


def _on_whole_numbers(readings: Sequence[Reading]) -> bool:
    """Whether the arithmetic was on integers, whose operations are not FLOPs."""
    precisions = [str(reading.get("parameters", {}).get("precision", "")) for reading in readings]
    return any(precision.startswith("int") for precision in precisions)


def _total(reading: Reading, counted: str) -> int:
    return sum(int(stream.get(counted, 0)) for stream in reading.get("streams", ()))


def count_operations(reading: Reading) -> int:
    """Operations that a Reading completed, in all directions."""
    return _total(reading, "operations")


def compute_throughput(reading: Reading, counted: str) -> float:
    """Bytes, FLOPs or operations per second of one Reading's timed region."""
    elapsed = float(reading.get("elapsed_s", 0.0))
    return _total(reading, counted) / elapsed if elapsed > 0 else 0.0


def _compute_rate(reading: Reading, counted: str) -> float:
    """Operations per second of the streams that throughput counts, without a latency probe."""
    streams = [stream for stream in reading.get("streams", ()) if int(stream.get(counted, 0))] or reading.get(
        "streams", ()
    )
    return compute_throughput({**reading, "streams": streams}, "operations")


def _is_mixed(reading: Reading) -> bool:
    """Whether only some streams have latencies."""
    timed = [
        bool(stream.get("latency_ns")) for stream in reading.get("streams", ()) if int(stream.get("operations", 0))
    ]
    return any(timed) and not all(timed)


def make_measurement(
    parameters: Parameters,
    readings: Sequence[Reading],
    declaration: Declaration | None = None,
    snapshots: Sequence[tuple[Snapshot, Snapshot]] = (),
    notes: Sequence[Note] = (),
) -> Measurement:
    """A point's Measurement from its repeats; ``snapshots`` are the host's counters before and after each repeat.

    Throughput and rate are the harmonic mean of the repeats, or with a note the median of skewed ones;
    concurrency is over all operations and all repeats, as the merged latencies are.

    A Reading without any operation is not a repeat; without any other Reading the Measurement is degraded
    and its throughput 0.
    """
    counted, unit = choose_unit(declaration, readings)
    whole = _done(readings)
    rates = [compute_throughput(reading, counted) for reading in whole]
    elapsed = sum(float(reading.get("elapsed_s", 0.0)) for reading in whole)
    operations = sum(_total(reading, "operations") for reading in whole)
    histograms = _merged_histograms(whole)
    latency = _latency(histograms)
    faults = _faults(whole)
    shares = _shares(whole, counted, unit)
    why = _why_degraded(whole, faults, shares)
    throughput, median_because, modes = mean_throughput(whole, counted, unit)
    remarks = [*_notes(whole), *notes, *_another_run(snapshots)]
    if median_because:
        remarks.append(Note(MEDIAN_NOTE, f"throughput is the median of the repeats, because {median_because}"))
    else:
        remarks += [] if modes is None else [Note(samples.MODES_NOTE, _modes_words(modes, rates, unit))]
        remarks += _outside_of_interval(throughput, rates, unit)
    # The same kind of mean for both, so that bandwidth equals rate x size.
    kind: Literal["rate", "median"] = "median" if median_because else "rate"
    rate = estimates.interval([_compute_rate(reading, counted) for reading in whole], "operations/s", kind)
    return Measurement(
        parameters=dict(parameters),
        throughput=throughput,
        rate=None if counted == "operations" else rate,
        latency_ns=None if latency is None else latency.summary(),
        streams=_streams(whole, histograms),
        samples=_samples(whole, counted),
        concurrency=_concurrency(whole, operations, elapsed, latency),
        cpu_user_s=sum(float(reading.get("cpu", {}).get("user_s", 0.0)) for reading in whole),
        cpu_system_s=sum(float(reading.get("cpu", {}).get("system_s", 0.0)) for reading in whole),
        elapsed_s=elapsed,
        operations=operations,
        bytes=sum(_total(reading, "bytes") for reading in whole),
        repeats=len(whole),
        repeat_values=tuple(rates),
        repeat_starts_s=_starts_s(whole),
        validity="degraded" if why else "valid",
        why=why,
        counters=_sums([*(reading.get("counters", {}) for reading in whole), *map(_waits, whole)]),
        conditions=summarize_conditions(snapshots),
        details=_details(whole),
        faults=faults,
        notes=tuple(dict.fromkeys(remarks)),
        hosts=shares,
    )


def _done(readings: Sequence[Reading]) -> list[Reading]:
    """The Readings with an operation or a time; all where there is none."""
    return [done for done in readings if _total(done, "operations") or done.get("elapsed_s", 0) > 0] or list(readings)


def _starts_s(readings: Sequence[Reading]) -> tuple[float, ...]:
    """When each Reading was begun, s after the run was; empty where one does not say."""
    return tuple(float(reading[BEGAN]) for reading in readings) if all(BEGAN in reading for reading in readings) else ()


def _why_degraded(readings: Sequence[Reading], faults: Sequence[Fault], shares: Sequence[HostShare]) -> tuple[str, ...]:
    """The rules by which a point's repeats degrade it."""
    elapsed_s = sum(float(reading.get("elapsed_s", 0.0)) for reading in readings)
    latest_s = max((share.start_offset_s for share in shares), default=0.0)
    rules = {
        "faults": bool(faults),
        "interrupted": any(reading.get("interrupted") for reading in readings),
        "nothing_done": sum(_total(reading, "operations") for reading in readings) == 0,
        "host_missing": any(share.failure for share in shares),
        "hosts_apart": latest_s > APART_SHARE * elapsed_s / max(1, len(readings)),
    }
    return tuple(rule for rule, holds in rules.items() if holds)


def _another_run(snapshots: Sequence[tuple[Snapshot, Snapshot]]) -> list[Note]:
    """A note on the repeats beside which another run measured; none where none did."""
    touched = sum(any(snapshot.get("other_runs") for snapshot in pair) for pair in snapshots)
    says = f"another hwdyno run measured on this machine during {touched} of {plural(len(snapshots), 'repeat')}"
    return [Note("another_run", says)] if touched else []


def _outside_of_interval(mean: Value, rates: Sequence[float], unit: str) -> list[Note]:
    """A note on the repeats outside of the interval of their mean; none where all are inside or it has none."""
    if mean.low is None or mean.high is None:
        return []
    outside = sum(not mean.low <= rate <= mean.high for rate in rates)
    span = f"{format_quantity(min(rates), unit)} to {format_quantity(max(rates), unit)}"
    says = f"{outside} of {len(rates)} repeats lie outside of the interval of their mean: they go from {span}"
    return [Note(OUTSIDE_NOTE, says)] if outside else []


def _shares(readings: Sequence[Reading], counted: str, unit: str) -> tuple[HostShare, ...]:
    """Each host's part over the repeats; empty for a site of one host."""
    by_host: dict[str, list[Mapping[str, Any]]] = {}
    for reading in readings:
        for part in reading.get("hosts", ()):
            by_host.setdefault(str(part["host"]), []).append(part)
    return tuple(_share(host, parts, counted, unit) for host, parts in by_host.items())


def _share(host: str, parts: Sequence[Mapping[str, Any]], counted: str, unit: str) -> HostShare:
    readings = [part["reading"] for part in parts if part["reading"] is not None]
    rates = [compute_throughput(reading, counted) for reading in readings] or [0.0]
    return HostShare(
        host=host,
        throughput=estimates.interval_of_repeats(rates, unit)[0],
        operations=sum(map(count_operations, readings)),
        bytes=sum(_total(reading, "bytes") for reading in readings),
        elapsed_s=sum(float(reading.get("elapsed_s", 0.0)) for reading in readings),
        start_offset_s=max(float(part["start_offset_s"]) for part in parts),
        repeats=len(readings),
        faults=_faults(readings),
        interrupted=any(bool(reading.get("interrupted")) for reading in readings),
        failure=next((str(part["failure"]) for part in parts if part["failure"]), ""),
        latency_ns=_total_latency(readings),
    )


def _total_latency(readings: Sequence[Reading]) -> Latency | None:
    """Whole latency of some Readings, without its histogram."""
    every = _histograms(readings)
    for wanted in ("total", "complete"):
        weighted = [pair for (_, kind), many in every.items() if kind == wanted for pair in many]
        if any(weight != 1 for _, weight in weighted):
            return sum_histograms(weighted).summary(packed=False)
        if found := summarize_histograms([histogram for histogram, _ in weighted]):
            return found
    return None


def _histograms(readings: Sequence[Reading]) -> dict[tuple[str, str], list[tuple[Mapping[str, Any], int]]]:
    """The Readings' histograms by stream and kind, each with its weight in a common one.

    A kernel that times batches sets their length at each repeat, so a value counts as many times as its batch is
    longer than the shortest one.
    """
    found: dict[tuple[str, str], list[tuple[Mapping[str, Any], float]]] = {}
    for reading in readings:
        for stream in reading.get("streams", ()):
            operations = int(stream.get("operations", 0))
            for kind, histogram in stream.get("latency_ns", {}).items():
                weight = operations / histogram["count"] if histogram["count"] else 0.0
                found.setdefault((stream["name"], kind), []).append((histogram, weight))
    weighted = {}
    for key, many in found.items():
        least = min((weight for _, weight in many if weight), default=1.0)
        weighted[key] = [(histogram, round(weight / least) if weight else 1) for histogram, weight in many]
    return weighted


_Merged = Mapping[tuple[str, str], Histogram]
"""All operations of a stream, by its name and the kind of latency."""


def _merged_histograms(readings: Sequence[Reading]) -> _Merged:
    return {key: sum_histograms(many) for key, many in _histograms(readings).items()}


def _latency(histograms: _Merged) -> Histogram | None:
    """Total latency over all directions and repeats; ``complete`` if a kernel has no ``total``."""
    for wanted in ("total", "complete"):
        merged = Histogram()
        for (_, kind), histogram in histograms.items():
            if kind == wanted:
                merged.add(histogram)
        if merged.count:
            return merged
    return None


def _streams(readings: Sequence[Reading], merged: _Merged) -> tuple[Stream, ...]:
    names = dict.fromkeys(stream["name"] for reading in readings for stream in reading.get("streams", ()))
    made = []
    for name in names:
        same = [stream for reading in readings for stream in reading["streams"] if stream["name"] == name]
        latencies: dict[str, Latency] = {
            kind: histogram.summary()
            for (owner, kind), histogram in merged.items()
            if owner == name and histogram.count
        }
        made.append(
            Stream(
                name=name,
                operations=sum(int(stream["operations"]) for stream in same),
                bytes=sum(int(stream.get("bytes", 0)) for stream in same),
                flops=sum(int(stream.get("flops", 0)) for stream in same),
                latency_ns=latencies,
            )
        )
    return tuple(made)


def mean_throughput(readings: Sequence[Reading], counted: str, unit: str) -> tuple[Value, str, samples.Modes | None]:
    """The throughput of some repeats with its interval, the reason if it is their median, and two modes if any."""
    rates = [compute_throughput(reading, counted) for reading in readings]
    value, median_because = estimates.interval_of_repeats(rates, unit)
    wide, modes = samples.with_samples(value, [read_course(reading, counted)[0] for reading in readings], rates)
    return wide, median_because, modes


def _modes_words(modes: samples.Modes, rates: Sequence[float], unit: str) -> str:
    low, high, least, middle, most = (
        format_quantity(value, unit)
        for value in (modes.low, modes.high, min(rates), estimates.median(rates), max(rates))
    )
    says = f"throughput alternates between {low} ({format_percent(modes.share)} of the time) and {high}"
    return f"{says}: {plural(len(rates), 'reading')} from {least} to {most}, median {middle}"


def read_course(reading: Reading, counted: str) -> tuple[list[float], float]:
    """A reading's throughput per sampling interval, and that interval, s; a partial one at the end is left out."""
    sampled = reading.get("samples", {})
    rows = sampled.get("bytes" if counted == "bytes" else "operations") or []
    interval_s = float(sampled.get("interval_s") or 0.0)
    if not rows or interval_s <= 0:
        return [], interval_s
    # FLOPs are sampled as operations: each operation does the same number.
    factor = _total(reading, "flops") / max(1, _total(reading, "operations")) if counted == "flops" else 1.0
    whole = int(float(reading.get("elapsed_s", 0.0)) / interval_s + 1e-3)
    totals = [sum(row) for row in zip_longest(*rows, fillvalue=0)][:whole]
    return [factor * total / interval_s for total in totals], interval_s


def _samples(readings: Sequence[Reading], counted: str) -> Samples | None:
    """Throughput per sampling interval, over all repeats in sequence."""
    courses = [read_course(reading, counted) for reading in readings]
    values = [value for course, _ in courses for value in course]
    interval_s = courses[-1][1] if courses else 0.0
    if not values:
        return None
    low, high, cv = min(values), max(values), estimates.coefficient_of_variation(values)
    average = estimates.mean(values)
    if len(values) > MAX_SAMPLES:
        together = -(-len(values) // MAX_SAMPLES)
        values = [estimates.mean(values[at : at + together]) for at in range(0, len(values), together)]
        interval_s *= together
    return Samples(min=low, avg=average, max=high, interval_s=interval_s, cv=cv, values=tuple(values))


def _concurrency(
    readings: Sequence[Reading], operations: int, elapsed: float, latency: Histogram | None
) -> Concurrency | None:
    """Operations in flight: requested, and effective by Little's law (L = throughput x latency)."""
    requested = max((float(reading.get("concurrency_requested", 0.0)) for reading in readings), default=0.0)
    if not requested:
        return None
    if latency is not None and latency.count and any(_is_mixed(reading) for reading in readings):
        # Little's law does not hold for the latency of some operations and the throughput of others.
        return Concurrency(requested=requested, effective=None)
    # Summed per repeat: mean rate times mean latency would be wrong for unequal repeats.
    waited_ns = sum(_waited_ns(reading) for reading in readings)
    if latency is None or elapsed <= 0:
        return Concurrency(requested=requested, effective=None)
    return Concurrency(requested=requested, effective=(waited_ns or operations * latency.mean) / elapsed / 1e9)


def _waited_ns(reading: Reading) -> float:
    """Sum of the latencies of all operations of a Reading; 0 if a stream has none."""
    waited = 0.0
    for stream in reading.get("streams", ()):
        kinds, operations = stream.get("latency_ns", {}), int(stream.get("operations", 0))
        histogram = kinds.get("total") or kinds.get("complete")
        count = int(histogram.get("count", 0)) if histogram else 0
        if operations and not count:
            return 0.0
        if histogram and count:
            waited += operations * float(histogram["sum"]) / count
    return waited


def _sums(many: Any) -> dict[str, float]:
    sums: Counter[str] = Counter()
    for counters in many:
        sums.update({name: float(value) for name, value in counters.items() if isinstance(value, int | float)})
    return dict(sums)


OF_THREADS = (
    *("voluntary_switches", "involuntary_switches", "run_delay_s"),
    *("counted_cycles", "memory_stall_cycles", "backend_stall_cycles"),
)
"""What kept the measuring threads from running, as the engine counts it beside their CPU time where it can."""


def _waits(reading: Reading) -> dict[str, float]:
    spent = reading.get("cpu", {})
    return {name: spent[name] for name in OF_THREADS if spent.get(name) is not None}


def _details(readings: Sequence[Reading]) -> dict[str, Any]:
    """The kernel's extra figures: the mean of numbers, the last Reading's value of anything else."""
    found: dict[str, list[Any]] = {}
    for reading in readings:
        for name, value in reading.get("details", {}).items():
            found.setdefault(name, []).append(value)
    return {
        name: estimates.mean(values) if all(map(is_number, values)) else values[-1] for name, values in found.items()
    }


def _faults(readings: Sequence[Reading]) -> tuple[Fault, ...]:
    counts: Counter[tuple[str, int, str]] = Counter()
    for reading in readings:
        for fault in reading.get("faults", ()):
            counts[fault["operation"], int(fault["errno"]), fault["says"]] += int(fault["count"])
    return tuple(Fault(operation, errno, says, count) for (operation, errno, says), count in counts.items())


def _notes(readings: Sequence[Reading]) -> list[Note]:
    """One note per code, because their figures differ slightly between repeats."""
    found = {
        note["code"]: Note(note["code"], note["says"]) for reading in readings for note in reading.get("notes", ())
    }
    return list(found.values())


def summarize_conditions(snapshots: Sequence[tuple[Snapshot, Snapshot]]) -> dict[str, float]:
    """Conditions during a point: shares (0 to 1) and rates over its repeats, and the worst value of gauges.

    ``cpu_busy`` and ``cpu_user`` (time outside of the kernel) include the whole machine, our threads too.
    """
    if not snapshots:
        return {}
    spent: Counter[str] = Counter()
    for before, after in snapshots:
        spent.update({name: after[name] - value for name, value in before.items() if name in after})
    found: dict[str, float] = {}
    if (total := spent.get("cpu_total_s", 0.0)) > 0:
        found["cpu_busy"] = min(1.0, max(0.0, 1 - spent["cpu_idle_s"] / total))
        found["steal"] = max(0.0, spent["cpu_steal_s"] / total)
        if "cpu_user_s" in spent:
            found["cpu_user"] = min(1.0, max(0.0, spent["cpu_user_s"] / total))
    if (periods := spent.get("cgroup_periods", 0.0)) > 0:
        found["cgroup_throttled"] = max(0.0, spent["cgroup_throttled_periods"] / periods)
    for name in ("swap_in_bytes", "swap_out_bytes"):
        if name in spent:
            found[name] = max(0.0, spent[name])
    first = snapshots[0][0]
    if "load_1m" in first:
        found["load_1m"] = first["load_1m"]
    every = [snapshot for pair in snapshots for snapshot in pair]
    for name, worst in (
        ("memory_available_bytes", min),
        ("clock_hz", min),
        ("temperature_c", max),
        ("other_runs", max),
    ):
        values = [snapshot[name] for snapshot in every if name in snapshot]
        if values:
            found[name] = worst(values)
    clocks = [pair[0]["clock_hz"] for pair in snapshots if "clock_hz" in pair[0]]
    if clocks:
        found["clock_hz_before"] = clocks[0]
    return found
