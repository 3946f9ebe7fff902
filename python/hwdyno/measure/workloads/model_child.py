"""Runs a model in a separate process and makes a Reading of its answer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from hwdyno.model.words import Axis, Declaration
from hwdyno.system import signals
from hwdyno.system.processes import SILENT

TIMEOUT_S = 900.0
MODEL = Axis("model", default="62m", means="the model, by its name or its file", kind="text")
PATH = Axis("path", default="", means="its folder or file", kind="text")


def complete_settings(declaration: Declaration, parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters with the defaults of those that are not given."""
    return {axis.name: axis.default for axis in declaration.axes} | parameters


def run_job(job: dict[str, Any]) -> dict[str, Any] | None:
    """What a process answers to a job; none if it was stopped by a signal. Raises ``OSError`` in one line."""
    from hwdyno.measure.workloads import model_process

    command = [sys.executable, "-m", model_process.__name__, json.dumps(job)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, **SILENT, "PYTHONPATH": _search_path()},
    )  # fmt: skip
    try:
        with signals.halting(lambda: _end(process)):
            out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"the model's process was killed after {TIMEOUT_S:.0f} s") from None
    finally:
        if process.poll() is None:
            _end(process)
    if process.returncode and signals.is_end_requested():
        return None
    if process.returncode:
        lines = [line.strip() for line in err.splitlines() if line.strip()] or [_explain_status(process.returncode)]
        raise OSError(f"{job.get('loader') or job.get('stack')} failed: {lines[-1][:300]}")
    return dict(json.loads(out))


def _explain_status(status: int) -> str:
    """How a process ended that printed nothing."""
    if status == -signal.SIGKILL:
        return "its process was killed (SIGKILL), as the system does where memory ends; use a smaller model"
    return f"its process ended by signal {-status}" if status < 0 else f"status {status} without a message"


def _search_path() -> str:
    return os.pathsep.join(folder for folder in sys.path if folder)


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def reading(
    kernel: str, settings: dict[str, Any], answer: dict[str, Any] | None, stream: dict[str, Any], threads: float
) -> dict[str, Any]:
    """The Reading of an answer; an interrupted one where there is none."""
    found = answer or {"elapsed_s": 0.0, "user_s": 0.0, "system_s": 0.0, "details": {}}
    return {
        "kernel": kernel,
        "parameters": settings,
        "elapsed_s": found["elapsed_s"],
        "streams": [{"bytes": 0, "flops": 0, "operations": 0, **(stream if answer else {}), "name": stream["name"]}],
        "samples": {},
        "cpu": {"user_s": found["user_s"], "system_s": found["system_s"]},
        "concurrency_requested": threads,
        "counters": {},
        "faults": [],
        "notes": [],
        "details": found["details"],
        "interrupted": answer is None or signals.is_end_requested(),
    }


def words(means: str, choices: Sequence[str], name: str) -> Axis:
    """An axis of words."""
    return Axis(name, default=choices[0], means=means, kind="choice", choices=tuple(choices))
