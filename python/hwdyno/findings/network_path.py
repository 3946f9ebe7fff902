"""What the path itself is: no link at all, a link and its share, a small or a lying MTU, a policer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from hwdyno.ceilings import bound_for
from hwdyno.findings.applies import Applies, Rule
from hwdyno.findings.rule import Case, Verdict, as_number, percent, quantity
from hwdyno.units import format_ns
from hwdyno.words import ExperimentResult, Measurement

MOST_OF_COPIES = 1.05
"""Of what its own copies would allow nothing can reach more, but for the interval of both."""
BEYOND_CACHES_BYTES = 128 << 20
SAME = 0.06
"""Goodputs closer than this are called the same."""
POLICED_LOSS = 3e-3
FLAT, SLACK_US = 1.5, 500.0
"""A mean round trip below this multiple of the shortest one, and so much: no queue stood on the way."""
FULL = 0.9
STALLED_SEGMENTS = 20
HEADERS_BYTES = 52
"""Of IPv4 and of TCP with timestamps, in each segment."""


def figure(point: Measurement, name: str) -> float:
    """A figure of a point's details; 0 where it has none."""
    return as_number(point.details.get(name)) or 0.0


def _best(case: Case, *, loopback: bool) -> Measurement | None:
    points = [one for one in case.result.points if one.details.get("loopback") is loopback and one.bytes]
    return max(points, key=lambda one: one.throughput.value, default=None)


def _copy(case: Case, point: Measurement) -> float:
    """Payload that one core copies a second: what this Run's memory experiment found, or a short copy beside."""
    found = [
        one.throughput.value / 2 / (as_number(given.get("threads")) or 1)
        for _, _, one, given in case.run.points_of("memory_bandwidth")
        if given.get("operation") in {"copy", "nt_copy"}
        and one.throughput.unit == "bytes/s"
        and (as_number(given.get("working_set")) or 0) >= BEYOND_CACHES_BYTES
    ]
    return figure(point, "copy_bytes_s") or max(found, default=0.0)


def no_link(case: Case) -> Verdict | None:
    """Over loopback no link is measured: what is left is the copy through memory."""
    best = _best(case, loopback=True)
    if best is None:
        return None
    copy = _copy(case, best)
    bound = bound_for(case.result.ceilings, {**case.result.fixed, **best.parameters}, "reference")
    comparison = f"; one core copies {quantity(copy, 'bytes/s')} here" if copy else ""
    share = best.throughput.value / bound.value if bound is not None and bound.value else 0.0
    if bound is not None and 0 < share <= MOST_OF_COPIES:
        comparison += f", so that copies alone would allow {quantity(bound.value, bound.unit)}"
        comparison += f" and this is {percent(share)} of it"
    elif share:
        comparison += ", which this exceeds: somebody else was at work while the copy was timed"
    return Verdict(
        "info",
        f"Loopback has no link: the limit of {quantity(best.throughput)} is memory copies and the processor's work "
        f"for each segment, {figure(best, 'cpu_ns_per_kib'):.0f} ns a KiB at both ends{comparison}.",
        {
            "best_bytes_s": best.throughput.value,
            "copy_bytes_s": copy,
            "copies_bound_bytes_s": bound.value if bound else 0.0,
            "cpu_ns_per_kib": figure(best, "cpu_ns_per_kib"),
        },
        "Measure a real path: `hwdyno network server --bind ADDR` there, `hwdyno network --server ADDR` here.",
    )


def virtual_link(case: Case) -> Verdict | None:
    """A veth, a tun or a bridge of them has no wire: the speed that it states is a constant."""
    best = _best(case, loopback=False)
    if best is None or best.details.get("interface_virtual") is not True:
        return None
    name = best.details.get("interface")
    stated = figure(best, "interface_bits_s")
    word = f"; the {stated / 1e9:g} Gbit/s that it states are a constant of its driver" if stated else ""
    return Verdict(
        "info",
        f"{name}, which leads to the other end, is virtual and has no link of its own{word}, so no ceiling is known "
        f"for the {quantity(best.throughput)} that it reached.",
        {"interface": name, "stated_bits_s": stated, "best_bytes_s": best.throughput.value},
        "Say what the path should carry, if you know it: hwdyno network --streams 1..8"
        + server_of(case.result)
        + ' --ceiling "rated 1 Gbit/s"',
    )


def share_of_link(case: Case) -> Verdict | None:
    """How much of what the interface's wire leaves for payload was reached."""
    best = _best(case, loopback=False)
    if best is None:
        return None
    parameters = {**case.result.fixed, **best.parameters}
    bound = bound_for(case.result.ceilings, parameters, "physical") or bound_for(
        case.result.ceilings, parameters, "rated"
    )
    if bound is None or not bound.ceiling.metric.startswith("wire/"):
        return None
    share = best.throughput.value / bound.value
    return Verdict(
        "info",
        f"The best is {quantity(best.throughput)}, {percent(share)} of the {quantity(bound.value, bound.unit)} that "
        f"{bound.ceiling.label} leaves for payload ({bound.formula.partition(' = ')[0]}).",
        {"best_bytes_s": best.throughput.value, "link_bytes_s": bound.value, "share": share},
        "Nothing to do: the link is full."
        if share > FULL
        else "The findings on the points say what each end waited for.",
    )


def small_mtu(case: Case) -> Verdict | None:
    """The path's MTU is smaller than that of the interface that leads to it."""
    point = case.point
    pmtu, interface_mtu = figure(point, "pmtu_bytes"), figure(point, "interface_mtu_bytes")
    if not pmtu or not interface_mtu or pmtu >= interface_mtu or point.details.get("loopback") is True:
        return None
    name = point.details.get("interface")
    return Verdict(
        "info",
        f"{case.label}: the path's MTU is {pmtu:.0f} B, while {name} sends up to {interface_mtu:.0f} B: a tunnel, "
        f"or a wrong setting on the way, costs a header of {HEADERS_BYTES} B more often.",
        {"pmtu_bytes": pmtu, "mtu_bytes": interface_mtu, "interface": name},
        "See where on the way it shrinks: tracepath -n " + str(case.parameter("server") or "SERVER"),
        weight=interface_mtu - pmtu,
    )


def blackhole(case: Case) -> Verdict | None:
    """Small messages pass and full segments do not: a smaller MTU on the way that nobody tells the sender of."""
    point = case.point
    if case.parameter("protocol") == "udp" or point.details.get("loopback") is True:
        return None
    mss = figure(point, "mss_bytes")
    stalled = point.bytes < STALLED_SEGMENTS * mss and point.elapsed_s / max(1, point.repeats) >= 0.2
    # The other end answered at the control connection, whose messages are short, so the path itself is there.
    answered = point.details.get("server") not in {None, "gone"}
    if not mss or not stalled or not answered or figure(point, "retransmits") < 1:
        return None
    pmtu = figure(point, "pmtu_bytes") or mss + HEADERS_BYTES
    return Verdict(
        "warning",
        f"{case.label}: short messages pass and segments of {mss:.0f} B do not: {point.bytes} B came through, and "
        f"{figure(point, 'retransmits'):.0f} segments were sent again in vain. Something on the way has an MTU below "
        f"{pmtu:.0f} B and tells nobody (a path MTU black hole).",
        {"mss_bytes": mss, "pmtu_bytes": pmtu, "received_bytes": point.bytes},
        f"See that short segments pass: {case.command(mss=1000)}; then let ICMP 'fragmentation needed' through on the "
        "way, lower the MTU here, or set net.ipv4.tcp_mtu_probing=1.",
        weight=mss,
        explains=("not_steady",),
    )


def policed(case: Case) -> Verdict | None:
    """Segments are lost although no queue stands, and goodput stays the same whatever is sent: a policer.

    Loss by chance divides a loss-driven sender's rate, and more streams then carry more; a full link has a queue,
    in which round trips wait (Flach et al., An Internet-Wide Analysis of Traffic Policing, SIGCOMM 2016).
    """
    for group in _by_streams(case.result):
        counts = sorted(group)
        if len(counts) < 2 or not all(_lost_without_a_queue(point) for point in group.values()):
            continue
        rates = [group[count].throughput.value for count in counts]
        if max(rates) / min(rates) - 1 > SAME or _is_full(case.result, group[counts[-1]]):
            continue
        last = group[counts[-1]]
        rtt_ns, least_ns = figure(last, "rtt_mean_us") * 1e3, figure(last, "rtt_min_us") * 1e3
        return Verdict(
            "warning",
            f"The path is policed: from {counts[0]:.0f} to {counts[-1]:.0f} streams goodput stays at "
            f"{quantity(last.throughput)} while {percent(figure(last, 'retransmit_share'))} of the segments are sent "
            f"again and no queue stands (a round trip takes {format_ns(rtt_ns)}, at the least {format_ns(least_ns)}): "
            "something on the way drops what exceeds a rate instead of queueing it.",
            {
                "goodput_bytes_s": last.throughput.value,
                "retransmit_share": figure(last, "retransmit_share"),
                "rtt_mean_us": figure(last, "rtt_mean_us"),
                "rtt_min_us": figure(last, "rtt_min_us"),
            },
            "Send below that rate, and see that the loss ends: hwdyno network --streams 1 --rate "
            f"{round(0.9 * 8 * last.throughput.value)}" + server_of(case.result),
            points=tuple(case.result.points.index(point) for point in group.values()),
        )
    return None


def server_of(result: ExperimentResult) -> str:
    """How a command names the other end; nothing for a server of its own."""
    server = result.fixed.get("server") or next((p.parameters.get("server") for p in result.points), None)
    return f" --server {server}" if server else ""


def _by_streams(result: ExperimentResult) -> list[dict[float, Measurement]]:
    """Points that differ in their number of streams alone, TCP's under a control that loss drives."""
    groups: dict[tuple[tuple[str, str], ...], dict[float, Measurement]] = defaultdict(dict)
    for point in result.points:
        parameters = {**result.fixed, **point.parameters}
        count = as_number(parameters.get("streams"))
        driven = point.details.get("congestion_control") in {"cubic", "reno"}
        if count and driven and parameters.get("protocol") != "udp" and point.validity != "invalid":
            rest = tuple(sorted((k, str(v)) for k, v in point.parameters.items() if k != "streams"))
            groups[rest][count] = point
    return list(groups.values())


def _lost_without_a_queue(point: Measurement) -> bool:
    rtt, least = figure(point, "rtt_mean_us"), figure(point, "rtt_min_us")
    return figure(point, "retransmit_share") >= POLICED_LOSS and 0 < rtt <= FLAT * least + SLACK_US


def _is_full(result: ExperimentResult, point: Measurement) -> bool:
    bound = bound_for(result.ceilings, {**result.fixed, **point.parameters}, "physical")
    return bound is not None and point.throughput.value > FULL * bound.value


OF_STREAMS = Applies(kernels=("network_throughput",))
RULES = (
    Rule("network_blackhole", "point", blackhole, OF_STREAMS, degrades=True),
    Rule("network_mtu", "point", small_mtu, replace(OF_STREAMS, needs=("details.pmtu_bytes",))),
    Rule("network_no_link", "experiment", no_link, OF_STREAMS),
    Rule("network_virtual_link", "experiment", virtual_link, OF_STREAMS),
    Rule("network_link", "experiment", share_of_link, OF_STREAMS),
    Rule("network_policed", "experiment", policed, OF_STREAMS),
)
