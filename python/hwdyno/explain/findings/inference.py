"""Rules on a model's cold start, its decoding, and whether its KV cache is better read back or computed again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hwdyno.analysis.ceilings.inference import DECODE, LOAD, RAW, RESTORE, find_raw_read, is_from_storage
from hwdyno.analysis.ceilings.object_store import METRIC
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, apart, as_number, percent
from hwdyno.model.kernels import INFERENCE_STREAM
from hwdyno.model.units import format_bytes_s, format_count, format_duration, format_size, plural
from hwdyno.model.words import ExperimentResult, Measurement, Parameters

PLAIN_LOADERS = {RAW, "direct", "read", "mmap"}
"""Loaders without an engine: their end is bytes in memory, not an answer."""
ENOUGH = 0.8
"""The share of a bound from which on nothing is to be gained."""
CACHED = 0.01
"""The share of a file in the page cache from which on a load is not cold."""
BUSY = 0.7
"""The share of the time to ready in which the process computes, from which on that is the limit."""
WAITS = 0.5
"""The share that it neither computes nor reads on, from which on it waits for storage."""
SMALL_PAGE = 4096
PAGES_APART = 0.5
"""The share of a file's pages that fault one at a time, from which on faults of 4 KiB are named."""
COPIED = 0.8
"""Bytes of memory that no file backs for each byte of the file, from which on copies are named."""
PARTS = {"open_s": "open", "read_s": "read", "deserialize_s": "deserialize", "first_answer_s": "first answer"}
_PLAIN_READ = {LOAD: "plain read of the same file", INFERENCE_STREAM: "plain ranged reads of the same object"}
SMALL_MODEL = 200_000_000
"""Weights below which an engine's work for each operator shows beside the reads."""


@dataclass(frozen=True)
class ColdStartPoint:
    """One point of a cold start, by the means of its repeats."""

    at: int
    loader: str
    cold: bool
    point: Measurement

    @property
    def bytes_s(self) -> float:
        """Bytes of the files a second."""
        return self.point.throughput.value

    @property
    def size(self) -> float:
        """Bytes of the files."""
        return self.point.bytes / max(1, self.point.repeats)

    @property
    def ready_s(self) -> float:
        """Time to ready."""
        return self.size / self.bytes_s

    @property
    def cpu_s(self) -> float | None:
        """CPU time of one load, of all threads."""
        point = self.point
        if point.cpu_user_s is None or point.cpu_system_s is None:
            return None
        return (point.cpu_user_s + point.cpu_system_s) / max(1, point.repeats)

    def detail(self, name: str) -> float:
        """A figure of the process."""
        return as_number(self.point.details.get(name)) or 0.0


def list_points(result: ExperimentResult) -> list[ColdStartPoint]:
    """The points of an experiment that count."""
    found = []
    for at, point in enumerate(result.points):
        given: Parameters = {**result.fixed, **point.parameters}
        if point.validity != "invalid" and point.throughput.value > 0 and point.bytes:
            found.append(ColdStartPoint(at, str(given.get("loader")), is_from_storage(result, point), point))
    return found


def load_not_cold(case: Case) -> Verdict | None:
    """A load that was to be cold, of a file that was partly in the page cache."""
    share = as_number(case.point.details.get("cached_before"))
    if case.parameter("cache") != "cold" or share is None or share <= CACHED:
        return None
    return Verdict(
        "warning",
        f"Not a cold load ({case.label}): {percent(share)} of the file was in the page cache. "
        "Something else has the file open, or this filesystem keeps it in memory.",
        {"cached_before": share, "limit": CACHED},
        f"Measure on a filesystem of the storage, not on tmpfs: {case.command()}",
        weight=share,
    )


def cold_start(case: Case) -> Verdict | None:
    """The fastest way to a first answer from storage, in its parts, beside the plain read of the same file."""
    engines = [load for load in list_points(case.result) if load.cold and load.loader not in PLAIN_LOADERS]
    raw = find_raw_read(case.result)
    if not engines:
        return None
    best = max(engines, key=lambda load: load.bytes_s)
    share = None if raw is None else best.bytes_s / raw.throughput.value
    compared = "" if raw is None or share is None else (
        f", {percent(share)} of the {_PLAIN_READ[case.result.kernel]} "
        f"({format_bytes_s(raw.throughput.value)}{_share_of_link(case.result, raw.throughput.value)})"
    )  # fmt: skip
    parts = [f"{word} {format_duration(took)}" for key, word in PARTS.items() if (took := best.detail(key)) > 0]
    model = case.result.fixed.get("model") or "The model"
    return Verdict(
        "info",
        f"Model {model} is ready in {format_duration(best.ready_s)} from {case.storage} by {best.loader}: "
        f"{format_bytes_s(best.bytes_s)}{compared}. Its parts: {', '.join(parts)}.",
        {
            "headline": {"title": f"model load, {model}, {best.loader}", "value": best.bytes_s, "unit": "bytes/s"},
            "ready_s": best.ready_s,
            **({} if share is None else {"share_of_plain_read": share}),
        },
        f"Try a model of another size: {case.command_with({'model': '246m'})}",
        points=(best.at,),
    )


def _share_of_link(result: ExperimentResult, bytes_s: float) -> str:
    """How much of the link to an object store a rate is; empty where the link is unknown, or there is none."""
    links = (bound for bound in result.ceilings if bound.metric.startswith(METRIC) and bound.kind != "reference")
    return next((f", {percent(bytes_s / link.value)} of " + link.label for link in links), "")


def load_gap(case: Case) -> list[Verdict]:
    """Loaders that take less than the storage gives, each with the cause that was measured."""
    raw, found = find_raw_read(case.result), []
    storage = f"Storage {case.storage}" if "@" in case.result.name else case.storage.capitalize()
    for load in list_points(case.result):
        if raw is None or not load.cold or load.loader == RAW or load.bytes_s >= ENOUGH * raw.throughput.value:
            continue
        if not apart(load.point.throughput, raw.throughput):
            continue
        share = load.bytes_s / raw.throughput.value
        here = Case(case.run, case.result, load.at)
        cause = explain_loader(load, is_as_deep=_is_as_deep(case.result, load.point, raw))
        found.append(
            Verdict(
                "info",
                f"{storage} gives "
                f"{format_bytes_s(raw.throughput.value)}, and {load.loader} takes {format_bytes_s(load.bytes_s)} of it "
                f"({percent(share)}). {cause}",
                {"share": share, "limit": ENOUGH, **_evidence(load)},
                _advise_loader(here, load.loader),
                weight=1 - share,
                points=(load.at,),
            )
        )
    return found


def _advise_loader(case: Case, loader: str) -> str:
    """What may make a loader faster, as a command."""
    if case.result.kernel == INFERENCE_STREAM and loader == "read":
        return f"Read by more connections: {case.command(loader='raw,read', threads='4,8,16,32')}"
    if case.result.kernel == INFERENCE_STREAM:
        return f"See what memory alone costs: {case.command(loader=f'raw,read,{loader}')}"
    if loader in {"mapped", "mmap", "read", "direct"}:
        return f"Read with more threads: {case.command(loader=f'raw,{loader}', threads='1,4,16')}"
    return f"Load with read-ahead, without prepacking: {case.command(loader='raw,mapped', cache='cold')}"


def _is_as_deep(result: ExperimentResult, point: Measurement, raw: Measurement) -> bool:
    """Whether a loader of objects has as many reads in flight as the plain read, and as large ones."""
    of_load, of_raw = ({**result.fixed, **load.parameters} for load in (point, raw))
    return result.kernel == INFERENCE_STREAM and all(of_load[name] == of_raw[name] for name in ("threads", "chunk"))


def explain_loader(loader: ColdStartPoint, *, is_as_deep: bool = False) -> str:
    """A sentence on why a loader is slower than the plain read, by what its process was measured to do."""
    cpu_s, size = loader.cpu_s, loader.size
    if cpu_s is None:
        return "Limit not identified: its CPU time is unknown."
    busy = cpu_s / loader.ready_s
    faults = loader.detail("major_faults") + loader.detail("minor_faults")
    memory = loader.detail("memory_bytes")
    if busy >= BUSY:
        says = f"Its process computes for {percent(min(1.0, busy))} of that time, {cpu_s / size * 1e9:.2f} s a GB"
        one_at_a_time = faults * SMALL_PAGE >= PAGES_APART * size
        if memory >= COPIED * size:
            pages = f", in {format_count(faults)} page faults of 4 KiB each" if one_at_a_time else ""
            return f"{says}. It copies the weights into {format_size(memory)} of new memory{pages}."
        if one_at_a_time:
            system = loader.point.cpu_system_s or 0.0
            of_kernel = system / max(1, loader.point.repeats) / cpu_s
            return (
                f"{says}, {percent(of_kernel)} of it in the kernel. It faults 4 KiB pages one at a time: "
                f"{format_count(faults)} faults."
            )
        return f"{says}."
    majors = loader.detail("major_faults")
    if 1 - busy >= WAITS and majors and majors * SMALL_PAGE * 256 >= size:
        return (
            f"It waits for {percent(1 - busy)} of that time, in {format_count(majors)} page faults that each bring "
            f"{format_size(size / majors)}."
        )
    if 1 - busy >= WAITS and is_as_deep:
        return (
            f"Limit not identified: it waits for {percent(1 - busy)} of that time, with as many reads in flight as the "
            "plain read."
        )
    if 1 - busy >= WAITS:
        return f"It waits for {percent(1 - busy)} of that time: too few reads are in flight, or they are too small."
    return f"Limit not identified: it computes for {percent(busy)} of that time and waits for the rest."


def _evidence(loader: ColdStartPoint) -> Mapping[str, float]:
    names = ("major_faults", "minor_faults", "memory_bytes")
    return {"bytes_s": loader.bytes_s, **({"cpu_s": loader.cpu_s} if loader.cpu_s is not None else {}),
            **{name: loader.detail(name) for name in names}}  # fmt: skip


def storage_stops_mattering(case: Case) -> Verdict | None:
    """What a loader still needs where the file is in memory: beyond that rate, a faster storage gains nothing."""
    warm = [load for load in list_points(case.result) if not load.cold and load.loader not in PLAIN_LOADERS]
    raw = find_raw_read(case.result)
    if not warm:
        return None
    best = max(warm, key=lambda load: load.bytes_s)
    compared = ""
    if raw is not None:
        compared = f" This storage reads {format_bytes_s(raw.throughput.value)}: " + (
            "a faster one would not help." if raw.throughput.value >= best.bytes_s else "a faster one still helps."
        )
    return Verdict(
        "info",
        f"A faster storage stops mattering at {format_bytes_s(best.bytes_s)}: from the page cache {best.loader} still "
        f"needs {format_duration(best.ready_s)}.{compared}",
        {"bytes_s": best.bytes_s, "warm_ready_s": best.ready_s},
        f"Compare engines: {case.command(loader='onnxruntime,mapped,llama.cpp', cache='warm')}",
        points=(best.at,),
    )


# --- decoding


def decode_bound(case: Case) -> Verdict | None:
    """Tokens/s of the best point beside what the memory's bandwidth allows for the bytes of a token."""
    bounds = {ceiling.metric: ceiling for ceiling in case.result.ceilings if ceiling.metric.startswith("tokens_s/")}
    shares = []
    for at, point in enumerate(case.result.points):
        threads = int(as_number(point.parameters.get("threads", case.result.fixed.get("threads"))) or 1)
        bound = bounds.get(f"tokens_s/{threads}")
        if point.validity != "invalid" and point.throughput.value > 0 and bound is not None:
            shares.append((point.throughput.value, at, threads, bound))
    if not shares:
        return None
    value, at, threads, bound = max(shares, key=lambda candidate: candidate[:2])
    point = case.result.points[at]
    share = value / bound.value
    stack = point.parameters.get("stack", case.result.fixed.get("stack"))
    model = case.result.fixed.get("model") or "The model"
    weights = as_number(point.details.get("weights")) or 0.0
    small = (
        f" Below {format_count(SMALL_MODEL)} weights the engine's work for each operator is a possible cause."
        if share < ENOUGH and 0 < weights < SMALL_MODEL
        else ""
    )
    here = Case(case.run, case.result, at)
    return Verdict(
        "info",
        f"Model {model} decodes {value:,.3g} tokens/s in {stack} with {plural(threads, 'thread')}: {percent(share)} of "
        f"what memory allows ({bound.formula}).{small}",
        {
            "headline": {"title": f"{model} decoding, {stack}", "value": value, "unit": "tokens/s"},
            "share": share, "bound": bound.value,
        },
        f"Decode a larger model: {here.command_with({'model': '246m'})}",
        points=(at,),
    )  # fmt: skip


# --- restore or recompute


def break_even(points: Mapping[str, list[tuple[float, float]]]) -> float | None:
    """Tokens from which on restoring is faster, between the two measured counts where the gain changes its sign.

    0 where it is faster at every measured count; none where it is not faster at the largest one.
    """
    ways = {way: dict(points.get(way, [])) for way in ("recompute", "restore")}
    both = sorted(set(ways["recompute"]) & set(ways["restore"]))
    gains = [(tokens, ways["recompute"][tokens] - ways["restore"][tokens]) for tokens in both]
    if not gains or gains[-1][1] <= 0:
        return None
    for (tokens, gain), (after, later) in zip(reversed(gains[:-1]), reversed(gains[1:]), strict=True):
        if gain <= 0:
            return tokens + (after - tokens) * -gain / (later - gain)
    return 0.0


def kv_restore(case: Case) -> list[Verdict]:
    """The number of tokens from which on reading a KV cache back beats computing it again, for each engine."""
    return [
        verdict for stack, points in _by_stack(case.result).items() if (verdict := _kv_verdict(case, stack, points))
    ]


def _by_stack(result: ExperimentResult) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """The tokens and the seconds to the next token, by engine and way."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for given, point in _valid_points(result):
        tokens = as_number(given.get("tokens"))
        if tokens:
            ways = found.setdefault(str(given.get("stack")), {})
            ways.setdefault(str(given.get("way")), []).append((tokens, tokens / point.throughput.value))
    return found


def _valid_points(result: ExperimentResult) -> Iterator[tuple[Parameters, Measurement]]:
    for point in result.points:
        if point.validity != "invalid" and point.throughput.value > 0:
            yield {**result.fixed, **point.parameters}, point


def _kv_verdict(case: Case, stack: str, points: Mapping[str, list[tuple[float, float]]]) -> Verdict | None:
    ways = {way: dict(found) for way, found in points.items()}
    both = sorted(set(ways.get("recompute", {})) & set(ways.get("restore", {})))
    if not both:
        return None
    most = both[-1]
    computed, restored = ways["recompute"][most], ways["restore"][most]
    at = break_even(points)
    figures = (
        f"With {most:,.0f} tokens, the next one comes after {format_duration(restored)} by restoring and after "
        f"{format_duration(computed)} by computing."
    )
    where = f"On {case.storage}, reading a KV cache back in {stack}"
    if at is None:
        says = f"{where} is slower than computing it again, up to {most:,.0f} tokens."
    elif at == 0.0:
        says = f"{where} beats computing it again at all {len(both)} measured sizes, from {both[0]:,.0f} tokens on."
    else:
        says = f"{where} beats computing it again from {at:,.0f} tokens on."
    first = f"{both[0]:.0f}" if at == 0.0 else f"{most:.0f}"
    more = f"{max(2, int(both[0]) // 4)},{first}" if at == 0.0 else f"{first},{min(2000, int(most) * 2)}"
    return Verdict(
        "info",
        f"{says} {figures}",
        {
            "headline": {
                "title": f"KV restore beside prefill, {most:,.0f} tokens, {stack}",
                "value": computed / restored,
                "unit": "times faster",
            },
            "break_even_tokens": -1.0 if at is None else at,
            "recompute_s": computed, "restore_s": restored,
        },
        f"Try other contexts: {case.command_with({'restore': stack, 'tokens': more})}",
    )  # fmt: skip


_COLD = Applies(kernels=(LOAD, INFERENCE_STREAM))
RULES = (
    Rule("load_not_cold", "point", load_not_cold, Applies(kernels=(LOAD, RESTORE), needs=("details.cached_before",)),
         degrades=True),
    Rule("cold_start", "experiment", cold_start, _COLD),
    Rule("load_gap", "experiment", load_gap, _COLD),
    Rule("storage_stops_mattering", "experiment", storage_stops_mattering, Applies(kernels=(LOAD,))),
    Rule("decode_bound", "experiment", decode_bound, Applies(kernels=(DECODE,))),
    Rule("kv_restore", "experiment", kv_restore, Applies(kernels=(RESTORE,))),
)  # fmt: skip
