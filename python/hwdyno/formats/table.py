"""Writes a Run's points as a flat table: CSV for spreadsheets, Parquet for data frames."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from hwdyno.model.words import Measurement, PeerResult, Run, Value
from hwdyno.system import optional
from hwdyno.system.printable import csv_cell

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]

_UNITS = {"bytes/s": "bytes_s", "operations/s": "operations_s", "FLOP/s": "flop_s", "IOP/s": "iop_s", "s": "s"}


def make_rows(run: Run) -> list[Row]:
    """One row per point; a column is none where a point has no such figure."""
    rows = []
    for experiment in run.experiments:
        peers: dict[int, list[PeerResult]] = {}
        for result in experiment.peers:
            peers.setdefault(result.point, []).append(result)
        for index, point in enumerate(experiment.points):
            row: Row = {
                "run": run.id,
                "started": run.started,
                "profile": run.profile,
                "experiment": experiment.name,
                "resource": experiment.resource,
                "kernel": experiment.kernel,
                "point": index,
            }
            row |= {f"parameter_{name}": value for name, value in {**experiment.fixed, **point.parameters}.items()}
            row |= _figures(point)
            for result in peers.get(index, []):
                row |= _peer(result)
            rows.append(row)
    return rows


def _value(name: str, value: Value | None) -> Row:
    if value is None:
        return {}
    stem = f"{name}_{_UNITS.get(value.unit, value.unit.replace('/', '_per_').replace(' ', '_'))}"
    return {stem: value.value, f"{stem}_low": value.low, f"{stem}_high": value.high}


def _figures(point: Measurement) -> Row:
    row = _value("throughput", point.throughput) | _value("rate", point.rate)
    if latency := point.latency_ns:
        quantiles = ("mean", "p50", "p90", "p99", "p999", "min", "max")
        row |= {f"latency_ns_{name}": getattr(latency, name) for name in quantiles}
    for stream in point.streams:
        row |= {f"{stream.name}_operations": stream.operations, f"{stream.name}_bytes": stream.bytes}
    if point.samples:
        unit = _UNITS.get(point.throughput.unit, "")
        row |= {f"sample_{name}_{unit}": getattr(point.samples, name) for name in ("min", "avg", "max")}
    if point.concurrency:
        row |= {"in_flight_requested": point.concurrency.requested, "in_flight_effective": point.concurrency.effective}
    row |= {
        "cpu_user_s": point.cpu_user_s,
        "cpu_system_s": point.cpu_system_s,
        "elapsed_s": point.elapsed_s,
        "operations": point.operations,
        "bytes": point.bytes,
        "repeats": point.repeats,
        "validity": point.validity,
        "why": " ".join(point.why),
    }
    return row | {f"counter_{name}": value for name, value in point.counters.items()}


def _peer(result: PeerResult) -> Row:
    row = _value(f"{result.tool}_throughput", result.value)
    row |= _value(f"{result.tool}", result.ratio) | _value(f"{result.tool}_cpu", result.cpu_ratio)
    return row | {f"{result.tool}_version": result.version, f"{result.tool}_pairs": result.pairs}


def list_columns(rows: list[Row]) -> list[str]:
    """The columns of all rows, in order of first use."""
    return list(dict.fromkeys(name for row in rows for name in row))


def format_csv(rows: list[Row]) -> str:
    """The table as CSV (RFC 4180 except for line ends); a missing figure is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = list_columns(rows)
    writer.writerow(map(csv_cell, columns))
    writer.writerows([csv_cell(row.get(name)) for name in columns] for row in rows)
    return out.getvalue()


def make_columns(rows: list[Row]) -> dict[str, list[Any]]:
    """The table by column, each of one type: a column of mixed types becomes text."""
    return {name: _uniform([row.get(name) for row in rows]) for name in list_columns(rows)}


def make_arrow(rows: list[Row], feature: str, instead: str = "") -> pa.Table:
    """The table as Arrow; raises ``UserError`` without pyarrow, which names the ``feature`` and what works without."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise optional.missing("parquet", feature, instead) from error
    return pa.table(make_columns(rows))


def encode_parquet(rows: list[Row]) -> bytes:
    """The table as Parquet; raises ``UserError`` without pyarrow."""
    table = make_arrow(rows, "a Parquet file", "--csv needs nothing")
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def _uniform(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and len(kinds) == 2:
        return [None if value is None else float(value) for value in values]
    return values if len(kinds) <= 1 else [None if value is None else str(value) for value in values]
