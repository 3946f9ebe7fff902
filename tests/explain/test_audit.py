"""`hwdyno audit`: a planted fault in a published table is found, and a sound table raises nothing."""

from __future__ import annotations

import json
from pathlib import Path

import hwdyno
import pytest
from hwdyno.cli import audit
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.model.words import Finding, Run, UserError
from hwdyno.report import sources

PUBLISHED = Path(hwdyno.__file__).parent / "data" / "published"


def audited(*texts: str, folder: Path, **options: list[str]) -> Run:
    names = []
    for at, text in enumerate(texts):
        path = folder / f"table{at}.md"
        path.write_text(text)
        names.append(str(path))
    return of_files(names, **options)


def of_files(names: list[str], **options: list[str]) -> Run:
    files = sources.read_sources(names, sources.parse_maps(options.get("map", [])))
    of = (options.get(name, []) for name in ("ceiling", "link", "device"))
    return explain(sources.merge_sources(files, sources.ceilings_given(*of, limits=True)))


def rules(run: Run) -> set[str]:
    return {fault.rule for fault in audit.list_faults(run)}


def of(run: Run, rule: str) -> Finding:
    (found,) = [finding for finding in run.findings if finding.rule == rule]
    return found


# --- the studies' own tables


def test_each_fault_that_the_studies_name_is_found_in_their_tables() -> None:
    claims = Path(__file__).parents[1] / "data" / "fuzz" / "published" / "claimed-ceilings.csv"
    run = of_files([str(path) for path in (*sorted(PUBLISHED.glob("*.csv")), claims)])
    says = {fault.rule: fault.says for fault in audit.list_faults(run)}
    assert "labelled A100" in says["mislabelled_accelerator"] and "fits an H100" in says["mislabelled_accelerator"]
    assert "1,473 MB/s" in says["physical_ceiling"] and "500 MB/s" in says["physical_ceiling"]
    assert "1,166 MB/s" in says["rate_times_size"] and "997 MB/s" in says["rate_times_size"]
    assert "18.0 in flight, but only 16" in says["little"]
    assert "2.29 is the clock of the same study's CPU" in says["memory_by_clock"]
    assert "8 FLOP a core" in says["flops_per_core"] and "6.84 TFLOP/s" in says["flops_per_core"]
    assert "Loopback has no link" in says["on_loopback"] and "line rates are in bits" in says["line_rate_in_bytes"]
    exceeded = [finding for finding in run.findings if finding.rule == "claim_exceeded"]
    texts = " ".join(finding.says for finding in exceeded)
    assert "4,050 MB/s" in texts and "76.4 GFLOP/s" in texts and "400 MB/s" in texts
    assert set(says) == {
        *("mislabelled_accelerator", "physical_ceiling", "rate_times_size", "little", "memory_by_clock"),
        *("flops_per_core", "on_loopback", "line_rate_in_bytes", "claim_exceeded", "rated_exceeded"),
        *("published_steps", "published_unit", "equal_figures", "full_counter", "block_beyond_call"),
    }


def test_sound_study_tables_raise_nothing() -> None:
    run = of_files([str(PUBLISHED / name) for name in ("cpu-linpack.csv", "memory-stream.csv", "rated-devices.csv")])
    assert not audit.list_faults(run)
    training = of_files([str(PUBLISHED / "training-mlperf-storage.csv")])
    assert {fault.rule: fault.points for fault in audit.list_faults(training)} == {
        "mislabelled_accelerator": (2,), "published_steps": (2, 3), "published_unit": (0, 1, 3),
    }  # fmt: skip


def test_a_link_or_a_ceiling_on_the_command_line_bounds_the_jetson() -> None:
    table = str(PUBLISHED / "storage-fio.csv")
    for options in ({"link": ["PCIe 3 x4"]}, {"ceiling": ["4 GB/s"]}):
        found = [finding for finding in of_files([table], **options).findings if finding.rule == "physical_ceiling"]
        assert any("usb" in finding.says.lower() for finding in found)
        faults = [
            fault for fault in audit.list_faults(of_files([table], **options)) if fault.rule == "physical_ceiling"
        ]
        assert len(faults) == 2 and any("4,050 MB/s" in fault.says for fault in faults), "none hides behind the worst"
        points = of_files([table], **options).experiments[0].points
        assert [point.validity == "invalid" for point in points] == [False] * 4 + [True]


# --- foreign tables with a planted fault each, and sound ones

SOUND_STORAGE = """# 4 KiB random reads on a laptop's NVMe
| bs | QD | IOPS | BW (MB/s) | lat avg us | p50 | p99 | max |
| -- | -- | ---- | --------- | ---------- | --- | --- | --- |
| 4k | 1  | 14.2k | 58.2 | 69.8 | 68 | 91 | 1203 |
| 4k | 8  | 101k  | 414  | 78.9 | 77 | 120 | 2230 |
| 4k | 32 | 301k  | 1233 | 105.8 | 99 | 210 | 4100 |
| 4k | 128 | 512k | 2097 | 249.5 | 240 | 480 | 9021 |
"""
SOUND_LOADED = """Inject Delay,Latency (ns),Bandwidth (MB/s)
0,221.4,110201.5
100,150.8,98020.2
500,96.1,31002.9
1000,88.0,16010.1
20000,80.9,1500.3
"""
SOUND_GPU = """GPU,H2D (GB/s),D2H (GB/s),D2D (GB/s)
Tesla V100-SXM2-16GB,12.1,12.9,745
NVIDIA A100-SXM4-80GB,24.6,26.2,1480
Tesla T4,6.2,6.5,239
"""
SOUND_NETWORK = """Test\tProtocol\tStreams\tThroughput (Gbit/s)\tRetr\tLoss (%)
LAN\tTCP\t1\t9.41\t12\t
LAN\tTCP\t8\t9.39\t310\t
LAN\tUDP\t1\t9.55\t\t0.4
"""
SOUND_TRAINING = """Workload | Accelerator | # Accelerators | AU (%) | Throughput (MB/s)
--- | --- | --- | --- | ---
unet3d | A100 | 1 | 98.2 | 1584
unet3d | A100 | 4 | 96.5 | 6226
unet3d | H100 | 1 | 95.1 | 3021
unet3d | H100 | 2 | 55.0 | 3494
"""
SOUND_HPL = """N,Time (s),Gflops,Rpeak (GFLOP/s),Efficiency (%)
10000,9.31,71.62,97.9,73.2
20000,71.80,74.29,97.9,75.9
40000,562.1,75.92,97.9,77.5
"""
SOUND_MIX = """| Test | Block size | Queue depth | Jobs | Read IOPS | Write IOPS | Read BW (MiB/s) | Write BW (MiB/s) |
|---|---|---|---|---|---|---|---|
| randrw 70/30 | 4k | 32 | 4 | 91.2k | 39.1k | 356 | 153 |
| randrw 50/50 | 4k | 32 | 4 | 61.0k | 61.1k | 238 | 239 |
"""
SOUND_SATA = """Drive,Interface,Seq Read (MB/s),Seq Write (MB/s),4K Rand Read (IOPS),4K Rand Write (IOPS)
Crucial MX500 1TB,SATA 6Gb/s,552,505,91000,86000
Samsung 870 EVO 1TB,SATA III,561,530,97500,88000
Seagate BarraCuda 2TB HDD,SATA 6Gb/s,198,190,78,170
"""
SOUND_PING = """host,rtt min (ms),rtt avg (ms),rtt max (ms),loss (%)
gateway,0.211,0.312,1.204,0
remote,11.8,12.3,19.9,0.5
"""
SOUND_COPY = """File,Size (GB),Time (s),Throughput (MB/s)
a.bin,10.0,18.2,549
b.bin,2.0,3.71,539
"""
SOUND_STREAM = """Threads,Copy (GB/s),Scale (GB/s),Add (GB/s),Triad (GB/s)
1,11.2,10.9,12.1,12.0
4,31.8,31.0,33.5,33.2
8,36.0,35.1,37.7,37.5
"""
SOUND_TWO_UNITS = """Streams,Bandwidth (Gbit/s),Bandwidth (MB/s)
1,9.41,1176
4,9.40,1175
"""
SOUND_MIN_MAX = """Block size,Min BW (MB/s),Avg BW (MB/s),Max BW (MB/s),QD
4 KiB,310,402,455,16
1 MiB,3010,3405,3511,16
"""
SOUND_TITLE = """# Sequential reads over 25GbE (NVMe-oF target)
| Streams | Throughput (Gbit/s) |
|---|---|
| 1 | 17.9 |
| 8 | 24.4 |
"""
SOUND_KILO = """bs,QD,IOPS (k),BW (MB/s)
4k,32,301,1233
8k,32,180,1475
"""
SOUND_SCALING = """threads,GFLOP/s,speedup,efficiency
1,10.1,1.00,1.00
4,42.1,4.17,1.04
"""
SOUND = {name.removeprefix("SOUND_").lower(): text for name, text in globals().items() if name.startswith("SOUND_")}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_table_raises_no_fault(name: str, tmp_path: Path) -> None:
    links = {"network": ["10GbE"], "two_units": ["10GbE"], "stream": ["DDR4-3200 x2"], "storage": ["PCIe 4 x4"]}
    run = audited(SOUND[name], folder=tmp_path, link=links.get(name, []))
    assert not [fault.says for fault in audit.list_faults(run)]
    assert sum(len(experiment.points) for experiment in run.experiments) >= 2


PLANTED = {
    "depth": (SOUND_STORAGE.replace("| 105.8 |", "| 205.8 |"), {}, "little"),
    "bandwidth": (SOUND_STORAGE.replace("| 414 ", "| 484 "), {}, "rate_times_size"),
    "percentiles": (SOUND_STORAGE.replace("| 99 | 210 |", "| 310 | 210 |"), {}, "contradicts_itself"),
    "above_link": (SOUND_STORAGE, {"link": ["SATA 3"]}, "physical_ceiling"),
    "binary_column": (
        SOUND_STORAGE.replace("58.2", "55.5").replace("414 ", "395 ").replace("1233", "1176").replace("2097", "2000"),
        {},
        "unit_slip",
    ),
    "loaded": (SOUND_LOADED.replace("500,96.1,31002.9", "500,96.1,3100.2"), {}, "runs_backwards"),
    "loaded_unit": (SOUND_LOADED.replace("1000,88.0,", "1000,8.8,"), {}, "latency_floor"),
    "gpu": (SOUND_GPU.replace("6.2,6.5", "62,6.5"), {}, "physical_ceiling"),
    "hbm": (SOUND_GPU.replace("239", "2390"), {}, "physical_ceiling"),
    "network": (SOUND_NETWORK.replace("9.41", "11.41"), {"link": ["10GbE"]}, "physical_ceiling"),
    "loss": (SOUND_NETWORK.replace("0.4", "104"), {}, "contradicts_itself"),
    "training": (SOUND_TRAINING.replace("H100 | 1 | 95.1", "A100 | 1 | 95.1"), {}, "mislabelled_accelerator"),
    "au": (SOUND_TRAINING.replace("98.2", "118.2"), {}, "contradicts_itself"),
    "flops": (SOUND_HPL.replace("71.80,74.29", "71.80,84.29").replace("75.9\n", "86.1\n"), {}, "contradicts_itself"),
    "efficiency": (SOUND_HPL.replace("97.9,77.5", "97.9,91.5"), {}, "contradicts_itself"),
    "peak": (SOUND_HPL.replace("562.1,75.92,97.9,77.5", "421.6,101.2,97.9,103.4"), {}, "contradicts_itself"),
    "mix": (SOUND_MIX.replace("| 238 | 239 |", "| 338 | 239 |"), {}, "rate_times_size"),
    "sata": (SOUND_SATA.replace("552,505", "1052,505"), {}, "physical_ceiling"),
    "ping": (SOUND_PING.replace("11.8,12.3", "13.8,12.3"), {}, "contradicts_itself"),
    "copy": (SOUND_COPY.replace("3.71,539", "3.71,939").replace("Size (GB)", "Data (GB)"), {}, "contradicts_itself"),
    "dimms": (SOUND_STREAM.replace("8,36.0", "8,66.0"), {"link": ["DDR4-3200 x2"]}, "physical_ceiling"),
    "two_units": (SOUND_TWO_UNITS.replace("9.40,1175", "9.40,9400"), {}, "contradicts_itself"),
    "title": (SOUND_TITLE.replace("24.4", "29.4"), {}, "physical_ceiling"),
    "kilo": (SOUND_KILO.replace("1475", "2475"), {}, "rate_times_size"),
    "rated": (SOUND_STORAGE, {"ceiling": ["rated read 1000 MB/s"]}, "rated_exceeded"),
    "device": (SOUND_STORAGE, {"device": ["Crucial MX500"]}, "physical_ceiling"),
    "min_max": (SOUND_MIN_MAX.replace("3010,3405,3511", "3010,3605,3511"), {}, "contradicts_itself"),
}


ALSO_FOUND = {
    "binary_column": ["rate_times_size"],
    "loaded_unit": ["runs_backwards"],
    "sata": ["rated_exceeded"],
    "device": ["rated_exceeded"],
}
"""What else a planted fault contradicts, by its name."""


@pytest.mark.parametrize("name", PLANTED)
def test_only_planted_faults_are_found(name: str, tmp_path: Path) -> None:
    text, options, rule = PLANTED[name]
    assert text not in SOUND.values() or options, "the fault was not planted"
    found = rules(audited(text, folder=tmp_path, **options))
    assert rule in found
    assert found == {rule, *ALSO_FOUND.get(name, ())}


def test_the_slip_is_named(tmp_path: Path) -> None:
    text, _, rule = PLANTED["binary_column"]
    assert "1.0486" in of(audited(text, folder=tmp_path), rule).says


# --- what is requested, mapped and refused


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bs,BW\n4k,500\n8k,600\n", "column 'BW' can be read as MB/s or as MiB/s"),
        ("bs,QD,lat\n4k,1,70\n", "column 'lat' can be read as us or as ms"),
        ("bs,BW (Gb/s),QD\n4k,4.1,1\n", "column 'BW (Gb/s)' can be read as Gbit/s or as GB/s"),
        ("block,IOPS\n512,1000\n", "column 'block' can be read as KiB or as B"),
    ],
)
def test_two_readings_are_asked_for_in_one_line(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        audited(text, folder=tmp_path)
    assert says in str(refused.value) and "--map" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "depths", "rates"),
    [
        ("depth IOPS\n1 12000\n8 80000\n", [1, 8], [12e3, 80e3]),
        ("depth IOPS\n\n1 12000\n\n8 80000\n", [1, 8], [12e3, 80e3]),
        ("QD BW (MB/s)\n1 500\n2 900\n", [1, 2], [500e6, 900e6]),
        ("operation QD IOPS\nrandread 1 12000\nrandwrite 4 20000\n", [1, 4], [12e3, 20e3]),
    ],
)
def test_cells_split_by_spaces_are_read(text: str, depths: list[int], rates: list[float], tmp_path: Path) -> None:
    points = audited(text, folder=tmp_path).experiments[0].points
    assert [point.parameters["iodepth"] for point in points] == depths
    assert [point.throughput.value for point in points] == rates


def test_series_along_two_axes_are_points(tmp_path: Path) -> None:
    """Threads and block sizes are axes; Copy, Scale, Add and Triad are results of each row."""
    text = (
        "threads,block size,Copy (MB/s),Triad (MB/s)\n1,64 MiB,5221,6587\n2,64 MiB,10643,13109\n2,128 MiB,10500,13000\n"
    )
    (table,) = audited(text, folder=tmp_path).experiments
    assert table.resource == "memory"
    found = {(p.parameters["threads"], p.parameters["bs"], p.parameters["operation"]): p for p in table.points}
    assert len(found) == 6
    assert found[1, 64 << 20, "copy"].throughput.value == 5221e6
    assert found[2, 128 << 20, "triad"].throughput.value == 13e9


def test_heads_with_more_words_than_columns_are_asked_about(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"2 columns have the 3 words 'queue depth IOPS' as heads.*commas or tabs"):
        audited("queue depth IOPS\n1 12000\n8 80000\n", folder=tmp_path)


def test_a_readable_table_is_read_whatever_stands_below_it(tmp_path: Path) -> None:
    text = "depth,IOPS\n1,12000\n8,80000\n\nqueue depth IOPS\n1 12000\n8 80000\n"
    (table,) = audited(text, folder=tmp_path).experiments
    assert [point.throughput.value for point in table.points] == [12e3, 80e3]


@pytest.mark.parametrize(
    "text", ["See page\nof 3\nand 4 5\n", "The end\nchapter 1\n", "a b\nc d\ne f\n", "\n", "--\n--\n"]
)
def test_words_in_lines_are_no_table(text: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no table with results"):
        audited(text, folder=tmp_path)


def test_unknown_column_in_map_is_named(tmp_path: Path) -> None:
    text = "bs,BW\n4k,500\n8k,600\n"
    run = audited(text, folder=tmp_path, map=["bw=MB/s"])
    assert [point.throughput.value for point in run.experiments[0].points] == [500e6, 600e6]
    with pytest.raises(UserError, match="--map names the column 'bx', which no table has; known: bs, BW"):
        audited(text, folder=tmp_path, map=["bx=MB/s"])
    with pytest.raises(UserError, match="neither a unit nor a quantity"):
        audited(text, folder=tmp_path, map=["bw=bananas"])
    with pytest.raises(UserError, match="does not map a column"):
        audited(text, folder=tmp_path, map=["bw"])


def test_law_decides_the_missing_unit(tmp_path: Path) -> None:
    run = audited("bs,QD,IOPS,BW,lat\n4,8,100000,410,80\n", folder=tmp_path)
    (point,) = run.experiments[0].points
    assert point.parameters["bs"] == 4096 and point.throughput.value == 410e6
    assert point.latency_ns is not None and point.latency_ns.mean == pytest.approx(80e3)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--link", "USB 3.1"], "Gen 1 (500 MB/s) or Gen 2 (1.21 GB/s)"),
        (["--link", "PCIe 4"], "has no lanes"),
        (["--link", "string"], "'string' is not a link; write it as"),
        (["--device", "Samsng 990"], "is not in the catalogue (similar: Samsung 990 PRO"),
        (["--ceiling", "fast"], "is not a ceiling"),
    ],
)
def test_wrong_option_is_one_line(given: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(PUBLISHED / "cpu-linpack.csv"), *given]) == 2
    error = capsys.readouterr().err
    assert says in error and len(error.splitlines()) == 1


def test_a_file_without_a_table_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "words.txt"
    path.write_text("no numbers at all\n")
    assert main(["audit", str(path)]) == 2
    error = capsys.readouterr().err
    assert "no table with results" in error and len(error.splitlines()) == 1


# --- what is printed, and the Run


def test_the_reading_comes_before_the_verdict_and_faults_set_the_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "table.md"
    path.write_text(PLANTED["depth"][0])
    assert main(["audit", str(path)]) == 3
    out = capsys.readouterr().out
    assert out.index("'lat avg us' is latency mean in us") < out.index("1 fault in 4 results")
    path.write_text(SOUND_STORAGE)
    assert main(["audit", str(path)]) == 0
    assert "No law is broken in 4 results" in capsys.readouterr().out


def test_several_tools_stand_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, rate in (("one", "1233"), ("two", "1201")):
        (tmp_path / f"{name}.csv").write_text(f"rw,bs,QD,BW (MB/s)\nrandread,4k,32,{rate}\n")
    assert main(["audit", str(tmp_path / "one.csv"), str(tmp_path / "two.csv")]) == 0
    assert "one.csv / two.csv = 1.03" in capsys.readouterr().out


def test_audit_has_curves_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = tmp_path / "table.md", tmp_path / "page.html"
    path.write_text(SOUND_STORAGE)
    assert main(["audit", str(path), "--json", "--html", str(page)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["experiments"][0]["curves"][0]["load"] == "iodepth"
    assert "<html" in page.read_text()[:200].lower()


def test_cells_are_read_from_the_clipboard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SOUND_NETWORK.encode())))
    assert main(["audit", "-"]) == 0
    assert "clipboard: table, 3 results" in capsys.readouterr().out
