"""What bounds a model server: plain reads of its file or object, and the read bandwidth over the bytes of a token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hwdyno.analysis.ceilings import object_store
from hwdyno.model.kernels import INFERENCE_STREAM, MEMORY_BANDWIDTH
from hwdyno.model.units import as_number, format_bytes_s, format_size, format_value, number_at, plural
from hwdyno.model.words import Ceiling, ExperimentResult, Measurement, Run

LOAD, DECODE, RESTORE, IMAGES = "inference_load", "inference_decode", "inference_restore", "inference_images"
RAW = "raw"
"""The loader that only reads, past the page cache and into memory that it uses again."""
FILE_READ = "model_read_bytes_s"
TOKENS = "tokens_s/"
CACHED_IMAGES = "images_s/"
SERVED, SERVED_BY_MEMORY = "inference_in_process", "served/"
SEARCH_GETS = "search_gets/"
OBJECT_READ = "model_object_read_bytes_s"


def of_file(run: Run, result: ExperimentResult) -> Iterable[Ceiling]:
    """The plain reads of the same file or object in the same experiment."""
    point = find_raw_read(result)
    if point is not None:
        value, is_object = point.throughput.value, result.kernel == INFERENCE_STREAM
        reads = "plain ranged reads of the same object" if is_object else "plain direct reads of the same file"
        formula = f"{reads} = {format_bytes_s(value)}"
        metric = OBJECT_READ if is_object else FILE_READ
        yield Ceiling(metric, "reference", value, "bytes/s", formula, "read in turn with the loaders", "plain read")


def of_object(run: Run, result: ExperimentResult) -> Iterable[Ceiling]:
    """The way to the store, and the plain reads of the same object in the same experiment."""
    return (*object_store.of_path(run, result), *of_file(run, result))


def of_memory(run: Run, result: ExperimentResult) -> Iterable[Ceiling]:
    """Tokens a second by threads: read bandwidth over the weights and the KV cache that one token reads."""
    token_bytes = next((as_number(point.details.get("bytes_per_token")) for point in result.points), None)
    for threads, value in sorted(bandwidths(run).items()) if token_bytes else ():
        assert token_bytes
        formula = (
            f"{format_bytes_s(value)} of reads with {threads} thread{'s' if threads > 1 else ''} / "
            f"{format_size(token_bytes)} of weights and KV cache a token = "
            f"{format_value(value / token_bytes, 'tokens/s')}"
        )
        source = "read bandwidth measured in turn with the decoding"
        yield Ceiling(
            f"{TOKENS}{threads}", "reference", value / token_bytes, "operations/s", formula, source, "memory reads"
        )


def of_served(run: Run, result: ExperimentResult) -> Iterable[Ceiling]:
    """Requests a second by load: read bandwidth over the weights and the KV cache that a token takes its part of.

    A step reads the weights once for all of its sequences, so that the bytes a token are those that were counted. A
    request's first token comes with its prompt, which is computed and no step; so this is what no prompt would allow.
    """
    known = bandwidths(run)
    for point in result.points:
        given = {**result.fixed, **point.parameters}
        token_bytes, tokens = (as_number(point.details.get(name)) for name in ("bytes_per_token", "output_tokens_mean"))
        threads = int(number_at(given, "threads") or 1)
        if not token_bytes or not tokens or tokens <= 1 or threads not in known:
            continue
        rate = known[threads] / token_bytes
        formula = (
            f"{format_bytes_s(known[threads])} of reads with {plural(threads, 'thread')} / {format_size(token_bytes)} "
            f"of weights and KV cache a token = {format_value(rate, 'tokens/s')}; / {tokens - 1:.3g} tokens a request "
            f"after its first = {format_value(rate / (tokens - 1), 'requests/s')}"
        )
        metric = f"{SERVED_BY_MEMORY}{result.load}/{number_at(given, result.load) or 0:g}"
        source = "read bandwidth measured in turn with the requests"
        yield Ceiling(metric, "reference", rate / (tokens - 1), "operations/s", formula, source, "memory reads")


def applies_to_served(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether memory bounds a measurement: one of the load for which the bytes of a token were counted."""
    _, load, value = metric.split("/")
    return f"{number_at(parameters, load) or 0:g}" == value


def name_plain_gets(workload: str) -> str:
    """The experiment of plain GETs beside a workload's, whose resource is another one."""
    return f"object.plain.{workload.partition('.')[2]}"


def of_gets(run: Run, result: ExperimentResult) -> Iterable[Ceiling]:
    """Bytes a second by connections: plain GETs of a search's size of reads, from the same store in the same run."""
    found: dict[int, float] = {}
    for plain in run.experiments:
        for point in plain.points if plain.name == name_plain_gets(result.name) else ():
            connections = int(number_at({**plain.fixed, **point.parameters}, "concurrency"))
            if point.validity != "invalid" and point.throughput.unit == "bytes/s":
                found[connections] = max(found.get(connections, 0.0), point.throughput.value)
    for connections, value in sorted(found.items()):
        formula = f"plain GETs of as many bytes over {plural(connections, 'connection')} = {format_bytes_s(value)}"
        source = "read in turn with the queries"
        yield Ceiling(f"{SEARCH_GETS}{connections}", "reference", value, "bytes/s", formula, source, "plain GETs")


def applies_to_search(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether plain GETs bound a search: one with as many connections, each thread's beam of them."""
    connections = number_at(parameters, "threads", 1) * number_at(parameters, "beam", 1)
    return int(connections) == int(metric.removeprefix(SEARCH_GETS))


def of_images(run: Run, result: ExperimentResult) -> Iterable[Ceiling]:
    """Images a second by workers, with all files in the page cache: what no faster storage exceeds."""
    for point in result.points:
        given = {**result.fixed, **point.parameters}
        if given.get("cache") != "warm" or point.validity == "invalid" or not point.throughput.value:
            continue
        workers, value = int(number_at(given, "threads") or 1), point.throughput.value
        formula = f"{plural(workers, 'worker')} with all files in the page cache = {format_value(value, 'images/s')}"
        source = "classified in turn with the images from storage"
        yield Ceiling(
            f"{CACHED_IMAGES}{workers}", "reference", value, "operations/s", formula, source, "images in memory"
        )


def applies_to_images(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether images from memory bound a measurement: one of images from storage with as many workers."""
    workers = int(number_at(parameters, "threads") or 1)
    return parameters.get("cache") == "cold" and workers == int(metric.removeprefix(CACHED_IMAGES))


def applies(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a ceiling of decoding bounds a measurement with these parameters."""
    return int(number_at(parameters, "threads") or 1) == int(metric.removeprefix(TOKENS))


def applies_to_load(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether the plain read bounds a load: one from storage, by a real loader."""
    return parameters.get("cache") == "cold" and parameters.get("loader") != RAW


def applies_to_stream(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether the plain read bounds a load from an object store: one by a real loader."""
    return parameters.get("loader") not in {RAW, None}


def is_from_storage(result: ExperimentResult, point: Measurement) -> bool:
    """Whether a load was from storage and not from the page cache, which an object has no part in."""
    return result.kernel == INFERENCE_STREAM or point.parameters.get("cache", result.fixed.get("cache")) == "cold"


def find_raw_read(result: ExperimentResult) -> Measurement | None:
    """The fastest valid plain read of a model's file or object from storage; none if there is none."""
    found = [
        point
        for point in result.points
        if point.parameters.get("loader", result.fixed.get("loader")) == RAW
        and is_from_storage(result, point)
        and point.validity != "invalid"
        and point.throughput.value > 0
    ]
    return max(found, key=lambda point: point.throughput.value, default=None)


def bandwidths(run: Run) -> dict[int, float]:
    """The memory's read bandwidth by threads, bytes/s, as this Run measured it."""
    found: dict[int, float] = {}
    for _, _, point, given in run.measured_points(MEMORY_BANDWIDTH):
        if given.get("operation") == "read" and point.validity != "invalid" and point.throughput.unit == "bytes/s":
            threads = int(number_at(given, "threads") or 1)
            found[threads] = max(found.get(threads, 0.0), point.throughput.value)
    return found
