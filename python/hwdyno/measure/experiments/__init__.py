"""The catalogue of experiments, one file for each resource: an experiment is data, found by walking this folder."""

from __future__ import annotations

from hwdyno.measure.experiments.catalogue import all, base_of, find
from hwdyno.measure.experiments.experiment import Experiment
from hwdyno.measure.experiments.site_values import pairs_of

__all__ = [
    "Experiment",
    "all",
    "base_of",
    "find",
    "pairs_of",
]
