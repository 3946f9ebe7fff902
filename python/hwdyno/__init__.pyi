"""What type checkers see of ``import hwdyno``, whose names are imported when they are first used."""

from hwdyno.api import (
    Audit as Audit,
)
from hwdyno.api import (
    Cancellation as Cancellation,
)
from hwdyno.api import (
    Comparison as Comparison,
)
from hwdyno.api import (
    Curve as Curve,
)
from hwdyno.api import (
    ExperimentResult as ExperimentResult,
)
from hwdyno.api import (
    Finding as Finding,
)
from hwdyno.api import (
    Fleet as Fleet,
)
from hwdyno.api import (
    HistoryEntry as HistoryEntry,
)
from hwdyno.api import (
    HwdynoError as HwdynoError,
)
from hwdyno.api import (
    Measurement as Measurement,
)
from hwdyno.api import (
    MeasurementError as MeasurementError,
)
from hwdyno.api import (
    ProgressEvent as ProgressEvent,
)
from hwdyno.api import (
    Run as Run,
)
from hwdyno.api import (
    StoppedError as StoppedError,
)
from hwdyno.api import (
    StoreError as StoreError,
)
from hwdyno.api import (
    UserError as UserError,
)
from hwdyno.api import (
    audit as audit,
)
from hwdyno.api import (
    compare as compare,
)
from hwdyno.api import (
    fleet as fleet,
)
from hwdyno.api import (
    history as history,
)
from hwdyno.api import (
    load as load,
)
from hwdyno.api import (
    measure as measure,
)
from hwdyno.api import (
    run as run,
)

__version__: str

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
