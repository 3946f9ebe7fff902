"""Models with random weights that hwdyno makes itself: their tensors, their graphs, and the files that hold them."""

WEIGHTS, GRAPH, GGUF = "model.safetensors", "model.onnx", "model.gguf"
"""The files of a made model in its folder."""
