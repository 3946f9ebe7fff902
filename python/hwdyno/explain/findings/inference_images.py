"""Rules on a vision model that is fed from files: images a second, which stage takes them, what storage still gives."""

from __future__ import annotations

from dataclasses import dataclass

from hwdyno.analysis.ceilings.inference import IMAGES
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.model.units import format_duration, format_size, plural
from hwdyno.model.words import ExperimentResult, Measurement

STAGES = {"read_s": "reading", "decode_s": "decoding", "infer_s": "inference"}
BUSY = 0.8
"""The share of the processors' time from which on the stages compete for them."""
WAITS = 0.5
"""The share of an image's time that reading takes, from which on the storage is the limit."""
CACHED = 0.05
"""The share of the files in the page cache from which on images are not cold."""


@dataclass(frozen=True)
class ImagePoint:
    """One point: workers that classify images."""

    at: int
    point: Measurement
    workers: int
    cold: bool

    @property
    def rate(self) -> float:
        """Images a second."""
        return self.point.throughput.value

    @property
    def stages(self) -> dict[str, float]:
        """Seconds of an image by stage."""
        return {name: as_number(self.point.details.get(name)) or 0.0 for name in STAGES}

    def share(self, stage: str) -> float:
        """The part of an image's time that a stage takes."""
        return self.stages[stage] / (sum(self.stages.values()) or 1.0)


def list_points(result: ExperimentResult) -> list[ImagePoint]:
    """The points of an experiment that count."""
    found = []
    for at, point in enumerate(result.points):
        given = {**result.fixed, **point.parameters}
        if (
            point.validity != "invalid"
            and point.throughput.value > 0
            and any(ImagePoint(at, point, 1, True).stages.values())
        ):
            found.append(ImagePoint(at, point, int(as_number(given.get("threads")) or 1), given.get("cache") == "cold"))
    return found


def images_from_files(case: Case) -> Verdict | None:
    """The most images/s from storage, its stages, and the limit by what was measured of them."""
    found = list_points(case.result)
    best = max((images for images in found if images.cold), key=lambda images: images.rate, default=None)
    if best is None:
        return None
    warm = next((images for images in found if not images.cold and images.workers == best.workers), None)
    stages = ", ".join(
        f"{word} {format_duration(best.stages[name])} ({percent(best.share(name))})" for name, word in STAGES.items()
    )
    gain = "" if warm is None else (
        f" From the page cache it is {_rate(warm.rate)}: "
        + ("a faster storage would not help." if best.rate >= 0.9 * warm.rate else "a faster storage still helps.")
    )  # fmt: skip
    model = case.result.fixed.get("model") or "The model"
    here = Case(case.run, case.result, best.at)
    return Verdict(
        "info",
        f"Model {model} classifies {_rate(best.rate)} from files on {case.storage} with "
        f"{plural(best.workers, 'worker')}. An image takes: {stages}. {_limit(best, case.threads)}{gain}",
        {
            "headline": {"title": f"{model} from files", "value": best.rate, "unit": "images/s"},
            **best.stages,
            **({} if warm is None else {"from_memory": warm.rate}),
        },
        f"Try more workers: {here.command(threads=2 * best.workers, cache='cold')}",
        points=(best.at,),
    )


def _rate(value: float) -> str:
    return f"{value:,.3g} images/s"


def _limit(images: ImagePoint, processors: int | None) -> str:
    """A sentence on what limits the images, by their stages and the processors' time."""
    point = images.point
    if images.share("read_s") >= WAITS:
        return f"Storage limits it: each worker waits for reads for {percent(images.share('read_s'))} of the time."
    if point.cpu_user_s is not None and point.cpu_system_s is not None and processors and point.elapsed_s:
        busy = (point.cpu_user_s + point.cpu_system_s) / point.elapsed_s
        slowest = max(("decode_s", "infer_s"), key=images.share)
        if busy >= BUSY * processors:
            return f"The processors limit it, {busy:.1f} of {processors} are busy, most of all with {STAGES[slowest]}."
        if busy >= BUSY * images.workers:
            return f"Each worker is busy with {STAGES[slowest]}; {processors - busy:.1f} processors are free."
    return "Limit not identified."


def images_not_cold(case: Case) -> Verdict | None:
    """Images that were to come from storage, of which a part was in the page cache."""
    share = as_number(case.point.details.get("cached_before"))
    if case.parameter("cache") != "cold" or share is None or share <= CACHED:
        return None
    size = as_number(case.point.details.get("image_bytes")) or 0.0
    return Verdict(
        "warning",
        f"Not from storage ({case.label}): {percent(share)} of the images were in the page cache, of "
        f"{format_size(size)} that were read.",
        {"cached_before": share, "limit": CACHED},
        f"Measure on a filesystem of the storage, not on tmpfs: {case.command()}",
        weight=share,
    )


RULES = (
    Rule("images_not_cold", "point", images_not_cold, Applies(kernels=(IMAGES,), needs=("details.cached_before",)),
         degrades=True),
    Rule("images_from_files", "experiment", images_from_files, Applies(kernels=(IMAGES,))),
)  # fmt: skip
