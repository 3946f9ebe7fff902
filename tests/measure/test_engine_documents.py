"""What the engine reads for Python is what Python's own readers make of it, or it leaves it to them."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hwdyno.measure import engine
from hwdyno.model.histogram import Histogram
from hwdyno.model.words import UserError
from hwdyno.system import foreign

DEPTH = foreign.DEEPEST
VALUES = 100_000


def made(rng: random.Random, levels: int) -> Any:
    """A document of at most this many levels."""
    kind = rng.randrange(9 if levels > 1 else 6)
    if kind > 6:
        return {text(rng): made(rng, levels - 1) for _ in range(rng.randrange(4))}
    if kind > 5:
        return [made(rng, levels - 1) for _ in range(rng.randrange(4))]
    whole = rng.randrange(-(1 << 63), 1 << 64) >> rng.randrange(64)
    return (None, True, text(rng), whole, rng.uniform(-1, 1) * 10.0 ** rng.randrange(-300, 18), rng.random())[kind]


def text(rng: random.Random) -> str:
    return "".join(rng.choice('a"\\\n\0é€😀\x7f/') for _ in range(rng.randrange(6)))


@pytest.mark.parametrize("seed", range(20))
def test_document_reads_as_in_python(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        whole = json.dumps(made(rng, 6), ensure_ascii=rng.random() < 0.5).encode()
        found = engine.document(whole, DEPTH, VALUES)
        # The text has the order of keys, and tells 1 from 1.0 and True.
        assert json.dumps(found) == json.dumps(json.loads(whole)), whole


@pytest.mark.parametrize("seed", range(20))
def test_of_damaged_bytes_it_takes_only_what_passes_python_too(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        whole = bytearray(json.dumps(made(rng, 5)).encode())
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(whole) + 1)
            whole[at : at + rng.randrange(3)] = rng.choice([b"", b"9", b"-0", b"e9", b"[", b"}", b"\xff", b'"', b"NaN"])
        found = engine.document(bytes(whole), DEPTH, VALUES)
        if found is not None:
            assert json.dumps(found) == json.dumps(foreign.parse_json(bytes(whole), "it", is_ours=True)), bytes(whole)


@pytest.mark.parametrize(
    "doubtful",
    [
        *(
            "NaN",
            "-Infinity",
            "1e400",
            "1e301",
            "-1e301",
            "123456789012345678901",
            "-0",
            "-0.0",
            "9223372036854775808.0",
        ),
        *(
            '"\\ud800"',
            '{"\\udfff": 1}',
            "[1,]",
            "[1] 2",
            "",
            "nul",
            '"a\nb"',
            "01",
            "\ufeff1",
            "[" * DEPTH + "]" * DEPTH,
        ),
        *("[" * 2000, '{"a":' * DEPTH + "1" + "}" * DEPTH),
    ],
)
def test_what_is_in_doubt_it_leaves(doubtful: str) -> None:
    assert engine.document(doubtful.encode(), DEPTH, VALUES) is None


def test_it_reads_as_many_levels_as_python_allows() -> None:
    deep = "[" * (DEPTH - 1) + "1" + "]" * (DEPTH - 1)
    found = engine.document(deep.encode(), DEPTH, VALUES)
    assert found == json.loads(deep) == foreign.parse_json(deep, "it", is_ours=True)
    with pytest.raises(UserError, match="nested deeper"):
        foreign.parse_json('{"a":' * DEPTH + "1" + "}" * DEPTH, "it", is_ours=True)


@pytest.mark.parametrize("many", ["[0,1,2,3]", '{"a":0,"b":1,"c":2,"d":3}', "[[[[0]]]]", "[[],[],[],{}]"])
def test_it_reads_as_many_values_as_it_is_allowed(many: str) -> None:
    assert engine.document(many.encode(), DEPTH, 5) == json.loads(many)
    assert engine.document(many.encode(), DEPTH, 4) is None


def test_a_local_reading_has_packed_histograms_that_add_up() -> None:
    reading = engine.run("idle", {"runtime": 0.01})
    (stream,) = reading["streams"]
    for packed in stream["latency_ns"].values():
        histogram = Histogram.from_reading(packed)
        assert sum(histogram.buckets.values()) == histogram.count == stream["operations"] > 0
        assert histogram.min <= histogram.quantile(0.5) <= histogram.max


@pytest.mark.parametrize("packed", ["0", "00", "0" * 8, "zz" * 8])
def test_malformed_packed_histogram_is_refused(packed: str) -> None:
    with pytest.raises(ValueError):
        Histogram.from_reading({**Histogram().to_reading(), "packed": packed})
