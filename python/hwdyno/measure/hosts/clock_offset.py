"""Measures how far the clock of another host is from ours."""

from __future__ import annotations

import time

from hwdyno.measure.hosts.member import Member

PINGS = 8


def clock_offset_ns(member: Member) -> int:
    """A host's clock minus ours, by the quickest of some round trips (Cristian 1989): off by half of that at most."""
    best: tuple[int, int] | None = None
    for _ in range(PINGS):
        sent = time.monotonic_ns()
        there = member.clock_ns()
        back = time.monotonic_ns()
        if best is None or back - sent < best[0]:
            best = (back - sent, there - (sent + back) // 2)
    assert best is not None
    return best[1]
