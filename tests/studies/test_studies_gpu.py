"""The GPU part of the cloud VM study: its table of a planted GPU, and where it is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hwdyno import studies
from hwdyno.analysis.ceilings import gpu as of_gpus
from hwdyno.explain.findings import explain
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.scenarios import Request
from hwdyno.measure.scenarios import study as command
from hwdyno.measure.topology import Topology
from hwdyno.model.words import ExperimentResult, Run, UserError
from simulation.gpu import Gpu

STUDY = "cloud-vm-suite"


def with_ceilings(gpu: Gpu, *results: ExperimentResult) -> Run:
    parts = tuple(replace(experiment, ceilings=of_gpus.of_machine(gpu.machine())) for experiment in results)
    run = Run("r", "2026-01-01T00:00:00Z", None, (gpu.machine(),), "quick", f"hwdyno study {STUDY}", parts)
    return explain(replace(run, study=STUDY))


def test_figures_are_beside_their_theory() -> None:
    gpu = replace(Gpu.random(7, units=108, boost_hz=1.41e9), clock_hz=1.41e9)
    (table,) = studies.tables(with_ceilings(gpu, gpu.peaks(), gpu.bandwidth(0.9)))
    assert table.title == "GPU: arithmetic and memory against theory"
    rows = {row[0]: row[1:] for row in table.rows}
    assert list(rows) == ["FP32", "FP64", "memory, triad", "FP32, the study's Tesla M40"]
    # 108 SMs of capability 8.0 at 1.41 GHz with 64 and 32 FMAs each; 5120 bit at 1.2 GHz, twice a clock.
    assert [rows[name][1] for name in ("FP32", "FP64")] == ["19,492 GFLOP/s", "9,746 GFLOP/s"]
    assert rows["memory, triad"][1] == "1,536 GB/s"
    for name, share in (("FP32", 98.0), ("FP64", 98.0), ("memory, triad", 90.0)):
        assert float(rows[name][2].rstrip("%")) == pytest.approx(share, abs=4.0), name
    assert "64 FMA × 2" in rows["FP32"][3] and "32 FMA × 2" in rows["FP64"][3]
    assert rows["FP32, the study's Tesla M40"] == (
        *("-", "6,844 GFLOP/s", "-"), "3072 cores x 2 FLOP x 1.114 GHz; the study says 56,524.8",
    )  # fmt: skip


def test_a_study_of_nothing_has_no_table_of_a_gpu() -> None:
    assert studies.tables(Run("r", "2026-01-01T00:00:00Z", None, (), "quick", "", (), study=STUDY)) == []


def test_the_gpus_part_is_measured_where_one_is_or_on_what_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request(places=(("", tmp_path),), seed=1, study=STUDY)
    found = [0]
    topology = Local().topology()
    monkeypatch.setattr(Local, "topology", lambda self: replace(topology, gpus=lambda: found[0]))

    def resources(**options: str) -> dict[str, set[object]]:
        plan = command.make_plan(studies.find(STUDY), replace(request, options=options), Local())
        devices: dict[str, set[object]] = {}
        for planned in plan.experiments:
            devices.setdefault(planned.experiment.resource, set()).add(planned.fixed.get("on"))
        return devices

    assert isinstance(topology, Topology) and "gpu" not in resources()
    with pytest.raises(
        UserError, match=f"no GPU can be measured here .*: hwdyno study {STUDY} --only gpu --on cpu|no GPU"
    ):
        resources(only="gpu")
    assert resources(only="gpu", on="cpu") == {"gpu": {"cpu"}}
    found[0] = 1
    assert resources()["gpu"] == {"gpu"} == resources(only="gpu")["gpu"]
