"""SNIA's Performance Test Specification for solid state storage as data: what each round measures, and tracks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hwdyno.measure.experiments.experiment import Experiment
from hwdyno.measure.experiments.storage import nonsense
from hwdyno.measure.sweep import Sweep
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.words import Parameters

ROUNDS = 25
"""Maximum number of rounds; SNIA PTS 2.0.2."""
CELL_S = 60.0
"""Time of one workload in one round; SNIA PTS 2.0.2."""
PRECONDITION_TIMES, PRECONDITION_BYTES = 2, 128 << 10
"""Twice the capacity is written, in sequence, in blocks of 128 KiB."""
_MIXES = ("randread", "randrw:95", "randrw:65", "randrw:50", "randrw:35", "randrw:5", "randwrite")
_SIZES = (1 << 20, 128 << 10, 64 << 10, 32 << 10, 16 << 10, 8 << 10, 4 << 10, 512)
_COUNTS = (32, 16, 8, 6, 4, 2, 1)
_FIXED: Parameters = {"ioengine": "io_uring", "direct": True}


@dataclass(frozen=True, kw_only=True)
class SniaTest:
    """One test: its workloads, which of them every round has, and which of those decide on steady state."""

    name: str
    experiment: Experiment
    each_round: Mapping[str, object] | None = None
    """The workloads of every round by their parameters; all of them if none are named. The others are measured once,
    after the steady state is reached."""
    tracked: Mapping[str, object]
    """The workload whose rounds must be steady."""
    shown: Mapping[str, object]
    """The workloads whose rounds are kept for the plot of convergence."""
    variable: str = "rate"
    """What of it: ``rate``, ``throughput`` or ``latency``."""


def _experiment(name: str, asks: str, load: str, sweep: Sweep, metric: str, **fixed: int) -> Experiment:
    return Experiment(
        name=f"storage.snia-{name}",
        asks=asks,
        kernel=STORAGE_BLOCKS,
        load=load,
        sweep=sweep,
        metric=metric,
        fixed={**_FIXED, **fixed},
        ceilings=("physical", "rated"),
        needs=("data_file",),
        check=nonsense,
        default=False,
    )


TESTS = {
    test.name: test
    for test in (
        SniaTest(
            name="iops",
            experiment=_experiment(
                "iops",
                "SNIA IOPS test: steady state by mix and block size",
                "bs",
                Sweep(rw=_MIXES, bs=_SIZES),
                "rate",
                iodepth=16,
                numjobs=2,
            ),
            tracked={"rw": "randwrite", "bs": 4096},
            shown={"rw": "randwrite"},
        ),
        SniaTest(
            name="throughput",
            experiment=_experiment(
                "throughput",
                "SNIA throughput test: sequential steady state",
                "bs",
                Sweep(rw=("read", "write"), bs=(1 << 20, 128 << 10)),
                "throughput",
                iodepth=32,
                numjobs=1,
            ),
            tracked={"rw": "write", "bs": 1 << 20},
            shown={},
            variable="throughput",
        ),
        SniaTest(
            name="latency",
            experiment=_experiment(
                "latency",
                "SNIA latency test: one operation at a time",
                "bs",
                Sweep(rw=("randread", "randrw:65", "randwrite"), bs=(8 << 10, 4 << 10, 512)),
                "rate",
                iodepth=1,
                numjobs=1,
            ),
            tracked={"rw": "randwrite", "bs": 4096},
            shown={"rw": "randwrite"},
            variable="latency",
        ),
        SniaTest(
            name="demand",
            experiment=_experiment(
                "demand",
                "SNIA demand variation: threads and queue depth",
                "iodepth",
                Sweep(rw="randrw:65", bs=4096, numjobs=_COUNTS, iodepth=_COUNTS),
                "rate",
            ),
            each_round={"numjobs": 32, "iodepth": 32},
            tracked={"numjobs": 32, "iodepth": 32},
            shown={"numjobs": 32, "iodepth": 32},
        ),
    )
}


def matches(point: Parameters, wanted: Mapping[str, object]) -> bool:
    """Whether a workload has these parameters."""
    return all(point.get(name) == value for name, value in wanted.items())
