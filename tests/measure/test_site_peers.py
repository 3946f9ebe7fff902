"""A peer on a site of several hosts: one start, each host's figures, sums of rates, and a failing host is named."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hwdyno.explain.findings import explain
from hwdyno.measure import experiments, peers, plan, runner
from hwdyno.measure.hosts import HostLostError, Outcome, Program
from hwdyno.measure.hosts.several_hosts import SeveralHosts
from hwdyno.measure.peers import PeerReading, on_site
from hwdyno.measure.peers.program import ProgramPeer
from hwdyno.model.words import Run, UserError
from hwdyno.system.store import from_json, to_json
from simulated_hosts import Memory
from simulation.host import SimulatedMachine
from simulation.site import SimulatedMember, site_of_two

POINT = {"path": "/data", "iodepth": 8, "bs": 4096, "runtime": 0.5, "seed": 1}


class Made(ProgramPeer):
    """A tool whose output is its operations/s, mean latency and 99th percentile in ns."""

    name, kernels = "fio", frozenset({"storage_blocks"})
    names, asks_version = ("fio",), ("--version",)

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        return "no such pattern" if parameters.get("rw") == "none" else None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        return ["fio", str(parameters["path"]), str(parameters.get("iodepth", 1))]

    def program(self, kernel: str, parameters: Mapping[str, Any]) -> Program:
        return Program(self.name, self.names, tuple(self.command(kernel, parameters)[1:]), 30.0)

    def reading(self, parameters: Mapping[str, Any], outcome: Outcome) -> PeerReading:
        if outcome.status:
            raise OSError(f"fio failed: {outcome.stderr}")
        rate, mean, p99 = map(float, outcome.stdout.split())
        details = {"latency_ns_p99": p99}
        return PeerReading(rate * 4096, "bytes/s", rate, mean, outcome.cpu_s, round(rate), details)


PEER = Made()


def simulated(version: str, printed: str) -> Any:
    def run(program: Program) -> Outcome:
        return Outcome(0, version if program.arguments == ("--version",) else printed, "", 0.25)

    return run


def site(first: str = "30000 100 900", second: str = "10000 500 3000") -> tuple[SeveralHosts, list[SimulatedMember]]:
    found, members = site_of_two()
    for member, printed in zip(members, (first, second), strict=True):
        member.programs["fio"] = simulated("fio-3.33\n", printed)
    return found, list(members)


def measured(on: SeveralHosts, path: Path) -> Run:
    chosen = [(experiments.find("storage.iodepth")[0], {"iodepth": "1,8", "size": "256M"})]
    made = plan.build(chosen, on, path=path, seed=5, peers=True)
    return runner.run(made, on, Memory(), "run-1", peers=[PEER], explain=explain)


def test_rates_are_summed_and_percentiles_stay_with_their_hosts() -> None:
    on, (a, b) = site()
    found = on_site.run_on_site(PEER, "storage_blocks", POINT, on)
    assert found.rate == 40_000 and found.throughput == 40_000 * 4096 and found.operations == 40_000
    assert found.cpu_s == 0.5
    assert found.latency_ns_mean == pytest.approx((30_000 * 100 + 10_000 * 500) / 40_000), "of all operations"
    assert set(found.details) == {"hosts"}, "no percentile is merged"
    assert {name: host["details"]["latency_ns_p99"] for name, host in found.details["hosts"].items()} == {
        "a": 900.0, "b": 3000.0,
    }  # fmt: skip
    assert [member.starts[-1] - member.clock_offset_ns for member in (a, b)] == pytest.approx(
        [a.starts[-1]] * 2, abs=5e6
    )


def test_a_figure_that_one_host_lacks_is_not_summed() -> None:
    known = PeerReading(1e9, "bytes/s", 5.0, 100.0, 1.0, 10)
    unknown = PeerReading(1e9, "bytes/s", None, None, None, 0)
    found = on_site.merge_readings({"a": known, "b": unknown})
    assert (found.throughput, found.rate, found.latency_ns_mean, found.cpu_s) == (2e9, None, None, None)
    with pytest.raises(OSError, match="answered in FLOP/s and bytes/s"):
        on_site.merge_readings({"a": known, "b": PeerReading(1.0, "FLOP/s", None, None, None, 0)})


def test_a_run_of_two_hosts_stands_beside_its_peer(tmp_path: Path) -> None:
    on, (a, b) = site()
    run = measured(on, tmp_path)
    assert not run.degraded
    results = run.experiments[0].peers
    assert [peer.point for peer in results] == [0, 1] and {peer.version for peer in results} == {"fio-3.33"}
    for peer, point in zip(results, run.experiments[0].points, strict=True):
        assert peer.value.value == pytest.approx(40_000 * 4096) and peer.pairs == point.repeats and peer.ratio
        assert peer.ratio.value == pytest.approx(point.throughput.value / peer.value.value, rel=0.1)
        assert set(peer.details["hosts"]) == {"a", "b"}
    for member in (a, b):
        paths = {program.arguments[0] for program in member.ran if program.arguments != ("--version",)}
        assert paths == {f"{tmp_path}/{member.name}/data"}, "each on its own file"
    assert from_json(to_json(run)) == run
    assert any(finding.rule == "peer_ratio" for finding in run.findings)


def test_what_cannot_run_on_every_host_is_left_out_in_one_line() -> None:
    on, (_, b) = site()
    assert on_site.why_left_out(PEER, on) == ""
    b.programs.clear()
    assert on_site.why_left_out(PEER, on) == "fio is left out: it is not on host b; install it there to compare"
    assert "runs on one host only" in on_site.why_left_out(peers.find("iperf3"), on)


def test_hosts_with_two_versions_name_both() -> None:
    on, (_, b) = site()
    b.programs["fio"] = simulated("fio-3.36\n", "1 1 1")
    assert on_site.version(PEER, on) == "fio-3.33, fio-3.36"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(5, "fio printed more than 8 MiB, so it was killed"), OSError),
        (TimeoutError(110, "fio was killed after 30 s"), TimeoutError),
        (UserError("/data has 1 bytes and the point needs 2"), UserError),
    ],
)
def test_a_peer_that_fails_on_one_host_names_it(error: Exception, kind: type[Exception]) -> None:
    on, (_, b) = site()

    def failing(_: Program) -> Outcome:
        raise error

    b.programs["fio"] = failing
    with pytest.raises(kind) as caught:
        on_site.run_on_site(PEER, "storage_blocks", POINT, on)
    text = str(caught.value)
    assert text.startswith("host b: ") and "\n" not in text and "Errno" not in text
    with pytest.raises(UserError, match="no such pattern"):
        on_site.run_on_site(PEER, "storage_blocks", {**POINT, "rw": "none"}, on)


@pytest.mark.parametrize("planted", ["dies_in_program", "hangs_in_program"])
def test_run_survives_a_lost_host(tmp_path: Path, planted: str) -> None:
    on, (_, b) = site()
    versions = on_site.version(PEER, on)
    original = b.programs["fio"]

    def lost_later(program: Program) -> Outcome:
        setattr(b, planted, len(b.ran) >= 2)
        found: Outcome = original(program)
        return found

    b.programs["fio"] = lost_later
    began = time.monotonic()
    run = measured(on, tmp_path)
    assert time.monotonic() - began < 20 and versions == "fio-3.33"
    assert any(why.startswith("host b was lost; the others continued: ") for why in run.degraded)
    assert any(why.startswith("fio beside storage.iodepth: host b: ") for why in run.degraded), run.degraded
    assert len(run.experiments[0].points) == 2 and set(on.lost) == {"b"}


def test_without_any_host_peer_says_so() -> None:
    on, (a, b) = site()
    a.dies_in_program = b.dies_in_program = True
    with pytest.raises(OSError, match="host a: it is closed"):
        on_site.run_on_site(PEER, "storage_blocks", POINT, on)
    with pytest.raises(HostLostError, match="no host is left"):
        on_site.why_left_out(PEER, on)


def test_a_site_of_one_host_runs_it_as_this_machine_does() -> None:
    from hwdyno.measure.hosts.measured_site import make_site

    member = SimulatedMember("a", SimulatedMachine(seed=1))
    member.programs["fio"] = simulated("fio-3.33", "30000 100 900")
    found = on_site.run_on_site(PEER, "storage_blocks", POINT, make_site(member))
    assert found.rate == 30_000 and "hosts" not in found.details
