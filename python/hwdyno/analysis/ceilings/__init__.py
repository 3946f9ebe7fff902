"""What the hardware could deliver at most: from its links, from makers' figures, or as given, each with its formula.

A resource's description in ``resources`` says which it has.

Metrics: ``read_bytes_s`` and ``write_bytes_s`` bound one direction, ``total_bytes_s`` both together,
``randread_4k_iops`` and ``randwrite_4k_iops`` random operations of 4 KiB or more, ``dram_bytes_s`` what goes past
all caches, ``flop_s/OPERATION/PRECISION/ISA/CORES`` one loop of arithmetic (``flop_s/*/CORES`` any in double).
"""

from __future__ import annotations

from hwdyno.analysis.ceilings.bounds import (
    Bound,
    Utilization,
    applies_by_key,
    block_bytes,
    bound_for,
    bounds_for,
    find_bound,
    utilizations,
)
from hwdyno.analysis.ceilings.given import parse_given

__all__ = [
    "Bound",
    "Utilization",
    "applies_by_key",
    "block_bytes",
    "bound_for",
    "bounds_for",
    "find_bound",
    "parse_given",
    "utilizations",
]
