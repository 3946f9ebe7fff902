"""Thresholds of peers, sweeps of mixes, processors, contention and loaders, just below and just above each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import test_training_findings as training
from hwdyno.findings.between_runs import between_runs
from hwdyno.findings.children import unequal_jobs
from hwdyno.findings.claims import CLAIM, claim_exceeded, flops_per_core, formula_yields_other, line_rate_in_bytes
from hwdyno.findings.compute import _undisturbed, _wider_apart, linpack_share
from hwdyno.findings.contention import Cell, cause_of
from hwdyno.findings.coverage import small_region
from hwdyno.findings.device import mix_penalty, spinning_or_solid
from hwdyno.findings.kv_cache import kv_too_few
from hwdyno.findings.peers import _differs, _is_wide, _paged_apart
from hwdyno.findings.rule import Case
from hwdyno.findings.training_peer import dlio_compared
from hwdyno.machine import Cpu, Machine
from hwdyno.words import ExperimentResult, Latency, Measurement, PeerResult, Run, RunToRun, Stream, Value
from made_experiment import made_experiment
from test_thresholds import BLOCK, RATE, base, run_of

Sees = Callable[[float], bool]


def known(value: float, unit: str = "bytes/s", within: float = 0.001) -> Value:
    return Value(value, unit, (1 - within) * value, (1 + within) * value)


def case_of(*points: Measurement, kernel: str = "storage_blocks", resource: str = "storage", **more: Any) -> Case:
    made = run_of(points[0], resource)
    result = replace(made.experiments[0], kernel=kernel, points=points, **more)
    return Case(replace(made, experiments=(result,)), result, 0)


# --- peers


def _off(value: float, low: float | None = None, high: float | None = None) -> bool:
    return _differs(Value(value, "1", low, high))


def _pages(size: float) -> bool:
    point = replace(base(), parameters={**base().parameters, "bs": round(size), "mem": "huge"})
    return _paged_apart(case_of(point))


# --- storage


def _region(size: float, passes: float = 4.0) -> bool:
    point = replace(base(), bytes=round(3 * passes * size), details={"region_bytes": float(size)})
    return small_region(case_of(point)) is not None


def _mixed(penalty: float) -> bool:
    points = [
        replace(base(), parameters={**base().parameters, "rw": "randrw", "rwmixread": share}, throughput=known(value))
        for share, value in ((0, 1e9), (50, 1e9 * (1 - penalty)), (100, 1e9))
    ]
    return bool(mix_penalty(case_of(*points)))


def _kind(ns: float) -> str:
    latency = Latency(ns, ns, ns, ns, None, ns, ns, 1000)
    point = replace(base(), latency_ns=latency, parameters={**base().parameters, "iodepth": 1})
    found = spinning_or_solid(case_of(point))
    return str(found.evidence["verdict"]) if found else ""


def _children(over: float) -> bool:
    details = {"children_sum_over_parent": over, "children_shortest_share": 0.5}
    parameters = {name: value for name, value in base().parameters.items() if name != "rw"}
    point = replace(base(), details=details, parameters={**parameters, "pattern": "read"})
    return unequal_jobs(case_of(point)) is not None


# --- processors


def _keeps_its_core(share: float) -> bool:
    return _undisturbed(replace(base(), details={"flop_per_cycle": share, "flop_per_cycle_best_slice": 1.0}))


def _costs(cost: float) -> bool:
    return _wider_apart(*(replace(base(), throughput=known(value)) for value in (1 - cost, 1.0)))


def _above_peak(ratio: float) -> bool:
    def result(kernel: str, operation: str, rate: float) -> ExperimentResult:
        point = replace(base(), parameters={"operation": operation, "precision": "double", "threads": 4, "n": 4000},
                        throughput=known(rate, "FLOP/s"))  # fmt: skip
        return made_experiment(f"compute.{operation}", "compute", "?", "threads", kernel, (point,), fixed={})

    both = (result("compute_flops", "fma", 1e11), result("linpack", "lu", ratio * 1e11))
    run = Run("x", "", None, (Machine(cpu=Cpu(threads=4)),), "quick", "hwdyno compute", both)
    found = linpack_share(Case(run, both[1]))
    assert found is not None
    return "which other work must have disturbed" in found.says


# --- one resource beside another, of which the load takes a fifth, on 4 processors


def cause(resource: str = "storage", load: str = "memory", **details: float) -> str:
    point = replace(base(), details={"cores": 2.0, "cores_alone": 2.0, **details})
    result = made_experiment(f"{resource}.x", resource, "?", "iodepth", "storage_blocks", (point,), fixed={})
    run = Run("x", "", None, (Machine(cpu=Cpu(threads=4)),), "quick", "hwdyno together", (result,))
    found = cause_of(Cell(result, 0, load, known(0.8, "1"), known(0.8, "1")), run)
    return "" if found is None else found.name


def _interrupts(lost: float) -> bool:
    """Its threads ran less by a part of the cost of a fifth."""
    return cause(cores=2.0 * (1 - lost * 0.2), interrupt_share=0.3, interrupt_share_alone=0.1) == "interrupts"


def _cpu(busy: float = 0.95, wanted: float = 4.0) -> bool:
    return cause(cores=1.6, busy_share=busy, load_cores_alone=wanted - 2.0) == "CPU"


def _full(share: float) -> bool:
    details = {"bytes_s": share * 4e9, "load_bytes_s": share * 6e9, "load_bytes_s_alone": 1e10}
    return cause(**details) == "memory bandwidth"


# --- runs, caches of users, loaders


def _runs(deviation: float) -> bool:
    spread = RunToRun(deviation=deviation, point_deviation=0.0, earlier=8)
    return between_runs(case_of(base(), run_to_run=spread)) is not None


def _few_reads(count: float) -> bool:
    latency = Latency(1e6, 1e6, 1e6, 1e6, None, 1e6, 1e6, round(count))
    streams = (Stream("read", round(count), 0, latency_ns={"total": latency}),)
    point = replace(base(), parameters={"users": 4}, streams=streams)
    return kv_too_few(case_of(point, kernel="training_kv_cache", resource="inference")) is not None


def _dlio(apart: float) -> bool:
    peer = PeerResult("dlio", "2.0", 0, Value(1e9, "bytes/s"), None, details={"au": 0.95 - apart})
    result = made_experiment("training.x", "training", "?", "accelerators", "training_loader",
                             (training.point(1, 0.95),), fixed=training.FIXED)  # fmt: skip
    run = replace(run_of(base()), experiments=(replace(result, peers=(peer,)),))
    found = dlio_compared(Case(run, run.experiments[0]))
    assert found is not None
    return "less AU by its own work" in found.says


# --- claimed ceilings of a study


def claim(text: str, value: float, unit: str, resource: str, measured: float = 0.0, stated: str = "") -> Case:
    point = replace(base(), parameters={"claim": text, "study": "s"}, throughput=Value(value, unit),
                    details={"claimed_unit": stated or unit})  # fmt: skip
    claims = made_experiment(f"{resource}.claims", resource, "?", "claim", CLAIM, (point,), fixed={})
    other = replace(base(), parameters={"rw": "randread"}, throughput=Value(measured, unit))
    found = made_experiment(f"{resource}.x", resource, "?", "iodepth", "x", (other,), fixed={"study": "s"})
    run = Run("x", "", None, (Machine(),), "", "", (claims, found))
    return Case(run, claims, 0)


def _per_core(text: str) -> bool:
    return flops_per_core(claim(text, 1e12, "FLOP/s", "gpu")) is not None


def _cores(count: float) -> bool:
    return _per_core(f"{count:.0f} cores x 1.5 GHz x 64 FLOP")


def _not_in_bits(off: float) -> bool:
    return line_rate_in_bytes(claim("10", 1e10 * (1 + off), "bytes/s", "network", stated="GB/s")) is None


def _product(off: float) -> bool:
    return formula_yields_other(claim("8 x 3.2 GT/s x 2", 51.2e9 * (1 + off), "bytes/s", "memory")) is not None


def _exceeded(ratio: float) -> bool:
    return bool(claim_exceeded(claim("x", 1e9, "bytes/s", "storage", ratio * 1e9)))


def test_a_gpus_core_is_only_accused_with_a_factor_of_its_own() -> None:
    assert _per_core("1024 cores x 1.5 GHz x 64 FLOP") and not _per_core("1024 cores x 1.5 GHz")


# What is seen, a number at which it is not, and one at which it is.
THRESHOLDS: list[tuple[str, Sees, float, float]] = [
    ("a peer without an interval is slower", _off, 1.099, 1.101),
    ("a peer without an interval is faster", _off, 0.901, 0.899),
    ("a peer is slower for sure", lambda low: _off(1.2, low, 1.4), 1.029, 1.031),
    ("a peer is faster for sure", lambda high: _off(0.8, 0.6, high), 0.971, 0.969),
    ("a ratio is hardly known", lambda ratio: _is_wide(Value(1.2, "1", 1.0, ratio)), 1.499, 1.501),
    ("blocks in other pages", _pages, (512 << 10) - 512, 512 << 10),
    ("a small region", _region, 256 << 20, (256 << 20) - 4096),
    ("passes over a small region", lambda passes: _region(BLOCK * RATE, passes), 1.99, 2.0),
    ("a mix costs", _mixed, 0.049, 0.051),
    ("a disk spins", lambda ns: _kind(ns) == "spinning", 2.99e6, 3.0e6),
    ("a disk is solid", lambda ns: _kind(ns) == "solid state", 1.01e6, 1.0e6),
    ("jobs end early", _children, 1.0499, 1.0501),
    ("a core of its own", _keeps_its_core, 0.899, 0.901),
    ("a core that was faster than its best", _keeps_its_core, 1.112, 1.111),
    ("numbers cost more than zeros", _costs, 0.0499, 0.0501),
    ("LINPACK above the peak", _above_peak, 1.019, 1.021),
    ("steal rose", lambda rise: cause(steal_share=0.05 + rise, steal_share_alone=0.05) == "steal", 0.0499, 0.0501),
    ("threads ran less", _interrupts, 0.49, 0.51),
    ("no processor is free", lambda busy: _cpu(busy=busy), 0.899, 0.901),
    ("both want too many", lambda wanted: _cpu(wanted=wanted), 3.59, 3.61),
    ("memory is full", _full, 0.849, 0.851),
    ("runs differ", _runs, 0.0199, 0.0201),
    ("few reads", _few_reads, 200, 199),
    ("a loader's own work", _dlio, 0.0199, 0.0201),
    ("cores of a GPU", _cores, 127, 128),
    ("no line rate", _not_in_bits, 0.0199, 0.0201),
    ("a product", _product, 0.0199, 0.0201),
    ("a claim was exceeded", _exceeded, 1.0099, 1.0101),
]


@pytest.mark.parametrize(
    ("sees", "below", "above"), [one[1:] for one in THRESHOLDS], ids=[one[0] for one in THRESHOLDS]
)
def test_a_threshold_is_where_it_is(sees: Sees, below: float, above: float) -> None:
    assert sees(above)
    assert not sees(below)
