"""LINPACK as a workload: what it counts, that it checks, and that wrong asks are refused in one line."""

from __future__ import annotations

import ctypes
import os
import subprocess

import numpy as np
import pytest
from hwdyno.measure import workloads
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.measurement import make_measurement
from hwdyno.measure.workloads import blas, linpack


def test_linpack_is_kernel_of_host() -> None:
    declared = Local().kernels()["linpack"]
    assert {"operation", "n", "threads", "blas", "runtime"} <= set(declared.names)
    assert set(workloads.all()) == set(workloads.WORKLOADS)


@pytest.mark.parametrize("operation", ["lu", "gemm"])
def test_a_solution_is_checked_and_its_operations_are_counted(operation: str) -> None:
    reading = Local().run("linpack", {"operation": operation, "n": 100, "runtime": 0.0})
    stream = reading["streams"][0]
    assert stream["flops"] == linpack.count_flops(operation, 100) * stream["operations"] and stream["operations"] == 1
    assert reading["details"]["verification"] == "passed" and not reading["faults"]
    assert reading["details"]["residual"] < linpack.RESIDUAL_LIMIT
    point = make_measurement({"n": 100}, [reading], linpack.WORKLOAD.declaration)
    assert point.throughput.unit == "FLOP/s" and point.throughput.value > 0


def test_the_count_is_that_of_linpack() -> None:
    assert linpack.count_flops("lu", 1000) == round(2 / 3 * 1e9 + 2e6)
    assert linpack.count_flops("gemm", 1000) == 2_000_000_000


def test_a_wrong_solution_has_a_residual_that_fails() -> None:
    random = np.random.default_rng(3)
    a, b = random.random((50, 50)), random.random(50)
    x = np.linalg.solve(a, b)
    assert linpack.residual(a, x, b) < linpack.RESIDUAL_LIMIT
    x[7] *= 1 + 1e-9
    assert linpack.residual(a, x, b) > linpack.RESIDUAL_LIMIT


def test_what_cannot_be_is_refused_in_one_line() -> None:
    with pytest.raises(MemoryError, match=r"take --n \d+"):
        linpack.WORKLOAD.run({"n": 200_000})
    with pytest.raises(ValueError, match="library blis is not installed"):
        linpack.WORKLOAD.run({"n": 10, "blas": "blis"})


def test_each_library_that_is_here_is_named_by_itself_and_solves() -> None:
    here = blas.here()
    assert any("scipy" in place for place in here.values()), "NumPy or SciPy brings one"
    for name in here:
        reading = linpack.WORKLOAD.run({"operation": "gemm", "n": 64, "blas": name, "runtime": 0.0})
        assert reading["details"]["library"] == name and reading["details"]["verification"] == "passed"
        assert reading["details"]["library_file"]


def test_finding_library_starts_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search such as ``ctypes.util.find_library``'s leaves files where a signal ends the process meanwhile."""
    started: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    monkeypatch.setattr(os, "popen", started.append)
    blas._load.cache_clear()
    assert [list(blas._loadable(name)) for name in blas.NAMES] and started == []


@pytest.mark.parametrize(("numpys", "taken"), [("0.3.31.188", True), ("0.3.30", False), ("0.3.9", False)])
def test_newer_of_two_blas_answers(numpys: str, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/lib/numpy.libs/libscipy_openblas64_.so"
    loaded = [
        {"filepath": "/lib/scipy.libs/libscipy_openblas.so", "internal_api": "openblas", "version": "0.3.30"},
        {"filepath": path, "internal_api": "openblas", "version": numpys},
    ]
    monkeypatch.setattr(blas, "_routine", lambda operation, module: object())
    assert blas._newest(loaded, "openblas") == (path if taken else "scipy")


def test_a_library_called_by_its_fortran_names_solves_as_scipys_does() -> None:
    """The calls that MKL, BLIS and OpenBLAS get, on SciPy's own library, under the names that it exports."""
    from threadpoolctl import ThreadpoolController

    blas.here()
    loaded = [
        ctypes.CDLL(library["filepath"]) for library in ThreadpoolController().info() if library["user_api"] == "blas"
    ]
    known = [("scipy_{}_", ctypes.c_int32), ("scipy_{}_64_", ctypes.c_int64), ("{}_", ctypes.c_int32)]
    dgemm, dgesv, integer = next(
        (getattr(library, name.format("dgemm")), getattr(library, name.format("dgesv")), integer)
        for library in loaded
        for name, integer in known
        if hasattr(library, name.format("dgesv"))
    )
    random = np.random.default_rng(5)
    a, b = np.asfortranarray(random.random((90, 90))), np.asfortranarray(random.random((90, 90)))
    dgemm.restype = dgesv.restype = None
    product = blas._multiplier(dgemm, integer)(a, b)
    np.testing.assert_allclose(product, a @ b, rtol=1e-12)
    x = blas._solver(dgesv, integer)(a.copy(order="F"), b[:, 0].copy())
    assert linpack.residual(a, x, b[:, 0]) < linpack.RESIDUAL_LIMIT
    with pytest.raises(OSError, match="dgesv failed with info 1"):
        blas._solver(dgesv, integer)(np.zeros((3, 3), order="F"), np.ones(3))


def test_a_library_without_lapack_only_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnlyBlas:
        def dgemm_(self) -> None: ...

    monkeypatch.setattr(blas, "here", lambda: {"blis": "/usr/lib/libblis.so.4"})
    monkeypatch.setattr(blas, "_load", lambda place: OnlyBlas())
    with pytest.raises(ValueError, match="blis has no dgesv of its own; take --operation gemm"):
        blas.find_routine("lu", "blis")
