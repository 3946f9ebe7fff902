"""Reads what ``vllm bench serve --save-result`` writes: one JSON object a load, or a list of them.

Its TTFT and E2EL count from the sent time, after its own semaphore, and its ITL is the gap between chunks.
"""

from __future__ import annotations

from typing import Any

from hwdyno import foreign
from hwdyno.foreign import Table
from hwdyno.formats.load_generator import Reported, latency_of, run_of
from hwdyno.words import Run, UserError

NAME = "vllm-bench-serve"
_KINDS = {"ttft": "first_token_sent", "tpot": "per_token", "itl": "chunk_gap", "e2el": "total"}
_MARKS = ('"request_throughput"', '"total_output_tokens"', '"mean_ttft_ms"')


def recognizes(text: str) -> bool:
    """Whether this looks like a result of ``vllm bench serve``."""
    return all(mark in text for mark in _MARKS)


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    return run_of(NAME, "vllm bench serve", text, name, loads_of(text, name))


def loads_of(text: str, name: str) -> list[Reported]:
    """Its loads. Raises ``UserError`` in one line."""
    document = foreign.json_of(text, name)
    found = [_load(Table.of(one, name)) for one in (document if isinstance(document, list) else [document])]
    if not found:
        raise UserError(f"{name} has no result of vllm bench serve")
    return found


def _load(one: Table) -> Reported:
    completed, elapsed_s = one.count("completed"), one.number("duration")
    rate = _rate(one.values.get("request_rate"))
    users = one.count("max_concurrency") if "max_concurrency" in one else 0
    times = {}
    for word, kind in _KINDS.items():
        names = {
            "mean": f"mean_{word}_ms",
            "p50": f"median_{word}_ms",
            "p90": f"p90_{word}_ms",
            "p99": f"p99_{word}_ms",
        }
        names["p999"] = f"p99.9_{word}_ms"
        if (found := latency_of(one, 1e6, names, completed)) is not None:
            times[kind] = found
    requests_s = one.number("request_throughput")
    if not requests_s or not completed:
        raise UserError(f"{one.name}: no request of vllm bench serve was answered")
    return Reported(
        requests_s=requests_s,
        output_tokens_s=one.number("output_throughput"),
        completed=completed,
        elapsed_s=elapsed_s,
        # Without a rate or a limit all are sent at once: as many in flight as there are.
        users=0 if rate else users or completed,
        rate=rate,
        failed=one.count("failed") if "failed" in one else 0,
        output_tokens=one.count("total_output_tokens"),
        times=times,
    )


def _rate(value: Any) -> float:
    """Requests/s; 0 for ``inf``, which it writes as a word."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0.0
