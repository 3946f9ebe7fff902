"""Runs ``ping`` on one of our points: ICMP echo to the same host, each as soon as the last one returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwdyno.formats.ping import echoes
from hwdyno.measure.peers import network
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.model.kernels import NETWORK_PING
from hwdyno.model.words import UserError
from hwdyno.system import loopback


class Ping(network.NetworkPeer):
    """iputils' ``ping``, on the path or named by ``HWDYNO_PING``; it prints times in whole µs."""

    name = "ping"
    kernels = frozenset({NETWORK_PING})
    install = "install it (iputils-ping)"
    # Only iputils' ping has -A.
    asks_version = ("-V", r"iputils[ -]s?(\d+)")
    calls_it = "iputils"

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
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
        return [*command, str(given.get("server") or loopback.address())]

    def server(self, program: str, parameters: Mapping[str, Any], port: int) -> None:
        """No server: the kernel at the other end answers."""

    def reading(self, kernel: str, out: str, complaint: str) -> PeerReading:
        """Read the output of ``ping -q``."""
        return parse_output(out, complaint)


PEER = Ping()


def parse_output(out: str, complaint: str = "") -> PeerReading:
    """Read the output of ``ping -q``. Raises ``OSError`` with ping's error message in one line if it failed."""
    try:
        found = next(echoes(out), None)
    except UserError as error:
        raise network.make_error("ping", complaint, str(error)) from None
    if found is None or found.sent is None or found.received is None or found.took_s is None:
        raise network.make_error("ping", complaint or out, "no reply arrived")
    times = (found.least, found.mean, found.most, found.deviation)
    least, mean, most, deviation = (time.value * 1e9 if time is not None else 0.0 for time in times)
    rate = found.received / max(1e-3, found.took_s)
    return PeerReading(
        throughput=rate,
        unit="operations/s",
        rate=rate,
        latency_ns_mean=mean,
        cpu_s=None,
        operations=found.received,
        details={
            "rtt_min_ns": least,
            "rtt_max_ns": most,
            "rtt_mdev_ns": deviation,
            "echoes_sent": found.sent,
            "echoes_lost": found.sent - found.received,
            "elapsed_s": max(1e-3, found.took_s),
        },
    )
