"""Tables of rates and ranges hold what the standards and our own commands have, written out by family."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hwdyno.analysis.ceilings import named
from hwdyno.analysis.ceilings.named import device_ceilings, gpu_named, link_rate, only_link, parse_device, rated_named
from hwdyno.analysis.ceilings.rated import catalogue
from hwdyno.explain.findings.claims import LINE_RATES_GBIT, TRANSFERS_GT_S
from hwdyno.explain.findings.commands import takable
from hwdyno.model.words import ExperimentResult, UserError

MEGATRANSFERS = {
    "JESD79": (200, 266, 333, 400),
    "JESD79-2 (DDR2)": (400, 533, 667, 800, 1066),
    "JESD79-3 (DDR3)": (800, 1066, 1333, 1600, 1866, 2133),
    "JESD79-4 (DDR4)": (1600, 1866, 2133, 2400, 2666, 2933, 3200),
    "JESD79-5 (DDR5)": (3200, 3600, 4000, 4400, 4800, 5200, 5600, 6000, 6400, 6800, 7200, 8000, 8800),
    "JESD209-4 (LPDDR4, 4X)": (3200, 3733, 4266),
    "JESD209-5 (LPDDR5, 5X)": (5500, 6000, 6400, 7500, 8533, 9600, 10667),
}


def test_memory_has_transfer_rates_of_jedec() -> None:
    assert {round(1000 * rate) for rate in TRANSFERS_GT_S} == {
        rate for rates in MEGATRANSFERS.values() for rate in rates
    }


def test_lines_have_ieee_802_3_rates() -> None:
    assert tuple(1000 * rate for rate in LINE_RATES_GBIT) == (
        1_000, 2_500, 5_000, 10_000, 25_000, 40_000, 50_000, 100_000, 200_000, 400_000, 800_000,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "bytes_s"),
    [
        # 4 lanes after encoding: 8b/10b up to QDR, 64b/66b from FDR on.
        ("InfiniBand SDR", 1e9),
        ("InfiniBand DDR", 2e9),
        ("IB QDR", 4e9),
        ("FDR InfiniBand", 54.54e9 / 8),
        ("InfiniBand EDR", 12.5e9),
        ("HDR InfiniBand", 25e9),
        ("IB NDR", 50e9),
        ("XDR InfiniBand", 100e9),
        # NVIDIA's data sheets have both directions together: 160, 300, 600, 900 and 1800 GB/s a GPU.
        ("NVLink 1", 80e9),
        ("NVLink 2", 150e9),
        ("NVLink3", 300e9),
        ("NVLink 4", 450e9),
        ("NVLink 5", 900e9),
        ("NVLink", 900e9),
        ("SAS-1", 3e9 * 8 / 10 / 8),
        ("SAS 2", 6e9 * 8 / 10 / 8),
        ("SAS-3", 12e9 * 8 / 10 / 8),
        ("SAS", 12e9 * 8 / 10 / 8),
        ("SAS 6 Gb/s", 6e9 * 8 / 10 / 8),
        ("SAS-4", 22.5e9 * 128 / 150 / 8),
        ("SAS 24 Gb/s", 22.5e9 * 128 / 150 / 8),
        ("SATA", 6e9 * 8 / 10 / 8),
        ("SATA I", 1.5e9 * 8 / 10 / 8),
        ("SATA 1", 1.5e9 * 8 / 10 / 8),
        ("SATA 1.5Gbps", 1.5e9 * 8 / 10 / 8),
        ("SATA II", 3e9 * 8 / 10 / 8),
        ("SATA 2", 3e9 * 8 / 10 / 8),
        ("SATA III", 6e9 * 8 / 10 / 8),
        ("SATA 3", 6e9 * 8 / 10 / 8),
        ("USB 1.1", 19 * 64 * 1000.0),
        ("USB 2.0", 13 * 512 * 8000.0),
        ("USB 3.0", 5e9 * 8 / 10 / 8),
        ("USB 3.1 Gen 1", 5e9 * 8 / 10 / 8),
        ("USB 3.1 Gen 2", 10e9 * 128 / 132 / 8),
        ("USB 3.2 Gen 1x2", 10e9 * 8 / 10 / 8),
        ("USB 3.2 5Gbps", 5e9 * 8 / 10 / 8),
        ("USB 3.2 10Gbps", 10e9 * 128 / 132 / 8),
        ("USB 3.2 20Gbps", 20e9 * 128 / 132 / 8),
        ("USB 3.2 Gen 2x2", 20e9 * 128 / 132 / 8),
        ("USB4", 40e9 * 128 / 132 / 8),
        ("USB4 40 Gbps", 40e9 * 128 / 132 / 8),
        ("USB4 80 Gbps", 80e9 * 128 / 132 / 8),
        ("DDR4-3200", 3.2e9 * 8),
        ("8 channels DDR5-4800", 4.8e9 * 8 * 8),
        ("DDR5-5600 x12", 5.6e9 * 8 * 12),
        ("32 channels DDR5-4800", 4.8e9 * 8 * 32),
        # What frames carry of it is below.
        ("gigabit ethernet", 1e9 / 8),
        ("100 Mbit Ethernet", 1e8 / 8),
        ("25GbE", 25e9 / 8),
        ("2 x 100 GbE", 200e9 / 8),
    ],
)
def test_named_link_carries_its_standards_rate(name: str, bytes_s: float) -> None:
    rate = link_rate(name)
    assert rate is not None
    if "thernet" in rate.label:
        # 9,000 B less the heads of IP and UDP; header, checksum, preamble and gap beside them.
        bytes_s *= (9000 - 20 - 8) / (9000 + 14 + 4 + 8 + 12)
    assert rate.bytes_s == pytest.approx(bytes_s, rel=1e-6)


@pytest.mark.parametrize(
    ("says", "names"),
    [
        ("PCIe 3.0 x4: 8 GT/s × 4 lanes", ["Gen 3 x4", "PCIe 3.0x4", "PCIe 3 4x", "PCIe 3 4 lanes", "PCIe x4 Gen 3"]),
        ("PCIe 4.0 x8: ", ["x8 PCIe 4.0", "PCI Express 4.0 x8", "M.2 PCIe Gen4 x8 NVMe"]),
        ("PCIe 3.0 x1: ", ["PCIe 3 x1"]),
        ("PCIe 3.0 x32: ", ["PCIe 3 x32"]),
        ("DDR5-4800 x8: 4800 MT/s × 8 B × 8 channels = 307 GB/s", ["8 channels DDR5-4800", "DDR5-4800 x8"]),
        ("DDR4-3200 x1: 3200 MT/s × 8 B × 1 channel = 25.6 GB/s", ["DDR4-3200 x1"]),
        ("USB 3.2 Gen 2x2: ", ["USB 3 20 Gbit/s"]),
        ("USB4 80 Gbit/s: 80 Gbit/s × 128/132 / 8 = 9,697 MB/s", ["USB4 80 Gbps"]),
        ("50 Gbit/s Ethernet: 2 × 25 Gbit/s / 8", ["2x 25GbE"]),
        ("25 Gbit/s Ethernet: 25 Gbit/s / 8", ["25GbE"]),
    ],
)
def test_a_link_is_found_however_written(says: str, names: list[str]) -> None:
    for rate in [link_rate(name, most=most) for name in names for most in (False, True)]:
        assert rate is not None and f"{rate.label}: {rate.formula}".startswith(says)


@pytest.mark.parametrize(
    ("label", "titles"),
    [
        ("PCIe 4.0 x4", ["Reads and writes over PCIe 4 x4", "IOPS/s on PCIe 4 x4", "PCIe 4 x4 vs pcie 4.0 x4"]),
        ("25 Gbit/s Ethernet", ["TCP over 25 Gbit/s Ethernet", "Throughput over 25GbE"]),
        ("", ["local disk vs. nothing", "PCIe 3 x4 vs PCIe 4 x4", "PCIe 4 x4 and PCIe 5 x4", "10GbE/25GbE"]),
        ("", ["USB 3.0 versus USB 2.0", "SATA vs PCIe 4 x4"]),
    ],
)
def test_a_title_names_only_one_link(label: str, titles: list[str]) -> None:
    assert {(rate.label if (rate := only_link(title)) else "") for title in titles} == {label}


@pytest.mark.parametrize("name", ["33 channels DDR5-4800", "a disk"])
def test_what_no_link_has_is_none(name: str) -> None:
    assert link_rate(name) is None


@pytest.mark.parametrize(("name", "why"), [
    ("USB 3.1", "is Gen 1 (500 MB/s) or Gen 2 (1.21 GB/s); write 'USB 3.1 Gen 1' or 'USB 3.1 Gen 2'"),
    ("PCIe 4.0", "has no lanes; write 'PCIe 4 x4' or 'PCIe 4 x16'"),
    ("PCIe x4", "has no generation; write 'PCIe 4 x4' or 'PCIe 4 x16'"),
    ("PCIe 3.0 x33", "has no lanes; write 'PCIe 3 x4' or 'PCIe 3 x16'"),
])  # fmt: skip
def test_a_link_that_can_be_two_is_asked_for(name: str, why: str) -> None:
    with pytest.raises(UserError) as raised:
        link_rate(name)
    assert str(raised.value) == f"the link '{name}' {why}"


def test_faster_of_two_drives_is_the_bound() -> None:
    faster = link_rate("USB 3.1", most=True)
    assert faster is not None and faster.bytes_s == pytest.approx(10e9 * 128 / 132 / 8)
    assert link_rate("PCIe 4.0", most=True) is None
    assert link_rate("DDR5-4800", most=True) is None


def test_a_drive_of_several_capacities_has_its_figures_in_the_catalogues_order() -> None:
    """The figures came in a different order in each process."""
    found = rated_named("Crucial MX500")
    assert found is not None and found.name == "Crucial MX500, its fastest capacity"
    (first, *_) = (drive for drive in catalogue() if drive.name.startswith("Crucial MX500"))
    assert list(found.figures) == list(first.figures) and len(found.figures) == 4


def test_name_of_several_drives_is_none() -> None:
    text = "990 PRO 980 PRO 970 PRO"
    assert rated_named(text) is None and device_ceilings(text, "storage") == ()
    with pytest.raises(UserError, match=r"can be Samsung 990 PRO 1 TB or Samsung 970 PRO 512 GB; write one of"):
        parse_device(text)


@pytest.mark.parametrize(("name", "figures"), [
    ("Tesla M40", (6.84e12, 0.21e12, 288e9)), ("RTX A6000", (38.71e12, 0.0, 768e9)),
    ("NVIDIA A2", (4.53e12, 0.07e12, 0.0)),
])  # fmt: skip
def test_gpu_has_its_data_sheets_figures(name: str, figures: tuple[float, float, float]) -> None:
    gpu = gpu_named(name)
    assert gpu is not None and (gpu.flops_s, gpu.double_flops_s, gpu.memory_bytes_s) == figures


def test_unknown_link_leaves_other_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [found.metric for found in device_ceilings("GeForce GTX 1080 Ti", "gpu")] == ["device_copy/bytes_s"]
    drive = replace(catalogue()[0], interface="PCIe 4", figures={"read_bytes_s": 1e9})
    monkeypatch.setattr(named, "rated_named", lambda text: drive)
    assert [found.metric for found in device_ceilings("it", "storage")] == ["read_bytes_s"]


RANGES = [
    ("storage", "rwmixread", 0, 100, 1),
    ("storage", "bs", 512, 10**12, 1),
    ("storage", "iodepth", 1, 1024, 1),
    ("storage", "numjobs", 1, 1024, 1),
    ("storage", "direct", 0, 1, 1),
    ("storage", "size", 1, 10**18, 1),
    ("storage", "runtime", 1e-3, 10**6, 1e-4),
    ("storage", "drop_cache", 0, 1, 1),
    ("memory", "threads", 1, 1024, 1),
    ("memory", "working_set", 4096, 10**14, 1),
    ("memory", "stride", 8, 10**9, 1),
    ("memory", "delay", 0, 10**9, 1),
    ("memory", "runtime", 1e-3, 10**6, 1e-4),
    ("compute", "threads", 1, 1024, 1),
    ("compute", "n", 2, 10**6, 1),
    ("compute", "runtime", 1e-3, 10**6, 1e-4),
    ("network", "streams", 1, 128, 1),
    ("network", "message", 1, 10**6, 1),
    ("network", "block", 1, 10**9, 1),
    ("network", "runtime", 1e-3, 10**6, 1e-4),
    ("network", "rate", 0, 10**14, 1),
    ("training", "accelerators", 1, 4096, 1),
]


@pytest.mark.parametrize(("resource", "name", "least", "most", "step"), RANGES)
def test_command_takes_values_in_range(resource: str, name: str, least: float, most: float, step: float) -> None:
    result = ExperimentResult("one", resource, "?", name, "foreign", ())
    for value in (least, most):
        assert takable(result, {name: value}) == {name: value}
    for value in (least - step, most + (1 if most < 1e17 else most)):
        assert takable(result, {name: value}) == {}, value
    assert takable(replace(result, resource="table"), {name: least}) == {}
