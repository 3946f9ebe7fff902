"""LINPACK as a workload: what it counts, that it checks, and that wrong asks are refused in one line."""

from __future__ import annotations

import numpy as np
import pytest
from hwdyno import workloads
from hwdyno.hosts.local import Local
from hwdyno.measurement import measurement_of
from hwdyno.workloads import linpack


def test_linpack_is_a_kernel_of_the_host() -> None:
    declared = Local().kernels()["linpack"]
    assert {"operation", "n", "threads", "library", "runtime"} <= {one["name"] for one in declared["parameters"]}
    assert set(workloads.all()) == set(workloads.WORKLOADS)


@pytest.mark.parametrize("operation", ["lu", "gemm"])
def test_a_solution_is_checked_and_its_operations_are_counted(operation: str) -> None:
    reading = Local().run("linpack", {"operation": operation, "n": 100, "runtime": 0.0})
    stream = reading["streams"][0]
    assert stream["flops"] == linpack.flops_of(operation, 100) * stream["operations"] and stream["operations"] == 1
    assert reading["details"]["verification"] == "passed" and not reading["faults"]
    assert reading["details"]["residual"] < linpack.RESIDUAL_LIMIT
    point = measurement_of({"n": 100}, [reading], linpack.WORKLOAD.info())
    assert point.throughput.unit == "FLOP/s" and point.throughput.value > 0


def test_the_count_is_that_of_linpack() -> None:
    assert linpack.flops_of("lu", 1000) == round(2 / 3 * 1e9 + 2e6)
    assert linpack.flops_of("gemm", 1000) == 2_000_000_000


def test_a_wrong_solution_has_a_residual_that_fails() -> None:
    random = np.random.default_rng(3)
    a, b = random.random((50, 50)), random.random(50)
    x = np.linalg.solve(a, b)
    assert linpack.residual(a, x, b) < linpack.RESIDUAL_LIMIT
    x[7] *= 1 + 1e-9
    assert linpack.residual(a, x, b) > linpack.RESIDUAL_LIMIT


def test_what_cannot_be_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"take --n \d+"):
        linpack.WORKLOAD.run({"n": 200_000})
    with pytest.raises(ValueError, match="library blis is not here"):
        linpack.WORKLOAD.run({"n": 10, "library": "blis"})
