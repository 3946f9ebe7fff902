"""Synthetic Runs for tests of the reports: complete, partial, imported, hostile and huge ones."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import lru_cache
from typing import Any

from hwdyno.analysis.curves import fit_curves
from hwdyno.model.histogram import Histogram
from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Concurrency, Note, Samples
from hwdyno.model.words import (
    Ceiling,
    ExperimentResult,
    Finding,
    Latency,
    Measurement,
    PeerResult,
    Run,
    Scalar,
    Stream,
    Value,
)
from made_experiment import made_experiment
from made_survey import MACHINE

HOSTILE = """</script><script>alert("x")</script>'"<img src=x onerror=alert(1)>&"""
KIB, MIB = 1024, 1 << 20
DRAWS = 3000
R1_NS, TOP_OPS, HARDNESS = 71_000.0, 141_000.0, 2.2
"""The synthetic disk: latency at depth 1, IOPS at saturation, and sharpness of the knee."""


def queue_ops(depth: float) -> float:
    return float(((depth / (R1_NS / 1e9)) ** -HARDNESS + TOP_OPS**-HARDNESS) ** (-1 / HARDNESS))


@lru_cache(maxsize=256)
def latency(mean_ns: float, seed: int, count: int = 20_000, *, packed: bool = True) -> Latency:
    rng = random.Random(seed)
    drawn = min(count, DRAWS)
    values = sorted(
        mean_ns * 0.82 * math.exp(rng.gauss(0, 0.28)) * (9 if rng.random() < 0.002 else 1) for _ in range(drawn)
    )

    def at(quantile: float) -> float:
        return values[min(drawn - 1, math.ceil(quantile * drawn) - 1)]

    return Latency(
        mean=sum(values) / drawn,
        p50=at(0.5),
        p90=at(0.9),
        p99=at(0.99),
        p999=at(0.999) if count >= 10_000 else None,
        min=values[0],
        max=values[-1],
        count=count,
        histogram=Histogram.from_values(values).pack() if packed else "",
    )


def measured(
    parameters: dict[str, Scalar], operations_s: float, depth: float, seed: int, **changes: Any
) -> Measurement:
    rng = random.Random(seed)
    size = int(parameters.get("bs") or 4096)
    bytes_s = operations_s * size
    repeats = tuple(bytes_s * (1 + rng.gauss(0, 0.012)) for _ in range(3))
    centre = 3 / sum(1 / value for value in repeats)
    half = 0.018 * centre
    count = max(1000, int(operations_s))
    values = tuple(bytes_s * (1 + rng.gauss(0, 0.03)) for _ in range(30))
    words = str(parameters.get("rw", "read"))
    names = ("read", "write") if words.startswith(("rw", "randrw")) else ("write",) if "write" in words else ("read",)
    # Drawing a latency takes milliseconds, so that one that is given is not drawn first.
    drawn = changes.pop("latency_ns", None) or latency(depth / operations_s * 1e9, seed, count)
    made = Measurement(
        parameters=dict(parameters),
        throughput=Value(centre, "bytes/s", centre - half, centre + half),
        rate=Value(centre / size, "operations/s", (centre - half) / size, (centre + half) / size),
        latency_ns=drawn,
        streams=tuple(Stream(name, count // len(names), count * size // len(names)) for name in names),
        samples=Samples(min(values), sum(values) / len(values), max(values), 0.1, 0.03, values),
        concurrency=Concurrency(depth, depth * (1 + rng.gauss(0, 0.003))),
        cpu_user_s=0.12,
        cpu_system_s=0.61,
        elapsed_s=3.0,
        operations=count,
        bytes=count * size,
        repeats=3,
        repeat_values=repeats,
        counters={"device_read_bytes": float(count * size)},
        conditions={"cpu_busy": 0.31, "device_busy": 0.97},
    )
    return replace(made, **changes)


GRID = (
    ({"rw": "read", "bs": MIB, "iodepth": 8}, 3150.0, 8),
    ({"rw": "write", "bs": MIB, "iodepth": 8}, 2420.0, 8),
    ({"rw": "randread", "bs": 4 * KIB, "iodepth": 32}, 138_000.0, 32),
    ({"rw": "randwrite", "bs": 4 * KIB, "iodepth": 32}, 101_500.0, 32),
    ({"rw": "randread", "bs": 4 * KIB, "iodepth": 1}, 14_100.0, 1),
    ({"rw": "randwrite", "bs": 4 * KIB, "iodepth": 1}, 19_800.0, 1),
)


def peer(point: int, ours: Measurement, ratio: float) -> PeerResult:
    return PeerResult(
        tool="fio",
        version="3.33",
        point=point,
        value=Value(
            ours.throughput.value / ratio,
            "bytes/s",
            ours.throughput.value / ratio * 0.985,
            ours.throughput.value / ratio * 1.015,
        ),
        ratio=Value(ratio, "ratio", ratio * 0.985, ratio * 1.016),
        pairs=5,
        latency_ns_mean=ours.latency_ns.mean * 1.02 if ours.latency_ns else None,
        cpu_ratio=Value(0.52, "ratio", 0.49, 0.55),
        command="fio --name=point --rw=randread --bs=4k --iodepth=32 --direct=1 --ioengine=io_uring",
    )


LINK = {
    direction: Ceiling(
        f"{direction}_bytes_s",
        "physical",
        3.938e9,
        "bytes/s",
        "8 GT/s x 4 lanes x 128/130 / 8",
        "nvme0 link state",
        "PCIe 3.0 x4",
    )
    for direction in ("read", "write")
}
RATED = (
    Ceiling("read_operations_s", "rated", 155_000, "operations/s", "as rated", "maker's data sheet", "rated"),
    Ceiling("write_operations_s", "rated", 120_000, "operations/s", "as rated", "maker's data sheet", "rated"),
)


def grid() -> ExperimentResult:
    points = tuple(measured(dict(p), ops, depth, at) for at, (p, ops, depth) in enumerate(GRID))
    return made_experiment(
        name="storage.grid",
        resource="storage",
        asks="Standard disk tests",
        load="iodepth",
        kernel="storage_blocks",
        points=points,
        ceilings=(*LINK.values(), *RATED),
        peers=(peer(0, points[0], 1.004), peer(2, points[2], 1.013), peer(4, points[4], 0.996)),
        planned=len(points),
        fixed={"numjobs": 1, "direct": True, "ioengine": "io_uring", "size": 1 << 30},
        commands=(
            "hwdyno storage --rw read,write --bs 1M --iodepth 8",
            "hwdyno storage --rw randread,randwrite --bs 4k --iodepth 1,32",
        ),
    )


def iodepth(series: tuple[str, ...] = ("randread", "randwrite")) -> ExperimentResult:
    points: list[Measurement] = []
    for which, rw in enumerate(series):
        scale = 1.0 - 0.22 * which
        for step in range(9):
            depth = 1 << step
            points.append(
                measured({"rw": rw, "iodepth": depth, "bs": 4096}, queue_ops(depth) * scale, depth, 100 * which + step)
            )
    whole = tuple(points)
    result = made_experiment(
        name="storage.iodepth",
        resource="storage",
        asks="Throughput and latency by queue depth",
        load="iodepth",
        kernel="storage_blocks",
        points=whole,
        metric="rate",
        ceilings=(*LINK.values(), *RATED),
        peers=tuple(peer(at, whole[at], 1.01) for at in (0, 3, 5)),
        planned=len(points),
        fixed={"numjobs": 1, "direct": True},
        commands=("hwdyno storage --rw randread,randwrite --bs 4k --iodepth 1..256",),
    )
    return replace(result, curves=fit_curves(result))


def mix() -> ExperimentResult:
    points = []
    for at, rw in enumerate(("randread", "randrw:70", "randrw:50", "randwrite")):
        for step, size in enumerate((4, 16, 32, 64, 128)):
            ops = 1.38e5 / (1 + size / 11) * (1, 0.71, 0.66, 0.8)[at] ** (1 - step / 5)
            points.append(measured({"rw": rw, "bs": size * KIB, "iodepth": 8}, ops, 8, 1000 + 10 * at + step))
    return made_experiment(
        name="storage.mix",
        resource="storage",
        asks="Mixed reads and writes",
        load="bs",
        kernel="storage_blocks",
        points=tuple(points),
        ceilings=tuple(LINK.values()),
        planned=len(points),
        fixed={"iodepth": 8, "numjobs": 1},
        commands=("hwdyno storage --rw randread,randrw:70,randrw:50,randwrite --bs 4k,16k,32k,64k,128k --iodepth 8",),
    )


FINDINGS = (
    Finding(
        "curve.knee",
        "info",
        "storage",
        "Random 4 KiB reads saturate at 141,000 IOPS (137,000 to 145,000); depth 16 reaches 90% of it at 0.12 ms.",
        {"ceiling_operations_s": 141_000, "load_90": 13.9},
        "Run databases at depth 16; more depth buys only latency.",
        "storage.iodepth",
        (4,),
    ),
    Finding(
        "device.link",
        "warning",
        "storage",
        "The drive links at PCIe 3.0 x4 though it can do PCIe 4.0 x4: half of its bandwidth is out of reach.",
        {"generation": 3, "generation_max": 4},
        "Move it to a PCIe 4.0 slot, or look for a BIOS setting that pins the generation.",
        "storage.grid",
        (0, 1),
    ),
)


@lru_cache(maxsize=1)
def whole_run() -> Run:
    return Run(
        id="20261121-0307-a1b2c3",
        started="2026-11-21T03:07:09+00:00",
        finished="2026-11-21T03:09:31+00:00",
        machines=(Machine.of_survey(MACHINE),),
        profile="quick",
        command="hwdyno run --path /srv/data --peers",
        experiments=(grid(), iodepth(), mix()),
        findings=FINDINGS,
        version="0.1.0",
    )


def invalid_run() -> Run:
    """A Run whose figures exceed the link: a page cache."""
    run = whole_run()
    bad = replace(
        run.experiments[0].points[0],
        throughput=Value(1.2e10, "bytes/s", 1.1e10, 1.3e10),
        validity="invalid",
        why=("law.physical_ceiling",),
    )
    first = replace(run.experiments[0], points=(bad, *run.experiments[0].points[1:]))
    finding = Finding(
        "law.physical_ceiling",
        "invalid",
        "storage",
        "Sequential reads show 12.0 GB/s over a link that carries 3.94 GB/s: this is the page cache, not the drive.",
        {"measured_bytes_s": 1.2e10, "ceiling_bytes_s": 3.938e9},
        "Measure with --direct, or with a file larger than memory.",
        "storage.grid",
        (0,),
    )
    return replace(run, experiments=(first, *run.experiments[1:]), findings=(*run.findings, finding))


def partial_run() -> Run:
    """A Run that Ctrl-C interrupted."""
    run = whole_run()
    short = replace(run.experiments[0], points=run.experiments[0].points[:2], peers=())
    return replace(
        run,
        experiments=(short,),
        findings=(),
        finished=None,
        interrupted=True,
        degraded=("Interrupted after 2 of 6 points.",),
    )


def imported_run() -> Run:
    """An imported result: no histogram, samples, interval or machine."""
    points = tuple(
        Measurement(
            parameters={"rw": "randread", "bs": 4096, "iodepth": depth},
            throughput=Value(depth * 4.1e7, "bytes/s"),
            rate=Value(depth * 1e4, "operations/s") if depth > 1 else None,
            latency_ns=None if depth == 4 else Latency(1e5, 9e4, 1.3e5, 3e5, None, 5e4, 1e6, 400),
            streams=(),
            samples=None,
            concurrency=None,
            cpu_user_s=None,
            cpu_system_s=None,
            elapsed_s=30.0,
            operations=0,
            bytes=0,
            repeats=1,
        )
        for depth in (1, 2, 4)
    )
    experiment = made_experiment("fio", "storage", "fio results", "iodepth", "fio", points)
    return Run(
        "imported",
        "2020-01-01T00:00:00+00:00",
        None,
        (),
        "",
        "",
        (experiment,),
        imported_from="fio-json",
        version="fio-3.33",
    )


def hostile_run() -> Run:
    """A Run in which every name that a machine or file chooses has markup and quotes."""
    run = whole_run()
    machine = {**MACHINE, "hostname": HOSTILE, HOSTILE: HOSTILE, "unknown": {"cpu.clock_hz.max": HOSTILE}}
    machine["storage"] = {**MACHINE["storage"], "path": HOSTILE, "source": HOSTILE, "options": [HOSTILE]}
    experiment = run.experiments[1]
    points = tuple(
        replace(point, parameters={**point.parameters, "rw": HOSTILE}, notes=(Note(HOSTILE, HOSTILE),))
        for point in experiment.points
    )
    curves = tuple(replace(curve, series={"rw": HOSTILE}) for curve in experiment.curves)
    ceilings = tuple(replace(c, label=HOSTILE, formula=HOSTILE, source=HOSTILE) for c in experiment.ceilings)
    peers = tuple(replace(p, tool=HOSTILE, version=HOSTILE, command=HOSTILE) for p in experiment.peers)
    nasty = replace(
        experiment,
        name=HOSTILE,
        asks=HOSTILE,
        points=points,
        curves=curves,
        ceilings=ceilings,
        peers=peers,
        commands=(HOSTILE,),
        fixed={HOSTILE: HOSTILE},
    )
    finding = Finding(HOSTILE, "warning", HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, HOSTILE, HOSTILE, (0,))
    return replace(
        run,
        id=HOSTILE,
        command=HOSTILE,
        machines=(Machine.of_survey(machine),),
        experiments=(run.experiments[0], nasty),
        findings=(finding,),
        degraded=(HOSTILE,),
    )


def plain_sweep_run() -> Run:
    """A Run without a grid, with another unit and a load of words, as a new resource may have."""
    points = tuple(
        Measurement(
            parameters={"operation": operation, "threads": threads},
            throughput=Value(base * threads / (1 + 0.05 * threads), "FLOP/s"),
            rate=None,
            latency_ns=None,
            streams=(),
            samples=None,
            concurrency=None,
            cpu_user_s=1.0,
            cpu_system_s=0.0,
            elapsed_s=1.0,
            operations=10,
            bytes=0,
            repeats=1,
        )
        for operation, base in (("fma", 5e10), ("add", 2.5e10))
        for threads in (1, 2, 4, 8)
    )
    experiment = made_experiment(
        "compute.threads", "compute", "How do threads scale?", "threads", "flops", points, planned=8
    )
    words = tuple(replace(point, parameters={"device": f"gpu{at}"}) for at, point in enumerate(points[:3]))
    devices = made_experiment("gpu.device", "gpu", "Which device is fastest?", "device", "flops", words, planned=3)
    return Run(
        "sweep",
        "2026-11-21T03:07:09+00:00",
        "2026-11-21T03:08:09+00:00",
        (Machine.of_survey(MACHINE),),
        "quick",
        "hwdyno compute",
        (experiment, devices),
    )


def empty_run() -> Run:
    """A Run without a point."""
    return Run("empty", "2026-11-21T03:07:09+00:00", None, (), "quick", "hwdyno run", (), interrupted=True)


@lru_cache(maxsize=1)
def huge_run() -> Run:
    """A sweep of 1,056 points: 6 kinds x 8 block sizes x 2 job counts x 11 depths, as large as measured ones.

    Each point has separate histograms: of the whole latency, of its two parts, and of each direction.
    """
    points = []
    # Drawing 1,056 latencies takes seconds: the counts of one per depth vary instead, by bytes.
    shared = [latency(1e5 * 2**step, step, 50_000) for step in range(11)]
    drawn = [Histogram.unpack(summary.histogram) for summary in shared]
    rng = random.Random(56)

    def varied(step: int) -> Latency:
        made = drawn[step].merge(Histogram())
        changes = rng.randbytes(len(made.buckets))
        made.buckets = {
            at: max(1, count + change % 5 - 2)
            for (at, count), change in zip(made.buckets.items(), changes, strict=True)
        }
        return replace(shared[step], histogram=made.pack())

    for rw in ("read", "write", "randread", "randwrite", "randrw:70", "randrw:50"):
        for jobs in (1, 4):
            for size in range(8):
                for step in range(11):
                    depth, block = 1 << step, 4096 << size
                    ops = queue_ops(depth * jobs) / (1 + (1 << size) / 30)
                    parameters: dict[str, Scalar] = {"rw": rw, "bs": block, "numjobs": jobs, "iodepth": depth}
                    point = measured(parameters, ops, depth * jobs, len(points), latency_ns=varied(step))
                    # The page has the whole latency's alone, so the parts may be alike.
                    of_kinds = {"submit": shared[0], "complete": shared[step], "total": point.latency_ns}
                    streams = tuple(replace(stream, latency_ns=of_kinds) for stream in point.streams)
                    points.append(replace(point, streams=streams))
    experiment = replace(
        iodepth(("randread",)), name="storage.sweep", points=tuple(points), curves=(), peers=(), planned=len(points)
    )
    return replace(whole_run(), experiments=(experiment,), findings=FINDINGS[:1])


ALL = {
    "whole": whole_run,
    "invalid": invalid_run,
    "partial": partial_run,
    "imported": imported_run,
    "hostile": hostile_run,
    "sweep": plain_sweep_run,
    "empty": empty_run,
}
