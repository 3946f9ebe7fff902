"""What is written out is of tests that exist, one of a kind, and any changed figure shows."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hwdyno.findings.rule import Verdict
from verdicts import ROOT, caught, chosen, expected, line_of

MADE = Verdict("info", "Half of 4,000 reads failed.", {"share": 0.5, "most": 1 / 3}, "Repeat it.", 2.0, (1,))


def test_each_is_of_a_test_that_exists() -> None:
    for test in expected():
        file, name = re.split(r"::|\[", test)[:2]
        assert f"def {name}(" in (ROOT / file).read_text(), test


@pytest.mark.parametrize(
    "changed",
    [
        replace(MADE, severity="warning"),
        replace(MADE, says="Half of 4,001 reads failed."),
        replace(MADE, evidence={**MADE.evidence, "share": 0.5001}),
        replace(MADE, evidence={}),
        replace(MADE, advice=""),
        replace(MADE, weight=2.01),
        replace(MADE, points=(2,)),
        replace(MADE, explains=("late",)),
        replace(MADE, several="{count} of them"),
    ],
)
def test_a_change_of_any_part_shows(changed: Verdict) -> None:
    assert line_of(changed) != line_of(MADE)


def test_the_last_digits_of_a_fit_do_not_show() -> None:
    assert line_of(replace(MADE, evidence={"share": 0.5, "most": 1 / 3 + 1e-9})) == line_of(MADE)
    assert json.loads(line_of(MADE))["evidence"] == {"share": 0.5, "most": 0.3333}


def test_what_is_made_within_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    with caught(monkeypatch) as made:
        first = replace(MADE, weight=1.0)
    replace(MADE, weight=3.0)
    assert made == [first]


def test_one_of_a_kind_is_chosen_from_quick_tests() -> None:
    other = line_of(replace(MADE, says="Half of 12 reads failed."))
    graver = line_of(replace(MADE, severity="warning"))
    placed = line_of(replace(MADE, says="No room.", advice="Remove /tmp/x."))
    made = {"slow": [line_of(MADE)], "a": [other, placed, other], "b": [line_of(MADE), graver]}
    assert chosen(made, {"a", "b"}) == [f"a\t{other}", f"b\t{graver}"]
