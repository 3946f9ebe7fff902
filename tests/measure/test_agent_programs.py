"""Reference tools on the hosts of a site: two local agents run them, and nothing that an agent started outlives it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import test_agent
from hwdyno.explain.findings import explain
from hwdyno.measure import experiments, peers, plan, runner
from hwdyno.measure.hosts import Outcome, Program, Ready
from hwdyno.measure.hosts.agent import Agent
from hwdyno.measure.hosts.several_hosts import SeveralHosts, Timeouts
from hwdyno.measure.peers import on_site
from hwdyno.measure.peers.program import ProgramPeer
from hwdyno.model.words import UserError
from simulated_hosts import Memory
from test_agent import TIMEOUTS, agents, hostile, killed

pytestmark = pytest.mark.machine
engine = test_agent.engine
FIO = peers.find("fio")
ANSWER = Path(__file__).parents[1] / "data" / "fio" / "randrw-json-plus.json"
VERSION = Program("fio", ("fio",), ("--version",))
POINT = {"rw": "randread", "ioengine": "psync", "bs": 4096, "runtime": 0.2, "seed": 1}


def stand_in(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def named_for_one(engine: str, script: Path, timeouts: Timeouts = TIMEOUTS) -> tuple[SeveralHosts, list[Agent]]:
    """Two agents, of which the first has a fio that answers at once, and the second another one."""
    answers = stand_in(script.with_name("answers"), f"cat '{ANSWER}'")
    members = [
        Agent(["env", f"HWDYNO_FIO={answers}", engine, "serve"]),
        Agent(["env", f"HWDYNO_FIO={script}", engine, "serve"]),
    ]
    return SeveralHosts(members, timeouts), members


def find_processes(mark: str) -> list[int]:
    """Processes whose command line has this word."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command, status = (entry / "cmdline").read_bytes(), (entry / "stat").read_text()
            except OSError:
                continue
            if mark.encode() in command and ") Z " not in status:
                found.append(int(entry.name))
    return found


def gone(mark: str, within_s: float = 10.0) -> bool:
    until = time.monotonic() + within_s
    while find_processes(mark):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.peer("fio")
def test_fio_stands_beside_a_storage_run_of_two_agents(engine: str, tmp_path: Path) -> None:
    with agents(engine) as (site, _):
        given = {"iodepth": "1", "size": "8M", "runtime": "0.2", "direct": "0", "ioengine": "psync", "rw": "randread"}
        made = plan.build(
            [(experiments.find("storage.iodepth")[0], given)], site, path=tmp_path, seed=5, peers=True, budget_s=1.0
        )
        run = runner.run(made, site, Memory(), "run-1", peers=[FIO], explain=explain)
        assert not [why for why in run.degraded if "fio" in why], run.degraded
        (result,) = run.experiments[0].peers
        hosts = result.details["hosts"]
        assert set(hosts) == {machine.hostname for machine in run.machines} and len(hosts) == 2
        assert all(host["operations"] > 0 and host["cpu_s"] > 0 for host in hosts.values())
        assert result.version == FIO.version() and result.ratio is not None and result.pairs >= 1
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["fio", "sysbench", "stream"])
def test_an_agent_runs_what_its_peers_ask_for_and_nothing_else(engine: str, name: str, tmp_path: Path) -> None:
    """An agent's list of arguments and the peers' command lines are two halves of one thing."""
    peer = peers.find(name)
    assert isinstance(peer, ProgramPeer)
    (tmp_path / "data").write_bytes(b"x" * (1 << 20))
    storage = {**POINT, "path": str(tmp_path / "data"), "size": 1 << 19, "offset": 4096, "numjobs": 2, "cpus": [0]}
    storage |= {"rw": "randrw", "rwmixread": 70, "ramp_time": 0.01, "startdelay": 0.01, "end_fsync": True}
    memory = {"operation": "read" if name == "sysbench" else "triad", "threads": 2, "working_set": 1 << 20}
    kernel = next(iter(peer.kernels))
    program = peer.program(kernel, storage if name == "fio" else memory)
    script = stand_in(tmp_path / name, 'echo "$@"; echo "threads $OMP_NUM_THREADS"; pwd; ls -A; env | wc -l')
    agent = Agent(["env", f"HWDYNO_{name.upper()}={script}", "HWDYNO_SECRET=1", engine, "serve"])
    try:
        found = agent.execute(program)
        words, threads, folder, variables = found.stdout.splitlines()
        assert words.split() == list(program.arguments) and found.status == 0 and found.stderr == ""
        assert threads == ("threads 2" if name == "stream" else "threads ")
        assert "hwdyno-scratch-" in folder and not Path(folder).exists(), "a folder of its own, gone after"
        assert int(variables) < 12
        for argument in ("--exec_prerun=id", "--ioengine=exec", "/tmp/script.lua", "job.fio", "--name", "-c"):
            with pytest.raises(ValueError, match=f"does not run {name} with the argument '{argument}'"):
                agent.execute(Program(name, (name,), (argument,)))
    finally:
        agent.close()


def test_a_tool_that_one_host_lacks_is_left_out_with_the_hosts_name(engine: str, tmp_path: Path) -> None:
    site, _ = named_for_one(engine, tmp_path / "none")
    try:
        name = site.names[1]
        why = on_site.why_left_out(FIO, site)
        assert why == f"fio is left out: it is not on host {name}; install it there to compare"
        (tmp_path / "data").write_bytes(b"x" * 4096)
        with pytest.raises(OSError, match=rf"^host {name}: fio is not on this host: install it") as caught:
            on_site.run_on_site(FIO, "storage_blocks", {**POINT, "path": str(tmp_path / "data")}, site)
        assert "\n" not in str(caught.value)
    finally:
        site.close()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("sleep 61.5 & sleep 61.5", "was killed after 4 s"),
        ("cat /dev/zero", "printed more than 8 MiB, so it was killed"),
        ("cat /dev/zero >&2", "printed more than 8 MiB, so it was killed"),
        ("echo 'fio: no such engine' >&2; exit 3", "fio failed: no such engine"),
        ("kill -9 $$", "fio failed: it ended with status 137"),
        ("echo garbage", "it printed no JSON, but: garbage"),
    ],
)
def test_failing_tool_leaves_no_process(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    monkeypatch.setattr("hwdyno.measure.peers.fio.GRACE_S", 3.4)
    (tmp_path / "data").write_bytes(b"x" * 4096)
    site, _ = named_for_one(engine, stand_in(tmp_path / "fio", script))
    try:
        with pytest.raises(OSError, match=why) as caught:
            on_site.run_on_site(FIO, "storage_blocks", {**POINT, "path": str(tmp_path / "data"), "size": 4096}, site)
        assert str(caught.value).startswith(f"host {site.names[1]}: ") and "\n" not in str(caught.value)
        assert isinstance(caught.value, TimeoutError) == ("killed after" in why)
        assert gone(str(tmp_path / "fio")) and ("61.5" not in script or gone("61.5"))
        assert site.lost == {} and site.run("idle", {"runtime": 0.02})["streams"], "the host measures on"
    finally:
        site.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_an_agent_that_dies_takes_its_program_and_the_children_with_it(
    engine: str, tmp_path: Path, how: signal.Signals
) -> None:
    mark = f"{61 + how / 1000}"
    script = stand_in(tmp_path / "fio", f"sleep {mark} & sleep {mark}")
    site, members = named_for_one(engine, script)
    try:
        (tmp_path / "data").write_bytes(b"x" * 4096)
        timer = threading.Timer(1.5, lambda: killed(members[1], how))
        timer.start()
        with pytest.raises(OSError, match=rf"^host {site.names[1]}: its agent was killed by signal {how.value}"):
            on_site.run_on_site(FIO, "storage_blocks", {**POINT, "path": str(tmp_path / "data"), "size": 4096}, site)
        assert gone(mark) and gone(str(script))
        assert set(site.lost) == {site.names[1]}
    finally:
        site.close()


def test_the_folder_of_a_killed_agent_is_removed_by_the_next_program(engine: str, tmp_path: Path) -> None:
    others = [tmp_path / f"hwdyno-scratch-{number:016x}" for number in range(2)]
    for folder, mark in zip(others, ("not ours\n", ""), strict=True):
        folder.mkdir()
        (folder / "lock").write_text(mark)
    script = stand_in(tmp_path / "fio", "sleep 64.5")
    start = ["env", f"HWDYNO_FIO={script}", f"TMPDIR={tmp_path}", engine, "serve"]
    killed_one = Agent(start)
    killed_one.prepare_program(VERSION)
    assert isinstance(killed_one.poll(30), Ready)
    left = set(tmp_path.glob("hwdyno-scratch-*")) - set(others)
    alive = Agent(start)
    try:
        stand_in(script, "exit 0")
        alive.execute(VERSION)
        assert len(left) == 1 and set(tmp_path.glob("hwdyno-scratch-*")) == left | set(others), "it is locked"
        killed(killed_one)
        killed_one.abandon()
        alive.execute(VERSION)
        assert set(tmp_path.glob("hwdyno-scratch-*")) == set(others), "what is not marked as ours is left alone"
    finally:
        alive.close()


def test_end_of_input_ends_program(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWDYNO_FIO", str(stand_in(tmp_path / "fio", "sleep 662.5 & sleep 662.5")))
    fields = {"tool": "fio", "arguments": ["--version"], "environment": {}, "timeout_s": 600, "files": {}}
    (answer,) = hostile(engine, json.dumps({"id": 1, "do": "program", **fields}).encode() + b"\n", 1)
    assert "fio was stopped" in answer["error"]["says"]
    assert gone("662.5")


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"tool": "sh"}, {"tool": 7}, {"tool": "fio"}, {"tool": "fio", "arguments": "--version"},
        {"tool": "/bin/sh", "arguments": []},
        {"tool": "fio", "arguments": ["--version\0"], "environment": {}, "timeout_s": 1, "files": {}},
        {"tool": "fio", "arguments": [], "environment": {"LD_PRELOAD": "/x"}, "timeout_s": 1, "files": {}},
        {"tool": "fio", "arguments": [], "environment": {}, "timeout_s": -1, "files": {}},
        {"tool": "fio", "arguments": [], "environment": {}, "timeout_s": 1e300, "files": {}},
        {"tool": "fio", "arguments": [], "environment": {}, "timeout_s": 1, "files": {"/nowhere": 1}},
        {"tool": "fio", "arguments": [], "environment": {}, "timeout_s": 1, "files": ["/nowhere"]},
    ],
    ids=repr,
)  # fmt: skip
def test_a_wrong_request_for_a_program_is_an_error_document(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    monkeypatch.setenv("HWDYNO_FIO", str(stand_in(tmp_path / "fio", f'touch "{tmp_path}/ran"')))
    (answer,) = hostile(engine, json.dumps({"id": 1, "do": "program", **fields}).encode() + b"\n", 1)
    assert answer["error"]["says"] and "\n" not in answer["error"]["says"]
    assert not (tmp_path / "ran").exists()


def test_ctrl_c_ends_every_hosts_program(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWDYNO_FIO", str(stand_in(tmp_path / "fio", "sleep 663.5 & sleep 663.5")))
    with agents(engine) as (site, _):
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            site.execute_each(dict.fromkeys(site.names, VERSION))
        assert gone("663.5")
        assert not site.run("idle", {"runtime": 0.02})["interrupted"]


@pytest.mark.peer("fio")
def test_a_file_of_a_host_is_checked_there(engine: str, tmp_path: Path) -> None:
    with agents(engine, 1) as (_, (agent,)):
        (tmp_path / "data").write_bytes(b"x")
        for path, why in ((tmp_path / "none", "is no regular file"), (tmp_path / "data", "has 1 bytes and the point")):
            with pytest.raises(ValueError, match=why):
                agent.execute(Program("fio", ("fio",), ("--version",), files={str(path): 2}))


@pytest.mark.long  # by fio beside two agents the same is tried
@pytest.mark.peer("sysbench")
def test_the_command_line_compares_two_agents_with_a_memory_peer(engine: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hwdyno", "memory", "grid", "--operation=read", "--threads=1", "--budget=1s"]
    environment = {**os.environ, "HWDYNO_AGENTS": f"{engine} serve; {engine} serve"}
    done = subprocess.run(
        [*command, "--working-set", "1M", "--runtime", "0.05", "--peers", "--json", "--out", str(tmp_path)],
        env=environment, cwd=tmp_path, capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode in {0, 3}, done.stderr
    run = json.loads(done.stdout)
    found = {peer["tool"]: peer for result in run["experiments"] for peer in result["peers"]}
    assert set(found) == {"sysbench"} and len(found["sysbench"]["details"]["hosts"]) == 2, done.stderr
    assert b"likwid is left out: it runs on one host only, and this site has several" in done.stderr


def test_program_runs_alike_behind_agent(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hwdyno.measure.hosts.local import Local

    script = stand_in(tmp_path / "fio", "echo out; echo err >&2; exit 7")
    monkeypatch.setenv("HWDYNO_FIO", str(script))
    with agents(engine, 1) as (_, (agent,)):
        for host in (Local(), agent):
            found = host.execute(VERSION)
            assert host.find(VERSION) == str(script)
            assert (found.status, found.stdout, found.stderr) == (7, "out\n", "err\n") and found.cpu_s >= 0
        script.unlink()
        for host in (Local(), agent):
            assert host.find(VERSION) is None
            with pytest.raises(FileNotFoundError, match="install it"):
                host.execute(VERSION)
            with pytest.raises((UserError, ValueError, OSError)):
                host.execute(Program("none", ("none",)))
    assert isinstance(found, Outcome)
