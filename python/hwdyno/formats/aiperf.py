"""Reads AIPerf's ``profile_export_aiperf.json``: a block of statistics a metric, in ms.

Its TTFT counts from the sent time to the first chunk with content; what it calls inter-token latency is TPOT.
"""

from __future__ import annotations

from hwdyno.formats.load_generator import Reported, make_run, read_latency
from hwdyno.model.words import Run, UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table

NAME = "aiperf-json"
_KINDS = {
    "request_latency": "total",
    "time_to_first_token": "first_token_sent",
    "inter_token_latency": "per_token",
    "inter_chunk_latency": "chunk_gap",
}
_NAMES = {"mean": "avg", **{name: name for name in ("p50", "p90", "p99", "min", "max")}}
_MARKS = ('"request_throughput"', '"request_latency"', '"avg"')


def recognizes(text: str) -> bool:
    """Whether this looks like AIPerf's export."""
    return all(mark in text for mark in _MARKS)


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    return make_run(NAME, "AIPerf", text, name, [read_load(text, name)], _version(text, name))


def _version(text: str, name: str) -> str:
    document = Table.from_value(foreign.parse_json(text, name), name)
    return document.text("aiperf_version") if "aiperf_version" in document else ""


def read_load(text: str, name: str) -> Reported:
    """Its load. Raises ``UserError`` in one line."""
    document = Table.from_value(foreign.parse_json(text, name), name)
    requests_s, completed = _average(document, "request_throughput"), int(_average(document, "request_count"))
    if not requests_s or not completed:
        raise UserError(f"{name}: no request of AIPerf was answered")
    times = {}
    for key, kind in _KINDS.items():
        if key in document and (found := read_latency(document.table(key), 1e6, _NAMES, completed)) is not None:
            times[kind] = found
    users, rate = _setting(document, "concurrency"), _setting(document, "request_rate")
    return Reported(
        requests_s=requests_s,
        output_tokens_s=_average(document, "output_token_throughput"),
        completed=completed,
        elapsed_s=_average(document, "benchmark_duration"),
        users=0 if rate else int(users) or 1,
        rate=rate,
        failed=int(_average(document, "error_request_count")),
        times=times,
    )


def _average(document: Table, key: str) -> float:
    """The value of a metric that has one; 0 where it is not there."""
    return document.table(key).number("avg", most=1e15) if key in document else 0.0


def _setting(document: Table, key: str) -> float:
    """A setting of the load, wherever the version keeps it; 0 where it is not there."""
    for path in (("input_config", "loadgen"), ("input_config", "load_generator"), ("config", "loadgen")):
        found = document
        for name in path:
            if name not in found or not isinstance(found.values[name], dict):
                break
            found = found.table(name)
        else:
            if key in found:
                return found.number(key, most=1e9)
    return _of_phases(document, key)


def _of_phases(document: Table, key: str) -> float:
    """A setting of the phase that was measured, as version 0.13 keeps them."""
    settings = document.table("input_config") if isinstance(document.values.get("input_config"), dict) else None
    phases = settings.values.get("phases") if settings is not None else None
    for phase in phases if isinstance(phases, list) else ():
        if isinstance(phase, dict) and phase.get("kind") == "profiling" and key in phase:
            return Table.from_value(phase, document.name).number(key, most=1e9)
    return 0.0
