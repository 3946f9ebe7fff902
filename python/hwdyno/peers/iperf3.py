"""Runs iperf3, the network's reference tool, on a point of ours: the same path, the same streams, the same blocks."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from hwdyno.formats import iperf3 as iperf3_json
from hwdyno.peers import PeerReading
from hwdyno.peers import program as programs
from hwdyno.words import UserError

# Connections, the exchange of results, and a slow machine, with ample room.
GRACE_S = 15.0
DIRECTIONS = {"up": [], "down": ["-R"], "both": ["--bidir"]}


class Iperf3:
    """iperf3, found on the path or named by ``HWDYNO_IPERF3``; over loopback it gets a server of its own kind."""

    name = "iperf3"
    kernels = frozenset({"network_throughput"})

    def version(self) -> str | None:
        """Its version, such as ``iperf 3.12``; none if it is not here."""
        program = _program()
        return _version(program) if program else None

    def unsupported(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why iperf3 cannot measure this point; none if it can."""
        if kernel not in self.kernels:
            return f"iperf3 has nothing to set beside {kernel}"
        if parameters.get("search"):
            return "iperf3 does not search for a rate"
        if int(parameters.get("streams", 1)) > 128:
            return "iperf3 has at most 128 streams"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """What to type; iperf3 counts in whole seconds, so a shorter point takes one."""
        given = dict(parameters)
        udp = given.get("protocol") == "udp"
        command = ["iperf3", "-c", str(given.get("server") or "127.0.0.1"), "-p", str(int(given.get("port") or 5201))]
        command += ["-J", "-P", str(int(given.get("streams", 1))), *DIRECTIONS[str(given.get("direction", "up"))]]
        if amount := int(given.get("bytes") or 0):
            command += ["-n", str(amount)]
        else:
            command += ["-t", str(max(1, round(float(given.get("runtime", 1)))))]
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

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run iperf3 once on this point."""
        why = self.unsupported(kernel, parameters)
        if why:
            raise UserError(why)
        program = _program()
        if program is None:
            raise FileNotFoundError("iperf3 is not here: install it, or name it by HWDYNO_IPERF3")
        timeout_s = GRACE_S + 1 + float(parameters.get("runtime", 1)) + float(parameters.get("ramp_time") or 0)
        if parameters.get("server"):
            return reading_of(_finished([program, *self.command(kernel, parameters)[1:]], timeout_s))
        port = _free_port()
        server = subprocess.Popen(
            [program, "-s", "-1", "-B", "127.0.0.1", "-p", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _wait_until_it_listens(port)
            return reading_of(
                _finished([program, *self.command(kernel, {**parameters, "port": port})[1:]], timeout_s), kernel
            )
        finally:
            server.kill()
            server.wait()


PEER = Iperf3()


def reading_of(out: str, kernel: str = "network_throughput") -> PeerReading:
    """Read what ``iperf3 -J`` printed. Raises ``OSError`` with iperf3's own complaint, in one line, when it failed."""
    try:
        document = iperf3_json.parse(out)
        point = iperf3_json.measurement_of(document)
    except UserError as error:
        raise OSError(f"iperf3 failed: {error}") from None
    if point.faults or not point.bytes:
        raise OSError(f"iperf3 failed: {point.faults[0].says if point.faults else 'it measured nothing'}")
    return PeerReading(
        throughput=point.throughput.value,
        unit=point.throughput.unit,
        rate=point.rate.value if point.rate else None,
        latency_ns_mean=None,
        cpu_s=(point.cpu_user_s or 0.0) + (point.cpu_system_s or 0.0),
        operations=point.operations,
        details={**point.details, "elapsed_s": point.elapsed_s},
    )


@cache
def _version(program: str) -> str | None:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return " ".join(done.stdout.split()[:2]) or None


def _program() -> str | None:
    return shutil.which(os.environ.get("HWDYNO_IPERF3") or "iperf3")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_it_listens(port: int) -> None:
    """Look in the kernel's table: a connection of ours would be taken for the one test that it serves."""
    wanted = f":{port:04X} 00000000:0000 0A"
    until = time.monotonic() + 5
    while time.monotonic() < until:
        with open("/proc/net/tcp", encoding="ascii") as table:  # noqa: PTH123 - read at once, a few lines
            if wanted in table.read():
                return
        time.sleep(0.01)
    raise OSError("iperf3's server did not begin to listen within 5 s")


def _finished(command: list[str], timeout_s: float) -> str:
    out, err, _ = programs.finished(command, timeout_s)
    if not out.strip():
        raise OSError(f"iperf3 failed: {' '.join(err.split())[:200]}")
    return out
