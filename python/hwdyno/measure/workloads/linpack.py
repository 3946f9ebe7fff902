"""LINPACK: a system of n equations solved by LU with the residual check of HPL, and a matrix product beside it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from hwdyno.measure.workloads import blas
from hwdyno.model.words import Axis, Declaration
from hwdyno.system import memory_limits, signals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESIDUAL_LIMIT = 16.0
"""HPL's threshold for ||Ax - b|| / (eps (||A|| ||x|| + ||b||) n), in infinity norms."""
LIBRARIES = ("auto", *blas.NAMES)
MAX_SOLVES = 1000
COPIES = 8
"""Matrices of n x n that exist at once: factors, their copies, the result, and what checks it."""


DECLARATION = Declaration(
    measures="FLOP/s of LU with its residual checked, 2/3 n^3 + 2 n^2 a system, or of dgemm, 2 n^3",
    operation="solve",
    counts={"operations": "1", "flops": "2/3 n^3 + 2 n^2, or 2 n^3"},
    stateful=False,
    grows=True,
    axes=(
        Axis(
            "operation", default="lu", means="lu: LINPACK's dgesv; gemm: a matrix product", kind="choice",
            choices=("lu", "gemm"),
        ),
        Axis(
            "n", default=2000, means="equations, or rows of the matrices", kind="integer", title="equations", least=2,
            most=200_000,
        ),
        Axis(
            "threads", role="concurrency", default=1, means="threads of the library", kind="integer", workers=True,
            least=1, most=1024,
        ),
        Axis(
            "blas", default="auto", means="the library that does it; auto for the fastest that is here", kind="choice",
            choices=LIBRARIES,
        ),
        Axis("seed", default=1, means="of the random matrix", kind="integer", least=0, most=2**31 - 1),
        Axis(
            "runtime", "s", default=0.5, means="solve again until this much was timed; once at least", least=0.0,
            most=86400.0,
        ),
    ),
)  # fmt: skip


class Linpack:
    """LAPACK's dgesv and BLAS's dgemm of MKL, BLIS, OpenBLAS or Accelerate; SciPy's own is always here."""

    declaration = DECLARATION

    def run(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Solve until the time is up; only the solving itself is timed, and each solution is checked."""
        settings = {axis.name: axis.default for axis in DECLARATION.axes} | parameters
        n, threads = int(settings["n"]), int(settings["threads"])
        _check_room(n, 3 * 8 * n * n, _free_bytes())
        from threadpoolctl import ThreadpoolController

        solver = blas.find_routine(str(settings["operation"]), str(settings["blas"]))
        controller = ThreadpoolController()
        library = blas.library(controller, solver.module, str(settings["blas"]))
        # A library that is refused a buffer crashes.
        needed = COPIES * 8 * n * n
        memory_limits.check_room(needed, f"n = {n} with {threads} threads", threads)
        _check_room(n, needed, memory_limits.control_group_left())
        with controller.limit(limits=threads, user_api="blas"):
            return _reading(settings, n, threads, library, solver)


WORKLOAD = Linpack()


def count_flops(operation: str, n: int) -> int:
    """Operations of one pass: LINPACK counts 2/3 n^3 + 2 n^2 (HPL, section on performance), a product 2 n^3."""
    return round(2 / 3 * n**3 + 2 * n**2) if operation == "lu" else 2 * n**3


def residual(a: NDArray[np.float64], x: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """HPL's scaled residual of a solution."""
    import numpy as np

    def norm(value: NDArray[np.float64]) -> float:
        return float(np.max(np.sum(np.abs(value), axis=1))) if value.ndim == 2 else float(np.max(np.abs(value)))

    eps = float(np.finfo(np.float64).eps) / 2
    scale = eps * (norm(a) * norm(x) + norm(b)) * a.shape[0]
    return norm(a @ x - b) / scale if scale else float("inf")


def _free_bytes() -> int | None:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _check_room(n: int, needed: int, free: int | None) -> None:
    """Refuse matrices of n x n that do not fit into what is free."""
    if free is not None and needed > free:
        most = int(n * (free / needed) ** 0.5)
        raise MemoryError(f"n = {n}: its matrices need {needed >> 20} MiB, and {free >> 20} are free; take --n {most}")


def _reading(settings: dict[str, Any], n: int, threads: int, library: dict[str, Any], solver: Any) -> dict[str, Any]:
    import numpy as np

    random = np.random.default_rng(int(settings["seed"]))
    a = np.asfortranarray(random.random((n, n)) - 0.5)
    b = random.random(n if settings["operation"] == "lu" else (n, n)) - 0.5
    b = np.asfortranarray(b)
    times: list[float] = []
    worst = largest = 0.0
    before = os.times()
    while not times or (
        sum(times) < float(settings["runtime"]) and len(times) < MAX_SOLVES and not signals.is_end_requested()
    ):
        work_a, work_b = a.copy(order="F"), b.copy(order="F")
        begun = time.perf_counter()
        x = solver(work_a, work_b)
        times.append(time.perf_counter() - begun)
        worst = max(worst, _error(settings, a, x, b))
        if settings["operation"] == "lu":
            largest = max(largest, float(np.max(np.abs(a @ x - b))))
    after = os.times()
    flops = count_flops(str(settings["operation"]), n)
    passed = worst < RESIDUAL_LIMIT
    faults = [] if passed else [{"operation": "check", "errno": 0, "says": f"residual {worst:.3g}", "count": 1}]
    return {
        "kernel": "linpack",
        "parameters": settings,
        "elapsed_s": sum(times),
        "streams": [
            {"name": str(settings["operation"]), "operations": len(times), "bytes": 0, "flops": flops * len(times)}
        ],
        "samples": {},
        "cpu": {"user_s": after.user - before.user, "system_s": after.system - before.system},
        "concurrency_requested": float(threads),
        "counters": {},
        "faults": faults,
        "notes": [],
        "details": {
            "flops_s_best": flops / min(times),
            "flops_s_average": flops * len(times) / sum(times),
            "residual": worst,
            "residual_absolute": largest,
            "lda": n,
            "residual_limit": RESIDUAL_LIMIT,
            "verification": "passed" if passed else "failed",
            **library,
        },
        "interrupted": signals.is_end_requested(),
    }


def _error(settings: dict[str, Any], a: Any, x: Any, b: Any) -> float:
    """HPL's residual of a solution; of a product, a column of it against the same product by the vector."""
    if settings["operation"] == "lu":
        return residual(a, x, b)
    import numpy as np

    ones = np.ones(a.shape[0])
    eps = float(np.finfo(np.float64).eps) / 2
    scale = eps * a.shape[0] * float(np.max(np.sum(np.abs(a), axis=1))) * float(np.max(np.sum(np.abs(b), axis=1)))
    return float(np.max(np.abs(x @ ones - a @ (b @ ones)))) / scale if scale else float("inf")
