"""Points and Runs of a network made by hand, and what the rules say of them."""

from __future__ import annotations

from typing import Any

from hwdyno.explain.findings import explain
from hwdyno.model.machine import Machine
from hwdyno.model.words import Measurement, Run, Value
from made_experiment import made_experiment


def make_run(*points: Measurement, kernel: str = "network_throughput", machine: Any = None) -> Run:
    result = made_experiment("network.streams", "network", "?", "streams", kernel, points)
    return Run(
        "id", "2026-01-01T00:00:00+00:00", None, (Machine.of_survey(machine or {}),), "quick", "hwdyno", (result,)
    )


def point(details: dict[str, Any], **parameters: Any) -> Measurement:
    return Measurement(
        parameters={"streams": 1, "protocol": "tcp", **parameters},
        throughput=Value(1e9, "bytes/s"),
        rate=None,
        latency_ns=None,
        streams=(),
        samples=None,
        concurrency=None,
        cpu_user_s=0.1,
        cpu_system_s=0.1,
        elapsed_s=1.0,
        operations=1000,
        bytes=10**9,
        repeats=1,
        details=details,
    )


def rules(run: Run) -> dict[str, str]:
    return {finding.rule: finding.says for finding in explain(run).findings}
