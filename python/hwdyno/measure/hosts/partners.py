"""Which host of a site sends to which."""

from __future__ import annotations

from hwdyno.model.words import UserError


def parse_partners(between: str, hosts: int) -> dict[int, int]:
    """Which host sends to which: ``0-3`` is one pair, ``+2`` each to the second one after it; raises ``UserError``."""
    first, _, second = between.partition("-")
    if first.isdecimal() and second.isdecimal() and int(first) != int(second) and max(int(first), int(second)) < hosts:
        return {int(first): int(second)}
    shift = int(between[1:]) if between.startswith("+") and between[1:].isdecimal() else 0
    if not 0 < shift < hosts:
        most = hosts - 1
        raise UserError(f"--between '{between}' must be two of hosts 0 to {most}, such as 0-1, or +1 to +{most}")
    return {host: (host + shift) % hosts for host in range(hosts)}
