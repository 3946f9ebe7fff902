"""What a dry run prints: each point and each preparation with its bytes and time; nothing is measured or written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from hwdyno.cli.statuses import OK
from hwdyno.model.units import format_bytes, format_duration, plural

if TYPE_CHECKING:
    from hwdyno.measure.dry_run import Line
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.scenarios import Preparation, Scenario
    from hwdyno.model.machine import Machine

SHORTEST_SHOWN_S = 0.1


def list_scenario(scenario: Scenario, host: Host) -> int:
    """List each point and each preparation, with their bytes and times."""
    from hwdyno.cli.progress import describe_point

    preparations, write_bytes_s = scenario.prepares(), write_speed(scenario, host)
    lines = scenario.points(write_bytes_s)
    out = sys.stdout.write
    width = max(len(describe_point(line.parameters, line.axes)) for line in lines)
    name_width = max(len(line.experiment) for line in lines)
    for text in scenario.needs:
        out(f"{text}\n")
    for line in lines:
        out(
            f"{line.experiment:{name_width}}  {describe_point(line.parameters, line.axes):{width}}  "
            f"{format_duration(line.takes_s):>8}  writes {_amount(line.min_bytes, line.writes_bytes) or 'nothing'}\n"
        )
    list_preparations(preparations, write_bytes_s)
    if not scenario.is_prepared_only:
        out(format_record(lines))
    out(format_total(lines, preparations, write_bytes_s))
    for text in scenario.costs(lines):
        out(f"{text}\n")
    return OK


def format_record(lines: Sequence[Line]) -> str:
    """The line of a Run's record, which the total of the measured storage leaves out."""
    from hwdyno.measure.dry_run import estimate_record

    return f"record: writes about {format_bytes(estimate_record(len(lines)))} to the store of Runs; a page takes more\n"


def format_total(lines: Sequence[Line], preparations: Sequence[Preparation], write_bytes_s: float) -> str:
    """The last line of a dry run: the points, their time, and the bytes that they and what is prepared write."""
    total_s = sum(line.takes_s for line in lines) + sum(
        preparation.seconds(write_bytes_s) for preparation in preparations
    )
    made = sum(preparation.bytes for preparation in preparations if not preparation.by_points)
    least, most = (made + sum(map(attrgetter(of), lines)) for of in ("min_bytes", "writes_bytes"))
    known = all(line.min_bytes or not line.writes_bytes for line in lines)
    total = _amount(least if known else 0.0, most) or "nothing else"
    return f"total: {plural(len(lines), 'point')}, at least {format_duration(total_s)}, {total} written\n"


def _amount(least: float, most: float) -> str:
    """``12 MB``, ``12 MB to 20 MB``, or ``up to 20 MB`` where nothing less is known; empty for no byte."""
    texts = [format_bytes(amount) for amount in dict.fromkeys((least, most)) if amount]
    return " to ".join(dict.fromkeys(texts)) if least else "".join(f"up to {text}" for text in texts)


def list_preparations(preparations: Sequence[Preparation], write_bytes_s: float) -> None:
    """List each preparation with the bytes that it writes and the time that it takes."""
    for preparation in preparations:
        if preparation.description:
            sys.stdout.write(
                ": ".join(filter(None, [preparation.description, _cost(preparation, write_bytes_s)])) + "\n"
            )


def _cost(preparation: Preparation, write_bytes_s: float) -> str:
    if preparation.by_points:
        size = f"{'at most ' if preparation.is_limit else ''}{format_bytes(preparation.bytes)}"
        return f"{size} at a time, written by its points"
    seconds = preparation.seconds(write_bytes_s)
    takes = f"{'about' if preparation.compute_s else 'at least'} {format_duration(max(SHORTEST_SHOWN_S, seconds))}"
    if preparation.bytes:
        return f"writes {format_bytes(preparation.bytes)}, {takes}"
    return f"takes {takes}" if seconds else ""


def write_speed(scenario: Scenario, host: Host) -> float:
    """The most that the storage can take, bytes/s: its link's rate, or a fast drive's where the link is unknown."""
    from hwdyno.measure.plan import WRITE_BYTES_S

    return _link_speed(host.survey(scenario.plan.path)) or WRITE_BYTES_S


def _link_speed(machine: Machine) -> float | None:
    """The raw rate of the link to the disk, bytes/s, before any encoding; none where it is unknown."""
    speeds = [float((disk.link.bits_s if disk.link else None) or 0) for disk in machine.storage.disks]
    return max(speeds) / 8 if speeds and all(speeds) else None
