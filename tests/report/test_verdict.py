"""The verdict on a Run: what fails is named with its measured cause, and what is not quoted decides nothing."""

from __future__ import annotations

import random
from dataclasses import replace

import made_run
import pytest
from here import at_least, sample
from hwdyno.explain.findings import explain
from hwdyno.measure.plan import QUOTED_REPEATS
from hwdyno.model.words import Ceiling, Finding, Run
from hwdyno.report.scorecard import Scorecard, scorecard
from hwdyno.report.verdict import shorten_reason
from made_scorecards import RUNS, degraded
from simulated_runs import MACHINES, experiment, make_run
from simulated_runs import at as point_at
from simulation.host import SimulatedMachine
from style import find_faults


def test_a_sound_run_is_called_so_and_one_that_is_not_says_why() -> None:
    def verdict(run: Run) -> tuple[str, str]:
        card = scorecard(run)
        assert card.reason.endswith((".", "…")) or "hostile" in run.id
        return card.verdict, card.reason

    assert verdict(made_run.whole_run()) == ("sound", "All figures below hold.")
    says = "6 of 6 figures are noisy: SEQ1M Q8T1 read ±1.8%, SEQ1M Q8T1 write ±1.8%, RND4K Q32T1 read ±1.8%, "
    assert verdict(RUNS["all degraded"]) == (
        "use with care", says + "RND4K Q32T1 write ±1.8% and 2 more. A wide interval."
    )  # fmt: skip
    assert verdict(RUNS["empty"])[0] == "not to be trusted"
    assert verdict(RUNS["partial"]) == ("not to be trusted", "2 of 6 points were measured.")
    assert verdict(RUNS["imported"])[0] == "use with care"
    # Points that are not quoted are remarked on, and do not decide.
    partly = degraded(made_run.whole_run())
    grid, *others = made_run.whole_run().experiments
    kept = replace(partly, experiments=(grid, *partly.experiments[1:]))
    assert others and verdict(kept) == ("sound", "All figures below hold. 38 of 44 points are degraded.")


def test_verdict_names_failure_and_cause() -> None:
    run = made_run.whole_run()
    grid, *others = run.experiments
    poor = replace(grid.points[3], validity="degraded", why=("interval_not_reached",))
    noisy = replace(run, experiments=(replace(grid, points=(*grid.points[:3], poor, *grid.points[4:])), *others))
    stolen = Finding(
        "steal", "warning", "storage", "The hypervisor took 8.1% of the CPU time (steal; randwrite 4 KiB).", {}, ""
    )
    card = scorecard(replace(noisy, findings=(stolen,)))
    assert (card.verdict, card.reason) == (
        "use with care",
        "1 of 6 figures is noisy: RND4K Q32T1 write ±1.8%. The hypervisor took 8.1% of the CPU time.",
    )


GRID = [
    *(point_at(rw=rw, bs=1 << 20, iodepth=depth) for rw in ("read", "write") for depth in (8, 1)),
    *(point_at(rw=rw, iodepth=depth) for rw in ("randread", "randwrite") for depth in (32, 1)),
]
"""The tests that storage is quoted by."""


SOME = MACHINES[: sample(10, len(MACHINES))]
"""Some machines: each is measured at every point of the grid, which takes long."""


def make_card(machine: SimulatedMachine) -> Scorecard:
    """What a machine's disk is quoted by, with as many readings as ``hwdyno run`` takes."""
    grid = experiment(machine, "iodepth", GRID, name="storage.grid", repeats=QUOTED_REPEATS)
    return scorecard(explain(make_run(machine, grid)))


@pytest.mark.parametrize("steal", [(0.0, 0.0), (0.01, 0.05)])
def test_clean_machines_are_sound(steal: tuple[float, float]) -> None:
    """A virtual one loses 1 to 5% of its time in bursts, as on any shared host."""
    sound = 0
    for seed in SOME:
        bursts = random.Random(seed).uniform(*steal)
        card = make_card(SimulatedMachine.random(seed, steal_bursts=bursts, hypervisor="kvm" if bursts else None))
        assert len(card.rows) == 5
        sound += card.verdict == "sound"
    assert at_least(sound, len(SOME), 0.95), sound


PLANTED: dict[str, tuple[dict[str, tuple[float, float]], str]] = {
    "page cache": ({"cache_share": (0.5, 1.0)}, "not to be trusted"),
    "file without data": ({"unwritten_share": (0.3, 0.9)}, "not to be trusted"),
    "cache of the host": ({"host_cache_bytes_s": (1e10, 4e10)}, "not to be trusted"),
    "noise": ({"noise": (0.4, 0.6)}, "use with care"),
    "throttled": ({"throttle_at": (0.3, 0.6), "throttle_to": (0.3, 0.7)}, "use with care"),
    "drift": ({"drift": (-0.9, -0.4)}, "use with care"),
    "swings": ({"wobble": (0.4, 0.6)}, "use with care"),
    "steal": ({"steal_bursts": (0.2, 0.5)}, "use with care"),
    "other processes": ({"others_cpu": (0.4, 0.8)}, "use with care"),
    "swap": ({"swap_bytes_s": (1e7, 1e9)}, "use with care"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_no_planted_fault_passes_as_sound(fault: str) -> None:
    """Rules are tried on more machines in tests/explain/test_findings.py; here they decide the verdict."""
    ranges, expected = PLANTED[fault]
    for seed in MACHINES[: sample(5, len(MACHINES))]:
        draw = random.Random(seed)
        planted = {name: draw.uniform(*range_of) for name, range_of in ranges.items()}
        assert make_card(SimulatedMachine.random(seed, **planted)).verdict == expected, f"machine {seed}: {planted}"


@pytest.mark.parametrize("name", sorted(name for name in RUNS if "hostile" not in name))
def test_verdict_reads_as_every_other_text(name: str) -> None:
    card = scorecard(RUNS[name])
    for text in (card.reason, *(todo.says for todo in card.todo)):
        assert not [fault for fault in find_faults(text) if "…" not in text], text


def test_nested_brackets_are_left_out() -> None:
    says = "Writes are 2.8 times as fast as reads on vda (write 1 MiB, iodepth=1: 3.7 GB/s against 1.3 (0.3 to 2.7))."
    assert shorten_reason(says, 76) == "Writes are 2.8 times as fast as reads on vda."
    assert shorten_reason(says, 300) == says


@pytest.mark.parametrize(("share", "is_one"), [(0.01, False), (0.049, False), (0.051, True)])
def test_a_peak_far_below_its_ceiling_is_not_one(share: float, is_one: bool) -> None:
    """Registers keep up with any unit: either the loop or the ceiling is wrong."""
    run = RUNS["every resource"]
    peak = Ceiling("flop_s", "physical", 4e11 / share, "FLOP/s", "cores x clock x width", "the survey", "FP64 peak")
    (grid,) = [result for result in run.experiments if result.name == "compute.grid"]
    four = tuple(p for p in grid.points if (p.parameters["precision"], p.parameters["threads"]) == ("double", 4))
    card = scorecard(replace(run, experiments=(replace(grid, ceilings=(peak,), points=four),), findings=()))
    (row,) = card.rows
    assert (row.state != "invalid") == is_one == (card.verdict != "not to be trusted")
    if not is_one:
        assert f"FP64 peak ±3.0%: only {100 * share:.1f}% of its ceiling." in card.reason
