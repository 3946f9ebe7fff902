"""The slow node of a fleet: planted faults are found with their cause, and a sound fleet stays silent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import made_store as made
import pytest
from here import sample
from hwdyno.cli.main import main
from hwdyno.cli.statuses import BELOW, OK
from hwdyno.explain.fleet.slow import MIN_NODES, Fleet, judge_fleet, list_nodes
from hwdyno.model.machine import Machine
from hwdyno.report.fleet import format_fleet
from hwdyno.system.store import Store
from hwdyno.system.store.document import to_json
from made_fleet import CPU, Fault, fleet

FAULTS = {
    17: Fault({"compute.flops": 0.15}, [(("cpu", "clock_hz", "measured"), 2.9e9)]),
    230: Fault({"memory.grid": 0.125}, [(("memory", "modules"), [{"size_bytes": 64 << 30}] * 7)]),
    404: Fault({"storage.seq": 0.45, "storage.iodepth": 0.2}, [(("storage", "disks", 0, "link", "lanes"), 2)]),
    611: Fault({"storage.iodepth": 0.7}, [(("storage", "disks", 0, "model"), "Another Disk")]),
    999: Fault({"memory.latency": 0.25}, [(("os", "kernel"), "5.15.0")]),
}


def judged(made_one: object) -> Fleet:
    return judge_fleet(list_nodes(made_one.rows), made_one.load)  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(sample(2, 5)))
def test_five_faults_among_a_thousand_nodes_are_found_and_none_is_invented(seed: int) -> None:
    found = judged(fleet(1000, FAULTS, seed=seed, noise=0.015))
    assert {slow_node.node.name for slow_node in found.slow} == {f"node{at:04}" for at in FAULTS}
    by_name = {slow_node.node.name: slow_node for slow_node in found.slow}
    for at, fault in FAULTS.items():
        slow = by_name[f"node{at:04}"]
        experiments = {loss.experiment for some in slow.losses.values() for loss in some}
        assert experiments == set(fault.slower), at
        greatest = max(fault.slower.values())
        assert slow.most == pytest.approx(greatest, abs=0.1)


def test_the_cause_stands_beside_the_loss() -> None:
    found = judged(fleet(1000, FAULTS))
    first = {slow_node.node.name: next(iter(slow_node.differences.values()))[0] for slow_node in found.slow}
    assert {name: (difference.path, difference.before, difference.after) for name, difference in first.items()} == {
        "node0017": ("cpu.clock_hz.measured", 3.5e9, 2.9e9),
        "node0230": ("memory.modules.count", 8, 7),
        "node0404": ("storage.disks.0.link.lanes", 4, 2),
        "node0611": ("storage.disks.0.model", "Some Disk", "Another Disk"),
        "node0999": ("os.kernel", "6.8.0", "5.15.0"),
    }


@pytest.mark.parametrize(
    ("count", "trials"),
    [(5, sample(20, 300)), (8, sample(20, 300)), (20, sample(10, 200)), (100, sample(3, 60)), (1000, sample(1, 6))],
)
def test_a_sound_fleet_stays_silent(count: int, trials: int) -> None:
    for tail in (5.0, 30.0):
        loud = sum(bool(judged(fleet(count, seed=seed, tail=tail)).slow) for seed in range(trials))
        assert loud <= 0.05 * trials, tail


@pytest.mark.parametrize(("count", "least"), [(8, 16), (12, 19), (40, 19)])
def test_slow_node_of_few_is_found(count: int, least: int) -> None:
    found = [
        [slow_node.node.name for slow_node in judged(fleet(count, {2: FAULTS[404]}, seed=seed)).slow]
        for seed in range(20)
    ]
    assert found.count(["node0002"]) >= least


def test_what_cannot_be_judged_is_said() -> None:
    few = fleet(MIN_NODES - 1, {0: FAULTS[611]})
    found = judged(few)
    assert not found.slow and len(found.alone) == MIN_NODES - 1 and found.seen_from is None
    assert "none was judged: at least 5" in format_fleet(found, {})
    several = fleet(20)
    entry, figures = several.rows[3]
    several.rows[3] = (replace(entry, machine="odd, Other CPU"), figures)
    assert [node.name for node in judged(several).alone] == ["odd"]


def test_equal_nodes_would_show_small_loss() -> None:
    found = judged(fleet(50, noise=0.0))
    assert not found.slow and found.seen_from == pytest.approx(0.05, abs=0.01)


def test_machines_of_another_kind_are_no_slow_ones() -> None:
    mixed = fleet(40)
    for at in range(20):
        entry, figures = mixed.rows[at]
        mixed.rows[at] = (
            replace(entry, machine=entry.machine.replace(CPU, "Old CPU")),
            tuple(replace(figure, value=figure.value * 0.5) for figure in figures),
        )
    assert judged(mixed).slow == ()


def test_newest_run_of_machine_counts() -> None:
    twice = fleet(20, {4: FAULTS[611]})
    entry, _ = twice.rows[4]
    _, sound = twice.rows[5]
    twice.rows.append((replace(entry, id="r9999", started="2026-11-02T00:00:00+00:00", path="r0004"), sound))
    assert judged(twice).slow == ()


def stored(folder: Path, slow: int | None) -> Store:
    """Runs of ten machines, one of which may have the half of the others' throughput."""
    store = Store(folder)
    for at in range(10):
        factor = 0.5 if at == slow else 1 + at / 1000
        points = [made.point(depth, 2e8 * depth**0.7 * factor) for depth in (1, 4, 16)]
        survey = {
            "hostname": f"bench-{at}",
            "cpu": {"model": CPU},
            "storage": {"filesystem": "xfs" if at == slow else "ext4"},
        }
        run = made.run(made.experiment(*points), run_id=f"20260101-00000{at}-abcd")
        store.save(replace(run, machines=(Machine.of_survey(survey),)))
    return store


def test_the_command_names_the_slow_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = stored(tmp_path / "store", 7)
    assert main(["fleet", "--store", str(tmp_path / "store")]) == BELOW
    text = capsys.readouterr().out
    assert text.startswith("1 of 10 nodes is slow (30 figures compared).")
    assert "bench-7: Storage 50% slower, 3 of 3 figures" in text
    assert "different   filesystem ext4 → xfs" in text
    command = text.strip().splitlines()[-1].split()
    assert command[:2] == ["hwdyno", "compare"] and main([*command[1:], "--store", str(tmp_path / "store")]) == OK
    capsys.readouterr()
    assert main(["fleet", str(store.runs), "--json"]) == BELOW
    (slow,) = json.loads(capsys.readouterr().out)["slow"]
    assert slow["node"] == "bench-7" and slow["resources"]["storage"]["losses"][0]["loss"] == pytest.approx(
        0.5, abs=0.01
    )
    paths = [str(path) for path in sorted(store.runs.glob("*.json")) if "07-abcd" not in path.name]
    assert main(["fleet", *paths]) == OK
    assert capsys.readouterr().out.startswith("No node of 9 is slow (27 figures compared); a loss of ")


def test_nameless_runs_are_a_machines_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, folder = stored(tmp_path / "store", 7), tmp_path / "given"
    folder.mkdir()

    def give(path: Path, hostname: str | None) -> Path:
        run = store.load(path)
        given = folder / path.name
        given.write_text(to_json(replace(run, machines=(replace(run.machine, hostname=hostname),))))
        return given

    stored_paths = sorted(store.runs.glob("*.json"))
    paths = [give(path, None) for path in stored_paths]
    assert main(["fleet", str(folder)]) == BELOW
    printed = capsys.readouterr()
    assert printed.out.startswith("1 of 10 nodes is slow (30 figures compared).")
    assert f"{paths[7]}: Storage 50% slower, 3 of 3 figures" in printed.out
    assert printed.err == "10 runs without a host name: each file counts as one machine\n"
    give(stored_paths[0], "bench-0")
    assert main(["fleet", str(folder)]) == BELOW
    assert capsys.readouterr().err.startswith("9 runs without a host name")


def test_wrong_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    stored(tmp_path / "store", None)
    for arguments, says in (
        ([str(tmp_path / "empty")], "has no Run documents"),
        (["--store", str(tmp_path / "none")], "no runs are stored"),
        (["--store", str(tmp_path / "store"), "nonesuch"], "nonesuch"),
    ):
        assert main(["fleet", *arguments]) == 2
        error = capsys.readouterr().err
        assert says in error and error.count("\n") == 1
    (tmp_path / "store" / "runs" / "other.json").write_text("{}")
    assert main(["fleet", str(tmp_path / "store" / "runs")]) == OK
    assert "other.json" in capsys.readouterr().err
