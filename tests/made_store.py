"""Small synthetic Runs for tests of the store and its readers."""

from __future__ import annotations

from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Concurrency, Note, Samples
from hwdyno.model.words import ExperimentResult, Latency, Measurement, Run, Stream, Value
from made_experiment import made_experiment

MACHINE = {"hostname": "bench-1", "cpu": {"model": "Some CPU", "cores": 2}, "storage": {"source": "/dev/vda1"}}


def latency(mean: float = 250_000.0, count: int = 20_000) -> Latency:
    return Latency(mean, mean * 0.9, mean * 1.5, mean * 2, mean * 4, mean * 0.5, mean * 9, count)


def point(iodepth: int = 1, value: float = 1e8, repeats: tuple[float, ...] = (), **axes: str | int) -> Measurement:
    repeats = repeats or (value * 0.99, value, value * 1.01)
    return Measurement(
        parameters={"iodepth": iodepth, "bs": 4096, "rw": "randread", "direct": True, **axes},
        throughput=Value(value, "bytes/s", value * 0.98, value * 1.02),
        rate=Value(value / 4096, "operations/s"),
        latency_ns=latency(),
        streams=(Stream("read", 1000, 4096000, 0, {"total": latency()}),),
        samples=Samples(value * 0.9, value, value * 1.1, 0.1, 0.02, (value * 0.9, value, value * 1.1)),
        concurrency=Concurrency(float(iodepth), iodepth * 0.99),
        cpu_user_s=0.1,
        cpu_system_s=0.4,
        elapsed_s=3.0,
        operations=1000,
        bytes=4096000,
        repeats=len(repeats),
        repeat_values=repeats,
        counters={"process_read_bytes": 4096000.0},
        details={"layers": {"a": [1, 2.5, None]}},
        notes=(Note("said", "Something was said."),),
    )


def experiment(*points: Measurement, name: str = "storage.iodepth", planned: int = 3) -> ExperimentResult:
    return made_experiment(
        name=name,
        resource="storage",
        asks="Throughput and latency by queue depth",
        load="iodepth",
        kernel="storage_blocks",
        points=points,
        planned=planned,
    )


def run(*experiments: ExperimentResult, run_id: str = "20260101-000000-abcd") -> Run:
    return Run(
        id=run_id,
        started="2026-01-01T00:00:00+00:00",
        finished="2026-01-01T00:01:00+00:00",
        machines=(Machine.of_survey(MACHINE),),
        profile="quick",
        command="hwdyno run",
        experiments=experiments or (experiment(point(1), point(2, 1.9e8), point(4, 2.5e8)),),
        version="0.1.0",
    )
