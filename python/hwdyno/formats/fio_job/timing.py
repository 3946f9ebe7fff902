"""Keys for when a job starts and ends: runtime, ramp, loops, bytes, operations, steady state, other jobs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hwdyno.formats.fio_job.reader import JobOption, Reader
from hwdyno.model.words import Parameters

PER_JOB = ("io_size", "number_ios")
"""Keys that fio counts per thread, and our kernel over all threads."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """How a job depends on other jobs."""

    waits_for: JobOption | None = None
    """The job whose end starts it."""
    ends: str = ""
    """The jobs that its end stops: none (empty), its reporting ``group``, up to the next ``stonewall``, or ``all``."""


def read_times(reader: Reader, given: Parameters) -> None:
    """Read the keys of time."""
    runtime, based = reader.seconds("runtime"), reader.has("time_based")
    based = bool(reader.flag("time_based")) if based else False
    given["runtime"], given["time_based"] = runtime or 0.0, based and bool(runtime)
    given["ramp_time"] = reader.seconds("ramp_time") or 0.0
    delay = reader.options.get("startdelay")
    if delay is not None and "-" in delay.value:
        raise reader.error(delay, f"startdelay={delay.value}: a range is random; write one time")
    given["startdelay"] = reader.seconds("startdelay") or 0.0
    _steady(reader, given)
    for key in ("seed", "randseed"):
        if (seed := reader.integer(key)) is not None:
            given["seed"] = seed


def _steady(reader: Reader, given: Parameters) -> None:
    criterion, window = reader.options.pop("steadystate", None), reader.seconds("steadystate_duration")
    ramp, interval = reader.seconds("steadystate_ramp_time"), reader.seconds("steadystate_check_interval")
    if criterion is not None and window:
        if not re.fullmatch(r"(iops|bw|lat)(_slope)?:\d+(\.\d+)?%?", criterion.value):
            raise reader.error(criterion, f"steadystate={criterion.value} is not a criterion such as iops_slope:0.3%")
        given["steadystate"] = criterion.value
        given["steadystate_duration"], given["steadystate_ramp_time"] = window, ramp or 0.0
        given["steadystate_interval"] = interval or 1.0
        if window < 2 * (interval or 1.0):
            raise reader.error(
                criterion, f"steadystate_duration={window:g} must hold two intervals of {interval or 1:g} s"
            )
    elif criterion is not None:
        reader.notes["steadystate"] = "steadystate needs steadystate_duration, as in fio; it is off"


def read_lengths(reader: Reader, given: Parameters) -> None:
    """Read the keys of how much is transferred; ``given`` already has the keys of time."""
    loops, moved, count = reader.integer("loops", 1), reader.size("io_size"), reader.integer("number_ios", 1)
    if given["time_based"]:
        return
    if loops and loops > 1:
        given["loops"] = min(loops, 1 << 30)
    if moved:
        given["io_size"] = moved
    if count:
        given["number_ios"] = count


def dependencies(reader: Reader) -> Dependencies:
    """Read the keys by which jobs wait for and stop each other."""
    waits_for = reader.options.pop("wait_for", None)
    kind, ends = reader.options.pop("exit_what", None), reader.flag("exitall")
    if kind is not None and kind.value not in {"group", "stonewall", "all"}:
        raise reader.error(kind, f"exit_what={kind.value} is none of group, stonewall, all")
    return Dependencies(waits_for, (kind.value if kind is not None else "group") if ends else "")
