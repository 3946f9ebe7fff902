"""The closed loop of a process that classifies images: threads that read, decode and infer, each stage timed apart."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hwdyno.measure.models import jpeg_images
from hwdyno.measure.workloads import model_files as files
from hwdyno.measure.workloads.model_stacks import Onnx


class Loop:
    """Files in turn, taken by many threads."""

    def __init__(self, model: Onnx, paths: Sequence[Path], *, cold: bool) -> None:
        self._model = model
        self._side = model.side
        self._paths = itertools.cycle(paths)
        self._cold = cold
        self._lock = threading.Lock()
        self._errors: list[BaseException] = []
        self.read_bytes = 0
        self.times: dict[str, list[float]] = {"read": [], "decode": [], "infer": []}

    def run(self, threads: int, runtime_s: float) -> float:
        """Classify for so long, each thread one image at least; gives the time. Raises ``OSError`` of any thread."""
        begun = time.perf_counter()
        until = begun + runtime_s
        files.run_threads(lambda _: self._work(until), threads)
        if self._errors:
            raise self._errors[0]
        return time.perf_counter() - begun

    def _work(self, until: float) -> None:
        try:
            while not self._errors:
                self._one()
                if time.perf_counter() >= until:
                    return
        except Exception as error:  # A thread's error is raised by the thread that waits for it.
            self._errors.append(error)

    def _one(self) -> None:
        with self._lock:
            path = next(self._paths)
        begun = time.perf_counter()
        data = self._read(path)
        read = time.perf_counter()
        pixels = jpeg_images.decode_image(data, self._side)
        decoded = time.perf_counter()
        self._model.classify(pixels)
        ended = time.perf_counter()
        with self._lock:
            self.read_bytes += len(data)
            for stage, took in zip(self.times, (read - begun, decoded - read, ended - decoded), strict=True):
                self.times[stage].append(took)

    def _read(self, path: Path) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(descriptor, os.fstat(descriptor).st_size)
            if self._cold:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            return data
        finally:
            os.close(descriptor)


def classify(job: dict[str, Any], counters: Any) -> dict[str, Any]:
    """Classify the images of a job for its runtime; ``counters`` gives the process's counters."""
    cold, threads = job["cache"] == "cold", int(job["threads"])
    folder = Path(job["folder"])
    paths = [folder / jpeg_images.name_image(at) for at in range(int(job["files"]))]
    model = Onnx(Path(job["path"]), str(job["model"]), threads=1)
    # The first answer has extra costs, and so has the first image of a decoder.
    model.classify(jpeg_images.decode_image(paths[0].read_bytes(), model.side))
    (files.drop if cold else files.warm)(paths)
    cached = files.cached_share(paths)
    loop = Loop(model, paths, cold=cold)
    used = counters()
    elapsed = loop.run(threads, float(job["runtime"]))
    spent = counters()
    return {
        "times_s": loop.times,
        "elapsed_s": elapsed,
        "user_s": spent["user"] - used["user"],
        "system_s": spent["system"] - used["system"],
        "details": {
            **({} if cached is None else {"cached_before": cached}),
            "image_bytes": float(loop.read_bytes),
            "fetched_bytes": spent["fetched"] - used["fetched"],
        },
    }
