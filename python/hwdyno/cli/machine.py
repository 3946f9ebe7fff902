"""``hwdyno machine``: what this machine is, what bounds it, and what is unknown with the reason."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from hwdyno.cli.help import Help
from hwdyno.cli.options import add_ceiling
from hwdyno.model.units import format_size, format_value, plural
from hwdyno.model.words import Ceiling, UserError
from hwdyno.system.printable import console_on, printable

if TYPE_CHECKING:
    from rich.console import Console

    from hwdyno.model.machine import (
        BlockQueue,
        Conditions,
        Cpu,
        CudaDevice,
        Gpu,
        GpuDrivers,
        Link,
        Machine,
        Memory,
        Nic,
        OpenClDevice,
        Settings,
        Storage,
    )

MachineRows = Iterator[tuple[str, str]]

_METRICS = {
    "read_bytes_s": "reads",
    "write_bytes_s": "writes",
    "total_bytes_s": "reads and writes together",
    "randread_4k_iops": "random reads of 4 KiB",
    "randwrite_4k_iops": "random writes of 4 KiB",
    "total_operations_s": "reads and writes together",
}
_VECTORS = ("avx512f", "avx2", "avx", "sse4_2", "sse2", "sve2", "sve", "asimd")
_LABEL = 14

HELP = Help(examples=("hwdyno machine", "hwdyno machine --path .", "hwdyno machine --json"))


def add(parser: argparse.ArgumentParser) -> None:
    """The options of ``hwdyno machine``."""
    parser.add_argument("--json", action="store_true", help="print the Machine and its ceilings as JSON")
    parser.add_argument("--path", type=Path, metavar="DIR", help="directory whose storage is described (default: here)")
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="TREE",
        help="read a recorded /proc and /sys instead of this machine's",
    )
    add_ceiling(parser)


def run(args: argparse.Namespace) -> int:
    """Describe the machine on stdout."""
    from hwdyno.analysis.ceilings import parse_given
    from hwdyno.analysis.resources import list_ceilings, why_no_ceiling
    from hwdyno.measure import engine
    from hwdyno.model.machine import Machine

    given = tuple(parse_given(text) for text in args.ceiling)
    if not args.root.exists():
        raise UserError(f"--root {args.root} does not exist; name a directory with proc and sys, or a .tree file")
    if args.path is not None and args.root == Path("/") and not args.path.exists():
        raise UserError(f"--path {args.path} does not exist; name an existing directory or file")
    machine = engine.survey(args.path, args.root)
    typed = Machine.of_survey(machine)
    ceilings = list_ceilings(typed, "storage", given)
    if args.json:
        document = {**machine, "ceilings": [asdict(ceiling) for ceiling in ceilings]}
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        show(typed, ceilings, why_no_ceiling(typed, "storage"), sys.stdout)
    return 0


def show(machine: Machine, ceilings: tuple[Ceiling, ...], without: tuple[str, ...], out: TextIO) -> None:
    """Print the sections for a reader."""
    console = console_on(out)
    machine, ceilings, without = printable((machine, ceilings, without))
    if not console.is_terminal:
        console.width = max(console.width, 110)
    sections = {
        "System": _system(machine),
        "Processor": _processor(machine.cpu),
        "Memory": _memory(machine.memory),
        f"Storage behind {machine.storage.path}": _storage(machine.storage),
        "Network": _network(machine.nics),
        "GPU": chain(_gpus(machine.gpus), _gpu_drivers(machine.gpu_drivers)),
        "Conditions": _conditions(machine.conditions),
        "Settings": _settings(machine.settings),
    }
    for title, rows in sections.items():
        _section(console, title, list(rows))
        if title.startswith("Storage"):
            _section(console, "Ceilings of this storage", list(_ceilings(ceilings, without)))
    _section(console, "Not known", list(_unknown(machine.unknown)))


def _section(console: Console, title: str, rows: list[tuple[str, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    console.print(Text(title, style="bold"))
    console.file.flush()
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=_LABEL)
    table.add_column(overflow="fold")
    for label, says in rows:
        table.add_row(Text("  " + label, style="cyan"), Text(says))
    with console.capture() as drawn:
        console.print(table)
    # the grid pads its columns with blanks, which are a nuisance when piped or copied
    out = "\n".join(line.rstrip() for line in drawn.get().splitlines())
    console.file.write(f"{out}\n\n")


def _system(machine: Machine) -> MachineRows:
    system, inside = machine.os, machine.container
    yield "host", ", ".join(_drop_unknown(machine.hostname, machine.board))
    kernel = f"Linux {system.kernel}" if system.kernel else None
    yield "system", ", ".join(_drop_unknown(system.distribution, kernel, system.architecture))
    if machine.hypervisor or "hypervisor" in machine.unknown:
        yield "hypervisor", machine.hypervisor or "unnamed"
    limits = []
    if inside.cpu_limit is not None:
        limits.append(f"{inside.cpu_limit:g} processors")
    if inside.memory_limit_bytes is not None:
        limits.append(f"{format_size(inside.memory_limit_bytes)} of memory")
    if inside.cpuset and len(inside.cpuset) < (machine.cpu.threads or 0):
        limits.append(f"processors {_ranges(inside.cpuset)}")
    if inside.kind:
        yield "container", inside.kind
    if limits:
        yield "limits", ", ".join(limits)


def _processor(cpu: Cpu) -> MachineRows:
    yield "model", _or_unknown(cpu.model)
    counts = {"socket": cpu.sockets, "core": cpu.cores, "thread": cpu.threads}
    yield "layout", ", ".join(plural(number, noun) for noun, number in counts.items() if number) or "?"
    clocks = {"measured": cpu.clock_hz.measured, "base": cpu.clock_hz.base, "max": cpu.clock_hz.max}
    yield "clock", ", ".join(f"{format_value(rate, 'Hz')} {which}" for which, rate in clocks.items() if rate) or "?"
    for cache in cpu.caches:
        kind = {"unified": "", "instruction": " code"}.get(str(cache.type), f" {cache.type}")
        size = f"{format_size(cache.size_bytes or 0)}, each for {plural(cache.shared_threads or 1, 'thread')}"
        yield f"L{cache.level}{kind}", f"{cache.instances} × {size}"
    best = next((word for word in _VECTORS if word in cpu.isa), None)
    yield "instructions", (f"{best} and below: " if best else "") + " ".join(cpu.isa) if cpu.isa else "?"
    for node in cpu.numa_nodes if len(cpu.numa_nodes) > 1 else ():
        yield f"node {node.node}", f"processors {_ranges(node.cpus)}, {_bytes('memory', node.memory_bytes)}"


def _memory(memory: Memory) -> MachineRows:
    yield "size", f"{_bytes('memory', memory.total_bytes)}, {_bytes('memory', memory.available_bytes)} available"
    yield "swap", "none" if memory.swap_total_bytes == 0 else _bytes("memory", memory.swap_total_bytes)
    page, transparent = memory.huge_page_bytes, memory.transparent_huge_pages
    if page or transparent:
        yield (
            "huge pages",
            ", ".join(_drop_unknown(format_size(page) if page else None, f"transparent: {transparent or '?'}")),
        )


def _storage(storage: Storage) -> MachineRows:
    if storage.filesystem:
        mounted = f"{storage.filesystem} on {storage.mount_point} from {storage.source}"
        yield "filesystem", f"{mounted} ({','.join(storage.options)})"
    if storage.size_bytes:
        free = _bytes("storage.free_bytes", storage.free_bytes)
        yield "room", f"{free} free of {_bytes('storage.size_bytes', storage.size_bytes)}"
    for layer in storage.chain:
        below = ", ".join(layer.on)
        yield str(layer.kind), f"{layer.name}: {layer.detail}" + (f" → {below}" if below else "")
    for disk in storage.disks:
        spins = None if disk.rotational is None else "spinning" if disk.rotational else "solid state"
        warmth = f"{disk.temperature_c:.0f} °C" if disk.temperature_c else None
        parts = (disk.model, disk.kind, spins, _bytes("storage.size_bytes", disk.size_bytes), disk.driver, warmth)
        yield "disk", f"{disk.name}: " + ", ".join(_drop_unknown(*parts))
        if link := _link(disk.link):
            yield "link", link
        if disk.queue:
            yield "queue", _queue(disk.queue)


def _link(link: Link | None) -> str:
    """The wire in words, with what it could run at where that is more."""
    if link is None:
        return ""
    if link.type == "pcie":
        now, slot = (link.generation, link.lanes), (link.slot_generation_max, link.slot_lanes_max)
        most = (link.generation_max, link.lanes_max)
        says = _pcie(*now)
        if all(most) and most != now:
            says += f"; the device can do {_pcie(*most)}"
        if all(slot) and slot != most:
            says += f"; the slot can do {_pcie(*slot)}"
        if above := link.upstream:
            says += f"; behind {_pcie(above.generation, above.lanes)} at {above.address}"
        return says
    if link.type in {None, "none"} or not link.bits_s:
        return ""
    names = {"sata": "SATA", "sas": "SAS", "usb": "USB", "mmc": "memory card bus", "network": "network"}
    says = f"{names.get(str(link.type), link.type)} at {format_value(link.bits_s, 'bit/s')}"
    if link.nic:
        says += f" over {link.nic}"
    if link.bits_s_max and link.bits_s_max > link.bits_s:
        says += f"; the port can do {format_value(link.bits_s_max, 'bit/s')}"
    return says


def _pcie(generation: int | str | None, lanes: int | None) -> str:
    return f"PCIe {generation}.0 x{lanes}"


def _queue(queue: BlockQueue) -> str:
    says = [f"scheduler {queue.scheduler or '?'}"]
    if queue.nr_requests:
        says.append(f"{queue.nr_requests} requests")
    if queue.nr_hw_queues:
        says.append(plural(queue.nr_hw_queues, "hardware queue"))
    if queue.max_sectors_bytes:
        says.append(f"at most {format_size(queue.max_sectors_bytes)} a request")
    if queue.logical_block_bytes and queue.physical_block_bytes:
        says.append(f"blocks of {queue.logical_block_bytes} B ({queue.physical_block_bytes} B physical)")
    if queue.write_cache:
        says.append(queue.write_cache)
    says.append("polling" if queue.io_poll else "no polling")
    return ", ".join(says)


def _ceilings(ceilings: tuple[Ceiling, ...], without: tuple[str, ...]) -> MachineRows:
    grouped: dict[tuple[str, str, str, str], list[Ceiling]] = {}
    for ceiling in ceilings:
        grouped.setdefault((ceiling.kind, ceiling.label, ceiling.formula, ceiling.source), []).append(ceiling)
    for (kind, label, formula, source), alike in grouped.items():
        bounds = " and ".join(_METRICS.get(ceiling.metric, ceiling.metric) for ceiling in alike[:2])
        if len(alike) > 2:
            bounds = "reads, writes, and both together"
        value = format_value(alike[0].value, alike[0].unit)
        yield kind, f"{value}  {bounds}: {label}\n{formula}\n{source}"
    for why in without:
        yield "none", why


def _network(nics: Sequence[Nic]) -> MachineRows:
    # a virtual interface that is down is a name and nothing else
    for nic in (nic for nic in nics if nic.up or not nic.virtual):
        rate = format_value(nic.bits_s, "bit/s") if nic.bits_s else "speed not stated"
        parts = (rate, f"mtu {nic.mtu}", nic.driver, "up" if nic.up else "down")
        yield str(nic.name), ", ".join(_drop_unknown(*parts, _link(nic.link)))


def _gpus(gpus: Sequence[Gpu]) -> MachineRows:
    for gpu in gpus:
        ids = f"{gpu.vendor_id}:{gpu.device_id}" if gpu.vendor_id else None
        yield (
            str(gpu.name)[:_LABEL],
            ", ".join(_drop_unknown(gpu.vendor, gpu.model or ids, gpu.driver, _link(gpu.link))),
        )


def _gpu_drivers(drivers: GpuDrivers) -> MachineRows:
    for cuda_device in drivers.cuda:
        yield "CUDA", _cuda(cuda_device)
    for device in drivers.opencl:
        yield "OpenCL", _opencl(device)
    for library in drivers.looked_for:
        yield "GPU library", f"{library.name}: {library.says}"


def _opencl(device: OpenClDevice) -> str:
    units = plural(device.compute_units, "compute unit") if device.compute_units else None
    clock = f"{format_value(device.clock_max_hz, 'Hz')} at most" if device.clock_max_hz else None
    sizes = (("memory", device.memory_bytes), ("local", device.local_memory_bytes), ("cache", device.cache_bytes))
    parts = [f"{format_size(size)} {name}" for name, size in sizes if size]
    driver = f"{device.platform} {device.driver}"
    return ", ".join(_drop_unknown(device.name, device.kind, driver, units, clock, *parts, " ".join(device.precisions)))


def _cuda(gpu: CudaDevice) -> str:
    clocks = {"": gpu.clock_hz, " at most": gpu.boost_max_hz or gpu.clock_max_hz}
    states = {"ECC": gpu.ecc, "MIG": gpu.mig}
    link = (gpu.link_generation, gpu.link_lanes)
    most = (gpu.link_generation_max, gpu.link_lanes_max)
    wire = _pcie(*link) + (f" of {_pcie(*most)}" if all(most) and most != link else "") if all(link) else None
    power = " of ".join(format_value(value / 1000, "W") for value in (gpu.power_mw, gpu.power_limit_mw) if value)
    return ", ".join(
        _drop_unknown(
            gpu.name,
            f"compute capability {gpu.compute_capability}" if gpu.compute_capability else None,
            plural(gpu.multiprocessors, "multiprocessor") if gpu.multiprocessors else None,
            *(f"{format_value(rate, 'Hz')}{which}" for which, rate in clocks.items() if rate),
            f"{format_size(gpu.memory_bytes)} memory" if gpu.memory_bytes else None,
            f"{gpu.memory_bus_bits} bit bus" if gpu.memory_bus_bits else None,
            f"{format_size(gpu.l2_bytes)} L2" if gpu.l2_bytes else None,
            wire,
            power,
            *(f"{name} {'on' if state else 'off'}" for name, state in states.items() if state is not None),
            *(f"slowed by {why}" for why in gpu.slowed_by),
            f"driver {gpu.driver}" if gpu.driver else None,
        )
    )


def _settings(settings: Settings) -> MachineRows:
    for name, value in settings.environment.items():
        yield name, value or "set, but empty"
    if settings.nice:
        yield "nice", str(settings.nice)
    limits = [f"{name} {value}" for name, value in settings.limits.items() if value != "unlimited"]
    if limits:
        yield "limits", ", ".join(limits)
    if settings.smt:
        yield "SMT", settings.smt
    if settings.mitigations:
        yield "mitigations", ", ".join(settings.mitigations)
    if settings.debug_kernel:
        yield "debug kernel", ", ".join(settings.debug_kernel)


def _conditions(now: Conditions) -> MachineRows:
    forms = {
        "load": (now.load_1m, "{:g} over the last minute"),
        "other processes": (now.others_cpu_share, "{:.0%} of the CPU right now"),
        "governor": (now.governor, "{}"),
        "turbo": (now.turbo, "{}"),
        "temperature": (now.temperature_c, "{:.1f} °C"),
        "steal": (now.steal_share, "{:.1%} of the processors' time"),
        "congestion": (now.tcp_congestion_control, "TCP by {}"),
    }
    for label, (value, form) in forms.items():
        if value is not None:
            yield label, form.format({True: "on", False: "off"}[value] if isinstance(value, bool) else value)
    swapping = (now.swap_in_bytes_s, now.swap_out_bytes_s)
    if any(swapping):
        yield "swapping", " in, ".join(format_value(rate or 0, "bytes/s") for rate in swapping) + " out"


def _unknown(unknown: Mapping[str, str]) -> MachineRows:
    by_reason: dict[str, list[str]] = {}
    for path, why in unknown.items():
        by_reason.setdefault(why, []).append(path)
    for why, paths in by_reason.items():
        yield "?", f"{', '.join(paths)}: {why}"


def _drop_unknown(*parts: str | None) -> list[str]:
    return [part for part in parts if part not in (None, "", "?")]


def _or_unknown(value: object) -> str:
    return "?" if value is None else str(value)


def _bytes(path: str, value: float | None) -> str:
    """Bytes as the page says them."""
    from hwdyno.report.machine import amount

    return "?" if value is None else amount(path, value)


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3, 8`` for 0 1 2 3 8."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}-{last}" if first != last else str(first) for first, last in runs)
