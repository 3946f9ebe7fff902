"""Makes the points of one run: a row for training, and one for each direction of checkpoints or of the KV cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hwdyno.analysis.mlperf_storage import RunFacts
from hwdyno.formats import dlio, printed
from hwdyno.formats.mlpstorage_runs.documents import Documents
from hwdyno.formats.mlpstorage_runs.stated_facts import GIB, find_recall
from hwdyno.model.point_details import Claim
from hwdyno.model.units import positive
from hwdyno.model.words import Latency, Measurement, Parameters, UserError

MLPERF = "mlperf"
"""The key of a point's details that has its run's facts."""
_MS = 1e6
_ROUNDING = 0.01
"""DLIO takes its two means over the same epochs; a record's size may be rounded in a configuration."""


def make_points(found: Documents, facts: RunFacts) -> tuple[list[Measurement], list[Measurement]]:
    """The points of a run, and those of the checkpoints within a training run. Raises ``UserError``."""
    if not found.summary:
        raise UserError(f"{found.leaf.folder or found.leaf.run} has no summary")
    if facts.kind in {"training", "checkpointing"}:
        return _dlio_rows(found, facts)
    points = _vector_rows(found) if facts.kind == "vector_database" else _kv_rows(found)
    if not points:
        raise UserError(f"{found.leaf.folder} has a summary without figures")
    return [_with_labels(point, found, facts) for point in points], []


def _dlio_rows(found: Documents, facts: RunFacts) -> tuple[list[Measurement], list[Measurement]]:
    run = dlio.read(found.summary_text, found.leaf.find("summary.json"))
    by_kind = {result.name: list(result.points) for result in run.experiments}
    trained, saved = by_kind.get("training.summary", []), by_kind.get("training.dlio_checkpoint", [])
    saved = [_with_labels(point, found, facts) for point in saved if point.throughput.value > 0]
    trained = [_with_labels(point, found, facts) for point in trained if point.throughput.value > 0]
    if facts.kind == "training":
        rows, others = [_with_claims(point, found) for point in trained], saved
    else:
        rows, others = saved, []
    if not rows:
        raise UserError(f"{found.leaf.find('summary.json')} has no figures of {facts.kind}")
    return rows, others


def _with_labels(point: Measurement, found: Documents, facts: RunFacts) -> Measurement:
    """The point with its run and its host, and with the facts of its run."""
    au = point.details.get("au_dlio")
    labels: Parameters = {"run": facts.run}
    host = found.text("summary.hostname")
    # Each host of a run may have its summary.
    if host and found.leaf.folder.rpartition("/")[2] not in {"", facts.run}:
        labels["host"] = host
    if facts.hosts:
        labels["hosts"] = int(facts.hosts)
    if facts.accelerators and facts.kind in {"training", "checkpointing"}:
        labels["accelerators"] = int(facts.accelerators)
    stated = replace(facts, au=float(au)) if au is not None else facts
    details = {key: value for key, value in point.details.items() if value is not None}
    return replace(point, parameters={**labels, **point.parameters}, details={**details, MLPERF: stated.to_details()})


def _with_claims(point: Measurement, found: Documents) -> Measurement:
    """The point with two laws: its MB/s are samples/s x record, and samples/s are at most AU x what it needs."""
    if point.rate is None:
        return point
    samples_s, claims = point.rate.value, list[Claim]()
    record = found.number("parameters.dataset.record_length_bytes", "parameters.dataset.record_length")
    if record:
        product = "samples/s x record length"
        claims.append(Claim("bandwidth", point.throughput.value, samples_s * record, "bytes/s", product, _ROUNDING))
    batch, accelerators = found.number("parameters.reader.batch_size"), found.number("summary.num_accelerators")
    compute_s = found.number("parameters.train.computation_time", "parameters.train.computation_time.mean")
    au = point.details.get("au_dlio")
    if batch and accelerators and compute_s and au:
        # AU leaves out the first step, so an epoch's rate is somewhat less: of 565 results of 1.0 none is more.
        need = au * accelerators * batch / compute_s
        formula = "by AU x accelerators x batch / computation time"
        claims.append(Claim("throughput", samples_s, need, "operations/s", formula, _ROUNDING, at_most=True))
    return replace(point, claims=(*point.claims, *claims))


def _vector_rows(found: Documents) -> list[Measurement]:
    queries_s = positive(found.value("summary.throughput_qps"))
    if queries_s is None:
        return []
    mean, p99, p999 = (found.number(f"summary.{name}_latency_ms") for name in ("mean", "p99", "p999"))
    point = printed.point({}, queries_s, "operations/s", recall=find_recall(found))
    if mean:
        slow, slowest = (None if value is None else value * _MS for value in (p99, p999))
        point = replace(point, latency_ns=Latency(mean * _MS, None, None, slow, slowest, None, None, count=0))
    details = {**point.details, "p95_ms": found.number("summary.p95_latency_ms")}
    return [replace(point, details={key: value for key, value in details.items() if value is not None})]


def _kv_rows(found: Documents) -> list[Measurement]:
    """Two rows of each option, for reading and for writing; its GB/s are GiB/s (``kv-cache.py``)."""
    options, points = found.value("summary.options"), []
    for name, table in options.items() if isinstance(options, Mapping) else ():
        if not isinstance(table, Mapping):
            continue
        for operation in ("read", "write"):
            rate = positive(table.get(f"aggregated_{operation}_bandwidth_gbps"))
            if rate is None:
                continue
            details: dict[str, Any] = {
                key: value
                for key, theirs in (
                    ("tokens_s", "aggregated_avg_throughput_tokens_per_sec"),
                    ("storage_tokens_s", "aggregated_storage_throughput_tokens_per_sec"),
                    ("device_p95_ms", f"aggregated_device_{operation}_p95_ms"),
                    # Of the worst rank; the published table of 3.0 has it as that of reading.
                    *((("p95_ms", "aggregated_p95_latency_ms"),) if operation == "read" else ()),
                )
                if (value := positive(table.get(theirs))) is not None
            }
            parameters: Parameters = {"option": str(name)[:40], "operation": operation}
            ranks = found.number("summary.total_ranks")
            points.append(
                printed.point(
                    {**parameters, **({"ranks": int(ranks)} if ranks else {})}, rate * GIB, "bytes/s", **details
                )
            )
    return points
