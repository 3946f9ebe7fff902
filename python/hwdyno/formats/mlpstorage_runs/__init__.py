"""The runs in a results folder of ``mlpstorage``: where they are, what their documents state, and their points."""

from __future__ import annotations

from hwdyno.formats.mlpstorage_runs.documents import Documents, read_documents
from hwdyno.formats.mlpstorage_runs.leaves import find_leaves
from hwdyno.formats.mlpstorage_runs.run_points import MLPERF, make_points
from hwdyno.formats.mlpstorage_runs.stated_facts import find_phase, state_facts

__all__ = ["MLPERF", "Documents", "find_leaves", "find_phase", "make_points", "read_documents", "state_facts"]
