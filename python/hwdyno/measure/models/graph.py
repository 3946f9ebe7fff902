"""Writes an ONNX model whose weights are in another file (onnx.proto of ONNX 1.16, IR version 10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hwdyno.measure.models.protobuf import blob, integer, pack_varints, real
from hwdyno.measure.models.safetensors import TensorExtent
from hwdyno.measure.models.shapes import Tensor

FLOAT, INT32, INT64 = 1, 6, 7
IR_VERSION, OPSET = 10, 17
MICROSOFT = "com.microsoft"
"""ONNX Runtime's own operators, such as GroupQueryAttention."""
_EXTERNAL = 1
_FLOAT, _INT, _STRING, _INTS = 1, 2, 3, 7
Attribute = int | float | str | Sequence[int]
Dims = Sequence[int | str]


class Graph:
    """A graph that is built node by node; each node's output has a unique name."""

    def __init__(self, weights_file: str) -> None:
        self._file = weights_file
        self._nodes: list[bytes] = []
        self._initializers: list[bytes] = []
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []

    def input(self, name: str, kind: int, dims: Dims) -> str:
        """Declare an input; a dimension that is a text may have any length."""
        self._inputs.append(blob(11, _value_info(name, kind, dims)))
        return name

    def output(self, name: str, kind: int, dims: Dims) -> None:
        """Declare what some node gives as an output."""
        self._outputs.append(blob(12, _value_info(name, kind, dims)))

    def weight(self, tensor: Tensor, place: TensorExtent) -> str:
        """Weights in the other file."""
        entries = {"location": self._file, "offset": str(place.offset), "length": str(place.length)}
        external = b"".join(blob(13, blob(1, key) + blob(2, value)) for key, value in entries.items())
        made = (
            pack_varints(1, tensor.shape) + integer(2, FLOAT) + blob(8, tensor.name) + external + integer(14, _EXTERNAL)
        )
        self._initializers.append(blob(5, made))
        return tensor.name

    def constant(self, name: str, values: Sequence[int], dims: Sequence[int]) -> str:
        """Whole numbers in the graph itself."""
        made = pack_varints(1, dims) + integer(2, INT64) + pack_varints(7, values) + blob(8, name)
        self._initializers.append(blob(5, made))
        return name

    def node(
        self, kind: str, inputs: Sequence[str], outputs: Sequence[str] = (), domain: str = "", **attributes: Attribute
    ) -> str:
        """One operation; gives the name of its first output."""
        named = outputs or (f"{kind}_{len(self._nodes)}",)
        fields = [*(blob(1, name) for name in inputs), *(blob(2, output) for output in named)]
        fields += [
            blob(3, f"node_{len(self._nodes)}"),
            blob(4, kind),
            *(_attribute(*attribute) for attribute in attributes.items()),
        ]
        self._nodes.append(blob(1, b"".join([*fields, blob(7, domain)])))
        return named[0]

    def serialize(self) -> bytes:
        """The whole model."""
        parts = [*self._nodes, blob(2, "hwdyno"), *self._initializers, *self._inputs, *self._outputs]
        sets = b"".join(blob(8, blob(1, name) + integer(2, at)) for name, at in {"": OPSET, MICROSOFT: 1}.items())
        return integer(1, IR_VERSION) + blob(2, "hwdyno") + blob(7, b"".join(parts)) + sets


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        body = real(2, value) + integer(20, _FLOAT)
    elif isinstance(value, int):
        body = integer(3, value) + integer(20, _INT)
    elif isinstance(value, str):
        body = blob(4, value) + integer(20, _STRING)
    else:
        body = pack_varints(8, value) + integer(20, _INTS)
    return blob(5, blob(1, name) + body)


def _value_info(name: str, kind: int, dims: Dims) -> bytes:
    shape = b"".join(
        blob(1, integer(1, dimension) if isinstance(dimension, int) else blob(2, dimension)) for dimension in dims
    )
    return blob(1, name) + blob(2, blob(1, integer(1, kind) + blob(2, shape)))


Places = Mapping[str, TensorExtent]
