"""Memory: bandwidth and latency of caches and DRAM."""

from __future__ import annotations

from hwdyno.analysis.ceilings import memory
from hwdyno.analysis.resources.description import Doubt, HeadlineFigure, Resource
from hwdyno.model.kernels import MEMORY_BANDWIDTH, MEMORY_CORE_TO_CORE, MEMORY_LATENCY


def _bandwidth(operation: str, typical: str = "") -> HeadlineFigure:
    """The bandwidth of memory, beyond the caches, with all threads."""
    return HeadlineFigure(
        title=f"{operation}, {{threads}}",
        unit="bytes/s",
        kernels=(MEMORY_BANDWIDTH,),
        not_in=("memory.levels",),
        where={"operation": operation},
        experiments=("memory.grid",),
        most="threads",
        typical=typical,
    )


RESOURCE = Resource(
    name="memory",
    title="Memory",
    common_options=(
        "operation",
        "threads",
        "working-set",
        "pages",
        "delay",
        "mix",
        "node",
        "runtime",
        "profile",
        "peers",
    ),
    examples=(
        "hwdyno memory",
        "hwdyno memory latency caches",
        "hwdyno memory --operation read,nt_triad --threads 1,2 --peers",
    ),
    rate_word="accesses/s",
    figures=(
        _bandwidth("read"),
        _bandwidth("triad", "dram_bytes_s"),
        _bandwidth("copy"),
        HeadlineFigure(
            title="idle latency, {working_set}",
            unit="ns",
            kernels=(MEMORY_LATENCY,),
            most="working_set",
            prefer={"pages": "2m"},
            typical="dram_idle_ns",
        ),
    ),
    headline_rules=("loaded_latency",),
    ceilings=memory.of_modules,
    why_no_ceiling=memory.why_none,
    derived=dict.fromkeys(memory.BANDWIDTH, memory.practical),
    limits=("the lines that a core keeps in flight", "the memory's channels", "the TLB", "the link between sockets"),
    client="measured",
    latency_kernels=(MEMORY_LATENCY, MEMORY_CORE_TO_CORE),
    above_ceiling=Doubt(
        cause="a working set that fits a cache, a wrong number of channels, or a wrong ceiling",
        test="Measure again, longer",
        changes={"runtime": 5},
    ),
    on_faults="Check dmesg for machine checks and corrected memory errors",
    runtime_share=0.3,
    knee="threads",
    is_memory_traffic=True,
    survey_parts=("memory", "cpu"),
)
