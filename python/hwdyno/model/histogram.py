"""Whole latency distributions in the engine's log-linear buckets: merged, never averaged."""

from __future__ import annotations

import base64
import math
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from hwdyno.model.words import Latency

P999_MIN_COUNT = 10_000
SUMMARIZED = (0.5, 0.9, 0.99, 0.999)
ARRAYS = "arrays"
"""Key of a histogram that an agent sent packed: its indices and its counts, in place of its buckets."""
PACKED = "packed"
"""Key of the engine's histogram: its buckets as digits, which ``crates/engine/src/timing/histogram.rs`` writes."""
MAX_UNPACKED_BYTES = 1 << 22
"""Bytes of an unpacked histogram at most: every bucket filled takes less, and a foreign document may not take more."""
_PACKED = re.compile(rb"\x01[\x00-\x7f](?:(?:[\x80-\xff]{0,19}[\x00-\x7f]){2}){2,}", re.DOTALL)
"""Pairs of numbers of at most 140 bits, each its seven bits a byte with the last one marked."""

_LONG = re.compile(rb"[\x80-\xff]+[\x00-\x7f]", re.DOTALL)
"""A number of more than a byte; the bytes between such are numbers themselves."""


class Histogram:
    """A whole latency distribution in ns, in the engine's log-linear buckets (0.1% wide).

    With ``sub_bits`` b, a value v below 2^b has bucket v; above, with e = floor(log2 v) - b, it has
    bucket e * 2^b + (v >> e). Values at or above 2^42 ns fall into the last bucket; ``max`` is exact.
    """

    SUB_BITS = 10
    TOP_BITS = 42

    __slots__ = ("buckets", "count", "max", "min", "sum")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.count = 0
        self.sum = 0
        self.min = 0
        self.max = 0

    @classmethod
    def index(cls, value: int) -> int:
        """The bucket of ``value``."""
        if value < 1 << cls.SUB_BITS:
            return value
        if value >= 1 << cls.TOP_BITS:
            return ((cls.TOP_BITS - cls.SUB_BITS + 1) << cls.SUB_BITS) - 1
        exponent = value.bit_length() - 1 - cls.SUB_BITS
        return (exponent << cls.SUB_BITS) + (value >> exponent)

    @classmethod
    def bounds(cls, index: int) -> tuple[int, int]:
        """The least value in the bucket at ``index``, and the bucket's width."""
        if index < 1 << cls.SUB_BITS:
            return index, 1
        exponent = (index >> cls.SUB_BITS) - 1
        return (index - (exponent << cls.SUB_BITS)) << exponent, 1 << exponent

    @classmethod
    def from_values(cls, values: Iterable[float]) -> Histogram:
        """A histogram of the values, rounded to whole ns."""
        made, whole = cls(), [round(value) for value in values]
        if whole:
            made.count, made.sum, made.min, made.max = len(whole), sum(whole), min(whole), max(whole)
            made.buckets = dict(Counter(map(cls.index, whole)))
        return made

    @classmethod
    def from_reading(cls, reading: Mapping[str, Any]) -> Histogram:
        """A histogram from the engine's JSON.

        Raises ``ValueError`` if its buckets have another width, or are none.
        """
        if reading["sub_bits"] != cls.SUB_BITS:
            raise ValueError(f"histogram with sub_bits {reading['sub_bits']}; this version reads {cls.SUB_BITS}")
        made = cls()
        if ARRAYS in reading:
            at, counts = reading[ARRAYS]
            made.buckets = dict(zip(at.tolist(), counts.tolist(), strict=True))
        elif PACKED in reading:
            try:
                made.buckets = dict(struct.iter_unpack("<II", bytes.fromhex(reading[PACKED])))
            except struct.error:
                raise ValueError("a packed histogram has half a pair") from None
        else:
            made.buckets = dict(reading["buckets"])
        made.count, made.sum = int(reading["count"]), int(reading["sum"])
        made.min, made.max = int(reading["min"]), int(reading["max"])
        return made

    def to_reading(self) -> dict[str, Any]:
        """The histogram as the engine's JSON."""
        return {
            "sub_bits": self.SUB_BITS,
            "count": self.count,
            "sum": self.sum,
            "min": self.min,
            "max": self.max,
            "buckets": [[at, count] for at, count in sorted(self.buckets.items())],
        }

    def record(self, value: int, times: int = 1) -> None:
        """Adds ``times`` equal values, in whole ns."""
        if times <= 0:
            return
        at = self.index(value)
        if value < self.min or not self.count:
            self.min = value
        if value > self.max:
            self.max = value
        self.buckets[at] = self.buckets.get(at, 0) + times
        self.count += times
        self.sum += value * times

    def times(self, weight: int) -> Histogram:
        """A copy with every value counted ``weight`` times."""
        more = Histogram()
        more.buckets = {at: count * weight for at, count in self.buckets.items()}
        more.count, more.sum, more.min, more.max = self.count * weight, self.sum * weight, self.min, self.max
        return more

    def coarser(self, bits: int) -> Histogram:
        """A copy with ``2^bits`` buckets an octave: values are then known to one part in ``2^(bits + 1)``.

        Each wider bucket's count is in the middle one of the buckets that it is made of; sum and ends stay exact.
        """
        less = Histogram()
        less.count, less.sum, less.min, less.max = self.count, self.sum, self.min, self.max
        counts, full = less.buckets, 1 << self.SUB_BITS
        # The buckets of an octave are joined by a power of two; below 2^sub_bits the octaves are shorter.
        wide = 1 << max(0, self.SUB_BITS - bits)
        first, half = -wide, wide >> 1
        for at, count in self.buckets.items():
            if at >= full:
                middle = (at & first) + half
            else:
                joined = 1 << max(0, at.bit_length() - 1 - bits)
                middle = (at & -joined) + (joined >> 1)
            counts[middle] = counts.get(middle, 0) + count
        return less

    def merge(self, other: Histogram) -> Histogram:
        """A new histogram with the values of both."""
        both = Histogram()
        both.add(self)
        both.add(other)
        return both

    def add(self, other: Histogram) -> None:
        """Add all values of another one."""
        if not self.buckets:
            self.buckets = dict(other.buckets)
        else:
            counts = self.buckets
            for at, count in other.buckets.items():
                counts[at] = counts.get(at, 0) + count
        if other.count:
            self.min = min(self.min, other.min) if self.count else other.min
            self.max = max(self.max, other.max)
        self.count += other.count
        self.sum += other.sum

    @property
    def mean(self) -> float:
        """The arithmetic mean, ns; 0 if empty."""
        return self.sum / self.count if self.count else 0.0

    def moment(self, order: int) -> float:
        """The central moment of an order, ns to its power, by the middle of each bucket; 0 if empty."""
        if not self.count:
            return 0.0
        import numpy as np

        at, times = np.fromiter(self.buckets, np.int64), np.fromiter(self.buckets.values(), np.int64)
        exponents = np.maximum((at >> self.SUB_BITS) - 1, 0)
        lows, widths = (at - (exponents << self.SUB_BITS)) << exponents, np.int64(1) << exponents
        return float((times * (lows + (widths - 1) / 2 - self.mean) ** order).sum()) / self.count

    def quantile(self, quantile: float) -> int:
        """The smallest value that a share ``quantile`` (0 to 1) does not exceed, ns, within 0.05%; 0 if empty."""
        return self.quantiles((quantile,))[0]

    def quantiles(self, wanted: Sequence[float]) -> list[int]:
        """Several quantiles at once, in the given order."""
        if not self.count:
            return [0] * len(wanted)
        ranks = [min(max(math.ceil(quantile * self.count), 1), self.count) for quantile in wanted]
        found: dict[int, int] = {}
        entries = iter(sorted(self.buckets.items()))
        seen, at = 0, 0
        for rank in sorted(set(ranks)):
            while seen < rank:
                at, count = next(entries)
                seen += count
            low, width = self.bounds(at)
            found[rank] = min(max(low + (width - 1) // 2, self.min), self.max)
        return [found[rank] for rank in ranks]

    def summary(self, *, packed: bool = True) -> Latency:
        """Mean and percentiles, with the whole histogram packed; p99.9 only from 10^4 values on."""
        p50, p90, p99, p999 = self.quantiles(SUMMARIZED)
        return Latency(
            mean=self.mean,
            p50=p50,
            p90=p90,
            p99=p99,
            p999=p999 if self.count >= P999_MIN_COUNT else None,
            min=self.min,
            max=self.max,
            count=self.count,
            histogram=self.pack() if packed else "",
        )

    def pack(self) -> str:
        """Encode as base64 of zlib of varints: version 1, sub_bits, count, sum, min, max, then (gap, count) pairs."""
        out = bytearray()
        for number in (1, self.SUB_BITS, self.count, self.sum, self.min, self.max):
            _put(out, number)
        before = 0
        for at, count in sorted(self.buckets.items()):
            gap, before = at - before, at
            if gap | count < 0x80:  # Most take a byte each.
                out.append(gap)
                out.append(count)
            else:
                _put(out, gap)
                _put(out, count)
        return base64.b64encode(zlib.compress(bytes(out))).decode()

    @classmethod
    def unpack(cls, text: str) -> Histogram:
        """Decode the text of ``pack``; raises ``ValueError`` if it is not valid."""
        numbers = _numbers(cls.decompress(text))
        made = cls()
        made.sum, made.min, made.max = numbers[3:6]
        places, last = list(accumulate(numbers[6::2])), cls.index(1 << cls.TOP_BITS)
        if places and places[-1] > last:
            places = [min(at, last) for at in places]
        made.buckets = dict(zip(places, numbers[7::2], strict=True))
        made.count = sum(made.buckets.values())
        return made

    @classmethod
    def decompress(cls, text: str) -> bytes:
        """The numbers of a packed histogram, still as varints; ValueError if the text is not one. Quick."""
        try:
            inner = zlib.decompressobj()
            packed = inner.decompress(base64.b64decode(text, validate=True), MAX_UNPACKED_BYTES)
        except (zlib.error, ValueError) as error:
            raise ValueError(f"not a packed histogram: {error}") from None
        if not inner.eof:
            raise ValueError(f"not a packed histogram: cut short, or over {MAX_UNPACKED_BYTES} bytes")
        if not _PACKED.fullmatch(packed) or packed[1] != cls.SUB_BITS:
            raise ValueError("not a packed histogram of a version that this one reads")
        return packed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and self.to_reading() == other.to_reading()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Histogram(count={self.count}, mean={self.mean:.0f}, min={self.min}, max={self.max})"


def latency_quantile(latency: Latency, share: float) -> float | None:
    """A quantile of the distribution, ns; without a histogram p99, if known: a bound of quantiles up to 0.99."""
    return float(Histogram.unpack(latency.histogram).quantile(share)) if latency.histogram else latency.p99


def _put(out: bytearray, number: int) -> None:
    """Appends a number as a varint (base 128, little-endian)."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _numbers(data: bytes) -> list[int]:
    found, end = list[int](), 0
    for long in _LONG.finditer(data):
        found += data[end : long.start()]
        number = 0
        for byte in reversed(long[0]):
            number = number << 7 | byte & 0x7F
        found.append(number)
        end = long.end()
    found += data[end:]
    return found
