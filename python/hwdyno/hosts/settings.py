"""Settings of this machine that slow figures down: the environment of libraries, limits, mitigations, debug kernels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PREFIXES = ("OPENBLAS_", "GOTO_", "OMP_", "GOMP_", "KMP_", "MKL_", "BLIS_", "VECLIB_", "MALLOC_")
NAMES = ("LD_PRELOAD", "GLIBC_TUNABLES")
_LONGEST = 200
_LIMITS = ("memlock", "nofile", "nproc", "stack", "as", "cpu")
"""Resource limits by the word of ulimit's manual."""
_CPU = "sys/devices/system/cpu"
_SIGNS = {
    "lockdep": "proc/lockdep",
    "kmemleak": "sys/kernel/debug/kmemleak",
    "slub_debug": "slub_debug",
    "page_poison": "page_poison",
    "debug_pagealloc": "debug_pagealloc=on",
}
"""By check: the file that it makes, or the word of the kernel's command line that starts it."""


def found(environment: Mapping[str, str], root: Path = Path("/")) -> dict[str, Any]:
    """The settings as a part of the survey; what cannot be read is left out."""
    chosen = (name for name in sorted(environment) if name.startswith(PREFIXES) or name in NAMES)
    return {
        "environment": {name: environment[name][:_LONGEST] for name in chosen},
        "nice": _nice(),
        "limits": _limits(),
        "smt": _text(root / _CPU / "smt/control") or None,
        "mitigations": _mitigations(root),
        "debug_kernel": _debug(root),
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _nice() -> int | None:
    try:
        return os.getpriority(os.PRIO_PROCESS, 0)
    except (AttributeError, OSError):
        return None


def _limits() -> dict[str, str]:
    try:
        import resource
    except ImportError:
        return {}
    limits = {}
    for name in _LIMITS:
        number = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if number is not None:
            soft = resource.getrlimit(number)[0]
            limits[name] = "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
    return limits


def _mitigations(root: Path) -> dict[str, str]:
    """The processor's vulnerabilities that are worked around (Documentation/admin-guide/hw-vuln)."""
    folder = root / _CPU / "vulnerabilities"
    try:
        known = {path.name: _text(path) for path in sorted(folder.iterdir())}
    except OSError:
        return {}
    return {name: says.removeprefix("Mitigation: ") for name, says in known.items() if says.startswith("Mitigation")}


def _debug(root: Path) -> list[str]:
    release, line = _text(root / "proc/sys/kernel/osrelease"), _text(root / "proc/cmdline").split()
    signs = [name for name, sign in _SIGNS.items() if ("/" in sign and (root / sign).exists()) or _given(sign, line)]
    return [*(["debug build"] if any(word in release for word in ("-debug", "+debug", ".debug")) else []), *signs]


def _given(sign: str, line: list[str]) -> bool:
    return any(word == sign or word.startswith(f"{sign}=") for word in line)
