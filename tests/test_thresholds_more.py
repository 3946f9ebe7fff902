"""Thresholds of networks, training, hidden caches, imports, memory and TLBs, just below and just above each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import test_findings_memory as memory
import test_training_findings as training
from hwdyno.axes import with_field_axes
from hwdyno.findings import explain
from hwdyno.machine import Machine
from hwdyno.statistics import interval
from hwdyno.words import Claim, ExperimentResult, Fault, Latency, Measurement, Run, Stream, Value
from test_thresholds import base, run_of

Sees = Callable[[float], dict[str, str]]


def severities(run: Run) -> dict[str, str]:
    return {one.rule: one.severity for one in run.findings}


# --- the network


def network(kernel: str = "network_throughput", latency: float | None = None, **parameters: Any) -> Callable[..., Run]:
    """A Run of one point with details that are given when it is called."""

    def run(rate: float = 1e9, imported: str = "", **details: Any) -> Run:
        point = replace(
            base(), parameters={"protocol": "tcp", **(parameters or {"streams": 1})}, samples=None, concurrency=None,
            counters={}, streams=(), throughput=Value(rate, "bytes/s", 0.99 * rate, 1.01 * rate), rate=None,
            latency_ns=Latency(latency, latency, latency, latency, None, latency, latency, 1000) if latency else None,
            details=details, cpu_user_s=0.1, cpu_system_s=0.1,
        )  # fmt: skip
        result = with_field_axes(ExperimentResult("network.streams", "network", "?", "streams", kernel, (point,)))
        machine = Machine.of_survey({"cpu": {"threads": 8}})
        return explain(Run("x", "2026-01-01T00:00:00+00:00", None, (machine,), "quick", "hwdyno run", (result,)))

    return run


def _ends(share: float) -> dict[str, str]:
    # Three repeats of a second by one stream, which one core serves.
    return severities(network()(cpu_here_s=share, cpu_there_s=0.1, cpu_ns_per_kib=100.0))


def _window(share: float) -> dict[str, str]:
    return severities(network()(rtt_mean_us=100.0, receiver_limited_share=share))


def _send_buffer(share: float) -> dict[str, str]:
    return severities(network()(rtt_mean_us=100.0, buffer_limited_share=share))


def _loss(share: float) -> dict[str, str]:
    return severities(network()(retransmit_share=share, retransmits=10.0))


def _datagrams(share: float) -> dict[str, str]:
    return severities(network(protocol="udp", rate=1_000_000, streams=1)(loss_share=share))


def _bloat_by_time(added_ms: float) -> dict[str, str]:
    return severities(
        network("network_latency", 0.5e6 + added_ms * 1e6, load_streams=1)(idle_p50_ns=0.5e6, load_bytes_s=1e9)
    )


def _bloat_by_times(ratio: float) -> dict[str, str]:
    return severities(network("network_latency", 10e6 * ratio, load_streams=1)(idle_p50_ns=10e6, load_bytes_s=1e9))


def _congestion(ratio: float) -> dict[str, str]:
    run = network()(congestion_control="cubic")
    (slow,) = run.experiments[0].points
    fast = replace(
        slow, parameters={**slow.parameters, "congestion": "bbr"}, details={"congestion_control": "bbr"},
        throughput=Value(1e9 * ratio, "bytes/s", 0.99e9 * ratio, 1.01e9 * ratio),
    )  # fmt: skip
    result = replace(
        run.experiments[0], points=(replace(slow, parameters={**slow.parameters, "congestion": "c"}), fast)
    )
    return severities(explain(replace(run, experiments=(with_field_axes(result),))))


# --- training


def trained(name: str, **details: Any) -> dict[str, str]:
    found = training.findings(training.point(1, details.pop("au", 0.99), **details))
    return {rule: one.severity for rule, one in found.items() if rule == name}


def _too_small(times: float) -> dict[str, str]:
    # Of 64 GiB of memory five times is more than 500 steps of the batch (513 GB), or it is not.
    least = max(5 * (64 << 30), 500 * training.RECORD * training.BATCH)
    return trained("training_too_small", dataset_bytes=least * times)


def _from_memory(share: float) -> dict[str, str]:
    return trained("training_cached", cached_share_by_device=share)


def _au(share: float) -> dict[str, str]:
    return trained("training_au", au=share)


def _off(share: float) -> dict[str, str]:
    rate = 0.95 * training.NEED / training.RECORD
    return trained("training_law", au=0.95, samples_s=rate / (1 + share), samples_s_dlio=rate)


def _ahead(batches: float) -> dict[str, str]:
    # Four readers that prefetch two batches each.
    return trained("training_read_ahead", steps=batches, epochs=1)


def _lost(share: float) -> dict[str, str]:
    point = training.point(1, 0.99)
    each = point.operations / point.repeats
    details = {**point.details, "lost_samples": share * each}
    lost = replace(point, faults=(Fault("read", 5, "it failed", 1),), details=details)
    return {rule: one.severity for rule, one in training.findings(lost).items() if rule == "training_faults"}


def _client(share: float) -> dict[str, str]:
    need = training.NEED * 0.9
    found = training.findings(training.point(1, 0.6), clients=training.client(need * share))
    return {rule: one.severity for rule, one in found.items() if rule == "training_client_bound"}


# --- caches that no counter shows


def blocks(details: dict[str, Any] | None = None, **changes: Any) -> dict[str, str]:
    point = replace(base(), counters={}, details=details or {}, **changes)
    return severities(explain(run_of(point)))


def _buffered(share: float) -> dict[str, str]:
    return blocks({"cached_share_before": share}, parameters={**base().parameters, "direct": False})


def _fast(ns: float) -> dict[str, str]:
    latency = Latency(ns, ns, ns, ns, None, ns, ns, 1000)
    stream = replace(base().streams[0], latency_ns={"total": latency})
    parameters = {**base().parameters, "iodepth": 1}
    return blocks(streams=(stream,), latency_ns=latency, concurrency=None, parameters=parameters)


def _small(size: float) -> dict[str, str]:
    latency = Latency(1e3, 1e3, 1e3, 1e3, None, 1e3, 1e3, 1000)
    stream = replace(base().streams[0], latency_ns={"total": latency})
    parameters = {**base().parameters, "bs": round(size), "iodepth": 1}
    return blocks(streams=(stream,), latency_ns=latency, concurrency=None, rate=None, parameters=parameters)


def _written(share: float, seen: float) -> dict[str, str]:
    point = base()
    stream = replace(point.streams[0], name="write")
    return severities(
        explain(
            run_of(
                replace(
                    point, streams=(stream,), parameters={**point.parameters, "rw": "randwrite", "direct": False},
                    counters={"device_write_bytes": seen * point.bytes}, details={"cached_share_after": share},
                )
            )
        )
    )  # fmt: skip


def _host(ratio: float, size: int = 1 << 20) -> dict[str, str]:
    run = run_of(base(), storage={"disks": [{"name": "vda", "kind": "virtio"}]}, hypervisor="kvm")
    points = tuple(
        replace(
            base(), parameters={**base().parameters, "rw": rw, "bs": size}, rate=None, latency_ns=None, counters={},
            throughput=Value(value, "bytes/s", 0.99 * value, 1.01 * value),
            streams=(Stream(rw, 1000, 1000 * size),), samples=None, repeat_values=(),
        )
        for rw, value in (("read", 1e9), ("write", 1e9 * ratio))
    )  # fmt: skip
    result = with_field_axes(replace(run.experiments[0], points=points))
    return severities(explain(replace(run, experiments=(result,))))


# --- results of other tools


def imported(**changes: Any) -> dict[str, str]:
    run = run_of(replace(base(), **changes), cpu={"threads": 8, "caches": [
        {"level": 3, "type": "unified", "size_bytes": 8 << 20, "instances": 2}
    ]})  # fmt: skip
    return severities(explain(replace(run, imported_from="fio", profile="")))


def _claim(off: float, at_most: bool = False) -> dict[str, str]:
    claim = Claim("bandwidth", 1e9 * (1 + off), 1e9, "bytes/s", "IOPS x block size", 0.01, at_most)
    return imported(claims=(claim,))


def _bound(off: float) -> dict[str, str]:
    return _claim(off, at_most=True)


def _unseen(missed: float) -> dict[str, str]:
    done = base().operations
    return imported(
        details={"disk_unseen_s": 0.0, "issued_s": 3.0, "disk_read_operations": (1 - missed) * done,
                 "issued_read_operations": done}
    )  # fmt: skip


def _array(elements: float) -> dict[str, str]:
    return imported(details={"array_elements": elements, "array_bytes": 1e9})


def _array_bytes(times: float) -> dict[str, str]:
    return imported(details={"array_elements": 1e7, "array_bytes": times * 2 * (8 << 20)})


# --- memory


def _in_memory(*points: Measurement, kernel: str = "memory_bandwidth", load: str = "threads") -> dict[str, str]:
    return severities(memory.run_of(memory.result(kernel, load, *points, working_set=memory.SET)))


def _huge(gain: float) -> dict[str, str]:
    points = [
        memory.point(1e9 / ns, "operations/s", ns, pages=pages, working_set=memory.SET)
        for pages, ns in (("4k", 100.0), ("2m", 100.0 * (1 - gain)))
    ]
    points = [replace(one, throughput=interval([one.throughput.value] * 3, "operations/s")) for one in points]
    return _in_memory(*points, kernel="memory_latency", load="working_set")


def _node(loss: float) -> dict[str, str]:
    return _in_memory(memory.point(1e10, node=0, threads=1), memory.point(1e10 * (1 - loss), node=1, threads=1))


def _allocated(gain: float) -> dict[str, str]:
    def known(value: float, operation: str) -> Measurement:
        made = memory.point(value, operation=operation, threads=1)
        return replace(made, throughput=Value(value, "bytes/s", 0.999 * value, 1.001 * value))

    return _in_memory(known(1e10, "copy"), known(1e10 * (1 + gain), "nt_copy"))


def _tlb(entries: float, stride: float = 64, points: int = 13) -> dict[str, str]:
    """A chase by lines on huge pages, at 4 ns, and one by pages, ten times slower beyond so many."""
    dense = [memory.point(1e9, "operations/s", 4.0, working_set=float(64 << at), pages="2m", stride=stride)
             for at in range(4, 24)]  # fmt: skip
    paged = [
        memory.point(1e9, "operations/s", 4 * 10 ** (1 / (1 + (entries / (1 << at)) ** 8)),
                     working_set=float(4096 << at), pages="4k", stride=4096)
        for at in range(4, 4 + points)
    ]  # fmt: skip
    one = memory.result("memory_latency", "working_set", *dense, name="memory.latency", locality="random")
    other = memory.result("memory_latency", "working_set", *paged, name="memory.tlb", locality="random")
    return severities(memory.run_of(one, other))


# Rule, what changes, a number just below and one just above, and its severity above (none: it is silent there).
THRESHOLDS: list[tuple[str, Sees, float, float, str]] = [
    ("network_ends_bound", _ends, 0.895, 0.905, "warning"),
    ("network_window", _window, 0.299, 0.301, "warning"),
    ("network_window", _send_buffer, 0.299, 0.301, "warning"),
    ("network_loss", _loss, 0.00099, 0.00101, "warning"),
    ("network_datagram_loss", _datagrams, 0.00099, 0.00101, "warning"),
    ("network_bufferbloat", _bloat_by_time, 4.95, 5.05, "warning"),
    ("network_bufferbloat", _bloat_by_times, 4.98, 5.02, "warning"),
    ("network_congestion", _congestion, 1.295, 1.305, "warning"),
    ("training_too_small", _too_small, 1.001, 0.999, "info"),
    ("training_cached", _from_memory, 0.0495, 0.0505, "warning"),
    ("training_au", _au, 0.901, 0.899, "warning"),
    ("training_law", _off, 0.0495, 0.0505, "info"),
    ("training_law", _off, -0.0495, -0.0505, "info"),
    ("training_read_ahead", _ahead, 8.1, 7.9, "warning"),
    ("training_faults", _lost, 0.0099, 0.0101, "invalid"),
    ("training_client_bound", _client, 1.01, 0.99, "warning"),
    ("cache_hidden", _buffered, 0.099, 0.101, "warning"),
    ("cache_hidden", _fast, 3010.0, 2990.0, "warning"),
    ("cache_hidden", _small, 16385, 16384, "warning"),
    ("cached_writes", lambda share: _written(share, 1.5), 0.099, 0.101, "warning"),
    ("cached_writes", lambda seen: _written(0.9, seen), 1.019, 1.021, "warning"),
    ("host_cache", _host, 1.49, 1.51, "warning"),
    ("host_cache", lambda size: _host(2.0, round(size)), (128 << 10) - 512, 128 << 10, "warning"),
    ("contradicts_itself", _claim, 0.0099, 0.0101, "warning"),
    ("contradicts_itself", _claim, 0.049, 0.051, "invalid"),
    ("contradicts_itself", _claim, -0.0098, -0.0102, "warning"),
    ("contradicts_itself", _bound, 0.0099, 0.0101, "invalid"),
    ("disk_not_reached", _unseen, 0.0195, 0.0205, "warning"),
    ("disk_not_reached", _unseen, 0.49, 0.51, "invalid"),
    ("array_in_cache", _array, 1_000_000, 999_999, "warning"),
    ("array_in_cache", _array_bytes, 4.01, 3.99, "warning"),
    ("huge_pages", _huge, 0.049, 0.051, "info"),
    ("wrong_node", _node, 0.099, 0.101, "warning"),
    ("tlb_reach", _tlb, 16_000, 11_000, "info"),  # The edge is read to an octave.
    ("tlb_reach", lambda stride: _tlb(1000, stride), 257, 256, "info"),
    ("tlb_reach", lambda points: _tlb(100, points=round(points)), 5, 6, "info"),
    ("write_allocate", _allocated, 0.049, 0.051, "info"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "sees", "below", "above", "severity"), THRESHOLDS)
def test_a_threshold_is_where_it_is(rule: str, sees: Sees, below: float, above: float, severity: str) -> None:
    assert sees(above).get(rule) == severity
    assert sees(below).get(rule) != severity
