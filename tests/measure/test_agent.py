"""A site of local processes: the bare engine behind pipes, from one start to one Run, and all that may go wrong."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import warm
from here import missing, shortly
from hwdyno.explain.findings import explain
from hwdyno.measure import experiments, plan, runner
from hwdyno.measure.hosts import Done, HostLostError, Ready, Refused
from hwdyno.measure.hosts.agent import Agent
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.hosts.several_hosts import SeveralHosts, Timeouts
from hwdyno.measure.measurement import make_measurement
from hwdyno.model.words import Run
from hwdyno.report.page import html
from simulated_hosts import Memory

pytestmark = pytest.mark.machine
TARGET = Path(__file__).parents[2] / "target"
TIMEOUTS = Timeouts(silent_s=5.0, apart_s=30.0)


@pytest.fixture(scope="session")
def engine() -> str:
    if named := os.environ.get("HWDYNO_ENGINE"):
        return named
    built = [path for kind in ("release", "debug") if (path := TARGET / kind / "hwdyno-engine").exists()]
    if not built:
        missing("hwdyno-engine is not built (cargo build -p hwdyno-engine)")
    return str(max(built, key=lambda path: path.stat().st_mtime))


@contextlib.contextmanager
def agents(engine: str, count: int = 2, timeouts: Timeouts = TIMEOUTS) -> Iterator[tuple[SeveralHosts, list[Agent]]]:
    members = [Agent([engine, "serve"]) for _ in range(count)]
    site = SeveralHosts(members, timeouts)
    try:
        yield site, members
    finally:
        site.close()


def killed(agent: Agent, how: signal.Signals = signal.SIGKILL) -> None:
    os.kill(agent._process.pid, how)


def measured(site: SeveralHosts, path: Path, name: str, given: dict[str, Any]) -> Run:
    made = plan.build([(experiments.find(name)[0], given)], site, path=path, seed=5, budget_s=1.0)
    return runner.run(made, site, Memory(), "run-1", explain=explain)


def test_agent_is_host_like_this_machine(engine: str) -> None:
    with agents(engine, 1) as (_, (agent,)):
        here = Local()
        assert agent.kernels() == {
            name: declaration for name, declaration in here.kernels().items() if name in agent.kernels()
        }
        assert agent.topology() == here.topology()
        assert agent.survey(Path("/")).cpu.model == here.survey(Path("/")).cpu.model
        assert agent.survey(Path("/")).settings == here.survey(Path("/")).settings, "what slows figures down there too"
        assert set(agent.snapshot()) >= set(here.snapshot()) - {
            "cgroup_periods",
            "cgroup_throttled_periods",
            "other_runs",
        }
        assert abs(agent.clock_ns() - time.monotonic_ns()) < 5e9, "one machine has one clock"
        reading = agent.run("idle", {"runtime": 0.05})
        assert make_measurement({}, [reading]).operations > 1000
        with pytest.raises(ValueError, match="no kernel is called 'none'"):
            agent.run("none", {})
        with pytest.raises(OSError, match="No such file"):
            agent.run("storage_blocks", {"path": "/nowhere/x", "size": 4096, "rw": "read"})


def test_two_agents_make_one_run_of_two_machines(engine: str, tmp_path: Path) -> None:
    with agents(engine) as (site, _):
        run = measured(site, tmp_path, "memory.latency", {"working_set": "64k,1M", "pages": "4k", "runtime": "0.05"})
        assert [machine.cpu.model for machine in run.machines] == [Local().survey(Path("/")).cpu.model] * 2
        assert run.machines[1].hostname == f"{run.machines[0].hostname}#2"
        assert not [why for why in run.degraded if "host" in why]
        for point in run.experiments[0].points:
            assert [share.host for share in point.hosts] == [machine.hostname for machine in run.machines]
            assert sum(share.operations for share in point.hosts) == point.operations > 0
            assert all(share.repeats == point.repeats and not share.failure for share in point.hosts)
            assert (point.latency_ns and point.latency_ns.count > 0) or point.latency_ns
        assert "hwdyno" in html(run)


def test_every_team_of_a_kernel_starts_with_the_other_hosts(engine: str) -> None:
    """``auto`` tries each instruction set in a separate team before the timed one."""
    with agents(engine) as (site, _):
        reading = site.run("compute_flops", {"isa": "auto", "runtime": 0.1})
        offsets = [part["start_offset_s"] for part in reading["hosts"]]
        assert min(offsets) == 0.0 and max(offsets) < 1.0 and len(reading["streams"]) == 2


def test_storage_is_measured_on_a_file_of_each_host_that_is_gone_after(engine: str, tmp_path: Path) -> None:
    with agents(engine) as (site, _):
        given = {"iodepth": "1", "size": "8M", "runtime": "0.1", "direct": "0", "ioengine": "psync"}
        run = measured(site, tmp_path, "storage.iodepth", given)
        (point,) = run.experiments[0].points
        assert len(point.hosts) == 2 and all(share.bytes > 0 for share in point.hosts)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", shortly(1, signal.SIGKILL, signal.SIGSTOP))
def test_a_gone_agent_is_named_and_the_run_stays_valid(engine: str, tmp_path: Path, how: signal.Signals) -> None:
    with agents(engine, timeouts=Timeouts(silent_s=1.0, apart_s=30.0)) as (site, members):
        done: list[int] = []
        original = site.run

        def run_then_kill(kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
            done.append(1)
            if len(done) == 3:
                threading.Timer(0.1, killed, (members[1], how)).start()
            return original(kernel, parameters)

        site.run = run_then_kill  # type: ignore[method-assign]
        run = measured(site, tmp_path, "memory.latency", {"working_set": "64k,1M", "pages": "4k", "runtime": "0.4"})
        (why,) = [reason for reason in run.degraded if "host" in reason]
        name = run.machines[1].hostname
        assert why.startswith(f"host {name} was lost; the others continued: ")
        assert ("was killed by signal 9" if how == signal.SIGKILL else "has not answered for 1 s") in why
        (result,) = run.experiments
        assert len(result.points) == result.planned == 2 and not run.interrupted
        assert any(share.failure for point in result.points for share in point.hosts)
        assert all(point.hosts[0].operations > 0 for point in result.points)


def test_ctrl_c_ends_every_host_early_and_keeps_the_reading(engine: str) -> None:
    with agents(engine) as (site, _):
        site.run("idle", {"runtime": 0.05})
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        reading = site.run("idle", {"runtime": 600.0})
        assert reading["interrupted"]
        assert all(part["reading"] is not None for part in reading["hosts"])
        assert not site.run("idle", {"runtime": 0.05})["interrupted"]


def test_killed_agents_remains_are_removed_next(engine: str, tmp_path: Path) -> None:
    from hwdyno.measure.workspace import clean_stale

    with agents(engine, 1) as (_, (agent,)):
        scratch = agent.claim(tmp_path)
        assert Path(scratch.data).exists() and clean_stale(tmp_path) == [], "it is locked while its agent lives"
        killed(agent)
        agent._process.wait(10)
        assert clean_stale(tmp_path) == [Path(scratch.directory)] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["/nowhere/engine", "serve"], "cannot be started"),
        ([sys.executable, "-c", "print('hello')"], "a message is not JSON"),
        ([sys.executable, "-c", "print('[' * 3000)"], "nested too deep"),
        ([sys.executable, "-c", "print('{\"a\": 1e999}')"], "out of range"),
        ([sys.executable, "-c", "print('{}')"], "does not start an agent"),
        ([sys.executable, "-c", "import sys; sys.exit('no such host')"], "its agent ended: no such host"),
        (
            [sys.executable, "-c", 'print(\'{"agent": "hwdyno-engine", "protocol": 99, "version": "9.0"}\')'],
            "install the same version on both",
        ),
    ],
)
def test_what_is_no_agent_is_said_in_one_line(command: list[str], why: str) -> None:
    with pytest.raises(HostLostError, match=why) as raised:
        Agent(command)
    assert "\n" not in str(raised.value)


def hostile(engine: str, send: bytes, count: int) -> list[dict[str, Any]]:
    """What the agent answers to these bytes, after its greeting; it must end by itself."""
    done = subprocess.run([engine, "serve"], input=send, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stderr == b""
    answers = [json.loads(line) for line in done.stdout.splitlines()][1:]
    assert len(answers) == count, answers
    return answers


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe\x00", b"{", b"[]", b"7", b"null", b'"run"', b"[" * 100_000, b"x" * (2 << 20), b'{"do": 7}',
        b'{"id": 1}', b'{"do": "start"}', b'{"do": "start", "at_ns": -1}', b'{"do": "files"}',
        b'{"do": "files", "path": "/", "action": "erase"}', b'{"do": "files", "path": "/nowhere", "action": "claim"}',
        b'{"do": "run"}', b'{"do": "run", "kernel": "idle", "parameters": 7}',
        b'{"do": "run", "kernel": "idle", "parameters": {"runtime": "x"}}',
        b'{"do": "run", "kernel": "idle", "start_at_ns": "soon"}', b'{"do": "survey\\u0000"}',
    ],
    ids=lambda line: repr(line[:40]),
)  # fmt: skip
def test_any_bytes_give_an_error_document_and_the_agent_goes_on(engine: str, line: bytes) -> None:
    first, second = hostile(engine, line + b'\n\n{"id": "after", "do": "clock"}\n', 2)
    if first.get("id") == "after":
        first, second = second, first  # A run is refused by its own thread.
    assert first["error"]["kind"] in {"usage", "machine"} and first["error"]["says"]
    assert second["id"] == "after" and second["answer"]["ns"] > 0


def test_a_request_that_is_cut_off_is_no_request(engine: str) -> None:
    hostile(engine, b'{"id": 1, "do": "clock"}', 0)


def test_the_end_of_the_input_stops_a_run_and_removes_the_files(engine: str, tmp_path: Path) -> None:
    requests = [
        {"id": 1, "do": "files", "action": "claim", "path": str(tmp_path)},
        {"id": 2, "do": "run", "kernel": "idle", "parameters": {"runtime": 3600}},
        {"id": 3, "do": "run", "kernel": "idle"},
    ]
    answers = hostile(engine, b"".join(json.dumps(request).encode() + b"\n" for request in requests), 3)
    by_id = {answer["id"]: answer for answer in answers}
    assert "answer" in by_id[1] and "a run is in progress" in by_id[3]["error"]["says"]
    assert by_id[2]["answer"]["reading"]["interrupted"] is True
    assert list(tmp_path.iterdir()) == []


def test_start_time_comes_with_run(engine: str) -> None:
    at_ns = time.monotonic_ns() + 300_000_000
    request = {"id": 1, "do": "run", "kernel": "idle", "parameters": {"runtime": 0.01}, "start_at_ns": at_ns}
    process = subprocess.Popen([engine, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    process.stdout.readline()
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())["answer"]
    assert at_ns <= answer["started_ns"] <= answer["ended_ns"]
    process.stdin.close()
    assert process.wait(10) == 0
    process.stdout.close()


def test_command_line_measures_named_agents(engine: str, tmp_path: Path) -> None:
    command = ["memory", "--operation", "read", "--threads", "1", "--working-set", "1M"]
    environment = {**os.environ, "HWDYNO_AGENTS": f"{engine} serve; {engine} serve"}
    more = ("--runtime", "0.05", "--budget", "1s", "--json", "--out", str(tmp_path))
    done = warm.run([*command, *more], env=environment, cwd=tmp_path)
    assert done.returncode in {0, 3}, done.stderr
    run = json.loads(done.stdout)
    assert len(run["machines"]) == 2 and len(run["experiments"][0]["points"][0]["hosts"]) == 2
    wrong = {**os.environ, "HWDYNO_AGENTS": "/nowhere/engine serve"}
    done = warm.run(command, env=wrong, cwd=tmp_path, timeout_s=60)
    assert done.returncode == 2 and "HWDYNO_AGENTS: the agent /nowhere/engine cannot be started" in done.stderr


PASSIVE = {
    "network_server": "it waits for clients, and times nothing",
    "object_server": "likewise",
    "object_listing": "it looks before anything is planned",
    "object_upload": "it writes what is read later, and is not timed beside others",
    "object_removal": "it removes what a run made, and is not timed beside others",
}
"""Kernels that have no start, each with the reason."""
MAY_BE_REFUSED = {"network_ping": "a right is missing", "memory_core_to_core": "a second processor is missing"}
"""Kernels that a machine may not have, beside a GPU's, for which OpenCL may be missing."""
SET = {"files": 2, "record_bytes": 5000.0}
ON_CPU = {"on": "cpu", "runtime": 0.05}
VECTORS = {"vectors": 500, "dim": 8, "queries": 4}


def shortest(folder: Path, kernels: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
    """Every kernel once, briefly, by its defaults where it has no row; what one needs, an earlier one made."""
    data, blocks = str(folder / "data"), {"ioengine": "psync", "direct": False, "size": 1 << 20}
    journaled = {**blocks, "rw": "randwrite", "verify": "crc32c", "journal": str(folder / "journal"), "runtime": 0.05}
    group = {**blocks, "path": data, "rw": "read", "runtime": 0.05}
    rows: list[tuple[str, dict[str, Any]]] = [
        ("storage_layout", {"path": data, "size": 1 << 20}),
        ("storage_blocks", {**journaled, "path": data}),
        ("storage_check", {"journal": str(folder / "journal")}),
        ("storage_patterns", {"path": data, "pattern": "read", "runtime": 0.05}),
        ("storage_metadata", {"path": data, "nrfiles": 10, "runtime": 0.05}),
        ("storage_group", {"jobs": json.dumps([group, group])}),
        ("training_generate", {**SET, "path": str(folder / "set"), "threads": 2}),
        (
            "training_loader",
            {**SET, "path": str(folder / "set"), "read_threads": 1, "batch_size": 1, "compute": 0.0},
        ),
        (
            "training_checkpoint",
            {"path": str(folder / "saved"), "checkpoint_bytes": 100_000, "ranks": 2, "writes": 1, "reads": 1},
        ),
        (
            "inference_kv_cache",
            {"path": str(folder / "kv"), "users": 2, "scale": 0.0001, "think": 0.0, "runtime": 0.05,
             "capacity": 1 << 24, "memory": 1 << 18, "direct": False},
        ),
        ("inference_vector_index", {**VECTORS, "path": str(folder / "index")}),
        ("inference_vector_search", {**VECTORS, "path": str(folder / "index"), "runtime": 0.05, "direct": False}),
        ("object_layout", {"object_size": 1000, "objects": 3}),
        ("object_fetch", {"threads": 2}),
        ("network_latency", {"runtime": 0.05}),
        ("network_latency", {"runtime": 0.05, "load_streams": 1}),
        ("memory_bandwidth", {"runtime": 0.05, "working_set": 1 << 20, "isa": "scalar"}),
        ("memory_latency", {"runtime": 0.05, "working_set": 1 << 16}),
        ("memory_loaded_latency", {"runtime": 0.05, "chase_set": 1 << 16, "threads": 0, "working_set": 1 << 20}),
        ("gpu_flops", {**ON_CPU, "precision": "single"}),
        ("gpu_bandwidth", {**ON_CPU, "array": 1 << 20}),
        ("gpu_transfer", {**ON_CPU, "block": 1 << 16}),
        ("gpu_latency", {**ON_CPU, "working_set": 1 << 16}),
        ("gpu_roofline", {**ON_CPU, "intensity": 0.5, "array": 1 << 16}),
        ("gpu_launch", ON_CPU),
        ("gpu_load", {**ON_CPU, "path": data, "size": 1 << 20, "block": 1 << 16, "access": "read"}),
        ("gpu_load", {**ON_CPU, "path": data, "size": 1 << 20, "block": 1 << 16, "access": "read", "part": "copy"}),
        ("gpu_matrix", ON_CPU),
    ]  # fmt: skip
    others = set(kernels) - {name for name, _ in rows} - PASSIVE.keys()
    return rows + [(name, {"runtime": 0.05}) for name in sorted(others)]


def test_every_kernel_waits_for_common_start(engine: str, tmp_path: Path) -> None:
    """The timed region is after the start that was named, and holds none of the time that was waited for it."""
    with agents(engine, 1) as (_, (agent,)):
        wrong = []
        for kernel, parameters in shortest(tmp_path, agent.kernels()):
            agent.prepare(kernel, parameters)
            starts, started = 0, 0
            while isinstance(event := agent.poll(60), Ready):
                time.sleep(0.1)
                started, starts = time.monotonic_ns(), starts + 1
                agent.start(started)
            if isinstance(event, Refused) and (kernel.startswith("gpu_") or kernel in MAY_BE_REFUSED):
                continue
            assert isinstance(event, Done), (kernel, event)
            passed_s = (time.monotonic_ns() - started) / 1e9
            # A throughput is compared with the receiver's time; what waits for the start is the sender.
            elapsed_s = event.reading["details"].get("sender_elapsed_s", event.reading["elapsed_s"])
            if not starts or event.started_ns < started or elapsed_s > passed_s:
                wrong.append((kernel, starts, event.started_ns - started, elapsed_s, passed_s))
    assert not wrong
