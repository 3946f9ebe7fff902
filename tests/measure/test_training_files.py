"""The generated data sets pass their formats' own readers, and are where DLIO would put them."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hwdyno.measure import engine

pytestmark = pytest.mark.machine

SMALL = {"files": 3, "samples_per_file": 4, "record_bytes": 30_000, "record_bytes_stdev": 4_000, "threads": 2}


def generate(path: Path, **parameters: Any) -> dict[str, Any]:
    return engine.run("training_generate", {**SMALL, **parameters, "path": str(path)})


def files(path: Path, ending: str) -> list[Path]:
    return sorted((path / "train").glob(f"*.{ending}"))


def dimensions(number: int, record: float, stdev: float) -> list[tuple[int, int]]:
    """DLIO's own formula (``data_generator.get_dimension``), by NumPy's own generator."""
    drawn = np.random.RandomState(10).normal(int(record**0.5), stdev / 2 / record**0.5, 2 * number)
    sides = [max(int(side), 1) for side in drawn]
    return list(zip(sides[::2], sides[1::2], strict=True))


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit (RFC 3720 appendix B.4), as slow and plain as can be."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(data: io.BytesIO) -> int:
    value = shift = 0
    while True:
        byte = data.read(1)[0]
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value


def message(data: bytes) -> list[tuple[int, bytes]]:
    """The fields of a protobuf message that holds only length-delimited ones."""
    stream, found = io.BytesIO(data), []
    while stream.tell() < len(data):
        tag = varint(stream)
        assert tag & 7 == 2
        found.append((tag >> 3, stream.read(varint(stream))))
    return found


def test_npz_by_numpy(tmp_path: Path) -> None:
    reading = generate(tmp_path, format="npz")
    found = files(tmp_path, "npz")
    assert [path.name for path in found] == [f"img_{i}_of_3.npz" for i in range(3)]
    assert reading["streams"][0]["bytes"] == sum(path.stat().st_size for path in found)
    for path, (rows, columns) in zip(found, dimensions(3, 30_000, 4_000), strict=True):
        with np.load(path) as archive:
            assert archive["x"].shape == (rows, columns, 4)
            assert archive["x"].dtype == np.uint8
            assert archive["x"].std() == pytest.approx(73.9, abs=1)
            assert archive["y"].tolist() == [0, 0, 0, 0]
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}


def test_tfrecord_by_its_rules(tmp_path: Path) -> None:
    generate(tmp_path, format="tfrecord", record_bytes=900, record_bytes_stdev=0)
    for path in files(tmp_path, "tfrecord"):
        data = path.read_bytes()
        records = 0
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            assert struct.unpack("<I", data[8:12]) == (masked(data[:8]),)
            payload, data = data[12 : 12 + length], data[12 + length :]
            assert struct.unpack("<I", data[:4]) == (masked(payload),)
            data = data[4:]
            ((field, features),) = message(payload)
            entries = {}
            for number, entry in message(features):
                (_, key), (_, feature) = message(entry)
                ((kind, values),) = message(feature)
                ((_, value),) = message(values)
                entries[key.decode()] = kind, value
                assert number == 1
            assert field == 1
            assert entries["image"][0] == 1 and len(entries["image"][1]) == 900
            assert entries["size"][0] == 3 and varint(io.BytesIO(entries["size"][1])) == 900
            records += 1
        assert records == 4


def test_hdf5_by_h5py(tmp_path: Path) -> None:
    import h5py

    generate(tmp_path, format="hdf5")
    for path, (rows, columns) in zip(files(tmp_path, "hdf5"), dimensions(3, 30_000, 4_000), strict=True):
        with h5py.File(path) as archive:
            assert sorted(archive) == ["labels", "records_0"]
            assert archive["records_0"].shape == (4, rows, columns)
            assert archive["records_0"].dtype == np.uint8
            assert archive["records_0"][:].std() == pytest.approx(73.9, abs=1)
            assert archive["labels"][:].tolist() == [0] * 4


@pytest.mark.parametrize("ending", ["png", "jpeg"])
@pytest.mark.parametrize("record", [30_000, 700_000])
def test_images_by_pillow(tmp_path: Path, ending: str, record: int) -> None:
    from PIL import Image

    generate(tmp_path, format=ending, samples_per_file=1, record_bytes=record)
    for path, (rows, columns) in zip(files(tmp_path, ending), dimensions(3, record, 4_000), strict=True):
        with Image.open(path) as image:
            image.load()
            assert (image.mode, image.size) == ("L", (rows, columns))
            assert np.asarray(image).std() > 50
        assert abs(path.stat().st_size / (rows * columns) - 1) < 0.15


def test_parquet_by_pyarrow(tmp_path: Path) -> None:
    from pyarrow import parquet

    generate(tmp_path, format="parquet", samples_per_file=1000, record_bytes=761, columns=200, row_group=300)
    for path in files(tmp_path, "parquet"):
        archive = parquet.ParquetFile(path, page_checksum_verification=True)
        assert archive.num_row_groups == 4
        table = archive.read()
        assert (table.num_rows, table.num_columns) == (1000, 200)
        assert table.nbytes == 761_000
        assert len(set(table.column(0).to_pylist())) > 990
    generate(tmp_path / "lone", format="parquet", samples_per_file=6, record_bytes=1_500_000, row_group=4)
    table = parquet.read_table(files(tmp_path / "lone", "parquet")[0])
    assert [len(value.as_py()) for value in table.column(0)] == [1_500_000] * 6


def test_csv_npy_and_binary(tmp_path: Path) -> None:
    sides = dimensions(3, 30_000, 4_000)
    for ending in ("csv", "npy", "bin"):
        generate(tmp_path, format=ending)
    for (rows, columns), csv, npy, raw in zip(
        sides, files(tmp_path, "csv"), files(tmp_path, "npy"), files(tmp_path, "bin"), strict=True
    ):
        table = np.loadtxt(csv, delimiter=",", dtype=int)
        assert table.shape == (4, rows * columns)
        assert (table.min(), table.max()) == (0, 255)
        assert np.load(npy).shape == (rows, columns, 4)
        assert raw.stat().st_size == rows * columns * 4


def test_resuming_keeps_what_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    generate(folder)
    first, second, third = files(folder, "npz")
    before = first.stat().st_mtime_ns
    second.unlink()
    third.with_suffix(".npz.part").write_bytes(b"cut short")
    second.with_suffix(".npz.part").write_bytes(b"cut short")
    reading = generate(folder)
    assert reading["details"]["kept_files"] == 2
    assert reading["streams"][0]["operations"] == 1
    assert first.stat().st_mtime_ns == before
    assert np.load(second)["x"].shape[2] == 4


def test_other_data_set_is_named(tmp_path: Path) -> None:
    generate(tmp_path)
    with pytest.raises(engine.MachineError, match=r"img_0_of_3\.npz has .* belongs to another data set"):
        generate(tmp_path, record_bytes=50_000)


def test_data_set_beyond_room_is_refused(tmp_path: Path) -> None:
    with pytest.raises(engine.MachineError, match=r"needs .* GB more .* at most \d+ samples"):
        generate(tmp_path, record_bytes=1e11, files=5000)
    assert not files(tmp_path, "npz*")


def test_content_does_not_compress(tmp_path: Path) -> None:
    import zlib

    generate(tmp_path, record_bytes=300_000)
    data = files(tmp_path, "npz")[0].read_bytes()
    assert len(zlib.compress(data, 9)) > 0.999 * len(data)
