"""How large DLIO's data sets come out on disk, by format, before a byte of them is written."""

from __future__ import annotations

from hwdyno.formats.workload import TrainingWorkload

SEED = 10
"""DLIO's, of the sizes."""
MAX_DRAWN = 20_000
"""Largest number of files with drawn sizes; of more the mean size is known."""
# What a format adds to a sample's bytes: around each sample, and around each file.
_AROUND: dict[str, tuple[int, int]] = {
    "npz": (8, 510),
    "npy": (0, 128),
    "tfrecord": (54, 0),
    "hdf5": (8, 512),
    "bin": (0, 0),
}
# A file's ends, and a column's page header and metadata in a group of rows.
_PARQUET_FILE, _PARQUET_CHUNK = 100, 70
# Noise of 8 bits as text, each number with its comma.
_CSV_BYTES = 914 / 256
_PNG_BYTES, _PNG_BLOCK = 63, 65_535
# An 8 x 8 block: a bit for the mean and a byte for each other coefficient.
_JPEG_BLOCK_BYTES, _JPEG_BYTES = 505 / 8, 158


def file_bytes(workload: TrainingWorkload) -> int:
    """Bytes of all files of a workload's data set, within 1%."""
    if workload.format == "parquet":
        groups = -(-workload.samples_per_file // (workload.row_group or workload.samples_per_file))
        overhead = _PARQUET_FILE + groups * workload.columns * _PARQUET_CHUNK
        return int(workload.bytes) + workload.files * overhead
    drawn = _sides(workload)
    return int(sum(_one_file(workload, *sides) for sides in drawn) * workload.files / len(drawn))


def _one_file(workload: TrainingWorkload, width: int, height: int) -> float:
    """Size of a file whose samples have this many rows and columns."""
    if workload.format in _AROUND:
        per_sample, overhead = _AROUND[workload.format]
        return (width * height + per_sample) * workload.samples_per_file + overhead
    if workload.format == "csv":
        return width * height * _CSV_BYTES * workload.samples_per_file
    if workload.format == "png":
        raw = (width + 1) * height
        return raw + _PNG_BYTES + 5 * -(-raw // _PNG_BLOCK)
    return -(-width // 8) * -(-height // 8) * _JPEG_BLOCK_BYTES + _JPEG_BYTES


def _sides(workload: TrainingWorkload) -> list[tuple[int, int]]:
    """Rows and columns of files' samples, drawn as DLIO draws them: by NumPy's legacy generator."""
    side = workload.record_bytes**0.5
    spread = workload.record_bytes_stdev / 2 / side
    if not spread:
        return [(int(side), int(side))]
    import numpy as np

    drawn = np.random.RandomState(SEED).normal(int(side), spread, (min(workload.files, MAX_DRAWN), 2))
    return [(max(1, int(width)), max(1, int(height))) for width, height in drawn]
