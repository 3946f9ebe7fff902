"""What axes mean: a kernel's declaration read from JSON, and the field's own axes for results that carry none."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from hwdyno.model.per_element import PerElement
from hwdyno.model.words import Axis, Declaration, ExperimentResult, Parameters, Run, Scalar, Trait

LARGEST_INTEGER = 1 << 62
"""A bound from here on is the machine's, and limits nothing."""
FREE = frozenset({"seed", "runtime", "interval_s", "ramp_time"})
"""Parameters that may differ between two runs of the same experiment."""
PLACES = frozenset({"path", "port"})
"""Parameters that name a place."""
INTENSITY = "intensity"
"""The axis of the roofline: operations for each byte that memory carries."""

_READS: tuple[Trait, ...] = ("reads",)
_WRITES: tuple[Trait, ...] = ("writes",)
_RANDOM: tuple[Trait, ...] = ("random",)
_SYNCHRONOUS: tuple[Trait, ...] = ("synchronous",)

_PATTERNS: dict[str, tuple[Trait, ...]] = {
    "read": _READS,
    "write": _WRITES,
    "rw": (*_READS, *_WRITES),
    "readwrite": (*_READS, *_WRITES),
    "trim": ("trims",),
    "trimwrite": (*_WRITES, "trims"),
}
_PATTERNS |= {f"rand{word}": (*traits, *_RANDOM) for word, traits in _PATTERNS.items()}
_ENGINES: dict[str, tuple[Trait, ...]] = {
    **dict.fromkeys(("psync", "sync", "pvsync", "pvsync2", "vsync"), _SYNCHRONOUS),
    **dict.fromkeys(("mmap", "stdio"), (*_SYNCHRONOUS, "page_cache")),
    "libaio": ("synchronous_buffered",),
}
_OF_FILES: dict[str, tuple[Trait, ...]] = {
    **dict.fromkeys(("stat", "open", "readdir"), _READS),
    **dict.fromkeys(("create", "rename", "unlink"), _WRITES),
}
FIELD_LOOPS = {
    "write": PerElement(0, 1, allocates=1),
    "copy": PerElement(1, 1, allocates=1),
    **dict.fromkeys(("scale", "mul"), PerElement(1, 1, allocates=1, flops=1)),
    "add": PerElement(2, 1, allocates=1, flops=1),
    "triad": PerElement(2, 1, allocates=1, flops=2),
    "dot": PerElement(2, 0, flops=2),
}
"""The loops of STREAM and BabelStream with the arrays that they count, on a processor that allocates on write."""


def _count(name: str, most: int, title: str = "", *, workers: bool = False) -> Axis:
    return Axis(name, role="concurrency", kind="integer", title=title, workers=workers, least=1, most=most)


FIELD: dict[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis("rw", kind="choice", title="access pattern", traits=_PATTERNS, split="rwmixread"),
        Axis("rwmixread", "%", title="share of reads", kind="integer", least=0, most=100),
        Axis("bs", "B", "size", title="block size", kind="integer", least=1),
        Axis("block", "B", "size", kind="integer"),
        Axis("message", "B", "size", kind="integer"),
        _count("iodepth", 1024, "queue depth"),
        _count("numjobs", 1024, "jobs", workers=True),
        _count("threads", 1024, workers=True),
        _count("streams", 128),
        _count("in_flight", 1024, "in flight"),
        _count("load_streams", 128),
        _count("accelerators", 4096),
        _count("read_threads", 256),
        _count("users", 4096),
        _count("ranks", 4096),
        _count("concurrency", 1024, "requests in flight"),
        Axis("rate", role="rate", default=0),
        Axis("rate_iops", "operations/s", "rate", default=0),
        Axis("rate_bytes", "B", "rate", default=0, kind="integer"),
        Axis("delay", "cycles", "delay", kind="integer", least=0),
        Axis("thinktime", "s", "delay", default=0, title="think time"),
        Axis("ioengine", kind="choice", title="engine", traits=_ENGINES, default="io_uring"),
        Axis("direct", kind="flag", title="direct I/O", default=True),
        Axis("size", "B", title="file size", kind="integer"),
        Axis("offset", "B", kind="integer", default=0),
        Axis("working_set", "B", kind="integer"),
        Axis("stride", "B", default=0, kind="integer"),
        Axis("n", kind="integer", title="equations"),
        Axis("seed", kind="integer", seeds=True),
        Axis("operation", kind="choice", traits=_OF_FILES, per_element=FIELD_LOOPS),
        Axis("locality", kind="choice"),
        Axis("protocol", kind="choice"),
    )
}
"""The field's axes by the name that its tools give them. What a kernel declares of such an axis is the same
(``tests/model/test_axes.py``), so that an imported result reads like a native one; the titles serve both."""
_SETTLED = {"size"}
"""The field's axes that a command settles by itself."""
FIELD_AXES = tuple(FIELD.values())


VALUE_NAMES = {
    **{"double": "FP64", "single": "FP32", "half": "FP16", "bfloat16": "BF16"},
    **{f"int{bits}": f"INT{bits}" for bits in (8, 16, 32, 64)},
    **{
        "fma": "FMA",
        "scalar": "scalar",
        "sse": "SSE",
        "avx2": "AVX2",
        "avx512": "AVX-512",
        "amx": "AMX",
        "neon": "NEON",
    },
    **{"sve": "SVE", "auto": "", "tcp": "TCP", "udp": "UDP"},
}
"""Values by the names that people know, which need no axis's name; what is left to the engine has none."""


BACKGROUND = Axis(
    "background", title="load meanwhile", kind="choice", means="the resource that is driven at its knee meanwhile"
)
"""The load axis of experiments that measure what resources cost each other."""
ALONE = "none"
"""Its value without a load."""


CLIENTS = replace(
    _count("clients", 100_000, workers=True), means="ranks or hosts of this start that take part, the first ones"
)
"""The load axis over the hosts of a site, which every kernel has there."""


SHARED_FILE = Axis(
    "shared_file", title="shared file", kind="flag", default=False,
    means="all hosts use one file, each a region of its own, instead of a file each",
)  # fmt: skip
"""Whether the hosts of a site of several have a file each. Both are as long for each host."""
BETWEEN = Axis(
    "between", kind="text", default="",
    means="which host sends to which: 0-3 is host 0 to host 3 alone, +2 each host to the second one after it",
)  # fmt: skip
"""The direction of ``up`` on a site whose hosts serve each other."""
_OF_A_FILE = {"path", "offset", "size"}


def axes_of_a_site(names: Collection[str], hosts: int, *, between: bool) -> tuple[Axis, ...]:
    """The axes that a kernel with axes ``names`` gets on a site; ``between``: its hosts serve each other."""
    found = [replace(CLIENTS, most=hosts)]
    if set(names) >= _OF_A_FILE:
        found.append(SHARED_FILE)
    if between and {"server", "port"} <= set(names):
        found.append(replace(BETWEEN, default=f"+{hosts // 2}"))
    return tuple(found)


def with_clients(kernels: Mapping[str, Declaration], count: int, *, between: bool = False) -> dict[str, Declaration]:
    """The kernels as a site of this many hosts has them: with the number of those that take part as an axis."""
    return {
        name: replace(declaration, axes=(*declaration.axes, *axes_of_a_site(declaration.names, count, between=between)))
        for name, declaration in kernels.items()
    }


def why_not_here(name: str) -> str:
    """Why a single host has no such axis, and what mends it; empty for any other axis."""
    if name not in {CLIENTS.name, SHARED_FILE.name, BETWEEN.name}:
        return ""
    option = name.replace("_", "-")
    return f"--{option} is for several hosts or ranks, and here is one; start several: mpirun -n 4 hwdyno …"


def read_declarations(kernels: Iterable[Mapping[str, Any]]) -> dict[str, Declaration]:
    """The declarations by their kernels' names, as an engine states them in JSON."""
    return {str(kernel["name"]): _read_declaration(kernel) for kernel in kernels}


def _read_declaration(plain: Mapping[str, Any]) -> Declaration:
    return Declaration(
        measures=str(plain["measures"]),
        operation=plain["operation"],
        counts={str(unit): str(amount) for unit, amount in plain["pass"]},
        writes=plain["writes"],
        consent=tuple(plain["consent"]),
        stateful=plain["stateful"],
        grows=plain["grows"],
        axes=tuple(map(_read_axis, plain["parameters"])),
        possible=tuple(map(dict, plain.get("possible", ()))),
    )


def _read_axis(plain: Mapping[str, Any]) -> Axis:
    name, default = str(plain["name"]), plain.get("default")
    known = FIELD.get(name, Axis(name))
    return Axis(
        name=name,
        unit=plain["unit"],
        role=plain["role"],
        default=None if isinstance(default, list) else default,
        means=plain["means"],
        kind=plain["type"],
        title=known.title,
        seeds=known.seeds,
        workers=plain["workers"],
        least=_bound(plain.get("min")),
        most=_bound(plain.get("max")),
        choices=tuple(plain.get("choices", ())),
        traits={str(word): tuple(traits) for word, traits in plain.get("traits", {}).items()},
        per_element={str(word): PerElement(**counts) for word, counts in plain.get("per_element", {}).items()},
        split=plain.get("split", ""),
    )


def _bound(number: float | None) -> float | None:
    return None if number is None else float(number)


def declare_axes(run: Run) -> Run:
    """The Run with the field's axes wherever an experiment carries no declaration."""
    return replace(run, experiments=tuple(map(with_field_axes, run.experiments)))


def with_field_axes(result: ExperimentResult) -> ExperimentResult:
    """The result with the field's axes that its points name, if it carries no declaration."""
    if result.declaration.axes:
        return result
    names = {result.load, *result.fixed, *(name for point in result.points for name in point.parameters)}
    names |= {FIELD[name].split for name in names & set(FIELD)}
    axes = tuple(
        replace(axis, default=result.fixed.get(name)) if name in _SETTLED else axis
        for name, axis in FIELD.items()
        if name in names
    )
    return replace(result, declaration=replace(result.declaration, axes=axes))


def series_key(kernel: Declaration, point: Parameters, along: Collection[str]) -> tuple[tuple[str, Scalar], ...]:
    """What distinguishes a point, apart from the axes ``along``."""
    seeds = {axis.name for axis in kernel.axes if axis.seeds}
    return tuple(sorted((name, value) for name, value in point.items() if name not in along and name not in seeds))


# --- what a point's words mean


def split_word(text: str) -> tuple[str, str]:
    """A choice and the share after its colon, such as ``randrw`` and ``70``; the share is empty where none is given."""
    word, _, share = text.partition(":")
    return word, share


def list_traits(axes: Iterable[Axis], parameters: Mapping[str, Scalar]) -> frozenset[Trait]:
    """All that the words of a point's choices mean."""
    found: set[Trait] = set()
    for axis in axes:
        if axis.traits:
            found.update(_traits(axis, parameters))
    return frozenset(found)


def _traits(axis: Axis, parameters: Mapping[str, Scalar]) -> tuple[Trait, ...]:
    return axis.traits.get(split_word(str(parameters.get(axis.name) or ""))[0], ())


def find_per_element(parameters: Mapping[str, Scalar], axes: Iterable[Axis] = ()) -> PerElement | None:
    """What the operation of a bandwidth test does to each element; none if it is no known loop over arrays.

    It is as its kernel's axes declare it; in a Run without such a declaration, as the field's tools count it.
    """
    loops = next((axis.per_element for axis in axes if axis.per_element), FIELD_LOOPS)
    return loops.get(str(parameters.get("operation")))


def past_page_cache(axes: Iterable[Axis], parameters: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The words that reach a device, of those choices that always go through the page cache."""
    found: dict[str, Scalar] = {}
    for axis in axes:
        if "page_cache" in (traits := _traits(axis, parameters)):
            wanted = tuple(trait for trait in traits if trait != "page_cache")
            found[axis.name] = next((word for word in axis.choices if axis.traits.get(word) == wanted), axis.choices[0])
    return found


def is_mixed(axis: Axis, parameters: Mapping[str, Scalar]) -> bool:
    """Whether the word that a point has on this axis both reads and writes."""
    return {"reads", "writes"} <= set(_traits(axis, parameters))


def read_share(axes: Iterable[Axis], parameters: Mapping[str, Scalar]) -> float | None:
    """The share of reads, 0 to 1; none where neither an access pattern nor a share tells, and for what only trims."""
    for axis in axes:
        share = parameters.get(axis.split) if axis.split else None
        if parameters.get(axis.name) is None:
            if share is not None:
                return _share(share)
        elif is_mixed(axis, parameters):
            return _share(split_word(str(parameters[axis.name]))[1] or share)
        elif moves := {"reads", "writes"} & set(_traits(axis, parameters)):
            return 1.0 if moves == {"reads"} else 0.0
    return None


def _share(percent: Scalar) -> float:
    """A share given in percent; half where it is not given."""
    try:
        return 0.5 if percent is None else float(percent) / 100
    except ValueError:
        return 0.5


def write_share(axes: Iterable[Axis], parameters: Mapping[str, Scalar]) -> float:
    """The share of operations that write; 0 if no writes are known."""
    share = read_share(axes, parameters)
    return 0.0 if share is None else 1 - share


def splits(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """The axes with words that take a share after a colon, such as ``randrw:70``."""
    return tuple(axis for axis in axes if axis.split)


def shares_split(axes: Iterable[Axis], point: Parameters) -> Parameters:
    """``point`` with ``rw="randrw:70"`` as ``rw="randrw"`` and ``rwmixread=70``; a share that is moot is left out."""
    split = dict(point)
    for axis in splits(axes):
        if axis.name not in split:
            continue
        word, share = split_word(str(split[axis.name]))
        split[axis.name] = word
        if not is_mixed(axis, split):
            split.pop(axis.split, None)
        elif share:
            split[axis.split] = int(share)
    return split


def shares_joined(axes: Iterable[Axis], point: Parameters) -> Parameters:
    """``point`` with the share in its word, as a command takes it: ``rw="randrw:70"``."""
    joined = dict(point)
    for axis in splits(axes):
        share = joined.pop(axis.split, None)
        if share is not None and is_mixed(axis, joined):
            joined[axis.name] = f"{split_word(str(joined[axis.name]))[0]}:{share}"
    return joined


def is_loopback(path: str) -> bool:
    """Whether the words for a network path mean this machine itself."""
    return re.search(r"loop ?-?back|local ?host|\b127\.|\blo\b|same (?:host|node|machine)", path.lower()) is not None
