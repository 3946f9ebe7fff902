"""PyTorch's DataLoader on our data sets, in the Python that HWDYNO_LOADER_PYTHON names or in this one."""

from __future__ import annotations

from pathlib import Path

import pytest
from here import shortly
from hwdyno.measure import peers
from test_peers_loaders import KERNEL, generate

PYTORCH = peers.find("pytorch")


@pytest.mark.slow  # it takes seconds to import
@pytest.mark.peer("pytorch")
@pytest.mark.machine
@pytest.mark.parametrize("kind", shortly(2, "npz", "tfrecord", "csv", "parquet"))
def test_pytorchs_dataloader_reads_the_same_samples(tmp_path: Path, kind: str) -> None:
    found = PYTORCH.run(KERNEL, generate(tmp_path, format=kind))
    assert found.operations == 24
    assert found.details["cpu_s_per_gb"] > 0
