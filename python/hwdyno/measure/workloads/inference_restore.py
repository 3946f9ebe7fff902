"""The time to the next token after a context: its KV cache read back from storage, or the context computed again."""

from __future__ import annotations

from typing import Any

from hwdyno.measure.models.installed import STACKS, need
from hwdyno.measure.workloads.model_child import MODEL, PATH, complete_settings, reading, run_job, words
from hwdyno.model.words import Axis, Declaration

WAYS = ("recompute", "restore")
DECLARATION = Declaration(
    measures="tokens of context a second until the next token",
    operation="token",
    counts={"operations": "tokens"},
    stateful=False,
    axes=(
        words("the engine", STACKS, "stack"),
        words("recompute: prefill again; restore: read the KV cache back", WAYS, "way"),
        Axis(
            "tokens", default=256, means="tokens of the context", kind="integer", title="context tokens",
            least=2, most=2000,
        ),
        Axis(
            "cache", default="cold", means="the page cache before", kind="choice", choices=("cold", "warm")
        ),
        Axis(
            "threads", role="concurrency", default=1, means="threads of the engine", kind="integer", workers=True,
            least=1, most=1024,
        ),
        MODEL,
        PATH,
        Axis("context", default=2048, means="tokens that the KV cache has room for", kind="integer", least=16),
    ),
)  # fmt: skip


class Restore:
    """One context a reading, in a separate process."""

    declaration = DECLARATION

    def run(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Compute or restore once."""
        settings = complete_settings(DECLARATION, parameters)
        need(str(settings["stack"]))
        answer = run_job({"do": "restore", **settings})
        operations = answer["tokens"] if answer else 0
        stream = {"name": str(settings["way"]), "operations": operations}
        return reading("inference_restore", settings, answer, stream, 1.0)


WORKLOAD = Restore()
