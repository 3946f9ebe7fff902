"""Decodes tokens of a decoder one after the other, in ONNX Runtime or in llama.cpp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwdyno.measure.models import shapes
from hwdyno.measure.models.installed import STACKS, need
from hwdyno.measure.workloads.model_child import MODEL, PATH, complete_settings, reading, run_job, words
from hwdyno.model.histogram import Histogram
from hwdyno.model.words import Axis, Declaration

if TYPE_CHECKING:
    from hwdyno.measure.models.shapes import Model

DECLARATION = Declaration(
    measures="tokens a second of one sequence, each computed after the one before",
    operation="token",
    counts={"operations": "1"},
    stateful=False,
    axes=(
        words("the engine", STACKS, "stack"),
        Axis(
            "threads", role="concurrency", default=1, means="threads of the engine, which do not spin", kind="integer",
            workers=True, least=1, most=1024,
        ),
        Axis("prompt", default=16, means="tokens before the first decoded one", kind="integer", least=1, most=1500),
        Axis("prepack", default=True, means="ONNX Runtime reorders weights when it loads them", kind="flag"),
        MODEL,
        PATH,
        Axis("context", default=2048, means="tokens that the KV cache has room for", kind="integer", least=16),
        Axis("runtime", "s", default=1.0, means="decode for this long; one token at least", least=0.0, most=86400.0),
    ),
)  # fmt: skip


class Decode:
    """One sequence, decoded in a separate process."""

    declaration = DECLARATION

    def run(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Decode for the runtime."""
        settings = complete_settings(DECLARATION, parameters)
        need(str(settings["stack"]))
        answer = run_job({"do": "decode", **settings})
        times = answer["times_s"] if answer else []
        stream = {
            "name": "token",
            "operations": len(times),
            "latency_ns": {"total": Histogram.from_values(1e9 * seconds for seconds in times).to_reading()},
        }
        if answer:
            answer["details"] |= _bytes(str(settings["model"]), int(settings["prompt"]), len(times))
        return reading("inference_decode", settings, answer, stream, 1.0)


WORKLOAD = Decode()


def _bytes(name: str, prompt: int, tokens: int) -> dict[str, float]:
    """Bytes that one token reads: the weights, and the KV cache of the mean context; none for a user's own model."""
    model: Model | None = shapes.find(name) if name in shapes.NAMES else None
    if model is None or model.decoder is None:
        return {}
    room = model.decoder.context - prompt - 1
    context = prompt + min(tokens, room) / 2
    return {
        "weights_bytes": float(model.bytes_per_token),
        "kv_bytes_per_token": float(model.decoder.kv_bytes),
        "bytes_per_token": model.bytes_per_token + context * model.decoder.kv_bytes,
        "weights": float(model.bytes_per_token // shapes.ITEM_BYTES),
    }
