"""Ceilings of an object store: the payload of the link, TCP on loopback, TLS, and windows by their round trip."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hwdyno.analysis.ceilings import network
from hwdyno.model.units import format_bytes, format_bytes_s, format_ns, format_value, plural, positive
from hwdyno.model.words import Ceiling, ExperimentResult, Measurement, Run

METRIC = "object/"
TURNS, BOTH = "turns", "both"
"""Both directions by turns, as a checkpoint is saved and loaded, and at once, as the entries of a KV cache are."""
_DIRECTIONS = {"get": "down", "range": "down", "put": "up", "multipart": "up"}
_OF_FILES = {"accelerators": "down", "ranks": TURNS, "users": BOTH}
"""Where objects go of kernels that use a store as they use files, by the axis that each of them has."""
_CONNECTIONS = ("concurrency", "accelerators", "read_threads", "ranks", "users", "threads")
"""Axes whose product is the number of connections; each kernel has some of them."""
COPIES = 2
"""How often each byte is copied on loopback: into the kernel by one end, out of it by the other."""
TLS_ENDS = 2
"""Ends that encrypt or decrypt each byte; on loopback the same processors do both."""


def of_path(run: Run, result: ExperimentResult) -> tuple[Ceiling, ...]:
    """A ceiling for each direction in which some point moved objects, and what windows and TLS allow below it."""
    processors = run.machine.cpu.threads or 1
    paths, others = dict[str, Ceiling](), dict[tuple[str, str], Ceiling]()
    for point in result.points:
        parameters = {**result.fixed, **point.parameters}
        direction = _find_direction(parameters)
        path = _make_ceiling(direction, point, processors) if direction else None
        if path is not None:
            paths.setdefault(direction, path)
        window = _make_window_ceiling(direction, point, parameters)
        for other in (window, _make_tls_ceiling(direction, point, parameters, processors)):
            if direction and other is not None:
                others.setdefault((other.metric, other.label), other)
    found = network.of_all_hosts(run, paths.values())
    bounds = {ceiling.metric: ceiling.value for ceiling in found}
    below = [other for other in others.values() if other.value < bounds.get(_of_all(other.metric), math.inf)]
    return (*found, *below)


def applies(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a ceiling of the path bounds a measurement with these parameters."""
    direction, _, requests = metric.removeprefix(METRIC).partition("/")
    return direction == _find_direction(parameters) and requests in {"", _count_requests(parameters)}


def count_ways(ceiling: Ceiling) -> int:
    """How many directions of a link a ceiling sums up."""
    return 2 if ceiling.metric == METRIC + BOTH else 1


def _of_all(metric: str) -> str:
    """The metric of the path, without the number of requests in flight."""
    return metric.rpartition("/")[0]


def _count_requests(parameters: Mapping[str, Any]) -> str:
    return f"{math.prod(positive(parameters.get(name)) or 1.0 for name in _CONNECTIONS):.0f}"


def _find_direction(parameters: Mapping[str, Any]) -> str:
    """Where objects go: ``up``, ``down``, both ways by turns or at once, or nowhere."""
    of_files = next((direction for axis, direction in _OF_FILES.items() if axis in parameters), "")
    return of_files or _DIRECTIONS.get(str(parameters.get("operation") or "get"), "")


def _make_ceiling(direction: str, point: Measurement, processors: int) -> Ceiling | None:
    wire = network.wire_ceiling({"protocol": "tcp", "direction": direction}, point)
    if wire is not None:
        return replace(wire, metric=METRIC + direction)
    if not point.details.get("loopback"):
        return None
    if stream := positive(point.details.get("loopback_bytes_cpu_s")):
        source = "our own TCP stream between two threads in the same run; loopback has no link"
        formula, label = format_value(stream, "bytes/s"), "TCP over loopback"
        if cipher := positive(point.details.get("tls_bytes_cpu_s")):
            formula = f"1 / (1 / {formula} by TCP + {TLS_ENDS} / {format_value(cipher, 'bytes/s')} by TLS)"
            stream, label = 1 / (1 / stream + TLS_ENDS / cipher), "TCP and TLS over loopback"
            source = f"{_describe_cipher(point)}, and {source}"
        bytes_s = stream * processors
        formula += (
            f" in a second of CPU time of both ends x {plural(processors, 'processor')} = {format_bytes_s(bytes_s)}"
        )
        return Ceiling(METRIC + direction, "reference", bytes_s, "bytes/s", formula, source, label)
    copy = positive(point.details.get("copy_bytes_s"))
    if not copy:
        return None
    bytes_s = copy * processors / COPIES
    formula = (
        f"{format_value(copy, 'bytes/s')} that one core copies x {plural(processors, 'core')} / {COPIES} copies = "
        f"{format_bytes_s(bytes_s)}"
    )
    source = "a copy of a few MiB (memory_bandwidth) in the same run; loopback has no link"
    return Ceiling(METRIC + direction, "reference", bytes_s, "bytes/s", formula, source, "memory copies")


def _make_window_ceiling(direction: str, point: Measurement, parameters: Mapping[str, Any]) -> Ceiling | None:
    """What TCP's windows let through: no connection has more in flight than its window, which a round trip returns."""
    window, rtt_us = (positive(point.details.get(name)) for name in ("window_bytes", "rtt_min_us"))
    if not window or not rtt_us or point.details.get("loopback") is not False or parameters.get("keep_alive") is False:
        return None
    connections = float(_count_requests(parameters)) * max(1, len(point.hosts))
    bytes_s = connections * window / (rtt_us / 1e6)
    formula = (
        f"{plural(connections, 'connection')} x {format_bytes(window)} / {format_ns(rtt_us * 1e3)} = "
        f"{format_bytes_s(bytes_s)}"
    )
    source = "TCP's window and least round trip at the end of the reading (TCP_INFO); RFC 9293"
    metric = f"{METRIC}{direction}/{_count_requests(parameters)}"
    return Ceiling(metric, "reference", bytes_s, "bytes/s", formula, source, "TCP windows")


def _make_tls_ceiling(
    direction: str, point: Measurement, parameters: Mapping[str, Any], processors: int
) -> Ceiling | None:
    """What the client's threads encrypt or decrypt, if they do nothing else and have a processor each."""
    cipher, threads = (positive(point.details.get(name)) for name in ("tls_bytes_cpu_s", "client_threads"))
    if not cipher or not threads or point.details.get("loopback") is not False:
        return None
    count = min(threads, processors) * max(1, len(point.hosts))
    bytes_s = count * cipher
    workers = plural(count, "thread" if threads <= processors else "processor")
    formula = f"{workers} x {format_value(cipher, 'bytes/s')} = {format_bytes_s(bytes_s)}"
    metric = f"{METRIC}{direction}/{_count_requests(parameters)}"
    return Ceiling(metric, "reference", bytes_s, "bytes/s", formula, _describe_cipher(point), "TLS")


def _describe_cipher(point: Measurement) -> str:
    return f"full records by {point.details.get('tls_suite')}, encrypted and decrypted in memory in the same run"
