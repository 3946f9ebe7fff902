"""The network: streams and round trips between two ends."""

from __future__ import annotations

from hwdyno.ceilings import network
from hwdyno.resources.description import Resource

RESOURCE = Resource(
    name="network",
    title="Network",
    rate_word="messages/s",
    derived={"network_throughput": network.of_path},
    limits=("the path between the ends", "a policer or a shaper on it", "the other end's processors"),
    client="by_rule",
    two_ended=True,
    steps_down=("a burst budget that is spent, a policer, or a clock that fell", "both ends' processors"),
    on_faults="Look at both ends' errors and drops (ip -s link, nstat -az) and at the server's own log",
)
