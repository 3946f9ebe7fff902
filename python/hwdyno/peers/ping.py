"""Runs ``ping`` on one of our points: ICMP echo to the same host, each as soon as the last one returns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hwdyno.peers import PeerReading, network
from hwdyno.units import printed_number

_COUNTS = re.compile(
    r"\b(\d{1,18}) packets transmitted, (\d{1,18})(?: packets)? received.*?time (\d{1,18}) ?ms", re.ASCII
)
_TIMES = re.compile(r"(?:rtt|round-trip) min/avg/max/(?:mdev|stddev) = ([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms")


class Ping(network.NetworkPeer):
    """iputils' ``ping``, on the path or named by ``HWDYNO_PING``; it prints times in whole µs."""

    name = "ping"
    kernels = frozenset({"network_ping"})
    install = "install it (iputils-ping)"
    # Only iputils' ping has -A.
    asks_version = ("-V", r"iputils[ -]s?(\d+)")
    calls_it = "iputils"

    def unsupported(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why ping cannot measure this point; none if it can."""
        if kernel not in self.kernels:
            return f"ping cannot measure {kernel}"
        if int(parameters.get("in_flight") or 1) != 1:
            return "ping keeps one echo in flight"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line; ping runs for whole seconds, so a shorter point takes one."""
        given = dict(parameters)
        size = given.get("message")
        command = ["ping", "-n", "-q", "-w", str(network.seconds(given)), "-s", str(56 if size is None else int(size))]
        rate = float(given.get("rate") or 0)
        # -A: each request as soon as the last reply arrives.
        command += ["-i", f"{1 / rate:.6f}"] if rate else ["-A"]
        return [*command, str(given.get("server") or network.LOOPBACK)]

    def server(self, program: str, parameters: Mapping[str, Any], port: int) -> None:
        """No server: the kernel at the other end answers."""

    def reading(self, kernel: str, out: str, complaint: str) -> PeerReading:
        """Read the output of ``ping -q``."""
        return reading_of(out, complaint)


PEER = Ping()


def reading_of(out: str, complaint: str = "") -> PeerReading:
    """Read the output of ``ping -q``. Raises ``OSError`` with ping's error message in one line if it failed."""
    counts, times = _COUNTS.search(out), _TIMES.search(out)
    figures_ms = [printed_number(text) for text in times.groups()] if times is not None else []
    if counts is None or not figures_ms or None in figures_ms:
        raise network.failed("ping", complaint or out, "no reply arrived")
    sent, received, took_s = int(counts[1]), int(counts[2]), max(1, int(counts[3])) / 1e3
    least, mean, most, deviation = (figure * 1e6 for figure in figures_ms if figure is not None)
    return PeerReading(
        throughput=received / took_s,
        unit="operations/s",
        rate=received / took_s,
        latency_ns_mean=mean,
        cpu_s=None,
        operations=received,
        details={
            "rtt_min_ns": least,
            "rtt_max_ns": most,
            "rtt_mdev_ns": deviation,
            "echoes_sent": sent,
            "echoes_lost": sent - received,
            "elapsed_s": took_s,
        },
    )
