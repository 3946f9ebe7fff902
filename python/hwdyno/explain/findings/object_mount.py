"""What a bucket's mount (FUSE) costs against requests to its store, where both were measured."""

from __future__ import annotations

from collections.abc import Iterator

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, apart, contrast, percent, quantity, times
from hwdyno.model.kernels import OBJECT_REQUESTS, STORAGE_BLOCKS
from hwdyno.model.machine import Disk, Machine

LARGE_BYTES = 1 << 20
"""Smallest reads that measure the bandwidth of either way, and not the latency of a request."""
COSTS = 0.1
"""Share of the direct throughput from which on a loss is worth a word."""
NO_BUCKETS = ("mountpoint-s3", "fuse", "")
"""Sources of a mount that name no bucket."""
FUSE = "fuse"
"""The survey's kind of a disk that is a mounted bucket."""


def find_mount(machine: Machine) -> Disk | None:
    """The mounted bucket below the measured path; none where it is on something else."""
    return next((disk for disk in machine.storage.disks if disk.kind == FUSE), None)


def find_bucket(disk: Disk) -> str:
    """The bucket that a mount names as its source; empty where it names its program or a remote alone."""
    head, _, path = (disk.name or "").partition(":")
    if disk.driver == "rclone":
        return path.strip("/").partition("/")[0]
    return "" if head in {disk.driver, *NO_BUCKETS} else head


def object_mount(case: Case) -> Verdict | None:
    """The best large reads of a file on the mount against the best large reads of its bucket's objects."""
    disk = find_mount(case.run.machine)
    if disk is None:
        return None
    file, direct = _find_best(_list_file_reads(case)), _find_best(_list_object_reads(case, find_bucket(disk)))
    if file is None or direct is None:
        return None
    through, direct_rate = file.point.throughput, direct.point.throughput
    share = through.value / direct_rate.value
    program = disk.driver or "the mount"
    rates = contrast(quantity(through.value, through.unit), quantity(direct_rate.value, direct_rate.unit), "vs")
    layers = [layer.detail for layer in case.run.machine.storage.chain if layer.detail and program in layer.detail]
    mount = f"Mount: {'; '.join(layers) or program}."
    if not find_bucket(disk):
        mount += " It does not state its bucket."
    evidence = {"share": share, "mount_bytes_s": through.value, "direct_bytes_s": direct_rate.value, "program": program}
    slower, faster = sorted((through, direct_rate), key=lambda rate: rate.value)
    if abs(share - 1) < COSTS or not apart(slower, faster):
        return None
    if share > 1:
        return Verdict(
            "info",
            f"A cache of the mount answers: {program} reads a file ({file.label}) {times(share)} times as fast as "
            f"requests read objects ({direct.label}): {rates}. {mount}",
            evidence,
            f"Measure a file larger than its cache: {file.command(size=8 * int(file.number('size') or LARGE_BYTES))}",
            weight=share,
            resource=file.result.resource,
        )
    return Verdict(
        "warning",
        f"The mount costs {percent(1 - share)} of the reads: {rates}. Through {program} a file is read "
        f"({file.label}), and by requests objects are ({direct.label}). {mount}",
        evidence,
        f"Read the objects directly where throughput counts, or with more requests in flight: "
        f"{file.command(numjobs=4 * int(file.number('numjobs') or 1))}",
        weight=1 - share,
        resource=file.result.resource,
    )


def _find_best(cases: Iterator[Case]) -> Case | None:
    """The fastest of some sound points."""
    sound = [case for case in cases if case.point.validity != "invalid" and case.point.throughput.unit == "bytes/s"]
    best = max(sound, key=lambda case: case.point.throughput.value, default=None)
    return best if best is not None and best.point.throughput.value > 0 else None


def _list_file_reads(case: Case) -> Iterator[Case]:
    """Direct reads of large blocks: others come from the page cache, which is no mount's."""
    for here in _list_points(case, STORAGE_BLOCKS):
        if here.traits & {"reads", "writes", "trims"} == {"reads"} and here.direct and _is_large(here, "bs"):
            yield here


def _list_object_reads(case: Case, mounted: str) -> Iterator[Case]:
    """Large reads of whole objects or ranges, of the bucket that is mounted where both are known."""
    sizes = {"get": "object_size", "range": "range_size"}
    for here in _list_points(case, OBJECT_REQUESTS):
        size = sizes.get(str(here.parameter("operation") or "get"))
        bucket = here.parameter("bucket")
        if mounted and bucket and bucket != mounted:
            continue
        if size is not None and _is_large(here, size) and not here.number("rate"):
            yield here


def _list_points(case: Case, kernel: str) -> Iterator[Case]:
    for result in case.run.experiments:
        if result.kernel == kernel:
            yield from (Case(case.run, result, at) for at in range(len(result.points)))


def _is_large(case: Case, name: str) -> bool:
    return (case.number(name) or 0.0) >= LARGE_BYTES


RULES = (
    Rule(
        "object_mount", "run", object_mount, Applies(kernels=(OBJECT_REQUESTS,), machine=("storage.disks",)),
        about="storage",
    ),
)  # fmt: skip
