"""A decoder in ONNX Runtime that answers several requests at once: a slot each, and one step for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hwdyno.measure.models import WEIGHTS, onnx, safetensors, shapes
from hwdyno.measure.models.onnx import cache_names

_FOLDER_OF_WEIGHTS = "session.model_external_initializers_file_folder_path"


class Batch:
    """The model with a KV cache of this many slots, each with room for ``context`` tokens."""

    def __init__(self, path: Path, name: str, *, slots: int, context: int, threads: int) -> None:
        import numpy as np
        import onnxruntime

        self.model = shapes.find(name)
        assert self.model.decoder is not None
        self.shape = self.model.decoder
        self.slots, self.context = slots, min(context, self.shape.context)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry(_FOLDER_OF_WEIGHTS, str(path))
        places = safetensors.read_header(path / WEIGHTS).places
        graph = onnx.make_graph(self.model, WEIGHTS, places, batched=True)
        self.session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._row = (self.shape.kv_heads, self.context, self.shape.head)
        self._cache = [
            (np.zeros((slots, *self._row), np.float32), np.zeros((slots, *self._row), np.float32))
            for _ in range(self.shape.layers)
        ]
        self.past = [0] * slots
        """Tokens in the KV cache by slot."""
        self.last = [0] * slots
        """The newest token by slot, which is not in the KV cache yet."""

    def start(self, slot: int, ids: Sequence[int]) -> None:
        """Compute a prompt into a slot, up to its first token."""
        known = [token % self.shape.vocab for token in ids]
        self.past[slot] = 0
        (self.last[slot],) = self._run(slot, 1, [known], [len(known) - 1])
        self.past[slot] = len(known)

    def step(self, slots: Sequence[int]) -> None:
        """One token more in each slot. Empty slots below the last one compute a token for no one."""
        count = max(slots) + 1
        running = set(slots)
        past = [self.past[slot] if slot in running else 0 for slot in range(count)]
        tokens = self._run(0, count, [[self.last[slot]] for slot in range(count)], past)
        for slot in slots:
            self.last[slot] = tokens[slot]
            self.past[slot] += 1

    @property
    def weights_bytes(self) -> int:
        """Weights that a step reads, however many slots it is for."""
        return self.model.bytes_per_token

    @property
    def kv_bytes(self) -> int:
        """Bytes of KV cache that one token of a context takes."""
        return self.shape.kv_bytes

    def _run(self, first: int, count: int, ids: list[list[int]], last_places: list[int]) -> list[int]:
        """The likeliest next token of each of ``count`` slots from ``first`` on, whose caches stay where they are."""
        import numpy as np

        binding = self.session.io_binding()
        binding.bind_cpu_input("input_ids", np.array(ids, np.int64))
        binding.bind_cpu_input("seqlens_k", np.array(last_places, np.int32))
        binding.bind_cpu_input("total_sequence_length", np.array([max(last_places) + 1], np.int32))
        binding.bind_output("logits")  # First, because outputs are answered in the order of binding.
        dims = (count, *self._row)
        for layer, (key, value) in enumerate(self._cache):
            past_k, past_v, present_k, present_v = cache_names(layer)
            for past, present, buffer in ((past_k, present_k, key), (past_v, present_v, value)):
                place: Any = buffer[first:].ctypes.data
                binding.bind_input(past, "cpu", 0, np.float32, dims, place)
                binding.bind_output(present, "cpu", 0, np.float32, dims, place)
        self.session.run_with_iobinding(binding)
        return [int(token) for token in binding.get_outputs()[0].numpy()[:, 0].argmax(axis=1)]
