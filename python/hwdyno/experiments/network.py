"""Questions about the network: streams, blocks, datagrams, round trips idle and under load, echoes, connections."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from hwdyno.experiments import Experiment
from hwdyno.sweep import Sweep, powers
from hwdyno.words import Declaration, Parameters

_STREAMS = "network_throughput"
_TRIPS = "network_latency"
_PING = "network_ping"
_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
# A reading waits for its connections, and for the other end's results.
_SET_UP_S = 0.15


def _nonsense(_: Declaration, point: Parameters) -> str | None:
    """The error of parameters that contradict each other; none for a valid point."""
    udp = point.get("protocol") == "udp"
    block = point.get("block")
    if udp and isinstance(block, int) and not (block == 0 or 16 <= block <= 65507):
        return f"a datagram of {block} bytes cannot be; take --block 16 to 65507, such as 1460"
    if udp and (point.get("zero_copy") or point.get("skip_rx_copy")):
        return "zero_copy and skip_rx_copy are TCP's; take --handing segmented for UDP"
    if not udp and point.get("search"):
        return "a highest rate without loss is UDP's to find; add --protocol udp"
    if point.get("exchange") == "connect" and point.get("waiting") == "spin":
        return "spinning is for messages of one connection; take --exchange echo"
    if point.get("exchange") == "connect" and (udp or point.get("in_flight", 1) != 1):
        return "a connection for each exchange is TCP's, one at a time; take --protocol tcp --in-flight 1"
    return None


def _controls() -> tuple[str, ...]:
    """The congestion controls that this kernel has loaded: those that people choose between come first."""
    try:
        known = _CONTROLS.read_text().split()
    except OSError:
        known = []
    return tuple(sorted(known, key=lambda name: ({"cubic": 0, "bbr": 1}.get(name, 2), name))) or ("cubic",)


_throughput = partial(Experiment, kernel=_STREAMS, peers=("iperf3",), setup_s=_SET_UP_S, check=_nonsense)
_round_trips = partial(Experiment, kernel=_TRIPS, peers=("sockperf", "netperf"), setup_s=_SET_UP_S, check=_nonsense)

STREAMS = _throughput(
    name="network.streams",
    asks="How many streams does this path take to be full, each way and both at once?",
    load="streams",
    sweep=Sweep(protocol="tcp", direction=("up", "down", "both"), streams=powers(1, 64)),
    quick=Sweep(protocol="tcp", direction="up", streams=powers(1, 4)),
    base=Sweep(protocol="tcp", direction="up", streams=1),
)

BLOCK = _throughput(
    name="network.block",
    asks="Which block size does this path want?",
    load="block",
    sweep=Sweep(protocol="tcp", direction="up", streams=1, block=powers(64, 1 << 20)),
    default=False,
)

COPIES = _throughput(
    name="network.copies",
    asks="What do the sender's and the receiver's copy cost?",
    load="streams",
    sweep=Sweep(protocol="tcp", direction="up", streams=(1, 2, 4), zero_copy=(False, True), skip_rx_copy=(False, True)),
    default=False,
)

CONGESTION = _throughput(
    name="network.congestion",
    asks="Which congestion control does this path want?",
    load="streams",
    sweep=Sweep(protocol="tcp", direction="up", congestion=_controls(), streams=(1, 4)),
    default=False,
)

UDP = _throughput(
    name="network.udp",
    asks="How many datagrams a second arrive, and how many are lost, as the offered rate rises?",
    load="rate",
    sweep=Sweep(protocol="udp", direction="up", streams=1, block=1460, rate=powers(10_000_000, 10_000_000_000)),
    default=False,
)

LOSSLESS = _throughput(
    name="network.lossless",
    asks="What is the highest rate at which no datagram is lost?",
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
    asks="How long is a round trip, by the size of the message and how many are under way?",
    load="in_flight",
    sweep=Sweep(protocol=("tcp", "udp"), message=(64, 1024, 8192, 65507), in_flight=1)
    + Sweep(protocol=("tcp", "udp"), message=64, in_flight=powers(2, 64)),
    quick=Sweep(protocol=("tcp", "udp"), message=64, in_flight=1),
    base=Sweep(protocol="tcp", message=64, in_flight=1),
)

WAITING = _round_trips(
    name="network.waiting",
    asks="What does it cost a round trip to wake a sleeper?",
    load="message",
    sweep=Sweep(protocol=("tcp", "udp"), waiting=("sleep", "spin"), message=(64, 1024, 8192), in_flight=1),
    default=False,
)

PING = Experiment(
    name="network.ping",
    asks="How long is an echo between the two kernels, with no program at the other end?",
    kernel=_PING,
    load="message",
    sweep=Sweep(message=(56, 1024, 8192, 64_000), in_flight=1),
    peers=("ping",),
    setup_s=0.02,
    by_name=True,
    default=False,
)

CONNECTIONS = _round_trips(
    name="network.connections",
    asks="How many connections a second can be opened, used once and closed?",
    load="in_flight",
    sweep=Sweep(protocol="tcp", exchange="connect", message=64, in_flight=1),
    default=False,
)

LOADED = _round_trips(
    name="network.loaded_latency",
    asks="What becomes of a round trip while streams fill the path, up, down and both?",
    load="load_streams",
    sweep=Sweep(protocol="tcp", message=64, direction=("up", "down", "both"), load_streams=(1, 2, 4, 8)),
    quick=Sweep(protocol="tcp", message=64, direction="both", load_streams=1),
    peers=(),
    setup_s=2 * _SET_UP_S,
)
