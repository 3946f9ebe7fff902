"""Questions about the network: streams, blocks, datagrams, round trips idle and under load, echoes, connections."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from hwdyno.measure.experiments.experiment import Experiment
from hwdyno.measure.experiments.site_values import HALF, PAIRS, SHIFTS
from hwdyno.measure.sweep import Sweep, powers
from hwdyno.model.kernels import NETWORK_LATENCY, NETWORK_PING, NETWORK_THROUGHPUT
from hwdyno.model.words import Declaration, Parameters

_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
# A reading waits for its connections, and for the other end's results.
_SET_UP_S = 0.15


def _nonsense(_: Declaration, point: Parameters) -> str | None:
    """The error of parameters that contradict each other; none for a valid point."""
    udp = point.get("protocol") == "udp"
    block = point.get("block")
    if udp and isinstance(block, int) and not (block == 0 or 16 <= block <= 65507):
        return f"a datagram cannot have {block} bytes; use --block 16 to 65507, such as 1460"
    if udp and (point.get("zero_copy") or point.get("skip_rx_copy")):
        return "zero_copy and skip_rx_copy are for TCP; use --handing segmented for UDP"
    if not udp and point.get("search"):
        return "the search for the highest rate without loss needs UDP; add --protocol udp"
    if point.get("exchange") == "connect" and point.get("waiting") == "spin":
        return "spinning needs one connection for all messages; use --exchange echo"
    if point.get("exchange") == "connect" and (udp or point.get("in_flight", 1) != 1):
        return "one connection per exchange needs TCP, one at a time; use --protocol tcp --in-flight 1"
    return None


def _controls() -> tuple[str, ...]:
    """The congestion controls that this kernel has loaded: those that people choose between come first."""
    try:
        known = _CONTROLS.read_text().split()
    except OSError:
        known = []
    return tuple(sorted(known, key=lambda name: ({"cubic": 0, "bbr": 1}.get(name, 2), name))) or ("cubic",)


_throughput = partial(Experiment, kernel=NETWORK_THROUGHPUT, peers=("iperf3",), setup_s=_SET_UP_S, check=_nonsense)
_round_trips = partial(
    Experiment, kernel=NETWORK_LATENCY, peers=("sockperf", "netperf"), setup_s=_SET_UP_S, check=_nonsense
)

STREAMS = _throughput(
    name="network.streams",
    asks="TCP throughput by streams and direction",
    load="streams",
    sweep=Sweep(protocol="tcp", direction=("up", "down", "both"), streams=powers(1, 64)),
    quick=Sweep(protocol="tcp", direction="up", streams=powers(1, 4)),
    base=Sweep(protocol="tcp", direction="up", streams=1),
)

BLOCK = _throughput(
    name="network.block",
    asks="Network throughput by block size",
    load="block",
    sweep=Sweep(protocol="tcp", direction="up", streams=1, block=powers(64, 1 << 20)),
    default=False,
)

COPIES = _throughput(
    name="network.copies",
    asks="Cost of the sender's and receiver's copy",
    load="streams",
    sweep=Sweep(protocol="tcp", direction="up", streams=(1, 2, 4), zero_copy=(False, True), skip_rx_copy=(False, True)),
    default=False,
)

CONGESTION = _throughput(
    name="network.congestion",
    asks="Throughput by congestion control",
    load="streams",
    sweep=Sweep(protocol="tcp", direction="up", congestion=_controls(), streams=(1, 4)),
    default=False,
)

UDP = _throughput(
    name="network.udp",
    asks="UDP throughput and loss by offered rate",
    load="rate",
    sweep=Sweep(protocol="udp", direction="up", streams=1, block=1460, rate=powers(10_000_000, 10_000_000_000)),
    default=False,
)

LOSSLESS = _throughput(
    name="network.lossless",
    asks="Highest UDP rate without loss",
    load="streams",
    sweep=Sweep(
        protocol="udp", direction="up", streams=1, block=1460, handing=("plain", "batched", "segmented"), search=True
    ),
    quick=Sweep(protocol="udp", direction="up", streams=1, block=1460, handing="batched", search=True),
    peers=(),
    setup_s=3.0,
    default=False,
)

LATENCY = _round_trips(
    name="network.latency",
    asks="Round trip by message size and messages in flight",
    load="in_flight",
    sweep=Sweep(protocol=("tcp", "udp"), message=(64, 1024, 8192, 65507), in_flight=1)
    + Sweep(protocol=("tcp", "udp"), message=64, in_flight=powers(2, 64)),
    quick=Sweep(protocol=("tcp", "udp"), message=64, in_flight=1),
    base=Sweep(protocol="tcp", message=64, in_flight=1),
)

WAITING = _round_trips(
    name="network.waiting",
    asks="Round trip: sleeping or spinning receiver",
    load="message",
    sweep=Sweep(protocol=("tcp", "udp"), waiting=("sleep", "spin"), message=(64, 1024, 8192), in_flight=1),
    default=False,
)

PING = Experiment(
    name="network.ping",
    asks="ICMP echo round trip (ping)",
    kernel=NETWORK_PING,
    load="message",
    sweep=Sweep(message=(56, 1024, 8192, 64_000), in_flight=1),
    peers=("ping",),
    setup_s=0.02,
    by_name=True,
    default=False,
)

CONNECTIONS = _round_trips(
    name="network.connections",
    asks="TCP connections per second",
    load="in_flight",
    sweep=Sweep(protocol="tcp", exchange="connect", message=64, in_flight=1),
    default=False,
)

LOADED = _round_trips(
    name="network.loaded_latency",
    asks="Round trip under load",
    load="load_streams",
    sweep=Sweep(protocol="tcp", message=64, direction=("up", "down", "both"), load_streams=(1, 2, 4, 8)),
    quick=Sweep(protocol="tcp", message=64, direction="both", load_streams=1),
    peers=(),
    setup_s=2 * _SET_UP_S,
)

PAIRS_OF_RANKS = _throughput(
    name="network.pairs",
    asks="Throughput between each two hosts",
    load="streams",
    sweep=Sweep(protocol="tcp", direction="up", streams=1, between=PAIRS),
    peers=(),
    min_clients=2,
    between=True,
)

ROUND_TRIPS_OF_RANKS = _round_trips(
    name="network.pairs_latency",
    asks="Round trip between each two hosts",
    load="in_flight",
    sweep=Sweep(protocol="tcp", message=64, in_flight=1, between=PAIRS),
    peers=(),
    min_clients=2,
    between=True,
)

BISECTION = _throughput(
    name="network.bisection",
    asks="Bisection: each host to the one half of them on",
    load="streams",
    sweep=Sweep(protocol="tcp", direction="up", streams=(1, 4), between=HALF),
    quick=Sweep(protocol="tcp", direction="up", streams=1, between=HALF),
    peers=(),
    min_clients=2,
    between=True,
)

ALL_TO_ALL = _throughput(
    name="network.all_to_all",
    asks="All to all, shift by shift",
    load="streams",
    sweep=Sweep(protocol="tcp", direction="up", streams=1, between=SHIFTS),
    peers=(),
    min_clients=3,
    between=True,
)
