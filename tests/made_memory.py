"""Points and Runs of memory and arithmetic, made by hand for the rules on them."""

from __future__ import annotations

from typing import Any

from hwdyno.explain.findings import explain
from hwdyno.model.machine import Machine
from hwdyno.model.words import ExperimentResult, Finding, Latency, Measurement, Run, Value
from made_experiment import made_experiment

MIB = 1 << 20
SET = 512 * MIB


def point(value: float, unit: str = "bytes/s", ns: float | None = None, **more: Any) -> Measurement:
    details = more.pop("details", {})
    latency = None if ns is None else Latency(ns, ns, ns, ns, None, ns, ns, 1000)
    return Measurement(
        parameters=more,
        throughput=Value(value, unit, value * 0.99, value * 1.01),
        rate=None,
        latency_ns=latency,
        streams=(),
        samples=None,
        concurrency=None,
        cpu_user_s=1.0,
        cpu_system_s=0.0,
        elapsed_s=1.0,
        operations=1000,
        bytes=0,
        repeats=3,
        details=details,
    )


def result(kernel: str, load: str, *points: Measurement, name: str = "", **fixed: Any) -> ExperimentResult:
    resource = "memory" if kernel.startswith("memory") else "compute"
    return made_experiment(name or f"{resource}.test", resource, "?", load, kernel, points, fixed=fixed)


def make_run(*results: ExperimentResult, machine: dict[str, Any] | None = None) -> Run:
    cpu = {"threads": 2, "cores": 2, "caches": [{"level": 3, "type": "unified", "size_bytes": 8 * MIB}]}
    return explain(
        Run(
            "r",
            "2026-01-01T00:00:00Z",
            None,
            (Machine.of_survey(machine or {"cpu": cpu}),),
            "quick",
            "hwdyno memory",
            results,
        )
    )


def found(run: Run, rule: str) -> Finding | None:
    return next((finding for finding in run.findings if finding.rule == rule), None)


def moved(value: float, operation: str, threads: int = 2, **more: Any) -> Measurement:
    return point(value, operation=operation, threads=threads, **more)


def flops(value: float, isa: str, clock: float = 3.7e9, threads: int = 1, **more: Any) -> Measurement:
    wide = {"scalar": 2.0, "avx512": 16.0, "amx": 32768.0}[isa]
    cycle = {"scalar": 4.0, "avx512": 32.0, "amx": 2048.0}[isa]
    details = {
        "isa": isa,
        "flop_per_instruction": wide,
        "instructions_per_cycle": cycle / wide,
        "flop_per_cycle": more.pop("flop_per_cycle", cycle),
        "flop_per_cycle_best_slice": cycle,
        "clock_hz_during": clock,
        "clock_hz_best": clock,
        "verification": more.pop("verification", "passed"),
    }
    parameters = {"operation": "fma", "precision": "double", "isa": isa, "threads": threads, **more}
    return point(value, "FLOP/s", details=details, **parameters)


def chase(way: str, *rows: tuple[Any, float, float | None]) -> list[Measurement]:
    return [point(rate, "operations/s", ns, **{way: value}) for value, rate, ns in rows]
