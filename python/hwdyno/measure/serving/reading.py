"""The Reading of a served load: requests as operations, all kinds of times as whole distributions, sums as details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hwdyno.measure.serving import request_figures
from hwdyno.measure.serving.request_figures import AnsweredRequest
from hwdyno.measure.serving.schedule import Load

REACHED = 0.98
"""Share of the rate below which requests queued up."""


@dataclass(frozen=True, slots=True)
class SendRecord:
    """How the load was sent, besides the answered requests."""

    failures: int = 0
    faults: Sequence[Mapping[str, object]] = ()
    cpu_user_s: float = 0.0
    """CPU time of the client's thread."""
    cpu_system_s: float = 0.0
    connections: int = 1
    """Most at once."""
    waited_for_connection: int = 0
    late_bodies: int = 0
    """Requests whose text was made when they were due, not before."""
    interrupted: bool = False
    kept_too_much: bool = False


def make_reading(
    kernel: str, settings: Mapping[str, Any], load: Load, requests: Sequence[AnsweredRequest], taken: SendRecord
) -> dict[str, Any]:
    """The Reading as the engine's kernels give it."""
    elapsed_s = request_figures.measure_elapsed(requests, is_open=load.is_open)
    times = {name: histogram.to_reading() for name, histogram in request_figures.record_histograms(requests).items()}
    total = times.pop("total", None)
    return {
        "kernel": kernel,
        "parameters": dict(settings),
        "elapsed_s": elapsed_s,
        "streams": [
            {
                "name": "request",
                "operations": len(requests),
                "bytes": 0,
                "flops": 0,
                "latency_ns": {"total": total} if total else {},
            },
            # No operations: tokens are counted in the details, and requests are what the load is made of.
            {"name": "token", "operations": 0, "bytes": 0, "flops": 0, "latency_ns": times},
        ],
        "samples": {},
        "cpu": {"user_s": taken.cpu_user_s, "system_s": taken.cpu_system_s},
        "concurrency_requested": 0.0 if load.is_open or load.think_s else float(load.users),
        "counters": {},
        "faults": list(taken.faults),
        "notes": _notes(load, requests, elapsed_s, taken),
        "details": _details(settings, requests, elapsed_s, taken),
        "interrupted": taken.interrupted,
    }


def _details(
    settings: Mapping[str, Any], requests: Sequence[AnsweredRequest], elapsed_s: float, taken: SendRecord
) -> dict[str, Any]:
    details: dict[str, Any] = {
        "failed_share": taken.failures / max(1, taken.failures + len(requests)),
        "connections": taken.connections,
        "late_bodies": taken.late_bodies,
        "waited_for_connection": taken.waited_for_connection,
        "formulas": "; ".join(request_figures.FORMULAS.values()),
    }
    if requests and elapsed_s > 0:
        targets = float(settings["ttft_target"]), float(settings["tpot_target"])
        details |= request_figures.summarize_requests(requests, elapsed_s, *targets)
        chunks = sum(len(request.gaps_s) + 1 for request in requests)
        details["client_cpu_s_a_chunk"] = (taken.cpu_user_s + taken.cpu_system_s) / chunks
    return details


def _notes(
    load: Load, requests: Sequence[AnsweredRequest], elapsed_s: float, taken: SendRecord
) -> list[dict[str, str]]:
    notes = []
    if load.rate > 0 and elapsed_s > 0 and len(requests) / elapsed_s < REACHED * load.rate:
        says = f"{len(requests) / elapsed_s:.3g} of {load.rate:g} requests/s were answered"
        notes.append({"code": "rate_not_reached", "says": says})
    if taken.waited_for_connection:
        says = f"{taken.waited_for_connection} requests waited in the client for a connection"
        notes.append({"code": "connections_used_up", "says": says})
    if taken.kept_too_much:
        notes.append({"code": "answers_too_long", "says": "the reading ended early: its answers filled the memory"})
    if any(request.output_tokens is None and request.miscounted is None for request in requests):
        says = "the server gives no usage, so tokens are not counted; chunks are"
        notes.append({"code": "no_usage", "says": says})
    return notes
