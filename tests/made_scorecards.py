"""Runs whose scorecards are tested: of every resource, degraded, explained, hostile, huge and without a machine."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import hostile
import made_run
from hwdyno.explain.findings import explain
from hwdyno.model.point_details import Concurrency
from hwdyno.model.words import ExperimentResult, Finding, Latency, Measurement, Run, Value
from hwdyno.report.terminal import print_run
from made_experiment import made_experiment


class MadeLater(Mapping[str, Run]):
    """Runs by name, each made when it is first used: every worker imports every test's file."""

    def __init__(self, makers: Mapping[str, Callable[[], Run]]) -> None:
        self._makers = makers
        self._made: dict[str, Run] = {}

    def __getitem__(self, name: str) -> Run:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


ADVICE = {
    "whole": "Measure: hwdyno storage --rw randread --bs 4k --iodepth 64 --path /srv/data --profile full --runtime 9",
    "machine": "Look closer: hwdyno memory caches",
}


def degraded(run: Run, rule: str = "interval_not_reached") -> Run:
    """The same Run with every point degraded by a rule."""
    results = (
        replace(
            experiment, points=tuple(replace(point, validity="degraded", why=(rule,)) for point in experiment.points)
        )
        for experiment in run.experiments
    )
    return replace(run, experiments=tuple(results))


def of_latency(name: str, kernel: str, *points: Measurement, resource: str = "memory") -> ExperimentResult:
    return made_experiment(name, resource, "?", "working_set", kernel, points, metric="latency", planned=len(points))


def timed(ns: float, low: float = 0.99, high: float = 1.01, **parameters: Any) -> Measurement:
    """One operation at a time, whose rate has an interval of the given shares."""
    rate = 1e9 / ns
    whole = Latency(ns, ns, ns, 1.3 * ns, None, 0.9 * ns, 2 * ns, 50_000)
    return replace(
        made_run.measured({"bs": 64}, rate, 1, 1), parameters=parameters, latency_ns=whole, rate=None,
        throughput=Value(rate, "operations/s", low * rate, high * rate), concurrency=Concurrency(1, 1.0),
        repeat_values=(0.8 * rate, rate, 1.25 * rate),
    )  # fmt: skip


def moved(bytes_s: float, unit: str = "bytes/s", **parameters: Any) -> Measurement:
    value = Value(bytes_s, unit, 0.97 * bytes_s, 1.03 * bytes_s)
    return replace(
        made_run.measured({"bs": 64}, 1e6, 1, 1), parameters=parameters, latency_ns=None, rate=None, throughput=value,
        concurrency=None, repeat_values=(bytes_s, 1.01 * bytes_s, 0.99 * bytes_s),
    )  # fmt: skip


def every_resource() -> Run:
    """A Run of five resources, with more figures than a screen holds and findings with commands."""
    memory = made_experiment(
        *("memory.grid", "memory", "?", "threads", "memory_bandwidth"),
        tuple(moved(n * 2e10, operation=operation, threads=n) for operation in ("triad", "read") for n in (1, 4)),
    )
    latency = of_latency("memory.latency", "memory_latency", *(timed(80.0 + n, working_set=n << 20) for n in (1, 64)))
    loops = tuple(
        moved(n * 1e11, "FLOP/s", operation="fma", precision=p, threads=n) for p in ("double", "single") for n in (1, 4)
    )
    compute = made_experiment("compute.grid", "compute", "?", "threads", "compute_flops", loops)
    lu = (moved(3e11, "FLOP/s", operation="lu", n=3000, threads=4),)
    linpack = made_experiment("compute.linpack", "compute", "?", "n", "linpack", lu)
    loopback = {"loopback": True}
    streams = (replace(moved(5e9, protocol="tcp", direction="up", streams=2), details=loopback),)
    network = made_experiment("network.streams", "network", "?", "streams", "network_throughput", streams)
    trips = (replace(timed(1.3e4, protocol="tcp", in_flight=1, message=64), details=loopback),)
    trip = of_latency("network.latency", "network_latency", *trips, resource="network")
    fed = made_experiment(
        "training.accelerators", "training", "?", "accelerators", "training_loader", (moved(1e9, accelerators=1),)
    )
    carried = Finding(
        "training_capacity", "info", "training", "This storage feeds 1.",
        {"headline": {"title": "H100s fed, unet3d", "value": 1}}, ADVICE["whole"], fed.name, (0,),
    )  # fmt: skip
    others = [
        Finding(
            f"rule_{at}",
            "warning",
            "memory",
            f"Finding {at}, which is long: {'word ' * 30}.",
            {},
            f"{ADVICE['whole']} --seed {at}",
        )
        for at in range(5)
    ]
    whole = made_run.whole_run()
    measured = (*whole.experiments, memory, latency, compute, linpack, network, trip, fed)
    return replace(whole, experiments=measured, findings=(carried, *others))


def _explained(make: Callable[[], Run]) -> Run:
    return explain(make())


RUNS = MadeLater(
    {
        **made_run.ALL,
        **{f"explained {name}": partial(_explained, make) for name, make in made_run.ALL.items()},
        "every resource": every_resource,
        "all degraded": lambda: degraded(made_run.whole_run()),
        "one resource": lambda: replace(made_run.whole_run(), experiments=made_run.whole_run().experiments[:1]),
        "wholly hostile": hostile.wholly_hostile_run,
        "huge": made_run.huge_run,
        "interrupted": lambda: replace(made_run.whole_run(), interrupted=True),
        "no machine": lambda: replace(made_run.whole_run(), machines=()),
    }
)


def printed(run: Run, width: int = 80, **more: Any) -> str:
    out = io.StringIO()
    print_run(run, file=out, width=width, **more)
    return out.getvalue()
