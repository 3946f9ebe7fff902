"""The lines of fio's normal output: what each states of a job, a direction or a group of jobs.

The lines are described in fio's manual, "Interpreting the output". fio 3 prints binary prefixes and, in brackets,
decimal ones. fio 2 prints KB for 1024 bytes (``kb_base``, whose default is 1024).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hwdyno.formats.fio_options import ALIASES, convert_options
from hwdyno.formats.row import figures, number
from hwdyno.model.point_details import Samples
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.units import parse_size
from hwdyno.model.words import Latency, Parameters, UserError

JOB = re.compile(r"^(?P<name>[^\n:]{1,128}): \(g=(?P<group>\d{1,6})\): rw=(?P<rw>\w+), (?P<rest>[^\n]*)$", re.M)
RESULT = re.compile(r"^(?P<name>[^\n:]{1,128}): \(groupid=(?P<group>\d{1,6}), jobs=(?P<jobs>\d{1,6})\): err=", re.M)
COMMAND = re.compile(r"^(?:[^\n]{0,80}[\s$#%>/])?fio (?P<words>(?=[^\n]{0,400}-[a-z_]+=)(?:[^\n\\]|\\\n?)+)$", re.M)
GROUP = re.compile(r"^Run status group (\d{1,6})", re.M)
WAY = re.compile(
    r"^[ \t]{0,128}(?P<way>read|write|trim)[ \t]*: ?IOPS=(?P<iops>[\d.]{1,20}[kMG]?), BW=[\d.]{1,20}[KMGT]?i?B/s"
    r" \((?P<bw>[\d.]{1,20})(?P<bw_prefix>[kMGT]?)B/s\)"
    r"(?:\((?P<io>[\d.]{1,20})(?P<io_prefix>[KMGT]?)i?B/(?P<ms>\d{1,15})msec\))?[^\n]*",
    re.M,
)
# fio 2: "  write: io=1040.3MB, bw=106500KB/s, iops=26625, runt= 10002msec".
OLD_WAY = re.compile(
    r"^[ \t]{0,128}(?P<way>read|write|trim)[ \t]*: ?(?:io=(?P<io>[\d.]{1,20})(?P<io_prefix>[KMGT]?)i?B, )?"
    r"bw=(?P<bw>[\d.]{1,20})(?P<bw_prefix>[KMGT]?)i?B/s, iops=(?P<iops>[\d.]{1,20}[kKMG]?)"
    r"(?:, runt= {0,8}(?P<ms>\d{1,15})msec)?[^\n]*",
    re.M,
)
STATUS = re.compile(
    r"^[ \t]*(?P<way>READ|WRITE|TRIM): bw=[\d.]{1,20}[KMGT]?i?B/s \((?P<bw>[\d.]{1,20})(?P<bw_prefix>[kMGT]?)B/s\)"
    r"(?:[^\n]*?, io=(?P<io>[\d.]{1,20})(?P<io_prefix>[KMGT]?)i?B)?"
    r"(?:[^\n]*?, run=\d{1,15}-(?P<ms>\d{1,15})msec)?[^\n]*",
    re.M,
)
# fio 2: "   READ: io=1439.0MB, aggrb=98231KB/s, minb=98231KB/s, maxb=98231KB/s, mint=15001msec, maxt=15001msec".
OLD_STATUS = re.compile(
    r"^[ \t]*(?P<way>READ|WRITE|TRIM): io=(?P<io>[\d.]{1,20})(?P<io_prefix>[KMGT]?)i?B, "
    r"aggrb=(?P<bw>[\d.]{1,20})(?P<bw_prefix>[KMGT]?)i?B/s(?:[^\n]*?, maxt= {0,8}(?P<ms>\d{1,15})msec)?[^\n]*",
    re.M,
)
SPREAD = re.compile(
    r"^[ \t]+(slat|clat|lat) \((nsec|usec|msec|sec)\) {0,4}: min= {0,8}([\d.]+[kKMG]?), max= {0,8}([\d.]+[kKMG]?)"
    r", avg= {0,8}([\d.]+[kKMG]?), stdev= {0,8}([\d.]+)[^\n]*",
    re.M,
)
PERCENTILES = re.compile(r"^[ \t]*(clat|lat) percentiles \((nsec|usec|msec|sec)\):((?:[ \t]*\n[ \t]*\|[^\n]*)+)", re.M)
_ONE = re.compile(r"(\d{1,2}\.\d\d)th=\[\s*(\d{1,15})\]")
CPU = re.compile(r"^[ \t]+cpu[ \t]*: usr=([\d.]{1,8})%, sys=([\d.]{1,8})%[^\n]*", re.M)
DEPTHS = re.compile(r"^[ \t]+IO depths[ \t]*: (1=[^\n]*)", re.M)
ISSUED = re.compile(
    r"^[ \t]+issued[^\n:]*: total=(?:r=)?(\d{1,18})[,/](?:w=)?(\d{1,18})[,/](?:d=)?(\d{1,18})[^\n]*", re.M
)
SAMPLES = re.compile(
    r"^[ \t]+bw \( *([KMGT]?)i?B */s\) *: min= {0,8}([\d.]+[kKMG]?), max= {0,8}([\d.]+[kKMG]?), per= {0,8}[\d.]+%"
    r", avg= {0,8}([\d.]+), stdev= {0,8}([\d.]+)(?:, samples= {0,8}(\d+))?",
    re.M,
)
# "Jobs: 1 (f=1), 0-300 IOPS: [w(1)]": the least and the most that its jobs may reach.
PACE = re.compile(r"^Jobs: 1 \(f=\d{1,9}\), \d{1,12}-(\d{1,12}) IOPS: \[", re.M)
_SIZE = re.compile(r"bs=(?:\(R\) )?([\w.]+?)(?:-([\w.]+))?(?:,|/)")
_OPTION = re.compile(r"(?:^|\s)--?([a-z][a-z0-9_-]{1,40})(?:(?:=|[ \t]+(?!-))(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"']+))?")
SECONDS = {"nsec": 1e-9, "usec": 1e-6, "msec": 1e-3, "sec": 1.0}
POWERS = {"": 0, "K": 1, "k": 1, "M": 2, "G": 3, "T": 4}
_KEPT = {"50.00": "p50", "90.00": "p90", "95.00": "p95", "99.00": "p99", "99.90": "p999", "99.99": "p9999"}
SAMPLE_S = 0.5
"""fio averages bandwidth over this unless bwavgtime says otherwise."""


def options_in_job(match: re.Match[str]) -> Parameters:
    """What a job's first line states, which fio prints before it starts: pattern, block size, engine and depth."""
    found: Parameters = {"rw": match["rw"]}
    size = _SIZE.search(match["rest"])
    if size and size[2] in {None, size[1]}:  # A range of sizes is none.
        try:
            found["bs"] = parse_size(size[1])
        except UserError:
            found.pop("bs", None)
    for key, value in re.findall(r"(ioengine|iodepth)=(\w{1,20})", match["rest"]):
        found[key] = int(value) if value.isdigit() and value.isascii() else value
    return found


def options_in_command(words: str, job: str) -> Parameters:
    """What a command line states of a job: the options before the first ``--name``, and those of that job alone."""
    parts: list[tuple[str, dict[str, str]]] = [("", {})]
    for name, value in _OPTION.findall(words.replace("\\\n", " ")):
        plain = value.strip("\"'")
        if name == "name":
            parts.append((plain, {}))
        elif value:
            parts[-1][1][ALIASES.get(name, name)] = plain
    # The name of a single job may have been replaced in what is published.
    given = dict(parts[0][1])
    for name, options in parts[1:]:
        if name == job or len(parts) == 2:
            given |= options
    known = set(given)
    known |= {"direct"} if "buffered" in given else set()
    known |= {"bs"} if {"bsrange", "bssplit"} & known else set()
    return {name: value for name, value in convert_options(given, 1).items() if name in known and value != ""}


@dataclass(frozen=True, slots=True)
class Direction:
    """What is printed of one direction of a job, or of a group of jobs."""

    name: str
    numbers: Mapping[str, PrintedNumber]
    """``bw``, ``iops``, ``lat_mean`` … in base units; ``data`` and ``time`` as well."""
    spreads: Mapping[str, Latency]
    """Latencies by fio's names: ``slat``, ``clat``, ``lat``."""
    percentiles: Mapping[str, PrintedNumber]
    """``p50`` and others in seconds."""
    percentiles_of: str
    """``clat`` or ``lat``; empty without percentiles."""
    samples: Samples | None

    @property
    def milliseconds(self) -> float:
        """Run time in ms; 0 where it is not printed."""
        return self.numbers["time"].value * 1e3 if "time" in self.numbers else 0.0


def parse_direction(way: re.Match[str], part: str) -> Direction:
    """Reads a direction's line and the lines below it. Raises ``UserError`` for a number out of range."""
    is_old = way.re in {OLD_WAY, OLD_STATUS}
    given = way.groupdict()
    bandwidth = number(given["bw"], (1024.0 if is_old else 1000.0) ** POWERS[given["bw_prefix"]])
    moved = number(given["io"], 1024.0 ** POWERS[given["io_prefix"] or ""], "GiB") if given["io"] else None
    found = figures(bw=bandwidth, data=moved, time=number(given["ms"], 1e-3) if given["ms"] else None)
    if (rate := number(given.get("iops"))) is not None:
        # fio leaves out what follows the last digit of a rate instead of rounding it.
        found["iops"] = PrintedNumber(rate.value, 2 * rate.rounding, rate.unit)
    spreads = {match[1]: match for match in SPREAD.finditer(part)}
    whole = spreads.get("lat") or spreads.get("clat")
    if whole is not None:
        scale = SECONDS[whole[2]]
        found |= figures(
            lat_min=number(whole[3], scale), lat_max=number(whole[4], scale), lat_mean=number(whole[5], scale)
        )
    listed = list(PERCENTILES.finditer(part))
    chosen = next((match for match in listed if match[1] == "lat"), listed[0] if listed else None)
    percentiles = {}
    for percentile, value in _ONE.findall(chosen[3]) if chosen else ():
        if percentile in _KEPT and chosen and (figure := number(value, SECONDS[chosen[2]])) is not None:
            percentiles[_KEPT[percentile]] = figure
    latencies = {kind: latency for kind, match in spreads.items() if (latency := _latency(match)) is not None}
    return Direction(
        given["way"].lower(), found, latencies, percentiles, chosen[1] if chosen and percentiles else "", _samples(part)
    )


def _latency(spread: re.Match[str]) -> Latency | None:
    low, high, mean = (number(spread[at], SECONDS[spread[2]] * 1e9) for at in (3, 4, 5))
    if mean is None or mean.value <= 0:
        return None
    return Latency(mean.value, *(None,) * 4, low.value if low else None, high.value if high else None, count=0)


def _samples(part: str) -> Samples | None:
    match = SAMPLES.search(part)
    if match is None:
        return None
    low, high, mean, spread = (number(match[at], 1024.0 ** POWERS[match[1]]) for at in (2, 3, 4, 5))
    if low is None or high is None or mean is None or spread is None or mean.value <= 0:
        return None
    counted = int(match[6]) if match[6] and len(match[6]) < 10 else 0
    return Samples(low.value, mean.value, high.value, SAMPLE_S, spread.value / mean.value if counted >= 3 else None)
