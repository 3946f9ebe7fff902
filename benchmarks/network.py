"""The network beside iperf3 and sockperf over loopback: like with like, each mode by its name, and CPU time a KiB."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

from hwdyno import peers
from hwdyno.peers import PeerReading

from benchmarks import Bench, BenchError, Parameters, Reading, Row, Target, row_of

STREAMS, TRIPS = "network_throughput", "network_latency"
# bbr, the default of some systems, paces and halves a loopback's figures: both get the same control.
TCP: Parameters = {"congestion": "cubic", "direction": "up", "block": 128 << 10}
UDP: Parameters = {"protocol": "udp", "direction": "up", "block": 1460}
# Pages kept in a pipe go fastest by the MiB; iperf3's sendfile is fastest by its own 128 KiB.
NO_COPY: Parameters = {"zero_copy": True, "skip_rx_copy": True, "block": 1 << 20}

Figure = Callable[[Reading], float]


def measure(bench: Bench) -> Iterator[Row]:
    """Every row, as it is measured."""
    if peers.find("iperf3").version() is None:
        raise BenchError("iperf3 is not here: install it (apt-get install iperf3), or name it by HWDYNO_IPERF3")
    equal = Target(at_least=1.0)
    for what, ours, theirs, target in (
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
        pairs = _in_turn(bench, what, {**TCP, **ours}, {**TCP, **theirs})
        yield row_of(what, "bytes/s", [(_goodput(a), b.throughput) for a, b in pairs], target)
        at_most = Target(at_most=1.0) if target is equal else None
        costs = [(float(a["details"]["cpu_ns_per_kib"]), float(b.details["cpu_ns_per_kib"])) for a, b in pairs]
        yield row_of(f"CPU time a KiB, both ends: {what}", "ns", costs, at_most)
    for handing, at_least in (("plain", None), ("batched", 2.0), ("segmented", 8.0)):
        what = f"UDP 1460 B delivered, {handing}"
        pairs = _in_turn(bench, what, {**UDP, "handing": handing}, UDP)
        rates = [(_datagrams(a) / a["elapsed_s"], float(b.details["datagrams_received_s"])) for a, b in pairs]
        yield row_of(what, "datagrams/s", rates, Target(at_least=at_least) if at_least else None)
        costs = [(_cpu_s(a["details"]) / _datagrams(a) * 1e9, _theirs_ns(b)) for a, b in pairs]
        fifth = Target(at_most=0.2) if handing == "segmented" else None
        yield row_of(f"CPU time a delivered datagram, both ends: {handing}", "ns", costs, fifth)
    yield from _round_trips(bench)


def _in_turn(bench: Bench, what: str, ours: Parameters, theirs: Parameters) -> list[tuple[Reading, PeerReading]]:
    bench.says(what)
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


def _round_trips(bench: Bench) -> Iterator[Row]:
    """Whole round trips of 64 B at one in flight, beside sockperf's ping-pong with ``--full-rtt``.

    Where two sleepers wake each other, the scheduler's choice of cores decides (5 or 50 µs on a virtual machine), so
    both tools get one core for that, and both get two where they spin.
    """
    if shutil.which("sockperf") is None:
        bench.says("sockperf is not here, so round trips stand alone")
    for protocol in ("tcp", "udp"):
        for waiting, how in (("sleep", "asleep, on one core"), ("spin", "spinning")):
            what = f"{protocol.upper()} round trips of 64 B, {how}"
            bench.says(what)
            rates, tails, alone = [], [], []
            for _ in range(bench.pairs):
                with _cores(1 if waiting == "sleep" else None):
                    given = {"protocol": protocol, "message": 64, "waiting": waiting, "runtime": bench.runtime_s}
                    reading = bench.run(TRIPS, given)
                    rate, p99 = _rate(reading), _p99(reading)
                    alone.append((rate, p99))
                    if shutil.which("sockperf"):
                        their_rate, their_p99 = _sockperf(protocol, bench.runtime_s, spin=waiting == "spin")
                        rates.append((rate, their_rate))
                        tails.append((p99, their_p99))
            if rates:
                yield row_of(f"{what}, a second", "1/s", rates, Target(at_least=1.0))
                yield row_of(f"p99 of {what}", "ns", tails, Target(at_most=1.0))
            else:
                yield Row(f"{what}, a second", "1/s", sorted(rate for rate, _ in alone)[len(alone) // 2])
                yield Row(f"p99 of {what}", "ns", sorted(tail for _, tail in alone)[len(alone) // 2])


@contextlib.contextmanager
def _cores(count: int | None) -> Iterator[None]:
    """Keeps this thread, and what it starts, on so many of its cores; all of them without a number."""
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, sorted(allowed)[:count])
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _rate(reading: Reading) -> float:
    return float(reading["streams"][0]["operations"]) / float(reading["elapsed_s"])


def _p99(reading: Reading) -> float:
    from hwdyno.statistics import Histogram

    return float(Histogram.from_reading(reading["streams"][0]["latency_ns"]["total"]).quantile(0.99))


def _sockperf(protocol: str, runtime_s: float, *, spin: bool = False) -> tuple[float, float]:
    """Its round trips a second, and their 99th percentile in ns."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    tcp = ["--tcp"] if protocol == "tcp" else []
    where = ["-i", "127.0.0.1", "-p", port, *tcp, *(["--nonblocked"] if spin else [])]
    quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "text": True}
    server = subprocess.Popen(["sockperf", "server", *where], stdout=subprocess.DEVNULL, **quiet)  # type: ignore[call-overload]
    try:
        time.sleep(0.4)
        seconds = str(max(1, round(runtime_s)))
        done = subprocess.run(
            ["sockperf", "ping-pong", *where, "-m", "64", "-t", seconds, "--full-rtt"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        server.kill()
        server.wait()
    valid = re.search(r"Valid Duration\] RunTime=([\d.]+) sec; SentMessages=\d+; ReceivedMessages=(\d+)", done.stdout)
    tail = re.search(r"percentile 99\.000\s*=\s*([\d.]+)", done.stdout)
    if valid is None or tail is None:
        raise BenchError(f"sockperf: {' '.join((done.stderr or done.stdout).split())[:200]}")
    return float(valid[2]) / float(valid[1]), float(tail[1]) * 1e3
