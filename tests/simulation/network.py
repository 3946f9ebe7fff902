"""A path to another host that does not exist: it follows known laws, has known faults planted, and takes no time.

The laws: a stream carries no more than window / round trip, and under random loss p no more than
MSS / RTT x sqrt(3/2) / sqrt(p) (Mathis, Semke, Mahdavi & Ott 1997); all together no more than the wire leaves for
payload, than a policer lets through, and than the processors at each end can do.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hwdyno.model.histogram import Histogram
from hwdyno.model.machine import Machine, Nic
from hwdyno.model.words import AxisKind, Declaration

from simulation.host import SimulatedHost, SimulatedMachine
from simulation.reading import count_operations, noisy, parameter, reading, stream

HEADERS_BYTES, FRAME_BYTES = 52, 38
CPU_IDLE_NS = 500.0


@dataclass(frozen=True)
class SimulatedPath:
    """What is true of a path: its laws first, then what is planted (nothing, by default)."""

    seed: int = 1
    bits_s: float = 10e9
    """The wire's rate."""
    rtt_s: float = 500e-6
    queue_s: float = 200e-6
    """Longest wait in the queue before the wire."""
    mtu: int = 1500
    processors: int = 8
    cpu_ns_per_kib: float = 60.0
    """CPU time at each end."""
    noise: float = 0.01
    loopback: bool = False
    virtual: bool = False
    copy_bytes_s: float = 10e9
    # What is planted.
    window_bytes: float = 64e6
    window_is: str = "receiver"
    """Whose window it is: ``receiver``, or the sender's ``buffer``."""
    loss: float = 0.0
    """Share of the packets that are lost by chance."""
    policer_bits_s: float = 0.0
    """What exceeds this is dropped; no queue builds up."""
    path_mtu: int = 0
    """A smaller MTU on the way, which the sender learns."""
    hole_mtu: int = 0
    """A smaller MTU on the way, which it does not learn."""
    bloat_s: float = 0.0
    """Longest wait in a queue that is far too long."""
    slow_control: str = ""
    """A congestion control that reaches a third."""
    busy_end: str = ""
    """``here`` or ``there``: the end whose processors cannot do more."""

    @classmethod
    def random(cls, seed: int, **planted: Any) -> SimulatedPath:
        """A clean path drawn by ``seed``: any wire, length and machine; then ``planted`` over it."""
        draw = random.Random(seed)
        bits_s = draw.choice([100e6, 1e9, 2.5e9, 10e9, 25e9])
        rtt_s = math.exp(draw.uniform(math.log(50e-6), math.log(40e-3)))
        path = cls(
            seed=seed,
            bits_s=bits_s,
            rtt_s=rtt_s,
            queue_s=min(2e-3, rtt_s) * draw.uniform(0.1, 0.9),
            mtu=draw.choice([1500, 1500, 9000]),
            processors=draw.choice([2, 4, 8, 16]),
            cpu_ns_per_kib=draw.uniform(0.1, 0.7) * 8 * 1024 / bits_s * 1e9,
            noise=draw.uniform(0.002, 0.015),
            copy_bytes_s=draw.uniform(4e9, 20e9),
        )
        return replace(path, **planted)

    @property
    def mss(self) -> int:
        """Payload of a full segment."""
        return (self.path_mtu or self.mtu) - HEADERS_BYTES

    def wire_bytes_s(self, block: int = 0) -> float:
        """What the wire leaves for payload, of segments or of datagrams."""
        if not block:
            return self.bits_s / 8 * self.mss / (self.mss + HEADERS_BYTES + FRAME_BYTES)
        frames = math.ceil((block + 8) / (self.mtu - 20))
        return self.bits_s / 8 * block / (block + 8 + frames * (20 + FRAME_BYTES))


class SimulatedNetwork(SimulatedHost):
    """A simulated machine with a path to a server."""

    def __init__(self, path: SimulatedPath | None = None) -> None:
        self.path = path or SimulatedPath()
        super().__init__(SimulatedMachine(seed=self.path.seed, threads=self.path.processors))

    def survey(self, path: Path | None = None) -> Machine:
        """The simulated machine with its interface."""
        bits_s, mtu = int(self.path.bits_s), self.path.mtu
        nic = Nic("eth0", driver="simulated", virtual=self.path.virtual, bits_s=bits_s, mtu=mtu, up=True)
        return replace(super().survey(path), nics=(nic,))

    def kernels(self) -> dict[str, Declaration]:
        """The declarations of the kernels that it simulates."""
        return super().kernels() | _KERNELS

    def read(self, kernel: str, given: dict[str, Any], draw: random.Random) -> dict[str, Any]:
        """What one of its kernels returns of all of its parameters."""
        if kernel not in _KERNELS:
            return super().read(kernel, given, draw)
        return self._streams(given, draw) if kernel == "network_throughput" else self._trips(given, draw)

    def _cpu_ns(self, end: str) -> float:
        """CPU time for each KiB at one end; at a busy one, the time with which one core carries 40% of the wire."""
        if self.path.busy_end != end:
            return self.path.cpu_ns_per_kib
        return 1024 / (0.4 * self.path.wire_bytes_s()) * 1e9

    def _streams(self, given: dict[str, Any], draw: random.Random) -> dict[str, Any]:
        path, udp = self.path, given["protocol"] == "udp"
        streams, ways = int(given["streams"]), 2 if given["direction"] == "both" else 1
        block = int(given["block"]) or (1460 if udp else 128 << 10)
        control = str(given["congestion"]) or "cubic"
        limits = {"wire": path.wire_bytes_s(block if udp else 0)}
        if path.policer_bits_s:
            limits["policer"] = path.policer_bits_s / 8
        if not udp:
            limits["window"] = streams * path.window_bytes / path.rtt_s
            if path.loss and control in {"cubic", "reno"}:
                limits["loss"] = streams * path.mss / path.rtt_s * math.sqrt(1.5 / path.loss)
            if path.slow_control == control:
                limits["control"] = 0.3 * min(limits.values())
        offered = float(given["rate"]) / 8 * streams
        if offered:
            limits["rate"] = offered
        bytes_s = min(limits.values())
        costs = {end: self._cpu_ns(end) for end in ("here", "there")}
        most = min(streams * ways, path.processors) * 1024 / max(costs.values()) * 1e9 / ways
        # A loss and a congestion control are laws of the mean.
        hard = min(most, *(limits[name] for name in ("wire", "policer", "window", "rate") if name in limits))
        if 0.97 * most < bytes_s:
            limits["processor"] = bytes_s = 0.97 * most
        limit = min(limits, key=limits.__getitem__)
        if path.hole_mtu and not udp and not given["mss"]:
            limit, bytes_s = "hole", 0.0
        runtime, interval_s = float(given["runtime"]), float(given["interval_s"])
        if given["blocks"] and bytes_s:
            runtime = interval_s * max(1.0, int(given["blocks"]) * block / bytes_s / interval_s)
        rows = max(1, round(runtime / interval_s))
        level = noisy(path.noise, draw, 2.0)
        reached = 0.985 if limit == "wire" else 1.0
        rates = [reached * bytes_s / block * level * noisy(path.noise, draw, 2.0) for _ in range(rows)]
        counts = count_operations(rates, interval_s, hard / block)
        names = ["up", "down"] if ways == 2 else [str(given["direction"])]
        moved = sum(counts) * block * ways
        elapsed = rows * interval_s
        rtt_s = path.rtt_s + (path.queue_s if limit == "wire" else 0.0)
        share = path.loss + (0.02 if limit == "policer" else 1e-4 if limit == "wire" else 0.0)
        lost = share
        if udp and (sent := offered or 2 * path.wire_bytes_s(block)) > min(limits["wire"], limits.get("policer", 1e18)):
            lost = 1 - bytes_s / sent
        cpu = {end: moved / 1024 * cost * 1e-9 for end, cost in costs.items()}
        limited = {"receiver": 0.02, "buffer": 0.02}
        if limit == "window":
            limited[path.window_is] = 0.95
        details: dict[str, Any] = {
            "loopback": path.loopback,
            "server": "hwdyno",
            "sent_bytes": round(moved * (1 + share)),
            "received_bytes": moved,
            "cpu_here_s": cpu["here"],
            "cpu_there_s": cpu["there"],
            "cpu_ns_per_kib": sum(costs.values()),
            **self._interface(),
        }
        if udp:
            numbered = max(1, round(moved / block / max(1e-9, 1 - lost)))
            details |= {"loss_share": lost, "datagrams_lost": round(lost * numbered), "jitter_us": 5.0}
        else:
            segments = max(1, moved / path.mss)
            details |= {
                "congestion_control": control,
                "mss_bytes": int(given["mss"]) or path.mss,
                "pmtu_bytes": path.path_mtu or path.mtu,
                "retransmits": 4 if limit == "hole" else round(share * segments),
                "retransmit_share": 0.0 if limit == "hole" else share,
                "rtt_mean_us": rtt_s * 1e6,
                "rtt_min_us": path.rtt_s * 1e6,
                "receiver_limited_share": limited["receiver"],
                "buffer_limited_share": limited["buffer"],
                "cwnd_mean_bytes": max(path.mss, bytes_s / streams * rtt_s),
            }
        cpu_s = cpu["here"]
        return reading(
            elapsed,
            [stream(name, sum(counts), sum(counts) * block) for name in names],
            (0.1 * cpu_s, 0.9 * cpu_s),
            in_flight=float(streams * ways),
            samples={
                "interval_s": interval_s,
                "operations": [counts for _ in names],
                "bytes": [[count * block for count in counts] for _ in names],
            },
            details=details,
        )

    def _interface(self) -> dict[str, Any]:
        path = self.path
        if path.loopback:
            return {"interface": "lo", "copy_bytes_s": path.copy_bytes_s}
        return {
            "interface": "eth0",
            "interface_driver": None if path.virtual else "simulated",
            "interface_virtual": path.virtual,
            "interface_bits_s": path.bits_s,
            "interface_mtu_bytes": path.mtu,
        }

    def _trips(self, given: dict[str, Any], draw: random.Random) -> dict[str, Any]:
        path, loading = self.path, int(given.get("load_streams", 0))
        idle_ns = path.rtt_s * 1e9
        runtime, depth = float(given["runtime"]), int(given["in_flight"])
        level = noisy(path.noise, draw, 2.0)
        mean_ns = (idle_ns + (path.queue_s + path.bloat_s) * 1e9 * (loading > 0)) * level
        count = max(1, round(runtime * depth / mean_ns * 1e9))
        histogram = Histogram()
        for step in range(20):
            histogram.record(round(mean_ns * (0.9 + 0.01 * step)), max(1, count // 20))
        count = histogram.count
        details: dict[str, Any] = {"loopback": path.loopback, **self._interface()}
        if loading:
            load = path.wire_bytes_s() * 0.98
            details |= {"idle_p50_ns": round(idle_ns), "idle_p99_ns": round(1.1 * idle_ns), "load_bytes_s": load}
        latency = {"total": histogram.to_reading()}
        cpu_s = min(0.5 * runtime, count * CPU_IDLE_NS * 1e-9)
        return reading(
            count * mean_ns / 1e9 / depth,
            [stream("round_trip", count, latency_ns=latency)],
            (0.2 * cpu_s, 0.8 * cpu_s),
            in_flight=float(depth),
            samples={"interval_s": runtime, "operations": [[count]], "bytes": [[0]]},
            details=details,
        )


def _declared(name: str, counts: dict[str, str], parameters: dict[str, Any]) -> Declaration:
    kinds: dict[type, AxisKind] = {bool: "flag", int: "integer", float: "number", str: "text"}
    common = {"server": "10.0.0.2", "runtime": 1.0, "ramp_time": 0.0, "interval_s": 0.1}
    axes = (parameter(axis_name, kinds[type(value)], value) for axis_name, value in (parameters | common).items())
    return Declaration(measures=f"{name} (simulated)", counts=counts, axes=tuple(axes))


_KERNELS = {
    "network_throughput": _declared(
        "network_throughput",
        {"operations": "1", "bytes": "block"},
        {
            **{"protocol": "tcp", "streams": 1, "block": 0, "direction": "up", "rate": 0, "congestion": ""},
            **{"mss": 0, "window": 0, "zero_copy": False, "skip_rx_copy": False, "handing": "batched"},
            **{"search": False, "port": 5201, "blocks": 0},
        },
    ),
    "network_latency": _declared(
        "network_latency",
        {"operations": "1"},
        {
            **{"protocol": "tcp", "exchange": "echo", "message": 64, "in_flight": 1, "waiting": "sleep"},
            **{"load_streams": 0, "direction": "up", "congestion": "", "port": 5201},
        },
    ),
    "network_ping": _declared("network_ping", {"operations": "1"}, {"message": 56, "in_flight": 1, "rate": 0.0}),
}
