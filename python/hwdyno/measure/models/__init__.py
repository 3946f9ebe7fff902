"""Models with random weights that hwdyno makes itself: their tensors, their graphs, and the files that hold them."""

from __future__ import annotations

from hwdyno.measure.models.file_names import GGUF, GRAPH, WEIGHTS

__all__ = [
    "GGUF",
    "GRAPH",
    "WEIGHTS",
]
