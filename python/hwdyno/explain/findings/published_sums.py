"""Figures of a network test that do not fit its own lines: intervals, a mean with the first reply, large echoes."""

from __future__ import annotations

from math import ceil

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict
from hwdyno.model.axes import is_loopback
from hwdyno.model.units import format_bytes, format_ns, number_at, plural

FIRST_ABOVE, MEAN_ABOVE = 1.5, 0.05
"""A first reply this many times the others' mean and above all, that raises the mean by this share."""
FRAGMENT, PACKET_BYTES = 1480, 1538
"""Bytes of ICMP in one packet of an Ethernet of 1500 B, and what such a packet takes on the wire (IEEE 802.3)."""
GIGABIT_BYTES_S = 125e6
MIN_SHARE = 0.2


def intervals_apart(case: Case) -> Verdict | None:
    """Intervals that move other bytes together than the last line of their test states."""
    sums = case.point.details.get("wrong_sum") or {}
    together, whole = number_at(sums, "together"), number_at(sums, "whole")
    if not together or not whole:
        return None
    return Verdict(
        "warning",
        f"The transfers of {plural(number_at(sums, 'intervals'), 'interval')} add up to {format_bytes(together)}, but "
        f"the last line states {format_bytes(whole)} ({case.label}). Digits were lost or typed, or lines are missing.",
        dict(sums),
        "Check the intervals against the tool's output: rate x time is what each moved.",
        weight=max(together, whole) / min(together, whole),
    )


def first_reply(case: Case) -> Verdict | None:
    """A mean of ping that its first reply raises."""
    found, latency = case.point.details.get("first_reply") or {}, case.point.latency_ns
    first, others, most = (number_at(found, name) * 1e9 for name in ("first", "mean", "max"))
    if latency is None or not others or first < FIRST_ABOVE * others or first <= most:
        return None
    if latency.mean < (1 + MEAN_ABOVE) * others:
        return None
    return Verdict(
        "warning",
        f"The mean, {format_ns(latency.mean)}, includes the first reply, {format_ns(first)} ({case.label}): the other "
        f"{number_at(found, 'count') - 1:.0f} have {format_ns(others)}. The first often waits for an address (ARP).",
        {"first_ns": first, "others_ns": others, "mean_ns": latency.mean},
        "Leave out the first reply, or take the median.",
        weight=first / others,
    )


def large_echo(case: Case) -> Verdict | None:
    """A round trip of large messages, whose time is to a good part that of sending them."""
    size, latency = case.number("message"), case.point.latency_ns
    packets = ceil((size or 0) / FRAGMENT)
    is_far = case.parameter("protocol") == "icmp" and not is_loopback(str(case.parameter("path") or ""))
    if latency is None or packets < 2 or not is_far:
        return None
    sending = 2e9 * packets * PACKET_BYTES / GIGABIT_BYTES_S
    if not MIN_SHARE * latency.mean <= sending <= latency.mean:
        return None
    return Verdict(
        "warning",
        f"{format_ns(latency.mean)} is the time of large messages there and back, not the network's latency "
        f"({case.label}). A link of 1 Gbit/s takes {format_ns(sending)} to send one both ways, in "
        f"{plural(packets, 'packet')} each.",
        {"message": size, "packets": packets, "sending_ns": sending},
        "Measure latency with small messages (ping sends 56 B by default): hwdyno network latency",
        weight=latency.mean / sending,
    )


RULES = (
    Rule(
        "intervals_apart",
        "point",
        intervals_apart,
        Applies(imported=True, resources=("network",), needs=("details.wrong_sum",)),
    ),
    Rule(
        "first_reply",
        "point",
        first_reply,
        Applies(imported=True, resources=("network",), needs=("latency", "details.first_reply")),
    ),
    Rule(
        "large_echo",
        "point",
        large_echo,
        Applies(imported=True, resources=("network",), needs=("latency", "parameters.message")),
    ),
)
