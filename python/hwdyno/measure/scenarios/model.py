"""A model that hwdyno makes on the storage to measure, or a user's own file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.measure.models import GGUF, GRAPH, WEIGHTS, gguf, onnx, safetensors, shapes
from hwdyno.measure.models.installed import is_here, need
from hwdyno.measure.scenarios.preparation import Interrupted, Preparation, Says
from hwdyno.measure.scenarios.request import Option, Request, free_bytes
from hwdyno.measure.workspace import MadeFolder
from hwdyno.model.units import format_size
from hwdyno.model.words import Parameters, UserError
from hwdyno.system import safe_files, signals
from hwdyno.system.urls import in_object_store

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host

SEED = 1
"""Fixed, because other weights would be another file."""
KV_FILES = "kv-*"
MAX_OF_ROOM = 0.9
FORMATS = {".safetensors", ".onnx", ".gguf"}
MADE_S_PER_BYTE = 4e-9
"""CPU time of making and checking a byte, measured on a server core of 2024."""
_PIECE = 8 << 20

MODEL = Option(
    "--model", f"{', '.join(shapes.NAMES)}, or a file: .safetensors, .onnx, .gguf", "NAME|FILE",
    default="62m",
)  # fmt: skip


@dataclass(frozen=True)
class ModelSource:
    """The model of a request: one that is made in a folder of each storage, or a file or an object of the user."""

    name: str
    file: Path | None = None
    """The user's; an object is ``s3://BUCKET/KEY``."""

    @property
    def made_model(self) -> shapes.Model:
        """The model that is made."""
        return shapes.find(self.name)

    def at(self, place: Path) -> Path:
        """Its folder on a storage, or its file."""
        return self.file or place / f"hwdyno-model-{self.name}"

    def fixed_parameters(self, place: Path) -> Parameters:
        """What every point of its experiments shares."""
        return {"model": self.name, "path": str(self.at(place))}

    def loads(self, loader: str) -> bool:
        """Whether a loader or a stack reads this model's format."""
        ending = self.file.suffix if self.file else ""
        if loader == "llama.cpp":
            return ending == ".gguf" if self.file else self.made_model.decoder is not None
        if loader in {"onnxruntime", "mapped"}:
            return not self.file or ending == ".onnx"
        return loader != "safetensors" or not self.file or ending == ".safetensors"


def read_source(request: Request) -> ModelSource:
    """The model that the options name; raises ``UserError``."""
    text = str(request.options.get("model") or MODEL.default)
    path = Path(text)
    if in_object_store(path):
        if path.suffix != ".safetensors" or len(request.places) > 1:
            raise UserError(f"--model {text}: an object is a .safetensors, and measured without other --path")
        return ModelSource(text, path)
    if path.suffix not in FORMATS and os.sep not in text:
        return ModelSource(shapes.find(text).name)
    if not path.is_file():
        raise UserError(f"--model {text}: no such file; name a .safetensors, .onnx or .gguf file")
    if path.suffix not in FORMATS:
        raise UserError(f"--model {text}: hwdyno reads .safetensors, .onnx and .gguf files")
    if path.suffix == ".safetensors":
        safetensors.read_header(path)
    if len(request.places) > 1:
        raise UserError("--model FILE lies on one storage; give one --path, or a model's name")
    return ModelSource(text, path.absolute())


def usable(
    source: ModelSource, given: str | None, known: Iterable[str], defaults: Iterable[str], option: str
) -> tuple[str, ...]:
    """The loaders or stacks to measure: those that were given, or those of the defaults that are installed and fit.

    Raises ``UserError`` for one that is unknown, not installed, or that does not read this model.
    """
    from hwdyno.system.suggestions import hint

    names = list(known)
    if given:
        chosen = tuple(name.strip() for name in given.split(","))
        for name in chosen:
            if name not in names:
                raise UserError(f"--{option} {name} is unknown; {hint(name, names)}")
            if not source.loads(name):
                raise UserError(f"{name} does not read the model {source.name}; use another --{option} or --model")
            need(name)
        return chosen
    chosen = tuple(name for name in defaults if source.loads(name) and is_here(name))
    if not chosen:
        need("onnxruntime")
        raise UserError(f"nothing here runs the model {source.name}; use a decoder, such as --model 62m")
    return chosen


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelFiles(Preparation):
    """A made model in its folder: weights, graph, and what llama.cpp reads where that is used."""

    model: shapes.Model
    with_gguf: bool
    keeps: bool

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """The files, each tensor of which has the checksum that it was made with; after, they go unless they stay."""
        folder = MadeFolder(self.where, WEIGHTS, GRAPH, GGUF, "*.part", KV_FILES, keeps=self.keeps)
        end = folder.release if self.keeps or not folder.is_new else folder.remove
        try:
            self._make(says)
            yield True
        finally:
            # Not ``for_files``, which makes a folder that is gone.
            with contextlib.suppress(OSError), safe_files.Folder.open_named(self.where) as there:
                there.clear(KV_FILES)
            end()

    def _make(self, says: Says) -> None:
        """Write what is missing, and check all tensors against their checksums."""
        parts: dict[str, Callable[[], Iterable[Any]]] = {
            WEIGHTS: lambda: safetensors.parts(self.model, SEED),
            GRAPH: lambda: [onnx.make_graph(self.model, WEIGHTS, safetensors.read_header(self.where / WEIGHTS).places)],
        }
        if self.with_gguf:
            parts[GGUF] = lambda: gguf.parts(self.model, SEED)
        missing = [name for name in parts if not (self.where / name).exists()]
        if missing:
            says(f"making {self.model.name}, {format_size(self.model.bytes)} of random weights, in {self.where} …")
        with safe_files.Folder.for_files(self.where) as there:
            for name in missing:
                self._write(there, name, parts[name]())
        weights = self.where / WEIGHTS
        if wrong := safetensors.wrong_tensors(weights, safetensors.read_header(weights)):
            raise UserError(f"{weights}: the tensor {wrong[0]} has another checksum than it was made with; remove it")

    def _write(self, there: safe_files.Folder, name: str, parts: Iterable[Any]) -> None:
        part = f"{name}.part"
        try:
            descriptor = there.create(part)
            try:
                for piece in parts:
                    for at in range(0, memoryview(piece).nbytes, _PIECE):
                        safe_files.write_all(descriptor, memoryview(piece).cast("B")[at : at + _PIECE])
                        if signals.is_end_requested():
                            raise Interrupted("interrupted while the model was made")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            there.publish(part, name)
        except OSError as error:
            raise UserError(
                f"{self.where / name} could not be written: {error.strerror}; free space or use a smaller --model"
            ) from None


def files_for(
    source: ModelSource, place: Path, request: Request, *, with_gguf: bool, restores: int = 0
) -> tuple[ModelFiles, ...]:
    """What has to be made of a model on a storage; ``restores`` are bytes of KV cache that points write beside it.

    Raises ``UserError`` where it does not fit.
    """
    if source.file is not None:
        return ()
    keeps = bool(request.options.get("keep") or request.options.get("generate"))
    model, folder = source.made_model, source.at(place)
    sizes = {WEIGHTS: model.bytes, **({GGUF: model.gguf_bytes} if with_gguf else {})}
    size = sum(bytes_ for name, bytes_ in sizes.items() if not (folder / name).exists())
    free = free_bytes(place)
    if size + restores > MAX_OF_ROOM * free:
        raise UserError(
            f"the model {model.name} takes {format_size(size + restores)}, and {place} has {format_size(free)} free; "
            "use a smaller --model"
        )
    fate = ("made and kept" if keeps else "made and removed") if size else "existing model"
    description = f"model: {model.name}, {format_size(model.bytes)} of weights, in {folder} ({fate})"
    return (
        ModelFiles(
            description=description, where=folder, bytes=size + restores, compute_s=size * MADE_S_PER_BYTE, model=model,
            with_gguf=with_gguf, keeps=keeps,
        ),
    )  # fmt: skip
