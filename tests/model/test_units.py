from __future__ import annotations

import math

import pytest
from hwdyno.model import units
from hwdyno.model.words import UserError, Value
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("4096", 4096),
        (512, 512),
        ("4k", 4096),
        ("4K", 4096),
        ("4KiB", 4096),
        ("4 kib", 4096),
        ("4kB", 4000),
        ("1M", 2**20),
        ("1MB", 10**6),
        ("1.5g", 3 * 2**29),
        ("2T", 2**41),
        ("7B", 7),
        ("1.5 GiB", 3 * 2**29),
        ("1,5 GiB", 3 * 2**29),
        ("64 kilobytes", 64_000),
        ("64 kibibytes", 65536),
        ("512 bytes", 512),
        ("10 MBytes", 10_000_000),
        ("1'000'000", 1_000_000),
        ("16,384 MiB", 2**34),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_sizes_are_read_as_fio_and_iec_write_them(text: str | int, size_bytes: int) -> None:
    assert units.parse_size(text) == size_bytes


@pytest.mark.parametrize(
    "text", ["", "k", "-4k", "4x", "4 k b", "1.0001k", "0x10", "four", True, "~4k", "+4k", "4+", "4 MB/s", "4 s"]
)
def test_what_is_no_size_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UserError) as refused:
        units.parse_size(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("30s", 30),
        ("2m", 120),
        ("500ms", 0.5),
        ("1h", 3600),
        (0.25, 0.25),
        ("80 us", 8e-5),
        ("1.5 hours", 5400),
        ("10 minutes", 600),
        ("2 days", 172800),
        ("80 µs", 8e-5),
        ("250 msec", 0.25),
        ("1,5s", 1.5),
    ],
)
def test_durations_are_read(text: str | float, seconds: float) -> None:
    assert units.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["-1", "soon", "1 year", "", "1:30", "~3 s", "3 s/op", "4 kB"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is not a time"):
        units.parse_duration(text)


@pytest.mark.parametrize(
    ("value", "number"),
    [(3, 3), ("64k", 65536), (True, None), (None, None), ("four", None), (math.inf, None), (10**400, None), (1e-30, 0)],
)
def test_a_number_is_finite_or_a_typed_size_and_never_a_flag(value: object, number: float | None) -> None:
    assert units.as_number(value) == number
    assert units.number_at({"name": value}, "name", -1.0) == (-1.0 if number is None else number)


@pytest.mark.parametrize(("text", "number"), [("1.5e+03", 1500.0), ("-1", -1.0), ("nan", None), (None, None)])
def test_a_printed_number_is_read(text: str | None, number: float | None) -> None:
    assert units.printed_number(text) == number
    assert units.positive(number) == (number if number and number > 0 else None)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (units.format_size(4096), "4 KiB"),
        (units.format_size(2**30), "1 GiB"),
        (units.format_size(500_000_000), "500 MB"),
        (units.format_size(512), "512 B"),
        (units.format_size(1023 * 1024), "1023 KiB"),
        (units.format_bytes(1_340_000_000), "1.34 GB"),
        (units.format_bytes_s(999_600), "1.00 MB/s"),
        (units.format_bytes_s(0), "0 kB/s"),
        (units.format_count(138_000), "138 k"),
        (units.format_count(1_690_000), "1.69 M"),
        (units.format_count(17), "17"),
        (units.format_ns(812), "812 ns"),
        (units.format_ns(7_100), "7.10 µs"),
        (units.format_ns(1_230_000), "1.23 ms"),
        (units.format_ns(9_996), "10.0 µs"),
        (units.format_duration(125), "2 min 5 s"),
        (units.format_duration(0.5), "0.5 s"),
        (units.format_duration(0.02), "20.0 ms"),
        (units.format_duration(0.0), "0 s"),
        (units.format_duration(3720), "1 h 2 min"),
        (units.format_duration(12.3), "12 s"),
        (units.format_bytes(999_600), "1 MB"),
        (units.format_percent(0.123), "12%"),
        (units.format_percent(0.034), "3.4%"),
        (units.format_percent(0.123, precise=True), "12.3%"),
        (units.format_number(3410), "3,410"),
        (units.format_number(0.12), "0.120"),
        (units.format_ratio(4512), "4.50 k"),
        (units.format_ratio(0.123), "0.12"),
        (units.format_load(32), "32"),
        (units.format_load(2.54), "2.5"),
        (units.plural(1, "job"), "1 job"),
        (units.plural(4, "job"), "4 jobs"),
        (units.format_quantity(138_000, "operations/s", "IOPS"), "138 k IOPS"),
        (units.format_quantity(Value(2e9, "bytes/s", 1.9e9, 2.1e9)), "2,000 MB/s (1,900 MB/s to 2,100 MB/s)"),
        (units.format_value(2.5e9, "FLOP/s"), "2.50 GFLOP/s"),
        (units.format_value(138_000, "operations/s"), "138 k operations/s"),
        (units.format_value(17, "operations/s"), "17.0 operations/s"),
        (units.format_value(1.5, "s"), "1.50 s"),
    ],
)
def test_quantities_are_written_for_people(written: str, expected: str) -> None:
    assert written == expected


@given(st.integers(1, 2**50))
def test_whole_size_reads_back(blocks: int) -> None:
    size_bytes = blocks * 512
    if len(units.format_size(size_bytes).split()[0]) < 4 and size_bytes in {512 * 2**k for k in range(50)}:
        assert units.parse_size(units.format_size(size_bytes)) == size_bytes
    assert units.parse_size(str(size_bytes)) == size_bytes


@given(st.floats(1e-3, 1e17))
def test_three_digits_are_within_half_percent(value: float) -> None:
    number, prefix = units.format_bytes_s(value).split()
    factor = 1000.0 ** ["B", "kB", "MB", "GB", "TB", "PB", "EB"].index(prefix.removesuffix("/s"))
    assert float(number.replace(",", "")) * factor == pytest.approx(value, rel=0.0051)
