"""Batch scripts for Slurm, and one performed by a real slurmctld with two nodes on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from here import missing
from hwdyno.cli.main import main
from hwdyno.report.redaction import without_names
from hwdyno.system.store import Store, to_json

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "scontrol")
START_S = 30.0


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["slurm", "script", *words]) == 0
    return capsys.readouterr().out


def test_a_script_has_its_nodes_its_time_and_one_step_of_all_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(
        capsys, "--nodes", "4", "--ranks-per-node", "2", "--partition", "short", "--",
        *("compute", "--operation", "add", "--threads", "1", "--runtime", "60", "--profile", "quick"),
    )  # fmt: skip
    lines = text.splitlines()
    assert lines[0] == "#!/bin/bash"
    assert {"#SBATCH --nodes=4", "#SBATCH --ntasks-per-node=2", "#SBATCH --partition=short"} < set(lines)
    (minutes,) = (int(line.partition("=")[2]) for line in lines if "--time" in line)
    assert 2 * 3 <= minutes <= 30, "three readings of a minute and more, twice, and the start"
    assert lines[-1].endswith(
        "hwdyno compute --operation add --threads 1 --runtime 60 --profile quick || test $? -eq 3"
    )
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0


def test_words_are_quoted_and_a_given_time_is_kept(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = tmp_path / "a b; rm"
    place.mkdir()
    text = printed(capsys, "--time", "90m", "--", "storage", "--path", str(place))
    assert "#SBATCH --time=90\n" in text and f"hwdyno storage --path '{place}'" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name a plan file or a command"),
        (("plan.toml", "--", "memory"), "name a plan file or a command"),
        (("--", "fleet"), "'fleet' is not for several nodes"),
        (("--nodes", "0", "--", "memory"), "--nodes 0 must be from 1"),
        (("--partition", "a\nb", "--", "memory"), "is no name of a partition"),
    ],
)
def test_impossible_job_is_refused(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str) -> None:
    assert main(["slurm", "script", *words]) == 2
    assert says in capsys.readouterr().err


def ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        ones = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in ones:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in ones]


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """A controller and two nodes with sockets, keys and logs of their own; gives the environment of its commands."""
    if any(shutil.which(name) is None for name in PROGRAMS) or os.geteuid():
        missing("Slurm and MUNGE (slurm-wlm), and root to start them")
    folder.chmod(0o700)
    key, sock = folder / "munge.key", folder / "munge.sock"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    controller, first, second = ports(3)
    host = socket.gethostname()
    for name in ("state", "spool/n1", "spool/n2"):
        (folder / name).mkdir(parents=True)
    (folder / "slurm.conf").write_text(
        f"""ClusterName=try
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={sock}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ReturnToService=2
SelectType=select/cons_tres
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=2 RealMemory=1000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=2 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
    )
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    munge = ["munged", "-f", *(f"--{name}={folder}/munge.{name}" for name in ("seed-file", "log-file", "pid-file"))]
    subprocess.run([*munge, f"--key-file={key}", f"--socket={sock}"], check=True, timeout=30)
    daemons = [
        subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for command in (["slurmctld", "-D"], ["slurmd", "-D", "-N", "n1"], ["slurmd", "-D", "-N", "n2"])
    ]
    try:
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(15)
            daemon.kill()
            daemon.wait()
        subprocess.run(["munged", "--stop", f"--socket={sock}", f"--pid-file={folder}/munge.pid-file"], check=False)


@pytest.mark.slow  # a controller and two nodes start, and a job of theirs measures
@pytest.mark.machine
def test_a_job_of_a_real_slurm_makes_one_run_of_its_nodes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "slurm"
    folder.mkdir()
    words = ("compute", "--operation", "add", "--threads", "1", "--runtime", "0.1", "--profile", "quick", "--no-page")
    script = printed(capsys, "--nodes", "2", "--", *words, "--store", str(store))
    program = folder / "hwdyno"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hwdyno "$@"\n')
    program.chmod(0o755)
    (folder / "job.sh").write_text(script.replace("--exclusive", "--oversubscribe"))
    with cluster(folder) as environment:
        environment["PATH"] = f"{folder}:{environment['PATH']}"
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            states = subprocess.run(
                ["sinfo", "-h", "-o", "%D %t"], env=environment, text=True, capture_output=True, check=False
            )
            if states.stdout.strip() == "2 idle":
                break
            time.sleep(0.2)
        done = subprocess.run(
            ["sbatch", "--wait", f"--output={folder}/out", str(folder / "job.sh")],
            env=environment, text=True, capture_output=True, timeout=180, check=False,
        )  # fmt: skip
        out = (folder / "out").read_text() if (folder / "out").exists() else ""
    assert done.returncode == 0, done.stderr + out
    (entry,) = Store(store).history()
    run = Store(store).load(entry.path)
    assert [machine.hostname for machine in run.machines] == ["n1 rank 0", "n2 rank 1"]
    assert run.job == {"launcher": "slurm", "id": "1", "name": "hwdyno", "nodes": "n[1-2]"}
    (point,) = run.experiments[0].points
    assert all(share.operations and not share.failure for share in point.hosts)
    assert not any(name in to_json(without_names(run)) for name in ("n[1-2]", "n2 rank", "n1 rank"))
