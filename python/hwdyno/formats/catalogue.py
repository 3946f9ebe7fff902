"""Every foreign result format, by the name of its file."""

from __future__ import annotations

import importlib
from typing import Any, cast

from hwdyno.formats.format import Format

FORMATS = (
    "fio", "dlio", "mlc", "stream", "babelstream", "linpack", "iperf3", "fio_text", "iperf3_text", "iozone",
    "lmbench", "sysbench", "stress_ng", "sockperf", "perftest", "netperf", "ping", "mdtest", "ior", "elbencho",
    "nvbandwidth", "clpeak", "cuda_bandwidth", "phoronix", "geekbench", "crystaldiskmark", "vllm_bench", "aiperf",
    "guidellm", "llama_bench", "nccl_tests", "kbench", "published",
)  # fmt: skip
"""Each name is a file ``formats/<name>.py`` that implements ``Format``."""


def list_formats() -> dict[str, Format]:
    """Every format, by the name of its file."""
    return {name: cast(Format, _module(name)) for name in FORMATS}


def _module(name: str) -> Any:
    return importlib.import_module(f"hwdyno.formats.{name}")
