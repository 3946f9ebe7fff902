"""The network: streams and round trips between two ends."""

from __future__ import annotations

from hwdyno.analysis.ceilings import network
from hwdyno.analysis.resources.description import HeadlineFigure, Resource
from hwdyno.model.kernels import NETWORK_LATENCY, NETWORK_PING, NETWORK_THROUGHPUT


def _throughput(title: str, direction: str, typical: str = "") -> HeadlineFigure:
    return HeadlineFigure(
        title=title,
        unit="bytes/s",
        kernels=(NETWORK_THROUGHPUT,),
        where={"protocol": "tcp", "direction": direction},
        prefer={"streams": 1},
        typical=typical,
    )


RESOURCE = Resource(
    name="network",
    title="Network",
    rate_word="messages/s",
    figures=(
        _throughput("TCP {path}, {streams}", "up", "tcp_loopback_bytes_s"),
        _throughput("TCP {path}, {streams}, received", "down"),
        _throughput("TCP {path}, {streams} each way", "both"),
        HeadlineFigure(
            title="round trip, {path}",
            unit="ns",
            kernels=(NETWORK_LATENCY,),
            where={"protocol": "tcp", "in_flight": 1},
            not_in=("network.loaded_latency",),
            prefer={"message": 64},
        ),
    ),
    derived={NETWORK_THROUGHPUT: network.of_path},
    limits=("the path between the ends", "a policer or shaper on it", "the other end's processors"),
    client="by_rule",
    latency_kernels=(NETWORK_LATENCY, NETWORK_PING),
    two_ended=True,
    steps_down=("a spent burst budget, a policer, or a lower clock", "both ends' processors"),
    on_faults="Check errors and drops at both ends (ip -s link, nstat -az) and the server's log",
    knee="streams",
    survey_parts=("nics",),
)
