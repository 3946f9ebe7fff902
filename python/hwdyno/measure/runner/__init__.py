"""Runs a plan on a host: shuffled, warmed up and repeated until precise; each point is stored as it ends."""

from hwdyno.measure.runner.observers import NextReading, Progress, Silent
from hwdyno.measure.runner.plan_run import run

__all__ = ["NextReading", "Progress", "Silent", "run"]
