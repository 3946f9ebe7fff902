"""hwdyno puts a machine on the dyno: what it delivers, what it could, and why they differ.

``import hwdyno`` is light: a name of the API (``hwdyno.api``) is imported when it is first used. Type checkers read
``__init__.pyi``.
"""

__version__ = "0.1.0"

__all__ = [
    *("run", "measure", "load", "audit", "compare", "history", "fleet"),
    *("Run", "Curve", "ExperimentResult", "Measurement", "Finding", "Audit", "Comparison", "Fleet", "HistoryEntry"),
    *("Cancellation", "ProgressEvent"),
    *("HwdynoError", "UserError", "StoreError", "MeasurementError", "StoppedError"),
]
"""Names of ``hwdyno.api`` that this package has, too."""


def __getattr__(name: str) -> object:
    """A name of the API, imported now."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("hwdyno.api"), name)
    raise AttributeError(f"module 'hwdyno' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Every name, those of the API included."""
    return sorted({*globals(), *__all__})
