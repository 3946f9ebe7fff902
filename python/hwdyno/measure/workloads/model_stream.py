"""A model's way from an object store into memory, and from there into its loader."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

from hwdyno.measure import engine
from hwdyno.measure.models import GRAPH, WEIGHTS, safetensors
from hwdyno.measure.workloads.model_phases import Phases
from hwdyno.model.kernels import OBJECT_FETCH
from hwdyno.system.safe_files import path_of_descriptor
from hwdyno.system.urls import reach_below

_SUMMED = ("requests", "requests_repeated", "connections_made")


class ModelObjects:
    """The objects of a job, with counts of their requests."""

    def __init__(self, job: dict[str, Any], phases: Phases) -> None:
        self._job, self._phases = job, phases
        self.details: dict[str, float] = {}
        self.bytes = 0

    def read(self, name: str, *, threads: int = 0, keep: bool = True) -> int:
        """Read an object by ranges; the descriptor of the file in memory that has it, where it is kept.

        What comes before the object's first byte is opening: the connection, the object's length, and the wait.
        Raises ``OSError`` in one line.
        """
        path = PurePath(self._job["path"])
        folder, name = (path.parent, path.name) if path.suffix else (path, name)
        parameters = {
            **reach_below(folder, {key: self._job[key] for key in ("endpoint", "ca_file")}), "object": name,
            "threads": threads or int(self._job["threads"]), "chunk": int(self._job["chunk"]), "keep": keep,
        }  # fmt: skip
        with self._phases.phase("read"):
            try:
                found = engine.run(OBJECT_FETCH, parameters)["details"]
            except OSError as error:
                raise OSError(error.strerror or str(error)) from None
            self._phases.kept_bytes += int(found["object_bytes"]) if keep else 0
        self._phases.split("read", "open", float(found.get("first_byte_s", 0.0)))
        self.bytes += int(found["object_bytes"])
        self.details |= {key: self.details.get(key, 0) + found[key] for key in _SUMMED}
        return int(found.get("descriptor", -1))


Loader = Callable[[dict[str, Any], ModelObjects, Phases], None]


def load(job: dict[str, Any]) -> dict[str, Any]:
    """Load a model's objects once, up to the first answer."""
    for name in {"onnxruntime": ("onnxruntime",), "safetensors": ("safetensors.numpy",)}.get(job["loader"], ()):
        __import__(name)
    # What the engine does once in a process is no part of a load.
    engine.run("idle", {"runtime": 0.001})
    phases = Phases()
    objects = ModelObjects(job, phases)
    _LOADERS[job["loader"]](job, objects, phases)
    return phases.report(objects.bytes, objects.details)


def _raw(job: dict[str, Any], objects: ModelObjects, phases: Phases) -> None:
    objects.read(WEIGHTS, keep=False)


def _read(job: dict[str, Any], objects: ModelObjects, phases: Phases) -> None:
    descriptor = objects.read(WEIGHTS)
    with phases.phase("deserialize"):
        view = _map(descriptor)
        places = safetensors.read_header(path_of_descriptor(descriptor)).places
        tensors = {name: view[place.offset : place.offset + place.length] for name, place in places.items()}
    del tensors


def _safetensors(job: dict[str, Any], objects: ModelObjects, phases: Phases) -> None:
    from safetensors.numpy import load_file

    descriptor = objects.read(WEIGHTS)
    with phases.phase("deserialize"):
        tensors = load_file(str(path_of_descriptor(descriptor)))
    del tensors


def _onnxruntime(job: dict[str, Any], objects: ModelObjects, phases: Phases) -> None:
    from hwdyno.measure.workloads.model_stacks import Onnx

    graph, weights = objects.read(GRAPH, threads=1), objects.read(WEIGHTS)
    with phases.phase("deserialize"):
        model = Onnx(Path(), str(job["model"]), content=(bytes(_map(graph)), _map(weights)))
    with phases.phase("first_answer"):
        model.first()


_LOADERS: dict[str, Loader] = {
    "raw": _raw, "read": _read, "safetensors": _safetensors, "onnxruntime": _onnxruntime,
}  # fmt: skip


def _map(descriptor: int) -> memoryview:
    return memoryview(mmap.mmap(descriptor, os.fstat(descriptor).st_size, mmap.MAP_SHARED, mmap.PROT_READ))
