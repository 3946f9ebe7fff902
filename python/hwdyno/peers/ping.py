"""Runs ``ping`` on a point of ours: ICMP echo to the same host, the next as soon as one is back."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from typing import Any

from hwdyno.peers import PeerReading
from hwdyno.peers import program as programs
from hwdyno.words import UserError

GRACE_S = 10.0
_COUNTS = re.compile(r"(\d+) packets transmitted, (\d+)(?: packets)? received.*?time (\d+) ?ms")
_TIMES = re.compile(r"(?:rtt|round-trip) min/avg/max/(?:mdev|stddev) = ([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms")


class Ping:
    """iputils' ``ping``, found on the path or named by ``HWDYNO_PING``; it prints times in whole µs."""

    name = "ping"
    kernels = frozenset({"network_ping"})

    def version(self) -> str | None:
        """Its version, such as ``iputils 20221126``; none if it is not here, or another ping without ``-A``."""
        program = _program()
        return _version(program) if program else None

    def unsupported(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why ping cannot measure this point; none if it can."""
        if kernel not in self.kernels:
            return f"ping has nothing to set beside {kernel}"
        if int(parameters.get("in_flight") or 1) != 1:
            return "ping keeps one echo under way"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """What to type; ping ends after whole seconds, so a shorter point takes one."""
        given = dict(parameters)
        seconds = max(1, round(float(given.get("runtime") or 1)))
        size = given.get("message")
        command = ["ping", "-n", "-q", "-w", str(seconds), "-s", str(56 if size is None else int(size))]
        rate = float(given.get("rate") or 0)
        # -A: the next as soon as one is back.
        command += ["-i", f"{1 / rate:.6f}"] if rate else ["-A"]
        return [*command, str(given.get("server") or "127.0.0.1")]

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run ping once on this point."""
        why = self.unsupported(kernel, parameters)
        if why:
            raise UserError(why)
        program = _program()
        if program is None:
            raise FileNotFoundError("ping is not here: install it (iputils-ping), or name it by HWDYNO_PING")
        command = [program, *self.command(kernel, parameters)[1:]]
        timeout_s = GRACE_S + max(1.0, float(parameters.get("runtime") or 1))
        out, err, _ = programs.finished(command, timeout_s, {"LC_ALL": "C"})
        return reading_of(out, err)


PEER = Ping()


def reading_of(out: str, complaint: str = "") -> PeerReading:
    """Read what ``ping -q`` printed. Raises ``OSError`` with its own complaint, in one line, when it failed."""
    counts, times = _COUNTS.search(out), _TIMES.search(out)
    if counts is None or times is None:
        said = " ".join((complaint or out).split())[:200]
        raise OSError(f"ping failed: {said or 'nothing came back'}")
    sent, received, took_s = int(counts[1]), int(counts[2]), max(1, int(counts[3])) / 1e3
    least, mean, most, deviation = (float(text) * 1e6 for text in times.groups())
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


@cache
def _version(program: str) -> str | None:
    try:
        done = subprocess.run([program, "-V"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"iputils[ -]s?(\d+)", done.stdout + done.stderr)
    return f"iputils {found[1]}" if found else None


def _program() -> str | None:
    return shutil.which(os.environ.get("HWDYNO_PING") or "ping")
