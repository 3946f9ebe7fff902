"""TensorFlow's reader on our records; gigabytes to install, so it runs where it is."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from here import missing
from hwdyno.measure.peers import loading
from test_peers_loaders import files, generate


@pytest.mark.long
@pytest.mark.machine
def test_tensorflows_own_reader_takes_our_records(tmp_path: Path) -> None:
    """Its own reader holds every record against both of its checksums."""
    if importlib.util.find_spec("tensorflow") is None:
        missing("TensorFlow is not installed")
    tensorflow: Any = importlib.import_module("tensorflow")
    parameters = generate(tmp_path, format="tfrecord", samples_per_file=4)
    samples = loading.SampleReader({**parameters, "files": files(parameters)})
    shape = {"image": tensorflow.io.FixedLenFeature([], tensorflow.string),
             "size": tensorflow.io.FixedLenFeature([], tensorflow.int64)}  # fmt: skip
    for number, record in enumerate(tensorflow.data.TFRecordDataset(files(parameters))):
        assert record.numpy() == samples(number).tobytes()
        example = tensorflow.io.parse_single_example(record, shape)
        assert len(example["image"].numpy()) == int(example["size"])
    assert number == 12 * 4 - 1
