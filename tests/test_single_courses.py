"""Single lines of curves, courses and loaders that a change would break and no planted fault showed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import test_training_findings as training
from hwdyno.curves import _levelled, _Series
from hwdyno.findings.rule import Case
from hwdyno.findings.steadiness import step_in_each
from hwdyno.findings.training_capacity import training_capacity
from hwdyno.machine import Machine
from hwdyno.words import Axis, ExperimentResult, HostShare, Measurement, Value
from made_experiment import made_experiment
from test_single_rules import sure
from test_thresholds import base, course, run_of

# --- curves of delays and of rates


def series(role: str, unit: str, loads: tuple[float, ...], amounts: tuple[float, ...], operation: float) -> _Series:
    count = len(loads)
    axis = Axis(name="x", unit=unit, role=role, default=None, means="", kind="number")  # type: ignore[arg-type]
    values = tuple(Value(one, "bytes/s") for one in amounts)
    return _Series(tuple(range(count)), loads, values, (None,) * count, (None,) * count, axis, (None,) * count, None,
                   operation)  # fmt: skip


@pytest.mark.parametrize(
    ("role", "amounts", "levelled"),
    [
        ("delay", (1.0, 2.0, 4.0, 4.1), True),
        ("delay", (1.0, 2.0, 4.0, 4.3), False),
        ("delay", (1.0, 4.0, 2.0, 4.1), False),
        ("concurrency", (1.0, 2.0, 4.0, 4.1), False),
    ],
)
def test_a_rate_is_levelled_where_half_the_delay_adds_little(
    role: str, amounts: tuple[float, ...], levelled: bool
) -> None:
    """By the last load of at most half: the third of four that double."""
    assert _levelled(series(role, "", (0.125, 0.25, 0.5, 1.0), amounts, 1.0)) is levelled


@pytest.mark.parametrize(
    ("unit", "operations_s"), [("B", 250.0), ("bytes/s", 250.0), ("bit/s", 31.25), ("operations/s", 1e6)]
)
def test_an_offered_rate_is_counted_in_operations(unit: str, operations_s: float) -> None:
    assert series("rate", unit, (1.0,), (1.0,), 4000.0).offered(1e6) == operations_s


# --- courses of repeats


def test_a_step_in_each_repeat_is_found_at_its_moment_and_none_in_steady_ones() -> None:
    def repeats(*steps: int, kept: float) -> Measurement:
        levels = [[100.0 + (at * 7 + step) % 5 if at < step else kept * (100.0 + (at * 3) % 5) for at in range(40)]
                  for step in steps]  # fmt: skip
        return replace(base(), samples=course([one for level in levels for one in level], 1), repeats=len(steps))

    found = step_in_each(repeats(10, 20, 28, kept=0.8))
    assert found is not None and found[0] == [10, 20, 28] and found[1] == pytest.approx(0.2, abs=0.01)
    assert step_in_each(repeats(10, 20, 28, kept=1.0)) is None
    assert step_in_each(repeats(10, 20, 28, kept=1.2)) is None
    assert step_in_each(repeats(10, kept=0.8)) is None


# --- who was at work


@pytest.mark.parametrize(
    ("ours", "measured", "share"),
    [
        ((0.3, 0.3), ("cpu_busy", "cpu_user"), 0.475),
        ((0.3, 0.0), ("cpu_busy", "cpu_user"), 0.4875),
        ((0.0, 0.3), ("cpu_busy", "cpu_user"), 0.4875),
        ((0.0, 0.0), ("cpu_busy", "cpu_user"), None),
        ((0.3, 0.3), ("cpu_busy",), None),
        ((0.3, 0.3), ("cpu_user",), None),
    ],
)
def test_others_share_is_what_is_neither_ours_nor_idle(
    ours: tuple[float, float], measured: tuple[str, ...], share: float | None
) -> None:
    """Of 8 processors for 3 s: 0.3 s are 1.25%; half of all is in use."""
    conditions = dict.fromkeys(measured, 0.5)
    point = replace(base(), cpu_user_s=ours[0], cpu_system_s=ours[1], conditions=conditions)
    found = Case(run_of(point), run_of(point).experiments[0], 0).others_share
    assert found == (None if share is None else pytest.approx(share))


def test_threads_of_all_hosts_count_together() -> None:
    point = replace(base(), parameters={**base().parameters, "numjobs": 4})
    made = run_of(point)
    three = replace(made, machines=tuple(replace(Machine(), hostname=name) for name in "abc"))
    share = HostShare(
        host="a", throughput=sure(1.0), operations=1, bytes=1, elapsed_s=1.0, start_offset_s=0.0, repeats=1
    )
    part = replace(point, hosts=(share, replace(share, host="b")))
    assert Case(made, made.experiments[0], 0).jobs == 4
    assert Case(three, three.experiments[0], 0).jobs == 12
    assert Case(three, replace(three.experiments[0], points=(part,)), 0).jobs == 8


# --- accelerators that need more


@pytest.mark.parametrize(
    ("workload", "need", "files", "named"),
    [("unet3d", 2e9, 7, True), ("unet3d", 1e9, 7, False), ("unet3d", 0.5e9, 7, False), ("resnet50", 2e9, 7, False),
     ("unet3d", 2e9, 8, False)],
)  # fmt: skip
def test_a_kind_that_needs_more_and_was_fed_clears_the_storage(
    workload: str, need: float, files: int, named: bool
) -> None:
    def kind(name: str, workload: str, need: float, au: float, files: int) -> ExperimentResult:
        point = training.point(1, au, need_bytes_s=need)
        fixed = {**training.FIXED, "accelerator": name, "workload": workload, "files": files}
        return made_experiment(
            f"training.{workload}.{name}", "training", "?", "accelerators", "training_loader", (point,), fixed=fixed
        )

    slow = kind("a100", "unet3d", 1e9, 0.5, 7)
    run = replace(run_of(base()), experiments=(slow, kind("h100", workload, need, 0.95, files)))
    found = training_capacity(Case(run, slow, 0))
    assert found is not None and ("this storage fed 1 h100, which need more" in found.says) == named
