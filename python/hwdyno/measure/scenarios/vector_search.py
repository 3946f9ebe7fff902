"""A vector index on the storage, or in an object store: it is built once, and then searched."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.analysis.ceilings.inference import name_plain_gets
from hwdyno.measure.scenarios import plain_ranges
from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.object_folder import (
    ObjectFolder,
    name_folder,
    reach,
    report_left,
    show_folder,
)
from hwdyno.measure.scenarios.preparation import Interrupted, Preparation, Says, make_error
from hwdyno.measure.scenarios.request import Option, Request
from hwdyno.measure.scenarios.scenario import Scenario
from hwdyno.measure.workspace import MadeFolder
from hwdyno.model.kernels import INFERENCE_VECTOR_SEARCH, OBJECT_LAYOUT
from hwdyno.model.units import format_count, format_duration, format_ns, format_size
from hwdyno.model.words import Axis, Parameters, Run, Scalar, UserError
from hwdyno.system import safe_files, signals
from hwdyno.system.suggestions import hint
from hwdyno.system.urls import format_place, in_object_store, reach_below

if TYPE_CHECKING:
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan

KERNEL = INFERENCE_VECTOR_SEARCH
BUILDER = "inference_vector_index"
MAGIC = b"hwdynoVS"
"""What an index begins with (crates/engine/src/training/vectors/file.rs)."""
HIDDEN = {"path", "endpoint", "ca_file", "timeout", "index", "storage", "seed", "interval_s"}
INDICES = ("diskann", "hnsw", "ivf")
RUNTIME_S = {"quick": 2.0, "standard": 30.0, "full": 120.0}
FILE, PART = "vectors.hwdyno", "vectors.part"
# The layout of crates/engine/src/training/vectors/file.rs: a header and blocks of whole sectors, then sections.
_SECTOR, _TRAILER, _SECTION = 4096, 16, 12
_PIECE = 128 << 10
_TRUTH = 100
_IVF_ROUNDS = 7
# CPU time of one comparison of two vectors in building a graph and of one dimension in cutting lists, s, as measured
# on a server core of 2024; a DiskANN graph is gone through twice, with more candidates than an HNSW one.
_COMPARISON_S, _DIMENSION_S, _CUT_S = 0.15e-6, 0.13e-9, 0.25e-9
_HNSW_SHARE = 0.35


def make(request: Request, host: Host) -> Scenario:
    """One experiment for each index: each storage, and each value of what an index is made of.

    For an index in an object store there is another one: plain GETs of its reads' size.
    """
    from hwdyno.measure import plan as plans

    kinds = request.options["vector_search"].split(",")
    for kind in kinds:
        if kind not in INDICES:
            raise UserError(f"no index is called '{kind}'; {hint(kind, INDICES)}")
    kernels = host.kernels()
    declared = {axis.name: axis for axis in kernels[KERNEL].axes}
    makes = set(kernels[BUILDER].names) - HIDDEN - {"threads"}
    given = dict(request.axes)
    shape_axes: list[tuple[str, list[Scalar]]] = [
        (name, list(plans.read_axis(given.pop(name), declared, name, KERNEL))) for name in list(given) if name in makes
    ]
    request.check_places()
    reached, keeps = reach(request), bool(request.options.get("keep") or request.options.get("generate"))
    if reached and keeps:
        raise UserError("an object store keeps no index: leave out --keep and --generate")
    many = len(request.places) > 1
    in_store = {**reached, "beam": declared["beam"].default}
    searches = [
        _experiment(kind, shape, place, shape_axes, in_store, many=many)
        for place in request.places
        for kind in kinds
        for shape in _shapes(shape_axes)
    ]
    chosen = [(request.as_part(search, RUNTIME_S["quick"]), given) for search in searches]
    chosen += [
        (_plain(search, given, declared, kernels[BUILDER].axes), {})
        for search in searches
        if "endpoint" in search.settled
    ]
    plan = replace(request, peers=False).plan(chosen, host)
    if "runtime" not in given and not request.is_brief:
        plan = replace(plan, profile=replace(plan.profile, runtime_s=RUNTIME_S[request.profile]))
    return Scenario(
        plan=plan,
        preparations=tuple(
            make_object_index(search, plan, host, reached)
            if "endpoint" in search.settled
            else make_index(planned.fixed, host, keeps=keeps)
            for search, planned in zip(searches, plan.experiments, strict=False)
        ),
        summary=_summary,
        is_prepared_only=bool(request.options.get("generate")),
    )


def _shapes(shape_axes: list[tuple[str, list[Scalar]]]) -> list[Parameters]:
    """Every combination of what an index is made of."""
    shapes: list[Parameters] = [{}]
    for name, values in shape_axes:
        shapes = [{**shape, name: value} for shape in shapes for value in values]
    return shapes


def _experiment(
    kind: str,
    shape: Parameters,
    place: tuple[str, Path],
    shape_axes: Sequence[tuple[str, list[Scalar]]],
    in_store: Parameters,
    *,
    many: bool,
) -> Experiment:
    """The experiment for one index on one storage, by name and path, one of many or not.

    ``in_store`` are the parameters that a place in an object store needs.
    """
    from hwdyno.measure.experiments.inference import VECTOR_SEARCH

    several = [f"{name}-{shape[name]}" for name, values in shape_axes if len(values) > 1]
    words = "-".join(str(value) for value in shape.values())
    storage, path = place
    settled: Parameters = {"storage": storage}
    if in_object_store(path):
        settled |= {"path": format_place(name_folder(path)), **in_store}
    else:
        settled["path"] = str(path / "-".join(filter(None, ["hwdyno-vectors", kind, words])))
    name = ".".join([VECTOR_SEARCH.name, kind, *several]) + (f"@{storage}" if many else "")
    return replace(
        VECTOR_SEARCH,
        name=name,
        fixed={**VECTOR_SEARCH.fixed, "index": kind, **shape},
        settled=settled,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Index(Preparation):
    """An index, built unless it exists."""

    parameters: Parameters
    """The builder's."""
    keeps: bool = False
    """Whether it stays for the next command."""

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """The index; after, what was built goes, unless it is to stay."""
        folder = MadeFolder(self.where, FILE, PART, keeps=self.keeps)
        is_new = not os.path.lexists(self.where / FILE)
        if is_new:
            says(f"building the {self.parameters['index']} index in {self.where} …")
        try:
            try:
                with signals.at_leave(signals.Stage.REMOVE, lambda: self._end(folder, is_new)):
                    reading = host.run(BUILDER, self.parameters)
            except OSError as error:
                folder.remove()
                raise make_error(error) from None
            if reading["streams"]:
                size = format_size(reading["streams"][0]["bytes"])
                says(f"built {size} in {format_duration(reading['elapsed_s'])}")
            if reading["interrupted"]:
                raise Interrupted("interrupted while the index was built")
            yield True
        finally:
            self._end(folder, is_new)

    def _end(self, folder: MadeFolder, is_new: bool) -> None:
        """Remove what was built, unless it is to stay."""
        if not is_new or self.keeps:
            folder.release()
            return
        if built := safe_files.made_with(self.where / FILE, MAGIC):
            built.remove()
        folder.remove()


@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectIndex(ObjectFolder):
    """An index of the run as an object, and beside it the objects of plain GETs."""

    parameters: Parameters
    """The builder's."""
    plain: Mapping[str, Any]
    """The parameters of the objects' layout."""

    def fill(self, host: Host, says: Says) -> None:
        """Build the index and write both; raises ``UserError``, and ``Interrupted`` where it was stopped."""
        says(f"building the {self.parameters['index']} index in {show_folder(format_place(self.where))} …")
        try:
            reading = host.run(BUILDER, self.parameters)
            if not reading["interrupted"]:
                host.run(OBJECT_LAYOUT, {**self.reached, **self.plain, "marked": True})
        except OSError as error:
            raise make_error(error) from None
        if reading["interrupted"]:
            raise Interrupted("interrupted while the index was built; it is removed")
        report_left(reading["details"], says)
        says(f"built {format_size(reading['streams'][0]['bytes'])} in {format_duration(reading['elapsed_s'])}")


def _builder_parameters(fixed: Parameters, host: Host) -> tuple[Parameters, dict[str, Any]]:
    """What the builder is given of an experiment's parameters, and the same with its defaults."""
    declared = {axis.name: axis.default for axis in host.kernels()[BUILDER].axes}
    given = {name: value for name, value in fixed.items() if name in declared and name != "threads"}
    return given, {**declared, **given}


def make_object_index(search: Experiment, plan: Plan, host: Host, reached: Parameters) -> ObjectIndex:
    """The index in an object store that an experiment of a plan searches."""
    planned = {planned.experiment.name: planned for planned in plan.experiments}
    given, whole = _builder_parameters(planned[search.name].fixed, host)
    folder, plain = Path(str(given["path"])), plain_ranges.read_layout(planned[name_plain_gets(search.name)])
    description = f"index: {whole['index']} of {whole['vectors']} vectors of {whole['dim']} dimensions in"
    return ObjectIndex(
        description=f"{description} {show_folder(format_place(folder))} (built and removed)",
        where=folder,
        bytes=file_bytes(whole) + int(plain["objects"]) * int(plain["object_size"]),
        compute_s=_build_s(whole, host.topology().processors),
        parameters=given,
        plain=plain,
        reached=reach_below(folder, reached),
    )


def _plain(
    search: Experiment, given: Mapping[str, Any], declared: Mapping[str, Axis], shape: Iterable[Axis]
) -> Experiment:
    """Plain GETs of the size of a search's reads, with as many connections."""
    from hwdyno.measure import plan as plans

    def values(name: str, default: Iterable[Scalar]) -> list[int]:
        read = plans.read_axis(given[name], declared, name, KERNEL) if name in given else default
        return [value for value in read if isinstance(value, int)]

    whole = {**{axis.name: axis.default for axis in shape}, **search.fixed}
    beams = values("beam", [declared["beam"].default])
    loads = [(threads, threads * beam) for threads in values("threads", search.sweep.axes["threads"]) for beam in beams]
    return plain_ranges.make_experiment(search, loads, read_bytes(whole), file_bytes(whole))


def make_index(fixed: Parameters, host: Host, *, keeps: bool) -> Index:
    """The index that an experiment with these parameters searches."""
    given, whole = _builder_parameters(fixed, host)
    folder = Path(str(fixed["path"]))
    is_there = (folder / FILE).exists()
    size = file_bytes(whole)
    fate = "existing index" if is_there else "built and kept" if keeps else "built and removed"
    description = f"index: {whole['index']} of {whole['vectors']} vectors of {whole['dim']} dimensions in"
    return Index(
        description=f"{description} {folder} ({fate})",
        where=folder,
        bytes=0 if is_there else size,
        compute_s=0.0 if is_there else _build_s(whole, host.topology().processors),
        parameters=given,
        keeps=keeps,
    )


def file_bytes(parameters: Mapping[str, Any]) -> int:
    """Bytes of an index's file, within 1%: its header, its blocks, and what a search keeps in memory."""
    vectors, dim, degree = (int(parameters[name]) for name in ("vectors", "dim", "degree"))
    is_ivf = parameters["index"] == "ivf"
    block, entries = _layout(parameters)
    blocks = -(-vectors // entries)
    if is_ivf:
        lists = _lists(parameters)
        # Each list's last block is half full in the mean.
        blocks = round(vectors / entries + lists * (entries - 1) / 2 / entries)
        memory = lists * (4 * dim + 8)
    elif parameters["index"] == "hnsw":
        # Of the upper levels: each holds one vector in half the degree of that below, and about a quarter of its links.
        memory = round(2 * vectors / degree) * (4 * dim + 8 + degree)
    else:
        memory = vectors * dim
    queries = int(parameters["queries"]) * 4 * (dim + min(_TRUTH, vectors))
    return _SECTOR + blocks * block + memory + queries + 4 * _SECTION


def read_bytes(parameters: Mapping[str, Any]) -> int:
    """Bytes of a search's read: a graph's block, or the blocks of an inverted file's mean list in at most a piece."""
    block, entries = _layout(parameters)
    if parameters["index"] != "ivf":
        return block
    blocks = -(-int(parameters["vectors"]) // _lists(parameters) // entries)
    return min(max(1, _PIECE // block), max(1, blocks)) * block


def _layout(parameters: Mapping[str, Any]) -> tuple[int, int]:
    """Bytes of a block, and the entries in it."""
    links = 4 if parameters["index"] == "ivf" else 4 + 4 * int(parameters["degree"])
    entry = 4 * int(parameters["dim"]) + links
    block = -(-(entry + _TRAILER) // _SECTOR) * _SECTOR
    return block, (block - _TRAILER) // entry


def _lists(parameters: Mapping[str, Any]) -> int:
    vectors = int(parameters["vectors"])
    return min(vectors, int(parameters["lists"])) or math.ceil(math.sqrt(vectors))


def _build_s(parameters: Mapping[str, Any], processors: int) -> float:
    """Estimated build time with this many processors."""
    vectors, dim = int(parameters["vectors"]), int(parameters["dim"])
    exact_s = int(parameters["queries"]) * vectors * dim * _CUT_S
    if parameters["index"] == "ivf":
        cut_s = vectors * _lists(parameters) * _IVF_ROUNDS * dim * _CUT_S
        return (exact_s + cut_s) / processors
    comparisons = vectors * int(parameters["build_list"]) * int(parameters["degree"])
    graph_s = comparisons * (_COMPARISON_S + dim * _DIMENSION_S)
    return (exact_s + graph_s * (_HNSW_SHARE if parameters["index"] == "hnsw" else 1.0)) / processors


def _summary(run: Run) -> Iterator[str]:
    """Each point's queries a second, their latency, what they read and how much of the truth they found."""
    for result in run.experiments:
        for point in result.points:
            details, latency = point.details, point.latency_ns
            if latency is None or details.get("recall") is None:
                continue
            k = {**result.fixed, **point.parameters}.get("k", 10)
            words = " ".join(f"{name} {value}" for name, value in point.parameters.items())
            tail = f" p99.9 {format_ns(latency.p999)}" if latency.p999 else ""
            yield (
                f"{result.name} {words}: {format_count(details['queries_s'])} queries/s, p50 {format_ns(latency.p50)} "
                f"p99 {format_ns(latency.p99)}{tail}, {details['reads_per_query']:.1f} reads and "
                f"{format_size(details['bytes_per_query'])} a query, recall@{k} {details['recall']:.3f}"
            )


KIND = Kind(
    name="vector_search",
    command="inference",
    make=make,
    title="vector search",
    options=(Option("--vector-search", "build and search a diskann, hnsw or ivf index of --vectors", "INDEX"),),
    chosen_by="vector_search",
    kernel=KERNEL,
    hidden=HIDDEN,
    experiments=("inference.vector_search",),
    takes_stores=True,
    brief={"vector_search": "diskann"},
)
