"""Storage: reads and writes of files and block devices."""

from __future__ import annotations

from hwdyno.analysis.ceilings import stack
from hwdyno.analysis.resources.description import Doubt, HeadlineFigure, Resource
from hwdyno.model.words import Parameters, Trait

GRID = ("storage.grid",)
_ALONE: Parameters = {"iodepth": 1, "numjobs": 1}


def _deep(pattern: tuple[Trait, ...], unit: str, bs: int, iodepth: int, typical: str = "") -> HeadlineFigure:
    """A test at depth; of a sweep without that depth the closest one."""
    wanted: Parameters = {"iodepth": iodepth, "numjobs": 1}
    return HeadlineFigure(
        unit=unit, pattern=pattern, where={"bs": bs}, experiments=GRID, prefer=wanted, typical=typical
    )


def _alone(pattern: tuple[Trait, ...], unit: str, bs: int) -> HeadlineFigure:
    """A test with one operation at a time."""
    return HeadlineFigure(unit=unit, pattern=pattern, where={"bs": bs, **_ALONE}, experiments=GRID)


def _latency(pattern: tuple[Trait, ...], typical: str) -> HeadlineFigure:
    where: Parameters = {"bs": 4096, **_ALONE}
    return HeadlineFigure(
        title="{test} latency, {way}", unit="ns", pattern=pattern, where=where, experiments=GRID, typical=typical
    )


_READ: tuple[Trait, ...] = ("reads",)
_WRITE: tuple[Trait, ...] = ("writes",)
_RANDOM_READ: tuple[Trait, ...] = ("reads", "random")
_RANDOM_WRITE: tuple[Trait, ...] = ("writes", "random")

RESOURCE = Resource(
    name="storage",
    title="Storage",
    subject="This storage",
    rate_word="IOPS",
    # CrystalDiskMark's tests, which the field quotes; their titles are the points' labels.
    figures=(
        _deep(_READ, "bytes/s", 1 << 20, 8, "read_bytes_s"),
        _deep(_WRITE, "bytes/s", 1 << 20, 8, "write_bytes_s"),
        _alone(_READ, "bytes/s", 1 << 20),
        _alone(_WRITE, "bytes/s", 1 << 20),
        _deep(_RANDOM_READ, "operations/s", 4096, 32),
        _deep(_RANDOM_WRITE, "operations/s", 4096, 32),
        _alone(_RANDOM_READ, "operations/s", 4096),
        _alone(_RANDOM_WRITE, "operations/s", 4096),
        _latency(_RANDOM_READ, "randread_4k_q1_ns"),
        _latency(_RANDOM_WRITE, "randwrite_4k_q1_ns"),
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
