"""What hosts are to each other: the pairs of a network, its bisection, all to all; one file for all, or a file each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from here import shortly
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.measure.experiments import list_pairs
from hwdyno.measure.hosts.partners import parse_partners
from hwdyno.measure.hosts.several_hosts import SeveralHosts
from hwdyno.measure.plan import select
from hwdyno.model.axes import BETWEEN, with_clients
from hwdyno.model.words import Measurement, Run, UserError, Value
from hwdyno.report import page, scaling
from made_experiment import made_experiment
from simulated_runs import make_run
from simulation.host import SimulatedMachine
from simulation.site import SimulatedMember
from test_ranks import by_address
from test_ranks import read_run as printed_run

NAMES = "abcd"


class Sender(SimulatedMember):
    """A host whose simulated kernel needs no partner."""

    def prepare(self, kernel: str, parameters: dict[str, Any]) -> None:
        super().prepare(kernel, {name: value for name, value in parameters.items() if name not in {"server", "port"}})
        self.parameters[-1] = parameters


def serving(count: int = 4) -> tuple[SeveralHosts, list[Sender]]:
    members = [Sender(name, SimulatedMachine(seed=at)) for at, name in enumerate(NAMES[:count])]
    for at, member in enumerate(members):
        member.server = (f"10.0.0.{at}", 5000 + at)
    return SeveralHosts(members), members


# --- who sends to whom


def test_pairs_and_shifts_name_their_partners() -> None:
    assert parse_partners("0-3", 4) == {0: 3} and parse_partners("+1", 3) == {0: 1, 1: 2, 2: 0}
    every = [parse_partners(between, 3) for between in list_pairs(3)]
    assert len(every) == 6 and all(len(partners) == 1 for partners in every)
    shifts = [parse_partners(f"+{shift}", 4) for shift in (1, 2, 3)]
    sent = [pair for shift in shifts for pair in shift.items()]
    assert len(set(sent)) == 12, "all to all: each to each other one, once"
    assert all(sorted(shift.values()) == [0, 1, 2, 3] for shift in shifts), "each receives from one at a time"


@pytest.mark.parametrize("text", ["", "0-0", "0-4", "+0", "+4", "-1", "x", "1-", "0-1-2", "+-1"])
def test_what_names_no_partners_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UserError, match="must be two of hosts 0 to 3") as caught:
        parse_partners(text, 4)
    assert "\n" not in str(caught.value)


IDLE: Mapping[str, Any] = {"runtime": 0.05}


def test_each_sender_gets_its_partners_server_and_the_others_stay_idle() -> None:
    site, members = serving()
    site.run("idle", {**IDLE, BETWEEN.name: "1-3"})
    assert [member.readings for member in members] == [0, 1, 0, 0]
    assert (members[1].parameters[-1]["server"], members[1].parameters[-1]["port"]) == ("10.0.0.3", 5003)
    reading = site.run("idle", {**IDLE, BETWEEN.name: "+2"})
    assert [member.parameters[-1]["server"] for member in members] == [f"10.0.0.{at}" for at in (2, 3, 0, 1)]
    assert len(reading["hosts"]) == 4 and BETWEEN.name not in members[0].parameters[-1]


def test_whoever_has_lost_its_partner_sits_out_and_the_lost_one_is_named() -> None:
    site, members = serving()
    members[2].dies_at = 1
    site.run("idle", {**IDLE, BETWEEN.name: "+1"})
    assert set(site.lost) == {"c"}
    reading = site.run("idle", {**IDLE, BETWEEN.name: "+1"})
    there = {part["host"]: part["failure"] for part in reading["hosts"]}
    assert set(there) == {"a", "c", "d"} and there["c"] and not there["a"], "b sends to c, which is gone"


def test_hosts_that_serve_each_other_measure_that_instead_of_their_own_loopback() -> None:
    site, _ = serving()
    names = {experiment.name for experiment, _ in select(["network"], site)}
    assert names == {"network.pairs", "network.pairs_latency", "network.bisection", "network.all_to_all"}
    alone = SeveralHosts([SimulatedMember("a"), SimulatedMember("b")])
    assert "network.streams" in {experiment.name for experiment, _ in select(["network"], alone)}
    two = {experiment.name for experiment, _ in select(["network"], serving(2)[0])}
    assert "network.all_to_all" not in two, "of two hosts it is their bisection"


# --- findings


def pair(between: str, value: float, **changes: Any) -> Measurement:
    return Measurement(
        parameters={"protocol": "tcp", "direction": "up", "streams": 1, "between": between},
        throughput=Value(value, "bytes/s", value * 0.98, value * 1.02), rate=None, latency_ns=None, streams=(),
        samples=None, concurrency=None, cpu_user_s=None, cpu_system_s=None, elapsed_s=3.0, operations=1000,
        bytes=round(3 * value), repeats=3, repeat_values=(value, value, value), **changes,
    )  # fmt: skip


def network(speeds: Mapping[str, float], **changes: Any) -> Run:
    points = tuple(pair(between, value, **changes) for between, value in speeds.items())
    machine = SimulatedMachine(seed=5)
    result = made_experiment(
        "network.pairs", "network", "Throughput between each two hosts", "streams", "network_throughput", points
    )
    kernel = with_clients({"k": result.declaration}, 4, between=True)["k"]
    axes = (*kernel.axes, replace(BETWEEN, default="+2"))
    machines = tuple(replace(machine.survey(), hostname=f"node-{name}") for name in NAMES)
    result = replace(result, declaration=replace(kernel, axes=axes))
    return explain(replace(make_run(machine, result), machines=machines))


def even() -> dict[str, float]:
    return {between: 1.17e9 * (1 + 0.002 * at) for at, between in enumerate(list_pairs(4))}


def test_a_slow_pair_is_named_and_alike_pairs_are_not() -> None:
    clean = network(even())
    assert "slow_pair" not in {finding.rule for finding in clean.findings}
    run = network({**even(), "1-3": 0.4e9})
    (found,) = [finding for finding in run.findings if finding.rule == "slow_pair"]
    assert found.says.startswith("Slow pair: 1 of 12. Worst: node-b to node-d, 66% slower than usual")
    assert "--between 1-3" in found.advice and found.evidence["host"] == ""


def test_a_host_that_all_slow_pairs_have_in_common_is_named() -> None:
    run = network({between: value * (0.5 if "3" in between else 1) for between, value in even().items()})
    (found,) = [finding for finding in run.findings if finding.rule == "slow_pair"]
    assert found.says.startswith("Slow host on the network: node-d is in all 6 slow pairs of 12.")


@pytest.mark.parametrize(("count", "kept", "slow"), [(5, 0.7, False), (6, 0.79, True), (6, 0.81, False)])
@pytest.mark.parametrize("kind", ["bytes and rate", "rate", "neither"])
def test_slow_pair_is_fifth_among_six(count: int, kept: float, slow: bool, kind: str) -> None:
    """What moves no bytes is judged by its rate, where it has one."""
    points = [pair(name, 1e9 * (kept if name == "0-1" else 1)) for name in list_pairs(4)[:count]]
    level = Value(1e9, "bytes/s")
    if kind == "rate":
        points = [replace(point, bytes=0, rate=point.throughput, throughput=level) for point in points]
    else:
        points = [replace(point, bytes=0) if kind == "neither" else replace(point, rate=level) for point in points]
    result = replace(network(even()).experiments[0], points=tuple(points))
    found = explain(replace(network(even()), experiments=(result,))).findings
    assert [finding.points for finding in found if finding.rule == "slow_pair"] == ([(0,)] if slow else [])


def test_pairs_are_shown_as_matrix() -> None:
    run = network(even())
    (table,) = scaling.matrices(run)
    assert table.heads == ("from", "to node-a", "to node-b", "to node-c", "to node-d") and table.rows[1][2] == "-"
    assert "loopback" not in scaling.text(run) and "to node-d" in page.html(run)
    assert "over loopback" in scaling.text(network(even(), details={"loopback": True}))


# --- one file, or a file each


SIZE = 4 << 20
BLOCKS: Mapping[str, Any] = {
    "rw": "randread", "bs": 4096, "iodepth": 1, "numjobs": 1, "size": SIZE, "offset": 0, "direct": True, "runtime": 0.1,
    "ioengine": "io_uring", "interval_s": 0.05,
}  # fmt: skip


def test_hosts_share_or_split_files() -> None:
    site, members = serving()
    place = site.place(Path("/simulated"), writes=False)
    data = site.data_file(place)
    for name, member in zip(NAMES, members, strict=True):
        member.lengths[f"/simulated/{name}/data"] = SIZE
    members[1].lengths["/simulated/a/data"] = members[2].lengths["/simulated/a/data"] = SIZE
    members[3].lengths["/simulated/a/data"] = SIZE
    given = {**BLOCKS, "path": str(data.data)}
    separate = site.parameters_of_each({**given, "shared_file": False})
    shared = site.parameters_of_each({**given, "shared_file": True})
    assert {parameters["path"] for parameters in shared.values()} == {"/simulated/a/data"}
    assert [parameters["offset"] for parameters in shared.values()] == [0, SIZE // 4, SIZE // 2, SIZE // 4 * 3]
    assert [parameters["path"] for parameters in separate.values()] == [f"/simulated/{name}/data" for name in NAMES]
    assert {parameters["size"] for parameters in (*separate.values(), *shared.values())} == {SIZE // 4}
    assert all("shared_file" not in parameters for parameters in shared.values())
    with pytest.raises(UserError, match="has no block for each of 4 hosts"):
        site.parameters_of_each({**given, "shared_file": True, "bs": 2 << 20})


def test_a_host_that_does_not_see_the_shared_file_is_named() -> None:
    site, members = serving(2)
    data = site.data_file(site.place(Path("/simulated"), writes=False))

    def unseen(path: str) -> int:
        raise FileNotFoundError(2, "No such file or directory")

    members[0].lengths["/simulated/a/data"] = SIZE
    members[1].file_size = unseen  # type: ignore[method-assign]
    with pytest.raises(UserError, match="b does not see /simulated/a/data; use a --path that all hosts share"):
        site.parameters_of_each({**BLOCKS, "path": str(data.data), "shared_file": True})


@pytest.mark.parametrize(
    ("kept", "says"),
    [(0.4, "costs 60% ("), (0.895, "costs 10% ("), (0.905, "is as fast as"), (0.97, "is as fast"), (1.3, "is as fast")],
)
def test_shared_file_cost_is_reported(kept: float, says: str) -> None:
    def measured(value: float, shared: bool) -> Measurement:
        parameters = {"rw": "write", "bs": 1 << 20, "iodepth": 8, "numjobs": 1, "shared_file": shared}
        return replace(pair("", value), parameters=parameters)

    result = made_experiment(
        "storage.shared_file", "storage", "?", "iodepth", "storage_blocks",
        (measured(1e9, shared=False), measured(kept * 1e9, shared=True)),
    )  # fmt: skip
    kernel = with_clients({"k": result.declaration}, 4)["k"]
    from hwdyno.model.axes import SHARED_FILE

    result = replace(result, declaration=replace(kernel, axes=(*kernel.axes, SHARED_FILE)))
    machine = SimulatedMachine(seed=5)
    run = explain(replace(make_run(machine, result), machines=(machine.survey(),) * 4))
    (found,) = [finding for finding in run.findings if finding.rule == "shared_file"]
    assert found.says.startswith(f"One shared file {says}") and found.evidence["shared_to_own"] == pytest.approx(kept)
    nothing = replace(result, points=(measured(0.0, shared=False), result.points[1]))
    assert "shared_file" not in {finding.rule for finding in explain(replace(run, experiments=(nothing,))).findings}


# --- real ranks


@pytest.mark.machine
def test_ranks_send_to_each_other_and_say_that_it_was_loopback(tmp_path: Path) -> None:
    words = ("network", "--protocol", "tcp", "--between", "1-0,+1", "--runtime", "0.1")
    with by_address(2, *words, store=tmp_path) as ones:
        status, out, err = ones.ended()
        assert status in {0, 3}, err
        assert [process.wait(20) for process in ones.processes[1:]] == [0]
    points = printed_run(out).experiments[0].points
    hosts = {str(point.parameters["between"]): [share.host for share in point.hosts] for point in points}
    assert hosts == {"1-0": ["n1 rank 1"], "+1": ["n0 rank 0", "n1 rank 1"]}
    assert all(point.bytes and point.details["loopback"] is True for point in points)


@pytest.mark.machine
def test_ranks_share_or_split_files(tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.mkdir()
    words = ("storage", "--rw", "write", "--bs", "64k", "--shared-file", "0,1", "--size", "4M", "--runtime", "0.1")
    with by_address(2, *words, "--path", str(place), store=tmp_path / "runs") as ones:
        status, out, err = ones.ended()
    assert status in {0, 3}, err
    run = printed_run(out)
    points = run.experiments[0].points
    assert sorted(bool(point.parameters["shared_file"]) for point in points) == [False, True]
    assert all(share.bytes and not share.faults for point in points for share in point.hosts)
    assert "shared_file" in {finding.rule for finding in run.findings} and not list(place.iterdir())


@pytest.mark.machine
@pytest.mark.parametrize("words", shortly(1, ("training", "--workload", "unet3d"), ("inference", "--cold", "raw")))
def test_what_is_prepared_on_one_machine_is_refused_in_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    with by_address(2, *words, "--path", str(tmp_path), store=tmp_path / "runs") as ones:
        status, out, err = ones.ended()
    assert status == 2 and not out, err
    lines = [line for line in err.splitlines() if line.startswith("hwdyno:")]
    assert len(lines) == 1 and "several hosts" in lines[0]


def test_one_host_has_no_partner(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["network", "pairs", "--dry-run"]) == 2
    error = capsys.readouterr().err
    assert "is for several hosts or ranks" in error and error.count("\n") == 1
