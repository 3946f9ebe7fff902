"""Ceilings of a path: what the link leaves for payload, or what memory copies allow on loopback."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hwdyno.model.machine import node_name
from hwdyno.model.units import format_bytes_s, format_value, plural, positive
from hwdyno.model.words import Ceiling, ExperimentResult, Measurement, Parameters, Run

FRAME_BYTES = 38
"""Overhead of each Ethernet frame: preamble 8, header 14, check sequence 4, gap 12 (IEEE 802.3, clauses 3 and 4)."""
MIN_PAYLOAD = 46
DATAGRAM_BYTES, IP_BYTES = 8, 20
"""Headers of UDP (RFC 768), and of IPv4 without options (RFC 791)."""
SET_BY_HYPERVISORS = {"virtio_net", "vmxnet3", "xen_netfront", "vif", "netfront", "hv_netvsc", "ena", "gve"}
"""Drivers of virtual machines: their stated speed is a setting, which two guests of one host may exceed."""


def of_path(run: Run, result: ExperimentResult) -> tuple[Ceiling, ...]:
    """A ceiling for each kind of measured point, by the interface that leads to the other end."""
    processors = run.machine.cpu.threads or 0
    found: dict[str, Ceiling] = {}
    for point in result.points:
        parameters = {**result.fixed, **point.parameters}
        made = (
            _copies(parameters, point, processors) if point.details.get("loopback") else wire_ceiling(parameters, point)
        )
        if made is not None:
            found.setdefault(made.metric, made)
    return of_all_hosts(run, found.values())


def of_all_hosts(run: Run, ceilings: Iterable[Ceiling]) -> tuple[Ceiling, ...]:
    """The ceilings of a host's path for all hosts of a Run, each of which has a separate interface."""
    nodes = len({node_name(machine.hostname or "") for machine in run.machines})
    if nodes < 2:
        return tuple(ceilings)
    return tuple(
        replace(ceiling, value=ceiling.value * nodes, label=f"{nodes} hosts, each like {ceiling.label}")
        for ceiling in ceilings
    )


def applies_wire(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a wire's ceiling bounds a measurement with these parameters."""
    return metric.partition("/")[2] == _wire_key(parameters)


def applies_copies(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether the ceiling by loopback copies bounds a measurement with these parameters."""
    return metric.partition("/")[2] == _copies_key(parameters)


def _word(parameters: Mapping[str, Any], name: str, default: str) -> str:
    return str(parameters.get(name) or default)


def _wire_key(parameters: Mapping[str, Any]) -> str:
    protocol = _word(parameters, "protocol", "tcp")
    # A segment is as long as the path lets it be; a datagram as long as it was requested.
    size = f"/{positive(parameters.get('block')) or 1460:.0f}" if protocol == "udp" else ""
    return f"{protocol}/{_word(parameters, 'direction', 'up')}{size}"


def count_fragments(payload_bytes: float, mtu_bytes: float) -> int:
    """Packets that a datagram of IPv4 goes in: all parts but the last hold a multiple of 8 B (RFC 791, 3.2)."""
    room = max(8.0, mtu_bytes - IP_BYTES)
    remaining = payload_bytes + DATAGRAM_BYTES - room
    return 1 + max(0, math.ceil(remaining / (room // 8 * 8)))


def _copies_key(parameters: Mapping[str, Any]) -> str:
    names = ("zero_copy", "skip_rx_copy", "handing")
    values = [str(parameters.get(name) or "") for name in names]
    return "/".join([_wire_key(parameters), f"{positive(parameters.get('streams')) or 1:.0f}", *values])


def wire_ceiling(parameters: Parameters, point: Measurement) -> Ceiling | None:
    """The interface's rate x payload per bytes of each frame on the wire."""
    details = point.details
    bits_s = positive(details.get("interface_bits_s"))
    if not bits_s or details.get("interface_virtual") is not False:
        return None
    mtu = positive(details.get("pmtu_bytes")) or positive(details.get("interface_mtu_bytes")) or 1500
    if parameters.get("protocol") == "udp":
        payload = positive(parameters.get("block")) or 1460
        frames = count_fragments(payload, mtu)
        wire = max(payload + DATAGRAM_BYTES + frames * IP_BYTES, MIN_PAYLOAD * frames) + frames * FRAME_BYTES
    else:
        payload = positive(details.get("mss_bytes")) or mtu - 40
        wire = mtu + FRAME_BYTES
    ways = 2 if parameters.get("direction") == "both" else 1
    bytes_s = bits_s / 8 * payload / wire * ways
    name, driver = str(details.get("interface")), str(details.get("interface_driver") or "")
    formula = (
        f"{bits_s / 1e9:g} Gbit/s / 8 x {payload:.0f} B of payload in {wire:.0f} B on the wire"
        f"{' x 2 ways' if ways == 2 else ''} = {format_bytes_s(bytes_s)}"
    )
    by_setting = driver in SET_BY_HYPERVISORS
    source = f"the speed that {name} ({driver or 'no driver'}) states"
    return Ceiling(
        f"wire/{_wire_key(parameters)}",
        "rated" if by_setting else "physical",
        bytes_s,
        "bytes/s",
        formula,
        source + (", a hypervisor's setting, not a link rate" if by_setting else "; frames by IEEE 802.3"),
        f"{name}'s link",
    )


def count_copies(parameters: Mapping[str, Any]) -> int:
    """How often each byte is copied: into the kernel at the sender, out of it at the receiver."""
    return 2 - bool(parameters.get("zero_copy")) - bool(parameters.get("skip_rx_copy"))


def _copies(parameters: Parameters, point: Measurement, processors: int) -> Ceiling | None:
    """What the busy cores could copy if they did nothing else."""
    copy, copies = positive(point.details.get("copy_bytes_s")), count_copies(parameters)
    if not copy or not copies:
        return None
    threads = 2 * (positive(parameters.get("streams")) or 1) * (2 if parameters.get("direction") == "both" else 1)
    # A copy is made at one end alone where the other one's is left out.
    cores = max(1.0, min(threads / (3 - copies), processors or threads))
    bytes_s = copy * cores / copies
    formula = (
        f"{format_value(copy, 'bytes/s')} that one core copies x {plural(cores, 'core')} / "
        f"{copies} cop{'ies' if copies > 1 else 'y'} = {format_bytes_s(bytes_s)}"
    )
    source = "a copy of a few MiB (memory_bandwidth) in the same run; loopback has no link"
    metric = f"copies/{_copies_key(parameters)}"
    return Ceiling(metric, "reference", bytes_s, "bytes/s", formula, source, "memory copies")
