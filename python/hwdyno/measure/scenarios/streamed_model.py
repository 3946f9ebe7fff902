"""A model in an object store: one of the run that is written, checked and removed, or the user's, only read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.measure.models import GRAPH, WEIGHTS, onnx, safetensors, shapes
from hwdyno.measure.models.installed import LOADERS, STREAMING
from hwdyno.measure.scenarios.model import MADE_S_PER_BYTE, SEED, ModelSource, usable
from hwdyno.measure.scenarios.object_folder import (
    ObjectFolder,
    name_folder,
    reach,
    report_left,
    show_folder,
)
from hwdyno.measure.scenarios.preparation import Interrupted, Says, make_error
from hwdyno.measure.scenarios.request import Request
from hwdyno.model.kernels import OBJECT_FETCH, OBJECT_UPLOAD
from hwdyno.model.units import format_size
from hwdyno.model.words import Parameters, UserError
from hwdyno.system import safe_files, signals
from hwdyno.system.safe_files import path_of_descriptor
from hwdyno.system.urls import format_place, in_object_store, reach_below

if TYPE_CHECKING:
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Planned


def choose_loaders(request: Request, source: ModelSource) -> tuple[str, ...]:
    """The loaders that take this model from memory: those that were named, or all that are installed.

    Raises ``UserError`` for a named one that reads files, unless a folder is measured beside the store.
    """
    given = [name.strip() for name in str(request.options.get("cold") or "").split(",") if name.strip()]
    of_files = [name for name in given if name in LOADERS and name not in STREAMING]
    wanted = [name for name in given if name not in of_files]
    if of_files and not (wanted and _has_folder(request, source)):
        raise UserError(
            f"--cold {of_files[0]} reads a file, and an object store has none; use {', '.join(STREAMING)}, "
            "or --path DIR"
        )
    return usable(source, ",".join(wanted) or None, LOADERS, STREAMING, "cold")


def explain_missing(request: Request, wanted: Sequence[str], parts: Sequence[str]) -> tuple[str, ...]:
    """What is left out on a store, in a sentence: loaders of those that are wanted, and parts, which read files."""
    stores = [name for name, path in request.places if in_object_store(path)]
    given = [name.strip() for name in str(request.options.get("cold") or "").split(",") if name.strip()] or wanted
    missing = [name for name in (*given, *parts) if name in {*LOADERS, *parts} - {*STREAMING}]
    if not stores or not missing:
        return ()
    return (f"an object store has no files; left out on {', '.join(stores)}: {', '.join(missing)}",)


def choose_axes(request: Request, source: ModelSource) -> dict[str, Any]:
    """The axes for a store: where a folder is measured beside it, the state of the page cache is the folder's alone."""
    left_out = {"cache"} if _has_folder(request, source) else set()
    return {name: values for name, values in request.axes.items() if name not in left_out}


def _has_folder(request: Request, source: ModelSource) -> bool:
    """Whether the model is measured in a folder, too."""
    return not source.file and any(not in_object_store(path) for _, path in request.places)


def make_experiment(request: Request, source: ModelSource, name: str, place: Path, *, many: bool) -> Experiment:
    """The experiment of one store; raises ``UserError``."""
    from hwdyno.measure.experiments.inference import STREAM
    from hwdyno.measure.sweep import Sweep

    path = format_place(source.file or name_folder(place))
    return replace(
        STREAM,
        name=f"{STREAM.name}@{name}" if many else STREAM.name,
        sweep=Sweep({**STREAM.sweep.axes, "loader": choose_loaders(request, source)}),
        fixed={"model": source.name},
        settled={"path": path, **reach(request, source.file)},
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamedModel(ObjectFolder):
    """A made model, one object a file."""

    model: shapes.Model
    with_graph: bool

    def fill(self, host: Host, says: Says) -> None:
        """Write the objects, and read the weights back; raises ``UserError``, and ``Interrupted``."""
        says(f"making {self.model.name}, {format_size(self.model.bytes)} of random weights, as objects …")
        with _memory_file(safetensors.parts(self.model, SEED)) as descriptor:
            self._upload(host, says, descriptor, WEIGHTS)
            places = safetensors.read_header(path_of_descriptor(descriptor)).places
        if self.with_graph:
            with _memory_file([onnx.make_graph(self.model, WEIGHTS, places)]) as descriptor:
                self._upload(host, says, descriptor, GRAPH)
        found = self._run(host, OBJECT_FETCH, {"object": WEIGHTS, "keep": True})["details"]
        try:
            weights = path_of_descriptor(found["descriptor"])
            wrong = safetensors.wrong_tensors(weights, safetensors.read_header(weights))
        finally:
            os.close(found["descriptor"])
        if wrong:
            raise UserError(f"the store gave the tensor {wrong[0]} of {WEIGHTS} with another checksum than was written")

    def _upload(self, host: Host, says: Says, descriptor: int, name: str) -> None:
        file = str(path_of_descriptor(descriptor))
        report_left(self._run(host, OBJECT_UPLOAD, {"object": name, "file": file})["details"], says)

    def _run(self, host: Host, kernel: str, parameters: Parameters) -> dict[str, Any]:
        try:
            reading = host.run(kernel, {**self.reached, **parameters})
        except OSError as error:
            raise make_error(error) from None
        if reading["interrupted"]:
            raise Interrupted("interrupted while the model was written; it is removed")
        return reading


@contextlib.contextmanager
def _memory_file(parts: Iterable[Any]) -> Iterator[int]:
    """The descriptor of a file in memory with these parts, which the engine of this process reads by its path."""
    descriptor = os.memfd_create("hwdyno-model")
    try:
        for part in parts:
            safe_files.write_all(descriptor, memoryview(part).cast("B"))
            if signals.is_end_requested():
                raise Interrupted("interrupted while the model was made")
        yield descriptor
    finally:
        os.close(descriptor)


def make_model(planned: Planned, source: ModelSource, request: Request) -> tuple[StreamedModel, ...]:
    """What has to be written for an experiment of a store; raises ``UserError`` where it should stay."""
    if source.file:
        return ()
    if request.options.get("keep") or request.options.get("generate"):
        raise UserError(
            "an object store keeps no made model: leave out --keep and --generate, or name yours with --model "
            "s3://BUCKET/KEY.safetensors"
        )
    model, folder = source.made_model, Path(str(planned.fixed["path"]))
    loaders = {point.get("loader", planned.fixed.get("loader")) for point in planned.points}
    reached: Parameters = {name: planned.fixed[name] for name in ("endpoint", "ca_file") if name in planned.fixed}
    description = (
        f"model: {model.name}, {format_size(model.bytes)} of weights, below {format_place(folder)} (made and removed)"
    )
    return (
        StreamedModel(
            description=show_folder(description), where=folder, bytes=model.bytes,
            compute_s=model.bytes * MADE_S_PER_BYTE, model=model, with_graph="onnxruntime" in loaders,
            reached=reach_below(folder, reached),
        ),
    )  # fmt: skip
