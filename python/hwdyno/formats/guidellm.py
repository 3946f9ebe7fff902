"""Reads guidellm's ``benchmarks.json``: a benchmark a load, each metric with its distribution by a request's status.

Its inter-token latency is TPOT, (last - first) / (n - 1). Its time per output token includes the TTFT, and is left out.
"""

from __future__ import annotations

from hwdyno.formats.load_generator import Reported, make_run, read_latency
from hwdyno.model.words import Latency, Run, UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table

NAME = "guidellm-json"
_KINDS = {
    "request_latency": ("total", 1e9),
    "time_to_first_token_ms": ("first_token_sent", 1e6),
    "inter_token_latency_ms": ("per_token", 1e6),
}
_PERCENTILES = {name: name for name in ("p50", "p90", "p99", "p999")}
_MARKS = ('"benchmarks"', '"requests_per_second"', '"successful"')


def recognizes(text: str) -> bool:
    """Whether this looks like guidellm's report."""
    return all(mark in text for mark in _MARKS)


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    return make_run(NAME, "guidellm", text, name, read_loads(text, name))


def read_loads(text: str, name: str) -> list[Reported]:
    """Its loads. Raises ``UserError`` in one line."""
    document = Table.from_value(foreign.parse_json(text, name), name)
    listed = document.values.get("benchmarks")
    found = [_load(Table.from_value(benchmark, name)) for benchmark in (listed if isinstance(listed, list) else [])]
    if not found:
        raise UserError(f"{name} has no benchmark of guidellm")
    return found


def _load(benchmark: Table) -> Reported:
    metrics = benchmark.table("metrics")
    totals = metrics.table("request_totals")
    completed = totals.count("successful")
    requests_s = _mean(metrics, "requests_per_second")
    if not requests_s or not completed:
        raise UserError(f"{benchmark.name}: a benchmark of guidellm has no answered request")
    times: dict[str, Latency] = {}
    for key, (kind, scale) in _KINDS.items():
        if key in metrics and (found := _distribution(metrics, key, scale, completed)) is not None:
            times[kind] = found
    rate = _strategy(benchmark, "rate") if _kind(benchmark) in {"constant", "poisson"} else 0.0
    in_flight = _mean(metrics, "request_concurrency")
    return Reported(
        requests_s=requests_s,
        output_tokens_s=_mean(metrics, "output_tokens_per_second"),
        completed=completed,
        elapsed_s=benchmark.number("duration") if "duration" in benchmark else 0.0,
        users=0 if rate else int(_strategy(benchmark, "streams")) or max(1, round(in_flight)),
        rate=rate,
        failed=totals.count("errored") if "errored" in totals else 0,
        times=times,
    )


def _distribution(metrics: Table, key: str, scale: float, count: int) -> Latency | None:
    of_answered = metrics.table(key)
    if "successful" not in of_answered:
        return None
    values = of_answered.table("successful")
    percentiles = values.table("percentiles").values if "percentiles" in values else {}
    names = {"mean": "mean", "min": "min", "max": "max", **_PERCENTILES}
    return read_latency(Table({**percentiles, **values.values}, values.name), scale, names, count)


def _mean(metrics: Table, key: str) -> float:
    if key not in metrics or "successful" not in metrics.table(key):
        return 0.0
    values = metrics.table(key).table("successful")
    return values.number("mean") if "mean" in values else 0.0


def _settings(benchmark: Table) -> Table:
    for path in (("config", "strategy"), ("args", "strategy")):
        if path[0] in benchmark and isinstance(benchmark.values[path[0]], dict) and path[1] in benchmark.table(path[0]):
            return benchmark.table(path[0]).table(path[1])
    return Table({}, benchmark.name)


def _kind(benchmark: Table) -> str:
    settings = _settings(benchmark)
    return settings.text("type_") if "type_" in settings else ""


def _strategy(benchmark: Table, key: str) -> float:
    settings = _settings(benchmark)
    return settings.number(key) if key in settings else 0.0
