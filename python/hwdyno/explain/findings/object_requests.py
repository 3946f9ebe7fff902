"""What a request to an object store costs: latency, a cost besides its bytes, TLS, a store's cache, pages of keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hwdyno.analysis.ceilings.object_store import TLS_ENDS
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.bottleneck import BUSY, client_bound
from hwdyno.explain.findings.commands import format_option
from hwdyno.explain.findings.object_store import LIKE_FILES, OF_REQUESTS, find_times, is_upload, read_detail
from hwdyno.explain.findings.point_labels import load_words
from hwdyno.explain.findings.rule import (
    Case,
    Verdict,
    apart,
    as_number,
    compute_cpu_share,
    contrast,
    mean_rate,
    percent,
    quantity,
    times,
)
from hwdyno.model.axes import series_key
from hwdyno.model.kernels import OBJECT_REQUESTS
from hwdyno.model.units import format_bytes, format_bytes_s, format_count, format_load, format_ns, format_size, plural
from hwdyno.model.words import Axis, Scalar

LINEAR = 0.8
"""Share of a gain in proportion to the load, from which on requests only wait for their own latency."""
MOSTLY_TRANSFER = 0.5
"""Share of a request's time after its first byte, from which on bytes decide and not its latency."""
MAX_UPLOAD_BYTES = 64 << 10
"""A larger upload is mostly transfer, which ends before the first byte comes back."""
MIN_SIZES, MIN_SPAN = 3, 8.0
"""Sizes of a line of time over bytes, and the least ratio of the largest to the smallest."""
MAX_MISFIT = 0.3
"""Largest distance of a point from that line, as a share of its time."""
GOOD_PART = 9
"""Multiple of n1/2 at which 90% of the bandwidth is reached."""
CACHED = 1.5
"""How much faster few objects are read than many, as a factor, if a cache has the few."""
PAGE_KEYS = 1000
"""Keys of a whole page."""
MILLION = 1e6
TLS_PART = 0.3
"""Share of a busy processor's time from which on TLS is named: without it, 1.4 times as much would go through."""
SLOW_LISTING_S = 20.0
"""Time of a listing of a million keys from which on it is worth a word."""
_READS = {"get", "range", "head"}
_OF_BYTES = {"get", "range", "put", "multipart"}


def object_latency(case: Case) -> Verdict | None:
    """Throughput grows as the load does, and a request takes as long as with one in flight: rate = load / latency."""
    curve, axis = case.curve, case.result.load_axis
    if curve is None:
        return None
    loads = {at: as_number(case.result.points[at].parameters.get(axis.name)) or 0.0 for at in curve.points}
    lowest, highest = min(loads, key=loads.__getitem__), max(loads, key=loads.__getitem__)
    low_load, load = loads[lowest], loads[highest]
    least, most = case.result.points[lowest], case.result.points[highest]
    here = Case(case.run, case.result, highest)
    rates = [mean_rate(least) or 0.0, mean_rate(most) or 0.0]
    total, first = find_times(most, "total"), find_times(most, "first_byte")
    if load < 4 * low_load or not all(rates) or total is None or first is None or not total.mean:
        return None
    if is_upload(here) and most.bytes > MAX_UPLOAD_BYTES * most.operations:
        return None
    gain, transfer = rates[1] / rates[0], 1 - first.mean / total.mean
    if gain < LINEAR * load / low_load or transfer > MOSTLY_TRANSFER or (here.cpu_share or 0.0) > BUSY:
        return None
    before = find_times(least, "total")
    alone = f", and {format_ns(before.mean)} at {format_load(low_load)}" if before else ""
    limit, together = axis.most or 8 * load, load * max(1, len(most.hosts))
    ends = [format_option(axis, end) for end in (load, min(limit, 8 * load))]
    return Verdict(
        "info",
        f"Limited by latency, not by the store's rate ({case.label}). {load_words(axis, together)} / "
        f"{format_ns(total.mean)} each = {format_count(together / total.mean * 1e9)} requests/s (Little's law). "
        f"A request takes {format_ns(total.mean)} there{alone}.",
        {"load": load, "latency_ns": total.mean, "gain": gain, "requests_s": rates[1]},
        f"Keep more requests in flight: {case.command(**{axis.name: '..'.join(ends)})}",
        points=(highest,),
    )


@dataclass(frozen=True, slots=True)
class _TimeLine:
    """The time of a request over an amount: t = a + n / b."""

    fixed_ns: float
    ns_each: float
    misfit: float
    """Largest distance of a point from it, as a share of its time."""


def fit_line(amounts: Sequence[float], times_ns: Sequence[float]) -> _TimeLine | None:
    """Least squares of relative distances; none where the amounts are alike, or either part is not above 0."""
    weights = [1 / time for time in times_ns]
    # Each time is 1 in units of itself: minimize the sum of (a w + e n w - 1)^2.
    ww, wn = sum(w * w for w in weights), sum(w * w * n for w, n in zip(weights, amounts, strict=True))
    nn = sum((w * n) ** 2 for w, n in zip(weights, amounts, strict=True))
    w1, n1 = sum(weights), sum(w * n for w, n in zip(weights, amounts, strict=True))
    determinant = ww * nn - wn * wn
    if determinant <= 1e-9 * ww * nn:
        return None
    fixed, slope = (w1 * nn - n1 * wn) / determinant, (n1 * ww - w1 * wn) / determinant
    if fixed <= 0 or slope <= 0:
        return None
    misfit = max(abs(fixed + slope * n - time) / time for n, time in zip(amounts, times_ns, strict=True))
    return _TimeLine(fixed, slope, misfit)


def _groups(case: Case, axis: Axis) -> list[dict[float, int]]:
    """Points that differ in one axis alone, by its value."""
    found: dict[tuple[tuple[str, Scalar], ...], dict[float, int]] = defaultdict(dict)
    for at, point in enumerate(case.result.points):
        value = as_number({**case.result.fixed, **point.parameters}.get(axis.name))
        total = find_times(point, "total")
        if value and point.validity != "invalid" and total is not None and total.mean:
            found[series_key(case.result.declaration, point.parameters, {axis.name})][value] = at
    return [group for group in found.values() if len(group) > 1]


def object_request_cost(case: Case) -> list[Verdict]:
    """Time of a request over its size: t = a + bytes / b, and n1/2 = a x b, where half of the bandwidth is reached."""
    axes = [axis for axis in case.result.declaration.axes if axis.role == "size"]
    found = (_request_cost(case, axis, group) for axis in axes for group in _groups(case, axis))
    return [verdict for verdict in found if verdict is not None]


def _request_cost(case: Case, axis: Axis, group: dict[float, int]) -> Verdict | None:
    sizes = sorted(group)
    here = Case(case.run, case.result, group[sizes[0]])
    if len(sizes) < MIN_SIZES or sizes[-1] < MIN_SPAN * sizes[0] or str(here.parameter("operation")) not in _OF_BYTES:
        return None
    totals = [find_times(case.result.points[group[size]], "total") for size in sizes]
    line = fit_line(sizes, [total.mean for total in totals if total is not None])
    if line is None or line.misfit > MAX_MISFIT:
        return None
    half = line.fixed_ns / line.ns_each
    if sizes[0] >= half:
        return None
    share, enough = line.fixed_ns / (line.fixed_ns + line.ns_each * sizes[0]), 1 << round(GOOD_PART * half).bit_length()
    in_flight = case.number("concurrency") or here.number("concurrency") or 1.0
    return Verdict(
        "info",
        f"Small requests pay for the request, not for bytes ({here.label}): {percent(share)} of the time at "
        f"{format_size(sizes[0])}. Each costs {format_ns(line.fixed_ns)} and moves "
        f"{format_bytes_s(1e9 / line.ns_each)} after that. Half of the bandwidth is reached at "
        f"{format_size(_round_size(half))} (n½), 90% at {format_size(_round_size(GOOD_PART * half))}.",
        {"request_ns": line.fixed_ns, "bytes_s": 1e9 / line.ns_each, "half_bytes": half, "share": share,
         "misfit": line.misfit, "in_flight": in_flight},
        f"Use objects, parts and ranges of {format_size(enough)} or more: "
        f"{here.command(**{axis.name: format_option(axis, enough)})}",
        weight=share,
        points=tuple(group[size] for size in sizes if size < half),
    )  # fmt: skip


def _round_size(size: float) -> float:
    """A size with two digits, in its power of 1024."""
    power = 1.0
    while size / power >= 1024:
        power *= 1024
    return float(f"{size / power:.2g}") * power


def object_cached(case: Case) -> list[Verdict]:
    """Few objects are read faster than many: a cache of the store, or on the way, has the few."""
    axis = case.result.axis("objects")
    found = (_compare_counts(case, group) for group in _groups(case, axis))
    return [verdict for verdict in found if verdict is not None]


def _compare_counts(case: Case, group: dict[float, int]) -> Verdict | None:
    few, many = min(group), max(group)
    here, less, more = Case(case.run, case.result, group[few]), *(case.result.points[group[n]] for n in (few, many))
    ratio = less.throughput.value / more.throughput.value if more.throughput.value > 0 else 0.0
    if str(here.parameter("operation")) not in _READS or ratio < CACHED or not apart(more.throughput, less.throughput):
        return None
    size = here.number("object_size") or 0.0
    of_many = more.throughput.value
    fast = [group[n] for n in group if case.result.points[group[n]].throughput.value >= CACHED * of_many]
    return Verdict(
        "warning",
        f"A cache answers reads of few objects ({here.label}): {plural(few, 'object')} ({format_bytes(few * size)}) "
        f"are read {times(ratio)} times as fast as {many:,.0f} ({format_bytes(many * size)}). "
        "Possible places: the store's memory, a gateway or a proxy.",
        {"ratio": ratio, "few": few, "many": many, "few_bytes": few * size, "many_bytes": many * size},
        f"Measure more objects than its cache holds: {here.command(objects=int(8 * many))}",
        weight=ratio,
        points=tuple(fast),
    )


def object_first_read(case: Case) -> list[Verdict]:
    """Objects that were read once are read faster again: a cache keeps what is read, and first reads miss it."""
    found: dict[tuple[tuple[str, Scalar], ...], dict[str, int]] = defaultdict(dict)
    for at, point in enumerate(case.result.points):
        visit = str(point.parameters.get("visit"))
        if visit in {"first", "second"} and point.validity != "invalid":
            found[series_key(case.result.declaration, point.parameters, {"visit"})][visit] = at
    verdicts = (_compare_visits(case, both["first"], both["second"]) for both in found.values() if len(both) == 2)
    return [verdict for verdict in verdicts if verdict is not None]


def _compare_visits(case: Case, first: int, second: int) -> Verdict | None:
    here, once, again = Case(case.run, case.result, second), case.result.points[first], case.result.points[second]
    ratio = again.throughput.value / once.throughput.value if once.throughput.value > 0 else 0.0
    if ratio < CACHED or not apart(once.throughput, again.throughput):
        return None
    objects, size = here.number("objects") or 1.0, here.number("object_size") or 0.0
    faster, slower = again.throughput, once.throughput
    rates = contrast(quantity(faster.value, faster.unit), quantity(slower.value, slower.unit), "vs")
    return Verdict(
        "warning",
        f"A cache answers repeated reads ({here.label}): the second read of {plural(objects, 'object')} "
        f"({format_bytes(objects * size)}) is {times(ratio)} times as fast as the first ({rates}). "
        "Possible places: the store's memory or flash, a gateway or a proxy.",
        {"ratio": ratio, "first": slower.value, "second": faster.value, "unit": faster.unit},
        "Plan with the first read where data is read once. Measure more objects than the cache holds: "
        f"{here.command(visit='first,second', objects=int(8 * objects))}",
        weight=ratio,
        points=(first, second),
    )


def object_tls(case: Case) -> Verdict | None:
    """Busy threads of the client, or on loopback busy processors of both ends, that spend much of their time on TLS.

    The time is that of full records in memory, so it is the least that TLS costs.
    """
    point, cipher = case.point, read_detail(case.point, "tls_bytes_cpu_s")
    if not cipher:
        return None
    spent_s, threads = (point.cpu_user_s or 0.0) + (point.cpu_system_s or 0.0), read_detail(point, "client_threads")
    busy_share = compute_cpu_share(point, threads * max(1, len(point.hosts)), case.threads) or 0.0
    here = f"One processor encrypts or decrypts {format_bytes_s(cipher)} by {point.details.get('tls_suite')}."
    share = point.bytes / cipher / spent_s if spent_s else 0.0
    if threads and busy_share > BUSY and share >= TLS_PART:
        bound = client_bound(case)
        return Verdict(
            "warning",
            f"TLS limits the client ({case.label}): the processors that it uses are "
            f"{percent(busy_share)} busy, and encryption takes {percent(share)} of that time or more. {here}",
            {"cpu_share": busy_share, "limit": BUSY, "tls_share": share, "tls_bytes_cpu_s": cipher},
            bound.advice if bound else f"Use more processors or a second client, then: {case.command()}",
            weight=busy_share,
            explains=("client_bound",),
        )
    machine_s = point.conditions.get("cpu_busy", 0.0) * point.elapsed_s * (case.threads or 0)
    share = TLS_ENDS * point.bytes / cipher / machine_s if machine_s else 0.0
    if point.details.get("loopback") is not True or point.conditions.get("cpu_busy", 0.0) <= BUSY or share < TLS_PART:
        return None
    return Verdict(
        "info",
        f"TLS limits both ends ({case.label}): this machine's processors are {percent(point.conditions['cpu_busy'])} "
        f"busy, and encryption takes {percent(share)} of that time or more. {here}",
        {"cpu_busy": point.conditions["cpu_busy"], "tls_share": share, "tls_bytes_cpu_s": cipher},
        f"Run the store on another machine, then: {case.command()}",
        weight=share,
    )


def object_list(case: Case) -> list[Verdict]:
    """Pages of one listing follow each other: many keys take long at any concurrency."""
    pages = [
        (read_detail(point, "keys_a_page"), total.mean, at)
        for at, point in enumerate(case.result.points)
        if (total := find_times(point, "total")) is not None and point.validity != "invalid"
    ]
    pages = [page for page in pages if page[0] >= 1]
    if not pages:
        return []
    loads = {at: as_number({**case.result.fixed, **case.result.points[at].parameters}.get("concurrency")) or 1.0
             for _, _, at in pages}  # fmt: skip
    alone = sorted(page for page in pages if loads[page[2]] == min(loads.values()))
    keys, page_ns, at = alone[-1]
    line = fit_line([page[0] for page in alone], [page[1] for page in alone]) if len(alone) > 1 else None
    line = line if line is not None and line.misfit <= MAX_MISFIT else None
    whole_ns = line.fixed_ns + line.ns_each * PAGE_KEYS if line is not None else page_ns
    takes_s = whole_ns / 1e9 * MILLION / PAGE_KEYS
    if takes_s < SLOW_LISTING_S:
        return []
    here = Case(case.run, case.result, at)
    page = f"of {keys:,.0f} keys takes {format_ns(page_ns)}"
    if line is not None:
        page = f"takes {format_ns(line.fixed_ns)} and {format_ns(line.ns_each)} a key"
    return [
        Verdict(
            "info",
            f"A listing is slow: a page {page} ({here.label}). Each page needs the one before, so a million keys "
            f"take {format_ns(takes_s * 1e9)} or more, at any concurrency.",
            {"page_ns": page_ns, "keys": keys, "million_keys_s": takes_s,
             **({"key_ns": line.ns_each, "fixed_ns": line.fixed_ns} if line is not None else {})},
            f"Keep an index of the keys, or list several prefixes at once. Measure whole pages: "
            f"{here.command(objects=PAGE_KEYS)}"
            if keys < PAGE_KEYS
            else f"Keep an index of the keys, or list several prefixes at once. Then: {here.command()}",
            points=(at,),
        )
    ]  # fmt: skip


RULES = (
    Rule("object_latency", "curve", object_latency, replace(OF_REQUESTS, roles=("concurrency",))),
    Rule("object_request_cost", "experiment", object_request_cost, OF_REQUESTS),
    Rule(
        "object_cached", "experiment", object_cached, replace(OF_REQUESTS, needs=("parameters.objects",)),
    ),
    Rule(
        "object_first_read", "experiment", object_first_read, replace(OF_REQUESTS, needs=("parameters.visit",)),
    ),
    Rule(
        "object_tls", "point", object_tls,
        Applies(kernels=(OBJECT_REQUESTS, *LIKE_FILES), needs=("details.tls_bytes_cpu_s",)), degrades=True,
    ),
    Rule("object_list", "experiment", object_list, replace(OF_REQUESTS, needs=("details.keys_a_page",))),
)  # fmt: skip
