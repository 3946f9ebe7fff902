"""``hwdyno machine``: what this machine is, what bounds it, and what cannot be known with the reason."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from hwdyno.printable import console_on, printable
from hwdyno.units import format_bytes, format_size, format_value, plural
from hwdyno.words import Ceiling, UserError

if TYPE_CHECKING:
    from rich.console import Console

Rows = Iterator[tuple[str, str]]

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


def add(parser: argparse.ArgumentParser) -> None:
    """The options of ``hwdyno machine``."""
    parser.add_argument("--json", action="store_true", help="print the Machine and its ceilings as JSON")
    parser.add_argument("--path", type=Path, metavar="DIR", help="whose storage is described (default: here)")
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="TREE",
        help="a recorded /proc and /sys instead of this machine's",
    )
    parser.add_argument(
        "--ceiling", action="append", default=[], metavar="TEXT", help='a bound that you know: "rated read 400 MB/s"'
    )


def run(args: argparse.Namespace) -> int:
    """Describe the machine on stdout."""
    from hwdyno import engine
    from hwdyno.ceilings import ceilings_of, parse_given, why_none
    from hwdyno.machine import Machine

    given = tuple(parse_given(text) for text in args.ceiling)
    if not args.root.exists():
        raise UserError(f"--root {args.root} does not exist; give a directory with proc and sys, or a .tree file")
    if args.path is not None and args.root == Path("/") and not args.path.exists():
        raise UserError(f"--path {args.path} does not exist; give a directory or file that does")
    machine = engine.survey(args.path, args.root)
    typed = Machine.of_survey(machine)
    ceilings = ceilings_of(typed, given=given)
    if args.json:
        document = {**machine, "ceilings": [asdict(ceiling) for ceiling in ceilings]}
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        show(machine, ceilings, why_none(typed), sys.stdout)
    return 0


def show(machine: dict[str, Any], ceilings: tuple[Ceiling, ...], without: tuple[str, ...], out: TextIO) -> None:
    """Print the sections for a reader."""
    console = console_on(out)
    machine, ceilings, without = printable((machine, ceilings, without))
    if not console.is_terminal:
        console.width = max(console.width, 110)
    storage = machine.get("storage") or {}
    sections = {
        "System": _system(machine),
        "Processor": _processor(machine.get("cpu") or {}),
        "Memory": _memory(machine.get("memory") or {}),
        f"Storage behind {storage.get('path')}": _storage(storage),
        "Network": _network(machine.get("nics") or ()),
        "GPU": _gpus(machine.get("gpus") or ()),
        "Conditions": _conditions(machine.get("conditions") or {}),
    }
    for title, rows in sections.items():
        _section(console, title, list(rows))
        if title.startswith("Storage"):
            _section(console, "Ceilings of this storage", list(_ceilings(ceilings, without)))
    _section(console, "Not known", list(_unknown(machine.get("unknown") or {})))


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
    # the grid fills its columns with blanks, which are in the way of whoever pipes or copies them
    out = "\n".join(line.rstrip() for line in drawn.get().splitlines())
    console.file.write(f"{out}\n\n")


def _system(machine: dict[str, Any]) -> Rows:
    system = machine.get("os") or {}
    yield "host", ", ".join(_said(machine.get("hostname"), machine.get("board")))
    kernel = f"Linux {system['kernel']}" if system.get("kernel") else None
    yield "system", ", ".join(_said(system.get("distribution"), kernel, system.get("architecture")))
    unknown = machine.get("unknown") or {}
    if machine.get("hypervisor") or "hypervisor" in unknown:
        yield "hypervisor", str(machine.get("hypervisor") or "one that does not give its name")
    inside = machine.get("container") or {}
    limits = []
    if inside.get("cpu_limit") is not None:
        limits.append(f"{inside['cpu_limit']:g} processors")
    if inside.get("memory_limit_bytes") is not None:
        limits.append(f"{format_size(inside['memory_limit_bytes'])} of memory")
    allowed, threads = inside.get("cpuset"), (machine.get("cpu") or {}).get("threads")
    if allowed and threads and len(allowed) < threads:
        limits.append(f"processors {_ranges(allowed)}")
    if inside.get("kind"):
        yield "container", str(inside["kind"])
    if limits:
        yield "limits", ", ".join(limits)


def _processor(cpu: dict[str, Any]) -> Rows:
    yield "model", _or_unknown(cpu.get("model"))
    counts = [plural(cpu[key], key.removesuffix("s")) for key in ("sockets", "cores", "threads") if cpu.get(key)]
    yield "layout", ", ".join(counts) or "?"
    clock = cpu.get("clock_hz") or {}
    hertz = [f"{format_value(clock[key], 'Hz')} {key}" for key in ("measured", "base", "max") if clock.get(key)]
    yield "clock", ", ".join(hertz) or "?"
    for cache in cpu.get("caches") or ():
        kind = {"unified": "", "instruction": " code"}.get(str(cache.get("type")), f" {cache.get('type')}")
        each = f"{format_size(cache['size_bytes'])}, each for {plural(cache.get('shared_threads') or 1, 'thread')}"
        yield f"L{cache.get('level')}{kind}", f"{cache.get('instances')} × {each}"
    isa = cpu.get("isa") or []
    best = next((word for word in _VECTORS if word in isa), None)
    yield "instructions", (f"{best} and below: " if best else "") + " ".join(isa) if isa else "?"
    nodes = cpu.get("numa_nodes") or ()
    for node in nodes if len(nodes) > 1 else ():
        size = node.get("memory_bytes")
        yield f"node {node.get('node')}", f"processors {_ranges(node.get('cpus') or [])}, {_bytes(size)}"


def _memory(memory: dict[str, Any]) -> Rows:
    yield "size", f"{_bytes(memory.get('total_bytes'))}, {_bytes(memory.get('available_bytes'))} available"
    swap = memory.get("swap_total_bytes")
    yield "swap", "none" if swap == 0 else _bytes(swap)
    page = memory.get("huge_page_bytes")
    transparent = memory.get("transparent_huge_pages")
    if page or transparent:
        yield "huge pages", ", ".join(_said(format_size(page) if page else None, f"transparent: {transparent or '?'}"))


def _storage(storage: dict[str, Any]) -> Rows:
    if storage.get("filesystem"):
        mounted = f"{storage['filesystem']} on {storage.get('mount_point')} from {storage.get('source')}"
        yield "filesystem", f"{mounted} ({','.join(storage.get('options') or ())})"
    if storage.get("size_bytes"):
        yield "room", f"{_bytes(storage.get('free_bytes'))} free of {_bytes(storage['size_bytes'])}"
    for layer in storage.get("chain") or ():
        below = ", ".join(layer.get("on") or ())
        yield str(layer.get("kind")), f"{layer.get('name')}: {layer.get('detail')}" + (f" → {below}" if below else "")
    for disk in storage.get("disks") or ():
        spins = None if disk.get("rotational") is None else "spinning" if disk["rotational"] else "solid state"
        parts = (disk.get("model"), disk.get("kind"), spins, _bytes(disk.get("size_bytes")), disk.get("driver"))
        warmth = disk.get("temperature_c")
        yield "disk", f"{disk.get('name')}: " + ", ".join(_said(*parts, f"{warmth:.0f} °C" if warmth else None))
        link = _link(disk.get("link") or {})
        if link:
            yield "link", link
        queue = disk.get("queue") or {}
        if queue:
            yield "queue", _queue(queue)


def _link(link: dict[str, Any]) -> str:
    """The wire in words, with what it could run at where that is more."""
    kind, rate = link.get("type"), link.get("bits_s")
    if kind == "pcie":
        says = f"PCIe {link['generation']}.0 x{link['lanes']}"
        most, slot = (link.get("generation_max"), link.get("lanes_max")), link.get("slot_lanes_max")
        if all(most) and most != (link["generation"], link["lanes"]):
            says += f"; the device can do PCIe {most[0]}.0 x{most[1]}"
        if slot and link.get("slot_generation_max") and (link["slot_generation_max"], slot) != most:
            says += f"; the slot can do PCIe {link['slot_generation_max']}.0 x{slot}"
        upstream = link.get("upstream")
        if upstream:
            says += f"; behind PCIe {upstream['generation']}.0 x{upstream['lanes']} at {upstream['address']}"
        return says
    if kind in {None, "none"} or not rate:
        return ""
    names = {"sata": "SATA", "sas": "SAS", "usb": "USB", "mmc": "memory card bus", "network": "network"}
    says = f"{names.get(str(kind), kind)} at {format_value(rate, 'bit/s')}"
    if link.get("nic"):
        says += f" over {link['nic']}"
    if link.get("bits_s_max") and link["bits_s_max"] > rate:
        says += f"; the port can do {format_value(link['bits_s_max'], 'bit/s')}"
    return says


def _queue(queue: dict[str, Any]) -> str:
    says = [f"scheduler {queue.get('scheduler') or '?'}"]
    if queue.get("nr_requests"):
        says.append(f"{queue['nr_requests']} requests")
    if queue.get("nr_hw_queues"):
        says.append(plural(queue["nr_hw_queues"], "hardware queue"))
    if queue.get("max_sectors_bytes"):
        says.append(f"at most {format_size(queue['max_sectors_bytes'])} a request")
    blocks = (queue.get("logical_block_bytes"), queue.get("physical_block_bytes"))
    if all(blocks):
        says.append(f"blocks of {blocks[0]} B ({blocks[1]} B physical)")
    if queue.get("write_cache"):
        says.append(str(queue["write_cache"]))
    says.append("polling" if queue.get("io_poll") else "no polling")
    return ", ".join(says)


def _ceilings(ceilings: tuple[Ceiling, ...], without: tuple[str, ...]) -> Rows:
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


def _network(nics: Any) -> Rows:
    # a virtual interface that is down is a name and nothing else
    for nic in (nic for nic in nics if nic.get("up") or not nic.get("virtual")):
        rate = format_value(nic["bits_s"], "bit/s") if nic.get("bits_s") else "speed not stated"
        parts = (rate, f"mtu {nic.get('mtu')}", nic.get("driver"), "up" if nic.get("up") else "down")
        yield str(nic.get("name")), ", ".join(_said(*parts, _link(nic.get("link") or {})))


def _gpus(gpus: Any) -> Rows:
    for gpu in gpus:
        ids = f"{gpu['vendor_id']}:{gpu['device_id']}" if gpu.get("vendor_id") else None
        parts = (gpu.get("vendor"), gpu.get("model") or ids, gpu.get("driver"), _link(gpu.get("link") or {}))
        yield str(gpu.get("name"))[:_LABEL], ", ".join(_said(*parts))


def _conditions(now: dict[str, Any]) -> Rows:
    forms = {
        "load": ("load_1m", "{:g} over the last minute"),
        "governor": ("governor", "{}"),
        "turbo": ("turbo", "{}"),
        "temperature": ("temperature_c", "{:.1f} °C"),
        "steal": ("steal_share", "{:.1%} of the processors' time"),
        "congestion": ("tcp_congestion_control", "TCP by {}"),
    }
    for label, (key, form) in forms.items():
        value = now.get(key)
        if value is not None:
            yield label, form.format({True: "on", False: "off"}[value] if isinstance(value, bool) else value)
    swapping = [now.get("swap_in_bytes_s"), now.get("swap_out_bytes_s")]
    if any(swapping):
        yield "swapping", " in, ".join(format_value(rate or 0, "bytes/s") for rate in swapping) + " out"


def _unknown(unknown: dict[str, str]) -> Rows:
    by_reason: dict[str, list[str]] = {}
    for path, why in unknown.items():
        by_reason.setdefault(why, []).append(path)
    for why, paths in by_reason.items():
        yield "?", f"{', '.join(paths)}: {why}"


def _said(*parts: Any) -> list[str]:
    return [str(part) for part in parts if part not in (None, "", "?")]


def _or_unknown(value: Any) -> str:
    return "?" if value is None else str(value)


def _bytes(amount: Any) -> str:
    return "?" if amount is None else format_bytes(amount)


def _ranges(numbers: list[int]) -> str:
    """``0-3, 8`` for 0 1 2 3 8."""
    said: list[list[int]] = []
    for number in sorted(numbers):
        if said and number == said[-1][1] + 1:
            said[-1][1] = number
        else:
            said.append([number, number])
    return ", ".join(f"{first}-{last}" if first != last else str(first) for first, last in said)
