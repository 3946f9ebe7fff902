"""Reads what ``vllm bench serve`` prints, or writes with ``--save-result``: one JSON object a load, or a list of them.

Its TTFT and E2EL count from the sent time, after its own semaphore, and its ITL is the gap between chunks.
"""

from __future__ import annotations

import re
from typing import Any

from hwdyno.formats.load_generator import Reported, make_run, read_latency
from hwdyno.model.units import printed_number
from hwdyno.model.words import Run, UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table

NAME = "vllm-bench-serve"
_KINDS = {"ttft": "first_token_sent", "tpot": "per_token", "itl": "chunk_gap", "e2el": "total"}
_MARKS = ('"request_throughput"', '"total_output_tokens"', '"mean_ttft_ms"')


_INFINITE = re.compile(r'("request_rate":\s{0,9})Infinity\b')
_PRINTED = re.compile(r"^=+ Serving Benchmark Result =+$", re.M)
_LINE = re.compile(r"^([A-Za-z][\w .]*?)(?: \((\S+)\))?:\s+([\d.]+|inf)\s*$", re.M)
_NAMES = {
    "Successful requests": "completed",
    "Failed requests": "failed",
    "Maximum request concurrency": "max_concurrency",
    "Max request concurrency": "max_concurrency",
    "Request rate configured": "request_rate",
    "Traffic request rate": "request_rate",
    "Benchmark duration": "duration",
    "Total generated tokens": "total_output_tokens",
    "Request throughput": "request_throughput",
    "Output token throughput": "output_throughput",
}
"""The lines that it prints, and those of SGLang's descendant of it, by their names in the JSON."""
_COUNTS = {"completed", "failed", "max_concurrency", "total_output_tokens"}
_TIMES = re.compile(r"(Mean|Median|P[\d.]+) (TTFT|TPOT|ITL|E2EL|E2E Latency)")


def recognizes(text: str) -> bool:
    """Whether this looks like a result of ``vllm bench serve``."""
    return all(mark in text for mark in _MARKS) or _PRINTED.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    return make_run(NAME, "vllm bench serve", text, name, read_loads(text, name))


def read_loads(text: str, name: str) -> list[Reported]:
    """Its loads. Raises ``UserError`` in one line."""
    document = _parse_printed(text) if _PRINTED.search(text) else _parse_saved(text, name)
    found = [
        _load(Table.from_value(result, name)) for result in (document if isinstance(document, list) else [document])
    ]
    if not found:
        raise UserError(f"{name} has no result of vllm bench serve")
    return found


def _parse_saved(text: str, name: str) -> Any:
    """The JSON that was saved; SGLang appends a line for each load, and writes an infinite rate as no JSON has it."""
    text = _INFINITE.sub(r'\1"inf"', text).replace("_e2e_latency_ms", "_e2el_ms")
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and all(line.startswith("{") and line.rstrip().endswith("}") for line in lines):
        return [foreign.parse_json(line, name) for line in lines]
    return foreign.parse_json(text, name)


def _parse_printed(text: str) -> list[dict[str, Any]]:
    """Each result that was printed, under the names of the JSON."""
    results = []
    for part in _PRINTED.split(text)[1:]:
        found: dict[str, Any] = {}
        for line, _, value in _LINE.findall(part):
            key = _NAMES.get(line, "")
            if match := _TIMES.fullmatch(line):
                key = f"{match[1].lower()}_{match[2].split()[0].lower().replace('e2e', 'e2el').replace('ell', 'el')}_ms"
            number = printed_number(value)
            if key and number is not None:
                found.setdefault(key, int(number) if key in _COUNTS else number)
        results.append(found)
    return results


def _load(table: Table) -> Reported:
    completed, elapsed_s = table.count("completed"), table.number("duration")
    rate = _rate(table.values.get("request_rate"))
    users = table.count("max_concurrency") if "max_concurrency" in table else 0
    times = {}
    for word, kind in _KINDS.items():
        names = {
            "mean": f"mean_{word}_ms",
            "p50": f"median_{word}_ms",
            "p90": f"p90_{word}_ms",
            "p99": f"p99_{word}_ms",
        }
        names["p999"] = f"p99.9_{word}_ms"
        if (found := read_latency(table, 1e6, names, completed)) is not None:
            times[kind] = found
    requests_s = table.number("request_throughput")
    if not requests_s or not completed:
        raise UserError(f"{table.name}: no request of vllm bench serve was answered")
    return Reported(
        requests_s=requests_s,
        output_tokens_s=table.number("output_throughput"),
        completed=completed,
        elapsed_s=elapsed_s,
        # With an infinite rate and no limit all are sent at once; its text states neither.
        users=0 if rate else users or (completed if "request_rate" in table.values else 0),
        rate=rate,
        failed=table.count("failed") if "failed" in table else 0,
        output_tokens=table.count("total_output_tokens"),
        times=times,
    )


def _rate(value: Any) -> float:
    """Requests/s; 0 for ``inf``, which it writes as a word."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0.0
