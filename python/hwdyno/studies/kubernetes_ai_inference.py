"""The inference part of the study of storage classes, which it planned and never did: KV cache and vector search."""

from __future__ import annotations

from itertools import takewhile

from hwdyno.model.histogram import latency_quantile
from hwdyno.model.kernels import INFERENCE_KV_CACHE, INFERENCE_STREAM, INFERENCE_VECTOR_SEARCH
from hwdyno.model.units import format_count
from hwdyno.model.words import ExperimentResult, Latency, Measurement, Run
from hwdyno.studies.point_figures import NONE, mb_s, micros, number, whole
from hwdyno.studies.study import StudyTable

IN_TIME_NS = 100e6
"""P95 of reads that MLPerf Storage's KV cache asks for of responsive users."""


def tables(run: Run) -> list[StudyTable]:
    """What users of a KV cache get of each storage, and what a vector index on it answers."""
    cache = [_of_users(result, point) for result, _, point, _ in run.measured_points(INFERENCE_KV_CACHE)]
    search = [_of_queries(result, point) for result, _, point, _ in run.measured_points(INFERENCE_VECTOR_SEARCH)]
    made: list[StudyTable] = []
    if cache:
        heads = ("storage", "users", "tokens/s", "read MB/s", "read P95 ms", "write MB/s", "write P95 ms")
        made.append(StudyTable(f"KV cache of {_models(run)}", heads, tuple(cache)))
    if search:
        columns = ("storage", "index", "threads", "queries/s", "p50 µs", "p99 µs", "reads a query", "recall %")
        made.append(StudyTable("Vector search", columns, tuple(search)))
    return made


def observations(run: Run) -> list[str]:
    """Which storage holds the most users in time, and which answers the most queries."""
    sentences = _where_it_stops(run)
    holds = {
        _storage(result): max(
            (wait[0] for wait in takewhile(lambda wait: wait[1] < IN_TIME_NS, _waits(result))), default=0
        )
        for result, *_ in run.measured_points(INFERENCE_KV_CACHE)
    }
    if holds:
        words = ", ".join(f"{users} on {storage}" for storage, users in holds.items())
        sentences.append(f"KV cache of {_models(run)}: users with a read P95 below 100 ms, of those measured: {words}.")
    queries = [(float(point.details.get("queries_s") or 0), result, point)
               for result, _, point, _ in run.measured_points(INFERENCE_VECTOR_SEARCH)]  # fmt: skip
    if queries:
        rate, result, point = max(queries, key=lambda query: query[0])
        sentences.append(
            f"Vector search: the maximum is {format_count(rate)} queries/s on {_storage(result)} with "
            f"{point.parameters.get('threads')} threads, at {100 * (point.details.get('recall') or 0):.0f}% recall."
        )
    return sentences


SIDE_BY_SIDE = (
    "storage", "plain read MB/s", "fio read MB/s", "model load MB/s", "of the read %", "first answer cold s",
    "first answer warm s", "images/s cold", "images/s warm", "KV restore s", "KV recompute s",
)  # fmt: skip
RAW = "raw"
LOADERS = {"inference_load": "mapped", INFERENCE_STREAM: "onnxruntime"}
"""ONNX Runtime's loader of each kernel: files are mapped, objects kept in memory."""
STILL_HELPS = 0.1
"""The share of the time to ready that a faster storage must be able to save to matter."""


def side_by_side(run: Run) -> list[StudyTable]:
    """Raw storage, loader and first answer of each storage in one row."""
    rows = []
    for result in _cold_starts(run):
        name = result.name.partition("@")[2]
        raw, cold, warm = _load(result, "cold", RAW), _load(result, "cold"), _load(result, "warm")
        restore, recompute = (_context_s(run, name, way) for way in ("restore", "recompute"))
        share = 100 * cold.throughput.value / raw.throughput.value if raw and cold else None
        rows.append(
            (
                name,
                NONE if raw is None else mb_s(raw.throughput.value),
                mb_s(_fio(run, name)),
                NONE if cold is None else mb_s(cold.throughput.value),
                NONE if share is None else f"{share:.0f}",
                *(_seconds(took) for took in (_ready_s(cold), _ready_s(warm))),
                *(NONE if rate is None else f"{rate:.1f}" for rate in _images(run, name)),
                *(_seconds(took) for took in (restore, recompute)),
            )
        )
    models = ", ".join(dict.fromkeys(str(cold_start.fixed.get("model")) for cold_start in _cold_starts(run)))
    table = StudyTable(f"Storage, loader and first answer of {models}", SIDE_BY_SIDE, tuple(rows))
    return [table.without_empty(*SIDE_BY_SIDE)] if rows else []


def _seconds(took: float | None) -> str:
    return NONE if took is None else f"{took:.3f}"


def _images(run: Run, storage: str) -> tuple[float | None, float | None]:
    """Images/s of a vision model from a storage, and from the page cache."""
    rates = {
        cache: max(
            (
                point.throughput.value
                for result, _, point, given in run.measured_points("inference_images")
                if result.name.partition("@")[2] == storage
                and given.get("cache") == cache
                and point.validity != "invalid"
            ),
            default=None,
        )
        for cache in ("cold", "warm")
    }
    return rates["cold"], rates["warm"]


def _where_it_stops(run: Run) -> list[str]:
    """A sentence on where a faster storage stops mattering, by the same load from the page cache."""
    sentences = []
    found = [
        (cold_start.name.partition("@")[2], _ready_s(_load(cold_start, "cold")), _ready_s(warm), warm)
        for cold_start in _cold_starts(run)
        if (warm := _load(cold_start, "warm")) is not None
    ]
    known = [(name, cold, least, warm) for name, cold, least, warm in found if cold and least]
    if known:
        enough = max(warm.throughput.value for *_, warm in known)
        gains = [f"{name} ({cold:.2f} s)" for name, cold, least, _ in known if cold > (1 + STILL_HELPS) * least]
        still = f"it still helps {', '.join(gains)}" if gains else "on none of these does it still help"
        sentences.append(
            f"A faster storage stops mattering to the model's start at {mb_s(enough)} MB/s, where the loader itself "
            f"needs {min(least for _, _, least, _ in known):.2f} s: {still}."
        )
    return [*sentences, *_where_images_stop(run)]


def _where_images_stop(run: Run) -> list[str]:
    """A sentence on the storages whose images/s a faster one would raise, by the same images from the page cache."""
    names = dict.fromkeys(
        result.name.partition("@")[2] for result, *_ in run.measured_points("inference_images") if "@" in result.name
    )
    rates = {name: _images(run, name) for name in names}
    known = {name: (cold, warm) for name, (cold, warm) in rates.items() if cold and warm}
    if not known:
        return []
    gains = [f"{name} ({cold:.1f})" for name, (cold, warm) in known.items() if warm > (1 + STILL_HELPS) * cold]
    if not gains:
        cold, warm = (f"{max(pair[at] for pair in known.values()):.1f}" for at in (0, 1))
        return [f"Storage does not limit images: {cold} images/s from storage, {warm} from memory."]
    still = f"it still helps {', '.join(gains)}"
    most = max(warm for _, warm in known.values())
    return [f"A faster storage stops mattering to images at {most:.1f} images/s from memory: {still}."]


def _cold_starts(run: Run) -> list[ExperimentResult]:
    return [experiment for experiment in run.experiments if experiment.kernel in LOADERS and "@" in experiment.name]


def _load(result: ExperimentResult, cache: str, loader: str = "") -> Measurement | None:
    """The point of a loader, by default ONNX Runtime's, from storage or the page cache, of which a store has none."""
    points = (point for point in result.points if point.validity != "invalid" and point.throughput.value > 0)
    wanted = {"loader": loader or LOADERS[result.kernel]} | (
        {} if result.kernel == INFERENCE_STREAM and cache == "cold" else {"cache": cache}
    )
    return next((point for point in points if wanted.items() <= whole(result, point).items()), None)


def _ready_s(point: Measurement | None) -> float | None:
    return None if point is None else point.bytes / max(1, point.repeats) / point.throughput.value


def _fio(run: Run, storage: str) -> float | None:
    """fio's best sequential read in the grid of this storage, bytes/s; none where fio was not run."""
    rates = [
        peer.value.value
        for result in run.experiments
        if result.name == f"storage.grid@{storage}"
        for peer in result.peers
        if peer.tool == "fio" and whole(result, result.points[peer.point]).get("rw") == "read"
    ]
    return max(rates, default=None)


def _context_s(run: Run, storage: str, way: str) -> float | None:
    """Time to the next token after the longest context, by restoring or by computing."""
    times = [
        (number(given, "tokens"), number(given, "tokens") / point.throughput.value)
        for result, _, point, given in run.measured_points("inference_restore")
        if result.name.partition("@")[2] == storage and given.get("way") == way and point.throughput.value > 0
    ]
    return max(times)[1] if times else None


def _storage(result: ExperimentResult) -> str:
    return str(result.fixed.get("storage") or NONE)


def _models(run: Run) -> str:
    """The models, with how far their contexts were shortened."""
    fixed = {str(result.fixed.get("model")): result.fixed for result, *_ in run.measured_points(INFERENCE_KV_CACHE)}
    shortened = (
        f"{model} (contexts shortened to {scale:g} of their tokens)"
        if isinstance(scale := parameters.get("scale"), int | float) and scale < 1
        else model
        for model, parameters in fixed.items()
    )
    return ", ".join(shortened)


def _latency(point: Measurement, stream: str) -> Latency | None:
    return next(
        (
            measured_stream.latency_ns.get("total")
            for measured_stream in point.streams
            if measured_stream.name == stream
        ),
        None,
    )


def _waits(result: ExperimentResult) -> list[tuple[int, float]]:
    """Users, and the P95 of their reads from storage, ns."""
    found = [(number(whole(result, point), "users"), _latency(point, "read")) for point in result.points]
    known = ((users, latency_quantile(latency, 0.95)) for users, latency in found if latency is not None)
    return sorted((users, p95) for users, p95 in known if p95 is not None)


def _of_users(result: ExperimentResult, point: Measurement) -> tuple[str, ...]:
    cells = [_storage(result), str(number(whole(result, point), "users")), f"{point.details.get('tokens_s') or 0:.0f}"]
    for stream in ("read", "write"):
        latency = _latency(point, stream)
        cells.append(mb_s(point.details.get(f"{stream}_bytes_s")))
        p95 = None if latency is None else latency_quantile(latency, 0.95)
        cells.append(NONE if p95 is None else f"{p95 / 1e6:.1f}")
    return tuple(cells)


def _of_queries(result: ExperimentResult, point: Measurement) -> tuple[str, ...]:
    latency, recall = point.latency_ns, point.details.get("recall")
    return (
        _storage(result),
        str(result.fixed.get("index")),
        str(point.parameters.get("threads")),
        f"{point.details.get('queries_s') or 0:.0f}",
        NONE if latency is None else micros(latency.p50),
        NONE if latency is None else micros(latency.p99),
        f"{point.details.get('reads_per_query') or 0:.0f}",
        NONE if recall is None else f"{100 * recall:.1f}",
    )
