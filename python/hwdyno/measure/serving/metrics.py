"""What a server says of itself while it is loaded: requests that wait and run, its KV cache and its preemptions.

Servers offer it at ``/metrics`` as Prometheus text (prometheus.io/docs/instrumenting/exposition_formats). A server that
has none, or none by these names, is measured as before.
"""

from __future__ import annotations

import contextlib
import math
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hwdyno.analysis import estimates
from hwdyno.measure.serving.model_list import fetch_body
from hwdyno.measure.serving.server_address import ServerAddress
from hwdyno.measure.serving.wire import WireError

PATH = "/metrics"
NAMES: Mapping[str, tuple[str, ...]] = {
    "waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred"),
    "running": ("vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing"),
    "kv_cache_share": (
        "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage", "llamacpp:kv_cache_usage_ratio",
    ),
    "preemptions": ("vllm:num_preemptions_total", "sglang:num_retracted_requests_total"),
}  # fmt: skip
"""The names that are read: vLLM's of vllm/v1/metrics/loggers.py, SGLang's of python/sglang/srt/metrics/collector.py,
llama.cpp's of tools/server. Of several names of one figure the first that is there counts (vLLM renamed one)."""
MAX_BYTES = 4 << 20
MAX_S = 2.0
EVERY_S = 1.0
"""Time between two questions: making the text costs a server milliseconds."""
MAX_VALUE = 1e12
_SAMPLE = re.compile(rb"^([a-z]+:[a-z_]+)(?:\{([^\n]*)\})?[ \t]+(\S+)", re.MULTILINE)
_ENGINE = re.compile(rb'\b(?:engine|dp_rank)="([^"]*)"')
_SUMS = ("waiting", "running", "preemptions")


def parse_figures(text: bytes) -> dict[str, float]:
    """The known figures by their names here; a value that cannot be is left out.

    Requests and preemptions are summed over a server's engines (data parallel ranks), of which each counts its own; the
    KV cache is the fullest one's.
    """
    series: dict[str, dict[bytes, float]] = {}
    wanted = {name for names in NAMES.values() for name in names}
    for found in _SAMPLE.finditer(text):
        name = found[1].decode()
        if name in wanted and (value := _value(found[3])) is not None:
            engine = _ENGINE.search(found[2] or b"")
            by_engine = series.setdefault(name, {})
            key = engine[1] if engine else b""
            by_engine[key] = max(value, by_engine.get(key, 0.0))
    figures = {}
    for kind, names in NAMES.items():
        values = next((series[name].values() for name in names if name in series), None)
        if values is not None:
            figures[kind] = sum(values) if kind in _SUMS else max(values)
    if figures.get("kv_cache_share", 0.0) > 1:
        del figures["kv_cache_share"]
    return figures


def _value(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < MAX_VALUE else None


@dataclass
class Watched:
    """A server's metrics before, during and after a load."""

    before: dict[str, float]
    during: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    """Metrics with the moment of each question, ns of the monotonic clock."""
    after: dict[str, float] = field(default_factory=dict)

    def details(self, began_ns: int, end_ns: int) -> dict[str, float]:
        """Medians of the samples while requests were begun, the fullest KV cache, and the preemptions in all."""
        within = [metrics for moment, metrics in self.during if began_ns < moment < end_ns]
        found = {}
        for kind in ("waiting", "running"):
            if values := [metrics[kind] for metrics in within if kind in metrics]:
                found[f"server_{kind}"] = estimates.median(values)
        if shares := [metrics["kv_cache_share"] for metrics in within if "kv_cache_share" in metrics]:
            found["server_kv_cache_share"] = max(shares)
        preempted = self.after.get("preemptions", -1.0) - self.before.get("preemptions", math.inf)
        # A counter that fell is that of a server that began again.
        return {**found, **({"server_preemptions": preempted} if preempted >= 0 else {})}


@contextlib.contextmanager
def watch_server(server: ServerAddress, runtime_s: float) -> Iterator[Watched]:
    """Ask a server while a load runs, in a thread that keeps the text and reads it afterwards.

    A server that did not answer once, or not in this form, is not queried again.
    """
    found = Watched(parse_figures(_text(server)))
    if not found.before:
        yield found
        return
    texts: list[tuple[int, bytes]] = []
    is_over = threading.Event()

    def sample() -> None:
        while not is_over.wait(max(0.05, min(EVERY_S, runtime_s / 5))):
            moment, text = time.perf_counter_ns(), _text(server)
            if not text:
                return
            texts.append((moment, text))

    thread = threading.Thread(target=sample, name="server metrics", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join(2 * MAX_S)
    found.during = [(moment, parse_figures(text)) for moment, text in texts]
    found.after = parse_figures(_text(server))


def _text(server: ServerAddress) -> bytes:
    try:
        return fetch_body(server, PATH, max_s=MAX_S, max_bytes=MAX_BYTES)
    except (OSError, WireError, ValueError):
        return b""
