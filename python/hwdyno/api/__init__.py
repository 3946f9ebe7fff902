"""hwdyno from Python: the commands' own names as functions, with typed arguments and results.

``hwdyno.run(only="storage", path="/data")`` is ``hwdyno run --only storage --path /data``, and
``hwdyno.measure("storage", "iodepth", path="/data")`` is ``hwdyno storage iodepth --path /data``. An option's dashes
are underscores, an axis takes one value or a list, and a switch takes ``True``. Every error is a ``HwdynoError`` of
one line. The Run is kept in the store, as by the command; nothing is printed and no page is written.
"""

from __future__ import annotations

from hwdyno.api.api_run import Run
from hwdyno.api.following import Cancellation, ProgressEvent
from hwdyno.api.measuring import measure, run
from hwdyno.api.outcomes import MeasurementError, StoppedError
from hwdyno.api.stored import Audit, Comparison, audit, compare, fleet, history, load
from hwdyno.explain.fleet.slow import Fleet
from hwdyno.model.errors import HwdynoError
from hwdyno.model.words import Curve, ExperimentResult, Finding, Measurement, UserError
from hwdyno.system.store import HistoryEntry, StoreError

__all__ = [
    "Audit",
    "Cancellation",
    "Comparison",
    "Curve",
    "ExperimentResult",
    "Finding",
    "Fleet",
    "HistoryEntry",
    "HwdynoError",
    "Measurement",
    "MeasurementError",
    "ProgressEvent",
    "Run",
    "StoppedError",
    "StoreError",
    "UserError",
    "audit",
    "compare",
    "fleet",
    "history",
    "load",
    "measure",
    "run",
]
