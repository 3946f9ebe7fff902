"""What object storage's tools print is read as requests to a store, and held to what each states twice.

The samples are figures from the tools' documentation and from published logs: warp's README and its test data
(minio/warp), posts with its report of version 1, Wasabi's README (wasabi-tech/s3-benchmark), READMEs of s3bench and its
forks (igneous-systems/s3bench), and elbencho's text in breuner/elbencho#114 and ceph/cbt#359. Those of warp's JSON and
of COSBench's CSV have the fields that the programs write, and figures of ours.
"""

from __future__ import annotations

import builtins
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fuzz.folders import write_folder
from hwdyno import formats
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.formats import compressed, cosbench, elbencho, s3_benchmark, s3bench, warp, warp_json, warp_requests
from hwdyno.formats.object_results import find_size, read_time
from hwdyno.formats.row import figures, number
from hwdyno.model.words import Measurement, Run, UserError

SEEDS = Path(__file__).parents[1] / "data/fuzz"
MIB = 2**20


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-4)


def read(name: str, file: str) -> Run:
    ((run,), _) = formats.read_every((SEEDS / name / file).read_text(), file)
    return run


def points(run: Run) -> dict[str, Measurement]:
    (table,) = run.experiments
    assert (table.resource, table.kernel, table.load) == ("object", "object_requests", "concurrency")
    return {str(point.parameters["operation"]): point for point in table.points}


def rules(run: Run) -> set[str]:
    return {finding.rule for finding in explain(run).findings if finding.severity != "info"}


def mean_ms(point: Measurement, kind: str) -> float:
    return point.streams[0].latency_ns[kind].mean / 1e6


def test_warps_report_has_first_and_last_byte_apart() -> None:
    get = points(read("warp", "get.txt"))["get"]
    assert get.parameters == {"operation": "get", "object_size": 10**6, "concurrency": 8}
    assert get.throughput.value == near(585.51 * MIB) and get.rate is not None and get.rate.value == near(613.95)
    assert (mean_ms(get, "first_byte"), mean_ms(get, "total")) == (near(8), near(12.7))
    assert get.latency_ns is not None and get.latency_ns.p99 == near(36e6)
    assert get.concurrency is not None and get.concurrency.requested == 8


def test_objects_of_a_batch_are_no_requests() -> None:
    delete = points(read("warp", "get.txt"))["delete"]
    assert delete.throughput.value == near(20) and delete.details["objects_per_request"] == 100
    assert [fault.count for fault in delete.faults] == [64]


def test_load_of_a_mix_is_of_all_operations_together() -> None:
    run = read("warp", "mixed.txt")
    found = points(run)
    assert all("concurrency" not in point.parameters for point in found.values())
    assert found["get"].details["concurrency_of_all"] == 64
    assert mean_ms(found["put"], "response") == near(1029)
    assert found["delete"].latency_ns is None and found["delete"].notes[0].code == "counts_objects"
    assert not rules(run)


def test_warps_older_texts_are_read() -> None:
    verbose = points(read("warp", "verbose.txt"))["get"]
    assert verbose.parameters == {"operation": "get", "object_size": 256, "concurrency": 20}
    assert verbose.throughput.value == near(1.57 * MIB) and verbose.faults[0].count == 82
    assert mean_ms(verbose, "total") == mean_ms(verbose, "first_byte") == near(3)
    mixed = points(read("warp", "before.txt"))
    assert mixed["get"].elapsed_s == near(59.993) and mixed["head"].throughput.value == near(236.38)
    assert mixed["mixed"].throughput.value == near(838.39 * MIB)


def test_size_that_contradicts_rate_and_bandwidth_is_found() -> None:
    text = (SEEDS / "warp/verbose.txt").read_text().replace("Size: 256 bytes", "Size: 300 bytes")
    assert "contradicts_itself" in rules(formats.read_as(warp, text, "x"))


def test_more_in_flight_than_stated_is_found() -> None:
    text = (SEEDS / "warp/get.txt").read_text().replace("Avg: 12.7ms", "Avg: 15.7ms")
    assert "little" in rules(formats.read_as(warp, text, "x"))


def test_warps_json_has_windows_and_segments() -> None:
    run = read("warp_json", "report.json")
    found = points(run)
    get = found["get"]
    assert run.version == "1.3.1"
    assert get.parameters == {"operation": "get", "object_size": 8 * MIB, "concurrency": 8}
    assert get.throughput.value == near(2**30) and get.operations == 512 and get.bytes == 2**32
    assert mean_ms(get, "total") == near((248 * 60 + 264 * 64) / 512) and mean_ms(get, "first_byte") == near(4)
    assert get.latency_ns is not None and (get.latency_ns.min, get.latency_ns.max) == (near(20e6), near(130e6))
    assert get.latency_ns.p50 is None, "of two windows no percentile follows"
    assert get.samples is not None and len(get.samples.values) == 4 and get.samples.min == 1006632960
    assert get.faults[0].count == 2 and found["put"].parameters["concurrency"] == 8


def test_warps_analysis_before_version_1_is_read() -> None:
    found = points(read("warp_json", "analysis.json"))
    assert found["get"].parameters == {"operation": "get"} and mean_ms(found["get"], "total") == near(36)
    assert found["delete"].details["objects_per_request"] == 100
    assert found["delete"].throughput.value == near(90 / 29) and found["delete"].details["concurrency_of_all"] == 20


def test_warps_requests_give_whole_times() -> None:
    get = points(read("warp_requests", "get.csv"))["get"]
    assert get.parameters == {"operation": "get", "object_size": 10 * MIB, "concurrency": 12}
    assert get.latency_ns is not None and get.latency_ns.count == get.operations == 102
    assert get.rate is not None and get.rate.value * get.latency_ns.mean / 1e9 == pytest.approx(12, rel=0.05)
    assert mean_ms(get, "first_byte") == near(17.0197)
    mixed = points(read("warp_requests", "mixed.csv"))
    assert mixed["get"].faults[0].says.startswith("503") and mixed["get"].details["concurrency_of_all"] == 2
    assert mixed["delete"].details["objects_per_request"] == 100


def test_uploads_with_one_threads_number_have_the_load_that_was_in_flight() -> None:
    text = (SEEDS / "warp_requests/get.csv").read_text()
    lines = [line.split("\t") for line in text.splitlines()]
    alike = "\n".join(
        "\t".join([cells[0], cells[1] if at == 0 else "12", *cells[2:]]) for at, cells in enumerate(lines)
    )
    assert points(warp_requests.read(alike, "x"))["get"].parameters["concurrency"] == 12


def test_broken_requests_are_left_out() -> None:
    head = "idx\tthread\top\tn_objects\tbytes\tfile\terror\tstart\tfirst_byte\tend\tduration_ns\n"
    row = "0\t1\tGET\t1\t{}\ta\t\t{}\t\t{}\t9\n"
    early, late = "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:01Z"
    broken = [(-5, early, late), (1, late, early), (1, "yesterday", late), ("9" * 40, early, late), (1, early, "")]
    text = head + "".join(row.format(*cells) for cells in broken) + "half a row\n"
    with pytest.raises(UserError, match="no table of results"):
        warp_requests.read(text, "x")
    found = points(warp_requests.read(text + row.format(4096, early, late), "x"))["get"]
    assert found.throughput.value == near(4096 / 0.5) and found.parameters["object_size"] == 4096
    with pytest.raises(UserError, match="no column 'bytes'"):
        warp_requests.read("idx\tthread\top\tstart\tend\n", "x")


def test_s3_benchmarks_m_is_of_2_to_the_20() -> None:
    found = points(read("s3_benchmark", "wasabi.txt"))
    assert found["put"].parameters == {"operation": "put", "object_size": MIB, "concurrency": 10}
    assert found["put"].throughput.value == near(91.3 * MIB) and found["delete"].throughput.value == near(2923.4)
    assert not rules(read("s3_benchmark", "wasabi.txt"))
    slow = points(read("s3_benchmark", "slowdowns.txt"))["put"]
    assert (slow.faults[0].says, slow.faults[0].count) == ("503 SlowDown: the store sheds load", 12)
    text = (SEEDS / "s3_benchmark/wasabi.txt").read_text()
    for figure, wrong in (("objects = 5484", "objects = 6484"), ("speed = 91.3MB", "speed = 95.3MB")):
        assert "contradicts_itself" in rules(s3_benchmark.read(text.replace(figure, wrong), "x"))


def test_s3_benchmarks_text_of_version_2_1_is_read() -> None:
    text = (
        "Parameters { url=https://s3.example.com, bucket=b, region=r, duration=60, threads=50, loops=2, size=1M }\n"
        "Loop 1: GET time=61.6 secs, objects 3968, speed 64.4M B/sec, 64.4 operations/sec., Slowdowns=3\n"
    )
    get = points(s3_benchmark.read(text, "x"))["get"]
    assert get.parameters["concurrency"] == 50 and get.faults[0].count == 3


def test_s3benchs_rate_is_stated_or_follows() -> None:
    run = read("s3bench", "rates.txt")
    put = points(run)["put"]
    assert put.parameters == {"operation": "put", "object_size": 100 * MIB, "concurrency": 80} and not rules(run)
    assert put.throughput.value == near(4248.42 * MIB) and put.rate is not None and put.rate.value == near(42.48)
    get = points(read("s3bench", "swift.txt"))["get"]
    assert get.parameters["object_size"] == 1024 and get.rate is not None and get.rate.value == near(1000 / 2.58)
    text = (SEEDS / "s3bench/rates.txt").read_text().replace("23.538 s", "33.538 s").replace("Errors:  0", "Errors:  9")
    wrong = s3bench.read(text, "x")
    assert points(wrong)["put"].faults[0].count == 9 and "contradicts_itself" in rules(wrong)


def test_cosbenchs_processing_time_is_until_the_first_byte() -> None:
    run = read("cosbench", "w1-s3-sample.csv")
    (table,) = run.experiments
    assert [point.parameters["operation"] for point in table.points] == ["put", "get", "put", "delete"]
    get = table.points[1]
    assert get.throughput.value == 20515840 and get.rate is not None and get.rate.value == near(320.56)
    assert (mean_ms(get, "first_byte"), mean_ms(get, "total")) == (near(11.82), near(12.06))
    assert get.faults[0].count == 3 and "concurrency" not in get.parameters
    text = (SEEDS / "cosbench/w1-s3-sample.csv").read_text().replace("20515840", "25515840")
    assert "contradicts_itself" in rules(cosbench.read(text, "x"))
    with pytest.raises(UserError, match="no column 'Throughput'"):
        cosbench.read("Stage,Op-Name,Op-Type,Op-Count,Byte-Count,Avg-ResTime,\n", "x")


def test_archive_of_cosbench_has_the_workers_of_each_stage(tmp_path: Path) -> None:
    write_folder((SEEDS / "cosbench_archive/w1.txt").read_text(), tmp_path)
    run = formats.read_folder(tmp_path)
    assert run.imported_from == "cosbench-archive" and not rules(run) - {"object_faults"}
    prepare, get, put, _ = run.experiments[0].points
    assert prepare.parameters["concurrency"] == 1
    # Two operations share the workers of the main stage.
    assert "concurrency" not in {**get.parameters, **put.parameters}
    (claim,) = [claim for claim in get.claims if claim.what == "requests in flight"]
    assert claim.follows == 8 and claim.stated == near(320.56 * 12.06e-3 + 80.37 * 50.92e-3)
    config = tmp_path / "w1-s3-sample/workload-config.xml"
    config.write_text(config.read_text().replace('workers="8"', 'workers="4"'))
    assert "contradicts_itself" in rules(formats.read_folder(tmp_path))
    config.write_text("<workload>")
    with pytest.raises(UserError, match="not readable XML"):
        formats.read_folder(tmp_path)


def test_elbenchos_objects_are_no_files() -> None:
    found = points(read("elbencho", "objects.txt"))
    assert found["put"].parameters == {"operation": "put", "object_size": 65536, "concurrency": 4}
    assert found["put"].throughput.value == 30 * MIB and found["put"].operations == 80
    assert mean_ms(found["put"], "total") == near(7.98) and found["put"].latency_ns is not None
    assert found["put"].latency_ns.p99 == near(32.768e6)
    assert found["head"].throughput.value == 1310 and "object_size" not in found["head"].parameters
    assert not rules(read("elbencho", "objects.txt"))
    parts = points(read("elbencho", "parts.txt"))
    assert parts["put"].parameters == {"operation": "put", "object_size": 10 * MIB}
    assert parts["delete"].elapsed_s == near(60.254)


def test_elbencho_on_several_hosts_states_no_load() -> None:
    text = (SEEDS / "elbencho/objects.txt").read_text().replace(" -t 4", " --hosts a,b -t 4")
    assert "concurrency" not in points(elbencho.read(text, "x"))["put"].parameters


@pytest.mark.parametrize(
    ("bandwidth", "rate", "size"),
    [("5469.28", "42.73", 128 * MIB), ("137.08", "143.73", 10**6), ("42.26", "11079.28", 4000), ("9.4", "3", 0),
     ("4557.04", "2604.96", 0), ("0.00", "5", 0)],
)  # fmt: skip
def test_a_size_follows_only_from_exact_figures(bandwidth: str, rate: str, size: int) -> None:
    assert find_size(figures(bw=number(bandwidth, MIB), iops=number(rate))) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("57s", 57), ("4m58s", 298), ("1h2m3.5s", 3723.5), ("2.102s", 2.102), ("900us", 9e-4), ("1.5µs", 1.5e-6)],
)
def test_times_of_go_are_read(text: str, seconds: float) -> None:
    found = read_time(text)
    assert found is not None and found.value == pytest.approx(seconds)
    assert read_time(text + "x") is None and read_time("") is None


def test_audit_reads_warps_packed_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = SEEDS / "zstd/get.csv.zst"
    assert main(["audit", str(path)]) == 0
    assert f"{path}: warp-requests, 1 result" in capsys.readouterr().out
    cut = tmp_path / "cut.csv.zst"
    for data, says in ((path.read_bytes()[:2000], "cut off"), (path.read_bytes() + b"\0", "not readable as zstd")):
        cut.write_bytes(data)
        assert main(["audit", str(cut)]) != 0
        assert says in capsys.readouterr().err


def test_packed_input_may_come_from_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    packed = (SEEDS / "zstd/get.csv.zst").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    assert main(["audit", "-"]) == 0
    assert "warp-requests, 1 result" in capsys.readouterr().out


def test_a_small_file_that_unpacks_to_much_is_refused() -> None:
    import zstandard

    packed = zstandard.ZstdCompressor().compress(bytes(64 << 20))
    assert len(packed) < 10_000
    with pytest.raises(UserError, match="more than 1 MiB when it is unpacked"):
        compressed.unpack(packed, "x", MIB)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *arguments: Any) -> Any:
        if name == "zstandard":
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UserError, match=r'pip install "hwdyno\[zstd\]"; zstd -d unpacks it'):
        compressed.unpack(compressed.MAGIC + b"x", "x.zst")


def test_broken_json_of_warp_is_refused_in_one_line() -> None:
    text = (SEEDS / "warp_json/report.json").read_text()
    document = json.loads(text)
    document["by_op_type"]["GET"]["throughput"]["bytes"] = "many"
    for broken in (text[:900], json.dumps(document), text.replace('"by_op_type"', '"other"')):
        with pytest.raises(UserError):
            formats.read_as(warp_json, broken, "x.json")


TIMES_OF_PROGRAMS = """| Scenario | Command | Mean [ms] | Min [ms] | Max [ms] | Relative |
|:---|:---|---:|---:|---:|---:|
| upload small files | `version:v2.0.0` | 195.9 ± 17.9 | 169.4 | 216.4 | 1.00 |
| upload small files | `version:v1.4.0` | 216.0 ± 7.4 | 205.0 | 222.0 | 1.10 ± 0.11 |
| download large files | `version:v2.0.0` | 18.5 ± 0.9 | 17.6 | 19.9 | 1.03 ± 0.07 |
| download large files | `version:v1.4.0` | 17.8 ± 0.7 | 17.2 | 18.9 | 1.00 |
"""
"""The form of s5cmd's comparison of two versions: it states no bytes, so there is no rate."""


def test_files_that_are_uploaded_are_no_copies_to_a_gpu() -> None:
    (run,), _ = formats.read_every(TIMES_OF_PROGRAMS, "summary.md")
    assert {result.resource for result in run.experiments} == {"table"}
    made = [point for result in run.experiments for point in result.points]
    assert len(made) == 4 and not [point for point in made if "operation" in point.parameters]
    counts = "Operation\tTotal\tError\tSuccess\ncp\t\t2\t0\t2\n"  # s5cmd --stat
    with pytest.raises(UserError, match="no table with results"):
        formats.read_every(counts, "stat.txt")


def test_every_reader_of_object_storage_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--formats"]) == 0
    listed = capsys.readouterr().out
    for module in (warp, warp_json, warp_requests, s3_benchmark, s3bench, cosbench):
        assert module.NAME in listed
