"""Values of an axis that a site decides: its processors, NUMA nodes, clients and pairs of hosts."""

from __future__ import annotations

from hwdyno.measure.sweep import powers
from hwdyno.measure.topology import FromSite

ALL = FromSite("all processors", lambda site: (site.processors,))


ONE_AND_ALL = FromSite("1 and all processors", lambda site: tuple(sorted({1, site.processors})))


ALL_BUT_ONE = FromSite("all processors but one", lambda site: (max(1, site.processors - 1),))


OF_ONE_NODE = FromSite("the processors of a NUMA node", lambda site: (max(1, site.processors // len(site.cpu_nodes)),))


CLIENTS = FromSite("1 to all clients", lambda site: powers(1, site.clients))


PAIRS = FromSite("each two hosts, both ways", lambda site: list_pairs(site.clients))


SHIFTS = FromSite("every shift", lambda site: tuple(f"+{shift}" for shift in range(1, site.clients)))


HALF = FromSite("half of the hosts on", lambda site: (f"+{site.clients // 2}",))


CPU_NODES = FromSite("the NUMA nodes with processors", lambda site: site.cpu_nodes)


MEMORY_NODES = FromSite("the NUMA nodes with memory", lambda site: site.memory_nodes)


def list_pairs(hosts: int) -> tuple[str, ...]:
    """Every ordered pair of this many hosts, as the axis ``between`` has it."""
    return tuple(f"{host}-{other}" for host in range(hosts) for other in range(hosts) if host != other)


def doublings(least: int) -> FromSite:
    """1, 2, 4 … up to all processors of the site, and up to ``least`` where it has fewer."""
    return FromSite("1 to all processors", lambda site: powers(1, max(least, site.processors)))
