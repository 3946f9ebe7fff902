"""The files of a model as a loader finds them: which they are, how much is cached, and plain ways to read them."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from hwdyno.measure.models import GGUF, GRAPH, WEIGHTS

PAGE = mmap.PAGESIZE
_COMPANIONS = {".safetensors", ".data", ".onnx_data", ".bin", ".weights"}
_TOUCH = 1 << 20
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


def list_files(path: Path, loader: str) -> tuple[Path, ...]:
    """The files that a loader reads of a made model's folder or of a user's own file, weights last."""
    if path.is_dir():
        if loader == "llama.cpp":
            return (path / GGUF,)
        return (path / GRAPH, path / WEIGHTS) if loader in {"onnxruntime", "mapped"} else (path / WEIGHTS,)
    if path.suffix != ".onnx":
        return (path,)
    # The graph names the files of its external data as plain text.
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        candidates = [
            sibling
            for sibling in sorted(path.parent.iterdir())
            if sibling.suffix in _COMPANIONS or "data" in sibling.suffix
        ]
        named = [candidate for candidate in candidates if candidate != path and text.find(candidate.name.encode()) >= 0]
    return (path, *named)


def total_bytes(files: Sequence[Path]) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in files)


def drop(files: Sequence[Path]) -> None:
    """Take the files out of the page cache, as far as the system lets (posix_fadvise(2), POSIX_FADV_DONTNEED)."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def warm(files: Sequence[Path]) -> None:
    """Read the files into the page cache."""
    buffer = bytearray(4 << 20)
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def cached_share(files: Sequence[Path]) -> float | None:
    """The share of the files' pages in the page cache, by mincore(2); none where the system does not tell."""
    libc = ctypes.CDLL(None, use_errno=True)
    pages = found = 0
    for path in files:
        size = path.stat().st_size
        if not size:
            continue
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as view,
        ):
            count = -(-size // PAGE)
            here = (ctypes.c_ubyte * count)()
            address = ctypes.addressof(ctypes.c_char.from_buffer(view))
            if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), here):
                return None
            pages += count
            found += sum(page & 1 for page in bytes(here))
    return found / pages if pages else None


PieceTarget = Callable[[int, int, int], memoryview]
"""Where a thread puts a piece: by the thread's number, the piece's offset among all files, and its length."""


def reuse_buffers(chunk: int, threads: int) -> PieceTarget:
    """One buffer a thread, touched now and used again for each piece, as a benchmark of storage does."""
    buffers = [memoryview(touch_memory(chunk)) for _ in range(threads)]
    return lambda thread, offset, length: buffers[thread][:length]


def fresh(files: Sequence[Path], chunk: int) -> PieceTarget:
    """Memory for all files one after the other, which no one has touched yet."""
    size = sum(path.stat().st_size + -path.stat().st_size % PAGE for path in files)
    whole = memoryview(mmap.mmap(-1, size + -size % PAGE + chunk, _PRIVATE))
    return lambda thread, offset, length: whole[offset : offset + length]


def read(files: Sequence[Path], chunk: int, threads: int, place: PieceTarget, *, direct: bool) -> int:
    """Read by threads that each take the next chunk, past the page cache or through it; gives the bytes.

    Raises ``OSError`` where direct I/O is refused.
    """
    total = at = 0
    for path in files:
        size = path.stat().st_size
        total += _read_one(path, (at, size), chunk, threads, place, os.O_DIRECT if direct else 0)
        at += size + -size % PAGE
    return total


def _read_one(path: Path, span: tuple[int, int], chunk: int, threads: int, place: PieceTarget, flags: int) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    first, size = span
    lock, errors = threading.Lock(), list[OSError]()
    offsets = iter(range(0, size, chunk))
    done = [0] * threads

    def work(which: int) -> None:
        try:
            while True:
                with lock:
                    offset = next(offsets, -1)
                if offset < 0 or errors:
                    return
                done[which] += os.preadv(descriptor, [place(which, first + offset, chunk)], offset)
        except OSError as error:
            errors.append(error)

    try:
        run_threads(work, threads)
    finally:
        os.close(descriptor)
    if errors:
        raise errors[0]
    return sum(done)


def run_threads(work: Callable[[int], None], threads: int) -> None:
    """Run ``work`` in this many threads, this one included, and wait for all."""
    others = [threading.Thread(target=work, args=(which,)) for which in range(1, threads)]
    for thread in others:
        thread.start()
    work(0)
    for thread in others:
        thread.join()


def touch_memory(size: int) -> mmap.mmap:
    """Memory at a page's boundary, every page of which was written once."""
    made = mmap.mmap(-1, size + -size % PAGE, _PRIVATE)
    for at in range(0, len(made), PAGE):
        made[at] = 1
    return made


def read_ahead(files: Sequence[Path]) -> None:
    """Ask the system to read the files into the page cache meanwhile (POSIX_FADV_WILLNEED)."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(descriptor)


def touch_mapped(files: Sequence[Path]) -> int:
    """Map the files and read a byte of every page in order, as a loader that maps does; gives the bytes."""
    total = 0
    for path in files:
        size = path.stat().st_size
        with path.open("rb") as file, mmap.mmap(file.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ) as view:
            for at in range(0, size, _TOUCH):
                # A slice with a step copies one byte of each page.
                view[at : min(size, at + _TOUCH) : PAGE]
        total += size
    return total
