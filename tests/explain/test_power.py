"""Stalls, falls between repeats and within them, and other processes are named as often as the calibration says."""

from __future__ import annotations

import numpy as np
import pytest
from calibration import power
from test_calibration import at_least, at_most

POINTS = 80


@pytest.mark.parametrize("name", [name for name, plant in power.PLANTS.items() if plant.rule])
def test_what_is_planted_is_named(name: str) -> None:
    found = power.score(name, POINTS, seed=3)
    # A stall in twenty samples is what a point of three repeats may miss; a step of 10% in noise of 5% too.
    least = {"5% of the samples stall": 0.5, "10% less from a random moment on": 0.8}.get(name, 0.9)
    assert at_least(found.named, found.points, least), found
    assert not set(found.rules) - {power.PLANTS[name].rule, "interval_not_reached", "not_steady"}


# A point whose samples persist is read five times.
CLEAN = [(name, repeats) for name in power.clean() for repeats in (2, 3, 5) if repeats == 5 or "AR(1)" not in name]


@pytest.mark.parametrize(("name", "repeats"), CLEAN)
def test_a_clean_point_raises_no_alarm(name: str, repeats: int) -> None:
    found = power.score(name, POINTS, repeats, seed=3)
    assert at_most(found.warned, found.points, 0.02), found.rules


def test_who_disturbs_explains_that_repeats_disagree() -> None:
    plant = power.PLANTS["25% less for a repeat, others at 12%"]
    named = {finding.rule: finding for finding in power.explained(plant, np.random.default_rng(4))}
    assert "repeats_disagree" not in named
    assert "repeats that disagree" in named["others_at_work"].says
