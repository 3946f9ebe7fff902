"""Ceilings: a link's arithmetic, the catalogue that never takes the wrong drive, RAID, and what a person gives."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.analysis.ceilings import bound_for, find_bound, parse_given
from hwdyno.analysis.ceilings.links import of_link
from hwdyno.analysis.ceilings.rated import CATALOGUE, catalogue, of_disk
from hwdyno.analysis.ceilings.stack import of_machine, why_none
from hwdyno.analysis.resources import list_ceilings
from hwdyno.model.machine import Link, Machine
from hwdyno.model.words import Ceiling, UserError

SATA = {"type": "sata", "bits_s": 6_000_000_000, "generation": 3}


def pcie(generation: int, lanes: int, **more: Any) -> dict[str, Any]:
    return {"type": "pcie", "generation": generation, "lanes": lanes, "bits_s": 1, **more}


def disk(name: str, model: str | None = None, size: float | None = None, **link: Any) -> dict[str, Any]:
    return {"name": name, "model": model, "size_bytes": size, "link": link or SATA}


def machine(disks: list[dict[str, Any]], chain: list[dict[str, Any]] | None = None, **unknown: str) -> Machine:
    return Machine.of_survey({"storage": {"disks": disks, "chain": chain or []}, "unknown": unknown})


def typed(link: dict[str, Any]) -> Link:
    return machine([{"link": link}]).storage.disk.link or Link()


def value(ceilings: tuple[Ceiling, ...], metric: str, kind: str = "physical") -> float | None:
    found = [c.value for c in ceilings if (c.metric, c.kind) == (metric, kind)]
    assert len(found) <= 1, f"two ceilings for {metric}"
    return found[0] if found else None


@pytest.mark.parametrize(
    ("link", "megabytes_s"),
    [
        (pcie(1, 1), 250),
        (pcie(2, 4), 2000),
        (pcie(3, 4), 3938.46),
        (pcie(4, 4), 7876.92),
        (pcie(5, 4), 15753.85),
        (pcie(6, 4), 30250),
        (pcie(4, 4, upstream={"generation": 3, "lanes": 2, "bits_s": 16e9, "address": "0000:01:00.0"}), 1969.23),
        (SATA, 600),
        ({"type": "sata", "bits_s": 1_500_000_000}, 150),
        ({"type": "sas", "bits_s": 24_000_000_000, "lanes": 2}, 2400),
        ({"type": "sas", "bits_s": 22_500_000_000, "lanes": 1}, 2400),
        ({"type": "usb", "bits_s": 480_000_000}, 53.248),
        ({"type": "usb", "bits_s": 12_000_000}, 1.216),
        ({"type": "usb", "bits_s": 5_000_000_000, "lanes": 1}, 500),
        ({"type": "usb", "bits_s": 10_000_000_000, "lanes": 1}, 1212.12),
        ({"type": "usb", "bits_s": 10_000_000_000, "lanes": 2}, 1000),
        ({"type": "usb", "bits_s": 20_000_000_000, "lanes": 2}, 2424.24),
        ({"type": "mmc", "bits_s": 3_200_000_000, "lanes": 8, "clock_hz": 200_000_000, "mode": "mmc HS400"}, 400),
        ({"type": "network", "bits_s": 25_000_000_000, "nic": "eth0"}, 3125),
    ],
)
def test_link_carries_what_its_standard_says(link: dict[str, Any], megabytes_s: float) -> None:
    rate = of_link(typed(link))
    assert rate is not None
    assert math.isclose(rate.bytes_s, megabytes_s * 1e6, rel_tol=1e-5)
    assert "=" in rate.formula and rate.source and rate.label


@pytest.mark.parametrize(
    ("link", "shared", "says"),
    [
        (SATA, True, "SATA 6 Gbit/s: "),
        ({"type": "usb", "bits_s": 480_000_000}, True, "USB 2.0: "),
        ({"type": "usb", "bits_s": 12_000_000}, True, "USB 1.1 full speed: "),
        ({"type": "sas", "bits_s": 12_000_000_000}, False, "SAS 12 Gbit/s: 12 Gbit/s × 8/10 / 8"),
        ({"type": "sas", "bits_s": 48_000_000_000, "lanes": 4}, False, "SAS 12 Gbit/s x4: "),
        ({"type": "mmc", "bits_s": 3.2e9, "lanes": 8, "clock_hz": 2e8}, True, ": 2 × 200 MHz × 8 bits / 8 = 400 MB/s"),
        (pcie(5, 4), False, "PCI Express Base Specification 5.0: 128b/130b encoding"),
        (pcie(6, 4), False, "242 B of each 256 B flit"),
    ],
)
def test_only_half_duplex_links_are_shared(link: dict[str, Any], shared: bool, says: str) -> None:
    rate = of_link(typed(link))
    assert rate is not None and says in f"{rate.label}: {rate.formula}; {rate.source}"
    assert rate.shared == shared == ("total_bytes_s" in {ceiling.metric for ceiling in rate.ceilings()})


@pytest.mark.parametrize(
    "link",
    [
        {},
        {"type": "none", "bits_s": None},
        {"type": "pcie", "bits_s": 5, "generation": 9, "lanes": 4},
        {"type": "pcie", "bits_s": 5, "generation": 3, "lanes": None},
        {"type": "usb", "bits_s": 1_500_000},
        {"type": "network", "bits_s": 10, "nic": "lo"},
        {"type": "sata", "bits_s": None},
        {"type": "sata", "bits_s": "fast"},
    ],
)
def test_no_ceiling_from_a_link_that_is_not_known(link: dict[str, Any]) -> None:
    assert of_link(typed(link)) is None


def test_the_catalogue_names_its_sources_and_no_drive_twice() -> None:
    drives = catalogue()
    assert len({d.name.rsplit(" ", 2)[0] for d in drives}) >= 29
    assert all(d.source and d.figures and d.interface for d in drives)
    assert len({d.pattern.pattern for d in drives}) == len(drives)
    for drive in drives:  # a maker's figure cannot pass its own interface
        limit = {"SATA": 600e6, "PCIe 3": 3.94e9, "PCIe 4": 7.88e9, "PCIe 5": 15.8e9, "USB 3": 500e6}
        most = next(value for start, value in limit.items() if drive.interface.startswith(start))
        assert all(v <= most for k, v in drive.figures.items() if k.endswith("bytes_s")), drive.name


def test_each_source_says_whether_its_figures_were_checked() -> None:
    drives = catalogue()
    unchecked = [d for d in drives if "not checked against the datasheet" in d.source]
    studies = [d for d in drives if "published stud" in d.source]
    checked = [d for d in drives if "; checked " in d.source and d not in unchecked]
    assert len(unchecked) + len(studies) + len(checked) == len(drives)
    with CATALOGUE.open(encoding="utf-8", newline="") as file:
        makers = {row["maker"] for row in csv.DictReader(file) if row["source"] in {d.source for d in checked}}
    assert len(checked) >= 25 and len(makers) >= 10


@pytest.mark.parametrize(
    ("model", "size", "name"),
    [
        ("Samsung SSD 990 PRO 2TB", 2_000_398_934_016, "Samsung 990 PRO 2 TB"),
        ("Samsung SSD 990 PRO with Heatsink 1TB", 1_000_204_886_016, "Samsung 990 PRO 1 TB"),
        ("SAMSUNG MZQL21T9HCJR-00A07", 1_920_383_410_176, "Samsung PM9A3 U.2 1.92 TB"),
        ("INTEL SSDPF2KE016T8", 1_600_321_314_816, "Intel SSD D7-P5600 1.6 TB"),
        ("WDC  WD10EZEX-08WN4A0", 1_000_204_886_016, "Western Digital WD Blue HDD 1 TB"),
        ("CT1000P3PSSD8", 1_000_204_886_016, "Crucial P3 Plus 1 TB"),
        ("CT1000P3SSD8", 1_000_204_886_016, "Crucial P3 1 TB"),
        ("ST9250610NS", 250_059_350_016, "Seagate Constellation.2 HDD 250 GB"),
        ("WDC  WDS500G1B0A-00H9H0", 500_107_862_016, "Western Digital WD Blue SSD (2016) 500 GB"),
        ("INTEL SSDPE21K375GA", 375_083_606_016, "Intel Optane SSD DC P4800X 375 GB"),
        ("KXG60ZNV1T02 NVMe TOSHIBA 1024GB", 1_024_209_543_168, "Toshiba XG6 1 TB"),
        ("Micron_2400_MTFDKBA1T0QFM", 1_024_209_543_168, "Micron 2400 1 TB"),
        ("samsung ssd 870 evo 1tb", None, "Samsung 870 EVO 1 TB"),
    ],
)
def test_a_known_drive_is_found(model: str, size: float | None, name: str) -> None:
    found = of_disk(machine([{"model": model, "size_bytes": size}]).storage.disk)
    assert found is not None and found.name == name


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("Samsung SSD 990 EVO Plus 2TB", 2_000_398_934_016),  # a relative
        ("Samsung SSD 990 PRO", None),  # which capacity?
        ("Samsung SSD 870", 1_000_204_886_016),  # cut by SCSI at 16 characters
        ("Samsung SSD 970 EVO 1TB", 1_000_204_886_016),  # not the Plus
        ("Samsung SSD 990 PRO 2TB", 1_000_204_886_016),  # not its capacity
        ("SAMSUNG MZ1L21T9HCLS-00A07", 1_920_383_410_176),  # the M.2 PM9A3 is slower
        ("Micron_7400_MTFDKBG1T9TDZ", 1_920_383_410_176),
        ("My Samsung SSD 990 PRO 2TB", None),
        ("CT1000P3PSSD8X", None),
        ("QEMU HARDDISK", 1e11),
        ("", None),
        (None, None),
    ],
)
def test_no_figure_beats_a_wrong_one(model: str | None, size: float | None) -> None:
    assert of_disk(machine([{"model": model, "size_bytes": size}]).storage.disk) is None


@pytest.mark.parametrize(("size", "known"), [(0.905, True), (0.895, False), (1.095, True), (1.105, False)])
def test_drive_capacity_matches_within_ten_percent(size: float, known: bool) -> None:
    found = of_disk(machine([{"model": "Samsung SSD 980 PRO 1TB", "size_bytes": size * 1e12}]).storage.disk)
    assert (found is not None) == known


def test_each_row_of_the_catalogue_is_found_by_no_other_rows_model() -> None:
    for drive in catalogue():
        plain = drive.pattern.pattern.replace(r"\d*", "13").replace(".*", "X")
        for group, pick in (("( with Heatsink)?", ""), ("( HS)?", ""), ("(INTEL|SOLIDIGM)", "INTEL"), ("(-X)?", "")):
            plain = plain.replace(group, pick)
        for group, pick in (("(SEAGATE )?", ""), ("[A-Z1-9]", "1"), ("[BC]", "C"), ("[14]", "1"), ("[35]", "3")):
            plain = plain.replace(group, pick)
        for group, pick in (("[AB]", "A"), ("[AK]", "A"), ("[58]", "5"), ("[D2]", "D")):
            plain = plain.replace(group, pick)
        hits = [d.name for d in catalogue() if d.is_it(plain, drive.capacity_bytes)]
        assert hits == [drive.name], plain


def test_a_disk_has_its_links_and_its_makers_ceilings() -> None:
    host = machine([disk("nvme0n1", "Samsung SSD 980 PRO 1TB", 1_000_204_886_016, **pcie(3, 4))])
    found = list_ceilings(host, "storage", ("rated read 400 MB/s",))
    assert value(found[:-1], "read_bytes_s") == pytest.approx(3.93846e9, rel=1e-5)
    assert value(found[:-1], "total_bytes_s") is None, "PCI Express carries both directions at once"
    assert value(found[:-1], "read_bytes_s", "rated") == 7e9
    assert value(found, "randwrite_4k_iops", "rated") == 1e6
    assert found[-1].value == 400e6
    assert why_none(host) == ()
    assert list_ceilings(host, "memory") == ()


def test_virtual_disk_ceiling_unknown_with_reason() -> None:
    host = machine(
        [{"name": "vda", "model": None, "link": {"type": "none", "bits_s": None}}],
        **{"storage.disks.0.link.bits_s": "a hypervisor's disk", "storage.disks.0.model": "it states none"},
    )
    assert of_machine(host) == ()
    assert why_none(host) == (
        "no ceiling from the link of vda: a hypervisor's disk",
        "no maker's figures for vda: it states none",
    )


def test_machine_without_storage_has_reason() -> None:
    assert of_machine(Machine()) == ()
    assert len(why_none(Machine())) == 1
    assert why_none(Machine(unknown={"storage.disks": "tmpfs lies in memory"})) == ("tmpfs lies in memory",)


def stacked(kind: str, level: str | None, disks: int) -> dict[str, Any]:
    layer = {"name": "md0", "kind": kind, "detail": "", "on": [f"sd{i}1" for i in range(disks)]}
    if level:
        layer["level"] = level
    parts = [{"name": f"sd{i}1", "kind": "partition", "detail": "", "on": [f"sd{i}"]} for i in range(disks)]
    top = {"name": "vg-data", "kind": "lvm", "detail": "", "on": ["md0"]}
    drives = [disk(f"sd{i}", "Samsung SSD 870 EVO 1TB", 1_000_204_886_016) for i in range(disks)]
    return machine(drives, [top, layer, *parts])


@pytest.mark.parametrize(
    ("level", "disks", "read", "write", "total", "small_writes"),
    [
        ("raid0", 3, 1800e6, 1800e6, 1800e6, 264e3),
        ("raid1", 2, 1200e6, 600e6, 1200e6, 88e3),
        ("raid10", 4, 2400e6, 1200e6, 2400e6, 176e3),
        ("raid5", 4, 2400e6, 1800e6, 2400e6, 176e3),
        ("raid6", 6, 3600e6, 2400e6, 3600e6, 176e3),
        ("linear", 2, 1200e6, 1200e6, 1200e6, 176e3),
    ],
)
def test_raid_ceiling_follows_its_level(
    level: str, disks: int, read: float, write: float, total: float, small_writes: float
) -> None:
    found = of_machine(stacked("raid", level, disks))
    assert value(found, "read_bytes_s") == pytest.approx(read)
    assert value(found, "write_bytes_s") == pytest.approx(write)
    assert value(found, "total_bytes_s") == pytest.approx(total)
    assert value(found, "randwrite_4k_iops", "rated") == pytest.approx(small_writes)
    assert value(found, "randread_4k_iops", "rated") == pytest.approx(98e3 * disks)


def test_a_stack_that_does_not_say_how_it_spreads_has_no_ceiling() -> None:
    for storage in (stacked("lvm", None, 2), stacked("raid", "raid42", 2)):
        assert of_machine(storage) == ()
    assert "md0 (lvm)" in " ".join(why_none(stacked("lvm", None, 2)))


def test_unlike_members_are_summed_singly() -> None:
    host = stacked("raid", "raid0", 2)
    first, second = host.storage.disks
    second = replace(second, link=Link(type="sata", bits_s=3_000_000_000))
    host = replace(host, storage=replace(host.storage, disks=(first, second)))
    found = of_machine(host)
    assert value(found, "read_bytes_s") == pytest.approx(900e6)
    assert "+" in next(c.formula for c in found if c.metric == "read_bytes_s")


def test_chain_that_goes_in_circle_ends() -> None:
    layers = [{"name": "a", "kind": "x", "on": ["b"]}, {"name": "b", "kind": "x", "on": ["a"]}]
    assert of_machine(machine([disk("sda")], [{"name": "top", "kind": "x", "on": ["a"]}, *layers])) == ()


@pytest.mark.parametrize("below", [[], [{"name": "a", "kind": "raid", "level": "raid0", "on": []}],
    [{"name": "a", "kind": "x", "on": ["b"]}, {"name": "b", "kind": "x", "on": ["a"]}]])  # fmt: skip
def test_a_layer_on_nothing_carries_nothing(below: list[dict[str, Any]]) -> None:
    top = {"name": "top", "kind": "raid", "level": "raid0", "on": ["a", "sda"]}
    assert of_machine(machine([disk("sda")], [top, *below])) == ()


def test_disks_without_common_top_lack_ceiling() -> None:
    assert of_machine(machine([disk("sda")])) != () == of_machine(machine([disk("sda"), disk("sdb")]))


def test_a_mix_is_bounded_by_each_direction_and_by_a_shared_wire() -> None:
    duplex = of_machine(machine([disk("nvme0n1", **pcie(3, 4))]))
    shared = of_machine(machine([disk("sda")]))
    mix = {"rw": "randrw", "rwmixread": 70, "bs": 4096}
    bound = bound_for(duplex, mix)
    assert bound is not None and bound.value == pytest.approx(3.93846e9 / 0.7, rel=1e-5)
    bound = bound_for(shared, {"rw": "randrw:70", "bs": "4k"})
    assert bound is not None and bound.value == pytest.approx(600e6)
    bound = bound_for(duplex, {"rw": "rw", "bs": "1M"})
    assert bound is not None and bound.value == pytest.approx(2 * 3.93846e9, rel=1e-5)


def test_each_direction_has_its_own_bound() -> None:
    read, write = parse_given("rated read 400 MB/s"), parse_given("rated write 240 MB/s")
    assert (
        find_bound(read, {"rw": "randread", "bs": "4k"}) is not None
        and find_bound(read, {"rw": "write", "bs": "4k"}) is None
    )
    assert find_bound(write, {"rw": "randwrite"}) is not None and find_bound(write, {"rw": "read"}) is None
    bound = bound_for((read, write), {"rw": "write"}, kind="physical")
    assert bound is None
    assert find_bound(read, {"operation": "triad"}) is None, "memory has no rw"


def test_rated_operations_bound_random_blocks_of_4_kib_and_more() -> None:
    rated = parse_given("rated randread 1000k IOPS")
    bound = find_bound(rated, {"rw": "randread", "bs": "4k"})
    assert bound is not None and bound.value == 4.096e9 and bound.unit == "bytes/s"
    assert find_bound(rated, {"rw": "read", "bs": "4k"}) is None
    assert find_bound(rated, {"rw": "randread", "bs": 4000}) is None
    larger = find_bound(rated, {"rw": "randread", "bs": 4352})
    assert larger is not None and larger.value == 4.352e9
    assert find_bound(rated, {"rw": "randread"}) is None
    assert find_bound(parse_given("physical 3 GFLOP/s"), {"rw": "read", "bs": "4k"}) is None


@pytest.mark.parametrize(
    ("text", "metric", "kind", "amount", "unit"),
    [
        ("rated read 400 MB/s", "read_bytes_s", "rated", 400e6, "bytes/s"),
        ("physical 3.94 GB/s", "total_bytes_s", "physical", 3.94e9, "bytes/s"),
        ("rated randread 1000k IOPS", "randread_4k_iops", "rated", 1e6, "operations/s"),
        ("Rated Random-Write 130 kIOPS", "randwrite_4k_iops", "rated", 130e3, "operations/s"),
        ("reference write 240 MiB/s", "write_bytes_s", "reference", 240 * 2**20, "bytes/s"),
        ("physical 10Gbit/s", "total_bytes_s", "physical", 1.25e9, "bytes/s"),
        ("read 2,5 GB/s", "read_bytes_s", "rated", 2.5e9, "bytes/s"),
        ("physical 73.28 GFLOP/s", "flop_s", "physical", 73.28e9, "FLOP/s"),
        ("1e6 IOPS", "total_operations_s", "rated", 1e6, "operations/s"),
        ("rated read 400 kB/s", "read_bytes_s", "rated", 4e5, "bytes/s"),
        ("rated read 400 KB/s", "read_bytes_s", "rated", 4e5, "bytes/s"),
        ("rated read 3 TB/s", "read_bytes_s", "rated", 3e12, "bytes/s"),
        ("rated read 2 PB/s", "read_bytes_s", "rated", 2e15, "bytes/s"),
        ("rated read 3 KiB/s", "read_bytes_s", "rated", 3072, "bytes/s"),
        ("physical read 1 B/s", "read_bytes_s", "physical", 1.0, "bytes/s"),
        ("rated read 3,500 Megabytes per second", "read_bytes_s", "rated", 3.5e9, "bytes/s"),
        ("rated randread 1,000 k IOPS", "randread_4k_iops", "rated", 1e6, "operations/s"),
        ("physical 100 TOPS", "iop_s", "physical", 1e14, "IOP/s"),
    ],
)
def test_a_given_ceiling_is_read(text: str, metric: str, kind: str, amount: float, unit: str) -> None:
    found = parse_given(text)
    assert (found.metric, found.kind, found.unit) == (metric, kind, unit)
    assert found.value == pytest.approx(amount)
    assert text in found.formula


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rated",
        "fast",
        "rated read 400",
        "rated read -1 MB/s",
        "read 0 MB/s",
        "400 parsecs",
        "read 3 GFLOP/s",
        "4 MB",
        "read 5 ms",
        "400 quux/s",
    ],
)
def test_invalid_ceiling_is_one_line(text: str) -> None:
    with pytest.raises(UserError) as error:
        parse_given(text)
    assert "\n" not in str(error.value) and "'rated read 400 MB/s'" in str(error.value)
