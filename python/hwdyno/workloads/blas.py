"""The BLAS and LAPACK that are here: which library answers, and the two routines that LINPACK needs of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Routine:
    """A routine, and the package whose library answers it."""

    call: Callable[[Any, Any], Any]
    module: str

    def __call__(self, a: Any, b: Any) -> Any:
        """Solve A x = b or multiply A b; the arguments may be overwritten."""
        return self.call(a, b)


def of(operation: str) -> Routine:
    """LAPACK's dgesv for ``lu``, BLAS's dgemm for ``gemm``, both of SciPy's library."""
    from scipy.linalg import blas, lapack

    def solve(a: Any, b: Any) -> Any:
        _, _, x, info = lapack.dgesv(a, b, overwrite_a=True, overwrite_b=True)
        if info:
            raise OSError(f"dgesv failed with info {info}")
        return x

    def multiply(a: Any, b: Any) -> Any:
        return blas.dgemm(1.0, a, b)

    return Routine(solve if operation == "lu" else multiply, "scipy")


def library(controller: Any, module: str, wanted: str) -> dict[str, Any]:
    """The library that answers, as details of a Reading. Raises ``ValueError`` where it is not the one wanted."""
    found = [one for one in controller.info() if one.get("user_api") == "blas"]
    own = [one for one in found if module in str(one.get("filepath", "")).lower()] or found
    name = str(own[0].get("internal_api", "unknown")) if own else "unknown"
    if wanted not in {"auto", name}:
        raise ValueError(f"library {wanted} is not here; SciPy is linked with {name}")
    one = own[0] if own else {}
    return {
        "library": name,
        "library_version": str(one.get("version") or ""),
        "library_kernels": str(one.get("architecture") or ""),
    }
