"""What limits the ends of a path: a core, a window, loss, a slow congestion control, or bufferbloat."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.network_path import OF_STREAMS, figure, server_options
from hwdyno.explain.findings.rule import Case, Verdict, contrast, percent, quantity, times
from hwdyno.model.kernels import NETWORK_LATENCY
from hwdyno.model.units import format_bytes, format_ns, plural

BUSY = 0.90
LIMITED = 0.30
"""Share of a sender's busy time spent waiting for a window (``tcpi_rwnd_limited``, ``tcpi_sndbuf_limited``)."""
LOSS = 1e-3
BLOAT_NS, BLOAT_TIMES = 5e6, 5.0
"""A queue that adds 5 ms and five times the idle round trip disturbs every call and game (RFC 8289 targets 5 ms)."""
SAME_LATENCY = 0.1
"""Latencies whose ratio differs from 1 by less are called the same: idle ones vary by as much between runs."""
AWAKE = ": idle CPUs sleep and must be woken for each message."
SLOW_CONTROL = 1.3
ENDS = {
    "up": ("The sender's", "The receiver's"),
    "down": ("The receiver's", "The sender's"),
    "both": ("This end's", "The other end's"),
}
"""Whose CPU it is at this end and at the other, by the direction of the streams."""


def ends_bound(case: Case) -> Verdict | None:
    """The processors at one end are the limit, not the path."""
    point = case.point
    if point.elapsed_s <= 0:
        return None
    streams = (case.number("streams") or 1) * (2 if case.parameter("direction") == "both" else 1)
    reading_s = point.elapsed_s / max(1, point.repeats)
    cores = min(streams, case.threads or streams)
    shares = {where: figure(point, f"cpu_{where}_s") / (reading_s * cores) for where in ("here", "there")}
    where, share = max(shares.items(), key=lambda candidate: candidate[1])
    if share <= BUSY:
        return None
    whose = ENDS.get(str(case.parameter("direction")), ENDS["up"])[where == "there"]
    loopback = point.details.get("loopback") is True
    return Verdict(
        "info" if loopback else "warning",
        f"{whose} CPU is the bottleneck, not the network ({case.label}): {percent(share)} of {plural(cores, 'core')}. "
        f"Both ends together spend {format_ns(figure(point, 'cpu_ns_per_kib'))} per KiB.",
        {"cpu_share": share, "end": where, "cpu_ns_per_kib": figure(point, "cpu_ns_per_kib")},
        f"Copy less: {case.command(zero_copy=True, skip_rx_copy=True)}"
        if case.parameter("protocol") != "udp"
        else f"Let the kernel segment large buffers: {case.command(handing='segmented')}",
        weight=share,
    )


def window_limited(case: Case) -> Verdict | None:
    """A window below the bandwidth-delay product: the sender waits for acknowledgements while the path is idle."""
    point = case.point
    rtt_s = figure(point, "rtt_mean_us") / 1e6
    if not rtt_s:
        return None
    receiver, buffer = figure(point, "receiver_limited_share"), figure(point, "buffer_limited_share")
    share, which, name = max((receiver, "receiver's window", "window"), (buffer, "send buffer", "send_buffer"))
    loopback = point.details.get("loopback") is True
    # On loopback without a requested window, the reader lacked CPU time to empty it.
    if share < LIMITED or (loopback and not case.number("window")):
        return None
    streams = case.number("streams") or 1
    product = point.throughput.value / streams * rtt_s
    return Verdict(
        "info" if loopback else "warning",
        f"The {which} limited the sender for {percent(share)} of the time ({case.label}). "
        f"Each stream had {format_bytes(product)} in flight per round trip of {format_ns(rtt_s * 1e9)} "
        "(bandwidth-delay product).",
        {"share": share, "limit": name, "rtt_s": rtt_s, "bandwidth_delay_bytes": product},
        f"Enlarge the window: {case.command(window=1 << math.ceil(math.log2(max(1 << 16, 4 * product))))}",
        weight=share,
    )


def datagram_loss(case: Case) -> Verdict | None:
    """Datagrams that did not arrive."""
    point = case.point
    if case.parameter("protocol") != "udp":
        return None
    share = figure(point, "loss_share")
    if share < LOSS:
        return None
    rate, sent = case.number("rate"), figure(point, "sent_bytes_s")
    both = f" {quantity(sent, 'bytes/s')} was sent, and {quantity(point.throughput)} arrived." if sent else ""
    return Verdict(
        "info" if not rate else "warning",
        f"{percent(share)} of the datagrams were lost{' at this rate' if rate else ''} ({case.label}).{both}"
        + ("" if rate else " UDP does not slow down when packets are lost, and no rate was set."),
        {"loss_share": share, "rate_bits_s": rate},
        "Find the highest rate without loss: "
        f"{case.command(search=True, rate=0, handing=case.parameter('handing') or 'batched')}",
        weight=share,
    )


def loss(case: Case) -> Verdict | None:
    """Retransmitted segments."""
    point = case.point
    if case.parameter("protocol") == "udp":
        return None
    share, rtt_s, mss = (figure(point, name) for name in ("retransmit_share", "rtt_mean_us", "mss_bytes"))
    if share < LOSS:
        return None
    evidence: dict[str, Any] = {"retransmit_share": share, "retransmits": figure(point, "retransmits")}
    bound = ""
    if rtt_s and mss and point.details.get("congestion_control") in {"reno", "cubic"}:
        # Mathis, Semke, Mahdavi & Ott 1997: rate <= MSS / RTT x sqrt(3/2) / sqrt(p)
        most = (case.number("streams") or 1) * mss / (rtt_s / 1e6) * math.sqrt(1.5 / share)
        evidence["mathis_bytes_s"] = most
        bound = f" With that loss, loss-based congestion control reaches about {quantity(most, 'bytes/s')} (Mathis)."
    loopback = point.details.get("loopback") is True
    return Verdict(
        # Loopback has no wire: a receiver without CPU time let its buffer overflow.
        "info" if loopback else "warning",
        f"{percent(share)} of the segments were retransmitted ({case.label}).{bound}",
        evidence,
        "Look for a full queue, a policer or a bad cable. Spread the loss over more streams: " + case.command(streams=8)
        if not loopback
        else f"Quiet the machine (loopback loses packets only when it is busy), then: {case.command()}",
        weight=share,
    )


def bufferbloat(case: Case) -> Verdict | None:
    """A queue on the path fills up under load, and every round trip waits in it (bufferbloat)."""
    point = case.point
    idle, latency = figure(point, "idle_p50_ns"), point.latency_ns
    if not idle or latency is None or latency.p50 is None:
        return None
    added, ratio = latency.p50 - idle, latency.p50 / idle
    bloated = added > BLOAT_NS and ratio > BLOAT_TIMES
    load = quantity(figure(point, "load_bytes_s"), "bytes/s")
    change = contrast(format_ns(idle), format_ns(latency.p50))
    return Verdict(
        "warning" if bloated else "info",
        (
            f"Bufferbloat: latency grows {times(ratio)} times under load ({change}). A queue on the path is too long."
            if bloated
            else f"Latency is the same under load ({change})."
            if abs(ratio - 1) < SAME_LATENCY
            else f"Latency falls under load ({change}){AWAKE}"
            if ratio < 1
            else f"Latency grows {times(ratio)} times under load ({change})."
        )
        + f" Load: {load} ({case.label}); p99 {format_ns(latency.p99)}.",
        {"idle_p50_ns": idle, "loaded_p50_ns": latency.p50, "added_ns": added, "ratio": ratio},
        "Use a short or managed queue at the bottleneck (fq_codel, cake), or shape below its rate."
        if bloated
        else f"Find the load that raises it: {case.command(load_streams='1..8')}",
        weight=added,
    )


def congestion_slow(case: Case) -> Verdict | None:
    """One congestion control is much slower than another on this path."""
    groups: dict[tuple[tuple[str, str], ...], dict[str, float]] = defaultdict(dict)
    for point in case.result.points:
        control = str(point.details.get("congestion_control") or "")
        others = tuple(sorted((k, str(v)) for k, v in point.parameters.items() if k != "congestion"))
        if control and point.validity != "invalid":
            groups[others][control] = point.throughput.value
    worst: tuple[float, str, str, float, float] | None = None
    for rates in groups.values():
        best, slow = max(rates, key=rates.__getitem__), min(rates, key=rates.__getitem__)
        if rates[slow] > 0 and (worst is None or rates[best] / rates[slow] > worst[0]):
            worst = (rates[best] / rates[slow], best, slow, rates[best], rates[slow])
    if worst is not None and worst[0] >= SLOW_CONTROL:
        ratio, best, slow, fast, low = worst
        return Verdict(
            "warning",
            f"Congestion control {slow} is slow on this path: {best} is {times(ratio)} times as fast "
            f"({contrast(quantity(low, 'bytes/s'), quantity(fast, 'bytes/s'), 'vs')}).",
            {"best": best, "slow": slow, "ratio": ratio},
            f"Use {best} here: {case.next_run('network', congestion=best, **server_options(case.result))}",
        )
    used = {str(point.details.get("congestion_control") or "") for point in case.result.points}
    loopback = any(point.details.get("loopback") is True for point in case.result.points)
    if loopback and "bbr" in used and len(used) == 1:
        return Verdict(
            "info",
            "The system uses bbr congestion control, which paces packets and can halve loopback throughput.",
            {"congestion_control": "bbr"},
            f"Compare it with cubic: {case.next_run('network', congestion='bbr,cubic', **server_options(case.result))}",
        )
    return None


_TRIPS = Applies(kernels=(NETWORK_LATENCY,), needs=("details.idle_p50_ns", "latency"))
RULES = (
    Rule("network_ends_bound", "point", ends_bound, OF_STREAMS),
    Rule("network_window", "point", window_limited, replace(OF_STREAMS, needs=("details.rtt_mean_us",))),
    Rule("network_loss", "point", loss, replace(OF_STREAMS, needs=("details.retransmit_share",))),
    Rule("network_datagram_loss", "point", datagram_loss, replace(OF_STREAMS, needs=("details.loss_share",))),
    Rule("network_bufferbloat", "point", bufferbloat, _TRIPS),
    Rule("network_congestion", "experiment", congestion_slow, OF_STREAMS),
)
