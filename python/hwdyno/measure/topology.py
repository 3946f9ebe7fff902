"""What a sweep may depend on of the site that its plan is made for: its processors and its NUMA nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hwdyno.model.machine import GpuDrivers, Machine


@dataclass(frozen=True, slots=True)
class Topology:
    """The processors that a measuring process may use, and the NUMA nodes, of each host of a site."""

    processors: int = 1
    cpu_nodes: tuple[int, ...] = (0,)
    """NUMA nodes with processors; node 0 where the system lists none."""
    memory_nodes: tuple[int, ...] = (0,)
    """NUMA nodes with memory."""
    clients: int = 1
    """The hosts of the site."""
    between: bool = False
    """Whether they serve network measurements of each other."""
    gpus: Callable[[], int] = field(default=lambda: 0, compare=False)
    """The GPUs that can be measured; counted only where a plan may have them, since drivers take their time."""

    @classmethod
    def of_machine(cls, machine: Machine) -> Topology:
        """The topology that a survey gives."""
        nodes = [node for node in machine.cpu.numa_nodes if node.node is not None]
        return cls(
            processors=len(machine.container.cpuset) or machine.cpu.threads or 1,
            cpu_nodes=tuple(node.node or 0 for node in nodes if node.cpus) or (0,),
            memory_nodes=tuple(node.node or 0 for node in nodes if node.memory_bytes) or (0,),
            gpus=lambda: count_gpus(machine),
        )

    @classmethod
    def common(cls, hosts: Sequence[Topology]) -> Topology:
        """What every host has: one point runs on all of them."""
        first, *others = hosts
        return cls(
            clients=len(hosts),
            processors=min(host.processors for host in hosts),
            cpu_nodes=tuple(node for node in first.cpu_nodes if all(node in host.cpu_nodes for host in others)) or (0,),
            memory_nodes=tuple(n for n in first.memory_nodes if all(n in host.memory_nodes for host in others)) or (0,),
            gpus=lambda: min(host.gpus() for host in hosts),
        )


def count_gpus(machine: Machine) -> int:
    """The GPUs of the machine that can be measured."""
    return gpus_in(machine.gpu_drivers)


def gpus_in(drivers: GpuDrivers) -> int:
    """The GPUs that CUDA has, where its compiler is here, or else those that OpenCL lists; a driver of the processor
    is none."""
    compiles = any(library.found and (library.name or "").startswith("libnvrtc") for library in drivers.looked_for)
    by_cuda = len(drivers.cuda) if compiles else 0
    return by_cuda or sum(device.kind != "cpu" for device in drivers.opencl)


def why_no_gpu(drivers: GpuDrivers, on_processor: str) -> str:
    """Why no GPU can be measured and what mends it, with the command that measures the processor instead."""
    found = "; ".join(f"{library.name}: {library.says}" for library in drivers.looked_for)
    remedy = "install the GPU's OpenCL driver"
    if drivers.cuda:
        remedy = "install CUDA's compiler: pip install nvidia-cuda-nvrtc"
    elif any(device.kind == "cpu" for device in drivers.opencl):
        remedy += f", or measure the processor through OpenCL: {on_processor}"
    return f"no GPU can be measured here ({found or 'nothing was looked for'}); {remedy}"


@dataclass(frozen=True, slots=True)
class FromSite:
    """Values of an axis that are known only when a plan is made for a site."""

    name: str
    """The name for people, such as ``all processors``."""
    values: Callable[[Topology], tuple[int | str, ...]]
