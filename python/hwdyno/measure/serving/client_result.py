"""What the load generator was requested to do and what one reading brought, request by request."""

from __future__ import annotations

from dataclasses import dataclass, field

from hwdyno.measure.serving.prompts import Prompt
from hwdyno.measure.serving.wire import Exchange


@dataclass(slots=True)
class Sent:
    """One request and what came of it. Moments are ns of the monotonic clock; 0 for none."""

    prompt: Prompt
    due_ns: int
    """When it was to be sent."""
    sent_ns: int = 0
    """When the client began to connect or to write it."""
    end_ns: int = 0
    in_flight: int = 0
    """Requests that were due and not answered when it was due, itself included."""
    exchange: Exchange = field(default_factory=Exchange)
    failure: str = ""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How the client behaves."""

    runtime_s: float
    """Requests are begun for so long; those in flight then are waited for."""
    timeout_s: float
    """Limit for one whole answer."""
    connections: int
    """Maximum number of connections at once."""
    min_requests: int = 0
    """Number of requests that a closed loop begins at least, regardless of the time."""


@dataclass(slots=True)
class ClientResult:
    """What one reading brought."""

    sent: list[Sent]
    started_ns: int
    cpu_user_s: float
    cpu_system_s: float
    connections: int
    """Most at once."""
    waited_for_connection: int
    """Requests of an open loop that were due while every connection was in use."""
    interrupted: bool
    gave_up: bool
    """Whether it ended early, because nothing was answered."""
    late_bodies: int
    """Requests whose text was made when they were due, not before."""
    kept_too_much: bool
