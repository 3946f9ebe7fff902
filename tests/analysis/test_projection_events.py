"""Projections compared with discrete-event simulations, whose throughput no formula of ours has made."""

from __future__ import annotations

import pytest
from here import at_least, at_most, sample
from hwdyno.analysis.curves.projection import outlook
from numpy.random import default_rng
from simulation.clients import SEEN, Clients

SYSTEMS = sample(8, 500)
FAR = (10, 100)
"""Multiples of the largest load that was measured."""
LOADS = (1, 2, 4, 8, 16, 32, 64)
OPERATIONS = 500
SMALLEST_ERROR = 0.002


@pytest.mark.slow  # systems at up to seven loads, 500 operations and more each
@pytest.mark.timeout(900)
def test_intervals_cover_the_truth_at_10_and_100_times_the_load() -> None:
    """The truth at such a load is the ceiling of the utilisation law: the load is 10 times beyond every knee seen."""
    draw = default_rng(20261123)
    covered, within, given, refused_in_vain, systems = [0, 0], [0, 0], 0, 0, 0
    while given < SYSTEMS:
        system, most = Clients.random(draw), int(draw.choice([16, 32, 64]))
        loads = [load for load in LOADS if load <= most]
        counts = [OPERATIONS + 20 * load for load in loads]
        rates = [system.rate(load, count, draw) for load, count in zip(loads, counts, strict=True)]
        scatter = 1.0 if system.is_exponential else 0.0
        errors = [max(SMALLEST_ERROR, scatter / (count * (1 - SEEN)) ** 0.5) for count in counts]
        found = outlook(loads, rates, errors, [most * times for times in FAR])
        systems += 1
        if found.refused:
            refused_in_vain += system.crossing < most / 3
            assert found.measure is not None and found.measure > most
            continue
        assert system.crossing < most * 1.05, "a projection was given before the knee"
        given += 1
        for place, projection in enumerate(found.projections):
            assert projection.throughput.low is not None and projection.throughput.high is not None
            covered[place] += projection.throughput.low <= system.ceiling <= projection.throughput.high
            within[place] += abs(projection.throughput.value / system.ceiling - 1) < 0.10
    assert at_least(min(covered), given, 0.90), (covered, given, systems)
    assert at_least(min(within), given, 0.97), (within, given, systems)
    assert at_most(refused_in_vain, systems, 0.02), (refused_in_vain, systems)


def test_a_single_client_and_a_full_station_have_the_rates_of_the_laws() -> None:
    draw = default_rng(1)
    system = Clients(servers=4, service_s=1e-3, thinks_s=9e-3)
    assert system.rate(1, 4000, draw) == pytest.approx(100, rel=0.06)
    assert system.rate(400, 20000, draw) == pytest.approx(system.ceiling, rel=0.04)
    assert Clients(4, 1e-3, 9e-3, is_exponential=False).rate(8, 4000, draw) == pytest.approx(800, rel=0.02)
