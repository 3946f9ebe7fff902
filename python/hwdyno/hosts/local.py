"""This machine as a host: the engine's three verbs, the workloads, and the counters of ``/proc`` and ``/sys``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hwdyno import engine, workloads
from hwdyno.hosts import cgroups, smbios
from hwdyno.machine import Machine
from hwdyno.topology import Topology
from hwdyno.words import Declaration


class Local:
    """The machine that hwdyno runs on; ``root`` may be a recorded tree in a test of ``snapshot``."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def survey(self, path: Path | None = None) -> Machine:
        """Describe this machine, with the storage behind ``path``."""
        found = engine.survey(path)
        modules, why = smbios.modules(self._root)
        found["memory"] = {**(found.get("memory") or {}), "modules": modules}
        if storage := found.get("storage"):
            limits = cgroups.limits_of(storage, self._root)
            found["storage"] = {**storage, "limits": limits} if limits else storage
        if why:
            found["unknown"] = {**(found.get("unknown") or {}), "memory.modules": why}
        return Machine.of_survey(found)

    def topology(self) -> Topology:
        """The processors that this process may use, and the NUMA nodes as the system lists them."""
        allowed = getattr(os, "sched_getaffinity", None)
        return Topology(
            processors=len(allowed(0)) if allowed else os.cpu_count() or 1,
            cpu_nodes=self._nodes("has_cpu"),
            memory_nodes=self._nodes("has_memory"),
        )

    def _nodes(self, name: str) -> tuple[int, ...]:
        """The nodes of a list such as ``0-1,4``; node 0 where there is none."""
        parts = [part.partition("-") for part in self._read(f"sys/devices/system/node/{name}").strip().split(",")]
        try:
            return tuple(node for low, dash, high in parts for node in range(int(low), int(high if dash else low) + 1))
        except ValueError:
            return (0,)

    def kernels(self) -> dict[str, Declaration]:
        """Every kernel's and every workload's declaration by its name."""
        return engine.kernels() | workloads.all()

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Run a kernel once and give its Reading; see ``Host.run`` for what it raises."""
        if kernel in workloads.WORKLOADS:
            return workloads.find(kernel).run(parameters)
        return engine.run(kernel, parameters)

    def snapshot(self) -> dict[str, float]:
        """System counters and gauges now, from ``/proc`` and ``/sys`` (proc(5), kernel's cpufreq and hwmon docs)."""
        found: dict[str, float] = {}
        found |= _processor_times(self._read("proc/stat"))
        load = self._read("proc/loadavg").split()
        if load:
            found["load_1m"] = float(load[0])
        for line in self._read("proc/meminfo").splitlines():
            if line.startswith("MemAvailable:"):
                found["memory_available_bytes"] = float(line.split()[1]) * 1024
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        for line in self._read("proc/vmstat").splitlines():
            name, _, value = line.partition(" ")
            if name in {"pswpin", "pswpout"}:
                found["swap_in_bytes" if name == "pswpin" else "swap_out_bytes"] = float(value) * page_bytes
        clocks = self._numbers("sys/devices/system/cpu", "cpu[0-9]*/cpufreq/scaling_cur_freq")
        found |= cgroups.processor_periods(self._root)
        if clocks:
            found["clock_hz"] = 1000 * sum(clocks) / len(clocks)
        temperatures = self._numbers("sys/class/thermal", "thermal_zone*/temp")
        if temperatures:
            found["temperature_c"] = max(temperatures) / 1000
        return found

    def _read(self, path: str) -> str:
        try:
            return (self._root / path).read_text()
        except OSError:
            return ""

    def _numbers(self, below: str, pattern: str) -> list[float]:
        texts = (self._read(str(path.relative_to(self._root))) for path in (self._root / below).glob(pattern))
        # A sensor that is off answers with an error or with nothing.
        return [float(text) for text in texts if text.strip().lstrip("-").isdigit()]


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
    }
