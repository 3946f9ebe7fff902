"""What limits an object store: failures by kind, its throttle, lost connections, an endpoint, the link, a window."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median

from hwdyno.analysis.ceilings import bound_for
from hwdyno.analysis.ceilings.object_store import BOTH, METRIC, TURNS, count_ways
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.point_labels import load_words
from hwdyno.explain.findings.rule import Case, Verdict, as_flag, as_number, percent, quantity, times
from hwdyno.model.kernels import INFERENCE_KV_CACHE, OBJECT_REQUESTS, TRAINING_CHECKPOINT, TRAINING_LOADER
from hwdyno.model.units import format_bytes, format_bytes_s, format_count, format_load, format_ns
from hwdyno.model.words import Ceiling, Latency, Measurement, Scalar, Value

SLOW_DOWN = "503 SlowDown"
"""How the engine's words for a shed request begin."""
THROTTLED = 0.01
"""Share of shed requests from which on a store throttles."""
FLAT = 1.2
"""Growth of the served rate over at least twice the load, below which it does not follow the load."""
MADE_ANEW = 0.1
"""Share of requests with a new connection, above which connections are not kept."""
SLOW = 1.5
"""How much longer one endpoint takes than the others, as a factor."""
MIN_ANSWERS = 20
"""Answers of an endpoint in a reading below which its mean says little."""
FULL = 0.9
WINDOW_FULL = 0.7
"""Share of a window that is in flight, from which on the sender waits for it: a window that grows is half full."""
LIMITED = 0.3
"""Share of a sender's busy time spent waiting for a window (``tcpi_rwnd_limited``, ``tcpi_sndbuf_limited``)."""
_BY_WAY = {TURNS: ("save_bytes_s", "load_bytes_s"), BOTH: ("read_bytes_s", "write_bytes_s")}
"""Details with the throughput of each direction, of kernels that go both ways."""
LIKE_FILES = (TRAINING_LOADER, TRAINING_CHECKPOINT, INFERENCE_KV_CACHE)
"""Kernels that use a store as they use files."""
REMEDIES = {
    SLOW_DOWN: "Try a lower load",
    "no complete": "Check the store's load and the path to it",
    "no connection": "Check how many connections the store accepts",
    "the connection": "Read the store's log, and check its limit of connections",
    "RequestTimeTooSkewed": "Set this machine's clock (timedatectl)",
    "403": "Check the credentials and the bucket's policy",
    "404": "Check what else removes objects of that bucket",
    "3xx": "Use the endpoint of the bucket's region",
    "the response is": "Check that the endpoint is the S3 port of the store",
    "the response has": "Check what else writes objects of that bucket",
    "the object's": "Compare the object with its original: it may be damaged",
}
"""What mends a failure, by how the engine's words for it begin."""


def find_times(point: Measurement, kind: str) -> Latency | None:
    """One kind of a point's times: ``total``, ``first_byte``, ``connect``; none where it was not measured."""
    return next((stream.latency_ns[kind] for stream in point.streams if kind in stream.latency_ns), None)


def read_detail(point: Measurement, name: str) -> float:
    """One of a point's details; 0 where it has none."""
    return as_number(point.details.get(name)) or 0.0


def is_upload(case: Case) -> bool:
    """Whether the point's requests send objects."""
    return str(case.parameter("operation")) in {"put", "multipart"}


def object_faults(case: Case) -> Verdict | None:
    """Requests that failed, by kind: they are in no throughput and in no percentile."""
    point = case.point
    faults = sorted(point.faults, key=lambda fault: -fault.count)
    failed = sum(fault.count for fault in faults)
    if not failed:
        return None
    share = failed / (failed + point.operations)
    remedy = next((text for begin, text in REMEDIES.items() if faults[0].says.startswith(begin)), "")
    kinds = "; ".join(f"{fault.count} x {fault.says}" for fault in faults)
    head = f"{percent(share)} of the requests failed" if point.operations else "No request succeeded"
    return Verdict(
        "warning" if point.operations else "invalid",
        f"{head} ({case.label}). They are in no percentile, but timed separately. Faults: {kinds}.",
        {"failed": failed, "share": share, "kinds": {fault.says: fault.count for fault in faults}},
        f"{remedy or case.resource.on_faults}, then: {case.command()}",
        weight=share,
        # What failed was in flight, too, and a connection rests after a failure.
        explains=("depth_not_reached", "little"),
    )


def _count_shed(point: Measurement) -> int:
    return sum(fault.count for fault in point.faults if fault.says.startswith(SLOW_DOWN))


def object_throttled(case: Case) -> Verdict | None:
    """The store sheds requests (503 SlowDown), and what it serves no longer follows the load."""
    curve, axis = case.curve, case.result.load_axis
    if curve is None:
        return None
    points = {at: case.result.points[at] for at in range(len(case.result.points)) if _belongs(case, at)}
    loads = {at: as_number(point.parameters.get(axis.name)) or 0.0 for at, point in points.items()}
    order = sorted((at for at in points if points[at].elapsed_s > 0), key=loads.__getitem__)
    shares = {at: _count_shed(points[at]) / max(1, _count_shed(points[at]) + points[at].operations) for at in order}
    shed = [at for at in order if shares[at] > THROTTLED]
    if not shed or shed[-1] != order[-1]:
        return None
    most, first = order[-1], shed[0] if len(shed) > 1 else order[max(0, len(order) - 2)]
    served = {at: points[at].operations / points[at].elapsed_s for at in (first, most)}
    if loads[most] < 2 * loads[first] or served[most] > FLAT * served[first]:
        return None
    below = max((loads[at] for at in order if at not in shed), default=loads[first] / 2)
    lower = case.command(**{axis.name: format_load(max(1.0, below))})
    return Verdict(
        "warning",
        f"The store throttles: it refused {percent(shares[most])} of the requests with 503 SlowDown at "
        f"{load_words(axis, loads[most])} ({case.label}). "
        f"It served {format_count(served[first])} requests/s at {format_load(loads[first])} and "
        f"{format_count(served[most])} at {format_load(loads[most])}, so the rate does not follow the load.",
        {"shed_share": shares[most], "served": {str(loads[at]): rate for at, rate in served.items()}},
        f"Spread the keys over more prefixes or buckets, or stay below the limit: {lower}",
        weight=shares[most],
        points=tuple(shed),
    )


def _belongs(case: Case, at: int) -> bool:
    """Whether a point belongs to the case's curve; the fit leaves out points where many requests failed."""
    curve = case.curve
    given: dict[str, Scalar] = {**case.result.fixed, **case.result.points[at].parameters}
    return curve is not None and all(str(given.get(name)) == str(value) for name, value in curve.series.items())


def object_keep_alive(case: Case) -> Verdict | None:
    """Connections that are made for requests, although they should be kept."""
    point = case.point
    if not as_flag(case.parameter("keep_alive", True)) or not point.operations:
        return None
    # The connections are those of a reading and a host in the mean.
    parts, failed = max(1, point.repeats) * max(1, len(point.hosts)), sum(fault.count for fault in point.faults)
    requests = (point.operations + failed) / parts
    anew = read_detail(point, "connections_made") - (case.number("concurrency") or 1.0) - failed / parts
    share = min(1.0, anew / requests)
    connect, total = find_times(point, "connect"), find_times(point, "total")
    if share <= MADE_ANEW or connect is None or total is None or not total.mean:
        return None
    return Verdict(
        "warning",
        f"Connections are not kept: {percent(share)} of the requests needed a new one ({case.label}). "
        f"To make one takes {format_ns(connect.mean)}, and a whole request {format_ns(total.mean)}.",
        {"made_anew_share": share, "connect_ns_mean": connect.mean, "total_ns_mean": total.mean},
        f"Check keep-alive at the store and at proxies on the way (nginx: keepalive_requests), then: {case.command()}",
        weight=share,
    )


def object_endpoint(case: Case) -> Verdict | None:
    """One endpoint of several that answers later than the others, or that alone fails."""
    rows = [case.point.details.get(f"endpoint_{name}") for name in ("requests", "failed", "mean_ns")]
    answered, failed, means = ([as_number(value) or 0.0 for value in row] if isinstance(row, list) else [] for row in
                               rows)  # fmt: skip
    if len(answered) < 2 or not len(answered) == len(failed) == len(means):
        return None
    urls = [url.strip() for url in str(case.parameter("endpoint") or "").split(",") if url.strip()]
    named = urls if len(urls) == len(answered) else [f"address {at + 1} of {len(answered)}" for at in range(len(means))]
    wrong = [bad / (bad + good) if bad + good else 0.0 for bad, good in zip(failed, answered, strict=True)]
    worst = max(range(len(wrong)), key=wrong.__getitem__)
    if wrong[worst] > THROTTLED and not any(share for at, share in enumerate(wrong) if at != worst):
        return Verdict(
            "warning",
            f"All failures are of one endpoint: {named[worst]} failed {percent(wrong[worst])} of its requests "
            f"({case.label}).",
            {"endpoint": named[worst], "failed_share": wrong[worst]},
            f"Read that server's log, then measure it alone: {_alone(case, named[worst], urls)}",
            weight=wrong[worst],
        )
    if min(answered) < MIN_ANSWERS:
        return None
    slow = max(range(len(means)), key=means.__getitem__)
    others = median(mean for at, mean in enumerate(means) if at != slow)
    ratio = means[slow] / others if others else 0.0
    if ratio < SLOW:
        return None
    return Verdict(
        "warning",
        f"One endpoint is slow: {named[slow]} takes {times(ratio)} times as long as the others ({case.label}). "
        f"A request takes {format_ns(means[slow])} there and {format_ns(others)} at the others.",
        {"endpoint": named[slow], "ratio": ratio, "mean_ns": means[slow], "others_ns": others},
        f"Measure it alone: {_alone(case, named[slow], urls)}",
        weight=ratio,
    )


def _alone(case: Case, name: str, urls: list[str]) -> str:
    """The command that measures one endpoint; all of them where only an address of a name is known."""
    return case.command_with({"endpoint": name}) if name in urls else case.command()


def object_link(case: Case) -> list[Verdict]:
    """Objects fill the link of this machine's interface in some direction."""
    found: dict[str, Verdict] = {}
    for at, point in enumerate(case.result.points):
        given = {**case.result.fixed, **point.parameters}
        bound = bound_for(case.result.ceilings, given, "physical") or bound_for(case.result.ceilings, given, "rated")
        if bound is None or not bound.value:
            continue
        link_bytes_s, flow = bound.value / count_ways(bound.ceiling), _find_flow(point, bound.ceiling)
        share, known = (flow.value / link_bytes_s if flow else 0.0), found.get(bound.ceiling.metric)
        if flow is None or share <= FULL or (known is not None and known.weight >= share):
            continue
        here = Case(case.run, case.result, at)
        found[bound.ceiling.metric] = Verdict(
            "info",
            f"The link is the limit ({here.label}): {quantity(flow)} is {percent(share)} of "
            f"{quantity(link_bytes_s, bound.unit)}, which {bound.ceiling.label or 'the path'} leaves for payload.",
            {"link_bytes_s": link_bytes_s, "share": share},
            f"Use a faster link or a second client, then: {here.command()}",
            weight=share,
            points=(at,),
        )
    return list(found.values())


def object_repeated(case: Case) -> Verdict | None:
    """Requests that the store refused or lost, and that succeeded when they were sent again."""
    repeated = read_detail(case.point, "requests_repeated")
    sent = read_detail(case.point, "store_requests") or read_detail(case.point, "requests")
    share = repeated / sent if sent else 0.0
    if share <= THROTTLED:
        return None
    return Verdict(
        "warning",
        f"{percent(share)} of the requests were sent again ({case.label}): the store refused or lost "
        f"{format_count(repeated)} of {format_count(sent)}. The time that they waited is in the figures.",
        {"repeated": repeated, "requests": sent, "share": share},
        f"{case.on_faults}, then: {case.command()}",
        weight=share,
    )


def _find_flow(point: Measurement, ceiling: Ceiling) -> Value | None:
    """The throughput that a link's ceiling bounds: the point's, or the larger one of a kernel that goes both ways."""
    names = _BY_WAY.get(ceiling.metric.removeprefix(METRIC), ())
    rates = [read_detail(point, name) for name in names]
    if rates:
        return Value(max(rates), "bytes/s")
    return point.throughput if point.throughput.unit == ceiling.unit else None


def object_window(case: Case) -> Verdict | None:
    """A connection carries no more than its window in a round trip: window / RTT."""
    point, uploads = case.point, is_upload(case)
    rtt_s, window = read_detail(point, "rtt_min_us") / 1e6, read_detail(point, "window_bytes")
    total, first = find_times(point, "total"), find_times(point, "first_byte")
    if not (rtt_s and window and total and first) or point.details.get("loopback") is True or not point.operations:
        return None
    size = point.bytes / point.operations
    transfer_s = (total.mean if uploads else total.mean - first.mean) / 1e9
    if transfer_s <= 0 or size < 2 * window:
        return None
    rate = size / transfer_s
    full, waited = rate * rtt_s / window, read_detail(point, "receiver_limited_share")
    if full < WINDOW_FULL or (uploads and waited < LIMITED):
        return None
    whose, setting = ("The store's", "of the store") if uploads else ("This machine's", "here (net.ipv4.tcp_rmem)")
    more = max(2, math.ceil(2 * (case.number("concurrency") or 1)))
    return Verdict(
        "warning",
        f"A window limits each connection ({case.label}). {whose} window of {format_bytes(window)} over a round trip "
        f"of {format_ns(rtt_s * 1e9)} allows {format_bytes_s(window / rtt_s)}. "
        f"Each connection carried {format_bytes_s(rate)}.",
        {"window_bytes": window, "rtt_s": rtt_s, "most_bytes_s": window / rtt_s, "connection_bytes_s": rate,
         **({"receiver_limited_share": waited} if uploads else {})},
        f"Enlarge the receive window {setting}, or use more connections: {case.command(concurrency=more)}",
        weight=full,
    )  # fmt: skip


OF_REQUESTS = Applies(kernels=(OBJECT_REQUESTS,))
RULES = (
    Rule(
        "object_faults", "point", object_faults, replace(OF_REQUESTS, needs=("faults",)), degrades=True,
        instead_of=("faults",),
    ),
    Rule("object_throttled", "curve", object_throttled, replace(OF_REQUESTS, roles=("concurrency", "rate"))),
    Rule(
        "object_keep_alive", "point", object_keep_alive, replace(OF_REQUESTS, needs=("details.connections_made",)),
    ),
    Rule("object_endpoint", "point", object_endpoint, replace(OF_REQUESTS, needs=("details.endpoint_requests",))),
    Rule("object_link", "experiment", object_link, Applies(kernels=(OBJECT_REQUESTS, *LIKE_FILES))),
    Rule(
        "object_repeated", "point", object_repeated,
        Applies(kernels=LIKE_FILES, needs=("details.requests_repeated",)),
    ),
    Rule("object_window", "point", object_window, replace(OF_REQUESTS, needs=("details.window_bytes",))),
)  # fmt: skip
