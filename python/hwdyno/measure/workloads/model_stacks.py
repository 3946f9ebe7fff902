"""The engines that run a model: ONNX Runtime in this process, and llama.cpp with its server."""

from __future__ import annotations

import ctypes
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from hwdyno.measure.models import GGUF, GRAPH, WEIGHTS, shapes
from hwdyno.measure.models.gguf import FIRST_WORD
from hwdyno.measure.models.onnx import IMAGE, cache_names
from hwdyno.system import loopback

_TIMEOUT_S = 300
_FROM_MEMORY = "add_external_initializers_from_files_in_memory"


class Onnx:
    """A model in ONNX Runtime; a made decoder's KV cache is one buffer for past and present."""

    def __init__(
        self,
        path: Path,
        name: str,
        *,
        prepack: bool = True,
        threads: int = 0,
        content: tuple[bytes, memoryview] | None = None,
    ) -> None:
        """A model's folder or its file, or the content of a made one's graph and of its weights."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if threads:
            options.intra_op_num_threads = threads
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if not prepack:
            options.add_session_config_entry("session.disable_prepacking", "1")
        graph: str | bytes = str(path / GRAPH if path.is_dir() else path)
        if content:
            graph, weights = content
            if not hasattr(options, _FROM_MEMORY):
                raise OSError("this onnxruntime takes no weights from memory; pip install --upgrade onnxruntime")
            getattr(options, _FROM_MEMORY)([WEIGHTS], [weights], [weights.nbytes])
        self.session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self.model = shapes.find(name) if content or path.is_dir() else None
        self.cache: list[tuple[Any, Any]] = []

    def first(self, tokens: int = 1) -> None:
        """The first answer: logits after a prompt, classes of an image, a sentence's vector."""
        if self.model is not None and self.model.decoder is not None:
            self.decode(make_prompt(tokens, self.model.decoder.vocab), 0)
        else:
            self.session.run(None, self._inputs())

    @property
    def side(self) -> int:
        """The width and height of the images that a vision model takes: (1, 3, side, side); raises ``OSError``."""
        tensor = self.session.get_inputs()[0]
        shape = list(tensor.shape)
        sizes = {size for size in shape[2:] if isinstance(size, int)}
        if len(shape) != 4 or shape[1] != 3 or len(sizes) > 1 or tensor.type != "tensor(float)":
            raise OSError(f"the model takes {tensor.name} {shape}, no image of (1, 3, side, side) in float32")
        return min(sizes, default=IMAGE[-1])

    def classify(self, image: Any) -> Any:
        """The classes of one image; any number of threads may ask at once."""
        return self.session.run(None, {self.session.get_inputs()[0].name: image})[0]

    def _inputs(self) -> dict[str, Any]:
        """An input for each of the graph's: 1 for what may have any length and for what counts or masks, else 0."""
        import numpy as np

        kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
                 "tensor(float16)": np.float16, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8}  # fmt: skip
        made: dict[str, Any] = {}
        for model_input in self.session.get_inputs():
            dims = [size if isinstance(size, int) else 1 for size in model_input.shape]
            counts = "mask" in model_input.name or "total" in model_input.name
            made[model_input.name] = np.full(
                IMAGE if model_input.name == "image" else dims, int(counts), kinds[model_input.type]
            )
        return made

    def decode(self, ids: list[int], past: int) -> Any:
        """Logits after these tokens, which follow ``past`` others in the KV cache."""
        import numpy as np

        assert self.model is not None and self.model.decoder is not None
        binding, count = self.session.io_binding(), len(ids)
        binding.bind_cpu_input("input_ids", np.array([ids], np.int64))
        binding.bind_cpu_input("seqlens_k", np.array([past + count - 1], np.int32))
        binding.bind_cpu_input("total_sequence_length", np.array([past + count], np.int32))
        binding.bind_output("logits")  # First, because outputs are answered in the order of binding.
        for layer, (key, value) in enumerate(self._cache()):
            past_k, past_v, present_k, present_v = cache_names(layer)
            binding.bind_ortvalue_input(past_k, key)
            binding.bind_ortvalue_input(past_v, value)
            binding.bind_ortvalue_output(present_k, key)
            binding.bind_ortvalue_output(present_v, value)
        self.session.run_with_iobinding(binding)
        return binding.get_outputs()[0].numpy()[0, 0]

    def _cache(self) -> list[tuple[Any, Any]]:
        import numpy as np
        import onnxruntime

        assert self.model is not None and self.model.decoder is not None
        shape = self.model.decoder
        dims = (1, shape.kv_heads, shape.context, shape.head)
        make = onnxruntime.OrtValue.ortvalue_from_shape_and_type
        while len(self.cache) < shape.layers:
            pair = make(dims, np.float32), make(dims, np.float32)
            for buffer in pair:
                _view(buffer, dims)[:] = 0
            self.cache.append(pair)
        return self.cache

    def slices(self, tokens: int) -> list[Any]:
        """The parts of the KV cache that hold this many tokens, each contiguous, in the order of a file of them."""
        assert self.model is not None and self.model.decoder is not None
        shape = self.model.decoder
        dims = (1, shape.kv_heads, shape.context, shape.head)
        return [head[:tokens] for pair in self._cache() for buffer in pair for head in _view(buffer, dims)[0]]


def _view(value: Any, dims: tuple[int, ...]) -> Any:
    """The numbers of a value of ONNX Runtime in their place: whether ``numpy()`` copies differs between versions."""
    import numpy as np

    pointer = ctypes.cast(value.data_ptr(), ctypes.POINTER(ctypes.c_float))
    return np.ctypeslib.as_array(pointer, dims)


class Llama:
    """A decoder in llama.cpp's server, in this process, with one slot."""

    def __init__(self, path: Path, *, threads: int = 0, context: int = 2048, slots: Path | None = None) -> None:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(path / GGUF if path.is_dir() else path)
        params.n_ctx, params.n_parallel = context, 1
        params.warmup = params.fit_params = False
        params.verbosity, params.port, params.hostnames = -1, 0, [loopback.address()]
        if threads:
            params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        if slots is not None:
            params.slot_save_path = f"{slots}/"
            params.endpoint_slots = True
        self._server = xllamacpp.Server(params)

    def complete(self, ids: list[int], tokens: int, *, cached: bool = False) -> dict[str, Any]:
        """llama.cpp's own timings of a completion."""
        answer = self._server.handle_completions(
            {"prompt": ids, "n_predict": tokens, "ignore_eos": True, "cache_prompt": cached, "temperature": 0.0}
        )
        found = json.loads(answer) if isinstance(answer, str | bytes) else answer
        if "timings" not in found:
            raise OSError(f"llama.cpp answered: {json.dumps(found)[:200]}")
        return dict(found["timings"])

    def slot(self, action: str, name: str = "") -> dict[str, Any]:
        """Save, restore or erase the slot's KV cache in the folder of slots."""
        body = json.dumps({"filename": name} if name else {}).encode()
        url = f"{self._server.listening_address}/slots/0?action={action}"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                return dict(json.loads(answer.read()))
        except urllib.error.HTTPError as error:
            raise OSError(
                f"llama.cpp refused to {action} a slot: {error.read()[:200].decode(errors='replace')}"
            ) from None


def make_prompt(tokens: int, vocab: int) -> list[int]:
    """A prompt of this many tokens, all of them plain words."""
    first = min(FIRST_WORD, vocab // 2)
    return [first + (at * 7919) % (vocab - first) for at in range(tokens)]
