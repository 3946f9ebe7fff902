"""Several ranks as one site: from one start, by mpirun or an address, to one Run, and everything that may go wrong."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from here import missing, sample, shortly
from hwdyno.measure.hosts import ranks
from hwdyno.measure.hosts.launch import ByAddress, ByMpi, Meeting, find_launch
from hwdyno.measure.hosts.merging import merge_readings
from hwdyno.measure.hosts.speaker import unpack_reading
from hwdyno.measure.measurement import make_measurement
from hwdyno.model.histogram import Histogram
from hwdyno.model.histogram_arrays import sum_histograms, summarize_histograms
from hwdyno.model.words import Run, UserError
from hwdyno.system.processes import family
from hwdyno.system.store import Store, StoreError, from_json
from simulation.site import SimulatedMember

SECRET = "0123456789abcdef"
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def make_command(*words: str, store: Path) -> list[str]:
    return [sys.executable, "-m", "hwdyno", *words, "--store", str(store), "--no-page", "--quiet", "--json"]


@dataclass
class Started:
    """Ranks that run one command."""

    processes: list[subprocess.Popen[str]]
    """One a rank, or the launcher alone."""
    marked: dict[int, str] = field(default_factory=dict)

    @property
    def first(self) -> subprocess.Popen[str]:
        return self.processes[0]

    def rank(self, number: int, variable: bytes) -> int:
        """The process of a rank, once its agent runs."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for pid in [pid for process in self.processes for pid in family(process.pid)]:
                with contextlib.suppress(OSError):
                    if variable + b"=%d\0" % number in Path(f"/proc/{pid}/environ").read_bytes() and find_agent(pid):
                        return pid
            time.sleep(0.02)
        raise AssertionError(f"rank {number} has no agent after 60 s")

    def ended(self, timeout_s: float = 90.0) -> tuple[int, str, str]:
        out, err = self.first.communicate(timeout=timeout_s)
        return self.first.returncode, out, err


def find_agent(rank: int) -> int | None:
    """The process that measures for a rank."""
    for pid in family(rank)[1:]:
        with contextlib.suppress(OSError):
            if b"rank_process" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    return None


@contextlib.contextmanager
def started(commands: list[tuple[list[str], dict[str, str]]]) -> Iterator[Started]:
    processes = [
        subprocess.Popen(
            command, env={**os.environ, **more}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )
        for command, more in commands
    ]  # fmt: skip
    try:
        yield Started(processes)
    finally:
        for process in processes:
            for pid in [*family(process.pid)[1:], process.pid]:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            process.communicate()


def by_address(count: int, *words: str, store: Path) -> contextlib.AbstractContextManager[Started]:
    place = f"127.0.0.1:{free_port()}"
    return started(
        [
            (
                make_command(*words, store=store),
                {
                    "HWDYNO_RENDEZVOUS": place,
                    "HWDYNO_SECRET": SECRET,
                    "HWDYNO_RANK": str(rank),
                    "HWDYNO_RANKS": str(count),
                    "SLURMD_NODENAME": f"n{rank}",
                },
            )
            for rank in range(count)
        ]
    )


def by_mpi(count: int, *words: str, store: Path, more: tuple[str, ...] = ()) -> Any:
    if shutil.which("mpirun") is None:
        missing("mpirun")
    return started([([*MPIRUN, *more, "-n", str(count), *make_command(*words, store=store)], {})])


def read_run(printed: str) -> Run:
    return from_json(printed[printed.index("{") : printed.rindex("}") + 1])


def points_in(store: Path) -> int:
    """How many points are kept so far."""
    with contextlib.suppress(OSError, StoreError):
        return sum(entry.points for entry in Store(store).history())
    return 0


QUICK = ("compute", "--operation", "add", "--threads", "1", "--runtime", "0.1", "--profile", "quick")


# --- who this process is


def test_each_launcher_gives_the_rank() -> None:
    assert find_launch({}) is None and find_launch({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}) is None
    # An sbatch script is not a rank, though Slurm counts it as one of several tasks.
    assert find_launch({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}) is None
    mpi = find_launch({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"})
    assert isinstance(mpi, ByMpi) and (mpi.rank, mpi.size) == (3, 8)
    place = {"HWDYNO_RENDEZVOUS": "[fd00::1]:5210", "HWDYNO_SECRET": SECRET}
    for names in (
        {"HWDYNO_RANK": "1", "HWDYNO_RANKS": "4"},
        {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"},
        {"JOB_COMPLETION_INDEX": "1", "HWDYNO_RANKS": "4"},
    ):
        found = find_launch({**place, **names})
        assert isinstance(found, ByAddress) and (found.rank, found.size) == (1, 4)
        assert found.share(None) == Meeting("fd00::1", 5210, SECRET.encode())


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"OMPI_COMM_WORLD_RANK": "8", "OMPI_COMM_WORLD_SIZE": "8"}, "name no rank"),
        ({"PMI_RANK": "-1", "PMI_SIZE": "8"}, "name no rank"),
        ({"HWDYNO_RENDEZVOUS": "n1:5210"}, "set HWDYNO_RANK and HWDYNO_RANKS"),
        ({"HWDYNO_RENDEZVOUS": "n1", "HWDYNO_RANK": "0", "HWDYNO_RANKS": "2"}, "must be HOST:PORT"),
        ({"HWDYNO_RENDEZVOUS": "n1:5210", "HWDYNO_RANK": "0", "HWDYNO_RANKS": "2"}, "16 characters"),
    ],
)
def test_a_launcher_that_names_no_rank_is_refused_in_one_line(environment: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        find_launch(environment)


def test_ranks_of_one_kernel_share_its_processors_in_blocks() -> None:
    def arrivals(*ones: tuple[str, tuple[int, ...]]) -> list[ranks._Arrival]:
        with socket.socket() as unused:
            return [ranks._Arrival(at, "n", boot, cpus, "", unused) for at, (boot, cpus) in enumerate(ones)]

    four = (0, 1, 2, 3)
    dealt = [cpus for _, cpus in ranks._shares(arrivals(("a", four), ("b", four), ("a", four)))]
    assert dealt == [(0, 1), four, (2, 3)]
    assert [cpus for _, cpus in ranks._shares(arrivals(("a", (4,)), ("a", (5,))))] == [(4,), (5,)], "bound by mpirun"
    more = [cpus for _, cpus in ranks._shares(arrivals(*[("a", (0, 1))] * 3))]
    assert more == [(0,), (1,), (0,)], "more ranks than processors"


# --- one Run of all


@pytest.mark.machine
def test_ranks_by_address_make_one_run_with_a_machine_each(tmp_path: Path) -> None:
    count = sample(2, 3)
    with by_address(count, *QUICK, store=tmp_path) as ones:
        status, out, err = ones.ended()
        assert status in {0, 3}, err
        assert [process.wait(20) for process in ones.processes[1:]] == [0] * (count - 1)
        assert all(not process.stdout.read() for process in ones.processes[1:] if process.stdout), (
            "one rank alone reports"
        )
    run = read_run(out)
    names = [f"n{rank} rank {rank}" for rank in range(count)]
    assert [machine.hostname for machine in run.machines] == names
    (point,) = run.experiments[0].points
    assert [share.host for share in point.hosts] == names
    assert point.operations == sum(share.operations for share in point.hosts)
    assert not any(share.failure for share in point.hosts)


@pytest.mark.machine
def test_a_storage_point_has_a_file_of_each_rank_and_leaves_none(tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.mkdir()
    words = ("storage", "--rw", "randread", "--iodepth", "2", "--size", "16M", "--runtime", "0.1", "--path", str(place))
    with by_address(2, *words, store=tmp_path / "runs") as ones:
        status, out, err = ones.ended()
    assert status in {0, 3}, err
    (point,) = read_run(out).experiments[0].points
    assert len(point.hosts) == 2 and all(share.bytes for share in point.hosts)
    assert point.latency_ns is not None and point.latency_ns.count == point.operations, "whole histograms"
    assert not list(place.iterdir())


@pytest.mark.machine
@pytest.mark.parametrize("how", shortly(1, signal.SIGKILL, signal.SIGSTOP))
def test_lost_rank_is_named(tmp_path: Path, how: signal.Signals) -> None:
    words = ("compute", "--operation", "add,fma", "--threads", "1", "--runtime", "0.15", "--profile", "quick")
    with by_address(3, *words, store=tmp_path) as ones:
        victim = find_agent(ones.rank(2, b"HWDYNO_RANK"))
        assert victim is not None and ones.first.stderr is not None
        while not points_in(tmp_path):
            time.sleep(0.05)
        os.kill(victim, how)
        line = ones.first.stderr.readline()
        assert ones.first.poll() is None, "it is named before the end"
        status, out, _ = ones.ended()
        with contextlib.suppress(OSError):
            os.kill(victim, signal.SIGKILL)
    assert "n2 rank 2 was lost, and the others continue" in line
    run = read_run(out)
    assert status == 3 and any("n2 rank 2" in why for why in run.degraded)
    points = run.experiments[0].points
    assert len(points) == 2 and all(share.operations for point in points for share in point.hosts[:2])
    assert not all(share.repeats == points[0].repeats for point in points for share in point.hosts[2:])


@pytest.mark.machine
def test_missing_rank_is_named() -> None:
    meeting = Meeting("127.0.0.1", free_port(), SECRET.encode())
    with pytest.raises(UserError, match=r"ranks 1, 2 of 3 did not connect within 0\.5 s"):
        ranks.join_ranks(ByAddress(0, 3, meeting), timeout_s=0.5)


@pytest.mark.machine
def test_a_stranger_at_the_door_holds_nobody_up_and_gets_no_agent() -> None:
    meeting = Meeting("127.0.0.1", free_port(), SECRET.encode())
    with socket.create_server(("127.0.0.1", meeting.port)) as listener:
        admission = ranks._Admission(listener, 1, meeting.secret)
        strangers = [socket.create_connection(("127.0.0.1", meeting.port)) for _ in range(3)]
        strangers[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
        claim = {"rank": 0, "name": "x", "boot": "", "processors": [0], "version": [], "nonce": "", "proof": "0" * 64}
        strangers[1].sendall(json.dumps(claim).encode() + b"\n")
        with pytest.raises(UserError, match="rank 0 of 1 did not connect"):
            admission.all(0.5)
        assert not admission.refused, "who proves nothing cannot end the start"
        assert strangers[1].makefile().read().count("\n") == 1, "the greeting, and then the end"
        for stranger in strangers:
            stranger.close()


# --- mpirun


@pytest.mark.slow  # mpirun starts interpreters, and each an agent
@pytest.mark.machine
def test_mpirun_makes_one_run(tmp_path: Path) -> None:
    count = sample(2, 4)
    with by_mpi(count, *QUICK, store=tmp_path) as ones:
        status, out, err = ones.ended()
    assert status in {0, 3}, err
    run = read_run(out)
    assert [machine.hostname.rpartition(" ")[2] for machine in run.machines] == [str(rank) for rank in range(count)]
    (point,) = run.experiments[0].points
    assert len(point.hosts) == count and not any(share.failure for share in point.hosts)


@pytest.mark.slow  # a launcher that ends a start waits for seconds
@pytest.mark.machine
@pytest.mark.parametrize("of_agent", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_rank_of_mpirun_that_dies_is_named_and_the_run_ends(tmp_path: Path, of_agent: bool) -> None:
    words = ("compute", "--operation", "add,fma", "--threads", "1", "--runtime", "0.15", "--profile", "quick")
    with by_mpi(3, *words, store=tmp_path) as ones:
        rank = ones.rank(1, b"OMPI_COMM_WORLD_RANK")
        victim = find_agent(rank) if of_agent else rank
        assert victim is not None and ones.first.stderr is not None
        while not points_in(tmp_path):
            time.sleep(0.05)
        os.kill(victim, signal.SIGKILL)
        named = next(line for line in ones.first.stderr if "was lost" in line)
        ones.ended()
    assert "rank 1 was lost" in named
    (entry,) = Store(tmp_path).history()
    run = Store(tmp_path).load(entry.path)
    points = run.experiments[0].points
    assert points and all(share.operations for share in points[0].hosts if share.host.endswith(("0", "2")))
    if of_agent:
        assert any("rank 1" in why for why in run.degraded), run.degraded
        assert len(points) == 2 and run.finished is not None, "the others continue"


def test_without_mpi4py_the_line_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "mpi4py.py").write_text("raise ImportError('none here')")
    done = subprocess.run(
        make_command(*QUICK, store=tmp_path), text=True, capture_output=True, timeout=60, check=False,
        env={
            **os.environ, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2",
            "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
        },
    )  # fmt: skip
    assert done.returncode == 2 and 'pip install "hwdyno[mpi]"' in done.stderr and done.stderr.count("\n") == 1


# --- many


def packed(histogram: Histogram) -> dict[str, Any]:
    """A histogram as an agent sends it."""
    plain = histogram.to_reading()
    pairs = b"".join(number.to_bytes(4, "little") for bucket in plain.pop("buckets") for number in bucket)
    return {**plain, "packed": pairs.hex()}


def drawn(seed: int, count: int = 3000) -> Histogram:
    rng = random.Random(seed)
    return Histogram.from_values(rng.lognormvariate(11, 0.5) for _ in range(count))


def test_histograms_of_many_hosts_add_up_as_one_by_one() -> None:
    every = [drawn(seed, 50 * (seed + 1)) for seed in range(7)]
    one_by_one = Histogram()
    for histogram in every:
        one_by_one.add(histogram.times(2))
    reading = {"streams": [{"latency_ns": {"total": packed(histogram)}} for histogram in every]}
    unpack_reading(reading)
    arrived = [stream["latency_ns"]["total"] for stream in reading["streams"]]
    plain = [histogram.to_reading() for histogram in every]
    assert (
        sum_histograms([(packed_histogram, 2) for packed_histogram in arrived])
        == sum_histograms([(packed_histogram, 2) for packed_histogram in plain])
        == one_by_one
    )
    assert [Histogram.from_reading(packed_histogram) for packed_histogram in arrived] == every
    for packed_histogram, whole in zip(arrived, every, strict=True):
        assert summarize_histograms([packed_histogram]) == whole.summary(packed=False)
    assert summarize_histograms(arrived[:2]) == every[0].merge(every[1]).summary(packed=False)
    nothing = Histogram().to_reading()
    assert (
        summarize_histograms([nothing]) is None
        and summarize_histograms([]) is None
        and sum_histograms([(nothing, 1)] * 2) == Histogram()
    )


@pytest.mark.parametrize("text", ["zz", "00", "0000000", "0" * 8, "ff" * 8, "0000000g00000000"])
def test_a_garbled_histogram_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        unpack_reading({"streams": [{"latency_ns": {"total": {"packed": text}}}]})


@pytest.mark.parametrize(("numbers", "more", "why"), [
    ((), 0, ""), ((5, 2, 33791, 1), 0, ""), ((5, 70000), 0, ""),
    ((5, 2, 9, 1), 1, "count is not that of its buckets"), ((5, 2, 9, 1), -1, "count is not that of its buckets"),
    ((5, 2, 7), 0, "not a packed"), ((5, 2, 33792, 1), 0, "not a packed"), ((1, 1, 65536, 1), 0, "not a packed"),
])  # fmt: skip
def test_agents_histogram_is_buckets_with_counts(numbers: tuple[int, ...], more: int, why: str) -> None:
    """A greater count would ask for a percentile past the last bucket, which is 33791."""
    text = b"".join(number.to_bytes(4, "little") for number in numbers).hex()
    histogram: dict[str, Any] = {"packed": text, "count": sum(numbers[1::2]) + more}
    with pytest.raises(ValueError, match=why) if why else contextlib.nullcontext():
        unpack_reading({"streams": [{"latency_ns": {"total": histogram}}]})
        assert [part.tolist() for part in histogram["arrays"]] == [list(numbers[::2]), list(numbers[1::2])]


def test_512_ranks_merge_into_one_reading() -> None:
    """How long 20 points of this kind take is a row of the bench."""
    member = SimulatedMember("one")
    reading = member.run("storage_blocks", {"rw": "randread", "iodepth": 8, "runtime": 1.0})
    (stream,) = reading["streams"]
    for kind in stream["latency_ns"]:
        stream["latency_ns"][kind] = packed(drawn(1))
    unpack_reading(reading)
    names = [f"n{rank} rank {rank}" for rank in range(512)]
    started_ns = {name: at * 1000 for at, name in enumerate(names)}
    point = make_measurement({}, [merge_readings(dict.fromkeys(names, reading), started_ns, {}, names)])
    assert point.operations == 512 * stream["operations"] and len(point.hosts) == 512
    assert point.latency_ns is not None and point.latency_ns.count == 512 * 3000
    assert {share.latency_ns and share.latency_ns.p99 for share in point.hosts} == {drawn(1).summary().p99}
