"""System counters and gauges out of the texts of ``/proc`` and ``/sys``, from this machine or another (proc(5))."""

from __future__ import annotations

import os
from collections.abc import Mapping

from hwdyno.model.units import printed_number

FILES = ("proc/stat", "proc/loadavg", "proc/meminfo", "proc/vmstat")
PATTERNS = (
    ("sys/devices/system/cpu", "cpu[0-9]*/cpufreq/scaling_cur_freq"),
    ("sys/class/thermal", "thermal_zone*/temp"),
)
"""Files by their directory and the pattern below it (kernel's cpufreq and hwmon docs)."""


_EVENTS = {"intr": "interrupts", "softirq": "soft_interrupts", "ctxt": "context_switches"}
"""Totals since boot in ``/proc/stat``, by the first word of their line."""


def parse_counters(texts: Mapping[str, str]) -> dict[str, float]:
    """The counters and gauges of ``Host.snapshot``; ``texts`` are files by their path below the root.

    A host elsewhere sends these texts, so what is no number is as if it were not there.
    """
    found: dict[str, float | None] = dict(_processor_times(texts.get("proc/stat", "")))
    found["load_1m"] = _figure(texts.get("proc/loadavg", ""))
    for line in texts.get("proc/stat", "").splitlines():
        name, _, values = line.partition(" ")
        if name in _EVENTS:
            found[_EVENTS[name]] = _figure(values)
    for line in texts.get("proc/meminfo", "").splitlines():
        if line.startswith("MemAvailable:"):
            found["memory_available_bytes"] = _figure(line.partition(":")[2], 1024)
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    for line in texts.get("proc/vmstat", "").splitlines():
        name, _, value = line.partition(" ")
        if name in {"pswpin", "pswpout"}:
            found["swap_in_bytes" if name == "pswpin" else "swap_out_bytes"] = _figure(value, page_bytes)
    if clocks := _numbers(texts, "scaling_cur_freq"):
        found["clock_hz"] = 1000 * sum(clocks) / len(clocks)
    if temperatures := _numbers(texts, "temp"):
        found["temperature_c"] = max(temperatures) / 1000
    return {name: value for name, value in found.items() if value is not None}


def _figure(text: str, scale: float = 1) -> float | None:
    """The number that a text begins with; none if it begins with none."""
    words = text.split(maxsplit=1)
    number = printed_number(words[0]) if words else None
    return None if number is None else number * scale


def _numbers(texts: Mapping[str, str], name: str) -> list[float]:
    found = (text for path, text in texts.items() if path.rpartition("/")[2] == name)
    # A sensor that is off answers with an error or with nothing.
    return [number for text in found if (number := _figure(text)) is not None]


def _processor_times(stat: str) -> dict[str, float]:
    """Processor time since boot over all processors, s, from the first line of ``/proc/stat``."""
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    times = [_figure(field, tick_s) for field in stat.partition("\n")[0].split()[1:9]]
    known = [time for time in times if time is not None]
    if len(known) < 8:
        return {}
    user, nice, system, idle, wait, irq, soft_irq, steal = known
    return {
        "cpu_total_s": user + nice + system + idle + wait + irq + soft_irq + steal,
        "cpu_idle_s": idle + wait,
        "cpu_user_s": user + nice,
        "cpu_steal_s": steal,
        "cpu_interrupt_s": irq + soft_irq,
    }
