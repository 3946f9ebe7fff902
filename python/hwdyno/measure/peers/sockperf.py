"""Runs sockperf's ping-pong on one of our points: full round trips over loopback, blocking or polling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwdyno.formats.sockperf import exchange
from hwdyno.measure.peers import network
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.measure.peers.round_trips import RoundTrips, is_udp, message_bytes
from hwdyno.model.words import UserError
from hwdyno.system import loopback

MIN_MESSAGE = 14
"""Size of sockperf's header, the smallest message."""
_PERCENTILES = {"p50_ns": "lat_p50", "p90_ns": "lat_p90", "p99_ns": "lat_p99", "p99_9_ns": "lat_p999"}


class Sockperf(RoundTrips):
    """sockperf, on the path or named by ``HWDYNO_SOCKPERF``; it measures full round trips, not half ones."""

    name = "sockperf"
    asks_version = ("--version", r"version ([\d.]+)")

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why sockperf cannot measure this point; none if it can."""
        if why := super().unsupported_reason(kernel, parameters):
            return why
        if parameters.get("exchange") == "connect":
            return "sockperf cannot open a connection per exchange"
        if message_bytes(parameters) < MIN_MESSAGE:
            return f"sockperf's messages have at least {MIN_MESSAGE} bytes"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line; sockperf runs for whole seconds, so a shorter point takes one."""
        options = ["-m", str(message_bytes(parameters)), "-t", str(network.seconds(parameters)), "--full-rtt"]
        return ["sockperf", "ping-pong", *_where(parameters), *options]

    def server(self, program: str, parameters: Mapping[str, Any], port: int) -> list[str]:
        """The server's command line, with the same way of waiting."""
        return [program, "server", *_where({**parameters, "port": port})]

    def listens_by_udp(self, parameters: Mapping[str, Any]) -> bool:
        """A UDP server has no listening TCP socket."""
        return is_udp(parameters)

    def reading(self, kernel: str, out: str, complaint: str) -> PeerReading:
        """Read the output of ping-pong."""
        return parse_output(out, complaint)


PEER = Sockperf()


def _where(parameters: Mapping[str, Any]) -> list[str]:
    """Options of both ends: address, protocol and way of waiting."""
    options = ["-i", loopback.address(), "-p", str(int(parameters.get("port") or 11111))]
    if not is_udp(parameters):
        options.append("--tcp")
    if parameters.get("waiting") == "spin":
        options.append("--nonblocked")
    return options


def parse_output(out: str, complaint: str = "") -> PeerReading:
    """Read the output of ``sockperf ping-pong --full-rtt``. Raises ``OSError`` with its error message in one line."""
    try:
        found = exchange(out)
    except UserError as error:
        raise network.make_error("sockperf", complaint, str(error)) from None
    if (
        found is None
        or found.is_half
        or found.sent is None
        or found.received is None
        or not (found.took_s and "lat_mean" in found.times)
    ):
        raise network.make_error("sockperf", complaint or out, "it printed no round trips")
    rate = found.received / found.took_s
    return PeerReading(
        throughput=rate,
        unit="operations/s",
        rate=rate,
        latency_ns_mean=found.times["lat_mean"].value * 1e9,
        cpu_s=None,
        operations=found.received,
        details={
            **{ours: found.times[name].value * 1e9 for ours, name in _PERCENTILES.items() if name in found.times},
            "messages_lost": found.sent - found.received,
            "elapsed_s": found.took_s,
        },
    )
