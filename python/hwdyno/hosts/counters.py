"""System counters and gauges out of the texts of ``/proc`` and ``/sys``, from this machine or another (proc(5))."""

from __future__ import annotations

import os
from collections.abc import Mapping

FILES = ("proc/stat", "proc/loadavg", "proc/meminfo", "proc/vmstat")
PATTERNS = (
    ("sys/devices/system/cpu", "cpu[0-9]*/cpufreq/scaling_cur_freq"),
    ("sys/class/thermal", "thermal_zone*/temp"),
)
"""Files by their directory and the pattern below it (kernel's cpufreq and hwmon docs)."""


_EVENTS = {"intr": "interrupts", "softirq": "soft_interrupts", "ctxt": "context_switches"}
"""Totals since boot in ``/proc/stat``, by the first word of their line."""


def parsed(texts: Mapping[str, str]) -> dict[str, float]:
    """The counters and gauges of ``Host.snapshot``; ``texts`` are files by their path below the root."""
    found = _processor_times(texts.get("proc/stat", ""))
    if load := texts.get("proc/loadavg", "").split():
        found["load_1m"] = float(load[0])
    for line in texts.get("proc/stat", "").splitlines():
        name, _, values = line.partition(" ")
        if name in _EVENTS and values.split():
            found[_EVENTS[name]] = float(values.split()[0])
    for line in texts.get("proc/meminfo", "").splitlines():
        if line.startswith("MemAvailable:"):
            found["memory_available_bytes"] = float(line.split()[1]) * 1024
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    for line in texts.get("proc/vmstat", "").splitlines():
        name, _, value = line.partition(" ")
        if name in {"pswpin", "pswpout"}:
            found["swap_in_bytes" if name == "pswpin" else "swap_out_bytes"] = float(value) * page_bytes
    if clocks := _numbers(texts, "scaling_cur_freq"):
        found["clock_hz"] = 1000 * sum(clocks) / len(clocks)
    if temperatures := _numbers(texts, "temp"):
        found["temperature_c"] = max(temperatures) / 1000
    return found


def _numbers(texts: Mapping[str, str], name: str) -> list[float]:
    found = (text for path, text in texts.items() if path.rpartition("/")[2] == name)
    # A sensor that is off answers with an error or with nothing.
    return [float(text) for text in found if text.strip().lstrip("-").isdigit()]


def _processor_times(stat: str) -> dict[str, float]:
    """Processor time since boot over all processors, s, from the first line of ``/proc/stat``."""
    fields = stat.partition("\n")[0].split()[1:]
    if len(fields) < 8:
        return {}
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    user, nice, system, idle, wait, irq, soft_irq, steal = (float(value) * tick_s for value in fields[:8])
    return {
        "cpu_total_s": user + nice + system + idle + wait + irq + soft_irq + steal,
        "cpu_idle_s": idle + wait,
        "cpu_user_s": user + nice,
        "cpu_steal_s": steal,
        "cpu_interrupt_s": irq + soft_irq,
    }
