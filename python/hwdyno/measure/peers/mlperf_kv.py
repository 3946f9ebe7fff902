"""Runs MLPerf Storage's KV cache benchmark on one of our points: same model, users, contexts and tiers.

It is not a package but a NumPy program of mlcommons/storage (``kv_cache_benchmark/kv-cache.py``, v3) without a GPU.
Its users act like ours, but do not wait for an answer before the next request: it may have more requests in flight
while the storage keeps up; once it does not, both have one request per user.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwdyno.measure.peers import program as programs
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.model.kernels import INFERENCE_KV_CACHE
from hwdyno.model.words import UserError
from hwdyno.system import foreign, output_files, safe_files
from hwdyno.system.foreign import Table

GRACE_S = 60.0
"""Allowance besides the run time: the program first generates 256 MiB of random data."""
VERSION = "v3"
_GIB = float(1 << 30)
# Context tokens, answer tokens and think time (s) of its user types (kv_cache_benchmark/config.yaml).
KINDS = {
    "chatbot": ((512, 4096), (50, 200), (0.1, 0.5)),
    "coding": ((4096, 25_000), (100, 500), (0.2, 1.0)),
    "document": ((4096, 16_384), (200, 800), (0.3, 1.5)),
}
# Parameters that are fixed in it, under our names.
_FIXED = {"direct": False, "drop_cache": True, "fsync": True, "token_time": 0.0, "turns": 50}


class MlperfKv:
    """The program that ``HWDYNO_MLPERF_KV`` names, run by this Python."""

    name = "mlperf_kv"
    kernels = frozenset({INFERENCE_KV_CACHE})

    def version(self) -> str | None:
        """The benchmark's version; none if the program is not named or missing."""
        program = _program()
        return VERSION if program and program.is_file() else None

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why the benchmark cannot measure this point; none if it can."""
        if kernel not in self.kernels:
            return f"the KV-cache benchmark cannot measure {kernel}"
        if parameters.get("user_kind", "mixed") != "chatbot" and float(parameters.get("scale") or 1) != 1:
            return (
                "it never re-reads a context of 10,000 tokens or more and ignores --scale there; "
                "use --user-kind chatbot or --scale 1 to compare"
            )
        for name, value in _FIXED.items():
            if parameters.get(name, value) != value:
                given = str(int(value) if isinstance(value, bool) else value)
                return f"it supports only {name.replace('_', ' ')} {given} (--{name.replace('_', '-')} {given})"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line, with placeholders for folders and files."""
        given = dict(parameters)
        return [
            sys.executable, str(_program() or "kv-cache.py"),
            "--config", "users.yaml", "--output", "summary.json", "--cache-dir", "cache",
            "--model", str(given.get("model") or "llama3.1-8b"),
            "--num-users", str(int(given.get("users", 8))),
            "--duration", str(max(1, round(float(given.get("runtime") or 10)))),
            "--gpu-mem-gb", "0",
            "--cpu-mem-gb", f"{int(given.get('memory') or 0) / _GIB:g}",
            "--storage-capacity-gb", f"{int(given.get('capacity') or 8 << 30) / _GIB:g}",
            "--generation-mode", "none", "--disable-prefix-caching", "--seed", str(int(given.get("seed") or 1)),
        ]  # fmt: skip

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run the benchmark once, in a temporary folder next to ours."""
        why = self.unsupported_reason(kernel, parameters)
        if why:
            raise UserError(why)
        parent = Path(str(parameters.get("path", "."))).parent
        with safe_files.temporary("hwdyno-mlperf-kv-", parent) as folder:
            # JSON is YAML
            output_files.write_output(folder / "users.yaml", json.dumps(users(parameters)).encode())
            files = {"users.yaml", "summary.json", "cache"}
            command = [str(folder / word) if word in files else word for word in self.command(kernel, parameters)]
            programs.output(command, float(parameters.get("runtime") or 10) + GRACE_S)
            try:
                return parse_output((folder / "summary.json").read_text(encoding="utf-8"))
            except FileNotFoundError:
                raise OSError("it gave no result: no request was served") from None


PEER = MlperfKv()


def _program() -> Path | None:
    program = os.environ.get("HWDYNO_MLPERF_KV")
    return Path(program) if program else None


def users(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The benchmark's file of users: its three types as the point has them, with contexts at the point's scale."""
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


def parse_output(text: str) -> PeerReading:
    """Read the benchmark's summary. Raises ``OSError`` in one line if it cannot be read.

    CPU time is left out: seconds of it generate random data before the run.
    """
    try:
        summary = Table.from_value(foreign.parse_json(text, "it"), "it").table("summary")
        cache, elapsed_s = summary.table("cache_stats"), summary.number("elapsed_time")
        requests = summary.count("total_requests")
        read, written = (cache.number(f"tier_storage_kv_bytes_{word}_gb") * _GIB for word in ("read", "written"))
        reads, writes = round(cache.number("read_iops")), cache.count("prefill_writes")
        tokens_s = summary.number("avg_throughput_tokens_per_sec")
        p95_ms = {
            word: cache.number(key) if (key := f"storage_{word}_p95_ms") in cache else 0.0 for word in ("read", "write")
        }
    except UserError as error:
        raise OSError(f"its answer cannot be read: {error}") from None
    if not elapsed_s or not requests or not read + written:
        raise OSError("it served no request")
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
            **{f"{word}_p95_ns": value * 1e6 for word, value in p95_ms.items()},
        },
    )
