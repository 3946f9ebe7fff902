"""The files of a made model in its folder."""

from __future__ import annotations

WEIGHTS, GRAPH, GGUF = "model.safetensors", "model.onnx", "model.gguf"
"""The files of a made model in its folder."""
