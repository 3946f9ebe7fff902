"""The rules of MLPerf Storage by edition, and which of them the facts of a folder's runs keep."""

from __future__ import annotations

from hwdyno.analysis.mlperf_storage.editions import CHECKED_BY, EDITIONS, LATEST
from hwdyno.analysis.mlperf_storage.judge import judge_runs
from hwdyno.analysis.mlperf_storage.judgement import Judgement
from hwdyno.analysis.mlperf_storage.parameter_rules import division_by_parameters
from hwdyno.analysis.mlperf_storage.run_facts import KINDS, RunFacts
from hwdyno.analysis.mlperf_storage.training_rules import measured_runs

__all__ = [
    "CHECKED_BY",
    "EDITIONS",
    "KINDS",
    "LATEST",
    "Judgement",
    "RunFacts",
    "division_by_parameters",
    "judge_runs",
    "measured_runs",
]
