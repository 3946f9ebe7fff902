"""Reads llama-bench's JSON or JSONL: tokens/s of a prompt (``pp512``) and of generation (``tg128``), without a server.

It samples no token and uses no HTTP, so its times are no TTFT: each test is a point of a separate kernel.
"""

from __future__ import annotations

import json
from dataclasses import replace

from hwdyno.analysis import estimates
from hwdyno.formats import printed
from hwdyno.model.point_details import Claim
from hwdyno.model.words import Measurement, Parameters, Run, UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table

NAME = "llama-bench-json"
_MARKS = ('"n_prompt"', '"n_gen"', '"avg_ts"', '"avg_ns"')
_ERROR = 0.05
"""The mean of rates is not the rate of the mean time: they differ by the square of the repeats' variation."""


def recognizes(text: str) -> bool:
    """Whether this looks like llama-bench's JSON."""
    return all(mark in text for mark in _MARKS)


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    rows = [Table.from_value(document, name) for document in _objects(text, name)]
    points = [_point(row) for row in rows]
    build = rows[0].text("build_commit") if rows and "build_commit" in rows[0] else ""
    table = printed.experiment("inference.llama_bench", "llama-bench results", "llama_bench", "threads", points)
    return printed.run(NAME, "llama-bench", text, name, [table], build)


def _objects(text: str, name: str) -> list[object]:
    """The rows of an array, or of a line each."""
    if text.lstrip().startswith("["):
        document = foreign.parse_json(text, name)
        return document if isinstance(document, list) else [document]
    lines = [line for line in text.splitlines() if line.strip().startswith("{")]
    try:
        json.loads(lines[0] if lines else "")
    except (ValueError, RecursionError):
        return [foreign.parse_json(text, name)]
    return [foreign.parse_json(line, name) for line in lines]


def _point(row: Table) -> Measurement:
    prompt, answer = row.count("n_prompt"), row.count("n_gen")
    tokens, value = prompt + answer, row.number("avg_ts")
    if not tokens or not value:
        raise UserError(f"{row.name} has a test of llama-bench without tokens or without a rate")
    words = "+".join([*([f"pp{prompt}"] if prompt else []), *([f"tg{answer}"] if answer else [])])
    parameters: Parameters = {"test": words}
    if "n_threads" in row:
        parameters["threads"] = row.count("n_threads")
    for key, name in (("model_type", "model"), ("backends", "backend")):
        if key in row:
            parameters[name] = row.text(key)
    if "n_depth" in row and (depth := row.count("n_depth")):
        parameters["test"] = f"{words}@d{depth}"
    samples = [sample for sample in row.numbers("samples_ts") if sample > 0] if "samples_ts" in row else []
    made = printed.point(parameters, value, "operations/s", None, tokens=tokens)
    low = estimates.interval(samples, "operations/s") if len(samples) > 1 else None
    time_ns = row.number("avg_ns", most=1e18)
    follows = tokens * 1e9 / time_ns if time_ns else value
    return replace(
        made,
        throughput=replace(made.throughput, low=low.low, high=low.high) if low is not None else made.throughput,
        repeats=max(1, len(samples)),
        repeat_values=tuple(samples),
        claims=(Claim("tokens/s", value, follows, "1/s", "(n_prompt + n_gen) / avg_ns", _ERROR),),
    )
