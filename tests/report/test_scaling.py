"""Clients as the load: how many take part, what they reach together, how equally, and what limits them by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hwdyno.analysis.estimates import jain
from hwdyno.analysis.resources import ceilings_of_site, list_ceilings
from hwdyno.cli.main import main
from hwdyno.explain.comparison.clients import over_clients
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.rule import Case
from hwdyno.explain.findings.scaling import list_steps, scaling, unfair
from hwdyno.measure.hosts import HostLostError
from hwdyno.measure.hosts.several_hosts import Timeouts
from hwdyno.measure.plan import build
from hwdyno.measure.topology import Topology
from hwdyno.model.axes import CLIENTS
from hwdyno.model.machine import node_name
from hwdyno.model.words import Ceiling, Run, UserError, Value
from hwdyno.report import page
from hwdyno.report.redaction import without_names
from hwdyno.system.store import Store, from_json, to_json
from made_clients import COUNTS, closed_rate, made, point, whole_curve
from simulated_hosts import Memory
from simulated_runs import FIXED, at
from simulation.host import SimulatedMachine
from simulation.site import SimulatedMember, site_of_two
from test_ranks import by_address
from test_ranks import read_run as printed_run

# --- who takes part


def four(patience_dies: int = 0) -> list[SimulatedMember]:
    members = [SimulatedMember(name, SimulatedMachine(seed=at)) for at, name in enumerate("abcd")]
    members[1].dies_at = patience_dies
    return members


SHORT = {**FIXED, **at(), "runtime": 0.2, "interval_s": 0.05, "path": "/x"}


def test_only_requested_hosts_take_part() -> None:
    site, members = site_of_two(*four())
    axis = site.kernels()["storage_blocks"].axis(CLIENTS.name)
    assert (axis.role, axis.most, axis.workers, site.topology().clients) == ("concurrency", 4, True, 4)
    for clients in (1, 3, 4):
        reading = site.run("storage_blocks", {**SHORT, CLIENTS.name: clients})
        assert [part["host"] for part in reading["hosts"]] == list("abcd")[:clients]
    assert [member.readings for member in members] == [3, 2, 2, 1]
    assert all(CLIENTS.name not in given for member in members for given in member.parameters)
    assert len(site.run("storage_blocks", dict(SHORT))["hosts"]) == 4, "all, where none are asked for"


def test_another_host_takes_the_place_of_a_lost_one_while_there_is_one() -> None:
    site, _ = site_of_two(*four(patience_dies=1))
    site.run("storage_blocks", {**SHORT, CLIENTS.name: 2})
    assert set(site.lost) == {"b"}
    there = site.run("storage_blocks", {**SHORT, CLIENTS.name: 2})["hosts"]
    assert [(part["host"], part["failure"]) for part in there] == [("a", ""), ("c", "")]
    less = site.run("storage_blocks", {**SHORT, CLIENTS.name: 4})["hosts"]
    assert [part["host"] for part in less if part["failure"]] == ["b"] and len(less) == 4


def test_nobody_is_left_is_an_error_also_for_one_client() -> None:
    member = SimulatedMember("a", SimulatedMachine(seed=1))
    member.dies_at = 1
    site, _ = site_of_two(member)
    with pytest.raises(HostLostError):
        site.run("storage_blocks", {**SHORT, CLIENTS.name: 1})


def test_clients_need_several_hosts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words in (["storage", "scaling"], ["memory", "--clients", "1,2"]):
        assert main([*words, "--dry-run", "--path", str(tmp_path)]) == 2
        error = capsys.readouterr().err
        assert "--clients is for several hosts or ranks, and here is one" in error and error.count("\n") == 1
    assert main(["storage", "--dry-run", "--path", str(tmp_path)]) == 0
    assert "storage.scaling" not in capsys.readouterr().out


def test_a_plan_of_several_hosts_has_the_curve_over_them() -> None:
    from hwdyno.measure import experiments, plan

    site, _ = site_of_two(*four())
    assert Topology.common([Topology(), Topology(), Topology()]).clients == 3
    names = [experiment.name for experiment, _ in plan.select(["storage"], site)]
    assert "storage.scaling" in names
    planned = build([(experiments.find("storage.scaling")[0], {})], site).experiments[0]
    assert [measurement[CLIENTS.name] for measurement in planned.points] == [1, 2, 4] and planned.load == CLIENTS.name
    with pytest.raises(UserError, match="must be 1 to 4"):
        build([(experiments.find("storage.scaling")[0], {"clients": "1..8"})], site)


# --- what the curve says


def test_jains_index_is_that_of_report() -> None:
    assert jain([5.0] * 4) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([1.0, 2.0, 3.0]) == pytest.approx(36 / 42)
    assert jain([0.0, 0.0]) is None


def test_the_knee_the_gain_and_each_clients_part_are_read_off_the_curve() -> None:
    run = whole_curve()
    (result,) = run.experiments
    (curve,) = result.curves
    assert curve.state == "knee" and curve.parameters["N*"].value == pytest.approx(4, rel=0.15)
    steps = list_steps(run, result, curve)
    assert [step.clients for step in steps] == list(COUNTS) and [step.nodes for step in steps] == [1, 1, 2, 4, 8]
    for step in steps:
        assert step.share_of_linear == pytest.approx(closed_rate(int(step.clients)) / closed_rate(1) / step.clients)
        assert step.fairness is None if step.clients == 1 else step.fairness == pytest.approx(1.0)
    assert steps[-1].slowest_p99_ns == pytest.approx(18 * steps[-1].latency_ns.mean)  # type: ignore[union-attr]
    found = {finding.rule: finding for finding in run.findings}
    assert found["scaling"].says.startswith("Scales to ") and "knee" not in found and "unfair" not in found
    assert found["scaling"].evidence["limit"] == "storage"
    assert [step["clients"] for step in found["scaling"].evidence["steps"]] == list(COUNTS)


@pytest.mark.parametrize(
    ("plant", "limit"),
    [
        ("cpu", "client CPU"),
        ("link", "10GbE"),
        ("neither", "storage"),
        ("others", "client CPU (other threads)"),
    ],
)
def test_limit_names_the_full_resource(plant: str, limit: str) -> None:
    top = closed_rate(16) * 4096
    ceilings = ()
    points = [point(count) for count in COUNTS]
    if plant == "cpu":
        points = [
            replace(measurement, cpu_user_s=2.9 * len(measurement.hosts), cpu_system_s=0.0) for measurement in points
        ]
    if plant == "others":
        points = [replace(measurement, conditions={"cpu_busy": 0.97}) for measurement in points]
    if plant == "link":
        ceilings = (Ceiling("read_bytes_s", "physical", top / 0.95, "bytes/s", "10 Gbit/s / 8", "test", "10GbE"),)
    run = made(*points, ceilings=ceilings)
    (finding,) = [candidate for candidate in run.findings if candidate.rule == "scaling"]
    assert finding.evidence["limit"] == limit, finding.says


def test_partial_nodes_have_partial_links() -> None:
    """Two of eight nodes fill two links, though the site has eight."""
    top = closed_rate(4) * 4096
    link = Ceiling("read_bytes_s", "physical", top / 0.95 * 8 / 2, "bytes/s", "8 x 10 Gbit/s / 8", "test", "10GbE")
    run = made(*map(point, COUNTS), ceilings=(link,))
    (curve,) = run.experiments[0].curves
    limits = [step.limit for step in list_steps(run, run.experiments[0], curve)]
    assert limits[2] == "10GbE" and limits[4] == "storage"


def test_ranks_share_their_nodes_ceilings() -> None:
    machine = SimulatedMachine(seed=5).survey()
    ceilings = list_ceilings(machine, "storage")
    assert ceilings, "the simulated link"
    ranks = [replace(machine, hostname=f"n0 rank {rank}") for rank in range(4)]
    assert [ceiling.value for ceiling in ceilings_of_site(ranks, "storage")] == [ceiling.value for ceiling in ceilings]
    apart = [replace(machine, hostname=f"n{rank // 2} rank {rank}") for rank in range(4)]
    assert [ceiling.value for ceiling in ceilings_of_site(apart, "storage")] == [
        2 * ceiling.value for ceiling in ceilings
    ]


def test_unequal_shares_are_named_and_equal_ones_are_not() -> None:
    shares = [0.23, 0.23, 0.22, 0.22, 0.03, 0.03, 0.02, 0.02]
    run = made(point(1), point(8, shares), point(16))
    (finding,) = [candidate for candidate in run.findings if candidate.rule == "unfair"]
    index = jain(shares)
    assert index is not None and finding.evidence["fairness"] == pytest.approx(index)
    assert f"Jain's index is {index:.2f} of 1 over 8 clients" in finding.says
    assert finding.advice.startswith("Measure again with fewer clients: mpirun -n 16 hwdyno storage ")
    assert finding.advice.endswith(" --clients 4")
    even = made(point(1), point(8, [0.14, 0.14, 0.14, 0.13, 0.12, 0.11, 0.11, 0.11]), point(16))
    assert not [candidate for candidate in even.findings if candidate.rule == "unfair"]


@pytest.mark.parametrize(("shares", "index", "half"), [
    # Jain's index of two shares is 1 / (2 x the sum of their squares).
    ((0.66, 0.34), None, 0), ((0.675, 0.325), "0.89", 1), ((0.6, 0.35, 0.05), "0.69", 1),
    ((0.5, 0.4, 0.05, 0.05), "0.60", 2),
])  # fmt: skip
def test_index_below_nine_tenths_is_unfair(shares: tuple[float, ...], index: str | None, half: int) -> None:
    run = made(point(1), point(len(shares), shares), point(16))
    found = unfair(Case(run, run.experiments[0], 1))
    assert (found is not None) == (index is not None)
    assert found is None or f"Jain's index is {index} of 1 over {len(shares)} clients." in found.says
    assert found is None or f"--clients {half} " in f"{found.advice} "


def test_steps_are_shares_of_least_load() -> None:
    run = made(point(2, hosts=()), point(4), point(8))
    first, second, _ = list_steps(run, run.experiments[0], run.experiments[0].curves[0])
    assert first.share_of_linear == pytest.approx(1.0) and (first.nodes, second.nodes) == (1, 2)
    assert second.share_of_linear == pytest.approx(closed_rate(4) / closed_rate(2) / 2)


def test_flat_curve_needs_least_clients() -> None:
    run = whole_curve()
    (result,) = run.experiments
    flat = scaling(Case(run, result, curve=replace(result.curves[0], state="flat", best=None)))
    assert flat is not None and flat.says.startswith("More clients bring nothing (")
    assert flat.advice.startswith("Use 1 client") and flat.evidence["best_clients"] == 16
    assert scaling(Case(run, result)) is None


def test_one_slow_client_is_a_straggler_and_not_said_twice() -> None:
    run = made(point(1), point(4, [0.3298, 0.3299, 0.33, 0.0103]), point(8))
    rules = {finding.rule for finding in run.findings}
    assert "straggler" in rules and "unfair" not in rules


def test_what_is_advised_is_started_as_the_run_was() -> None:
    rising = made(*map(point, (1, 2, 4)))
    (finding,) = [candidate for candidate in rising.findings if candidate.rule == "scaling"]
    assert "mpirun -n 32 hwdyno storage" in finding.advice and "--clients 1..32" in finding.advice
    slurm = explain(replace(rising, job={"launcher": "slurm"}, findings=()))
    (finding,) = [candidate for candidate in slurm.findings if candidate.rule == "scaling"]
    assert "hwdyno slurm script --nodes 16 --ranks-per-node 2 -- storage" in finding.advice


# --- what is shown


def test_the_curve_is_on_the_terminal_on_the_page_and_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = whole_curve()
    kept = tmp_path / "run.json"
    kept.write_text(to_json(run))
    assert from_json(kept.read_bytes()) == run, "each client's part is kept"
    store = ["--store", str(tmp_path / "runs")]
    assert main(["report", str(kept), *store]) == 0
    terminal = capsys.readouterr().out
    assert "Limit: storage." in terminal and "of linear" in terminal
    html = page.html(run)
    assert 'id="clients"' in html and "slowest client" in html
    assert main(["scaling", str(kept), "--load", "100,1000", "--json", *store]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["state"] == "knee" and found["knee_clients"] == pytest.approx(4, rel=0.15)
    assert [step["fairness"] for step in found["steps"]][1:] == pytest.approx([1.0] * 4)
    assert len(found["steps"]) == len(COUNTS) and found["limit"] == "storage"
    (far,) = found["projections"]
    for projection in far["projections"]:
        truth = closed_rate(int(projection["load"])) * 4096
        assert projection["throughput"]["low"] <= truth <= projection["throughput"]["high"]
    assert main(["scaling", str(kept), "--load", "1000", *store]) == 0
    assert "assumed: the queue stays as it is" in capsys.readouterr().out


def test_names_leave_but_nodes_stay_apart() -> None:
    shared = without_names(whole_curve())
    (curve,) = shared.experiments[0].curves
    steps = list_steps(shared, shared.experiments[0], curve)
    assert [step.nodes for step in steps] == [1, 1, 2, 4, 8]
    assert {node_name(machine.hostname or "") for machine in shared.machines} == {f"host-{at}" for at in range(1, 9)}


# --- a folder of Runs


def one_of_many(clients: int, started: str) -> Run:
    """A Run with this many ranks that knows nothing of others."""
    run = made(point(clients))
    (result,) = run.experiments
    measured = replace(result.points[0], parameters=at())
    axes = tuple(axis for axis in result.declaration.axes if axis.name != CLIENTS.name)
    lone = replace(
        result, load="iodepth", points=(measured,), curves=(), declaration=replace(result.declaration, axes=axes)
    )
    return replace(run, id=f"r{clients}-{started[:4]}", started=started, experiments=(lone,), findings=())


def test_runs_with_different_numbers_of_ranks_are_one_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for clients in COUNTS:
        run = one_of_many(clients, "2026-02-01T00:00:00+00:00")
        (tmp_path / f"{run.id}.json").write_text(to_json(run))
    stale = one_of_many(4, "2025-02-01T00:00:00+00:00")
    slow = replace(stale.experiments[0].points[0], throughput=Value(1.0, "bytes/s"))
    stale = replace(stale, experiments=(replace(stale.experiments[0], points=(slow,)),))
    (tmp_path / "a-stale.json").write_text(to_json(stale))
    assert main(["scaling", str(tmp_path), "--json", "--store", str(tmp_path / "none")]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [step["clients"] for step in found["steps"]] == list(COUNTS) and found["state"] == "knee"
    assert found["steps"][2]["throughput"]["value"] > 1, "the newest counts"


def test_runs_that_differ_in_more_than_clients_are_no_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (one_of_many(clients, "2026-02-01T00:00:00+00:00") for clients in (1, 2))
    deeper = replace(second.experiments[0].points[0], parameters=at(iodepth=64))
    second = replace(second, experiments=(replace(second.experiments[0], points=(deeper,)),))
    assert over_clients([first, second]) is None
    (tmp_path / "one.json").write_text(to_json(first))
    assert main(["scaling", str(tmp_path), "--store", str(tmp_path / "none")]) == 2
    error = capsys.readouterr().err
    assert "no point was measured with two numbers of clients" in error and error.count("\n") == 1


# --- real ranks


@pytest.mark.long  # test_ranks.py starts ranks
@pytest.mark.machine
def test_ranks_make_curve_over_their_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, store = tmp_path / "data", tmp_path / "runs"
    place.mkdir()
    words = ("storage", "--rw", "randread", "--clients", "1,2", "--size", "16M", "--runtime", "0.1")
    with by_address(2, *words, "--path", str(place), store=store) as ones:
        status, out, err = ones.ended()
    assert status in {0, 3}, err
    run = printed_run(out)
    points = run.experiments[0].points
    assert [(measurement.parameters[CLIENTS.name], len(measurement.hosts)) for measurement in points] == [
        (1, 1),
        (2, 2),
    ]
    assert all(share.latency_ns is not None for measurement in points for share in measurement.hosts)
    assert Store(store).history() and main(["scaling", "--json", "--store", str(store)]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [step["clients"] for step in found["steps"]] == [1, 2] and found["steps"][1]["fairness"] is not None


def test_site_experiments_run_and_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hwdyno import session
    from hwdyno.cli.main import make_parser
    from hwdyno.cli.options import make_request
    from hwdyno.explain.findings.rule import Case
    from hwdyno.measure import experiments, runner
    from hwdyno.measure.scenarios import make_scenario

    site, members = site_of_two(*four(), timeouts=Timeouts())
    several = [experiment for experiment in experiments.all() if experiment.min_clients > 1]
    assert {experiment.resource for experiment in several} == {"storage", "memory", "network"}
    for number, member in enumerate(members):
        member.server = (f"10.0.0.{number}", 5000)
        member.sees = "/a/data"
    monkeypatch.setattr(session, "this_site", lambda: site)
    for experiment in several:
        if experiment.kernel not in site.kernels():
            assert experiment.resource == "network", "a path is simulated by itself"
            continue
        made = build([(experiment, {})], site, path=tmp_path, seed=1)
        run = runner.run(made, site, Memory(), "run-1")
        (result,) = run.experiments
        assert len(result.points) == result.planned > 0 and not run.degraded
        for place in range(len(result.points)):
            line = Case(replace(run, job={"launcher": "mpi"}), result, place).command()
            words = line.split()
            assert words[:2] == ["mpirun", "-n"] and words[3] == "hwdyno"
            args = make_parser(words[4]).read(words[5:])
            (planned,) = make_scenario(make_request(args, words[4]), site).plan.experiments
            (point,) = planned.points
            assert {**result.points[place].parameters}.items() <= {**planned.fixed, **point}.items(), line
