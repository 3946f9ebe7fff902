"""What is known of one point besides its rate: samples, operations in flight, faults, notes, claims and quotes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Samples:
    """Throughput over the intervals of the timed region, in the unit of the point's throughput."""

    min: float
    avg: float
    max: float
    interval_s: float
    cv: float | None = None
    """Coefficient of variation over the samples; none for fewer than three."""
    values: tuple[float, ...] = ()
    """The values, 600 at most: longer runs are averaged into longer intervals."""


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Operations in flight: as requested, and by Little's law (throughput x latency)."""

    requested: float
    effective: float | None


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on how a measurement was taken; ``code`` is a stable word such as ``direct_refused``."""

    code: str
    says: str


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault inside the timed region, with how often it came."""

    operation: str
    errno: int
    says: str
    count: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure that a foreign result states, beside what the result's other figures make of it."""

    what: str
    """The figure in a sentence: ``bandwidth``, ``received``."""
    stated: float
    follows: float
    """The same figure by ``formula``."""
    unit: str
    formula: str
    """How it follows, in the words of the result: ``io_bytes / runtime``."""
    error: float
    """How far rounding in print parts the two, as a share."""
    at_most: bool = False
    """Whether ``follows`` is the most that the figure can be, instead of what it must be."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """One figure that a Run is quoted by."""

    title: str
    """The field's name of the test, such as ``FP64 peak, 2 threads``."""
    value: float
    unit: str
    """``ns`` for a latency."""
