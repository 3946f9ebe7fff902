"""How long and how precisely a run measures, and the time that all of it may take."""

from __future__ import annotations

from dataclasses import dataclass

PEERS_FACTOR = 2.5
"""How much longer a budget is where each reading is paired with a peer's."""


@dataclass(frozen=True)
class Profile:
    """How long and how precisely a run measures."""

    name: str
    runtime_s: float
    """Timed region of one reading."""
    ramp_s: float
    target: float
    """The 95% interval's half width, as a share of the value, at which a point is done."""
    repeats_min: int
    repeats_max: int
    size_bytes: int
    """Size of the data file."""
    budget_s: float | None = None
    """The whole run's time, to which the timed regions are scaled; none for as long as it takes."""


PROFILES = {
    "quick": Profile("quick", 1.0, 0.2, 0.10, 3, 5, 1 << 30, budget_s=150.0),
    "standard": Profile("standard", 5.0, 1.0, 0.05, 3, 10, 4 << 30),
    "full": Profile("full", 30.0, 5.0, 0.02, 5, 20, 16 << 30),
}


def choose_budget(profile: str, peers: bool) -> float | None:
    """The time that a profile's whole run may take, s; none for as long as it takes."""
    budget_s = PROFILES[profile].budget_s if profile in PROFILES else None
    return budget_s * PEERS_FACTOR if budget_s and peers else budget_s
