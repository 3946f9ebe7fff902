"""Reads DLIO's ``summary.json``, or the figures at the end of its log, into a Run, and writes one from a Run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from hwdyno.analysis.estimates import interval
from hwdyno.formats import printed
from hwdyno.model.kernels import TRAINING_LOADER
from hwdyno.model.machine import Machine, Memory
from hwdyno.model.units import printed_number
from hwdyno.model.words import ExperimentResult, Measurement, Parameters, Run, UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table

NAME = "dlio-summary"
_MIB = 2**20
_GIB = 2**30
_CHECKPOINT_RATE = "{}_checkpoint_io_mean_GB_per_second"
"""Rate of "save" or "load", in GiB/s: the mean over the checkpoints of the size of all ranks / the duration."""
_REPORT = re.compile(r'"train_throughput_mean_MB_per_second"\s*:')
"""Mark of ``mlperf_storage_report.json``."""
_METRIC = re.compile(r"\[METRIC\] ([A-Z][^\n:]{3,60}?|train_au_meet_expectation)(?: \([^()\n]*\))?: (\w[\w.]{0,20})")
"""A line such as "[METRIC] Training Throughput (samples/second): 18.64 (0.85)"."""


def recognizes(text: str) -> bool:
    """Whether this looks like DLIO's summary."""
    summary = re.search(r'"num_accelerators"\s*:', text) is not None and '"metric"' in text
    return summary or _REPORT.search(text) is not None or bool(_read_log(text))


def read(text: str, name: str) -> Run:
    """Read a summary into a Run of one point: AU in ``details``, bytes/s as DLIO's samples/s x nominal record."""
    logged = _read_log(text)
    try:
        if logged:
            runs = [_run(Table.from_value(foreign.check_document(summary, "it"), "it")) for summary in logged]
            points = tuple(run.experiments[0].points[0] for run in runs)
            result = replace(runs[0].experiments[0], points=points, planned=len(points), fixed={})
            return replace(runs[0], experiments=(result,))
        document = Table.from_value(foreign.parse_json(text, "it"), "it")
        return _run(_of_report(document) if _REPORT.search(text) else document)
    except UserError as error:
        raise UserError(f"{name} is not a readable DLIO summary: {error}") from None


def _of_report(report: Table) -> Table:
    """The report of a submission to MLPerf Storage as one summary, whose repeats are the runs; it has no AU."""
    overall, runs = report.table("overall"), list(report.table("runs").tables().values())
    accelerators = printed_number(str(overall.values.get("train_num_accelerators"))) or 0.0
    metric = {
        "train_throughput_samples_per_second": [run.number("train_throughput_samples_per_second") for run in runs],
        "train_au_percentage": [],
        "train_io_mean_MB_per_second": overall.number("train_throughput_mean_MB_per_second"),
    }
    kept = {key: overall.values[key] for key in ("num_files_train", "num_samples_per_file") if key in overall}
    return Table({"num_accelerators": int(accelerators), "metric": metric, **kept}, report.name)


def _read_log(text: str) -> list[dict[str, Any]]:
    """The summaries of training in a log, each from its number of accelerators on; empty without any."""
    found: list[dict[str, str]] = []
    for name, value in _METRIC.findall(text):
        if name.startswith("Number of") or not found:
            found.append({})
        found[-1][re.sub(r" \[AU\]", "", name)] = value
    summaries = []
    for figures in found:
        names = ("Throughput", "Accelerator Utilization", "I/O Throughput")
        rate, share, io = (printed_number(figures.get(f"Training {name}", "")) for name in names)
        if rate is not None and share is not None:
            metric = {
                "train_throughput_samples_per_second": [rate],
                "train_au_percentage": [share],
                "train_io_mean_MB_per_second": io or 0.0,
                "train_au_meet_expectation": figures.get("train_au_meet_expectation", ""),
            }
            count = printed_number(figures.get("Number of Simulated Accelerators", "1")) or 1
            summaries.append({"num_accelerators": int(count), "metric": metric})
    return summaries


def _run(summary: Table) -> Run:
    metric = summary.table("metric")
    tables = [_checkpoints(metric, summary.count("num_accelerators", 1))]
    if not tables[0].points or "train_throughput_samples_per_second" in metric:
        tables.insert(0, _training(summary, metric))
    started, finished, hostname = (
        summary.text(key) if key in summary else None for key in ("start", "end", "hostname")
    )
    memory = summary.numbers("host_memory_GB") if "host_memory_GB" in summary else []
    machine = Machine(
        hostname=hostname or "unknown",
        memory=Memory(total_bytes=round(memory[0] * 2**30) if memory else None),
    )
    return Run(
        id=f"dlio-{re.sub(r'[^0-9A-Za-z]+', '-', started or '')[:40] or 'summary'}",
        started=started or "", finished=finished, machines=(machine,), profile="", command="dlio_benchmark",
        experiments=tuple(experiment for experiment in tables if experiment.points), version="", imported_from=NAME,
    )  # fmt: skip


def _checkpoints(metric: Table, accelerators: int) -> ExperimentResult:
    """A point each for checkpoints saved and loaded: bytes/s of all ranks, as DLIO's GB are of 2^30 bytes."""
    points = []
    for operation in ("save", "load"):
        if (key := _CHECKPOINT_RATE.format(operation)) not in metric:
            continue
        details = {
            name: metric.number(theirs) * factor
            for name, theirs, factor in (
                ("checkpoint_bytes", "checkpoint_size_GB", _GIB),
                ("deviation_bytes_s", f"{operation}_checkpoint_io_stdev_GB_per_second", _GIB),
                ("duration_mean_s", f"{operation}_checkpoint_duration_mean_seconds", 1),
            )
            if theirs in metric
        }
        parameters: Parameters = {"accelerators": accelerators, "operation": f"{operation} checkpoint"}
        points.append(printed.point(parameters, metric.number(key) * _GIB, "bytes/s", **details))
    return printed.experiment("training.dlio_checkpoint", "DLIO checkpoints", "dlio", "operation", points)


def _training(summary: Table, metric: Table) -> ExperimentResult:
    samples_s = metric.numbers("train_throughput_samples_per_second")
    au = [percent / 100 for percent in metric.numbers("train_au_percentage")]
    io_mib_s = metric.number("train_io_mean_MB_per_second")
    mean_samples_s = sum(samples_s) / len(samples_s) if samples_s else 0.0
    record = io_mib_s * _MIB / mean_samples_s if mean_samples_s else 0.0
    details: dict[str, Any] = {
        "au_dlio": sum(au) / len(au) if au else None,
        "au_dlio_by_epoch": au,
        "samples_s_dlio": mean_samples_s,
        "samples_s_dlio_by_epoch": samples_s,
        "record_bytes": record,
        **({"passes": passes == "success"} if (passes := metric.values.get("train_au_meet_expectation")) else {}),
    }
    parameters: Parameters = {"accelerators": summary.count("num_accelerators", 1)}
    names = {"files": "num_files_train", "samples_per_file": "num_samples_per_file", "epochs": "epochs"}
    fixed: Parameters = {ours: summary.count(key) if key in summary else None for ours, key in names.items()}
    fixed["record_bytes"] = record
    point = Measurement(
        parameters=parameters,
        throughput=interval([value * record for value in samples_s] or [0.0], "bytes/s"),
        rate=interval(samples_s or [0.0], "operations/s"),
        latency_ns=None, streams=(), samples=None, concurrency=None, cpu_user_s=None, cpu_system_s=None,
        elapsed_s=0.0, operations=0, bytes=0, repeats=len(samples_s),
        repeat_values=tuple(value * record for value in samples_s),
        details=details,
    )  # fmt: skip
    return ExperimentResult(
        name="training.summary",
        resource="training",
        asks="DLIO results",
        load="accelerators",
        kernel=TRAINING_LOADER,
        points=(point,),
        planned=1,
        fixed=fixed,
    )


def write(run: Run, result: ExperimentResult, point: Measurement) -> dict[str, Any]:
    """Write a point as DLIO's summary, with DLIO's names, units and formulas.

    ``train_io_mean_MB_per_second`` is samples/s x nominal record / 2^20 (``statscounter.py``), not the bytes
    read.
    """
    parameters = {**result.fixed, **point.parameters}
    au = [100 * value for value in point.details.get("au_dlio_by_epoch") or []]
    samples_s = list(point.details.get("samples_s_dlio_by_epoch") or [])
    record = float(parameters.get("record_bytes") or 0)
    passes = bool(au) and sum(au) / len(au) >= 100 * float(parameters.get("au_pass") or 0.9)
    io = [value * record / _MIB for value in samples_s]
    return {
        "start": run.started,
        "end": run.finished,
        "num_accelerators": int(parameters.get("accelerators") or 1),
        "num_hosts": 1,
        "hostname": run.machine.hostname or "",
        "metric": {
            "train_au_percentage": au,
            "train_au_mean_percentage": _mean(au),
            "train_au_meet_expectation": "success" if passes else "fail",
            "train_au_stdev_percentage": _deviation(au),
            "train_throughput_samples_per_second": samples_s,
            "train_throughput_mean_samples_per_second": _mean(samples_s),
            "train_throughput_stdev_samples_per_second": _deviation(samples_s),
            "train_io_mean_MB_per_second": _mean(io),
            "train_io_stdev_MB_per_second": _deviation(io),
        },
        "num_files_train": parameters.get("files"),
        "num_files_eval": 0,
        "num_samples_per_file": parameters.get("samples_per_file"),
        "host_memory_GB": [(run.machine.memory.total_bytes or 0) / 2**30],
        "host_cpu_count": [run.machine.cpu.threads],
        "epochs": len(au),
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _deviation(values: list[float]) -> float:
    """Population standard deviation, as ``numpy.std``."""
    mean = _mean(values)
    return (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5 if values else 0.0
