"""Runs MLPerf Storage's own KV-cache benchmark on a point of ours: the same model, users, contexts and tiers.

It is no package but a program of mlcommons/storage (``kv_cache_benchmark/kv-cache.py``, v3), in NumPy; it needs no GPU.
Its users do what ours do, but ask on without waiting for an answer: where the storage keeps up with them it may have
more requests under way, and where it does not, both have one for each user.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwdyno.peers import PeerReading
from hwdyno.peers import program as programs
from hwdyno.words import UserError

GRACE_S = 60.0
"""Beside the run's own time: it draws 256 MiB of noise first."""
VERSION = "v3"
_GIB = float(1 << 30)
# Tokens of context and of answer, and s to think, of its kinds of users (kv_cache_benchmark/config.yaml).
KINDS = {
    "chatbot": ((512, 4096), (50, 200), (0.1, 0.5)),
    "coding": ((4096, 25_000), (100, 500), (0.2, 1.0)),
    "document": ((4096, 16_384), (200, 800), (0.3, 1.5)),
}
# What it does not let one choose, as our parameters have it.
_FIXED = {"direct": False, "drop_cache": True, "fsync": True, "token_time": 0.0, "turns": 50}


class MlperfKv:
    """The program that ``HWDYNO_MLPERF_KV`` names, in this Python."""

    name = "mlperf_kv"
    kernels = frozenset({"training_kv_cache"})

    def version(self) -> str | None:
        """The benchmark's; none if the program is not named or not there."""
        program = _program()
        return VERSION if program and program.is_file() else None

    def unsupported(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why it cannot measure this point; none if it can."""
        if kernel not in self.kernels:
            return f"a KV cache has nothing to set beside {kernel}"
        if parameters.get("user_kind", "mixed") != "chatbot" and float(parameters.get("scale") or 1) != 1:
            return (
                "it reads no context of 10,000 tokens or more again, and counts those of shortened ones, so only "
                "--user-kind chatbot or --scale 1 are alike"
            )
        for name, value in _FIXED.items():
            if parameters.get(name, value) != value:
                given = str(int(value) if isinstance(value, bool) else value)
                return f"it knows no other {name.replace('_', ' ')} than {given} (--{name.replace('_', '-')} {given})"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """What to type; folders and files stand for themselves."""
        given = dict(parameters)
        return [
            sys.executable, str(_program() or "kv-cache.py"),
            "--config", "users.yaml", "--output", "told.json", "--cache-dir", "cache",
            "--model", str(given.get("model") or "llama3.1-8b"),
            "--num-users", str(int(given.get("users", 8))),
            "--duration", str(max(1, round(float(given.get("runtime") or 10)))),
            "--gpu-mem-gb", "0",
            "--cpu-mem-gb", f"{int(given.get('memory') or 0) / _GIB:g}",
            "--storage-capacity-gb", f"{int(given.get('capacity') or 8 << 30) / _GIB:g}",
            "--generation-mode", "none", "--disable-prefix-caching", "--seed", str(int(given.get("seed") or 1)),
        ]  # fmt: skip

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run it once, in a folder of its own beside ours, which is removed."""
        why = self.unsupported(kernel, parameters)
        if why:
            raise UserError(why)
        beside = Path(str(parameters.get("path", "."))).parent
        with tempfile.TemporaryDirectory(prefix="hwdyno-mlperf-kv-", dir=beside) as place:
            folder = Path(place)
            # JSON is YAML
            (folder / "users.yaml").write_text(json.dumps(users(parameters)), encoding="utf-8")
            own = {"users.yaml", "told.json", "cache"}
            command = [str(folder / word) if word in own else word for word in self.command(kernel, parameters)]
            programs.output(command, float(parameters.get("runtime") or 10) + GRACE_S)
            try:
                return reading_of((folder / "told.json").read_text(encoding="utf-8"))
            except FileNotFoundError:
                raise OSError("it ended without an answer: not one request was served") from None


PEER = MlperfKv()


def _program() -> Path | None:
    told = os.environ.get("HWDYNO_MLPERF_KV")
    return Path(told) if told else None


def users(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Its file of users: each of its three kinds as the point has them, contexts at the point's scale."""
    scale, think = (float(parameters.get(name, 1.0)) for name in ("scale", "think"))
    kind = str(parameters.get("user_kind", "mixed"))
    templates = {}
    for name in KINDS:
        context, answer, pause = KINDS[kind if kind in KINDS else name]
        templates[name] = {
            "context_range": [max(1, round(tokens * scale)) for tokens in context],
            "generation_range": list(answer),
            "think_time_range": [seconds * think for seconds in pause],
        }
    return {"user_templates": templates, "decode": {"batch_size": int(parameters.get("decode_batch", 32))}}


def reading_of(text: str) -> PeerReading:
    """Read its answer; raises ``OSError`` in one line for one that cannot be read.

    Its CPU time is left out: seconds of it are the noise that it draws before the run.
    """
    try:
        told = json.loads(text)["summary"]
        cache, elapsed_s, requests = told["cache_stats"], float(told["elapsed_time"]), int(told["total_requests"])
        read, written = (float(cache[f"tier_storage_kv_bytes_{word}_gb"]) * _GIB for word in ("read", "written"))
        reads, writes = int(cache["read_iops"]), int(cache["prefill_writes"])
        tokens_s = float(told["avg_throughput_tokens_per_sec"])
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"its answer cannot be read: {type(error).__name__}: {error}") from None
    if elapsed_s <= 0 or not requests:
        raise OSError("it served not one request")
    p95 = {f"{word}_p95_ns": float(cache.get(f"storage_{word}_p95_ms") or 0) * 1e6 for word in ("read", "write")}
    return PeerReading(
        throughput=(read + written) / elapsed_s,
        unit="bytes/s",
        rate=(reads + writes) / elapsed_s,
        latency_ns_mean=None,
        cpu_s=None,
        operations=reads + writes,
        details={
            "tokens_s": tokens_s,
            "read_bytes_s": read / elapsed_s,
            "write_bytes_s": written / elapsed_s,
            "reads_per_request": reads / requests,
            "entry_bytes": written / writes if writes else None,
            **p95,
        },
    )
