"""Why a figure is not double: the sentence names the limit that was planted."""

from __future__ import annotations

from dataclasses import replace

from hwdyno.findings import explain, why_not_double
from hwdyno.words import Parameters
from simulated_runs import at as _at
from simulated_runs import experiment, measured, run_of
from simulation.host import SimulatedHost, SimulatedMachine


def _why(machine: SimulatedMachine, *points: Parameters, at: int = 0, load: str = "iodepth") -> str:
    run = explain(run_of(machine, experiment(machine, load, points)))
    result = run.experiments[0]
    return why_not_double(result.points[at], run=run, experiment=result)


def test_why_not_double_names_the_limiter() -> None:
    depths = [_at(iodepth=2**k) for k in range(9)]
    clean = SimulatedMachine()
    assert "Too little in flight: 1 operation" in _why(clean, *depths)
    assert "of its ceiling" in _why(clean, *depths, at=8)
    assert "1 core of the measuring threads is 97% busy" in _why(SimulatedMachine(client_bound=True), *depths)
    full = SimulatedMachine(read_bytes_s=3.8e9, operations_s=1e6, p=8)
    sequential = _why(full, _at(rw="read", bs=1 << 20, iodepth=32))
    assert sequential.startswith("At 9") and sequential.endswith("% of PCIe 3.0 x4.")
    assert "is invalid (page cache)" in _why(SimulatedMachine(cache_share=0.9), *depths)
    assert "too small" in _why(clean, *[_at(bs=4096 * 4**k, iodepth=8) for k in range(6)], load="bs")
    assert "sweep the queue depth" in _why(clean, _at(iodepth=8))
    stolen = _why(SimulatedMachine(steal=0.3), _at(iodepth=8))
    assert "hypervisor took 30%" in stolen
    alone = measured(SimulatedHost(clean), _at(iodepth=8), repeats=1)
    assert why_not_double(alone).endswith(".")
    bare = replace(alone, counters={}, cpu_user_s=None, conditions={}, latency_ns=None, concurrency=None)
    assert why_not_double(bare) == "Limit not identified: no utilisation was measured."
