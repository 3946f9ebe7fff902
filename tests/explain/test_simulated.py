"""The simulated machine keeps its own laws, so that what is found on it can be compared with the truth."""

from __future__ import annotations

from typing import Any

import pytest
from hwdyno.model.histogram import Histogram
from hwdyno.model.words import UserError
from simulation.host import SimulatedHost, SimulatedMachine


def blocks(machine: SimulatedMachine, **parameters: Any) -> dict[str, Any]:
    return SimulatedHost(machine).run("storage_blocks", parameters)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rw", ["randread", "randrw"])
def test_readings_agree_with_the_law(seed: int, rw: str) -> None:
    machine = SimulatedMachine.random(seed)
    reading = blocks(machine, rw=rw, iodepth=16, rwmixread=70, runtime=2.0)
    operations = sum(stream["operations"] for stream in reading["streams"])
    assert operations / reading["elapsed_s"] == pytest.approx(machine.operations_per_s(rw, 70, 4096, 16), rel=0.07)
    for stream, sampled in zip(reading["streams"], reading["samples"]["operations"], strict=True):
        histogram = Histogram.from_reading(stream["latency_ns"]["total"])
        assert histogram.count == stream["operations"] == sum(sampled)
        assert stream["bytes"] == 4096 * stream["operations"]
    latency = sum(stream["latency_ns"]["total"]["sum"] for stream in reading["streams"]) / operations / 1e9
    assert latency * operations / reading["elapsed_s"] == pytest.approx(16, rel=1e-6), "Little's law"
    if rw == "randrw":
        assert reading["streams"][0]["operations"] / operations == pytest.approx(0.7, abs=0.01)


def test_the_same_calls_give_the_same_readings_and_a_repeat_gives_another() -> None:
    first, second = SimulatedHost(SimulatedMachine.random(5)), SimulatedHost(SimulatedMachine.random(5))
    readings = [first.run("storage_blocks", {"iodepth": 4}) for _ in range(2)]
    assert readings == [second.run("storage_blocks", {"iodepth": 4}) for _ in range(2)]
    assert readings[0] != readings[1]


def test_planted_fault_shows_in_place() -> None:
    cached = blocks(SimulatedMachine(cache_share=0.9))
    assert cached["counters"]["device_read_bytes"] == pytest.approx(0.1 * cached["streams"][0]["bytes"], rel=0.01)
    unwritten = blocks(SimulatedMachine(unwritten_share=0.5), size=1 << 20)
    assert unwritten["details"]["extent_unwritten_bytes"] == 1 << 19
    buffered = blocks(SimulatedMachine(), ioengine="libaio", direct=False, iodepth=32)
    submit, total = (buffered["streams"][0]["latency_ns"][kind]["sum"] for kind in ("submit", "total"))
    assert submit > 0.8 * total
    assert buffered["concurrency_requested"] == 32
    spinning = SimulatedMachine.spinning(1)
    assert blocks(spinning)["streams"][0]["operations"] < 200
    assert blocks(spinning, rw="read", bs=1 << 20)["streams"][0]["bytes"] > 50e6


def test_it_describes_itself_and_counts_time() -> None:
    host = SimulatedHost(SimulatedMachine.random(9, steal=0.1))
    before = host.snapshot()
    host.run("storage_blocks", {"runtime": 3.0})
    after = host.snapshot()
    passed = after["cpu_total_s"] - before["cpu_total_s"]
    assert passed == pytest.approx(3.0 * host.machine.threads)
    assert after["cpu_steal_s"] == pytest.approx(0.1 * passed)
    assert after["cpu_idle_s"] < passed
    assert host.survey().storage.disk.rotational is False


def test_mistakes_are_the_engines_mistakes() -> None:
    host = SimulatedHost()
    with pytest.raises(UserError, match="no kernel"):
        host.run("storage_dreams", {})
    with pytest.raises(UserError, match="no parameter 'depth'"):
        host.run("storage_blocks", {"depth": 1})
    with pytest.raises(OSError, match="No space left"):
        host.run("storage_layout", {"size": 1 << 50})
    assert host.run("idle", {})["streams"][0]["operations"] > 10**7
    assert host.run("storage_layout", {"size": 1 << 20})["streams"][0]["bytes"] == 1 << 20
