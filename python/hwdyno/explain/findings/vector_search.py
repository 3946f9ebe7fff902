"""Rules on a vector index on storage: how many queries it answers, and at which recall."""

from __future__ import annotations

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.model.kernels import INFERENCE_VECTOR_SEARCH
from hwdyno.model.units import format_count, format_ns, format_size, plural
from hwdyno.model.words import Parameters

RECALL = 0.9
"""Recall below which an index is fast because it searches too little."""


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


def _larger(given: Parameters) -> int:
    vectors = given.get("vectors")
    return int(vectors) * 10 if isinstance(vectors, int) else 200_000


_SEARCH = Applies(kernels=(INFERENCE_VECTOR_SEARCH,), needs=("details.recall",))
RULES = (
    Rule("vector_recall", "point", vector_recall, _SEARCH),
    Rule("vector_queries", "experiment", vector_queries, _SEARCH),
)
