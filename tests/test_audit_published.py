"""`hwdyno audit` on layouts of published tables: units in captions, headings within, figures named in their cells.

Figures of public tables are facts, typed with the source of each; the layouts are those that they had.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hwdyno.words import UserError
from test_audit_public import audited, faults, points, printed

# --- figures that a cell names


@pytest.mark.parametrize(
    "cell", ["AU 90.2", "AU 90.2%", "AU=90.2 %", "au: 90.2", "90.2% AU", "Accelerator utilization 90.2%"]
)
def test_a_utilisation_named_in_its_cell(cell: str, tmp_path: Path) -> None:
    table = (
        f"| Storage | Accelerator | Result | Throughput |\n|---|---|---|---|\n| ceph | H100 | {cell} | 2700 MB/s |\n"
    )
    (found,) = printed(audited(f"MLPerf Storage, unet3d\n\n{table}", tmp_path))
    assert found == {"au": pytest.approx(0.902), "bw": pytest.approx(2.7e9)}


def test_several_figures_in_one_cell(tmp_path: Path) -> None:
    table = """| Test | Result |
|---|---|
| 4k randread qd32 | IOPS=464k, BW=1.9 GB/s, p99 1.2 ms |
| 1M read qd8 | IOPS=6,592, BW=6.9 GB/s, p99 3.1 ms |
"""
    run = audited(table, tmp_path)
    assert printed(run) == [
        {"iops": pytest.approx(464e3), "bw": pytest.approx(1.9e9), "lat_p99": pytest.approx(1.2e-3)},
        {"iops": pytest.approx(6592), "bw": pytest.approx(6.9e9), "lat_p99": pytest.approx(3.1e-3)},
    ]
    assert not faults(run)
    assert "rate_times_size" in faults(audited(table.replace("464k", "564k"), tmp_path))


def test_columns_of_devices_with_the_figure_in_each_cell(tmp_path: Path) -> None:
    table = "| Test | A | B |\n|---|---|---|\n| 4k read qd32 | p99 1.2 ms | p99=2.4 ms |\n| 4k read qd64 | p99 2.5 ms | |\n"
    assert [one["lat_p99"] for one in printed(audited(table, tmp_path))] == pytest.approx([1.2e-3, 2.4e-3, 2.5e-3])


@pytest.mark.parametrize("cell", ["RAID 5", "Gen 4", "NVMe 2.0", "max 4", "QD 32"])
def test_a_name_with_a_number_is_no_figure(cell: str, tmp_path: Path) -> None:
    table = f"| Set-up | BW (MB/s) |\n|---|---|\n| {cell} | 1200 |\n| other | 2400 |\n"
    assert printed(audited(table, tmp_path)) == [{"bw": pytest.approx(1.2e9)}, {"bw": pytest.approx(2.4e9)}]


# --- captions and headings within a table


@pytest.mark.parametrize(
    "caption",
    ["Table 3: Sequential bandwidth in GB/s by threads", "**Table 3.** Sequential bandwidth (GB/s) by threads"],
)
def test_a_caption_with_an_empty_line_below_it_names_the_unit(caption: str, tmp_path: Path) -> None:
    table = "| Device | 1 thread | 4 threads |\n|---|---|---|\n| A | 1.9 | 3.8 |\n| B | 2.1 | 4.4 |\n"
    found = points(audited(f"# Results\n\n{caption}\n\n{table}", tmp_path))
    assert [one.throughput.value for one in found] == pytest.approx([1.9e9, 3.8e9, 2.1e9, 4.4e9])
    assert [one.parameters["threads"] for one in found] == [1, 4, 1, 4]


BY_SECTIONS = """Table 2. fio, 8 jobs (bandwidth in MiB/s, latency in ms)

| Block size | BW | IOPS | Lat |
|---|---|---|---|
| **Random read** | | | |
| 4K | 310 | 79360 | 12.1 |
| 16K | 910 | 58240 | 17.1 |
| **Random write** | | | |
| 4K | 280 | 71680 | 13.9 |
| 16K | 880 | 56320 | 19.9 |
"""


def test_headings_within_a_table_part_it_and_its_caption_has_the_units(tmp_path: Path) -> None:
    found = points(audited(BY_SECTIONS, tmp_path))
    assert [(one.parameters["rw"], one.parameters["bs"]) for one in found] == [
        ("randread", 4096), ("randread", 16384), ("randwrite", 4096), ("randwrite", 16384)
    ]  # fmt: skip
    assert [one.throughput.value for one in found] == pytest.approx([at * 2**20 for at in (310, 910, 280, 880)])
    assert [one.latency_ns.mean for one in found if one.latency_ns] == pytest.approx([12.1e6, 17.1e6, 13.9e6, 19.9e6])


def test_a_caption_that_names_no_unit_leaves_the_question(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can be read as"):
        audited(BY_SECTIONS.replace(" (bandwidth in MiB/s, latency in ms)", ""), tmp_path)


def test_a_row_without_figures_is_no_heading(tmp_path: Path) -> None:
    table = "| Drive | Read MB/s | Write MB/s |\n|---|---|---|\n| A | 500 | 400 |\n| B | | |\n| C | | |\n"
    assert len(points(audited(table, tmp_path))) == 2
