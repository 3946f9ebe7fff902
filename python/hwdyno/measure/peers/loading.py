"""A typical training data loader, in plain NumPy or with PyTorch's DataLoader, as a separate program.

It imports nothing from hwdyno, so that any Python with NumPy (and PyTorch) can run it. The job is JSON in the first
argument; the answer is JSON on stdout. Every rank is a process, steps and shards are those of the engine's loader,
and an accelerator's computing is a sleep to an absolute deadline. PyTorch's readers return only the first MiB of a
sample, like a training that crops images: whole samples would need much shared memory.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import queue
import resource
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

CROP = 1 << 20


class SampleReader:
    """Reads samples by number with the format's reader; each thread keeps one file open."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.kind, self.per_file = str(job["format"]), int(job["samples_per_file"])
        self.files: list[str] = job["files"]
        self.columns = int(job.get("read_columns") or 0)
        self.source: tuple[str, Any] = ("", None)

    def __call__(self, number: int) -> Any:
        """One sample as an array of its bytes."""
        path, at = self.files[number // self.per_file], number % self.per_file
        name, source = self.source
        if name != path:
            source = getattr(self, f"_open_{self.kind}")(path)
            self.source = (path, source) if self.per_file > 1 else ("", None)
        return getattr(self, f"_take_{self.kind}", self._take)(source, at)

    def batch(self, numbers: list[int]) -> list[Any]:
        """The samples of a batch; for a table its columns, file by file, as arrays with one row per sample."""
        if self.kind != "parquet":
            return [self(number) for number in numbers]
        rows: dict[str, list[int]] = {}
        for number in numbers:
            rows.setdefault(self.files[number // self.per_file], []).append(number % self.per_file)
        return [column for path, wanted in rows.items() for column in self._rows(path, wanted)]

    def _rows(self, path: str, wanted: list[int]) -> Iterator[Any]:
        """The selected rows of each column; row groups are read whole, and the last one is cached."""
        from pyarrow import parquet

        with parquet.ParquetFile(path, page_checksum_verification=True) as table:
            names = table.schema_arrow.names[: self.columns or None]
            first = 0
            for group in range(table.num_row_groups):
                end = first + table.metadata.row_group(group).num_rows
                here = sorted(row - first for row in wanted if first <= row < end)
                if here:
                    if self.source[0] != f"{path} {group}":
                        read = table.read_row_group(group, columns=names).combine_chunks()
                        self.source = (f"{path} {group}", [_byte_rows(column) for column in read.columns])
                    whole = here[-1] - here[0] + 1 == len(here)
                    for values in self.source[1]:
                        yield values[here[0] : here[-1] + 1] if whole else values[here]
                first = end

    def _take(self, source: Any, at: int) -> Any:
        return source[..., at] if self.per_file > 1 else source

    def _open_npz(self, path: str) -> Any:
        import numpy as np

        with np.load(path) as archive:  # zipfile checks the CRC-32
            return archive["x"]

    def _open_npy(self, path: str) -> Any:
        import numpy as np

        return np.load(path)

    def _open_hdf5(self, path: str) -> Any:
        import h5py

        with h5py.File(path) as archive:
            return archive["records_0"][:]

    def _take_hdf5(self, source: Any, at: int) -> Any:
        return source[at]

    def _open_jpeg(self, path: str) -> Any:
        import numpy as np
        from PIL import Image

        with Image.open(path) as image:
            return np.asarray(image)

    _open_png = _open_jpeg

    def _open_csv(self, path: str) -> Any:
        import numpy as np

        return np.loadtxt(path, delimiter=",", dtype=np.uint8, ndmin=2)

    def _take_csv(self, source: Any, at: int) -> Any:
        return source[at]

    def _open_tfrecord(self, path: str) -> Any:
        """Offset and length of each record; TensorFlow's checksums are not verified."""
        size, at, places = Path(path).stat().st_size, 0, []
        with Path(path).open("rb") as file:
            while at < size:
                file.seek(at)
                (length,) = struct.unpack("<Q", file.read(8))
                places.append((at + 12, length))
                at += 16 + length
        return path, places

    def _take_tfrecord(self, source: Any, at: int) -> Any:
        import numpy as np

        path, places = source
        offset, length = places[at]
        return np.fromfile(path, dtype=np.uint8, count=length, offset=offset)


def _byte_rows(column: Any) -> Any:
    """A column of numbers or of fixed-length bytes, without a copy: one row of bytes per value."""
    import numpy as np

    (values,) = column.chunks
    width = values.type.bit_width // 8
    data = np.frombuffer(values.buffers()[1], np.uint8)
    return data[values.offset * width : (values.offset + len(values)) * width].reshape(-1, width)


class Batches:
    """PyTorch's view of the samples: batches are lists of tensors."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job, self.samples = job, SampleReader(job)

    def __len__(self) -> int:
        return len(self.samples.files) * self.samples.per_file

    def __getitems__(self, numbers: list[int]) -> list[Any]:
        """A whole batch at once, PyTorch's batched fetch."""
        import torch

        return [torch.from_numpy(sample.reshape(-1)[:CROP].copy()) for sample in self.samples.batch(numbers)]


def by_numpy(job: dict[str, Any], batches: list[list[int]]) -> Iterator[Any]:
    """Batches in order, loaded ahead by threads that each load a whole batch."""
    threads = max(1, int(job["read_threads"]))
    readers: deque[SampleReader] = deque(SampleReader(job) for _ in range(threads))

    def load(numbers: list[int]) -> list[Any]:
        reader = readers.popleft()
        try:
            return reader.batch(numbers)
        finally:
            readers.append(reader)

    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[list[Any]]] = deque()
        left = iter(batches)
        for numbers in left:
            ahead.append(pool.submit(load, numbers))
            if len(ahead) >= threads * int(job["prefetch"]):
                break
        while ahead:
            done = ahead.popleft().result()
            if (numbers := next(left, [])) != []:
                ahead.append(pool.submit(load, numbers))
            yield done


def by_pytorch(job: dict[str, Any]) -> Any:
    """Batches from a DataLoader whose batches change each epoch."""
    from torch.utils.data import DataLoader

    class Sampler:
        batches: list[list[int]] = []  # noqa: RUF012

        def __iter__(self) -> Iterator[list[int]]:
            return iter(self.batches)

        def __len__(self) -> int:
            return len(self.batches)

    sampler = Sampler()
    threads = int(job["read_threads"])
    more: dict[str, Any] = {"prefetch_factor": int(job["prefetch"]), "persistent_workers": True} if threads else {}
    loader: Any = DataLoader(
        Batches(job),
        batch_sampler=sampler,
        num_workers=threads,
        collate_fn=list,
        **more,
    )

    def epoch(batches: list[list[int]]) -> Iterator[Any]:
        sampler.batches = batches
        return iter(loader)

    return epoch


def rank(job: dict[str, Any], number: int, meeting: Any, over: Any, answers: Any) -> None:
    """One accelerator's loop: wait for a batch, compute, synchronize with the others."""
    ranks, batch, compute = int(job["accelerators"]), int(job["batch_size"]), float(job["compute"])
    total = len(job["files"]) * int(job["samples_per_file"])
    part = -(-total // ranks)
    steps = min((min((r + 1) * part, total) - min(r * part, total)) // batch for r in range(ranks))
    steps = min(steps, int(job["steps"])) if job["steps"] else steps
    first = number * part
    batches = [list(range(first + step * batch, first + (step + 1) * batch)) for step in range(steps)]
    epoch = by_pytorch(job) if job["loader"] == "pytorch" else lambda batch_numbers: by_numpy(job, batch_numbers)
    meeting.wait()
    cpu, begun = cpu_s(), time.monotonic()
    done, shares = 0, []
    for _ in range(int(job["epochs"])):
        after_first, computed = 0.0, 0.0
        for step, _loaded in enumerate(epoch(batches)):
            now = time.monotonic()
            if (left := now + compute - time.monotonic()) > 0:
                time.sleep(left)
            computed += compute if step else 0.0
            done += 1
            if number == 0 and job["runtime"] and time.monotonic() - begun > job["runtime"]:
                over.set()
            if ranks > 1:
                meeting.wait()
            if step == 0:
                after_first = time.monotonic()
            if over.is_set():
                break
        spent = time.monotonic() - after_first
        if computed:
            shares.append(computed / spent)
        if over.is_set():
            break
    elapsed = time.monotonic() - begun
    del epoch  # ends PyTorch's readers, so that their CPU time is counted
    answers.put({"rank": number, "steps": done, "elapsed_s": elapsed, "au": shares, "cpu_s": cpu_s() - cpu})


def cpu_s() -> float:
    """CPU time of this process and its ended readers, s."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def main() -> None:
    """Run the job and print the answer."""
    # this folder has modules of the same names as the packages
    sys.path[:] = [place for place in sys.path if Path(place).resolve() != Path(__file__).resolve().parent]
    job = json.loads(sys.argv[1])
    for path in job["files"] if job["cache"] in {"drop", "warm"} else []:
        with Path(path).open("rb") as file:
            if job["cache"] == "drop":
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while job["cache"] == "warm" and file.read(CROP):
                pass
    context = multiprocessing.get_context("fork")
    meeting, over, answers = context.Barrier(int(job["accelerators"])), context.Event(), context.Queue()
    if job["loader"] == "pytorch":
        import torch

        torch.set_num_threads(1)
    ranks = [
        context.Process(target=rank, args=(job, number, meeting, over, answers))
        for number in range(int(job["accelerators"]))
    ]
    for process in ranks:
        process.start()
    found: list[dict[str, Any]] = []
    while len(found) < len(ranks):
        with contextlib.suppress(queue.Empty):
            found.append(answers.get(timeout=0.2))
            continue
        if any(process.exitcode for process in ranks):
            meeting.abort()
            for process in ranks:
                process.kill()
            sys.exit("a rank failed; see its message above")
    for process in ranks:
        process.join()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
