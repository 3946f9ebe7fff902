"""Serving without a server: the load of ``inference_serving`` on a model in a separate process."""

from __future__ import annotations

from typing import Any

from hwdyno.measure.models.installed import need
from hwdyno.measure.workloads import inference_serving
from hwdyno.measure.workloads.model_child import MODEL, PATH, complete_settings, run_job, words
from hwdyno.model.words import Axis, Declaration

KERNEL = "inference_in_process"
STACKS = ("onnxruntime",)
"""Engines that answer several requests in one step here; llama.cpp does so as a server."""
_LOAD = (
    "concurrency", "rate", "arrivals", "burstiness", "think_time", "trace", "input_tokens", "output_tokens",
    "shared_prefix", "ttft_target", "tpot_target", "seed", "requests", "runtime",
)  # fmt: skip
"""Axes of the load, as against a server."""
_SERVED = {axis.name: axis for axis in inference_serving.DECLARATION.axes}

DECLARATION = Declaration(
    measures="requests answered by a model in a process, and the times of their tokens",
    operation="request",
    counts={"operations": "1"},
    axes=(
        words("the engine", STACKS, "stack"),
        Axis(
            "threads", role="concurrency", default=1, means="threads of the engine, which do not spin", kind="integer",
            workers=True, least=1, most=1024,
        ),
        Axis(
            "batch", default=8, means="requests answered in one step; more wait in the queue", kind="integer", least=1,
            most=1024,
        ),
        Axis(
            "context", default=2048, means="tokens of prompt and answer that a slot has room for", kind="integer",
            least=2, most=2048,
        ),
        MODEL,
        PATH,
        *(_SERVED[name] for name in _LOAD),
    ),
)  # fmt: skip


class InProcess:
    """A model that is loaded, and answers the load in steps."""

    declaration = DECLARATION

    def run(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Send the load once and give its Reading.

        Raises ``UserError`` for a wrong value, ``OSError`` for an engine that fails and where no request fits.
        """
        from hwdyno.measure.serving import in_process
        from hwdyno.measure.serving.reading import SendRecord, make_reading
        from hwdyno.measure.serving.request_figures import AnsweredRequest

        settings = complete_settings(DECLARATION, parameters)
        need(str(settings["stack"]))
        # A user has no connection to wait for here.
        job = {**settings, "connections": inference_serving.MAX_CONNECTIONS}
        load = inference_serving.make_load(job)
        found = run_job({"do": "serve", **job}) or {"requests": [], "failures": 0, "details": {}, "cpu": [0, 0]}
        requests = [AnsweredRequest(**fields) for fields in found["requests"]]
        if found["failures"] and not requests:
            raise OSError(f"none of {found['failures']} requests was answered: {in_process.TOO_LONG}; use fewer tokens")
        faults = [{"operation": "request", "errno": 0, "says": in_process.TOO_LONG, "count": found["failures"]}]
        taken = SendRecord(
            failures=found["failures"],
            faults=faults if found["failures"] else (),
            cpu_user_s=found["cpu"][0],
            cpu_system_s=found["cpu"][1],
            connections=max((request.in_flight for request in requests), default=0),
            interrupted=not requests,
        )
        reading = make_reading(KERNEL, settings, load, requests, taken)
        reading["details"] |= found["details"]
        return reading


WORKLOAD = InProcess()
