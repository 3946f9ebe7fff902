"""The GPU part of the cloud VM study: arithmetic by precision and memory bandwidth, against theory by its formula."""

from __future__ import annotations

from collections.abc import Iterator

from hwdyno.model.kernels import GPU_BANDWIDTH, GPU_FLOPS
from hwdyno.model.units import format_number, format_percent
from hwdyno.model.words import Ceiling, ExperimentResult, Measurement, Run
from hwdyno.studies.point_figures import NONE, experiment, sound, whole
from hwdyno.studies.study import Question, StudyTable

PEAKS, BANDWIDTH = "gpu.peaks", "gpu.bandwidth"
ARRAY_BYTES = 256 << 20
"""Array size beyond the last cache of any GPU in the catalogue."""
TESLA_M40_FLOP_S = 3072 * 2 * 1.114e9
"""3072 CUDA cores, a multiply-add a cycle, 1.114 GHz: what the study's GPU computes in single precision at most."""
CLAIMED_GFLOP_S = "56,524.8"
RULES = ("gpu_clock_fell", "gpu_link_narrow")
_NAMES = {"single": "FP32", "double": "FP64", "int32": "INT32"}

QUESTIONS = (
    Question(
        name=PEAKS,
        asks="GFLOP/s and GIOP/s of a GPU by precision",
        kernel=GPU_FLOPS,
        load="precision",
        blocks=({"precision": ("single", "double", "int32")},),
        fixed={"on": "gpu"},
        runtime_s=5.0,
    ),
    Question(
        name=BANDWIDTH,
        asks="Memory bandwidth of a GPU by loop",
        kernel=GPU_BANDWIDTH,
        load="operation",
        blocks=({"operation": ("copy", "mul", "add", "triad", "dot"), "array": ARRAY_BYTES},),
        fixed={"on": "gpu", "precision": "single"},
        brief={"operation": ("copy", "triad")},
        runtime_s=5.0,
    ),
)


def tables(run: Run) -> list[StudyTable]:
    """What the GPU reaches, its theory and both beside each other, and the study's GPU.

    A machine without a GPU says so; one whose GPU was not requested has no table, nor has a study of one resource.
    """
    rows = []
    for name, axis in ((PEAKS, "precision"), (BANDWIDTH, "operation")):
        if (result := experiment(run, name)) is not None:
            rows += [_row(result, point, str(whole(result, point).get(axis))) for point in sound(result.points)]
    if not rows and (run.machine.gpus or len({result.resource for result in run.experiments}) < 2):
        return []
    if not rows:
        rows = [("no GPU here", NONE, NONE, NONE, NONE)]
    theirs = ("FP32, the study's Tesla M40", NONE, f"{TESLA_M40_FLOP_S / 1e9:,.0f} GFLOP/s", NONE)
    formula = f"3072 cores x 2 FLOP x 1.114 GHz; the study says {CLAIMED_GFLOP_S}"
    heads = ("figure", "measured", "theory", "of theory", "formula")
    return [StudyTable("GPU: arithmetic and memory against theory", heads, (*rows, (*theirs, formula)))]


def _row(result: ExperimentResult, point: Measurement, choice: str) -> tuple[str, ...]:
    value, unit = point.throughput.value, point.throughput.unit
    title = _NAMES.get(choice, f"memory, {choice}")
    bound = min(_bounds(result, point, choice), key=lambda ceiling: ceiling.value, default=None)
    if bound is None:
        return (title, _giga(value, unit), "unknown", NONE, NONE)
    share = format_percent(value / bound.value, precise=True)
    return (title, _giga(value, unit), _giga(bound.value, unit), share, bound.formula or bound.source)


def _bounds(result: ExperimentResult, point: Measurement, precision: str) -> Iterator[Ceiling]:
    """The ceilings of vector arithmetic in this precision, or those of the memory."""
    for ceiling in result.ceilings:
        is_memory = ceiling.unit == "bytes/s" and ceiling.metric.startswith("gpu_memory/")
        if ceiling.unit == point.throughput.unit and (is_memory or ceiling.metric == f"gpu_peak/vector/{precision}"):
            yield ceiling


def _giga(value: float, unit: str) -> str:
    word = {"bytes/s": "GB/s"}.get(unit, f"G{unit}")
    return f"{format_number(value / 1e9)} {word}"


def observations(run: Run) -> list[str]:
    """What was measured in place of a GPU; empty for a GPU."""
    names = [
        str(point.details.get("device_name", "the processor"))
        for question in QUESTIONS
        if (result := experiment(run, question.name)) is not None
        for point in sound(result.points)
        if point.details.get("device_kind") == "cpu"
    ]
    return [f"The GPU's part was measured on the processor by OpenCL ({names[0]})."] if names else []
