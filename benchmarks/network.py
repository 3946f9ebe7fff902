"""The network against iperf3, sockperf and netperf over loopback, each mode against the same mode."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from statistics import median

from hwdyno.measure import peers
from hwdyno.measure.peers import Peer, PeerReading

from benchmarks import Bench, BenchError, BenchmarkRow, Parameters, Reading, Target, make_row

STREAMS, TRIPS = "network_throughput", "network_latency"
# bbr, the default of some systems, paces and halves loopback throughput: both tools get the same control.
TCP: Parameters = {"congestion": "cubic", "direction": "up", "block": 128 << 10}
UDP: Parameters = {"protocol": "udp", "direction": "up", "block": 1460}
# Pages kept in a pipe go fastest by the MiB; iperf3's sendfile is fastest by its own 128 KiB.
NO_COPY: Parameters = {"zero_copy": True, "skip_rx_copy": True, "block": 1 << 20}


def measure(bench: Bench) -> Iterator[BenchmarkRow]:
    """Yield every row as it is measured."""
    if peers.find("iperf3").version() is None:
        raise BenchError("iperf3 is not here: install it (apt-get install iperf3), or name it by HWDYNO_IPERF3")
    equal = Target(at_least=1.0)
    for label, ours, theirs, target in (
        ("TCP 1 stream, both copies made", {}, {}, equal),
        ("TCP 1 stream, best modes (no copy, 1 MiB | -Z)", NO_COPY, {"zero_copy": True}, equal),
        ("TCP 4 streams, both copies made", {"streams": 4}, {"streams": 4}, Target(at_least=1.5)),
        (
            "TCP 4 streams, best modes (no copy, 1 MiB | -Z)",
            NO_COPY | {"streams": 4},
            {"zero_copy": True, "streams": 4},
            None,
        ),
    ):
        pairs = _in_turn(bench, label, {**TCP, **ours}, {**TCP, **theirs})
        yield make_row(label, "bytes/s", [(_goodput(a), b.throughput) for a, b in pairs], target)
        at_most = Target(at_most=1.0) if target is equal else None
        costs = [(float(a["details"]["cpu_ns_per_kib"]), float(b.details["cpu_ns_per_kib"])) for a, b in pairs]
        yield make_row(f"CPU time a KiB, both ends: {label}", "ns", costs, at_most)
    for handing, at_least in (("plain", 1.0), ("batched", 2.0), ("segmented", 8.0)):
        title = f"UDP 1460 B delivered, {handing}"
        pairs = _in_turn(bench, title, {**UDP, "handing": handing}, UDP)
        rates = [(_datagrams(a) / a["elapsed_s"], float(b.details["datagrams_received_s"])) for a, b in pairs]
        yield make_row(title, "datagrams/s", rates, Target(at_least=at_least))
        costs = [(_cpu_s(a["details"]) / _datagrams(a) * 1e9, _theirs_ns(b)) for a, b in pairs]
        cost = {"plain": Target(at_most=1.0), "segmented": Target(at_most=0.2)}.get(handing)
        yield make_row(f"CPU time a delivered datagram, both ends: {handing}", "ns", costs, cost)
    yield from _round_trips(bench)


def _in_turn(bench: Bench, title: str, ours: Parameters, theirs: Parameters) -> list[tuple[Reading, PeerReading]]:
    bench.says(title)
    peer, length = peers.find("iperf3"), {"runtime": bench.runtime_s}
    return [bench.pair(peer, STREAMS, length | ours, length | theirs) for _ in range(bench.pairs)]


def _goodput(reading: Reading) -> float:
    return float(sum(stream["bytes"] for stream in reading["streams"])) / float(reading["elapsed_s"])


def _datagrams(reading: Reading) -> float:
    return float(max(1, reading["details"]["datagrams_received"]))


def _cpu_s(details: Parameters) -> float:
    return float(details["cpu_here_s"]) + float(details["cpu_there_s"])


def _theirs_ns(theirs: PeerReading) -> float:
    delivered = float(theirs.details["datagrams_received_s"]) * float(theirs.details["elapsed_s"])
    return _cpu_s(dict(theirs.details)) / max(1.0, delivered) * 1e9


def _round_trips(bench: Bench) -> Iterator[BenchmarkRow]:
    """Full round trips of 64 B at one in flight, against sockperf's ping-pong and netperf's request/response.

    With blocking waits the scheduler's choice of cores decides (5 or 50 µs on a virtual machine), so all tools get
    one core for those, and two for polling.
    """
    here = [peer for peer in map(peers.find, ("sockperf", "netperf")) if peer.version()]
    if not here:
        bench.says("neither sockperf nor netperf is here, so round trips stand alone")
    for protocol in ("tcp", "udp"):
        for waiting, how in (("sleep", "asleep, on one core"), ("spin", "spinning")):
            title = f"{protocol.upper()} round trips of 64 B, {how}"
            bench.says(title)
            given = {"protocol": protocol, "message": 64, "waiting": waiting, "runtime": bench.runtime_s}
            able = [peer for peer in here if peer.unsupported_reason(TRIPS, given) is None]
            with _cores(1 if waiting == "sleep" else None):
                turns = [(bench.run(TRIPS, given), _theirs(able, given)) for _ in range(bench.pairs)]
            for peer in able:
                pairs = [(ours, theirs[peer.name]) for ours, theirs in turns]
                rates = [(_rate(ours), theirs.throughput) for ours, theirs in pairs]
                yield make_row(f"{title}, a second ({peer.name})", "1/s", rates, Target(at_least=1.0))
                tails = [(_p99(ours), float(theirs.details["p99_ns"])) for ours, theirs in pairs]
                # netperf's buckets are too wide to compare a tail.
                bound = Target(at_most=1.0) if peer.name == "sockperf" else None
                yield make_row(f"p99 of {title} ({peer.name})", "ns", tails, bound)
            if not able:
                yield BenchmarkRow(f"{title}, a second", "1/s", median([_rate(ours) for ours, _ in turns]))
                yield BenchmarkRow(f"p99 of {title}", "ns", median([_p99(ours) for ours, _ in turns]))


def _theirs(able: list[Peer], given: Parameters) -> dict[str, PeerReading]:
    """Each peer's result, one after another."""
    try:
        return {peer.name: peer.run(TRIPS, given) for peer in able}
    except OSError as error:
        raise BenchError(str(error)) from None


@contextlib.contextmanager
def _cores(count: int | None) -> Iterator[None]:
    """Restrict this thread and its children to ``count`` of its cores, or to all of them."""
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, sorted(allowed)[:count])
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _rate(reading: Reading) -> float:
    return float(reading["streams"][0]["operations"]) / float(reading["elapsed_s"])


def _p99(reading: Reading) -> float:
    from hwdyno.model.histogram import Histogram

    return float(Histogram.from_reading(reading["streams"][0]["latency_ns"]["total"]).quantile(0.99))
