"""How many accelerators a storage feeds and what limits it, by the sweep of accelerators and by plain reads."""

from __future__ import annotations

from dataclasses import dataclass

from hwdyno.analysis.ceilings import utilizations
from hwdyno.analysis.ceilings.loader_reads import PLAIN_GETS, find_plain
from hwdyno.explain.findings.applies import Rule
from hwdyno.explain.findings.bottleneck import BUSY
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.explain.findings.training import (
    OF_LOADER,
    Fed,
    Medium,
    client_bytes_s,
    find_medium,
    read_feed,
    training_too_small,
)
from hwdyno.model.units import format_bytes_s, format_size, plural
from hwdyno.model.words import ExperimentResult, Measurement, Run

APART = 0.20
"""Loader and plain reads that differ by more than this disagree."""


@dataclass(frozen=True)
class Plain:
    """Plain reads with a loader's size and readers, without opening files, batches or parsing."""

    result: ExperimentResult
    threads_each: int
    """Readers of one accelerator."""
    medium: Medium

    def point(self, accelerators: int) -> Measurement | None:
        """The point with as many threads as that many accelerators have readers."""
        jobs = accelerators * self.threads_each
        found = (point for point in self.result.points if as_number(point.parameters.get(self.result.load)) == jobs)
        return next((point for point in found if point.throughput.value > 0 and point.validity != "invalid"), None)

    def bytes_s(self, accelerators: int) -> float | None:
        """The throughput of that point, bytes/s."""
        point = self.point(accelerators)
        return None if point is None else point.throughput.value

    def feeds(self, fed: Fed, most: int) -> int:
        """The most accelerators that plain reads would feed, of the measured numbers up to ``most``."""
        enough = 0
        for number in range(1, most + 1):
            reached = self.bytes_s(number)
            if reached is not None and reached >= number * fed.need_bytes_s * fed.read_share * fed.au_pass:
                enough = number
        return enough

    @property
    def title(self) -> str:
        """``plain 512 KiB reads``, ``plain GETs of 140 MiB``."""
        names = {"get": "object_size", "range": "range_size"}
        size = self.result.fixed.get(names.get(str(self.result.fixed.get("operation")), "bs"))
        return self.medium.plain.format(size=format_size(as_number(size) or 0))

    def count_workers(self, accelerators: int) -> str:
        """How many of them there were for that many accelerators: ``4 threads``."""
        return plural(accelerators * self.threads_each, self.medium.worker)


def find_plain_reads(run: Run, result: ExperimentResult) -> Plain | None:
    """The plain reads that were measured beside an experiment on the same storage, if any."""
    found = find_plain(run, result)
    threads = as_number(result.fixed.get("read_threads"))
    return None if found is None else Plain(found, max(1, int(threads or 0)), find_medium(Case(run, result)))


def _in_order(result: ExperimentResult) -> list[tuple[Fed, int]]:
    found = ((read_feed(result, point), at) for at, point in enumerate(result.points))
    return sorted(
        ((accelerators, at) for accelerators, at in found if accelerators is not None), key=lambda pair: pair[0].number
    )


def _fed_by(found: list[tuple[Fed, int]]) -> int:
    """The most accelerators that reach their AU, with all smaller numbers."""
    most = 0
    for accelerators, _ in found:
        if not accelerators.passes:
            break
        most = accelerators.number
    return most


def _needier(case: Case, found: list[tuple[Fed, int]], most: int) -> tuple[int, str] | None:
    """More accelerators of a kind that needs more, which the same storage fed from the same files: how many, and whose.

    What feeds them feeds as many of this kind, so its own figure was not the storage's limit.
    """
    first, files = found[0][0], case.result.fixed.get("files")
    storage = case.result.name.partition("@")[2]
    best: tuple[int, str] | None = None
    for other in case.run.experiments:
        if other is case.result or other.kernel != case.result.kernel or other.fixed.get("files") != files:
            continue
        theirs = _in_order(other) if other.name.partition("@")[2] == storage else []
        if not theirs or theirs[0][0].workload != first.workload or theirs[0][0].need_bytes_s <= first.need_bytes_s:
            continue
        number = _fed_by(theirs)
        if number > max(most, best[0] if best else 0):
            best = (number, theirs[0][0].name or "accelerators")
    return best


def training_capacity(case: Case) -> Verdict | None:
    """How many accelerators this storage feeds, the next limit, and how many plain reads would feed."""
    found = _in_order(case.result)
    if not found:
        return None
    most = _fed_by(found)
    needier = _needier(case, found, most)
    first, best = found[0][0], max(accelerators.nominal_bytes_s for accelerators, _ in found)
    name = f"{first.name or 'accelerators'} for {first.workload}" if first.workload else first.name or "accelerators"
    by_rate = best / (first.need_bytes_s * first.au_pass)
    fails = next((accelerators for accelerators, _ in found if accelerators.number > most), None)
    if fails is None:
        limit = f"No limit was reached up to {most} (AU {percent(found[-1][0].au)})."
    else:
        limit = _next_limit(Case(case.run, case.result, next(at for fed, at in found if fed is fails)), fails)
    if needier is not None:
        most, by = needier
        limit = (
            f"Its own AU was {percent(found[0][0].au)}, but this storage fed {most} {by}, which need more: "
            "something else slowed this reading. Measure it again."
        )
    small = any(training_too_small(Case(case.run, case.result, at)) for _, at in found)
    caveat = ", data set too small for a verdict" if small else ""
    by_plain, evidence = _by_plain(case, found)
    last, here = found[-1][0].number, Case(case.run, case.result, found[-1][1])
    where = f"Storage {case.storage}" if "@" in case.result.name else case.storage.capitalize()
    return Verdict(
        "info",
        f"{where} feeds {most} {name} (AU of at least {percent(first.au_pass)}{caveat}). {limit}{by_plain}",
        {
            "headline": {
                "title": ", ".join(
                    filter(None, [f"{first.name.upper()}s fed" if first.name else "accelerators fed", first.workload])
                ),
                "value": most,
            },
            "most": most,
            "au": {accelerators.number: accelerators.au for accelerators, _ in found},
            "law": {
                accelerators.number: accelerators.au * accelerators.need_bytes_s * accelerators.number
                for accelerators, _ in found
            },
            "bytes_s": {accelerators.number: accelerators.whole_bytes_s for accelerators, _ in found},
            "by_throughput": by_rate,
            "best_bytes_s": best,
            **evidence,
        },
        f"Measure again: {here.command()}"
        if needier
        else f"See the findings on single points: the best rate, {format_bytes_s(best)}, is enough for {by_rate:.1f} "
        "accelerators."
        if fails
        else f"Try more: {here.command(accelerators=f'{last * 2},{last * 4}')}",
        points=tuple(at for _, at in found),
    )


def _next_limit(case: Case, fails: Fed) -> str:
    """What keeps this number of accelerators from being fed."""
    name = _name_limit(case, fails)
    limit = f"and the next limit is {name}: " if name else "while "
    return (
        f"With {fails.number}, AU is {fails.au_text} {limit}{format_bytes_s(fails.nominal_bytes_s)} of the needed "
        f"{format_bytes_s(fails.need_bytes_s * fails.number)} arrive.{'' if name else ' Limit not identified.'}"
    )


def _name_limit(case: Case, fails: Fed) -> str:
    """The client's own speed, a ceiling that is reached, what plain reads do not exceed either, or the storage.

    Between a loader and an object store there is more than these: there it may be unknown.
    """
    client = client_bytes_s(case.run, case.result, fails.number)
    if client is not None and client < fails.need_bytes_s * fails.number * fails.au_pass * fails.read_share:
        return "this client"
    full = [
        used.bound.ceiling.label
        for used in utilizations(case.result.ceilings, case.point, case.parameters)
        if used.share > (1 - APART if used.bound.ceiling.label == PLAIN_GETS else BUSY)
    ]
    medium = find_medium(case)
    return next((label for label in full if label != PLAIN_GETS), medium.shown_by_plain if full else medium.limit)


def _by_plain(case: Case, found: list[tuple[Fed, int]]) -> tuple[str, dict[str, float]]:
    """How many accelerators plain reads would feed, in words and figures."""
    plain, first, largest = find_plain_reads(case.run, case.result), found[0][0], found[-1][0].number
    reached = plain.bytes_s(largest) if plain else None
    if plain is None or reached is None:
        return "", {}
    feeds, need = plain.feeds(first, largest), first.need_bytes_s * first.read_share * first.au_pass
    says = (
        f" By {plain.title} with {plain.count_workers(largest)} ({format_bytes_s(reached)}), it "
        f"would feed {feeds if feeds < largest else f'all {largest}'}; the rate is enough for {reached / need:.1f}."
    )
    return says, {"plain_most": feeds, "plain_bytes_s": reached, "plain_by_throughput": reached / need}


def _is_disturbed(point: Measurement) -> bool:
    """Whether other load disturbed the point, which alone makes two readings differ."""
    return bool({"others_at_work", "steal"} & set(point.why))


def training_plain(case: Case) -> Verdict | None:
    """Loader and plain reads that disagree: one of them did not measure the storage."""
    plain = find_plain_reads(case.run, case.result)
    if plain is None:
        return None
    worst: tuple[float, Fed, float, float, int] | None = None
    for accelerators, at in _in_order(case.result):
        reached, loaded = plain.bytes_s(accelerators.number), case.result.points[at].throughput.value
        point = plain.point(accelerators.number)
        if (
            point is None
            or reached is None
            or loaded <= 0
            or _is_disturbed(point)
            or _is_disturbed(case.result.points[at])
        ):
            continue
        off = loaded / reached - 1
        # Accelerators that get enough read no more: only a loader that falls short shows a loss.
        counts = off > APART or (off < -APART and not accelerators.passes)
        if counts and (worst is None or abs(off) > worst[0]):
            worst = (abs(off), accelerators, reached, loaded, at)
    if worst is None:
        return None
    off, fed, reached, loaded, at = worst
    here = Case(case.run, case.result, at)
    says = f"The loader gets {format_bytes_s(loaded)}, {plain.title} with "
    says += f"{plain.count_workers(fed.number)} get {format_bytes_s(reached)}."
    evidence = {"loader_bytes_s": loaded, "plain_bytes_s": reached, "apart": off, "tolerance": APART}
    if loaded > reached:
        return Verdict(
            "warning",
            f"The loader is {percent(off)} faster than plain reads of the same storage ({fed.who}). {says} "
            f"Possible causes: {plain.medium.gains}.",
            evidence,
            plain.medium.recheck + here.command(**plain.medium.changes),
            points=(at,),
        )
    client = client_bytes_s(case.run, case.result, fed.number)
    slow = client is not None and client < reached * (1 - APART)
    why = (
        f"The loader itself delivers no more than {format_bytes_s(client)} from memory."
        if slow and client is not None
        else f"Possible causes: {plain.medium.losses}."
    )
    return Verdict(
        "warning",
        f"The storage is not the limit ({fed.who}): the loader is {percent(off)} slower than plain reads. {says} {why}",
        evidence,
        f"Use a client with more processors, or parse nothing: {here.command(parse='raw')}"
        if slow
        else f"Keep more in flight: {here.command(read_threads=2 * plain.threads_each, prefetch=4)}",
        points=(at,),
    )


RULES = (
    Rule("training_capacity", "experiment", training_capacity, OF_LOADER),
    Rule("training_plain", "experiment", training_plain, OF_LOADER),
)
