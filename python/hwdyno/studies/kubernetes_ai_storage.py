"""Storage classes judged for AI: can this storage feed that many accelerators?"""

from __future__ import annotations

from hwdyno.analysis.ceilings.loader_reads import FILES, OBJECTS
from hwdyno.model.kernels import TRAINING_LOADER
from hwdyno.model.units import as_number, format_count, format_percent, format_size
from hwdyno.model.words import ExperimentResult, Measurement, Parameters, Run
from hwdyno.studies import kubernetes_ai_inference
from hwdyno.studies.point_figures import NONE, mb_s, micros, number, pattern, whole
from hwdyno.studies.published_rows import read_published
from hwdyno.studies.study import Study, StudyTable

NAME = "kubernetes-ai-storage"
AU_PASS = 0.90
NEED_BYTES_S = {name: 7 * 146600628 / compute_s for name, compute_s in (("A100", 0.636), ("H100", 0.323))}
"""Need of unet3d: batch x record / compute."""
CACHED = 0.05
FROM_CACHE = " (from the page cache)"
LAW = 0.05
"""AU x need and throughput that differ by more are of different bytes."""
RULE_MEMORIES = 5
"""MLPerf Storage: a data set has at least this many times the host's memory."""
_THEIRS = ("accelerator", "accelerators", "samples", "storage", "au_percent")


def _points(run: Run) -> list[tuple[ExperimentResult, Measurement]]:
    """What emulated accelerators, storage by storage; the loader's own ceiling is left out."""
    return [
        (result, point)
        for result, _, point, _ in run.measured_points(TRAINING_LOADER)
        if result.fixed.get("accelerator") and result.fixed.get("compute") != 0
    ]


def _samples(result: ExperimentResult) -> int:
    files, per_file = result.fixed.get("files"), result.fixed.get("samples_per_file")
    return int(files) * int(per_file) if isinstance(files, int) and isinstance(per_file, int) else 0


def _au(point: Measurement) -> float | None:
    return as_number(point.details.get("au_dlio"))


def _cached_share(point: Measurement) -> float | None:
    return as_number(point.details.get("cached_share_by_device"))


def _need(result: ExperimentResult, point: Measurement) -> float | None:
    """What the point's accelerators take at full speed, bytes/s: batch x record / compute, each."""
    figures = [result.fixed.get(name) for name in ("batch_size", "record_bytes", "compute")]
    numbers = [float(value) for value in figures if isinstance(value, int | float) and value]
    accelerators = point.parameters.get("accelerators")
    if len(numbers) < len(figures) or not isinstance(accelerators, int):
        return None
    batch, record, compute_s = numbers
    return batch * record / compute_s * accelerators


def _verdict(run: Run, result: ExperimentResult, point: Measurement) -> str:
    """Pass or fail, with why it does not count where it does not, and why AU x need is not what was read.

    Without an AU, which takes a run of some steps, throughput over need bounds it: an accelerator computes no more than
    it was given.
    """
    au, need, reached = _au(point), _need(result, point), point.throughput.value
    size, memory = point.details.get("dataset_bytes"), run.machine.memory.total_bytes
    enough = memory is None or not isinstance(size, int | float) or size >= RULE_MEMORIES * memory
    cached = (_cached_share(point) or 0.0) > CACHED
    why = [word for word, holds in (("cached", cached), ("too small to judge", not enough)) if holds]
    if au is None and need:
        bound = reached / need
        why = [f"AU at most {format_percent(bound)}", *why] if bound < AU_PASS else [*why, "too few steps for an AU"]
        verdict = "fail" if bound < AU_PASS else "unknown"
    elif au is None:
        verdict, why = "unknown", [*why, "too few steps for an AU"]
    else:
        verdict = "pass" if au >= AU_PASS else "fail"
        off = 0.0 if not need else reached / (au * need) - 1
        if off > LAW:
            why.append(f"{format_percent(off)} more was read than computed on: read ahead, or twice")
        elif off < -LAW:
            why.append(f"{format_percent(-off)} less was read than computed on: read ahead before the clock")
    return verdict + (f" ({', '.join(why)})" if why else "")


def tables(run: Run) -> list[StudyTable]:
    """Accelerator, samples, storage, AU and MB/s, as the study has them; its published rows beside."""
    rows = []
    for result, point in _points(run):
        au, cached, need = _au(point), _cached_share(point), _need(result, point)
        rows.append(
            (
                str(result.fixed.get("accelerator")).upper(),
                str(point.parameters.get("accelerators")),
                str(_samples(result)),
                str(result.fixed.get("storage") or NONE),
                NONE if au is None else f"{100 * au:.2f}",
                mb_s(point.throughput.value),
                NONE if au is None or need is None else mb_s(au * need),
                NONE if cached is None else f"{100 * cached:.0f}",
                _verdict(run, result, point),
            )
        )
    columns = (
        "accelerator",
        "accelerators",
        "samples",
        "storage",
        "AU %",
        "MB/s",
        "AU x need MB/s",
        "cached %",
        "AU of 90%",
    )
    theirs = tuple(
        (
            *(row[name] for name in _THEIRS),
            f"{float(row['throughput_mb_s']) * 2**20 / 1e6:.0f}",
            f"{float(row['au_percent']) / 100 * NEED_BYTES_S[row['accelerator']] / 1e6:.0f}",
            "pass" if float(row["au_percent"]) >= 100 * AU_PASS else "fail",
        )
        for row in read_published("training-mlperf-storage", NAME)
    )
    made = [StudyTable("unet3d: accelerator utilisation by storage", columns, tuple(rows))] if rows else []
    inference = kubernetes_ai_inference.tables(run)
    return [
        *kubernetes_ai_inference.side_by_side(run),
        *made,
        *_grid(run),
        *_plain(run),
        *inference,
        StudyTable("As published (its MB/s are MiB/s)", (*columns[:7], columns[-1]), theirs),
    ]


def _grid(run: Run) -> list[StudyTable]:
    """fio's grid of every storage, with fio's own figure beside each point where it was run."""
    rows = []
    for result in run.experiments:
        if not result.name.startswith("storage.grid@"):
            continue
        peers = {peer.point: peer for peer in result.peers if peer.tool == "fio"}
        for at, point in enumerate(result.points):
            parameters, theirs = whole(result, point), peers.get(at)
            rows.append(
                (
                    result.name.partition("@")[2],
                    pattern(parameters),
                    format_size(number(parameters, "bs")),
                    str(parameters.get("iodepth")),
                    mb_s(point.throughput.value),
                    NONE if point.rate is None else format_count(point.rate.value),
                    NONE if point.latency_ns is None else micros(point.latency_ns.mean),
                    NONE if theirs is None else mb_s(theirs.value.value),
                    point.validity,
                )
            )
    rows.sort(key=lambda row: row[1])
    columns = ("storage", "pattern", "block", "iodepth", "MB/s", "IOPS", "mean µs", "fio MB/s", "validity")
    # fio itself runs where --peers names it.
    return [StudyTable("fio's grid by storage", columns, tuple(rows)).without_empty("fio MB/s")] if rows else []


def _plain(run: Run) -> list[StudyTable]:
    """What the study took fio for: reads of the loader's size and number, without batches and computing.

    Of an object store they are GETs of the data set's own objects.
    """
    rows = tuple(
        (
            result.name.partition("@")[2] or NONE,
            format_size(number(result.fixed, _find_size(result.fixed), 0)),
            str(point.parameters.get(result.load)),
            mb_s(point.throughput.value),
            NONE if point.latency_ns is None else micros(point.latency_ns.mean),
            *(f"{point.throughput.value / (AU_PASS * need):.2f}" for need in NEED_BYTES_S.values()),
        )
        for result in run.experiments
        if result.name.startswith((FILES, OBJECTS))
        for point in result.points
    )
    columns = ("storage", "read", "in flight", "MB/s", "mean µs", *(f"enough for {name}s" for name in NEED_BYTES_S))
    return [StudyTable("Plain reads of the same storage, as large as the loader's", columns, rows)] if rows else []


def _find_size(fixed: Parameters) -> str:
    """The parameter with the size of a plain read; a GET without a range is of the whole object."""
    if "operation" not in fixed:
        return "bs"
    return "range_size" if fixed["operation"] == "range" else "object_size"


def observations(run: Run) -> list[str]:
    """Which storage feeds which accelerator, which is the best, and what inference gets of each."""
    points = [(result, point, au) for result, point in _points(run) if (au := _au(point)) is not None]
    sentences = []
    for name in dict.fromkeys(str(result.fixed.get("accelerator")) for result, _, _ in points):
        mine = [(au, result) for result, _, au in points if result.fixed.get("accelerator") == name]
        passed = _feeding_storages(points, name)
        au, best = max(mine, key=lambda pair: pair[0])
        feeds = (
            f"{', '.join(passed)} feed{'s' if len(passed) == 1 else ''} it"
            if passed
            else "no storage measured here feeds it"
        )
        sentences.append(
            f"{name.upper()} on unet3d: {feeds}; the best AU is {100 * au:.1f}% on {best.fixed.get('storage')}."
        )
    return [*sentences, *kubernetes_ai_inference.observations(run)]


def _feeding_storages(points: list[tuple[ExperimentResult, Measurement, float]], name: str) -> dict[str, None]:
    """The storages that feed an accelerator: those that it passed on, and those that fed one that needs more."""
    needs = {str(result.fixed.get("accelerator")): _need(result, point) or 0.0 for result, point, _ in points}
    found: dict[str, None] = {}
    for result, point, au in points:
        other, storage = str(result.fixed.get("accelerator")), str(result.fixed.get("storage"))
        if au < AU_PASS or (other != name and needs[other] <= needs[name]):
            continue
        cached = FROM_CACHE if (_cached_share(point) or 0) > CACHED else ""
        if other == name:
            found[storage + cached] = None
        elif not any(fed_storage.startswith(storage) for fed_storage in found):
            found[f"{storage}{cached} (it feeds {other.upper()}, which needs more)"] = None
    # What fed it without the cache needs no second mention with it.
    twice = {name for name in found if name.endswith(FROM_CACHE) and name.removesuffix(FROM_CACHE) in found}
    return {name: None for name in found if name not in twice}


STUDY = Study(
    name=NAME,
    title="Storage classes for AI",
    asks="Accelerators that each storage class can feed",
    questions=(),
    tables=tables,
    observations=observations,
    mistakes=(
        "it planned an inference workload as its third experiment but did not run it; here a model's start, a KV cache "
        "and a vector index take its place",
        "the row 'A100, local emptyDir, 24.51%, 729.10' gives a need of 2975 MiB/s by AU x need = throughput, which is "
        "an H100's (3030) and not an A100's (1539): it is mislabelled",
        "an A100 and an H100 on the same volume get the same 165 and 168 MiB/s: the storage is the limit, and AU says "
        "nothing of the accelerators there",
        "1000 samples in batches of 7 are 142 steps an epoch, which is few; three rows are below 90%, which MLPerf "
        "Storage calls a fail",
        "it uses 1000 samples (147 GB) and 3500 (513 GB) on hosts of unstated memory, so the share from the page "
        "cache is unknown",
    ),
)
