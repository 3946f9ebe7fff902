"""hwdyno puts a machine on the dyno: what it delivers, what it could, and why they differ.

``import hwdyno`` is light: a function of the API (``hwdyno.api``) is imported when it is first used.
"""

TYPE_CHECKING = False  # That of ``typing`` would be imported before the command line can keep a signal.
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

__all__ = [
    *("run", "storage", "memory", "compute", "gpu", "network", "training", "inference", "together", "study"),
    *("load", "Run", "Curve", "UserError"),
]
"""Names of ``hwdyno.api`` that this package has, too."""


def __getattr__(name: str) -> "Any":
    """A name of the API, imported now."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("hwdyno.api"), name)
    raise AttributeError(f"module 'hwdyno' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Every name, those of the API included."""
    return sorted({*globals(), *__all__})
