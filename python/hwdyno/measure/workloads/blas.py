"""The BLAS and LAPACK that are here: which libraries answer, and the two routines that LINPACK needs of them.

SciPy's own library is always here, and NumPy's beside it: the newer of the two answers. MKL, BLIS, OpenBLAS and
Accelerate are looked for where their packages put them (the linker's path, a Python environment's ``lib``, and the
folders that ``HWDYNO_BLAS`` names), are called by their Fortran names (``dgesv_``, ``dgemm_``), and are named by
threadpoolctl, never by the file that was requested.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

NAMES = ("mkl", "openblas", "blis", "accelerate")
"""Names in the order that ``auto`` prefers them: the fastest on the machines that we know, first."""
_FILES = {
    "mkl": ("libmkl_rt.so", "libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.dylib", "libmkl_rt.2.dylib"),
    "openblas": ("libopenblas.so", "libopenblas.so.0", "libopenblas.dylib"),
    "blis": ("libblis.so", "libblis.so.4", "libblis-mt.so", "libblis-mt.so.4", "libblis.dylib"),
}
_ACCELERATE = "/System/Library/Frameworks/Accelerate.framework/Accelerate"
_SCIPY = "scipy"
_SPELLINGS = (("{}_", ctypes.c_int32), ("scipy_{}_", ctypes.c_int32), ("scipy_{}_64_", ctypes.c_int64))


@dataclass(frozen=True)
class Routine:
    """A routine, and the file (or the package) whose library answers it."""

    call: Callable[[Any, Any], Any]
    module: str

    def __call__(self, a: Any, b: Any) -> Any:
        """Solve A x = b or multiply A b; the arguments may be overwritten."""
        return self.call(a, b)


@cache
def here() -> dict[str, str]:
    """The libraries that can be loaded: what each is called, and its file; ``scipy`` for the one that SciPy brings."""
    from threadpoolctl import ThreadpoolController

    importlib.import_module("scipy.linalg")  # Its library is loaded with it.
    found: dict[str, str] = {}
    controller = ThreadpoolController()
    bundled = _name_library(controller, _SCIPY)
    for name in NAMES:
        path = next(_loadable(name), None)
        if name == bundled:
            found[name] = _newest(controller.info(), bundled)
        elif path is not None:
            found[name] = path
    if bundled not in found:
        found[bundled] = _SCIPY
    return found


def find_routine(operation: str, wanted: str = "auto") -> Routine:
    """LAPACK's dgesv for ``lu``, BLAS's dgemm for ``gemm``, of the library wanted.

    ``auto`` is the first of ``NAMES`` that is here and has the routine. Raises ``ValueError`` where it is not.
    """
    known = here()
    if wanted == "auto":
        return next(
            candidate for candidate in (_routine(operation, known[name]) for name in known) if candidate is not None
        )
    if wanted not in known:
        raise ValueError(
            f"library {wanted} is not installed; known: {', '.join(known)}. If it is elsewhere, name its folder by "
            "HWDYNO_BLAS"
        )
    routine = _routine(operation, known[wanted])
    if routine is None:
        raise ValueError(f"{wanted} has no dgesv of its own; take --operation gemm")
    return routine


def library(controller: Any, module: str, wanted: str) -> dict[str, Any]:
    """The library that answers, as details of a Reading. Raises ``ValueError`` where it is not the one wanted."""
    found = [pool for pool in controller.info() if pool.get("user_api") == "blas"]
    alike = [pool for pool in found if _same(str(pool.get("filepath", "")), module)] or found[:1]
    name = (
        "accelerate" if module == _ACCELERATE else str(alike[0].get("internal_api", "unknown")) if alike else "unknown"
    )
    if wanted not in {"auto", name}:
        raise ValueError(f"library {wanted} is not here; what answers is {name}")
    pool = alike[0] if alike else {}
    return {
        "library": name,
        "library_version": str(pool.get("version") or ""),
        "library_kernels": str(pool.get("architecture") or ""),
        "library_file": Path(module).name if module != _SCIPY else f"{_SCIPY}'s own",
    }


def _name_library(controller: Any, module: str) -> str:
    return str(library(controller, module, "auto")["library"])


def _same(path: str, module: str) -> bool:
    """Whether a loaded file is the one that answers: by its real path, or by the package that contains it."""
    if os.sep not in module:
        return module in path.lower()
    return os.path.realpath(path) == os.path.realpath(module)


def _loadable(name: str) -> Iterator[str]:
    """Files of a library that the system can load, the first that it would take first."""
    if name == "accelerate":
        if sys.platform == "darwin":
            yield _ACCELERATE
        return
    folders = [Path(folder) for folder in os.environ.get("HWDYNO_BLAS", "").split(os.pathsep) if folder]
    folders.append(Path(sys.prefix) / "lib")
    places = [str(folder / file) for folder in folders for file in _FILES[name] if (folder / file).is_file()]
    # By their bare names the system finds what its linker knows; ``ctypes.util`` would start a compiler for that.
    for place in [*places, *_FILES[name]]:
        loaded = _load(place)
        if loaded is not None:
            yield _find_path(loaded, place)


@cache
def _load(place: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(place)
    except OSError:
        return None


def _find_path(loaded: ctypes.CDLL, place: str) -> str:
    """The file that was loaded: a bare name was found along the linker's path, and only the system knows where."""
    if os.sep in place:
        return place
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return place
    return next((line.split()[-1] for line in maps.splitlines() if line.rstrip().endswith(place)), place)


def _newest(loaded: list[dict[str, Any]], name: str) -> str:
    """The file of NumPy's library where it is a later version of SciPy's, else ``scipy``."""

    def version(package: str) -> tuple[tuple[int, ...], str]:
        for pool in loaded:
            path = str(pool.get("filepath", ""))
            if f"{package}.libs" in path and pool.get("internal_api") == name:
                return tuple(int(part) for part in re.findall(r"\d+", str(pool.get("version") or ""))), path
        return (), ""

    numpys, path = version("numpy")
    return path if numpys > version(_SCIPY)[0] and _routine("lu", path) else _SCIPY


def _routine(operation: str, module: str) -> Routine | None:
    """The routine of a library; none where it has not that one."""
    if module == _SCIPY:
        return Routine(_solve_by_scipy if operation == "lu" else _multiply_by_scipy, _SCIPY)
    loaded = _load(module)
    name = "dgesv" if operation == "lu" else "dgemm"
    # Packages of Python's prefix their own copy, and NumPy's counts in 64 bits.
    for pattern, integer in _SPELLINGS:
        function = getattr(loaded, pattern.format(name), None)
        if function is not None:
            function.restype = None
            return Routine((_solver if operation == "lu" else _multiplier)(function, integer), module)
    return None


def _solve_by_scipy(a: Any, b: Any) -> Any:
    from scipy.linalg import lapack

    _, _, x, info = lapack.dgesv(a, b, overwrite_a=True, overwrite_b=True)
    if info:
        raise OSError(f"dgesv failed with info {info}")
    return x


def _multiply_by_scipy(a: Any, b: Any) -> Any:
    from scipy.linalg import blas

    return blas.dgemm(1.0, a, b)


def _solver(function: Any, integer: Any = ctypes.c_int32) -> Callable[[Any, Any], Any]:
    """DGESV(N, NRHS, A, LDA, IPIV, B, LDB, INFO) of LAPACK, on matrices in Fortran's order."""

    def solve(a: Any, b: Any) -> Any:
        import numpy as np

        n, columns, info = integer(a.shape[0]), integer(1), integer(0)
        pivots = np.zeros(a.shape[0], dtype=integer)
        ref = ctypes.byref
        function(ref(n), ref(columns), _at(a), ref(n), _at(pivots), _at(b), ref(n), ref(info))
        if info.value:
            raise OSError(f"dgesv failed with info {info.value}")
        return b

    return solve


def _multiplier(function: Any, integer: Any = ctypes.c_int32) -> Callable[[Any, Any], Any]:
    """DGEMM(TRANSA, TRANSB, M, N, K, ALPHA, A, LDA, B, LDB, BETA, C, LDC) of BLAS."""

    def multiply(a: Any, b: Any) -> Any:
        import numpy as np

        n, alpha, beta, plain = integer(a.shape[0]), ctypes.c_double(1.0), ctypes.c_double(0.0), b"N"
        c = np.empty(a.shape, order="F")
        ref = ctypes.byref
        function(
            plain, plain, ref(n), ref(n), ref(n), ref(alpha), _at(a), ref(n), _at(b), ref(n), ref(beta), _at(c), ref(n)
        )
        return c

    return multiply


def _at(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
