"""The catalogue of experiments, one file for each resource: an experiment is data, found by walking this folder."""

from __future__ import annotations

from hwdyno.measure.experiments.catalogue import all, find, find_base, list_kernels, list_resources
from hwdyno.measure.experiments.experiment import Experiment
from hwdyno.measure.experiments.site_values import list_pairs

__all__ = [
    "Experiment",
    "all",
    "find",
    "find_base",
    "list_kernels",
    "list_pairs",
    "list_resources",
]
