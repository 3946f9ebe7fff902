"""Every foreign result format, found by walking this folder."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import cast

from hwdyno.formats.format import FolderFormat, Format

ORDER = (
    "fio", "dlio", "mlc", "stream", "babelstream", "linpack", "iperf3", "fio_text", "iperf3_text", "iozone",
    "lmbench", "sysbench", "stress_ng", "sockperf", "perftest", "netperf", "ping", "mdtest", "ior", "elbencho",
    "nvbandwidth", "clpeak", "cuda_bandwidth", "phoronix", "geekbench", "crystaldiskmark", "vllm_bench", "aiperf",
    "guidellm", "llama_bench", "nccl_tests", "kbench",
)  # fmt: skip
"""The formats in the order in which the Runs of one text are given; any others follow by name."""


def _list_modules() -> dict[str, object]:
    """Every file of this folder by its name, those of ``ORDER`` first."""
    return _modules_in(tuple(importlib.import_module(__package__).__path__))


@cache
def _modules_in(folders: tuple[str, ...]) -> dict[str, object]:
    names = dict.fromkeys([*ORDER, *(module.name for module in pkgutil.iter_modules(folders))])
    return {name: importlib.import_module(f"{__package__}.{name}") for name in names}


def list_formats() -> dict[str, Format]:
    """Every format by the name of its file: each file of this folder that recognizes and reads a text."""
    return {name: cast(Format, module) for name, module in _list_modules().items() if hasattr(module, "recognizes")}


def list_folder_formats() -> dict[str, FolderFormat]:
    """Every format of a whole folder by its name: each part of this folder that reads one."""
    found = {name: module for name, module in sorted(_list_modules().items()) if hasattr(module, "recognizes_folder")}
    return {name: cast(FolderFormat, module) for name, module in found.items()}
