"""What limits the path itself: no link, the link's rate, a small MTU, an MTU black hole, a policer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from hwdyno.analysis.ceilings import bound_for
from hwdyno.analysis.ceilings.network import DATAGRAM_BYTES, IP_BYTES, count_fragments
from hwdyno.analysis.estimates import half_width
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent, quantity
from hwdyno.model.kernels import MEMORY_BANDWIDTH, NETWORK_THROUGHPUT
from hwdyno.model.units import format_ns, plural
from hwdyno.model.words import ExperimentResult, Measurement

PACED = 0.95
"""Share of the requested rate from which on that rate is the limit."""
MAX_OF_COPIES = 1.05
"""Nothing can exceed the bound of its copies by more than the intervals of both allow."""
BEYOND_CACHES_BYTES = 128 << 20
SAME, MAX_NOISE = 0.06, 0.25
"""Goodputs closer than this are the same, or than their intervals; by random loss alone, two streams double it."""
POLICED_LOSS = 3e-3
FLAT, SLACK_US = 1.5, 500.0
"""No queue builds up while the mean round trip is below this multiple of the shortest, plus this many µs."""
FULL = 0.9
STALLED_SEGMENTS = 20
HEADERS_BYTES = 52
"""Headers of IPv4 and of TCP with timestamps, per segment."""


def figure(point: Measurement, name: str) -> float:
    """A figure of a point's details; 0 where it has none."""
    return as_number(point.details.get(name)) or 0.0


def _best(case: Case, *, loopback: bool) -> Measurement | None:
    points = [point for point in case.result.points if point.details.get("loopback") is loopback and point.bytes]
    return max(points, key=lambda point: point.throughput.value, default=None)


def _copy(case: Case, point: Measurement) -> float:
    """Bytes per second that one core copies: by a short copy in the same point, or by this Run's memory experiment."""
    found = [
        copy.throughput.value / 2 / (as_number(given.get("threads")) or 1)
        for _, _, copy, given in case.run.measured_points(MEMORY_BANDWIDTH)
        if given.get("operation") in {"copy", "nt_copy"}
        and copy.throughput.unit == "bytes/s"
        and (as_number(given.get("working_set")) or 0) >= BEYOND_CACHES_BYTES
    ]
    return figure(point, "copy_bytes_s") or max(found, default=0.0)


def _is_paced(case: Case, point: Measurement) -> bool:
    """Whether a point moved the requested amount, so that nothing of the path limits it."""
    given = {**case.result.fixed, **point.parameters}
    bits_s = (as_number(given.get("rate")) or 0.0) * (as_number(given.get("streams")) or 1.0)
    ways = 2 if given.get("direction") == "both" else 1
    return bits_s > 0 and point.throughput.value >= PACED * ways * bits_s / 8


def no_link(case: Case) -> Verdict | None:
    """Loopback has no link: memory copies and CPU work are the limit."""
    best = _best(case, loopback=True)
    if best is None or _is_paced(case, best):
        return None
    copy = _copy(case, best)
    bound = bound_for(case.result.ceilings, {**case.result.fixed, **best.parameters}, "reference")
    comparison = f" One core copies {quantity(copy, 'bytes/s')} here" if copy else ""
    share = best.throughput.value / bound.value if bound is not None and bound.value else 0.0
    if bound is not None and 0 < share <= MAX_OF_COPIES:
        comparison += f"; copies alone would allow {quantity(bound.value, bound.unit)}."
        comparison += f" The result is {percent(share)} of that."
    elif share:
        comparison += ". The result exceeds what the copies allow, so the timing of the copy was disturbed."
    elif copy:
        comparison += "."
    return Verdict(
        "info",
        f"Loopback has no link: memory copies and CPU work per segment limit it to {quantity(best.throughput)}. "
        f"Both ends together spend {format_ns(figure(best, 'cpu_ns_per_kib'))} per KiB.{comparison}",
        {
            "best_bytes_s": best.throughput.value,
            "copy_bytes_s": copy,
            "copies_bound_bytes_s": bound.value if bound else 0.0,
            "cpu_ns_per_kib": figure(best, "cpu_ns_per_kib"),
        },
        "Measure a real path: `hwdyno network server --bind ADDR` there, `hwdyno network --server ADDR` here.",
    )


def virtual_link(case: Case) -> Verdict | None:
    """A veth, a tun or a bridge of them has no wire: its stated speed is a constant."""
    best = _best(case, loopback=False)
    if best is None or best.details.get("interface_virtual") is not True:
        return None
    name = best.details.get("interface")
    stated = figure(best, "interface_bits_s")
    word = f" Its stated {stated / 1e9:g} Gbit/s is a constant of the driver." if stated else ""
    return Verdict(
        "info",
        f"No ceiling is known for the {quantity(best.throughput)} of interface {name}: it is virtual and has no link."
        f"{word}",
        {"interface": name, "stated_bits_s": stated, "best_bytes_s": best.throughput.value},
        "Give the path's rate if you know it: "
        + case.next_run("network", streams="1..8", ceiling="rated 1 Gbit/s", **server_options(case.result)),
    )


def share_of_link(case: Case) -> Verdict | None:
    """The result's share of what the interface's link leaves for payload."""
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
        f"The best result is {percent(share)} of {bound.ceiling.label}: {quantity(best.throughput)} of "
        f"{quantity(bound.value, bound.unit)} of payload ({bound.formula.partition(' = ')[0]}).",
        {"best_bytes_s": best.throughput.value, "link_bytes_s": bound.value, "share": share},
        "Nothing to do: the link is saturated."
        if share > FULL
        else "See the findings on single points for what each end waited for.",
    )


def small_mtu(case: Case) -> Verdict | None:
    """The path's MTU is smaller than the interface's."""
    point = case.point
    pmtu, interface_mtu = figure(point, "pmtu_bytes"), figure(point, "interface_mtu_bytes")
    if not pmtu or not interface_mtu or pmtu >= interface_mtu or point.details.get("loopback") is True:
        return None
    name = point.details.get("interface")
    return Verdict(
        "info",
        f"The path's MTU is smaller than that of {name}: {pmtu:.0f} vs {interface_mtu:.0f} B ({case.label}). "
        f"The {HEADERS_BYTES} B of headers are sent more often. "
        "Possible causes: a tunnel or a wrong setting on the way.",
        {"pmtu_bytes": pmtu, "mtu_bytes": interface_mtu, "interface": name},
        "Find where it shrinks: tracepath -n " + str(case.parameter("server") or "SERVER"),
        weight=interface_mtu - pmtu,
    )


def check_fragments(case: Case) -> Verdict | None:
    """Datagrams above the MTU, which go in several packets and are lost with each of them."""
    point, block = case.point, case.number("block")
    mtu = figure(point, "pmtu_bytes") or figure(point, "interface_mtu_bytes")
    if case.parameter("protocol") != "udp" or not block or not mtu or point.details.get("loopback") is True:
        return None
    count = count_fragments(block, mtu)
    if count < 2:
        return None
    fits = int(mtu) - IP_BYTES - DATAGRAM_BYTES
    return Verdict(
        "warning",
        f"Each datagram of {block:,.0f} B goes in {count} fragments, because the MTU is {mtu:,.0f} B ({case.label}). "
        f"Where one is lost, all of it is: {count} times the loss of single packets. Firewalls and tunnels drop "
        "fragments, too.",
        {"fragments": count, "mtu_bytes": mtu, "block": block},
        f"Send datagrams that fit: {case.command(block=fits)}",
        weight=float(count),
    )


def blackhole(case: Case) -> Verdict | None:
    """Small messages pass and full segments do not: a smaller MTU on the way that is not reported to the sender."""
    point = case.point
    if case.parameter("protocol") == "udp" or point.details.get("loopback") is True:
        return None
    mss = figure(point, "mss_bytes")
    stalled = point.bytes < STALLED_SEGMENTS * mss and point.elapsed_s / max(1, point.repeats) >= 0.2
    # The other end answered on the control connection, whose messages are short, so the path works.
    answered = point.details.get("server") not in {None, "gone"}
    if not mss or not stalled or not answered or figure(point, "retransmits") < 1:
        return None
    pmtu = figure(point, "pmtu_bytes") or mss + HEADERS_BYTES
    return Verdict(
        "warning",
        f"Path MTU black hole ({case.label}): short messages pass, segments of {mss:.0f} B do not. "
        f"Only {point.bytes} B arrived after {plural(figure(point, 'retransmits'), 'retransmission')}. "
        f"A hop on the path has an MTU below {pmtu:.0f} B and does not report it.",
        {"mss_bytes": mss, "pmtu_bytes": pmtu, "received_bytes": point.bytes},
        "Allow ICMP 'fragmentation needed' on the path, lower the MTU here, or set net.ipv4.tcp_mtu_probing=1. "
        f"Check that short segments pass: {case.command(mss=1000)}",
        weight=mss,
        explains=("not_steady",),
    )


def check_policing(case: Case) -> Verdict | None:
    """Segments are lost without a queue, and goodput stays the same with more streams: a policer.

    With random loss, more streams carry more; at a full link a queue builds up and round trips take longer
    (Flach et al., An Internet-Wide Analysis of Traffic Policing, SIGCOMM 2016).
    """
    for group in _by_streams(case.result):
        counts = sorted(group)
        if len(counts) < 2 or not all(_lost_without_a_queue(point) for point in group.values()):
            continue
        rates = [group[count].throughput.value for count in counts]
        noise = max(half_width(group[count].throughput) or 0.0 for count in counts)
        if max(rates) / min(rates) - 1 > max(SAME, min(noise, MAX_NOISE)) or _is_full(case.result, group[counts[-1]]):
            continue
        last = group[counts[-1]]
        rtt_ns, min_ns = figure(last, "rtt_mean_us") * 1e3, figure(last, "rtt_min_us") * 1e3
        return Verdict(
            "warning",
            f"The path is policed: goodput stays at {quantity(last.throughput)} from {counts[0]:.0f} to "
            f"{counts[-1]:.0f} streams, and {percent(figure(last, 'retransmit_share'))} of the segments are "
            f"retransmitted. No queue builds up: a round trip takes {format_ns(rtt_ns)}, the shortest "
            f"{format_ns(min_ns)}. So packets above a rate are dropped, not queued.",
            {
                "goodput_bytes_s": last.throughput.value,
                "retransmit_share": figure(last, "retransmit_share"),
                "rtt_mean_us": figure(last, "rtt_mean_us"),
                "rtt_min_us": figure(last, "rtt_min_us"),
            },
            "Send below that rate and check that the loss ends: "
            + case.next_run(
                "network", streams="1", rate=str(round(0.9 * 8 * last.throughput.value)), **server_options(case.result)
            ),
            points=tuple(case.result.points.index(point) for point in group.values()),
        )
    return None


def server_options(result: ExperimentResult) -> dict[str, str]:
    """The options that name the other end in a command; none for a local server."""
    given = {**(result.points[0].parameters if result.points else {}), **result.fixed}
    port = given.get("port") not in {None, "", 0, 5201} and {"port": str(given["port"])}
    return {"server": str(given["server"]), **(port or {})} if given.get("server") else {}


def _by_streams(result: ExperimentResult) -> list[dict[float, Measurement]]:
    """Groups of points that differ only in their number of streams: TCP with loss-based congestion control."""
    groups: dict[tuple[tuple[str, str], ...], dict[float, Measurement]] = defaultdict(dict)
    for point in result.points:
        parameters = {**result.fixed, **point.parameters}
        count = as_number(parameters.get("streams"))
        driven = point.details.get("congestion_control") in {"cubic", "reno"}
        if count and driven and parameters.get("protocol") != "udp" and point.validity != "invalid":
            others = tuple(sorted((k, str(v)) for k, v in point.parameters.items() if k != "streams"))
            groups[others][count] = point
    return list(groups.values())


def _lost_without_a_queue(point: Measurement) -> bool:
    rtt, least = figure(point, "rtt_mean_us"), figure(point, "rtt_min_us")
    return figure(point, "retransmit_share") >= POLICED_LOSS and 0 < rtt <= FLAT * least + SLACK_US


def _is_full(result: ExperimentResult, point: Measurement) -> bool:
    bound = bound_for(result.ceilings, {**result.fixed, **point.parameters}, "physical")
    return bound is not None and point.throughput.value > FULL * bound.value


OF_STREAMS = Applies(kernels=(NETWORK_THROUGHPUT,))
RULES = (
    Rule("network_blackhole", "point", blackhole, OF_STREAMS, degrades=True),
    Rule("network_mtu", "point", small_mtu, replace(OF_STREAMS, needs=("details.pmtu_bytes",))),
    Rule("network_fragments", "point", check_fragments, replace(OF_STREAMS, needs=("details.interface_mtu_bytes",))),
    Rule("network_no_link", "experiment", no_link, OF_STREAMS),
    Rule("network_virtual_link", "experiment", virtual_link, OF_STREAMS),
    Rule("network_link", "experiment", share_of_link, OF_STREAMS),
    Rule("network_policed", "experiment", check_policing, OF_STREAMS),
)
