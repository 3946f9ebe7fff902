"""Runs netperf's request/response tests on one of our points: TCP_RR, UDP_RR and, with a connection each, TCP_CRR."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwdyno.formats.netperf import LATENCIES, TRANSACTIONS, selectors
from hwdyno.measure.peers import network
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.measure.peers.round_trips import RoundTrips, is_udp, message_bytes
from hwdyno.model.units import positive, printed_number
from hwdyno.system import loopback

# Output selectors of netperf's omni tests, each with our name and the factor to our unit (µs to ns).
_SELECTORS = {name: (f"{ours}_ns", 1e3) for name, ours in LATENCIES.items()} | {"ELAPSED_TIME": ("elapsed_s", 1.0)}
_RATE, _UNITS = "THROUGHPUT", "THROUGHPUT_UNITS"
_TESTS = {("tcp", "echo"): "TCP_RR", ("udp", "echo"): "UDP_RR", ("tcp", "connect"): "TCP_CRR"}


class Netperf(RoundTrips):
    """netperf and its netserver, on the path or named by ``HWDYNO_NETPERF``.

    It times each transaction (``-j``), as we do, in histogram buckets of about 1%.
    """

    name = "netperf"
    install = "build it (github.com/HewlettPackard/netperf)"
    asks_version = ("-V", r"Netperf version ([\d.]+)")

    def version(self) -> str | None:
        """netperf's version; none if it or its server is not installed."""
        program = self.program()
        return super().version() if program and _netserver(program) else None

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why netperf cannot measure this point; none if it can."""
        if why := super().unsupported_reason(kernel, parameters):
            return why
        if parameters.get("waiting") == "spin":
            return "netperf always sleeps until a message arrives"
        return None if _test(parameters) else "netperf has no such test"

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line; netperf runs for whole seconds, so a shorter point takes one."""
        size = message_bytes(parameters)
        where = [_family(), "-H", loopback.address(), "-p", str(int(parameters.get("port") or 12865))]
        how = ["-t", _test(parameters) or "", "-l", str(network.seconds(parameters)), "-P", "0", "-j"]
        nodelay = [] if is_udp(parameters) else ["-D"]
        options = ["-r", f"{size},{size}", *nodelay, "-k", ",".join([_RATE, _UNITS, *_SELECTORS])]
        return ["netperf", *where, *how, "--", *options]

    def server(self, program: str, parameters: Mapping[str, Any], port: int) -> list[str]:
        """The server's command line: in the foreground, without a log."""
        return [_netserver(program) or "netserver", "-D", "-N", _family(), "-L", loopback.address(), "-p", str(port)]

    def reading(self, kernel: str, out: str, complaint: str) -> PeerReading:
        """Read the selectors' output."""
        return parse_output(out, complaint)


PEER = Netperf()


def _family() -> str:
    return "-6" if loopback.address() == loopback.IPV6 else "-4"


def _test(parameters: Mapping[str, Any]) -> str | None:
    return _TESTS.get((str(parameters.get("protocol") or "tcp"), str(parameters.get("exchange") or "echo")))


def _netserver(program: str) -> str | None:
    """The server's program: next to netperf, or on the path."""
    return shutil.which("netserver", path=str(Path(program).parent)) or shutil.which("netserver")


def parse_output(out: str, complaint: str = "") -> PeerReading:
    """Read the output of ``netperf … -- -k …``, one selector per line. Raises ``OSError`` in one line if it failed."""
    printed = selectors(out)
    rate = positive(printed_number(printed.get(_RATE)))
    if not rate or printed.get(_UNITS) != TRANSACTIONS:
        raise network.make_error("netperf", complaint or out, "it printed no rate of transactions")
    figures = {key: positive(printed_number(printed.get(key))) for key in _SELECTORS}
    found = {name: value * factor for key, (name, factor) in _SELECTORS.items() if (value := figures[key])}
    return PeerReading(
        throughput=rate,
        unit="operations/s",
        rate=rate,
        latency_ns_mean=found.get("mean_ns"),
        cpu_s=None,
        operations=round(rate * found.get("elapsed_s", 0.0)),
        details=found,
    )
