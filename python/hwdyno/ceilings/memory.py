"""The ceiling of DRAM by its modules: transfers a second x channels with a module x 8 bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hwdyno.machine import Memory, MemoryModule
from hwdyno.units import format_bytes_s, plural
from hwdyno.words import Ceiling

CHANNEL_BYTES = 8
"""Data width of a DDR channel, 64 bits (JESD79); a DDR5 module's two halves of 32 bits count as one."""
# "P0 CHANNEL A", "CPU1_DIMM_C2", "ChannelB-DIMM0", "DIMM_A1": the processor's number, if told, and the channel.
_CHANNEL = re.compile(
    r"(?:(?:CPU|P|NODE|PROC)[ _]?(\d+).*?)?(?:CHANNEL[ _-]?|DIMM[ _]?|CH[ _-]?)([A-P])(?![A-Z])", re.I
)

UNKNOWN = "unknown, no DIMM table here"


def of_modules(memory: Memory) -> tuple[Ceiling, ...]:
    """The bound of all traffic together; none where the modules or their channels are not told."""
    modules = [one for one in memory.modules if one.size_bytes]
    rates = {float(one.configured_mt_s or 0) for one in modules}
    channels = {_channel(one) for one in modules}
    if not modules or None in channels or 0.0 in rates:
        return ()
    # Modules of unlike speed run at the slowest one's.
    rate, count = min(rates), len(channels)
    value = rate * 1e6 * count * CHANNEL_BYTES
    formula = f"{rate:.0f} MT/s x {plural(count, 'populated channel')} x 8 B = {format_bytes_s(value)}"
    source = "SMBIOS type 17: configured speed and locators of the modules that are there"
    return (Ceiling("dram_bytes_s", "physical", value, "bytes/s", formula, source, f"{count} DRAM channels"),)


def why_none(memory: Memory, unknown: Mapping[str, str]) -> str:
    """Why there is no ceiling, in a sentence; empty where there is one."""
    if of_modules(memory):
        return ""
    if memory.modules:
        return "memory: the DIMM table names no channels, so its theoretical bandwidth is unknown"
    why = unknown.get("memory.modules")
    return f"memory: theoretical bandwidth {UNKNOWN}" + (f" ({why})" if why else "")


def _channel(module: MemoryModule) -> tuple[str, str] | None:
    for text in (module.bank_locator, module.locator):
        found = _CHANNEL.search(text or "")
        if found:
            return (found[1] or "", found[2].upper())
    return None
