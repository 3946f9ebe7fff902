"""Memory: bandwidth and latency of caches and DRAM."""

from __future__ import annotations

from hwdyno.ceilings import memory
from hwdyno.resources.description import Doubt, Resource

RESOURCE = Resource(
    name="memory",
    title="Memory",
    rate_word="accesses/s",
    ceilings=memory.of_modules,
    why_no_ceiling=memory.why_none,
    derived=dict.fromkeys(memory.BANDWIDTH, memory.practical),
    limits=("the lines that a core keeps in flight", "the memory's channels", "the TLB", "the link between sockets"),
    client="measured",
    above_ceiling=Doubt(
        cause="a working set that fits a cache, a wrong number of channels, or a wrong ceiling",
        test="Measure again, longer",
        changes={"runtime": 5},
    ),
    on_faults="Check dmesg for machine checks and corrected memory errors",
    runtime_share=0.3,
    knee="threads",
    is_memory_traffic=True,
)
