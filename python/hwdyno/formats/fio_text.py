"""Reads fio's normal output (no ``--output-format``) into a Run: jobs or groups, by direction.

The lines are described in fio's manual, "Interpreting the output": binary prefixes in ``BW=``, the time's unit in
brackets before each spread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwdyno.formats import printed
from hwdyno.formats.cell import PrintedNumber
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.units import parse_size
from hwdyno.model.words import Measurement, Parameters, Run, UserError

NAME = "fio-text"
_JOB = re.compile(r"^(?P<name>[^\n:]{1,128}): \(g=(?P<group>\d{1,6})\): rw=(?P<rw>\w+), (?P<rest>[^\n]*)$", re.M)
_RESULT = re.compile(r"^(?P<name>[^\n:]{1,128}): \(groupid=(?P<group>\d{1,6}), jobs=(?P<jobs>\d{1,6})\): err=", re.M)
_WAY = re.compile(
    r"^\s{1,6}(read|write|trim)\s*: ?IOPS=([\d.]+[kMG]?), BW=([\d.]+)([KMGT]?)i?B/s \(([\d.]+)([kMGT]?)B/s\)", re.M
)
# fio 2: "  write: io=1040.3MB, bw=106500KB/s, iops=26625, runt= 10002msec", where KB is of 1024 bytes.
_OLD_WAY = re.compile(
    r"^\s{1,6}(read|write|trim)\s*: ?io=[\d.]+[KMGT]?i?B, bw=([\d.]+)([KMGT]?)i?B/s, iops=(\d+), runt=", re.M
)
_SPREAD = re.compile(
    r"^\s+(slat|clat|lat) \((nsec|usec|msec|sec)\): min= ?([\d.]+[kKMG]?), max= ?([\d.]+[kKMG]?)"
    r", avg= ?([\d.]+[kKMG]?), stdev= ?([\d.]+)",
    re.M,
)
_PERCENTILES = re.compile(r"(?:clat|lat) percentiles \((nsec|usec|msec)\):((?:\s*\|[^\n]*)+)")
_ONE = re.compile(r"(\d{1,2}\.\d\d)th=\[ ?\s*(\d+)\]")
_VERSION = re.compile(r"^(fio-[\w.-]+)", re.M)
_SIZE = re.compile(r"bs=(?:\(R\) )?([\w.]+?)(?:-([\w.]+))?(?:,|/)")
_TIMES = {"nsec": 1e-9, "usec": 1e-6, "msec": 1e-3, "sec": 1.0}
_POWERS = {"": 0, "K": 1, "k": 1, "M": 2, "G": 3, "T": 4}
_KEPT = {"50.00": "lat_p50", "90.00": "lat_p90", "99.00": "lat_p99", "99.90": "lat_p999", "99.99": "lat_p9999"}


def recognizes(text: str) -> bool:
    """Whether this looks like fio's normal output."""
    return '"fio version"' not in text[:65536] and _RESULT.search(text) is not None and bool(_ways(text))


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    jobs = {(match["name"], match["group"]): _options(match) for match in _JOB.finditer(text)}
    points: list[Measurement] = []
    starts = list(_RESULT.finditer(text))
    for at, match in enumerate(starts):
        end = starts[at + 1].start() if at + 1 < len(starts) else len(text)
        part = text[match.end() : end].partition("Run status group")[0]
        given = jobs.get((match["name"], match["group"])) or next(
            (v for (_, g), v in jobs.items() if g == match["group"]), {}
        )
        parameters: Parameters = {**given, "numjobs": int(match["jobs"])}
        points += _points(part, parameters)
    version = _VERSION.search(text)
    table = printed.experiment("storage.fio", "fio results", STORAGE_BLOCKS, "iodepth", points)
    return printed.run(NAME, "fio", text, name, [table], version[1] if version else "")


def _options(match: re.Match[str]) -> Parameters:
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


def _ways(part: str) -> list[re.Match[str]]:
    """The line of each direction, as fio 3 or fio 2 writes it."""
    return list(_WAY.finditer(part)) or list(_OLD_WAY.finditer(part))


def _points(part: str, parameters: Parameters) -> Iterator[Measurement]:
    """A point of each direction that ran; of a mix, both as one."""
    ways = _ways(part)
    found = []
    for at, way in enumerate(ways):
        end = ways[at + 1].start() if at + 1 < len(ways) else len(part)
        numbers = _figures(way, part[way.end() : end])
        if {"bw", "iops"} <= set(numbers):
            found.append((way[1], numbers))
    if len(found) == 2:
        both = _together([numbers for _, numbers in found])
        shares = [numbers["iops"].value for _, numbers in found]
        mix = {**parameters, "rwmixread": round(100 * shares[0] / sum(shares)) if sum(shares) else 50}
        made = make_point(mix, both)
    elif found:
        made = make_point(parameters, found[0][1])
    else:
        made = None
    if made is not None:
        yield made


def _together(parts: list[dict[str, PrintedNumber]]) -> dict[str, PrintedNumber]:
    """Reads and writes of one job: rates add up, and mean latencies are weighted by them."""
    found = {
        key: PrintedNumber(sum(part[key].value for part in parts), max(part[key].rounding for part in parts))
        for key in ("bw", "iops")
    }
    if all("lat_mean" in part for part in parts) and found["iops"].value:
        mean = sum(part["iops"].value * part["lat_mean"].value for part in parts) / found["iops"].value
        found["lat_mean"] = PrintedNumber(mean, max(part["lat_mean"].rounding for part in parts))
    return found


def _figures(way: re.Match[str], part: str) -> dict[str, PrintedNumber]:
    spreads = {match[1]: match for match in _SPREAD.finditer(part)}
    lat = spreads.get("lat") or spreads.get("clat")
    if way.re is _OLD_WAY:
        found = figures(iops=number(way[4]), bw=number(way[2], 1024.0 ** _POWERS[way[3]]))
    else:
        found = figures(iops=number(way[2]), bw=number(way[5], 1000.0 ** _POWERS[way[6]]))
    if lat is not None:
        scale = _TIMES[lat[2]]
        found |= figures(lat_min=number(lat[3], scale), lat_max=number(lat[4], scale), lat_mean=number(lat[5], scale))
    if (match := _PERCENTILES.search(part)) and "lat" not in spreads:
        scale = _TIMES[match[1]]
        for percentile, value in _ONE.findall(match[2]):
            if percentile in _KEPT and (figure := number(value, scale)) is not None:
                found[_KEPT[percentile]] = figure
    return found
