"""A model's cold start against ONNX Runtime's default and the plain read of its file; decoding against the memory."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hwdyno.measure.measurement import compute_throughput
from hwdyno.measure.models import GRAPH, WEIGHTS, onnx, safetensors, shapes
from hwdyno.measure.scenarios.model import MODEL as MODEL_OPTION
from hwdyno.measure.scenarios.model import SEED
from hwdyno.measure.workloads import find

from benchmarks import Bench, BenchError, BenchmarkRow, Target, make_row

MODEL, DEFAULT_MODEL = "246m", str(MODEL_OPTION.default)
ENDED = (0, 3)
"""Statuses of a command that measured: 3 is that of figures to use with care."""
FROM_MEMORY_BYTES = 256 << 20


def measure(bench: Bench) -> Iterator[BenchmarkRow]:
    """The rows, in the order printed."""
    bench.says(f"making the model {MODEL}")
    _make(bench.directory)
    yield from _cold(bench, bench.directory)
    yield _decoded(bench, bench.directory)
    yield _quick(bench)


def _make(folder: Path) -> None:
    model, file = shapes.find(MODEL), folder / WEIGHTS
    with file.open("wb") as out:
        for piece in safetensors.parts(model, SEED):
            out.write(piece)
    (folder / GRAPH).write_bytes(onnx.make_graph(model, WEIGHTS, safetensors.read_header(file).places))


def _cold(bench: Bench, folder: Path) -> Iterator[BenchmarkRow]:
    """Loads in turn: the plain read, ONNX Runtime's default, and ours."""
    pairs: dict[str, list[tuple[float, float]]] = {"onnxruntime": [], "raw": []}
    cpu: list[tuple[float, float]] = []
    for _ in range(bench.pairs):
        bench.says("cold start")
        found = {loader: _load(folder, loader) for loader in ("raw", "onnxruntime", "mapped")}
        rates = {loader: compute_throughput(reading, "bytes") for loader, reading in found.items()}
        for loader, rows in pairs.items():
            rows.append((rates["mapped"], rates[loader]))
        spent = {loader: reading["cpu"]["user_s"] + reading["cpu"]["system_s"] for loader, reading in found.items()}
        cpu.append((spent["mapped"], spent["onnxruntime"]))
    default = "time to ready from a cold file, of ONNX Runtime's default"
    yield make_row(default, "bytes/s", pairs["onnxruntime"], Target(at_least=1.7))
    yield make_row("the same, of the plain read of the file", "bytes/s", pairs["raw"], Target(at_least=0.8))
    yield make_row("its CPU time, of ONNX Runtime's default", "s", cpu)


def _load(folder: Path, loader: str) -> dict[str, Any]:
    return find("inference_load").run({"loader": loader, "cache": "cold", "model": MODEL, "path": str(folder)})


def _decoded(bench: Bench, folder: Path) -> BenchmarkRow:
    """Bytes a second that decoding reads, of what one thread can read."""
    pairs = []
    for _ in range(bench.pairs):
        bench.says("decoding")
        given = {"operation": "read", "threads": 1, "working_set": FROM_MEMORY_BYTES, "runtime": bench.runtime_s}
        bound = compute_throughput(bench.run("memory_bandwidth", given), "bytes")
        job = {"stack": "onnxruntime", "threads": 1, "model": MODEL, "path": str(folder), "runtime": bench.runtime_s}
        decoded = find("inference_decode").run(job)
        pairs.append((compute_throughput(decoded, "operations") * decoded["details"]["bytes_per_token"], bound))
    return make_row(
        "reads of decoding, 1 thread, of the memory's read bandwidth", "bytes/s", pairs, Target(at_least=0.8)
    )


def _quick(bench: Bench) -> BenchmarkRow:
    """The whole command with the profile quick and its default model, once; raises ``BenchError``."""
    bench.says("hwdyno inference")
    with TemporaryDirectory(dir=bench.directory) as folder:
        words = ["inference", "--path", folder, "--no-page", "--quiet", "--store", f"{folder}/store"]
        begun = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "hwdyno", *words], capture_output=True, text=True, check=False)
        took = time.perf_counter() - begun
    if done.returncode not in ENDED:
        raise BenchError(f"hwdyno inference: {done.stderr.strip()[-300:]}")
    size = shapes.find(DEFAULT_MODEL).bytes
    title = f"hwdyno inference, profile quick, a model of {size / 1e6:.0f} MB"
    return BenchmarkRow(title, "s", took, target=Target(at_most=180))
