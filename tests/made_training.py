"""Points and Runs of training, made by hand for the rules on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hwdyno.analysis.estimates import interval
from hwdyno.explain.findings import explain
from hwdyno.model.machine import Cpu, Machine, Memory
from hwdyno.model.words import ExperimentResult, Finding, Measurement, Parameters, PeerResult, Run
from made_experiment import made_experiment

RECORD, BATCH, COMPUTE = 146_600_628, 7, 0.323
NEED = RECORD * BATCH / COMPUTE
FIXED: Parameters = {
    "workload": "unet3d", "accelerator": "h100", "record_bytes": RECORD, "batch_size": BATCH, "compute": COMPUTE,
    "au_pass": 0.9, "read_threads": 4, "prefetch": 2,
}  # fmt: skip


def point(number: int, au: float, **details: Any) -> Measurement:
    rate = au * NEED * number / RECORD
    return Measurement(
        parameters={"accelerators": number},
        throughput=interval([rate * RECORD] * 3, "bytes/s"), rate=interval([rate] * 3, "operations/s"),
        latency_ns=None, streams=(), samples=None, concurrency=None, cpu_user_s=1.0, cpu_system_s=1.0,
        elapsed_s=60.0, operations=int(rate * 60), bytes=int(rate * 60 * RECORD), repeats=3,
        details={
            "au_dlio": au, "au_rule": au, "samples_s_dlio": rate, "steps": 500, "need_bytes_s": NEED,
            "dataset_bytes": 10e12, "cached_share_by_device": 0.0, **details,
        },
    )  # fmt: skip


def client(*speeds: float) -> ExperimentResult:
    points = tuple(
        replace(point(number, 0.5), throughput=interval([speed] * 3, "bytes/s"), details={})
        for number, speed in enumerate(speeds, 1)
    )
    fixed: Parameters = {**FIXED, "compute": 0.0}
    return made_experiment(
        "training.client.unet3d", "training", "?", "accelerators", "training_loader", points, fixed=fixed
    )


def plain(*speeds: tuple[int, float], **more: Any) -> ExperimentResult:
    """Plain reads of the same storage: bytes/s by threads."""
    points = tuple(
        replace(point(1, 0.5), parameters={"numjobs": jobs}, throughput=interval([speed] * 3, "bytes/s"), details={})
        for jobs, speed in speeds
    )
    return made_experiment(
        "storage.pattern.unet3d", "storage", "?", "numjobs", "storage_blocks", points,
        fixed={"rw": "read", "bs": 512 << 10}, **more,
    )  # fmt: skip


def kind(*points: Measurement, name: str = "h100", peers: tuple[PeerResult, ...] = (), **fixed: Any
         ) -> ExperimentResult:  # fmt: skip
    """Accelerators of a kind on unet3d; a parameter that is None is left out."""
    given = {name: value for name, value in {**FIXED, "accelerator": name, **fixed}.items() if value is not None}
    return made_experiment(
        f"training.unet3d.{name}", "training", "?", "accelerators", "training_loader", points, fixed=given, peers=peers
    )


MACHINE = Machine(cpu=Cpu(threads=8), memory=Memory(total_bytes=64 << 30))


def rules(result: ExperimentResult, *others: ExperimentResult) -> dict[str, Finding]:
    """The findings on the first experiment."""
    run = Run("x", "", "", (MACHINE,), "", "hwdyno training", (result, *others))
    return {found.rule: found for found in explain(run).findings if found.experiment == result.name}
