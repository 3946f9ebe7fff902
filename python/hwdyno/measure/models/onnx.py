"""The ONNX graphs of the models that can be made; their weights stay in the safetensors file."""

from __future__ import annotations

from hwdyno.measure.models.graph import FLOAT, INT32, INT64, MICROSOFT, Graph, Places
from hwdyno.measure.models.shapes import COS, EMBEDDING, SIN, STAGES, Decoder, Encoder, Model

RMS_EPSILON, NORM_EPSILON = 1e-5, 1e-12
IMAGE = (1, 3, 224, 224)


def make_graph(model: Model, weights_file: str, places: Places, *, batched: bool = False) -> bytes:
    """The model as an ONNX file whose weights are at these places of another one.

    A ``batched`` decoder takes any number of sequences at once, each with its own context and room for any context.
    """
    graph = Graph(weights_file)
    for tensor in model.tensors:
        graph.weight(tensor, places[tensor.name])
    if model.decoder:
        _decoder(graph, model.decoder, batched=batched)
    elif model.encoder:
        _encoder(graph, model.encoder)
    else:
        _resnet(graph)
    return graph.serialize()


def cache_names(layer: int) -> tuple[str, str, str, str]:
    """A layer's inputs and outputs of the KV cache: past key, past value, present key, present value."""
    return f"past_k.{layer}", f"past_v.{layer}", f"present_k.{layer}", f"present_v.{layer}"


def _decoder(graph: Graph, shape: Decoder, *, batched: bool) -> None:
    """Logits of the last token; past and present of the KV cache may be one buffer (GroupQueryAttention)."""
    sequences, room = ("sequences", "room") if batched else (1, shape.context)
    ids = graph.input("input_ids", INT64, (sequences, "tokens"))
    seen = graph.input("seqlens_k", INT32, (sequences,))
    total = graph.input("total_sequence_length", INT32, (1,))
    cache = (sequences, shape.kv_heads, room, shape.head)
    hidden = graph.node("Gather", (EMBEDDING, ids), axis=0)
    for layer in range(shape.layers):
        at = f"layers.{layer}"
        past_k, past_v, present_k, present_v = cache_names(layer)
        graph.input(past_k, FLOAT, cache)
        graph.input(past_v, FLOAT, cache)
        graph.output(present_k, FLOAT, cache)
        graph.output(present_v, FLOAT, cache)
        normed = _rms(graph, hidden, f"{at}.attention_norm")
        query, key, value = (graph.node("MatMul", (normed, f"{at}.{letter}")) for letter in "qkv")
        attended = graph.node(
            "GroupQueryAttention", (query, key, value, past_k, past_v, seen, total, COS, SIN),
            (f"attended.{layer}", present_k, present_v), MICROSOFT,
            num_heads=shape.heads, kv_num_heads=shape.kv_heads, do_rotary=1,
        )  # fmt: skip
        hidden = graph.node("Add", (hidden, graph.node("MatMul", (attended, f"{at}.o"))))
        normed = _rms(graph, hidden, f"{at}.ffn_norm")
        gate = graph.node("MatMul", (normed, f"{at}.gate"))
        gated = graph.node("Mul", (gate, graph.node("Sigmoid", (gate,))))
        inside = graph.node("Mul", (gated, graph.node("MatMul", (normed, f"{at}.up"))))
        hidden = graph.node("Add", (hidden, graph.node("MatMul", (inside, f"{at}.down"))))
    last = graph.node("Gather", (hidden, graph.constant("last", (-1,), (1,))), axis=1)
    graph.node("MatMul", (_rms(graph, last, "norm"), "head"), ("logits",))
    graph.output("logits", FLOAT, (sequences, 1, shape.vocab))


def _rms(graph: Graph, hidden: str, weight: str) -> str:
    return graph.node("SimplifiedLayerNormalization", (hidden, weight), axis=-1, epsilon=RMS_EPSILON)


def _resnet(graph: Graph) -> None:
    image = graph.input("image", FLOAT, IMAGE)
    hidden = graph.node("Relu", (_add_convolution(graph, image, "stem", 7, 2),))
    hidden = graph.node("MaxPool", (hidden,), kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    for stage, (blocks, _, _) in enumerate(STAGES):
        for block in range(blocks):
            at = f"stage{stage}.{block}"
            stride = 2 if block == 0 and stage else 1
            shortcut = _add_convolution(graph, hidden, f"{at}.shortcut", 1, stride) if block == 0 else hidden
            inside = graph.node("Relu", (_add_convolution(graph, hidden, f"{at}.reduce", 1, 1),))
            inside = graph.node("Relu", (_add_convolution(graph, inside, f"{at}.middle", 3, stride),))
            hidden = graph.node(
                "Relu", (graph.node("Add", (_add_convolution(graph, inside, f"{at}.expand", 1, 1), shortcut)),)
            )
    pooled = graph.node("Flatten", (graph.node("GlobalAveragePool", (hidden,)),), axis=1)
    graph.node("Add", (graph.node("MatMul", (pooled, "classes")), "classes.bias"), ("logits",))
    graph.output("logits", FLOAT, (1, 1000))


def _add_convolution(graph: Graph, hidden: str, name: str, size: int, stride: int) -> str:
    pad = size // 2
    return graph.node(
        "Conv", (hidden, name, f"{name}.bias"),
        kernel_shape=(size, size), strides=(stride, stride), pads=(pad, pad, pad, pad),
    )  # fmt: skip


def _encoder(graph: Graph, shape: Encoder) -> None:
    """The mean of all tokens' last vectors, as sentence encoders pool."""
    ids = graph.input("input_ids", INT64, (1, "tokens"))
    places = graph.input("position_ids", INT64, (1, "tokens"))
    words = graph.node("Gather", (EMBEDDING, ids), axis=0)
    hidden = _add_norm(graph, graph.node("Add", (words, graph.node("Gather", ("positions", places), axis=0))), "norm")
    heads = graph.constant("heads", (0, 0, shape.heads, shape.dim // shape.heads), (4,))
    flat = graph.constant("flat", (0, 0, shape.dim), (3,))
    for layer in range(shape.layers):
        at = f"layers.{layer}"
        split = [graph.node("Reshape", (_linear(graph, hidden, f"{at}.{letter}"), heads)) for letter in "qkv"]
        query = graph.node("Transpose", (split[0],), perm=(0, 2, 1, 3))
        key = graph.node("Transpose", (split[1],), perm=(0, 2, 3, 1))
        value = graph.node("Transpose", (split[2],), perm=(0, 2, 1, 3))
        scores = graph.node("Softmax", (graph.node("MatMul", (query, key)),), axis=-1)
        mixed = graph.node("Transpose", (graph.node("MatMul", (scores, value)),), perm=(0, 2, 1, 3))
        attended = _linear(graph, graph.node("Reshape", (mixed, flat)), f"{at}.o")
        hidden = _add_norm(graph, graph.node("Add", (hidden, attended)), f"{at}.attention_norm")
        inside = graph.node("Gelu", (_linear(graph, hidden, f"{at}.up"),), domain=MICROSOFT)
        hidden = _add_norm(graph, graph.node("Add", (hidden, _linear(graph, inside, f"{at}.down"))), f"{at}.ffn_norm")
    graph.node("ReduceMean", (hidden,), ("sentence",), axes=(1,), keepdims=0)
    graph.output("sentence", FLOAT, (1, shape.dim))


def _linear(graph: Graph, hidden: str, name: str) -> str:
    return graph.node("Add", (graph.node("MatMul", (hidden, name)), f"{name}.bias"))


def _add_norm(graph: Graph, hidden: str, name: str) -> str:
    return graph.node("LayerNormalization", (hidden, name, f"{name}.bias"), axis=-1, epsilon=NORM_EPSILON)
