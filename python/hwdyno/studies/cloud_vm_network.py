"""The network part of the cloud VM study: 64 KiB x 65536 each way, by threads, on one node and between two."""

from __future__ import annotations

import math

from hwdyno.model.histogram import Histogram
from hwdyno.model.kernels import NETWORK_LATENCY, NETWORK_PING, NETWORK_THROUGHPUT
from hwdyno.model.units import as_number, format_ns, format_percent, format_quantity, format_ratio, format_size, plural
from hwdyno.model.words import Ceiling, ExperimentResult, Latency, Measurement, PeerResult, Run
from hwdyno.studies.point_figures import NONE, experiment, number, sound, whole
from hwdyno.studies.published_rows import read_published
from hwdyno.studies.study import Question, StudyTable

TCP, UDP, TRIPS, PING = "network.tcp", "network.udp", "network.round_trip", "network.echo"
COUNTED = "network.count"
TWO_NODES = "_two_nodes"
"""Suffix of a question's name if the server is on another node."""
STUDY = "cloud-vm-suite"
THREADS = (1, 2, 4, 8)
BLOCK_BYTES = 64 << 10
DATAGRAM_BYTES = 65_507
"""The largest UDP payload below 64 KiB."""
PING_BYTES = 64_000
BLOCKS = 65_536
"""Blocks that the study moved each way: 4.3 GB."""
BLOCKS_IN_BRIEF = 8_192
RULES = (
    "network_no_link",
    "network_virtual_link",
    "network_link",
    "network_ends_bound",
    "network_loss",
    "network_datagram_loss",
)
_NODES = (("", "one node", "loopback"), (TWO_NODES, "two nodes", "two nodes"))

QUESTIONS = (
    Question(
        name=TCP,
        asks="TCP throughput both ways by streams",
        kernel=NETWORK_THROUGHPUT,
        load="streams",
        blocks=({"protocol": "tcp", "direction": "both", "block": BLOCK_BYTES, "streams": THREADS},),
        runtime_s=10.0,
    ),
    Question(
        name=UDP,
        asks="UDP delivery at full rate by streams",
        kernel=NETWORK_THROUGHPUT,
        load="streams",
        blocks=({"protocol": "udp", "direction": "both", "block": DATAGRAM_BYTES, "streams": THREADS},),
        runtime_s=10.0,
    ),
    Question(
        name=COUNTED,
        asks="Time of a fixed number of 64 KiB blocks both ways",
        kernel=NETWORK_THROUGHPUT,
        load="streams",
        blocks=(
            {"protocol": "tcp", "direction": "both", "block": BLOCK_BYTES, "blocks": BLOCKS, "streams": THREADS},
            {"protocol": "udp", "direction": "both", "block": DATAGRAM_BYTES, "blocks": BLOCKS, "streams": THREADS},
        ),
        brief={"blocks": (BLOCKS_IN_BRIEF,), "streams": (1, 8)},
        runtime_s=10.0,
    ),
    Question(
        name=TRIPS,
        asks="Round trip of 64 KiB by messages in flight",
        kernel=NETWORK_LATENCY,
        load="in_flight",
        blocks=(
            {"protocol": "tcp", "message": BLOCK_BYTES, "in_flight": THREADS},
            {"protocol": "udp", "message": DATAGRAM_BYTES, "in_flight": THREADS},
        ),
        runtime_s=10.0,
    ),
    Question(
        name=PING,
        asks="ICMP echo of 64000 B beside ping",
        kernel=NETWORK_PING,
        load="message",
        blocks=({"message": PING_BYTES, "in_flight": 1},),
        runtime_s=10.0,
    ),
)


def tables(run: Run) -> list[StudyTable]:
    """Throughput and latency by threads, in separate tables for one node and for two."""
    made = []
    for suffix, where, path in _NODES:
        rows = [*_rows(experiment(run, TCP + suffix), "TCP"), *_rows(experiment(run, UDP + suffix), "UDP")]
        if rows:
            heads = ("Gbit/s", *(plural(count, "thread") for count in THREADS))
            made.append(StudyTable(f"Network, {where}: throughput, both directions, by threads", heads, tuple(rows)))
        if counted := experiment(run, COUNTED + suffix):
            made.append(_compare_counts(run, counted, suffix, where))
        if trips := experiment(run, TRIPS + suffix):
            made.append(_trips(trips, where, _theory_of_a_trip(run, suffix)))
        if echoes := experiment(run, PING + suffix):
            made.append(_echoes(echoes, where))
        if rows:
            made.append(_published_best(run, suffix, where, path))
    return made


def _points(result: ExperimentResult, axis: str, protocol: str = "") -> dict[int, tuple[int, Measurement]]:
    """Index and Measurement of each point, by the value of an axis."""
    return {
        number(whole(result, point), axis): (at, point)
        for at, point in enumerate(result.points)
        if not protocol or whole(result, point).get("protocol") == protocol
    }


def _gbit_s(bytes_s: float) -> str:
    return f"{bytes_s * 8e-9:.2f}" if bytes_s < 1.25e9 else f"{bytes_s * 8e-9:.1f}"


def _detail(details: object, name: str) -> float | None:
    return as_number(details.get(name)) if isinstance(details, dict) else None


def _rows(result: ExperimentResult | None, protocol: str) -> list[tuple[str, ...]]:
    if result is None:
        return []
    points = _points(result, "streams")
    peers = {peer.point: peer for peer in result.peers if peer.tool == "iperf3"}
    ours = [points.get(count) for count in THREADS]
    theirs = [peers.get(found[0]) if found else None for found in ours]
    rows = [(protocol, *(_gbit_s(found[1].throughput.value) if found else NONE for found in ours))]
    if any(theirs):
        rows.append((f"{protocol}, iperf3", *(_gbit_s(peer.value.value) if peer else NONE for peer in theirs)))
    if protocol == "UDP":
        losses = [_detail(found[1].details, "loss_share") if found else None for found in ours]
        rows.append(("UDP lost", *(_share(loss) for loss in losses)))
        rows.append(("UDP jitter", *(_jitter(found[1].details if found else None) for found in ours)))
        if any(theirs):
            rows.append(("UDP lost, iperf3", *(_share(_of_peer(peer, "loss_share")) for peer in theirs)))
            rows.append(("UDP jitter, iperf3", *(_jitter(dict(peer.details) if peer else None) for peer in theirs)))
    costs = [_detail(found[1].details, "cpu_ns_per_kib") if found else None for found in ours]
    rows.append((f"{protocol}, CPU ns a KiB", *(NONE if cost is None else f"{cost:.0f}" for cost in costs)))
    return rows


def _of_peer(peer: PeerResult | None, name: str) -> float | None:
    return _detail(dict(peer.details), name) if peer else None


def _share(share: float | None) -> str:
    return NONE if share is None else format_percent(share, precise=True)


def _jitter(details: object) -> str:
    value = _detail(details, "jitter_us")
    return NONE if value is None else format_ns(1e3 * value)


def _compare_counts(run: Run, counted: ExperimentResult, suffix: str, where: str) -> StudyTable:
    """The fixed count beside the timed runs of as many streams."""
    rows = []
    for protocol, name in (("tcp", TCP), ("udp", UDP)):
        timed = experiment(run, name + suffix)
        timed_by_streams = _points(timed, "streams") if timed else {}
        for streams, (_, point) in sorted(_points(counted, "streams", protocol).items()):
            blocks = number(whole(counted, point), "blocks", 0)
            other = timed_by_streams.get(streams)
            sent = f"{blocks} x {format_size(number(whole(counted, point), 'block'))} x 2"
            once_s = point.elapsed_s / max(1, point.repeats)
            cells = (
                f"{once_s:.2f}",
                _gbit_s(point.throughput.value),
                _gbit_s(other[1].throughput.value) if other else NONE,
            )
            rows.append((protocol.upper(), str(streams), sent, *cells))
    heads = ("", "threads", "blocks", "time, s", "Gbit/s by count", "Gbit/s, timed")
    return StudyTable(f"Network, {where}: a fixed count of blocks beside the timed runs", heads, tuple(rows))


def _theory_of_a_trip(run: Run, suffix: str) -> str:
    """The least time of a round trip of 64 KiB each way, with its formula; why there is none where it is unknown.

    Serialization both ways, at the link's speed, or of a loopback at that of its two copies; and what the shortest ICMP
    echo leaves beside its own: the link's length, the devices on it and the kernels at both ends.
    """
    found = _serialization(experiment(run, TCP + suffix), is_loopback=not suffix)
    if found is None:
        return "unknown: no link's speed is known" if suffix else "unknown: the speed of a copy is not known"
    bytes_s, words = found
    serialized_ns = 2 * BLOCK_BYTES / bytes_s * 1e9
    echoes = experiment(run, PING + suffix)
    timed = [point.latency_ns for point in echoes.points] if echoes else []
    known = [latency.min for latency in timed if latency is not None and latency.min]
    rest_ns = min(known, default=0.0) - 2 * PING_BYTES / bytes_s * 1e9
    path = "link and stack" if suffix else "stack"
    if rest_ns <= 0:
        return f"{format_ns(serialized_ns)} or more = {words} + unknown {path}"
    total = format_ns(serialized_ns + rest_ns)
    return f"{total} = {words} + {format_ns(rest_ns)} of {path} (the shortest ICMP echo's)"


def _serialization(timed: ExperimentResult | None, *, is_loopback: bool) -> tuple[float, str] | None:
    """The rate at which one message passes, bytes/s, and in words how long one each way takes."""
    each_way = f"2 x {format_size(BLOCK_BYTES)}"
    if timed is None:
        return None
    if is_loopback:
        copies = [copy for point in timed.points if (copy := _detail(point.details, "copy_bytes_s"))]
        copy = max(copies, default=0.0)
        return (copy / 2, f"{each_way} x 2 copies / {format_quantity(copy, 'bytes/s')}") if copy else None
    # The timed runs' ceiling is of both directions together; a message has one.
    wires = [bound.value / 2 for bound in timed.ceilings if bound.metric.startswith("wire/tcp/both")]
    return (wires[0], f"{each_way} / {format_quantity(wires[0], 'bytes/s')}") if wires else None


def _trips(result: ExperimentResult, where: str, theory: str) -> StudyTable:
    rows = []
    for protocol in ("tcp", "udp"):
        points = _points(result, "in_flight", protocol)
        for word in ("mean", "p50", "p99"):
            found = [points[count][1].latency_ns if count in points else None for count in THREADS]
            row = [NONE if latency is None else format_ns(getattr(latency, word)) for latency in found]
            rows.append((f"{protocol.upper()} {word}", *row))
    rows.append(("theory of one", theory, *(NONE for _ in THREADS[1:])))
    heads = ("", *(f"{count} in flight" for count in THREADS))
    return StudyTable(f"Network, {where}: round trip of 64 KiB each way", heads, tuple(rows))


def _echoes(result: ExperimentResult, where: str) -> StudyTable:
    rows = []
    for at, point in enumerate(result.points):
        latency = point.latency_ns
        if latency is None:
            continue
        ours = (latency.min, latency.mean, latency.p50, latency.p99, latency.max)
        deviation = _deviation_ns(latency)
        lost = _detail(point.details, "loss_share")
        rows.append(("hwdyno", *map(_time, ours), _time(deviation), _share(lost)))
        for peer in (peer for peer in result.peers if peer.point == at and peer.latency_ns_mean):
            least, longest, deviation = (_of_peer(peer, f"rtt_{word}_ns") for word in ("min", "max", "mdev"))
            sent, missing = _of_peer(peer, "echoes_sent"), _of_peer(peer, "echoes_lost")
            lost = None if missing is None or not sent else missing / sent
            known = (_time(least), _time(peer.latency_ns_mean), NONE, NONE, _time(longest), _time(deviation))
            rows.append((peer.tool, *known, _share(lost)))
    heads = ("", "min", "mean", "p50", "p99", "max", "mdev", "lost")
    return StudyTable(f"Network, {where}: ICMP echo of {PING_BYTES} B", heads, tuple(rows))


def _time(ns: float | None) -> str:
    return NONE if ns is None else format_ns(ns)


def _deviation_ns(latency: Latency) -> float | None:
    """The standard deviation of all round trips, as ping's mdev; none where only a summary is known."""
    if not latency.histogram:
        return None
    return math.sqrt(Histogram.unpack(latency.histogram).moment(2))


def _published_best(run: Run, suffix: str, where: str, path: str) -> StudyTable:
    """The study's iperf3 results and this Run's best."""
    rows = []
    for row in read_published("network-iperf3", STUDY):
        result = experiment(run, (TCP if row["protocol"] == "tcp" else UDP) + suffix)
        if row["path"] != path or result is None or not sound(result.points):
            continue
        best = max(sound(result.points), key=lambda point: point.throughput.value)
        loss = _share(_detail(best.details, "loss_share"))
        lost = f"{row['lost_percent']}%" if row["lost_percent"] else NONE
        rows.append((row["protocol"].upper(), row["gbit_s"] or NONE, lost, _gbit_s(best.throughput.value), loss))
    heads = ("", "study's Gbit/s", "study's loss", "Gbit/s here", "loss here")
    return StudyTable(f"Network, {where}: compared with the study's iperf3", heads, tuple(rows))


def observations(run: Run) -> list[str]:
    """The optimal number of threads of each protocol, and its throughput relative to theory."""
    sentences = []
    for suffix, where, _ in _NODES:
        for name, protocol in ((TCP, "TCP"), (UDP, "UDP")):
            result = experiment(run, name + suffix)
            points = sound(result.points) if result else []
            if result is None or not points:
                continue
            most = max(points, key=lambda point: point.throughput.value)
            near = [point for point in points if point.throughput.value >= 0.9 * most.throughput.value]
            best = min(near, key=lambda point: number(whole(result, point), "streams"))
            count = number(whole(result, best), "streams")
            sentences.append(
                f"Network, {where}, {protocol}: best concurrency {plural(count, 'thread')}, the fewest within 10% of "
                f"the maximum: {format_quantity(best.throughput)}{_theory(result, best)}."
            )
        sentences += _protocols(run, suffix, where)
    if not any(experiment(run, question.name + TWO_NODES) for question in QUESTIONS):
        sentences.append(
            "Network: two nodes were not measured. Start `hwdyno network server --bind ADDR` on the second node and "
            "add --server ADDR here, or run as root to use two network namespaces."
        )
    return sentences


def _protocols(run: Run, suffix: str, where: str) -> list[str]:
    """A sentence on TCP against UDP, and the number of messages in flight with the shortest round trip."""
    tcp, udp, trips = (experiment(run, name + suffix) for name in (TCP, UDP, TRIPS))
    best = [
        max(sound(result.points), key=lambda p: p.throughput.value)
        for result in (tcp, udp)
        if result and sound(result.points)
    ]
    sentences = []
    shortest = {
        protocol: min(found, key=lambda candidate: candidate[1])
        for protocol in ("tcp", "udp")
        if trips
        and (
            found := [
                (count, point.latency_ns.mean)
                for count, (_, point) in _points(trips, "in_flight", protocol).items()
                if point.latency_ns is not None
            ]
        )
    }
    if len(best) == 2:
        lost = _share(_detail(best[1].details, "loss_share"))
        faster = best[1].throughput.value / best[0].throughput.value
        waits = ""
        if len(shortest) == 2:
            ratio = shortest["udp"][1] / shortest["tcp"][1]
            waits = f" Its shortest round trip takes {format_ratio(ratio)} times TCP's."
        sentences.append(
            f"Network, {where}: UDP delivers {format_ratio(faster)} times TCP's throughput "
            f"({format_quantity(best[1].throughput)} against {format_quantity(best[0].throughput)}), and loses "
            f"{lost} of its datagrams.{waits}"
        )
    sentences += [
        f"Network, {where}, {protocol.upper()}: best concurrency for latency {count} in flight, {format_ns(ns)} a "
        "round trip."
        for protocol, (count, ns) in shortest.items()
    ]
    return sentences


def _theory(result: ExperimentResult, point: Measurement) -> str:
    # A path's ceilings depend on the number of streams; the lowest one above the point applies.
    bounds = [ceiling for ceiling in result.ceilings if ceiling.unit == "bytes/s" and _is_for(ceiling, result, point)]
    if not bounds:
        return ", and the link's speed is unknown"
    bound = min(bounds, key=lambda ceiling: ceiling.value)
    return f", {format_percent(point.throughput.value / bound.value, precise=True)} of theory ({bound.formula})"


def _is_for(ceiling: Ceiling, result: ExperimentResult, point: Measurement) -> bool:
    kind, _, key = ceiling.metric.partition("/")
    parameters = whole(result, point)
    if kind == "copies":
        return f"/{number(parameters, 'streams')}/" in f"/{key}/"
    return kind == "wire"
