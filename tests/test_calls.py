"""Functions of findings, curves, ceilings and statistics come to what is written out in ``tests/data/calls.jsonl``."""

from __future__ import annotations

import pytest
from calls.functions import functions
from calls.kept import kept
from calls.nudged import nudged
from calls.written import Writer, read, text_of
from hwdyno.words import Ceiling


@pytest.mark.parametrize("function", sorted(kept()))
def test_what_a_function_comes_to(function: str) -> None:
    assert function in functions(), "it is gone: PYTHONPATH=tests:python python -m calls --write"
    for call in kept()[function]:
        assert call.comes_to() == call.text, call


def test_arguments_are_read_as_they_were_written() -> None:
    ceiling = Ceiling("bytes", "physical", 1e9, "bytes/s", formula="8 x 1.25 GB/s", source="a standard")
    values = {
        "ceiling": ceiling,
        "again": (ceiling, [ceiling]),
        "counts": {"a": 1, "b": 2.5, 3: None},
        "names": frozenset({"x", "y"}),
        "kind": Ceiling,
    }
    assert read(Writer().arguments(values)) == values


def test_a_nudge_changes_one_value() -> None:
    ceiling = Ceiling("bytes", "physical", 1e9, "bytes/s", formula="8 x 1.25 GB/s", source="a standard")
    tree = Writer().arguments({"ceiling": ceiling, "share": 0.5})
    changed = read(nudged(tree, [(("ceiling", "value"), 2e9)]))
    assert changed["ceiling"].value == 2e9 and changed["share"] == 0.5
    assert read(tree)["ceiling"] == ceiling, "the tree stays as it was"


def test_figures_have_four_digits() -> None:
    assert text_of({"share": 1 / 3, "count": 12345, "parts": (0.1 + 0.2,)}) == (
        '{"share": 0.3333, "count": 12345, "parts": [0.3]}'
    )
