"""The ceiling of DRAM by its modules: transfers a second x channels with a module x 8 bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hwdyno.units import format_bytes_s, positive
from hwdyno.words import Ceiling

CHANNEL_BYTES = 8
"""Data width of a DDR channel, 64 bits (JESD79); a DDR5 module's two halves of 32 bits count as one."""
# "P0 CHANNEL A", "CPU1_DIMM_C2", "ChannelB-DIMM0", "DIMM_A1": the processor's number, if told, and the channel.
_CHANNEL = re.compile(
    r"(?:(?:CPU|P|NODE|PROC)[ _]?(\d+).*?)?(?:CHANNEL[ _-]?|DIMM[ _]?|CH[ _-]?)([A-P])(?![A-Z])", re.I
)

UNKNOWN = "unknown, no DIMM table here"


def of_modules(memory: Mapping[str, Any]) -> tuple[Ceiling, ...]:
    """The bound of all traffic together; none where the modules or their channels are not told."""
    modules = [one for one in memory.get("modules") or () if positive(one.get("size_bytes"))]
    rates = {positive(one.get("configured_mt_s")) or 0.0 for one in modules}
    channels = {_channel(one) for one in modules}
    if not modules or None in channels or 0.0 in rates:
        return ()
    # Modules of unlike speed run at the slowest one's.
    rate, count = min(rates), len(channels)
    value = rate * 1e6 * count * CHANNEL_BYTES
    formula = f"{rate:.0f} MT/s x {count} populated channel{'s' if count > 1 else ''} x 8 B = {format_bytes_s(value)}"
    source = "SMBIOS type 17: configured speed and locators of the modules that are there"
    return (Ceiling("dram_bytes_s", "physical", value, "bytes/s", formula, source, f"{count} DRAM channels"),)


def why_none(memory: Mapping[str, Any], unknown: Mapping[str, Any]) -> str:
    """Why there is no ceiling, in a sentence; empty where there is one."""
    if of_modules(memory):
        return ""
    if memory.get("modules"):
        return "memory: the DIMM table names no channels, so its theoretical bandwidth is unknown"
    why = unknown.get("memory.modules")
    return f"memory: theoretical bandwidth {UNKNOWN}" + (f" ({why})" if why else "")


def _channel(module: Mapping[str, Any]) -> tuple[str, str] | None:
    for text in (module.get("bank_locator"), module.get("locator")):
        found = _CHANNEL.search(str(text or ""))
        if found:
            return (found[1] or "", found[2].upper())
    return None
