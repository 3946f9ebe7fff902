"""Runs sockperf's ping-pong on one of our points: full round trips over loopback, blocking or polling."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hwdyno.peers import PeerReading, network
from hwdyno.peers.round_trips import RoundTrips, is_udp, message_of
from hwdyno.units import positive, printed_number

LEAST_MESSAGE = 14
"""Size of sockperf's header, the smallest message."""
_COUNTS = re.compile(
    r"Valid Duration\] RunTime=([\d.]+) sec; SentMessages=(\d{1,18}); ReceivedMessages=(\d{1,18})\b", re.ASCII
)
_MEAN = re.compile(r"Round trip is ([\d.]+) usec")
_PERCENTILES = {"p50_ns": "50.000", "p90_ns": "90.000", "p99_ns": "99.000", "p99_9_ns": "99.900"}


class Sockperf(RoundTrips):
    """sockperf, on the path or named by ``HWDYNO_SOCKPERF``; it measures full round trips, not half ones."""

    name = "sockperf"
    asks_version = ("--version", r"version ([\d.]+)")

    def unsupported(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why sockperf cannot measure this point; none if it can."""
        if why := super().unsupported(kernel, parameters):
            return why
        if parameters.get("exchange") == "connect":
            return "sockperf cannot open a connection per exchange"
        if message_of(parameters) < LEAST_MESSAGE:
            return f"sockperf's messages have at least {LEAST_MESSAGE} bytes"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line; sockperf runs for whole seconds, so a shorter point takes one."""
        options = ["-m", str(message_of(parameters)), "-t", str(network.seconds(parameters)), "--full-rtt"]
        return ["sockperf", "ping-pong", *_where(parameters), *options]

    def server(self, program: str, parameters: Mapping[str, Any], port: int) -> list[str]:
        """The server's command line, with the same way of waiting."""
        return [program, "server", *_where({**parameters, "port": port})]

    def listens_by_udp(self, parameters: Mapping[str, Any]) -> bool:
        """A UDP server has no listening TCP socket."""
        return is_udp(parameters)

    def reading(self, kernel: str, out: str, complaint: str) -> PeerReading:
        """Read the output of ping-pong."""
        return reading_of(out, complaint)


PEER = Sockperf()


def _where(parameters: Mapping[str, Any]) -> list[str]:
    """Options of both ends: address, protocol and way of waiting."""
    options = ["-i", network.LOOPBACK, "-p", str(int(parameters.get("port") or 11111))]
    if not is_udp(parameters):
        options.append("--tcp")
    if parameters.get("waiting") == "spin":
        options.append("--nonblocked")
    return options


def reading_of(out: str, complaint: str = "") -> PeerReading:
    """Read the output of ``sockperf ping-pong --full-rtt``. Raises ``OSError`` with its error message in one line."""
    counts, mean = _COUNTS.search(out), _MEAN.search(out)
    took_s = positive(printed_number(counts[1])) if counts is not None else None
    mean_us = printed_number(mean[1]) if mean is not None else None
    if counts is None or took_s is None or mean_us is None:
        raise network.failed("sockperf", complaint or out, "it printed no round trips")
    sent, received = int(counts[2]), int(counts[3])
    lines = {name: re.search(rf"percentile {text}\s*=\s*([\d.]+)", out) for name, text in _PERCENTILES.items()}
    percentiles_us = {name: printed_number(line[1]) for name, line in lines.items() if line}
    return PeerReading(
        throughput=received / took_s,
        unit="operations/s",
        rate=received / took_s,
        latency_ns_mean=mean_us * 1e3,
        cpu_s=None,
        operations=received,
        details={
            **{name: value * 1e3 for name, value in percentiles_us.items() if value is not None},
            "messages_lost": sent - received,
            "elapsed_s": took_s,
        },
    )
