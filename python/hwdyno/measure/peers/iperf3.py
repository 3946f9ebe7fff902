"""Runs iperf3, the reference tool of networks, on one of our points: same path, streams and blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwdyno.formats import iperf3 as iperf3_json
from hwdyno.measure.peers import network
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.model.kernels import NETWORK_THROUGHPUT
from hwdyno.model.words import UserError
from hwdyno.system import loopback

DIRECTIONS = {"up": [], "down": ["-R"], "both": ["--bidir"]}


class Iperf3(network.NetworkPeer):
    """iperf3, on the path or named by ``HWDYNO_IPERF3``; over loopback with a separate iperf3 server."""

    name = "iperf3"
    kernels = frozenset({NETWORK_THROUGHPUT})
    asks_version = ("--version", r"iperf ([\d.]+)")

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why iperf3 cannot measure this point; none if it can."""
        if kernel not in self.kernels:
            return f"iperf3 cannot measure {kernel}"
        if parameters.get("search"):
            return "iperf3 does not search for a rate"
        if int(parameters.get("streams", 1)) > 128:
            return "iperf3 has at most 128 streams"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line; iperf3 runs for whole seconds, so a shorter point takes one."""
        given = dict(parameters)
        udp = given.get("protocol") == "udp"
        command = [
            "iperf3",
            "-c",
            str(given.get("server") or loopback.address()),
            "-p",
            str(int(given.get("port") or 5201)),
        ]
        command += ["-J", "-P", str(int(given.get("streams", 1))), *DIRECTIONS[str(given.get("direction", "up"))]]
        if amount := int(given.get("bytes") or 0):
            command += ["-n", str(amount)]
        else:
            command += ["-t", str(network.seconds(given))]
        if omitted := round(float(given.get("ramp_time") or 0)):
            command += ["-O", str(omitted)]
        block = int(given.get("block") or 0) or (1460 if udp else 128 << 10)
        command += ["-l", str(block)]
        rate = int(given.get("rate") or 0)
        if udp:
            command += ["-u", "-b", str(rate)]
        elif rate:
            command += ["-b", str(rate)]
        for name, option in (("window", "-w"), ("congestion", "-C"), ("mss", "-M")):
            if given.get(name):
                command += [option, str(given[name])]
        if given.get("nodelay"):
            command.append("-N")
        if given.get("zero_copy"):
            command.append("-Z")
        return command

    def server(self, program: str, parameters: Mapping[str, Any], port: int) -> list[str] | None:
        """The server's command line, for one test; none if the user named a server."""
        if parameters.get("server"):
            return None
        return [program, "-s", "-1", "-B", loopback.address(), "-p", str(port)]

    def reading(self, kernel: str, out: str, complaint: str) -> PeerReading:
        """Read the output of ``iperf3 -J``."""
        if not out.strip():
            raise network.make_error(self.name, complaint, "it printed nothing")
        return parse_output(out, kernel)


PEER = Iperf3()


def parse_output(out: str, kernel: str = NETWORK_THROUGHPUT) -> PeerReading:
    """Read the output of ``iperf3 -J``. Raises ``OSError`` with iperf3's error message in one line if it failed."""
    try:
        document = iperf3_json.parse(out)
        point = iperf3_json.convert_document(document)
    except UserError as error:
        raise OSError(f"iperf3 failed: {error}") from None
    if point.faults or not point.bytes:
        raise OSError(f"iperf3 failed: {point.faults[0].says[:200] if point.faults else 'it measured nothing'}")
    return PeerReading(
        throughput=point.throughput.value,
        unit=point.throughput.unit,
        rate=point.rate.value if point.rate else None,
        latency_ns_mean=None,
        cpu_s=(point.cpu_user_s or 0.0) + (point.cpu_system_s or 0.0),
        operations=point.operations,
        details={**point.details, "elapsed_s": point.elapsed_s},
    )
