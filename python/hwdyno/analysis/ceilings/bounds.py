"""Which ceiling bounds which measurement, and at what throughput."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hwdyno.analysis.ceilings import compute, gpu, inference, memory, named, network, object_store
from hwdyno.model.axes import FIELD_AXES, list_traits, read_share
from hwdyno.model.units import as_number, format_value
from hwdyno.model.words import Axis, Ceiling, CeilingClass, Measurement, Scalar, Value

RATED_BLOCK_BYTES = 4096
"""Makers rate operations per second at this size; larger blocks cannot be faster."""

KEYED: dict[str, Callable[[str, Mapping[str, Scalar]], bool]] = {
    memory.METRIC: memory.applies,
    "flop_s/": compute.applies,
    "wire/": network.applies_wire,
    "copies/": network.applies_copies,
    object_store.METRIC: object_store.applies,
    gpu.PEAK: gpu.applies,
    gpu.MEMORY: gpu.applies,
    gpu.LOADED: gpu.applies_to_load,
    inference.TOKENS: inference.applies,
    inference.FILE_READ: inference.applies_to_load,
    inference.OBJECT_READ: inference.applies_to_stream,
    inference.CACHED_IMAGES: inference.applies_to_images,
    inference.SERVED_BY_MEMORY: inference.applies_to_served,
    inference.SEARCH_GETS: inference.applies_to_search,
    named.LINE: named.applies,
    named.HOST_COPY: named.applies,
    named.DEVICE_COPY: named.applies,
}
"""Whether a ceiling bounds a measurement with these parameters, by the prefix of its metric."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that a ceiling allows one measurement, in the unit of its throughput."""

    ceiling: Ceiling
    value: float
    unit: str
    formula: str


def block_bytes(parameters: Mapping[str, Scalar], axes: Iterable[Axis] = FIELD_AXES) -> int | None:
    """The bytes of one operation; none if no axis gives them."""
    sizes = (as_number(parameters.get(axis.name)) for axis in axes if axis.role == "size")
    return next((int(size) for size in sizes if size), None)


def applies_by_key(ceiling: Ceiling, parameters: Mapping[str, Scalar]) -> bool | None:
    """Whether a ceiling with a keyed metric applies to these parameters; none for any other ceiling."""
    is_bound = next((bounds for start, bounds in KEYED.items() if ceiling.metric.startswith(start)), None)
    return is_bound(ceiling.metric, parameters) if is_bound else None


def find_bound(ceiling: Ceiling, parameters: Mapping[str, Scalar], axes: Sequence[Axis] = FIELD_AXES) -> Bound | None:
    """The most that ``ceiling`` allows a measurement with these parameters; none where it does not apply.

    ``axes`` are the kernel's. A bound of reads alone lets a mix that reads a share r reach 1/r of it; so for writes.
    """
    keyed = applies_by_key(ceiling, parameters)
    if keyed is not None:
        here = gpu.scale_by_intensity(ceiling, parameters)
        return Bound(ceiling, here.value, here.unit, here.formula) if keyed else None
    share = read_share(axes, parameters)
    metric, value, formula = ceiling.metric, ceiling.value, ceiling.formula
    if share is None:
        named = metric.startswith(("read", "write", "rand"))
        return None if named else Bound(ceiling, value, ceiling.unit, formula)
    if ceiling.unit == "operations/s":
        size = block_bytes(parameters, axes)
        random = "random" in list_traits(axes, parameters) or metric.startswith("total")
        if size is None or size < RATED_BLOCK_BYTES or not random:
            return None
        value *= size
        formula += f"; × {size} B = {format_value(value, 'bytes/s')}"
    elif ceiling.unit != "bytes/s":
        return None
    direction = next((d for d in ("read", "write", "total") if metric.removeprefix("rand").startswith(d)), None)
    part = {"read": share, "write": 1 - share, "total": 1.0}.get(direction or "", 0.0)
    if not part:
        return None
    if part < 1:
        value /= part
        formula += f"; {part:.0%} of the bytes are {'read' if direction == 'read' else 'written'}: / {part:g} = "
        formula += format_value(value, "bytes/s")
    return Bound(ceiling, value, "bytes/s", formula)


def bounds_for(
    ceilings: Iterable[Ceiling], parameters: Mapping[str, Scalar], axes: Sequence[Axis] = FIELD_AXES
) -> tuple[Bound, ...]:
    """Every bound of a measurement with these parameters, the tightest first."""
    found = (find_bound(ceiling, parameters, axes) for ceiling in ceilings)
    return tuple(sorted((bound for bound in found if bound), key=lambda bound: bound.value))


def bound_for(
    ceilings: Iterable[Ceiling], parameters: Mapping[str, Scalar], kind: CeilingClass | None = None
) -> Bound | None:
    """The tightest bound of a measurement, of one class or of any."""
    of_kind = (ceiling for ceiling in ceilings if kind in {None, ceiling.kind})
    return next(iter(bounds_for(of_kind, parameters)), None)


@dataclass(frozen=True, slots=True)
class Utilization:
    """A measurement beside one bound: the share that it reaches, the bound, and the figure concerned."""

    share: float
    bound: Bound
    measured: Value


def utilizations(
    ceilings: Iterable[Ceiling],
    point: Measurement,
    parameters: Mapping[str, Scalar],
    kind: CeilingClass | None = None,
    axes: Sequence[Axis] = FIELD_AXES,
) -> list[Utilization]:
    """A measurement against each ceiling that bounds it, of one class or of any, the tightest first.

    ``parameters`` are all of the point's, what its experiment fixes included; ``axes`` are its kernel's.
    """
    found = []
    for bound in bounds_for((ceiling for ceiling in ceilings if kind in {None, ceiling.kind}), parameters, axes):
        measured = next((v for v in (point.throughput, point.rate) if v is not None and v.unit == bound.unit), None)
        if measured is not None and bound.value > 0:
            found.append(Utilization(measured.value / bound.value, bound, measured))
    return found
