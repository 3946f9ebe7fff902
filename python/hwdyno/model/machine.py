"""The Machine of a Run document as frozen types: what the survey reports of one host, without computation.

Names contain their units, as in ``words``. A fact that the survey does not give is none, or an empty tuple;
``Machine.unknown`` has the reason by dotted path, such as ``storage.disks.0.serial``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, cast

from hwdyno.model.typed_fields import typed_fields

Number = int | float
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class OperatingSystem:
    """The kernel and the distribution."""

    kernel: str | None = None
    distribution: str | None = None
    architecture: str | None = None
    io_uring: bool | None = None
    """Whether this process may use it: sysctls and containers forbid it."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """A processor's clock rates, Hz."""

    measured: Number | None = None
    base: Number | None = None
    max: Number | None = None


@dataclass(frozen=True, slots=True)
class Cache:
    """One kind of cache: its level, and by how many threads each instance is shared."""

    level: int | None = None
    type: str | None = None
    """``data``, ``instruction`` or ``unified``."""
    size_bytes: int | None = None
    shared_threads: int | None = None
    instances: int | None = None


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node: its processors and its memory."""

    node: int | None = None
    cpus: tuple[int, ...] = ()
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Cpu:
    """The processors, all sockets together."""

    model: str | None = None
    vendor: str | None = None
    sockets: int | None = None
    cores: int | None = None
    threads: int | None = None
    """Hardware threads that are online."""
    clock_hz: Clocks = Clocks()
    caches: tuple[Cache, ...] = ()
    isa: tuple[str, ...] = ()
    """Instruction sets by feature bits, such as ``avx2``."""
    numa_nodes: tuple[NumaNode, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryModule:
    """One populated socket, by SMBIOS type 17."""

    locator: str | None = None
    bank_locator: str | None = None
    size_bytes: int | None = None
    configured_mt_s: Number | None = None
    """Transfers a second in millions."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Main memory and swap."""

    total_bytes: int | None = None
    available_bytes: int | None = None
    swap_total_bytes: int | None = None
    huge_page_bytes: int | None = None
    transparent_huge_pages: str | None = None
    modules: tuple[MemoryModule, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """The wire of a device; ``bits_s`` is the rate at which it signals, before any encoding."""

    type: str | None = None
    """``pcie``, ``sata``, ``sas``, ``usb``, ``mmc``, ``network``, or ``none`` of a virtual device."""
    generation: int | str | None = None
    lanes: int | None = None
    generation_max: int | str | None = None
    lanes_max: int | None = None
    bits_s: Number | None = None
    bits_s_max: Number | None = None
    address: str | None = None
    slot_generation_max: int | None = None
    slot_lanes_max: int | None = None
    upstream: Link | None = None
    """A slower PCIe link between the device and the processor."""
    mode: str | None = None
    """Mode of a memory card's bus."""
    clock_hz: Number | None = None
    nic: str | None = None
    """The interface that a network filesystem is reached by."""


@dataclass(frozen=True, slots=True)
class BlockQueue:
    """The kernel's request queue of a disk."""

    scheduler: str | None = None
    nr_requests: int | None = None
    max_sectors_bytes: int | None = None
    io_poll: bool | None = None
    write_cache: str | None = None
    logical_block_bytes: int | None = None
    physical_block_bytes: int | None = None
    nr_hw_queues: int | None = None


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk, or a file server, at the bottom of a storage chain."""

    name: str | None = None
    kind: str | None = None
    rotational: bool | None = None
    model: str | None = None
    serial: str | None = None
    size_bytes: int | None = None
    firmware: str | None = None
    driver: str | None = None
    link: Link | None = None
    queue: BlockQueue | None = None
    temperature_c: Number | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer between the filesystem and its disks: a partition, RAID, encryption, a volume."""

    name: str | None = None
    kind: str | None = None
    detail: str | None = None
    on: tuple[str, ...] = ()
    """The names of the layers or disks below it."""
    level: str | None = None
    """Level of a RAID."""


@dataclass(frozen=True, slots=True)
class IoLimit:
    """A control group's limits on one block device."""

    device: str | None = None
    read_bytes_s: Number | None = None
    write_bytes_s: Number | None = None
    read_operations_s: Number | None = None
    write_operations_s: Number | None = None


@dataclass(frozen=True, slots=True)
class Storage:
    """The storage behind one path."""

    path: str | None = None
    mount_point: str | None = None
    filesystem: str | None = None
    options: tuple[str, ...] = ()
    source: str | None = None
    size_bytes: int | None = None
    free_bytes: int | None = None
    chain: tuple[Layer, ...] = ()
    disks: tuple[Disk, ...] = ()
    limits: tuple[IoLimit, ...] = ()

    @property
    def disk(self) -> Disk:
        """The first disk; one without any fact where none is known."""
        return self.disks[0] if self.disks else Disk()


@dataclass(frozen=True, slots=True)
class Nic:
    """A network interface."""

    name: str | None = None
    driver: str | None = None
    virtual: bool | None = None
    bits_s: Number | None = None
    mtu: int | None = None
    up: bool | None = None
    link: Link | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """A graphics processor or accelerator."""

    name: str | None = None
    vendor: str | None = None
    vendor_id: str | None = None
    device_id: str | None = None
    model: str | None = None
    driver: str | None = None
    link: Link | None = None


@dataclass(frozen=True, slots=True)
class GpuLibrary:
    """A library of a GPU's maker that was looked for."""

    name: str | None = None
    found: bool | None = None
    says: str | None = None
    """Its number of devices, or why it has none."""


@dataclass(frozen=True, slots=True)
class OpenClDevice:
    """What an OpenCL driver states of a device."""

    name: str | None = None
    vendor: str | None = None
    platform: str | None = None
    kind: str | None = None
    """``gpu``, ``accelerator`` or ``cpu``."""
    driver: str | None = None
    version: str | None = None
    compute_units: int | None = None
    clock_max_hz: Number | None = None
    memory_bytes: int | None = None
    local_memory_bytes: int | None = None
    cache_bytes: int | None = None
    precisions: tuple[str, ...] = ()
    shares_host_memory: bool | None = None


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """What the CUDA driver states of a GPU; from ``clock_hz`` on, what NVML states."""

    name: str | None = None
    bus: str | None = None
    cuda_version: str | None = None
    """The newest CUDA that the driver serves."""
    compute_capability: str | None = None
    multiprocessors: int | None = None
    clock_max_hz: Number | None = None
    memory_clock_max_hz: Number | None = None
    memory_bus_bits: int | None = None
    l2_bytes: int | None = None
    copy_engines: int | None = None
    threads_per_multiprocessor: int | None = None
    memory_bytes: int | None = None
    clock_hz: Number | None = None
    memory_clock_hz: Number | None = None
    boost_max_hz: Number | None = None
    link_generation: int | None = None
    link_lanes: int | None = None
    link_generation_max: int | None = None
    link_lanes_max: int | None = None
    power_mw: Number | None = None
    power_limit_mw: Number | None = None
    temperature_c: Number | None = None
    slowed_by: tuple[str, ...] = ()
    """Why its clock is lower than it could be, such as ``power cap``."""
    ecc: bool | None = None
    mig: bool | None = None
    driver: str | None = None


@dataclass(frozen=True, slots=True)
class GpuDrivers:
    """What the GPUs' own libraries say; nothing of a recorded machine, whose libraries are elsewhere."""

    looked_for: tuple[GpuLibrary, ...] = ()
    opencl: tuple[OpenClDevice, ...] = ()
    cuda: tuple[CudaDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class Container:
    """The container or control group around the measuring process, and its limits."""

    kind: str | None = None
    cpu_limit: Number | None = None
    """The limit in processors."""
    cpuset: tuple[int, ...] = ()
    """Processors that the process may run on."""
    memory_limit_bytes: int | None = None
    memory_left_bytes: int | None = None
    """The tightest limit less what is used below it, the page cache apart."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The state of the machine just before the first point."""

    load_1m: Number | None = None
    others_cpu_share: Number | None = None
    """Share of all processors' time that other processes had over half a second before the first point."""
    governor: str | None = None
    turbo: bool | None = None
    steal_share: Number | None = None
    swap_in_bytes_s: Number | None = None
    swap_out_bytes_s: Number | None = None
    memory_available_bytes: int | None = None
    temperature_c: Number | None = None
    tcp_congestion_control: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What an administrator or an environment set, and what slows figures down where it is set wrong."""

    environment: dict[str, str] = field(default_factory=dict)
    """The variables that numeric libraries, their threads and the allocator obey: ``OPENBLAS_CORETYPE`` …"""
    nice: int | None = None
    """The measuring process's; above 0 other processes get the CPU first."""
    limits: dict[str, str] = field(default_factory=dict)
    """The process's soft resource limits by name, ``unlimited`` or a number, of bytes where it is memory."""
    smt: str | None = None
    """Whether a core runs several threads, in the kernel's word: ``on``, ``off``, ``notsupported`` …"""
    mitigations: dict[str, str] = field(default_factory=dict)
    """What the kernel does about each of the processor's vulnerabilities; without those that do not affect it."""
    debug_kernel: tuple[str, ...] = ()
    """The checks of a kernel built or started for debugging, such as ``lockdep``; empty for any other."""


def node_name(host: str) -> str:
    """The node that a host of a site is on: a rank's name ends in its number."""
    name, rank, number = host.rpartition(" rank ")
    return name if rank and number.isdecimal() else host


@dataclass(frozen=True, slots=True)
class Machine:
    """One host that was measured: its parts, its limits, and its conditions before the first point."""

    hostname: str | None = None
    board: str | None = None
    os: OperatingSystem = OperatingSystem()
    cpu: Cpu = Cpu()
    memory: Memory = Memory()
    storage: Storage = Storage()
    nics: tuple[Nic, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    gpu_drivers: GpuDrivers = GpuDrivers()
    hypervisor: str | None = None
    """None on bare metal, unless ``unknown`` has a reason."""
    container: Container = Container()
    conditions: Conditions = Conditions()
    settings: Settings = Settings()
    unknown: dict[str, str] = field(default_factory=dict)
    """Why a fact is not known, by its dotted path."""
    other: dict[str, Any] = field(default_factory=dict)
    """What a survey gave that has no field here, by dotted path: that of another version, or a resource's ``facts``."""

    @classmethod
    def of_survey(cls, survey: Mapping[str, Any]) -> Machine:
        """The Machine of a survey's JSON; nothing in it is lost, of any version."""
        other: dict[str, Any] = {}
        values = typed_fields(cls, {key: value for key, value in survey.items() if key != "other"}, "", other)
        given = survey.get("other")
        return cls(**{**values, "other": (given if isinstance(given, dict) else {}) | other})

    def part(self, name: str, kind: type[Part]) -> Part:
        """A part of the survey that has no field here, as the type that its resource's file declares for it."""
        plain = self.other.get(name)
        values = typed_fields(kind, plain if isinstance(plain, Mapping) else {}, name, {})
        made: Part = cast(Any, kind)(**values)
        return made


def survey_from_machine(machine: Machine) -> dict[str, Any]:
    """The Machine as plain JSON values in the survey's shape, with what has no field under ``other``."""
    plain: dict[str, Any] = _plain(machine)
    return plain


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {attribute.name: _plain(getattr(value, attribute.name)) for attribute in fields(value)}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return value
