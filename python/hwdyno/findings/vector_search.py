"""Rules on a vector index on storage: how many queries it answers, and are the answers worth having?"""

from __future__ import annotations

from hwdyno.findings.applies import Applies, Rule
from hwdyno.findings.rule import Case, Verdict, as_number, percent
from hwdyno.units import format_count, format_ns, format_size
from hwdyno.words import Parameters

RECALL = 0.9
"""Below it an index answers fast because it looks at too little."""


def vector_recall(case: Case) -> Verdict | None:
    """Queries a second of answers that are wrong tell nothing that anybody could use."""
    recall = as_number(case.point.details.get("recall"))
    if recall is None or recall >= RECALL:
        return None
    k = as_number(case.parameter("k")) or 10
    is_graph = case.parameter("index") != "ivf"
    axis = "search_list" if is_graph else "probes"
    more = int((as_number(case.parameter(axis)) or 1) * 2)
    return Verdict(
        "warning",
        f"{case.label}: of the {k:.0f} nearest vectors of a query only {percent(recall)} were found, so its queries a "
        f"second are not those of an index that serves {percent(RECALL)}.",
        {"recall": recall, "least": RECALL, axis: more // 2},
        f"Look at more of the index: {case.command(**{axis: more})}",
        weight=1 - recall,
    )


def vector_queries(case: Case) -> Verdict | None:
    """What the index reaches with how many threads, what a query costs the storage, and how good its answers are."""
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
        f"A {given.get('index')} index of {format_count(as_number(given.get('vectors')) or 0)} vectors of "
        f"{given.get('dim')} dimensions on {case.storage} answers {format_count(rate)} queries/s with {threads:.0f} "
        f"thread{'' if threads == 1 else 's'}{took}, at {percent(details['recall'])} recall@{k:.0f}; a query takes "
        f"{details['reads_per_query']:.0f} reads of {format_size(details['bytes_per_query'])} in all.",
        {
            "queries_s": rate,
            "recall": details["recall"],
            "reads_per_query": details["reads_per_query"],
            "bytes_per_query": details["bytes_per_query"],
        },
        f"More vectors than memory holds come nearer to a real index: {here.command(vectors=_larger(given))}",
        points=tuple(at for _, at in points),
    )


def _larger(given: Parameters) -> int:
    vectors = given.get("vectors")
    return int(vectors) * 10 if isinstance(vectors, int) else 200_000


_SEARCH = Applies(kernels=("training_vector_search",), needs=("details.recall",))
RULES = (
    Rule("vector_recall", "point", vector_recall, _SEARCH),
    Rule("vector_queries", "experiment", vector_queries, _SEARCH),
)
