"""Every format's own reader finds, value by value, the noise that the generator's description says is in the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hwdyno.measure import engine

pytestmark = pytest.mark.machine

SEED, MASK = 10, 2**64 - 1
SHAPE = {"files": 2, "record_bytes": 30_000, "record_bytes_stdev": 4_000, "threads": 1, "seed": SEED}
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def mix(number: int) -> int:
    """SplitMix64's finalizer (Steele et al. 2014)."""
    z = (number + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def words(file: int) -> Iterator[int]:
    """Eight xorshift128+ generators side by side (Vigna 2014), seeded by the data set's seed and the file's number."""
    seed = mix((SEED << 32) ^ mix(file))
    a, b = ([mix(seed ^ mix(salt + lane)) | 1 for lane in range(8)] for salt in (1, 1000))
    while True:
        for lane in range(8):
            x, y = a[lane], b[lane]
            x ^= (x << 23) & MASK
            a[lane], b[lane] = y, x ^ y ^ (x >> 18) ^ (y >> 5)
            yield (b[lane] + y) & MASK


def noise(file: int, length: int) -> Bytes:
    draw = words(file)
    return np.array([next(draw) for _ in range(-(-length // 64) * 8)], dtype="<u8").view(np.uint8)[:length]


def files(path: Path, kind: str, **changes: Any) -> list[Path]:
    engine.run("training_generate", {**SHAPE, "samples_per_file": 1, **changes, "format": kind, "path": str(path)})
    return sorted((path / "train").iterdir())


def npz(path: Path) -> Bytes:
    with np.load(path) as archive:
        return np.asarray(archive["x"])


def hdf5(path: Path) -> Bytes:
    import h5py

    with h5py.File(path) as archive:
        return np.asarray(archive["records_0"][:])


def csv(path: Path) -> Bytes:
    return np.loadtxt(path, delimiter=",", dtype=np.uint8)


@pytest.mark.parametrize(
    ("kind", "read"),
    [("npz", npz), ("npy", np.load), ("hdf5", hdf5), ("csv", csv), ("bin", lambda path: np.fromfile(path, np.uint8))],
)
def test_arrays_are_the_noise(tmp_path: Path, kind: str, read: Any) -> None:
    for number, path in enumerate(files(tmp_path, kind, samples_per_file=3)):
        found = read(path).ravel()
        assert len(found) > 50_000
        # text is drawn piece by piece, and each piece begins with whole lanes anew: the first one is compared
        same = 8192 if kind == "csv" else len(found)
        assert np.array_equal(found[:same], noise(number, same))


def test_parquet_columns_are_the_noise(tmp_path: Path) -> None:
    from pyarrow import parquet

    for number, path in enumerate(files(tmp_path, "parquet", samples_per_file=2)):
        values = b"".join(value.as_py() for value in parquet.read_table(path).column(0))
        assert np.array_equal(np.frombuffer(values, np.uint8), noise(number, 60_000))


def test_png_pixels_are_the_noise(tmp_path: Path) -> None:
    from PIL import Image

    for number, path in enumerate(files(tmp_path, "png")):
        with Image.open(path) as image:
            pixels = np.asarray(image)
        rows, columns = pixels.shape
        # each row begins with the byte of its filter
        assert rows * (columns + 1) < 65_535
        expected = noise(number, rows * (columns + 1)).reshape(rows, columns + 1)[:, 1:]
        assert np.array_equal(pixels, expected)


ZIGZAG = sorted(range(64), key=lambda at: (at // 8 + at % 8, (at // 8 if (at // 8 + at % 8) % 2 else at % 8)))


def test_jpeg_pixels_are_those_of_its_random_coefficients(tmp_path: Path) -> None:
    """ITU-T T.81 by hand: a block is one bit for its DC, then 63 times a code of one bit and seven of the value."""
    from PIL import Image
    from scipy.fft import idctn

    for path in files(tmp_path, "jpeg"):
        data = path.read_bytes()
        coded = data[data.index(b"\xff\xda") + 10 : -2]
        bits = np.unpackbits(np.frombuffer(coded, np.uint8))
        with Image.open(path) as image:
            pixels = np.asarray(image).astype(int)
        across, down = -(-pixels.shape[1] // 8), -(-pixels.shape[0] // 8)
        apart = []
        for block in (0, 1, across - 1, across, across * (down - 1)):
            part = bits[block * 505 :][:505]
            assert part[0] == 0
            assert not part[1::8].any()
            drawn = np.packbits(part[1:].reshape(63, 8), axis=1).ravel().astype(int)
            values = np.where(drawn >= 64, drawn, drawn - 127)
            coefficients = np.zeros(64)
            coefficients[ZIGZAG[1:]] = values
            expected = idctn(coefficients.reshape(8, 8), norm="ortho") + 128
            top, left = block // across * 8, block % across * 8
            found = pixels[top : top + 8, left : left + 8]
            apart.append(np.abs(found - np.clip(expected, 0, 255)[: found.shape[0], : found.shape[1]]).max())
        # decoders round within one
        assert max(apart) <= 1.5
