"""The libraries behind the loaders and the engines that run models: which of them are installed."""

from __future__ import annotations

from importlib.util import find_spec

from hwdyno.model.words import UserError
from hwdyno.system import optional

STACKS = ("onnxruntime", "llama.cpp")
SPINNING = {"llama.cpp"}
"""Stacks whose threads spin at each operation's barrier: with more than are free a token takes seconds."""
LOADERS = ("raw", "direct", "read", "mmap", "safetensors", "onnxruntime", "mapped", "llama.cpp")
STREAMING = ("raw", "read", "safetensors", "onnxruntime")
"""Loaders that take a model from memory, so that it can come from an object store; the others read files."""
_MODULES = {
    "onnxruntime": "onnxruntime",
    "mapped": "onnxruntime",
    "llama.cpp": "xllamacpp",
    "safetensors": "safetensors",
    "images": "PIL",
}
"""The module that runs or loads a model, by what needs it."""


def is_here(word: str) -> bool:
    """Whether the library behind a stack or a loader is installed; nothing is imported."""
    return word not in _MODULES or find_spec(_MODULES[word]) is not None


def need(word: str) -> None:
    """Raise ``UserError`` where the library behind a stack or a loader is not installed."""
    if is_here(word):
        return
    if _MODULES[word] == "onnxruntime":
        feature = f"the loader {word}" if word == "mapped" else "loading a model"
        raise optional.missing("inference", feature, "--kv-cache and --vector-search need nothing")
    raise UserError(f"{word} needs {_MODULES[word]}: pip install {_MODULES[word]}")
