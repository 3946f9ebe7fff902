"""Storage: reads and writes of files and block devices."""

from __future__ import annotations

from hwdyno.ceilings import stack
from hwdyno.resources.description import Doubt, Figure, Resource

RESOURCE = Resource(
    name="storage",
    title="Storage",
    subject="This storage",
    rate_word="IOPS",
    figures=(
        Figure(does="reads", how="in sequence", unit="bytes/s", pattern=("reads",)),
        Figure(does="writes", how="in sequence", unit="bytes/s", pattern=("writes",)),
        Figure(does="reads", how="at random", unit="operations/s", pattern=("reads", "random")),
        Figure(does="writes", how="at random", unit="operations/s", pattern=("writes", "random")),
    ),
    ceilings=stack.of_machine,
    why_no_ceiling=stack.why_none,
    limits=("the flash or platters behind the link", "the drive's controller", "filesystem locks"),
    page_cache=True,
    above_ceiling=Doubt(
        cause="a cache that answered for the device, a wrong unit, or a wrong ceiling",
        test="Use direct I/O on a file larger than memory and see whether the result falls",
        changes={"direct": True, "size": "64G"},
    ),
    steps_down=(
        "a drive that throttles, a full write-back cache, or a spent burst budget",
        "the drive's temperature",
    ),
    on_faults="Check dmesg and the drive's health (smartctl -a)",
    workers="numjobs",
    both_loops="storage rate iodepth",
    larger={"bs": "128k"},
)
