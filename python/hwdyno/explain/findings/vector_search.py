"""Rules on a vector index on storage: how many queries it answers, and at which recall."""

from __future__ import annotations

from dataclasses import replace

from hwdyno.analysis.ceilings.inference import name_plain_gets
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.object_store import find_times
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.model.kernels import INFERENCE_VECTOR_SEARCH
from hwdyno.model.units import format_count, format_ns, format_size, plural
from hwdyno.model.words import Parameters

RECALL = 0.9
"""Recall below which an index is fast because it searches too little."""
MOSTLY_WAITS = 0.5
"""Share of a query's time spent waiting for the store, from which on its round trips decide it."""


def vector_recall(case: Case) -> Verdict | None:
    """A recall too low for the queries per second to count."""
    recall = as_number(case.point.details.get("recall"))
    if recall is None or recall >= RECALL:
        return None
    k = as_number(case.parameter("k")) or 10
    is_graph = case.parameter("index") != "ivf"
    axis = "search_list" if is_graph else "probes"
    more = int((as_number(case.parameter(axis)) or 1) * 2)
    return Verdict(
        "warning",
        f"Recall is too low ({case.label}): only {percent(recall)} of the {k:.0f} nearest vectors were found. "
        f"The queries/s do not compare with an index at {percent(RECALL)} recall.",
        {"recall": recall, "least": RECALL, axis: more // 2},
        f"Search more of the index: {case.command(**{axis: more})}",
        weight=1 - recall,
    )


def vector_queries(case: Case) -> Verdict | None:
    """The highest rate of queries with its threads, the storage reads per query, and the recall."""
    points = [
        (float(point.details["queries_s"]), at)
        for at, point in enumerate(case.result.points)
        if point.validity != "invalid"
        and point.details.get("queries_s")
        and as_number(point.details.get("recall")) is not None
    ]
    good = [(rate, at) for rate, at in points if case.result.points[at].details["recall"] >= RECALL] or points
    if not good:
        return None
    rate, at = max(good)
    point = case.result.points[at]
    details, given = point.details, {**case.result.fixed, **point.parameters}
    latency = point.latency_ns
    k = as_number(given.get("k")) or 10
    took = f", p50 {format_ns(latency.p50)} and p99 {format_ns(latency.p99)}" if latency else ""
    threads = as_number(given.get("threads")) or 1
    here = Case(case.run, case.result, at)
    return Verdict(
        "info",
        f"Index {given.get('index')} on {case.storage} answers {format_count(rate)} queries/s with "
        f"{plural(threads, 'thread')}{took}, at {percent(details['recall'])} recall@{k:.0f}. "
        f"It has {format_count(as_number(given.get('vectors')) or 0)} vectors of {given.get('dim')} dimensions. "
        f"Each query takes {plural(round(details['reads_per_query']), 'read')}, "
        f"{format_size(details['bytes_per_query'])} in all.",
        {
            "headline": {"title": f"index {given.get('index')}", "value": round(rate), "unit": "queries/s"},
            "queries_s": rate,
            "recall": details["recall"],
            "reads_per_query": details["reads_per_query"],
            "bytes_per_query": details["bytes_per_query"],
        },
        f"Use more vectors than fit in memory, like a real index: {here.command(vectors=_larger(given))}",
        points=tuple(at for _, at in points),
    )


def vector_round_trips(case: Case) -> Verdict | None:
    """A query in an object store takes its round trips, each the time of the slowest GET that is in flight then."""
    waits = [(connections, at) for at, connections in _connections(case) if _wait_share(case, at) >= MOSTLY_WAITS]
    if not waits:
        return None
    at = min(waits)[1]
    here = Case(case.run, case.result, at)
    details, trip, query = here.point.details, find_times(here.point, "hop"), find_times(here.point, "total")
    assert trip is not None and query is not None
    trips, reads = float(details["hops_per_query"]), float(details["reads_per_query"])
    get_ns = _find_get_time(here)
    alone = f", where a plain GET takes {format_ns(get_ns)}" if get_ns else ""
    return Verdict(
        "info",
        f"Round trips to the store decide a query's time ({here.label}): {trips:.3g} x {format_ns(trip.mean)} = "
        f"{format_ns(trips * trip.mean)} of {format_ns(query.mean)}. "
        f"Each takes as long as the slowest of {reads / trips:.2g} GETs at once{alone}.",
        {
            "round_trips": trips,
            "round_trip_ns": trip.mean,
            "query_ns": query.mean,
            "share": _wait_share(case, at),
            "gets_at_once": reads / trips,
            "get_ns": get_ns,
        },
        _advise_fewer_trips(here, reads, trips),
        points=tuple(place for _, place in waits),
    )


def _find_get_time(case: Case) -> float | None:
    """The mean time of a plain GET over as many connections, where this Run has it, ns."""
    connections = (case.number("threads") or 1.0) * (case.number("beam") or 1.0)
    for result in case.run.experiments:
        for point in result.points if result.name == name_plain_gets(case.result.name) else ():
            total = find_times(point, "total")
            if total is not None and as_number(point.parameters.get("concurrency")) == connections:
                return total.mean
    return None


def _connections(case: Case) -> list[tuple[int, float]]:
    """Each valid point with round trips, and how many connections it has."""
    found = []
    for at, point in enumerate(case.result.points):
        here = Case(case.run, case.result, at)
        if point.validity != "invalid" and as_number(point.details.get("hops_per_query")):
            found.append((at, (here.number("threads") or 1.0) * (here.number("beam") or 1.0)))
    return found


def _wait_share(case: Case, at: int) -> float:
    """The share of a query's time that it waits for the store: round trips x the time of each."""
    point = case.result.points[at]
    trip, query = find_times(point, "hop"), find_times(point, "total")
    if trip is None or query is None or not query.mean:
        return 0.0
    return float(point.details["hops_per_query"]) * trip.mean / query.mean


def _advise_fewer_trips(case: Case, reads: float, trips: float) -> str:
    """What makes fewer round trips: more reads at once, as far as they do not need each other's answers."""
    is_graph, beam = case.parameter("index") != "ivf", int(case.number("beam") or 1)
    most = case.result.axis("beam").most or reads
    if not is_graph and trips > 1:
        return f"Read all lists of a query at once: {case.command(beam=int(min(most, max(beam + 1, 1.5 * reads))))}"
    if is_graph and reads / trips > beam / 2 and 4 * beam <= most:
        return f"Read more at once, in fewer round trips: {case.command(beam=4 * beam)}"
    if is_graph:
        return f"Try lists, which are read at once: {case.command(index='ivf', beam=64)}"
    threads = int(case.number("threads") or 1)
    return f"Fewer than one is impossible, so use more threads for more queries/s: {case.command(threads=4 * threads)}"


def _larger(given: Parameters) -> int:
    vectors = given.get("vectors")
    return int(vectors) * 10 if isinstance(vectors, int) else 200_000


_SEARCH = Applies(kernels=(INFERENCE_VECTOR_SEARCH,), needs=("details.recall",))
RULES = (
    Rule("vector_recall", "point", vector_recall, _SEARCH),
    Rule("vector_queries", "experiment", vector_queries, _SEARCH),
    Rule(
        "vector_round_trips", "experiment", vector_round_trips,
        replace(_SEARCH, needs=("details.store_requests", "details.hops_per_query")),
    ),
)  # fmt: skip
