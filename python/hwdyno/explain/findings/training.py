"""Rules on training storage: whether it feeds the accelerators, and whether the run measured the storage."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.model.kernels import TRAINING_LOADER
from hwdyno.model.units import format_bytes_s, format_percent, format_size
from hwdyno.model.words import ExperimentResult, Measurement, Parameters, Run

RULE_STEPS, RULE_MEMORIES = 500, 5
"""MLPerf Storage: a data set of at least 500 steps of each accelerator, and 5 times the host's memory."""
CACHED = 0.05
"""The share of bytes from the page cache above which a run does not measure the storage."""
LAW = 0.05
LOADER = TRAINING_LOADER
OF_LOADER = Applies(kernels=(LOADER,))
_SAMPLES_S = ("samples_s_after_first", "samples_s_dlio", "samples_s")


@dataclass(frozen=True)
class Fed:
    """A point's figures for its accelerators."""

    number: int
    name: str
    workload: str
    au: float
    au_pass: float
    need_bytes_s: float
    """Need of one accelerator at full speed."""
    nominal_bytes_s: float
    """Samples per second x nominal record size, over the time that AU covers."""
    batch_bytes: float
    whole_bytes_s: float
    """The same over all steps including the first, as tables give it beside AU."""
    read_share: float
    """The share of the nominal bytes that is read: below 1 where only some columns are read."""

    @property
    def passes(self) -> bool:
        """Whether AU reaches the workload's requirement."""
        return self.au >= self.au_pass

    @property
    def au_text(self) -> str:
        """AU with as many digits as tell it from the requirement."""
        return format_percent(self.au, precise=percent(self.au) == percent(self.au_pass) and not self.passes)

    @property
    def who(self) -> str:
        """``2 h100 on unet3d``."""
        return f"{self.number} {self.name or 'accelerator'}{'s' if self.number > 1 and not self.name else ''}" + (
            f" on {self.workload}" if self.workload else ""
        )


def read_feed(result: ExperimentResult, point: Measurement) -> Fed | None:
    """Reads a point's figures; none if it emulates no accelerator."""
    given = {**result.fixed, **point.parameters}
    details = point.details
    au = next((details[key] for key in ("au_dlio", "au_rule") if details.get(key) is not None), None)
    record, batch = as_number(given.get("record_bytes")), as_number(given.get("batch_size"))
    compute = as_number(given.get("compute"))
    need = details.get("need_bytes_s") or (record * batch / compute if record and batch and compute else None)
    if au is None or not need or not record:
        return None
    samples_s = [float(details[key]) for key in _SAMPLES_S if details.get(key)]
    nominal, columns = details.get("nominal_bytes"), as_number(given.get("read_columns"))
    return Fed(
        number=int(as_number(given.get("accelerators")) or 1),
        name=str(given.get("accelerator") or ""),
        workload=str(given.get("workload") or ""),
        au=float(au),
        au_pass=as_number(given.get("au_pass")) or 0.9,
        need_bytes_s=float(need),
        nominal_bytes_s=(samples_s[0] if samples_s else 0.0) * record,
        batch_bytes=record * (batch or 1),
        whole_bytes_s=(samples_s[-1] if samples_s else 0.0) * record,
        read_share=min(1.0, point.bytes / nominal) if nominal and columns else 1.0,
    )


@dataclass(frozen=True, slots=True)
class Medium:
    """What a loader reads from, in the words of findings, and what to try there."""

    plain: str
    """What plain reads of a size are called; ``{size}`` is replaced by it."""
    worker: str
    """What they have one of for each reader."""
    limit: str
    """What is the limit where neither the client nor a ceiling is; empty where that is unknown."""
    shown_by_plain: str
    """What is the limit where plain reads are no faster."""
    losses: str
    """What a loader may lose time in."""
    gains: str
    """Why a loader may be faster than plain reads."""
    recheck: str
    """How both are measured again; a command follows."""
    changes: Parameters
    """What that command changes."""


FILES = Medium(
    plain="plain {size} reads",
    worker="thread",
    limit="the storage",
    shown_by_plain="the storage",
    losses="opening files, waiting for whole batches, or parsing",
    gains="a cache, or storage that serves many files better than one",
    recheck="Use more samples than fit in memory, or direct I/O, and see whether both agree: ",
    changes={"direct": True},
)
OBJECTS = Medium(
    plain="plain GETs of {size}",
    worker="request",
    limit="",
    shown_by_plain="the store or the path to it (plain GETs are no faster)",
    losses="waiting for whole batches, parsing, or too few readers for a burst",
    gains="a cache of the store, or a store that got faster meanwhile",
    recheck="Measure longer, and see whether both agree: ",
    changes={"runtime": 60},
)


def find_medium(case: Case) -> Medium:
    """What a loader read from."""
    return OBJECTS if case.in_object_store else FILES


def client_bytes_s(run: Run, result: ExperimentResult, number: int) -> float | None:
    """Bytes/s that the loader alone delivered to that many accelerators, without computing and from memory."""
    for other, _, point, given in run.measured_points(LOADER):
        alone = as_number(other.fixed.get("compute")) == 0 and given.get("workload") == result.fixed.get("workload")
        if alone and as_number(given.get("accelerators")) == number and point.throughput.value > 0:
            return point.throughput.value
    return None


def training_too_small(case: Case) -> Verdict | None:
    """A data set below the required size gives no verdict."""
    fed = read_feed(case.result, case.point)
    memory = case.run.machine.memory.total_bytes
    size = case.point.details.get("dataset_bytes")
    if fed is None or not size or memory is None:
        return None
    by_steps, by_memory = RULE_STEPS * fed.batch_bytes * fed.number, RULE_MEMORIES * memory
    least = max(by_steps, by_memory)
    if size >= least:
        return None
    why = f"{RULE_STEPS} steps" if by_steps > by_memory else f"{RULE_MEMORIES} times this host's memory"
    samples = -(-least // (as_number(case.parameter("record_bytes")) or 1))
    return Verdict(
        "info",
        f"The data set is too small to judge the storage ({fed.who}): {format_size(size)}, but MLPerf Storage "
        f"requires {format_size(least)} ({why}). AU {percent(fed.au)} is no verdict.",
        {"dataset_bytes": size, "least_bytes": least, "au": fed.au},
        f"Use as many samples if there is room: {case.command_with({'samples': f'{samples:.0f}'})}",
        weight=least,
    )


def training_read_ahead(case: Case) -> Verdict | None:
    """An epoch that fits into the readers' prefetch is read during its first step, which AU leaves out."""
    fed, details = read_feed(case.result, case.point), case.point.details
    steps, epochs = as_number(details.get("steps")), as_number(details.get("epochs"))
    readers, prefetch = case.number("read_threads"), case.number("prefetch")
    if fed is None or not steps or not epochs or not readers or not prefetch:
        return None
    # An epoch that ended early has fewer steps than the others.
    whole = as_number(details.get("samples_per_epoch"))
    batch = case.number("batch_size") or 1
    batches = min(whole / batch, steps) / fed.number if whole else steps / epochs / fed.number
    ahead = readers * prefetch
    if batches > ahead:
        return None
    return Verdict(
        "warning",
        f"AU {percent(fed.au)} is meaningless ({fed.who}): all {batches:.0f} "
        f"batch{'' if round(batches) == 1 else 'es'} of an epoch fit into the {ahead:.0f} that readers prefetch. "
        "They were read during the first step, which AU leaves out.",
        {"steps_an_epoch": batches, "read_ahead": ahead},
        f"Use more samples: {case.command_with({'samples': f'{2 * ahead * batch * fed.number:.0f}'})}",
        weight=ahead / batches,
    )


def training_cached(case: Case) -> Verdict | None:
    """Bytes from memory do not measure the storage; nor does direct I/O that a cache answered."""
    fed, share = read_feed(case.result, case.point), case.point.details.get("cached_share_by_device")
    if fed is None or share is None or share <= CACHED:
        return None
    requested = ", although direct I/O was requested" if case.direct else ""
    return Verdict(
        "invalid" if case.direct and share > 0.5 else "warning",
        f"Cached ({fed.who}): {percent(share)} of the bytes came from the page cache{requested}. AU "
        f"{percent(fed.au)} measures memory as much as storage.",
        {"cached_share": share, "limit": CACHED},
        "Use a filesystem that honours O_DIRECT (tmpfs, overlay and FUSE may not)."
        if case.direct
        else f"Use more samples than fit in memory, or read past the cache: {case.command(direct=True)}",
        weight=share,
    )


def training_client_bound(case: Case) -> Verdict | None:
    """If the loader alone cannot keep up, the storage is not the reason for a low AU."""
    fed = read_feed(case.result, case.point)
    if fed is None or fed.passes:
        return None
    client = client_bytes_s(case.run, case.result, fed.number)
    need = fed.need_bytes_s * fed.number * fed.au_pass * fed.read_share
    if client is None or client >= need:
        return None
    return Verdict(
        "warning",
        f"Client-bound ({fed.who}): from memory and without computing, this loader delivers "
        f"{format_bytes_s(client)} where {format_bytes_s(need)} are needed. AU {percent(fed.au)} does not show that "
        "the storage is too slow.",
        {"client_bytes_s": client, "need_bytes_s": need},
        "Use a client with more processors, or spread the accelerators over more hosts.",
        weight=need / client,
    )


def training_au(case: Case) -> Verdict | None:
    """Accelerators that wait too long: AU is below the requirement."""
    fed = read_feed(case.result, case.point)
    if fed is None or fed.passes or training_client_bound(case) is not None:
        return None
    waits = 1 - fed.au
    return Verdict(
        "warning",
        f"AU {fed.au_text} is below the required {percent(fed.au_pass)} ({fed.who}): accelerators wait "
        f"{percent(waits)} of the time. They get {format_bytes_s(fed.nominal_bytes_s)} of the "
        f"{format_bytes_s(fed.need_bytes_s * fed.number)} that they need.",
        {"au": fed.au, "au_pass": fed.au_pass, "nominal_bytes_s": fed.nominal_bytes_s},
        f"Use fewer accelerators, faster storage or more readers: {case.command(read_threads=16)}",
        weight=waits,
    )


def training_law(case: Case) -> Verdict | None:
    """AU x need must equal throughput: a published row that breaks this is mislabelled, our own is too short."""
    fed = read_feed(case.result, case.point)
    if fed is None or not fed.whole_bytes_s or not fed.au:
        return None
    product = fed.au * fed.need_bytes_s * fed.number
    off = product / fed.whole_bytes_s - 1
    if abs(off) <= LAW:
        return None
    need = fed.whole_bytes_s / fed.au / fed.number
    evidence = {"off": off, "need_by_row_bytes_s": need, "tolerance": LAW}
    law = (
        f"AU x need and throughput disagree by {percent(abs(off))} ({fed.who}). AU {percent(fed.au)} x "
        f"{format_bytes_s(fed.need_bytes_s)} x {fed.number} is {format_bytes_s(product)}, but the throughput "
    )
    if case.is_imported:
        return Verdict(
            "warning",
            f"{law}is {format_bytes_s(fed.whole_bytes_s)}. Accelerator, AU or throughput is mislabelled.",
            evidence,
            f"Check the labels: a need of {format_bytes_s(need)} per accelerator would fit this row.",
            weight=abs(off),
        )
    return Verdict(
        "info",
        f"{law}over all steps is {format_bytes_s(fed.whole_bytes_s)}. AU leaves out the first step; the epochs are "
        "too short for AU to represent them.",
        evidence,
        "Judge by throughput here, or use more samples, so that an epoch has more steps.",
        weight=abs(off),
    )


RULES = (
    Rule("training_too_small", "point", training_too_small, replace(OF_LOADER, needs=("details.dataset_bytes",))),
    Rule(
        "training_read_ahead", "point", training_read_ahead, replace(OF_LOADER, needs=("details.steps",)), degrades=True
    ),
    # It reports the page cache together with the effect on the accelerators.
    Rule("training_cached", "point", training_cached, OF_LOADER, degrades=True, instead_of=("page_cache",)),
    Rule("training_client_bound", "point", training_client_bound, OF_LOADER),
    Rule("training_au", "point", training_au, OF_LOADER),
    Rule("training_law", "point", training_law, OF_LOADER, degrades=True),
)
