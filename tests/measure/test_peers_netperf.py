"""netperf beside our round trips; no free archive has it, so it runs where someone built it."""

from __future__ import annotations

from typing import Any

import pytest
from hwdyno.measure.peers import netperf


@pytest.mark.peer("netperf")
@pytest.mark.machine
@pytest.mark.long
@pytest.mark.parametrize("point", [{}, {"protocol": "udp"}, {"exchange": "connect"}])
def test_netperf_stands_beside_our_round_trips(point: dict[str, Any]) -> None:
    found = netperf.PEER.run("network_latency", {"message": 64, "runtime": 1, **point})
    assert found.operations > 0
    assert found.latency_ns_mean
