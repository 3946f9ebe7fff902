"""Images a second of a vision model that is fed from JPEG files on the storage to measure."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.measure.models import jpeg_images
from hwdyno.measure.models.installed import need
from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.model import MAX_OF_ROOM, MODEL, SEED, ModelSource, files_for, read_source
from hwdyno.measure.scenarios.preparation import Interrupted, Preparation, Says
from hwdyno.measure.scenarios.request import Chosen, Option, Request, free_bytes
from hwdyno.measure.scenarios.scenario import Scenario
from hwdyno.measure.workspace import MadeFolder
from hwdyno.model.units import format_size, plural
from hwdyno.model.words import UserError
from hwdyno.system import safe_files, signals

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host

KERNEL = "inference_images"
RESNET = "resnet50"
DEFAULT_COUNT, MAX_COUNT = 256, 1_000_000
FILES, PART = "image-*.jpeg", "image.part"


def make(request: Request, host: Host) -> Scenario:
    """One experiment for each storage."""
    return make_scenario(request, host, source_for(request), parse_count(str(request.options["images"])))


def make_scenario(request: Request, host: Host, source: ModelSource, count: int, *, names: bool = False) -> Scenario:
    """This many images on each storage; with ``names`` an experiment has its storage's name also where there is one."""
    from hwdyno.measure.experiments.inference import IMAGES

    need("onnxruntime")
    jpeg_images.need()
    request.check_places()
    chosen: list[Chosen] = []
    preparations: list[Preparation] = []
    for name, place in request.places:
        folder = place / f"hwdyno-images-{count}"
        experiment = replace(
            IMAGES,
            name=f"{IMAGES.name}@{name}" if names or len(request.places) > 1 else IMAGES.name,
            fixed={**IMAGES.fixed, "model": source.name, "files": count},
            settled={"path": str(source.at(place)), "folder": str(folder)},
        )
        chosen.append((request.as_part(experiment, experiment.time_share), request.axes))
        preparations += [*files_for(source, place, request, with_gguf=False), images_in(folder, count, request)]
    return Scenario(
        plan=request.plan(chosen, host),
        preparations=tuple(preparations),
        is_prepared_only=bool(request.options.get("generate")),
    )


def source_for(request: Request) -> ModelSource:
    """The vision model of a request: ResNet-50 unless another is named; raises ``UserError``."""
    if str(request.options.get("model") or MODEL.default) == MODEL.default:
        return ModelSource(RESNET)
    source = read_source(request)
    if source.file.suffix != ".onnx" if source.file else source.made_model.family != "vision":
        raise UserError(f"--images needs a vision model; use --model {RESNET} or an .onnx file")
    return source


def parse_count(text: str) -> int:
    """How many images an option asks for; raises ``UserError``."""
    if not text.isdecimal() or not 1 <= int(text) <= MAX_COUNT:
        raise UserError(f"--images {text} is no number of images; use 1 to {MAX_COUNT}, such as {DEFAULT_COUNT}")
    return int(text)


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageFiles(Preparation):
    """JPEG files in a folder, made unless they are there."""

    count: int
    keeps: bool

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """The files; after, they go unless they stay. Raises ``UserError`` in one line, and ``Interrupted``."""
        folder = MadeFolder(self.where, FILES, PART, keeps=self.keeps)
        end = folder.release if self.keeps or not folder.is_new else folder.remove
        try:
            self._make(says)
            yield True
        finally:
            end()

    def _make(self, says: Says) -> None:
        if all((self.where / jpeg_images.name_image(at)).exists() for at in range(self.count)):
            return
        says(f"making {plural(self.count, 'JPEG image')} in {self.where} …")
        try:
            with safe_files.Folder.for_files(self.where) as there:
                for at, data in enumerate(jpeg_images.make_images(self.count, SEED)):
                    if signals.is_end_requested():
                        raise Interrupted("interrupted while the images were made")
                    if not (self.where / jpeg_images.name_image(at)).exists():
                        _write(there, jpeg_images.name_image(at), data)
        except OSError as error:
            raise UserError(
                f"the images in {self.where} could not be written: {error.strerror}; free space or use fewer --images"
            ) from None


def _write(there: safe_files.Folder, name: str, data: bytes) -> None:
    """Write a file; what reads it cold has it written out before."""
    descriptor = there.create(PART)
    try:
        safe_files.write_all(descriptor, data)
    finally:
        os.close(descriptor)
    there.publish(PART, name)


def images_in(folder: Path, count: int, request: Request) -> ImageFiles:
    """What has to be made of the images in a folder; raises ``UserError`` where they do not fit."""
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    missing = count - len(there.intersection(map(jpeg_images.name_image, range(count)))) if there else count
    size, free = missing * jpeg_images.MEAN_BYTES, free_bytes(folder)
    if size > MAX_OF_ROOM * free:
        raise UserError(
            f"{plural(count, 'image')} take {format_size(size)}, and {folder.parent} has {format_size(free)} free; "
            "use fewer --images"
        )
    keeps = bool(request.options.get("keep") or request.options.get("generate"))
    fate = ("made and kept" if keeps else "made and removed") if missing else "existing images"
    return ImageFiles(
        description=f"images: {plural(count, 'JPEG file')} in {folder} ({fate})",
        where=folder,
        bytes=size,
        compute_s=size / jpeg_images.MADE_BYTES_S,
        count=count,
        keeps=keeps,
    )


KIND = Kind(
    name="images",
    command="inference",
    make=make,
    title="images",
    options=(Option("--images", "images/s of ResNet-50, fed from so many JPEG files", "COUNT"),),
    chosen_by="images",
    kernel=KERNEL,
    hidden={"path", "model", "folder", "files"},
    experiments=("inference.images",),
    brief={"images": "64"},
)
