"""Runs a plan on a host: shuffled, warmed up, repeated until sure, each point stored as it ends, and never lost."""

from hwdyno.runner.progress import Progress, Silent, Step
from hwdyno.runner.session import run

__all__ = ["Progress", "Silent", "Step", "run"]
