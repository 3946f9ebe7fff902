"""Both sides of each threshold of the laws of published tables, near enough that a tenth more or less is seen."""

from __future__ import annotations

from typing import Any

import pytest
from hwdyno.findings.published import (
    mislabelled_accelerator,
    runs_backwards,
    through_page_cache,
    too_many_lines,
    unit_slip,
)
from test_single_published import GIB, fed, one, rated, row, table


@pytest.mark.parametrize(("need", "named"), [(104.8, False), (105.2, True)])
def test_a_need_may_be_5_percent_off_that_of_its_label(need: float, named: bool) -> None:
    """AU leaves out the first step of an epoch; another accelerator's need of 107 B/s is near both."""
    found = mislabelled_accelerator(table(fed("a1", need, {"a1": 100.0, "b2": 107.0})))
    assert [verdict.evidence["fits"] for verdict in found] == ["b2"] * named


@pytest.mark.parametrize(("second", "named"), [(109.6, True), (110.4, False)])
def test_rows_of_an_unknown_accelerator_agree_within_10_percent(second: float, named: bool) -> None:
    """The first two rows give the need that the row of 150 B/s is far from, or they give none."""
    found = mislabelled_accelerator(table(*(fed("own", need) for need in (100.0, second, 150.0))))
    assert [verdict.points for verdict in found] == [(2,)] * named


@pytest.mark.parametrize(("need", "named"), [(114.5, False), (115.5, True)])
def test_a_need_that_fits_no_accelerator_is_wrong_from_15_percent_off(need: float, named: bool) -> None:
    found = mislabelled_accelerator(table(fed("a1", need, {"a1": 100.0})))
    assert [(verdict.evidence["labelled"], verdict.evidence["fits"]) for verdict in found] == [("a1", "")] * named


@pytest.mark.parametrize(("need", "fits"), [(214.4, "b2"), (215.6, "")])
def test_a_need_fits_another_accelerator_within_7_and_a_half_percent(need: float, fits: str) -> None:
    """The other accelerator needs 200 B/s, and the label is wrong in any case: its own needs half of that."""
    (found,) = mislabelled_accelerator(table(fed("a1", need, {"a1": 100.0, "b2": 200.0})))
    assert found.evidence["fits"] == fits


@pytest.mark.parametrize(
    ("ratio", "rows"),
    [(1.024 * 1.0048, 2), (1.024 * 1.0052, 0), (1.024 * 0.9952, 2), (1.024 * 0.9948, 0)],
)
def test_a_ratio_lies_within_half_a_percent_of_the_slip_of_a_unit(ratio: float, rows: int) -> None:
    """1.024 is what parts KiB from kB; the rows print every digit."""
    found = unit_slip(table(rated(ratio), rated(ratio)))
    assert (found.evidence["rows"] if found else 0) == rows


@pytest.mark.parametrize(("rounding", "named"), [(0.0078, True), (0.0082, False)])
def test_figures_rounded_by_more_than_0_8_percent_show_no_slip(rounding: float, named: bool) -> None:
    """The bandwidth and the rate have half of the rounding each, and the ratio of both is 8 bits in a byte."""
    details = {"rounding": {"bw": rounding / 2, "iops": rounding / 2}}
    rows = [row(1e6, bs=4096, rate=8e6 / 4096, details=details) for _ in range(2)]
    assert (unit_slip(table(*rows)) is not None) == named


@pytest.mark.parametrize(
    ("bandwidth_bytes_s", "latency_ns", "what"),
    [(109.6e9, 50.0, ""), (110.4e9, 50.0, "bandwidth"), (90e9, 62.2, ""), (90e9, 62.8, "latency")],
)
def test_with_more_delay_noise_raises_bandwidth_by_10_and_latency_by_25_percent(
    bandwidth_bytes_s: float, latency_ns: float, what: str
) -> None:
    """Without the injected delay the row has 100 GB/s at 50 ns."""
    rows = (row(100e9, ns=50.0, delay=0), row(bandwidth_bytes_s, ns=latency_ns, delay=100))
    found = runs_backwards(table(*rows, resource="memory", kernel="memory_loaded_latency"))
    assert (found.evidence["what"] if found else "") == what


@pytest.mark.parametrize(("lines", "named"), [(1320, False), (1342, True)])
def test_a_block_may_be_exceeded_by_30_percent(lines: int, named: bool) -> None:
    """A block of 64 KiB is 1024 lines of 64 B, and 1331 lines are 30% more; 0.64 GB/s x 100 ns is one line."""
    found = too_many_lines(one(lines * 0.64e9, resource="memory", ns=100.0, threads=1, bs=65536))
    assert (found is not None) == named


@pytest.mark.parametrize(
    ("bandwidth_bytes_s", "size", "named"),
    [
        (590e6, 16 * GIB, False),
        (610e6, 16 * GIB, True),
        (2e9, 31 * GIB // 2, True),
        (2e9, 33 * GIB // 2, False),
    ],
)
def test_over_600_mb_s_on_a_file_of_at_most_16_gib_is_the_page_cache(
    bandwidth_bytes_s: float, size: int, named: bool
) -> None:
    """The test wrote without direct I/O, and nothing else is known of the disk."""
    found = through_page_cache(one(bandwidth_bytes_s, rw="write", size=size, direct=False))
    assert (found is not None) == named


@pytest.mark.parametrize(("parent_bytes_s", "named"), [(196e6, True), (204e6, False)])
def test_a_parent_that_sees_less_than_half_waits_for_the_page_cache(parent_bytes_s: float, named: bool) -> None:
    """The children print 400 MB/s; the parent's time includes the write-back of the file of 64 GiB."""
    details: dict[str, Any] = {"parent_bytes_s": parent_bytes_s}
    found = through_page_cache(one(400e6, rw="write", size=64 * GIB, direct=False, details=details))
    assert (found is not None) == named
