"""Shared by the tools that measure round trips with a program at each end: the points that they support."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwdyno.measure.peers import network
from hwdyno.model.kernels import NETWORK_LATENCY

LATENCY = NETWORK_LATENCY


class RoundTrips(network.NetworkPeer):
    """A tool for round trips; it only runs over loopback, because a remote end would need the tool's server."""

    kernels = frozenset({LATENCY})

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why such a tool cannot measure this point; none if it can."""
        if kernel not in self.kernels:
            return f"{self.name} cannot measure {kernel}"
        if parameters.get("server"):
            return f"{self.name} needs its own server at the other end; it runs over loopback only"
        if int(parameters.get("load_streams") or 0):
            return f"{self.name} cannot load the path meanwhile"
        if int(parameters.get("in_flight") or 1) != 1:
            return f"{self.name} keeps one message in flight"
        return None


def message_bytes(parameters: Mapping[str, Any]) -> int:
    """Message size, bytes each way."""
    return int(parameters.get("message") or 64)


def is_udp(parameters: Mapping[str, Any]) -> bool:
    """Whether the round trips use UDP."""
    return parameters.get("protocol") == "udp"
