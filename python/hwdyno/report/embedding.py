"""The Run inside its page: whole where it is small enough, else with fewer digits, so that the page opens anywhere."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
import zlib
from dataclasses import dataclass, replace
from typing import Any

from hwdyno.analysis.estimates import mean
from hwdyno.model.histogram import Histogram
from hwdyno.model.point_details import Samples
from hwdyno.model.words import Latency, Measurement, Run
from hwdyno.system.printable import escape_text

MAX_DATA = 700_000
"""Characters of the Run in a page: beside 1,056 points' charts and tables, the page stays below 1.5 MB."""
MAX_PLAIN = 60_000
"""Longest fold, in characters, that is in the page as it is; a longer one is packed until it is opened."""
MAX_UNPACKED_BYTES = 256 << 20
"""Bytes of a Run's JSON that a page may hold."""
_INSIDE = re.compile(r'<script type="application/gzip;base64" id="run">([A-Za-z0-9+/=]*)</script>')
KEPT_BITS = 5
"""Bits of a histogram's buckets in a shortened Run: 32 an octave, so that a latency is known to 1.6%."""
KEPT_SAMPLES = 60
KEPT_DIGITS = 5


@dataclass(frozen=True, slots=True)
class Embedded:
    """A Run's document as a page carries it."""

    packed: str
    """Base64 of gzip of JSON."""
    characters: int
    """Characters of the JSON."""
    shortened: bool


def embed_run(run: Run, *, whole: bool = False) -> Embedded:
    """The Run's document, shortened if it is longer than a page bears, unless it has to be ``whole``."""
    text = document(run)
    made = pack_text(text)
    if whole or len(made) <= MAX_DATA:
        return Embedded(made, len(text), shortened=False)
    text = _round_numbers(document(shorten_run(run)))
    return Embedded(pack_text(text), len(text), shortened=True)


def document(run: Run) -> str:
    """The Run's JSON."""
    from hwdyno.system.store import to_json

    return to_json(run)


def pack_text(text: str) -> str:
    """Text as base64 of gzip, which no parser of HTML can mistake for anything else, and every browser unpacks."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def run_in_page(page: str) -> bytes | None:
    """The JSON of the Run inside a page, however the page was made; raises ``ValueError`` where it is damaged."""
    found = _INSIDE.search(page)
    if found is None:
        return None
    try:
        unpacking = zlib.decompressobj(wbits=31)
        text = unpacking.decompress(base64.b64decode(found[1], validate=True), MAX_UNPACKED_BYTES)
    except (zlib.error, binascii.Error) as error:
        raise ValueError(f"its data are damaged ({error})") from None
    if not unpacking.eof:
        raise ValueError(f"its data are cut, or over {MAX_UNPACKED_BYTES >> 20} MiB")
    return text


def shorten_run(run: Run) -> Run:
    """A Run with coarser histograms, of whole latencies alone, and at most 60 samples a point."""
    return replace(
        run,
        experiments=tuple(
            replace(experiment, points=tuple(_shorten_point(point) for point in experiment.points))
            for experiment in run.experiments
        ),
    )


def _shorten_point(point: Measurement) -> Measurement:
    # One direction alone has the same latencies as the point.
    kept = {"total"} if len(point.streams) > 1 else set()
    streams = tuple(
        replace(
            stream,
            latency_ns={
                kind: _coarse(latency) if kind in kept else replace(latency, histogram="")
                for kind, latency in stream.latency_ns.items()
            },
        )
        for stream in point.streams
    )
    return replace(
        point,
        streams=streams,
        latency_ns=_coarse(point.latency_ns) if point.latency_ns else None,
        samples=_fewer(point.samples) if point.samples else None,
    )


def _coarse(latency: Latency) -> Latency:
    if not latency.histogram:
        return latency
    return replace(latency, histogram=Histogram.unpack(latency.histogram).coarser(KEPT_BITS).pack())


def _fewer(samples: Samples) -> Samples:
    """The samples averaged over longer intervals."""
    length = -(-len(samples.values) // KEPT_SAMPLES)
    if length < 2:
        return samples
    parts = [samples.values[at : at + length] for at in range(0, len(samples.values), length)]
    # A last part that is shorter would be a sample of another length.
    whole = tuple(mean(part) for part in parts if len(part) == length)
    return replace(samples, values=whole, interval_s=samples.interval_s * length)


def _round_numbers(text: str) -> str:
    plain = json.loads(text, parse_float=lambda number: float(f"{float(number):.{KEPT_DIGITS}g}"))
    return escape_text(json.dumps(_whole(plain), ensure_ascii=False, separators=(",", ":")))


def _whole(plain: Any) -> Any:
    """A number without its ``.0``."""
    if isinstance(plain, float):
        return int(plain) if plain.is_integer() and abs(plain) < 1e15 else plain
    if isinstance(plain, list):
        return [_whole(inner) for inner in plain]
    return {name: _whole(inner) for name, inner in plain.items()} if isinstance(plain, dict) else plain
