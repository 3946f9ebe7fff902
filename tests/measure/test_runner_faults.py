"""The runner where something goes wrong: no interrupt, lost device, full disk or refused kernel costs another point."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from hwdyno.measure import experiments, plan, runner
from hwdyno.model.words import Run, UserError
from hwdyno.system import signals
from simulated_hosts import QUIET, Memory, Tampered, measured, planned
from simulation.host import SimulatedHost, SimulatedMachine


def test_an_interrupt_in_a_reading_gives_a_partial_run(tmp_path: Path) -> None:
    def interrupt(count: int, reading: dict[str, Any]) -> None:
        reading["interrupted"] = count == 3

    run, store = measured(tmp_path, Tampered(QUIET, interrupt))
    assert run.interrupted
    assert run.degraded == ("interrupted: 2 of 3 points were measured",)
    assert [point.validity for point in run.experiments[0].points].count("degraded") == 1
    assert store.finished == [run]
    assert not list(tmp_path.iterdir())


def test_a_short_reading_does_not_blur_the_whole_ones_of_its_point(tmp_path: Path) -> None:
    def interrupt(count: int, reading: dict[str, Any]) -> None:
        reading["interrupted"] = count == 6

    run, _ = measured(tmp_path, Tampered(QUIET, interrupt))
    assert run.interrupted
    assert [point.validity for point in run.experiments[0].points] == ["valid"] * 3


def test_a_second_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    def interrupt(count: int, reading: dict[str, Any]) -> None:
        if count == 5:
            raise KeyboardInterrupt

    run, store = measured(tmp_path, Tampered(QUIET, interrupt))
    assert run.interrupted
    assert len(run.experiments[0].points) == 3
    assert store.finished == [run]
    assert not list(tmp_path.iterdir())


def test_late_signal_marks_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explain(run: Run) -> Run:
        monkeypatch.setattr(signals, "is_end_requested", lambda: True)
        return run

    host, store = SimulatedHost(QUIET), Memory()
    run = runner.run(planned(tmp_path, host), host, store, "run-1", explain=explain)
    assert run.interrupted and run.degraded == ("interrupted: 3 of 3 points were measured",)
    assert store.finished == [run]


def test_an_interrupt_before_the_first_point_is_a_partial_run_without_points(tmp_path: Path) -> None:
    def interrupt(count: int, reading: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    run, _ = measured(tmp_path, Tampered(QUIET, interrupt))
    assert run.interrupted
    assert run.experiments[0].points == ()
    assert run.experiments[0].planned == 3


def test_a_device_that_vanishes_ends_the_experiment_and_keeps_its_points(tmp_path: Path) -> None:
    def vanish(count: int, reading: dict[str, Any]) -> None:
        if count >= 4:
            raise OSError(errno.ENODEV, "No such device")

    run, store = measured(tmp_path, Tampered(QUIET, vanish))
    assert not run.interrupted
    assert any("No such device" in why for why in run.degraded)
    assert 1 <= len(run.experiments[0].points) <= 3
    assert store.finished == [run]


def test_faults_in_the_timed_region_degrade_the_point(tmp_path: Path) -> None:
    run, _ = measured(tmp_path, SimulatedHost(SimulatedMachine(seed=3, noise=0.005, short_transfers=2)))
    point = run.experiments[0].points[0]
    assert point.validity == "degraded"
    assert point.why == ("faults",)
    assert point.faults[0].count == 2 * point.repeats


def test_a_full_disk_in_the_timed_region_ends_the_experiment(tmp_path: Path) -> None:
    def fill(count: int, reading: dict[str, Any]) -> None:
        if count == 3:
            reading["faults"] = [{"operation": "write", "errno": errno.ENOSPC, "says": "no space left", "count": 1}]

    run, _ = measured(tmp_path, Tampered(QUIET, fill), given={"rw": "randwrite"})
    assert any("no space left" in why for why in run.degraded)
    assert len(run.experiments[0].points) == 2


def test_one_refused_point_leaves_the_others(tmp_path: Path) -> None:
    def refuse(count: int, reading: dict[str, Any]) -> None:
        if reading["parameters"]["iodepth"] == 64:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")

    run, _ = measured(tmp_path, Tampered(QUIET, refuse))
    assert [point.parameters["iodepth"] for point in run.experiments[0].points] == [1, 8]
    assert run.degraded == ("storage.iodepth at rw=randread bs=4096 iodepth=64 numjobs=1: Cannot allocate memory",)


@pytest.mark.parametrize(("name", "points"), [("storage.grid", 0), ("storage.jobs", 8)])
def test_refused_kernel_costs_no_point(tmp_path: Path, name: str, points: int) -> None:
    def refuse(count: int, reading: dict[str, Any]) -> None:
        if reading["parameters"]["numjobs"] == (1 if points == 0 else 2):
            raise UserError("too many jobs")

    host, store = Tampered(QUIET, refuse), Memory()
    chosen = [(experiment, {}) for experiment in (experiments.find("storage.grid") + experiments.find("storage.jobs"))]
    chosen[1] = (chosen[1][0], {"numjobs": "2,4"})
    made = plan.build(chosen, host, path=tmp_path, seed=1)
    if points == 0:
        with pytest.raises(UserError, match="too many jobs"):
            runner.run(made, host, store, "run-1")
        assert store.abandoned
        return
    run = runner.run(made, host, store, "run-1")
    assert [len(result.points) for result in run.experiments] == [points, 0]
    assert run.degraded == (f"{name}: too many jobs",)


class Recorder(runner.Silent):
    """Records the progress messages."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def says(self, text: str) -> None:
        self.lines.append(text)


class Refusing(SimulatedHost):
    """A simulated machine that refuses some of its first readings."""

    def __init__(self, refused: int) -> None:
        super().__init__(QUIET)
        self.left = refused
        self.count = 0

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self.count += 1
        if self.count <= self.left:
            raise OSError(errno.ECONNREFUSED, f"the peer is silent, try {self.count}")
        return super().run(kernel, parameters)


def two_questions(host: SimulatedHost, path: Path) -> plan.Plan:
    chosen = [(experiments.find(name)[0], {}) for name in ("memory.latency", "memory.threads")]
    return plan.build(chosen, host, path=path, seed=1)


def test_what_failed_first_is_the_error_of_a_run_that_measured_nothing(tmp_path: Path) -> None:
    host, store, recorder = Refusing(10**6), Memory(), Recorder()
    with pytest.raises(UserError, match=r"^the peer is silent, try 1$"):
        runner.run(two_questions(host, tmp_path), host, store, "run-1", progress=recorder)
    assert host.count == 2, "the second question was asked, too"
    assert store.abandoned
    assert not [line for line in recorder.lines if "the peer is silent" in line], "the error says it, once"


def test_what_failed_first_is_said_once_something_else_is_measured(tmp_path: Path) -> None:
    host, recorder = Refusing(1), Recorder()
    run = runner.run(two_questions(host, tmp_path), host, Memory(), "run-1", progress=recorder)
    why = "memory.latency: the peer is silent, try 1"
    assert run.degraded[0] == why
    assert [len(result.points) > 0 for result in run.experiments] == [False, True]
    assert recorder.lines.count(why) == 1


def test_a_fault_in_the_findings_costs_no_point(tmp_path: Path) -> None:
    def broken(run: Run) -> Run:
        raise ZeroDivisionError("rule")

    host, store = SimulatedHost(QUIET), Memory()
    run = runner.run(planned(tmp_path, host), host, store, "run-1", explain=broken)
    assert len(run.experiments[0].points) == 3
    assert run.degraded == ("the findings are missing: ZeroDivisionError: rule",)


def test_a_full_filesystem_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    host, store = SimulatedHost(SimulatedMachine(free_bytes=10**6)), Memory()
    with pytest.raises(UserError, match="no space left"):
        runner.run(planned(tmp_path, host), host, store, "run-1")
    assert store.abandoned
    assert not list(tmp_path.iterdir())


def test_a_data_file_that_somebody_removed_ends_the_experiment_in_one_plain_sentence(tmp_path: Path) -> None:
    def removed(count: int, reading: dict[str, Any]) -> None:
        if count == 3:
            Path(host.calls[-1]["path"]).unlink()
        if count > 2:
            raise OSError(errno.ENOENT, "lay the file out first")

    host = Tampered(QUIET, removed)
    run, _ = measured(tmp_path, host)
    assert len(run.degraded) == 1
    assert "the data file was removed during the measurement" in run.degraded[0]
    assert len(host.calls) == 3
    assert run.experiments[0].points
    assert not list(tmp_path.iterdir())
