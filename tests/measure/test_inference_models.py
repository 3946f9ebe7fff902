"""The models that hwdyno makes: real libraries read their files, and their graphs compute the stated formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hwdyno.measure.models import gguf, onnx, protobuf, safetensors, shapes, weights
from hwdyno.model.words import UserError


def made(name: str, folder: Path) -> Path:
    """A model's safetensors file and its ONNX graph."""
    model, file = shapes.find(name), folder / "model.safetensors"
    file.write_bytes(b"".join(bytes(part) for part in safetensors.parts(model, 1)))
    graph = onnx.make_graph(model, file.name, safetensors.read_header(file).places)
    (folder / "model.onnx").write_bytes(graph)
    return file


def session(folder: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("name", "millions"),
    [("32m", 32), ("62m", 62), ("246m", 246), ("850m", 853), ("resnet50", 25.5), ("encoder", 22.6)],
)
def test_model_has_weights_of_its_name(name: str, millions: float) -> None:
    model = shapes.find(name)
    assert sum(tensor.items for tensor in model.tensors) == pytest.approx(millions * 1e6, rel=0.03)
    if name == "62m":
        assert model.bytes <= 250_000_000, "the quick profile's model"


def test_token_bytes_match_the_facts() -> None:
    model = shapes.find("246m")
    assert model.decoder is not None
    assert model.bytes_per_token == pytest.approx(853e6, rel=0.005)
    assert model.decoder.kv_bytes == 2 * 16 * 4 * 64 * 4


def test_safetensors_library_reads_same_numbers(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    file, model = made("tiny", tmp_path), shapes.find("tiny")
    loaded = load_file(file)
    assert set(loaded) == {tensor.name for tensor in model.tensors}
    for tensor in model.tensors:
        numbers = np.concatenate(list(weights.pieces(tensor, 1))).reshape(tensor.shape)
        assert np.array_equal(loaded[tensor.name], numbers)
    assert loaded["layers.0.q"].std() == pytest.approx(weights.SPREAD, rel=0.05)
    assert not np.array_equal(loaded["layers.0.q"], loaded["layers.1.q"])
    opened = safetensors.read_header(file)
    whole = [opened.places[tensor.name].offset for tensor in model.tensors if tensor.bytes % 4096 == 0]
    assert whole and all(offset % 4096 == 0 for offset in whole), "mapped tensors begin at a page"


def test_a_flipped_bit_is_found_by_its_tensors_checksum(tmp_path: Path) -> None:
    file = made("tiny", tmp_path)
    opened = safetensors.read_header(file)
    assert safetensors.wrong_tensors(file, opened) == []
    place = opened.places["layers.1.down"]
    with file.open("r+b") as raw:
        raw.seek(place.offset + place.length // 2)
        byte = raw.read(1)[0]
        raw.seek(-1, 1)
        raw.write(bytes([byte ^ 1]))
    assert safetensors.wrong_tensors(file, opened) == ["layers.1.down"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is not a safetensors file"),
        (b"\xff" * 8, "is not a safetensors file"),
        ((9).to_bytes(8, "little") + b"not json!", "is not JSON"),
        ((2).to_bytes(8, "little") + b"[]", "needs a table"),
        ((11).to_bytes(8, "little") + b'{"a": null}', "gives no place for the tensor a"),
        ((32).to_bytes(8, "little") + b'{"a": {"data_offsets": [0, 99]}}', "ends before its tensor a"),
        ((32).to_bytes(8, "little") + b'{"a": {"data_offsets": [-9, 0]}}', "ends before its tensor a"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_line(data: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(data)
    with pytest.raises(UserError, match=says):
        safetensors.read_header(file)


def test_numbers_on_the_wire_are_those_of_protocol_buffers() -> None:
    assert protobuf.varint(0) == b"\0" and protobuf.varint(300) == b"\xac\x02"
    assert protobuf.varint(-1) == b"\xff" * 9 + b"\x01"
    assert protobuf.blob(2, "testing") == b"\x12\x07testing"
    assert protobuf.pack_varints(4, (3, 270, 86942)) == bytes.fromhex("2206038e029ea705")


# --- what the graphs compute


def llama(model: shapes.Model, ids: list[int]) -> Any:
    """Logits of the last token by the formulas of the architecture, in float64."""
    shape = model.decoder
    assert shape is not None
    w = {
        tensor.name: np.concatenate(list(weights.pieces(tensor, 1))).reshape(tensor.shape).astype(np.float64)
        for tensor in model.tensors
    }
    hidden = w["embed"][ids]

    def rms(x: Any, scale: Any) -> Any:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + onnx.RMS_EPSILON) * scale

    def turned(x: Any) -> Any:
        """Rotary positions; ``x`` is tokens x heads x numbers, whose halves are turned against each other."""
        half = shape.head // 2 if shape else 0
        angle = np.arange(len(ids))[:, None] / 10_000.0 ** (np.arange(half) / half)
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    for layer in range(shape.layers):
        at = f"layers.{layer}."
        normed = rms(hidden, w[at + "attention_norm"])
        q = turned((normed @ w[at + "q"]).reshape(len(ids), shape.heads, shape.head))
        k = turned((normed @ w[at + "k"]).reshape(len(ids), shape.kv_heads, shape.head))
        v = (normed @ w[at + "v"]).reshape(len(ids), shape.kv_heads, shape.head)
        group = shape.heads // shape.kv_heads
        k, v = (np.repeat(array, group, axis=1) for array in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(shape.head)
        scores = np.where(np.tril(np.ones((len(ids), len(ids)), bool)), scores, -np.inf)
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", share, v).reshape(len(ids), -1)
        hidden = hidden + mixed @ w[at + "o"]
        normed = rms(hidden, w[at + "ffn_norm"])
        gate = normed @ w[at + "gate"]
        hidden = hidden + (gate / (1 + np.exp(-gate)) * (normed @ w[at + "up"])) @ w[at + "down"]
    return rms(hidden[-1], w["norm"]) @ w["head"]


def test_the_decoder_in_onnx_runtime_computes_llamas_formulas_and_its_cache_is_right(tmp_path: Path) -> None:
    from hwdyno.measure.workloads.model_stacks import Onnx, make_prompt

    made("tiny", tmp_path)
    ids = make_prompt(12, 512)
    expected = llama(shapes.find("tiny"), ids)
    at_once = Onnx(tmp_path, "tiny", threads=1).decode(ids, 0)
    assert at_once == pytest.approx(expected, abs=1e-5)
    stepwise = Onnx(tmp_path, "tiny", prepack=False, threads=1)
    for past, token in enumerate(ids):
        last = stepwise.decode([token], past)
    assert last == pytest.approx(expected, abs=1e-5)
    parts = stepwise.slices(len(ids))
    kept = [part.copy() for part in parts]
    for part in parts:
        part[:] = 0
    assert stepwise.decode([ids[-1]], len(ids) - 1) != pytest.approx(expected, abs=1e-3), "the cache matters"
    for part, copy in zip(parts, kept, strict=True):
        part[:] = copy
    assert stepwise.decode([ids[-1]], len(ids) - 1) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("name", "output"), [("resnet50", (1, 1000)), ("encoder", (1, 384))])
def test_other_models_answer_in_onnx_runtime(name: str, output: tuple[int, ...], tmp_path: Path) -> None:
    made(name, tmp_path)
    inputs: dict[str, Any] = {"image": np.ones(onnx.IMAGE, np.float32)}
    if name == "encoder":
        inputs = {"input_ids": np.arange(8)[None], "position_ids": np.arange(8)[None]}
    (answer,) = session(tmp_path).run(None, inputs)
    assert answer.shape == output and np.isfinite(answer).all() and answer.std() > 0


def test_gguf_library_reads_same_tensors(tmp_path: Path) -> None:
    from gguf import GGUFReader

    model, file = shapes.find("tiny"), tmp_path / "model.gguf"
    file.write_bytes(b"".join(bytes(part) for part in gguf.parts(model, 1)))
    found = {tensor.name: tensor for tensor in GGUFReader(file).tensors}
    for tensor in model.tensors:
        if tensor.name in {shapes.COS, shapes.SIN}:
            continue
        numbers = np.concatenate(list(weights.pieces(tensor, 1)))
        assert np.array_equal(found[gguf.tensor_name(tensor.name)].data.reshape(-1), numbers)
