"""This machine as a host: the engine's three verbs, the workloads, and the counters of ``/proc`` and ``/sys``."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from hwdyno.measure import engine, workloads
from hwdyno.measure.concurrent_runs import other_runs
from hwdyno.measure.hosts import cgroups, counters, programs, smbios, under_load
from hwdyno.measure.hosts.host import KernelCall, UnderLoad
from hwdyno.measure.hosts.reference_tools import Outcome, Program
from hwdyno.measure.topology import Topology, count_gpus
from hwdyno.model.axes import with_clients
from hwdyno.model.machine import Machine
from hwdyno.model.words import Declaration
from hwdyno.system import memory_limits, signals


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
            limits = cgroups.list_limits(storage, self._root)
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
            gpus=self._gpus,
        )

    def _gpus(self) -> int:
        """GPUs that OpenCL can use; no driver is queried where no kernel driver has made a GPU's device file."""
        nodes = ("dev/nvidiactl", "dev/kfd", "dev/dri/renderD*", "dev/dxg")
        if not any(next(self._root.glob(pattern), None) for pattern in nodes):
            return 0
        return count_gpus(Machine.of_survey(engine.survey()))

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
            try:
                with signals.running():  # A library's call, such as a solve, cannot be halted.
                    return workloads.find(kernel).run(parameters)
            except MemoryError as error:
                raise OSError(errno.ENOMEM, memory_limits.explain_refusal(error)) from None
        return engine.run(kernel, parameters)

    def run_under_load(self, load: KernelCall, work: KernelCall, settle_s: float) -> UnderLoad:
        """Run a kernel while another one loads the machine; see ``Loadable.run_under_load``."""
        return under_load.run(load, work, settle_s, self.snapshot)

    def find(self, program: Program) -> str | None:
        """Where this machine has a reference tool; none if it is not installed."""
        return programs.find_program(program)

    def execute(self, program: Program) -> Outcome:
        """Run a reference tool once; see ``Programs.execute`` for what it raises."""
        return programs.execute(program)

    def snapshot(self) -> dict[str, float]:
        """System counters and gauges now, with the processor quota of this process's control groups."""
        texts = {path: self._read(path) for path in counters.FILES}
        for below, pattern in counters.PATTERNS:
            paths = (str(path.relative_to(self._root)) for path in (self._root / below).glob(pattern))
            texts |= {path: self._read(path) for path in paths}
        runs = other_runs(self._root)
        gauges = {} if runs is None else {"other_runs": float(len(runs))}
        return counters.parse_counters(texts) | cgroups.processor_periods(self._root) | gauges

    def _read(self, path: str) -> str:
        try:
            return (self._root / path).read_text()
        except OSError:
            return ""


class Alike(Local):
    """A site of alike hosts, each like this machine: plans are made for it, and nothing is measured."""

    def __init__(self, count: int, *, between: bool = False) -> None:
        super().__init__()
        self._count, self._between = count, between

    def topology(self) -> Topology:
        """What each of them has."""
        return replace(super().topology(), clients=self._count, between=self._between)

    def kernels(self) -> dict[str, Declaration]:
        """Every kernel, with the number of those that take part."""
        return with_clients(super().kernels(), self._count, between=self._between)


def installed_blas() -> tuple[str, ...]:
    """The BLAS libraries of this machine, by the names that the axis ``blas`` takes."""
    from hwdyno.measure.workloads import blas

    return tuple(blas.here())
