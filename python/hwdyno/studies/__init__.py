"""Published characterizations, one file each: their sweeps, their figures, and their tables made from a Run.

A study is data: its questions are plain axes, from which experiments are made, and its tables and observations
are made from any Run that has those experiments.
"""

from __future__ import annotations

from hwdyno.studies.catalogue import all, find, is_known
from hwdyno.studies.conclusions import observations, tables
from hwdyno.studies.study import Block, Question, Study, StudyTable

__all__ = [
    "Block",
    "Question",
    "Study",
    "StudyTable",
    "all",
    "find",
    "is_known",
    "observations",
    "tables",
]
