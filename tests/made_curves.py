"""Points of planted throughputs, the experiments that they make, and the series that a curve is read off."""

from __future__ import annotations

from typing import Any

from hwdyno.analysis.curves.series import Series
from hwdyno.model.axes import FIELD
from hwdyno.model.words import Axis, ExperimentResult, Latency, Measurement, Parameters, Value
from made_experiment import made_experiment

IODEPTH = FIELD["iodepth"]


def measured(parameters: Parameters, rate: float, bs: int = 4096, latency_ns: float | None = None) -> Measurement:
    return Measurement(
        parameters=parameters,
        throughput=Value(rate * bs, "bytes/s", rate * bs * 0.99, rate * bs * 1.01),
        rate=Value(rate, "operations/s"),
        latency_ns=None
        if latency_ns is None
        else Latency(latency_ns, latency_ns, latency_ns, latency_ns, None, latency_ns, latency_ns, 10**6),
        streams=(),
        samples=None,
        concurrency=None,
        cpu_user_s=None,
        cpu_system_s=None,
        elapsed_s=1,
        operations=int(rate),
        bytes=int(rate) * bs,
        repeats=1,
    )


def experiment(points: list[Measurement], load: str = "iodepth") -> ExperimentResult:
    return made_experiment("storage.x", "storage", "?", load, "storage_blocks", tuple(points))


def series(loads: Any, amounts: Any, latencies: Any = (), tails: Any = (), axis: Axis = IODEPTH) -> Series:
    """Points of queue depths, in bytes/s."""
    none, values = (None,) * len(loads), tuple(Value(amount, "bytes/s") for amount in amounts)
    return Series(tuple(range(len(loads))), loads, values, latencies or none, tails or none, axis, none, None, 1.0)
