"""What a text states of its disks: options that fio has not, links, depths, ratings and conclusions, by laws."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.published import sum_rounding
from hwdyno.explain.findings.rule import Case, Verdict, operations_per_s, percent
from hwdyno.model.units import format_bytes_s, format_ns, number_at, plural
from hwdyno.model.words import Measurement

QUEUES = {"SATA": "SATA's queue (NCQ)", "EMMC": "eMMC's command queue"}
QUEUE_ENTRIES = 32
"""Commands that a drive can hold: Serial ATA 2.5 and later (NCQ), JEDEC eMMC 5.1 (command queue)."""
SATA_3_GBIT_BYTES_S = 300e6
"""3 Gbit/s x 8/10 / 8 (Serial ATA 2.5)."""
OLDER_LINK = (0.8, 0.97)
"""Shares of a SATA link that drives reach through it: commands and frames take the remainder."""
PLATEAU = 0.06
MIN_ROWS = 4
RISES = 0.1
STEADY_BLOCK = 4096
ABOVE_STEADY = 1.2
MOSTLY = 0.5
LITTLE, MIN_JOBS = 0.05, 1.8
"""Error of Little's law in a published row, and the multiple of a depth from which on jobs may be the reason."""


def find_statement(case: Case, name: str) -> Any:
    """What the text of an experiment states under a name of its points' details; none where it does not."""
    return next((found for point in case.result.points if (found := point.details.get(name)) is not None), None)


def no_such_option(case: Case) -> Verdict | None:
    """An order of access that a text gives fio as an option, which ends fio at once."""
    (first, *others) = find_statement(case, "wrong_options") or [{}]
    if not first:
        return None
    more = f" The same holds for {', '.join(str(other['option']) for other in others)}." if others else ""
    return Verdict(
        "warning",
        f"The program fio has no option {first['option']}: it stops with 'unrecognized option'. The results come from "
        f"another command, such as one with {first['right']}.{more}",
        {"options": [first["option"], *(other["option"] for other in others)]},
        f"State the command that ran, for example: fio {first['right']}",
    )


def past_device_queue(case: Case) -> Verdict | None:
    """Queue depths that no drive with the stated interface can hold."""
    queue = QUEUES.get(str((find_statement(case, "measured_drive") or {}).get("interface")))
    depths = [_depth(case, at) for at in range(len(case.result.points))]
    swept = find_statement(case, "stated_depths")
    most = max([*depths, float(swept[1]) if swept else 0.0], default=0.0)
    if queue is None or most <= QUEUE_ENTRIES:
        return None
    return Verdict(
        "warning",
        f"Depths above {QUEUE_ENTRIES} are not in the drive: {queue} has {QUEUE_ENTRIES} entries, and depths go up to "
        f"{most:,.0f}. The others wait in the host: that adds latency, and gives the drive no more to do.",
        {"depth": most, "entries": QUEUE_ENTRIES},
        f"Compare depths up to {QUEUE_ENTRIES} only: hwdyno storage --rw randread --iodepth 1..{QUEUE_ENTRIES}",
        points=tuple(at for at, depth in enumerate(depths) if depth > QUEUE_ENTRIES),
    )


def beyond_stated_depth(case: Case) -> Verdict | None:
    """More operations in flight, by Little's law, than the one depth that a text states."""
    depth = find_statement(case, "stated_depth")
    found = []
    for at, point in enumerate(case.result.points):
        row = Case(case.run, case.result, at)
        if not depth or row.number("iodepth") or row.number("numjobs") or not row.effective:
            continue
        rounding = sum_rounding(point, "iops", "lat")
        # Several jobs, which the text may not state, have several times the depth.
        if depth * (1 + LITTLE + rounding) < row.effective < MIN_JOBS * depth:
            found.append((row.effective, at))
    if not found:
        return None
    most, at = max(found)
    row = Case(case.run, case.result, at)
    rate, latency = operations_per_s(row.point) or 0.0, row.point.latency_ns
    return Verdict(
        "warning",
        f"Rate x latency is {most:.1f} in flight ({row.label}: {rate:,.0f} IOPS x "
        f"{format_ns(latency.mean if latency else 0)}), but the text states a depth of {depth}. "
        "By Little's law, one of the three is wrong.",
        {"effective": most, "depth": depth, "rows": len(found)},
        "Check the row against the tool's output: the rate and the mean of the whole latency (lat, not clat).",
        points=tuple(at for _, at in found),
    )


def near_older_link(case: Case) -> Verdict | None:
    """A SATA SSD that ends where a link of 3 Gbit/s does."""
    drive = find_statement(case, "measured_drive") or {}
    rates = [(point.throughput.value, at) for at, point in _with_bandwidth(case) if _reads(case, at) != 0]
    most, _ = max(rates, default=(0.0, -1))
    share = most / SATA_3_GBIT_BYTES_S
    near = [at for rate, at in rates if rate >= (1 - PLATEAU) * most]
    if drive.get("interface") != "SATA" or not drive.get("flash") or len(near) < 2:
        return None
    if not OLDER_LINK[0] <= share <= OLDER_LINK[1]:
        return None
    return Verdict(
        "info",
        f"The results of this SATA SSD end at {format_bytes_s(most)}, {percent(share)} of what a link of 3 Gbit/s "
        f"(SATA II) carries, {format_bytes_s(SATA_3_GBIT_BYTES_S)}. A possible limit is the host's port, not the drive "
        "or its age.",
        {"measured": most, "link": SATA_3_GBIT_BYTES_S},
        "See the rate of the link on that host: cat /sys/class/ata_link/*/sata_spd",
        points=tuple(near),
    )


def beyond_endpoint(case: Case) -> Verdict | None:
    """Results faster than the slower of the two devices that a text says the bytes move between."""
    end = find_statement(case, "slow_endpoint") or {}
    limit = number_at(end, "value")
    above = [
        (point.throughput.value, at)
        for at, point in _with_bandwidth(case)
        if limit and point.throughput.value > limit * (1.05 + sum_rounding(point, "bw"))
    ]
    if not above:
        return None
    most, at = max(above)
    return Verdict(
        "warning",
        f"{format_bytes_s(most)} is no transfer to or from {end['label']}, which carries {format_bytes_s(limit)} at "
        f"most ({Case(case.run, case.result, at).label}; {plural(len(above), 'row')}). A storage test moves data "
        "between one drive and memory.",
        {"measured": most, "link": limit, "source": end.get("source")},
        "Name the path that was measured: the drive, its link and memory.",
        points=tuple(at for _, at in above),
    )


def settings_confounded(case: Case) -> Verdict | None:
    """A best row that differs from each other one in two settings, where a text credits one of them."""
    groups: dict[str, list[int]] = defaultdict(list)
    for at, point in _with_bandwidth(case):
        others = {name: value for name, value in point.parameters.items() if name not in {"bs", "iodepth"}}
        groups[str(sorted(others.items(), key=str))].append(at)
    for rows in groups.values() if find_statement(case, "credits_settings") else ():
        by_rate = sorted(rows, key=lambda at: -case.result.points[at].throughput.value)
        pairs = {at: _settings(case, at) for at in rows}
        values = [{pair[of] for pair in pairs.values()} for of in (0, 1)]
        if len(rows) < MIN_ROWS or min(map(len, values)) < 2 or any(None in pair for pair in pairs.values()):
            continue
        best, second = by_rate[:2]
        if any(sum(map(_differ, pairs[at], pairs[best])) < 2 for at in rows if at != best):
            continue
        shown = " and ".join(
            f"{format_bytes_s(case.result.points[at].throughput.value)} ({Case(case.run, case.result, at).label})"
            for at in (best, second)
        )
        return Verdict(
            "warning",
            f"Block size and depth change together in the best row: {shown}. No other row differs from it in one "
            "setting alone, so the table does not show which of the two made the difference.",
            {"best": pairs[best], "second": pairs[second]},
            "Change one setting at a time: the best row's block size at the other depth, and the reverse.",
            points=(best, second),
        )
    return None


def steady_rating(case: Case) -> Verdict | None:
    """Writes above a data centre drive's rating, which is of its steady state."""
    rating = number_at(find_statement(case, "rated_writes") or {}, "value")
    above = [
        (rate, at)
        for at, point in enumerate(case.result.points)
        if (rate := operations_per_s(point) or 0.0) > ABOVE_STEADY * rating > 0
        and _reads(case, at) == 0
        and Case(case.run, case.result, at).number("bs") == STEADY_BLOCK
    ]
    if not above:
        return None
    rate, at = max(above)
    return Verdict(
        "warning",
        f"{rate:,.0f} IOPS cannot be compared with the {rating:,.0f} that the text quotes for a data centre drive "
        f"({Case(case.run, case.result, at).label}). Such ratings are of a full drive in its steady state; this run is "
        "not shown to be in one.",
        {"measured": rate, "rating": rating},
        "Measure the steady state, after the drive was filled twice: hwdyno storage snia --help",
        points=tuple(at for _, at in above),
    )


def called_inverse(case: Case) -> Verdict | None:
    """Bandwidth and latency that a text calls inverse, where more load raises both."""
    words = find_statement(case, "called_inverse")
    rising, swept = _both_rise(case), find_statement(case, "stated_depths")
    if not words or not (rising or swept):
        return None
    if rising:
        (less, more) = (case.result.points[at] for at in rising)
        shown = ", then ".join(
            f"{format_bytes_s(point.throughput.value)} at {format_ns(point.latency_ns.mean)}"
            for point in (less, more)
            if point.latency_ns
        )
        why = f"Here both rise: {shown}."
    else:
        why = f"Both rise with the depth (here up to {swept[1]:,}) to the plateau; past it latency rises alone."
    return Verdict(
        "warning",
        f"Bandwidth and latency are not inverse, as the text says ('{words}'). {why} "
        "Little's law: depth = rate x latency.",
        {"depths": swept, "rows": rising},
        "Plot latency against throughput for each depth: hwdyno storage --rw randread --iodepth 1..32",
        points=tuple(rising or ()),
    )


def disk_kind_by_cache(case: Case) -> Verdict | None:
    """A kind of disk that a text concludes from its speed, where results come from memory."""
    kind = find_statement(case, "concluded_kind")
    results = [result for result in case.run.experiments if result.resource == "storage" and result.kernel != "claim"]
    direct = [Case(case.run, result, at).parameter("direct") for result in results for at in range(len(result.points))]
    cached = direct.count(False)
    if not kind or cached < MOSTLY * len(direct) or not cached:
        return None
    return Verdict(
        "warning",
        f"The text concludes from its speed that the disk is {'an' if kind[0] == 'S' else 'a'} {kind}, but "
        f"{cached} of {plural(len(direct), 'storage result')} {'is' if cached == 1 else 'are'} without direct I/O. "
        "The page cache answers alike on every disk.",
        {"kind": kind, "cached": cached, "results": len(direct)},
        "Read what the system says (cat /sys/block/*/queue/rotational), or measure past the cache: "
        "hwdyno storage --rw randread --bs 4k --direct 1",
    )


def _depth(case: Case, at: int) -> float:
    point = Case(case.run, case.result, at)
    return (point.number("iodepth") or 0.0) * max(1.0, point.number("numjobs") or 1.0)


def _settings(case: Case, at: int) -> tuple[float | None, float | None]:
    point = Case(case.run, case.result, at)
    return point.number("bs"), point.number("iodepth")


def _differ(first: float | None, second: float | None) -> bool:
    return first != second


def _reads(case: Case, at: int) -> float | None:
    return Case(case.run, case.result, at).read_share


def _with_bandwidth(case: Case) -> Iterator[tuple[int, Measurement]]:
    return ((at, point) for at, point in enumerate(case.result.points) if point.throughput.unit == "bytes/s")


def _both_rise(case: Case) -> tuple[int, int] | None:
    """Two rows that differ in block size or depth alone, the second with more of both bandwidth and latency."""
    rows = [(at, point) for at, point in _with_bandwidth(case) if point.latency_ns and point.latency_ns.mean > 0]
    for (first, less), (second, more) in combinations(rows, 2):
        names = {name for name in {**less.parameters, **more.parameters} if _value(less, name) != _value(more, name)}
        if names not in ({"bs"}, {"iodepth"}) or not (less.latency_ns and more.latency_ns):
            continue
        (low, a), (high, b) = sorted(((less, first), (more, second)), key=lambda row: row[0].throughput.value)
        if not (low.latency_ns and high.latency_ns):
            continue
        rises = high.throughput.value / low.throughput.value, high.latency_ns.mean / low.latency_ns.mean
        if min(rises) > 1 + RISES:
            return a, b
    return None


def _value(point: Measurement, name: str) -> object:
    return point.parameters.get(name)


def _rule(name: str, check: Any, need: str) -> Rule:
    return Rule(name, "experiment", check, Applies(imported=True, resources=("storage",), needs=(f"details.{need}",)))


RULES = (
    _rule("no_such_option", no_such_option, "wrong_options"),
    _rule("past_device_queue", past_device_queue, "measured_drive"),
    _rule("beyond_stated_depth", beyond_stated_depth, "stated_depth"),
    _rule("near_older_link", near_older_link, "measured_drive"),
    _rule("beyond_endpoint", beyond_endpoint, "slow_endpoint"),
    _rule("settings_confounded", settings_confounded, "credits_settings"),
    _rule("steady_rating", steady_rating, "rated_writes"),
    _rule("called_inverse", called_inverse, "called_inverse"),
    _rule("disk_kind_by_cache", disk_kind_by_cache, "concluded_kind"),
)
