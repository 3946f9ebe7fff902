"""Histograms against what is known exactly: buckets, quantiles, merging, packing and summaries."""

from __future__ import annotations

import base64
import json
import math
import random
import zlib
from pathlib import Path

import pytest
from hwdyno.model.histogram import Histogram
from hwdyno.model.histogram_arrays import sum_histograms, summarize_histograms


def made(seed: int, count: int = 5000) -> Histogram:
    generator = random.Random(seed)
    return Histogram.from_values(generator.lognormvariate(11, 1.2) for _ in range(count))


def test_every_value_lies_in_its_bucket() -> None:
    value = 0
    while value < 1 << Histogram.TOP_BITS:
        low, width = Histogram.bounds(Histogram.index(value))
        assert low <= value < low + width
        assert width == 1 or width * 1024 <= low
        value += 1 + value // 777


def test_quantiles_are_those_of_sorted_values() -> None:
    values = sorted(random.Random(2).randrange(1, 10**9) for _ in range(20_000))
    histogram = Histogram.from_values(values)
    for quantile in (0.0, 0.5, 0.9, 0.99, 0.999, 1.0):
        exact = values[max(math.ceil(quantile * len(values)), 1) - 1]
        assert histogram.quantile(quantile) == pytest.approx(exact, rel=0.0006)
    assert histogram.mean == pytest.approx(sum(values) / len(values))


def test_merging_equals_counting_together() -> None:
    left, right = made(1), made(2)
    both = left.merge(right)
    assert both.count == 10_000
    assert both == right.merge(left)
    assert both.min == min(left.min, right.min)
    assert left.merge(Histogram()) == left
    assert Histogram().merge(Histogram()).min == 0


def test_packing_is_whole_and_small() -> None:
    histogram = made(3, 20_000)
    text = histogram.pack()
    assert Histogram.unpack(text) == histogram
    assert len(text) < 8 * len(histogram.buckets)
    assert Histogram.unpack(Histogram().pack()).count == 0


@pytest.mark.parametrize("text", ["", "nonsense", "AAAA", Histogram().pack()[:-6]])
def test_unpacking_what_is_no_histogram_is_one_error(text: str) -> None:
    with pytest.raises(ValueError, match="packed histogram"):
        Histogram.unpack(text)


def packed(*numbers: int) -> str:
    return base64.b64encode(zlib.compress(bytes(numbers))).decode()


@pytest.mark.parametrize(("times", "written"), [(127, (127,)), (128, (0x80, 1)), (300, (0xAC, 2))])
def test_packed_number_has_seven_bits_byte(times: int, written: tuple[int, ...]) -> None:
    """Version, sub_bits, count, sum, least, most; then the gap to the bucket and its count."""
    histogram = Histogram.from_values([1] * times)
    text = packed(1, 10, *written, *written, 1, 1, 1, *written)
    assert zlib.decompress(base64.b64decode(histogram.pack())) == zlib.decompress(base64.b64decode(text))
    assert Histogram.unpack(text) == histogram


FIVE = packed(1, 10, 1, 5, 5, 5, 5, 1)


@pytest.mark.parametrize(("text", "why"), [
    (packed(1, 7, 1, 5, 5, 5, 5, 1), "of a version"), (packed(2, 10, 1, 5, 5, 5, 5, 1), "of a version"),
    (packed(1, 10, 1, 5, 5), "of a version"), (packed(), "of a version"), ("é", "ASCII"),
    (base64.b64encode(b"no stream").decode(), "incorrect header"),
    (f"{FIVE[:8]}!{FIVE[8:]}", ""), (f"{FIVE[:8]}\n{FIVE[8:]}", ""),
])  # fmt: skip
def test_foreign_packed_histogram_is_refused(text: str, why: str) -> None:
    assert Histogram.unpack(FIVE) == Histogram.from_values([5])
    with pytest.raises(ValueError, match=f"^not a packed histogram.*{why}"):
        Histogram.unpack(text)


def test_value_without_counts_is_absent() -> None:
    histogram = Histogram()
    for times in (0, -1):
        histogram.record(5, times)
    assert histogram.to_reading() == {"sub_bits": 10, "count": 0, "sum": 0, "min": 0, "max": 0, "buckets": []}
    assert histogram.mean == 0.0 and Histogram.from_values([100]).times(0).quantiles((0.5, 0.99)) == [0, 0]
    histogram.record(5)
    assert histogram == Histogram.from_values([5]) != Histogram.from_values([6]) and histogram != "a histogram"


def test_percentiles_are_those_of_ordered_values() -> None:
    """Ten of each value from 1 to 1000, each with a separate bucket."""
    whole = summarize_histograms([Histogram.from_values(at // 10 + 1 for at in range(10_000)).to_reading()])
    assert whole is not None and (whole.p50, whole.p90, whole.p99, whole.p999) == (500, 900, 990, 999)
    fewer = summarize_histograms([Histogram.from_values(range(1, 10_000)).to_reading()])
    assert fewer is not None and fewer.p999 is None


@pytest.mark.parametrize("hosts", [0, 1, 2])
def test_hosts_values_count_by_weight(hosts: int) -> None:
    reading = Histogram.from_values([100, 300]).to_reading()
    for weight in (1, 3):
        assert sum_histograms([(reading, weight)] * hosts) == Histogram.from_values([100, 300] * weight * hosts)
    with pytest.raises(ValueError, match="sub_bits 7; this version reads 10"):
        sum_histograms([(reading, 1)] * hosts + [({**reading, "sub_bits": 7}, 1)])


def test_summary_gives_p999_only_from_ten_thousand_values() -> None:
    assert made(4, 9_999).summary().p999 is None
    assert made(4, 10_000).summary().p999 is not None
    assert made(4).summary(packed=False).histogram == ""


def test_a_readings_histogram_survives_its_json() -> None:
    histogram = made(5)
    assert Histogram.from_reading(histogram.to_reading()) == histogram
    with pytest.raises(ValueError, match="sub_bits 7"):
        Histogram.from_reading({**histogram.to_reading(), "sub_bits": 7})


def test_histogram_may_be_counted_several_times() -> None:
    values = [10, 20, 5000]
    histogram = Histogram.from_values(values)
    assert histogram.times(3) == Histogram.from_values(values * 3)
    assert (histogram.count, histogram.sum, histogram.times(3).sum) == (3, 5030, 15090)


def test_engines_histogram_decodes_to_same_quantiles() -> None:
    """The engine's own test (crates/engine/tests/golden_histogram.rs) writes the same file."""
    golden = json.loads((Path(__file__).parents[1] / "data" / "golden_histogram.json").read_text())
    histogram = Histogram.from_reading(golden["histogram"])
    expected = Histogram()
    for i in range(1000):
        expected.record(i * i * 37, 1 + i % 3)
    assert histogram == expected
    assert histogram.mean == pytest.approx(golden["mean"])
    for quantile, value in golden["quantiles"]:
        assert histogram.quantile(quantile) == value


def test_the_bucket_rule_at_its_edges() -> None:
    for value, at in {0: 0, 1023: 1023, 1024: 1024, 2047: 2047, 2048: 2048, 2050: 2049, 4096: 3072}.items():
        assert Histogram.index(value) == at, value
    # By the formula e 2^10 + (v >> e): of v = 2^42 - 1, e is 31 and v >> e is 2047.
    assert Histogram.index(1 << 50) == Histogram.index(1 << 42) == Histogram.index((1 << 42) - 1) == 31 * 1024 + 2047
    assert Histogram.index((1 << 42) - (1 << 31) - 1) == 31 * 1024 + 2046


def test_quantile_is_middle_of_its_bucket() -> None:
    histogram = Histogram.from_values([1, 1_000_003, 1_000_003, 1_000_003, 2_000_000])
    low, width = Histogram.bounds(Histogram.index(1_000_003))
    assert width == 512 and histogram.quantile(0.5) == low + 255
    assert Histogram.from_values([1, 5, 9]).quantile(0.5) == 5, "a bucket of one value is that value"


def test_a_packed_histogram_unfolds_to_four_mebibytes_at_most() -> None:
    for size, why in ((4 << 20, "of a version"), ((4 << 20) + 1, "over 4194304 bytes")):
        text = base64.b64encode(zlib.compress(bytes(size))).decode()
        with pytest.raises(ValueError, match=why):
            Histogram.unpack(text)


@pytest.mark.parametrize("bits", [1, 3, 5])
@pytest.mark.parametrize("octave", [1, 2, 4, 7, 9])
def test_a_coarser_histogram_has_so_many_buckets_in_each_octave(octave: int, bits: int) -> None:
    """Each value below 2^10 has a bucket, above there are 1024 an octave; the joined ones are in their middle."""
    first = 1 << octave
    joined = max(1, first >> bits)
    coarse = Histogram.from_values(range(first, 2 * first)).coarser(bits)
    assert coarse.buckets == {at + joined // 2: joined for at in range(first, 2 * first, joined)}


def test_a_coarser_histogram_of_long_times_joins_the_buckets_of_its_octave_alone() -> None:
    """2^20 ns is bucket 11 x 1024, and 32 buckets become one where 32 an octave are left."""
    times = [(1 << 20) + (at << 10) for at in range(1024)]
    fine = Histogram.from_values(times)
    coarse = fine.coarser(5)
    assert coarse.buckets == {at + 16: 32 for at in range(11 * 1024, 12 * 1024, 32)}
    assert (coarse.count, coarse.sum, coarse.min, coarse.max) == (1024, sum(times), times[0], times[-1])
