"""Storage: reads and writes of files and block devices."""

from __future__ import annotations

from hwdyno.ceilings import stack
from hwdyno.resources.description import Doubt, Figure, Resource
from hwdyno.words import Parameters, Trait


def _sequential(way: Trait, typical: str) -> Figure:
    return Figure(unit="bytes/s", pattern=(way,), where={"bs": 1 << 20}, typical=typical)


def _random(way: Trait) -> Figure:
    return Figure(
        unit="operations/s", pattern=(way, "random"), where={"bs": 4096}, prefer={"iodepth": 32, "numjobs": 1}
    )


def _one_at_a_time(way: Trait, typical: str) -> Figure:
    where: Parameters = {"bs": 4096, "iodepth": 1, "numjobs": 1}
    return Figure(unit="ns", pattern=(way, "random"), where=where, lowest=True, typical=typical)


RESOURCE = Resource(
    name="storage",
    title="Storage",
    subject="This storage",
    rate_word="IOPS",
    # The field's standard tests (CrystalDiskMark's SEQ1M, RND4K), the reads first; their titles are the points' labels.
    figures=(
        _sequential("reads", "read_bytes_s"),
        _random("reads"),
        _one_at_a_time("reads", "randread_4k_q1_ns"),
        _sequential("writes", "write_bytes_s"),
        _random("writes"),
        _one_at_a_time("writes", "randwrite_4k_q1_ns"),
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
    knee="iodepth",
    survey_parts=("storage",),
)
