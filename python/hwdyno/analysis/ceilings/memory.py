"""The ceilings of DRAM: by its modules (transfers per second x populated channels x 8 bytes), or as measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hwdyno.model.kernels import MEMORY_BANDWIDTH, MEMORY_LOADED_LATENCY
from hwdyno.model.machine import Machine, MemoryModule
from hwdyno.model.units import format_bytes_s, number_at, plural
from hwdyno.model.words import Ceiling, ExperimentResult, Run

CHANNEL_BYTES = 8
"""Data width of a DDR channel, 64 bits (JESD79); a DDR5 module's two halves of 32 bits count as one."""
# "P0 CHANNEL A", "CPU1_DIMM_C2", "ChannelB-DIMM0", "DIMM_A1": the processor's number, if given, and the channel.
_CHANNEL = re.compile(
    r"(?:(?:CPU|P|NODE|PROC)[ _]?(\d+).*?)?(?:CHANNEL[ _-]?|DIMM[ _]?|CH[ _-]?)([A-P])(?![A-Z])", re.I
)

UNKNOWN = "unknown (no DIMM table here)"
METRIC = "dram_bytes_s"
BANDWIDTH = (MEMORY_BANDWIDTH, MEMORY_LOADED_LATENCY)
"""The kernels that measure bandwidth."""
FROM_MEMORY_BYTES = 128 << 20
"""A working set per thread below this may fit a cache and does not measure the memory behind it."""


def of_modules(machine: Machine) -> tuple[Ceiling, ...]:
    """The bound of all traffic together; none where the modules or their channels are unknown."""
    modules = [module for module in machine.memory.modules if module.size_bytes]
    rates = {float(module.configured_mt_s or 0) for module in modules}
    channels = {_channel(module) for module in modules}
    if not modules or None in channels or 0.0 in rates:
        return ()
    # Modules of unlike speed run at the slowest one's.
    rate, count = min(rates), len(channels)
    value = rate * 1e6 * count * CHANNEL_BYTES
    formula = f"{rate:.0f} MT/s x {plural(count, 'populated channel')} x 8 B = {format_bytes_s(value)}"
    source = "SMBIOS type 17: configured speed and locators of the modules that are there"
    return (Ceiling(METRIC, "physical", value, "bytes/s", formula, source, f"{count} DRAM channels"),)


def why_none(machine: Machine) -> tuple[str, ...]:
    """A phrase on why there is no ceiling; empty where there is one."""
    if of_modules(machine):
        return ()
    if machine.memory.modules:
        return ("memory: the DIMM table names no channels, so its theoretical bandwidth is unknown",)
    why = machine.unknown.get("memory.modules")
    return (f"memory: theoretical bandwidth {UNKNOWN}" + (f": {why}" if why else ""),)


def practical(run: Run, result: ExperimentResult) -> Iterable[Ceiling]:
    """The highest bandwidth of this Run, where no table of the modules gives the theoretical one.

    None for an imported Run: the best of published figures bounds no other.
    """
    if run.imported_from or any(ceiling.kind == "physical" for ceiling in result.ceilings):
        return
    found = [
        (point.throughput.value, given)
        for _, _, point, given in run.measured_points(*BANDWIDTH)
        if point.throughput.unit == "bytes/s" and from_memory(given) and point.validity != "invalid"
    ]
    value, given = max(found, key=lambda candidate: candidate[0], default=(0.0, {}))
    if value > 0:
        formula = f"the best of this run: {given.get('operation')}, {given.get('threads')} threads"
        source = "theoretical bandwidth unknown, no DIMM table here"
        yield Ceiling(METRIC, "reference", value, "bytes/s", formula, source, "practical")


def from_memory(parameters: Mapping[str, Any]) -> bool:
    """Whether a working set is too large for a cache."""
    return number_at(parameters, "working_set") >= FROM_MEMORY_BYTES


def applies(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether the memory's bandwidth bounds a measurement with these parameters."""
    return from_memory(parameters) or "working_set" not in parameters


def _channel(module: MemoryModule) -> tuple[str, str] | None:
    for text in (module.bank_locator, module.locator):
        found = _CHANNEL.search(text or "")
        if found:
            return (found[1] or "", found[2].upper())
    return None
