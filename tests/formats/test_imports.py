"""Results of other tools that are wrong, each planted in a sound one: each is named, and the sound one is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from here import sample
from hwdyno import formats
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.formats import fio_write
from hwdyno.model.units import printed_error, slip
from hwdyno.model.words import Finding, Run
from hwdyno.system.store import from_json, to_json
from read_format import read_run as read_run
from simulated_runs import FIXED, MACHINES, at, experiment, list_rules, make_run
from simulation.host import SimulatedMachine
from test_formats_memory import HPL, INTEL, MLC, STREAM

DATA = Path(__file__).parents[1] / "data"
Document = dict[str, Any]


def judged(tmp_path: Path, text: str) -> Run:
    path = tmp_path / "result"
    path.write_text(text)
    return explain(read_run(path))


def named(run: Run, rule: str) -> Finding:
    found = [finding for finding in run.findings if finding.rule == rule]
    assert len(found) == 1, f"{rule} among {list_rules(run.findings)}"
    return found[0]


def validities(run: Run) -> set[str]:
    return {point.validity for result in run.experiments for point in result.points}


# --- fio


def fio_job(**more: Any) -> Document:
    """One direct job of 4 KiB random reads at depth 16, 30 s, as fio 3.33 writes it."""
    total, runtime = 1_380_421, 30_001
    rate = 1000 * total / runtime
    latency_ns = 16e9 / rate
    shares = {"1": 0.1, "2": 0.1, "4": 0.1, "8": 0.1, "16": 99.6, "32": 0.0, ">=64": 0.0}
    row = {
        "io_bytes": total * 4096,
        "bw_bytes": 1000 * total * 4096 // runtime,
        "bw": 1000 * total * 4096 // runtime // 1024,
        "iops": round(rate, 6),
        "runtime": runtime,
        "total_ios": total,
        "lat_ns": {"min": 60_000, "max": 2_000_000, "mean": latency_ns, "stddev": 9e3, "N": total},
        "clat_ns": {
            **{"min": 58_000, "max": 1_990_000, "mean": latency_ns - 2e3, "stddev": 9e3, "N": total},
            "percentile": {"50.000000": 330_000, "90.000000": 400_000, "99.000000": 500_000, "99.900000": 900_000},
        },
        **{"bw_min": 170_000, "bw_max": 199_000, "bw_mean": rate * 4, "bw_dev": 4_000.0, "bw_samples": 60},
    }
    options = {"rw": "randread", "bs": "4k", "iodepth": "16", "ioengine": "libaio", "direct": "1", "size": "32g"}
    base = {"jobname": "a", "groupid": 0, "error": 0, "job options": options, "read": row, "iodepth_level": shares}
    return {**base, "job_runtime": runtime, "usr_cpu": 5.0, "sys_cpu": 15.0, **more}


def fio_document(*jobs: Document) -> Document:
    every = list(jobs) or [fio_job()]
    seen = sum(int(job["read"]["total_ios"] * 0.998) for job in every)
    disk = {"name": "nvme0n1", "read_ios": seen, "write_ios": 12, "read_merges": 0, "write_merges": 3, "util": 99.2}
    return {"fio version": "fio-3.33", "jobs": every, "disk_util": [disk]}


def from_warm_cache(document: Document) -> None:
    document["jobs"][0]["job options"] |= {"direct": "0", "ioengine": "psync", "iodepth": "1"}
    document["jobs"][0]["iodepth_level"] = {"1": 100.0, "16": 0.0}
    document["jobs"][0]["read"]["lat_ns"]["mean"] /= 16
    document["disk_util"][0]["read_ios"] = 4


def on_sparse_file(document: Document) -> None:
    document["disk_util"][0]["read_ios"] = 0


def scaled(factor: float, *names: str) -> Callable[[Document], None]:
    def plant(document: Document) -> None:
        row = document["jobs"][0]["read"]
        for name in names:
            row[name] = type(row[name])(row[name] * factor)

    return plant


def not_deep(document: Document) -> None:
    document["jobs"][0]["iodepth_level"] = {"1": 100.0, "2": 0.0, "4": 0.0, "8": 0.0, "16": 0.0, "32": 0.0, ">=64": 0.0}


def short(document: Document) -> None:
    row = document["jobs"][0]["read"]
    # As slow as fits to 80 operations in the same time.
    slower = 80 / row["total_ios"]
    for name in ("io_bytes", "bw_bytes", "bw", "iops", "total_ios"):
        row[name] = type(row[name])(row[name] * slower)
    row["io_bytes"], row["total_ios"] = 80 * 4096, 80
    row["iops"], row["bw_bytes"] = 80e3 / row["runtime"], 80 * 4096 * 1000 // row["runtime"]
    row["lat_ns"] |= {"mean": row["lat_ns"]["mean"] / slower, "max": 9e9, "N": 80}
    document["disk_util"][0]["read_ios"] = 80


def restless(document: Document) -> None:
    row = document["jobs"][0]["read"]
    row |= {"bw_dev": 0.8 * row["bw_mean"], "bw_min": 900, "bw_max": 700_000}


RATES = ("bw_bytes", "bw", "iops")
ALL = (*RATES, "io_bytes", "total_ios")
# what is planted: (how, the rule that names it, words of its sentence, the validity that it leaves)
PLANTED: dict[str, tuple[Callable[[Document], None], str, str, str]] = {
    "a warm cache": (from_warm_cache, "disk_not_reached", "page cache", "degraded"),
    "a sparse file": (on_sparse_file, "disk_not_reached", "never written (sparse)", "invalid"),
    "MB for MiB": (scaled(1.048576, "bw_bytes", "bw"), "contradicts_itself", "1.0486 is what parts MiB", "degraded"),
    "kB for KiB": (scaled(1.024, "bw_bytes", "bw"), "contradicts_itself", "1.024 is what parts KiB", "degraded"),
    "kB for KiB in all": (scaled(1.024, "bw_bytes", "bw", "io_bytes"), "rate_times_size", "1.024 is", "degraded"),
    "bits for bytes": (scaled(8, "bw_bytes", "bw"), "contradicts_itself", "8 is what parts bytes", "invalid"),
    "rates x 1000": (scaled(1000, *RATES), "contradicts_itself", "1000 is what parts one prefix", "invalid"),
    "all x 1000": (scaled(1000, *ALL), "little", "1000 is what parts one prefix", "invalid"),
    "a depth of 1": (not_deep, "depth_not_reached", "1.0 operations were in flight instead of 16", "degraded"),
    "80 operations": (short, "too_short", "only 80 operations", "degraded"),
    "a deviation of 80%": (restless, "not_steady", "deviate by 80%", "degraded"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_result_of_fio_with_one_fault_is_named_by_it(fault: str, tmp_path: Path) -> None:
    plant, rule, words, validity = PLANTED[fault]
    document = fio_document()
    assert list_rules(judged(tmp_path, json.dumps(document)).findings, "warning", "invalid") == set()
    plant(document)
    run = judged(tmp_path, json.dumps(document))
    assert words in named(run, rule).says
    assert validities(run) == {validity} and rule in run.experiments[0].points[0].why


def test_a_sound_result_of_fio_is_valid_by_the_disks_counters(tmp_path: Path) -> None:
    run = judged(tmp_path, json.dumps(fio_document()))
    assert validities(run) == {"valid"} and not list_rules(run.findings, "warning", "invalid")
    for name in ("depths.json", "randrw-json-plus.json"):  # as fio wrote them
        real = explain(read_run(DATA / "fio" / name))
        wrong = {"disk_not_reached", "contradicts_itself", "rate_times_size", "not_steady", "depth_not_reached"}
        assert not list_rules(real.findings) & wrong and validities(real) == {"valid"}


def test_one_job_of_several_from_the_cache_is_named_by_the_sum(tmp_path: Path) -> None:
    document = fio_document(fio_job(), fio_job(jobname="b", groupid=1))
    assert not list_rules(judged(tmp_path, json.dumps(document)).findings, "warning", "invalid")
    document["disk_util"][0]["read_ios"] //= 2
    assert "never reached the disk" in named(judged(tmp_path, json.dumps(document)), "disk_not_reached").says


def test_what_fio_reads_late_of_its_disks_is_no_cache(tmp_path: Path) -> None:
    """fio's counters may lack the last quarter of a second of a run of 1 s; more than that is a cache."""
    document = fio_document()
    row = document["jobs"][0]["read"]
    row |= {"total_ios": 46_000, "io_bytes": 46_000 * 4096, "runtime": 1000, "iops": 46_000.0}
    row |= {"bw_bytes": 46_000 * 4096, "bw": 184_000}
    row["lat_ns"] |= {"mean": 16e9 / 46_000, "N": 46_000}
    for seen, found in ((0.76, False), (0.70, True)):
        document["disk_util"][0]["read_ios"] = int(46_000 * seen)
        assert ("disk_not_reached" in list_rules(judged(tmp_path, json.dumps(document)).findings)) == found


def test_results_of_our_own_in_fios_format_are_as_sound_as_they_were(tmp_path: Path) -> None:
    for seed in MACHINES[: sample(8, 60)]:
        machine = SimulatedMachine.random(seed)
        points = [at(iodepth=2**k) for k in (0, 3, 6)]
        run = make_run(machine, experiment(machine, "iodepth", points, {**FIXED, "runtime": 4.0}))
        again = judged(tmp_path, fio_write.format_run(run))
        assert not list_rules(again.findings, "warning", "invalid"), seed
        assert validities(again) == {"valid"}, "the device's counters are written too"


# --- LINPACK, STREAM, MLC


def test_linpacks_rate_is_held_against_its_operations_and_time(tmp_path: Path) -> None:
    for sound in (HPL, INTEL):
        assert "contradicts_itself" not in list_rules(judged(tmp_path, sound).findings)
    run = judged(tmp_path, HPL.replace("1.2823e+02", "1.3446e+02"))
    finding = named(run, "contradicts_itself")
    assert "1.0486" in finding.says and finding.points == (0,)
    assert "1000" in named(judged(tmp_path, INTEL.replace("72.2156", "72215.6")), "contradicts_itself").says


def test_tolerance_is_that_of_printed_digits(tmp_path: Path) -> None:
    """72.2 GFLOP/s in 0.009 s may be 64 to 83; in 0.00926 s it may not be 70."""
    row = "1000   1000   4      {time}      {rate}  9.394430e-13 3.203742e-02   pass\n"
    head = INTEL.splitlines()[0] + "\n"
    for time, rate, found in (("0.009", "66.8", False), ("0.00926", "72.22", False), ("0.00926", "70.0", True)):
        run = judged(tmp_path, head + row.format(time=time, rate=rate))
        assert ("contradicts_itself" in list_rules(run.findings)) == found, (time, rate)


def test_streams_rate_is_held_against_its_bytes_and_least_time(tmp_path: Path) -> None:
    assert list_rules(judged(tmp_path, STREAM).findings, "warning", "invalid") == set()
    run = judged(tmp_path, STREAM.replace("32204.0", "33768.3"))
    finding = named(run, "contradicts_itself")
    assert "1.0486" in finding.says and finding.points == (3,)


def test_streams_arrays_must_exceed_the_caches(tmp_path: Path) -> None:
    small = STREAM.replace("240000000", "10000")
    for time in ("0.090327", "0.121947", "0.179379", "0.178860"):
        small = small.replace(time, f"{float(time) * 1e4 / 240e6:.12f}")
    finding = named(judged(tmp_path, small), "array_in_cache")
    assert "10,000 elements" in finding.says and len(finding.points) == 4
    assert "array_in_cache" not in list_rules(judged(tmp_path, STREAM).findings)


def test_a_mean_is_no_percentile(tmp_path: Path) -> None:
    run = judged(tmp_path, MLC)
    timed = [point.latency_ns for result in run.experiments for point in result.points if point.latency_ns]
    assert timed and {(latency.p50, latency.p90, latency.p99, latency.min, latency.max) for latency in timed} == {
        (None,) * 5
    }
    from hwdyno.report.tables import csv_text

    heads, *rows = (line.split(",") for line in csv_text(run).splitlines())
    mean, p50, p99 = (heads.index(f"latency_{name}_ns") for name in ("mean", "p50", "p99"))
    shown = [(row[mean], row[p50], row[p99]) for row in rows if row[mean]]
    assert shown and {(p50, p99) for _, p50, p99 in shown} == {("", "")}


def test_old_stored_mean_is_a_mean(tmp_path: Path) -> None:
    plain = json.loads(to_json(judged(tmp_path, MLC)))
    latency = plain["experiments"][0]["points"][0]["latency_ns"]
    latency |= dict.fromkeys(("p50", "p90", "p99", "min", "max"), latency["mean"])
    read = from_json(json.dumps(plain)).experiments[0].points[0].latency_ns
    assert read is not None and (read.mean, read.p50, read.p99, read.max) == (latency["mean"], None, None, None)


# --- iperf3


def iperf3_document() -> Document:
    """One TCP stream of 10 s, as iperf3 3.16 writes it at the sender."""
    sent = {"start": 0, "end": 10.0, "seconds": 10.0, "bytes": 11_750_000_000, "bits_per_second": 9.4e9, "sender": True}
    received = {**sent, "bytes": 11_747_000_000, "end": 10.002, "seconds": 10.002}
    received["bits_per_second"] = 11_747_000_000 * 8 / 10.002
    test = {"protocol": "TCP", "num_streams": 1, "blksize": 131072, "omit": 0, "duration": 10, "reverse": 0}
    start = {"version": "iperf 3.16", "test_start": test, "timestamp": {"timesecs": 1_795_342_798}, "connected": []}
    end = {"sum_sent": sent, "sum_received": received, "cpu_utilization_percent": {"host_total": 30.0}}
    return {"start": start, "intervals": [], "end": end}


def test_no_end_receives_more_than_the_other_one_sends(tmp_path: Path) -> None:
    document = iperf3_document()
    run = judged(tmp_path, json.dumps(document))
    assert validities(run) == {"valid"} and not list_rules(run.findings, "warning", "invalid")
    received = document["end"]["sum_received"]
    received |= {"bytes": received["bytes"] * 3, "bits_per_second": received["bits_per_second"] * 3}
    run = judged(tmp_path, json.dumps(document))
    finding = named(run, "contradicts_itself")
    assert "35.2 GB received, but only 11.8 GB sent" in finding.says and validities(run) == {"invalid"}


def test_bits_for_bytes_are_named_in_iperf3s_sums(tmp_path: Path) -> None:
    document = iperf3_document()
    document["end"]["sum_received"]["bits_per_second"] /= 8
    assert "8 is what parts bytes from bits" in named(judged(tmp_path, json.dumps(document)), "contradicts_itself").says


# --- unverified


def test_single_unconfirmed_reading_is_unverified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = judged(tmp_path, HPL.split("WR11C2R4       20000")[0])
    finding = named(run, "unverified")
    assert validities(run) == {"unverified"} and finding.severity == "info"
    assert "without repeats, counters or a ceiling" in finding.says
    kept = from_json(to_json(run))
    assert kept == run and explain(kept) == run, "it is kept, and explaining it twice changes nothing"


def test_ceiling_repeat_or_counter_confirms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    document = fio_document()
    del document["disk_util"]
    (tmp_path / "fio.json").write_text(json.dumps(document))

    def report(*words: str) -> tuple[int, str]:
        status = main(["report", str(tmp_path / "fio.json"), *words])
        return status, capsys.readouterr().out

    status, text = report()
    assert status == 0 and "unverified: one reading, and nothing confirms it" in text and "46.0 k IOPS ?" in text
    status, text = report("--ceiling", "rated read 400 MB/s")
    assert status == 0 and "unverified" not in text and "46.0 k IOPS ?" not in text
    status, text = report("--ceiling", "physical read 100 MB/s")
    assert status == 3 and "NOT TO BE TRUSTED" in text and "above what physical, given can carry" in text
    assert main(["report", str(tmp_path / "fio.json"), "--ceiling", "soon"]) == 2
    assert "is not a ceiling" in capsys.readouterr().err
    repeated = judged(tmp_path, STREAM.replace("Function", "Each kernel will be executed 10 times.\nFunction", 1))
    assert validities(repeated) == {"valid"} and validities(judged(tmp_path, STREAM)) == {"unverified"}


def test_page_and_texts_show_state(tmp_path: Path) -> None:
    from hwdyno.report import page, tables
    from hwdyno.system.store.history import run_status

    run = judged(tmp_path, HPL.split("WR11C2R4       20000")[0])
    assert run_status(run) == "unverified"
    page.write(run, tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text()
    assert 'class="mark unverified"' in html
    assert "unverified" in tables.markdown(run)


def test_a_comparison_says_what_is_unverified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one").write_text(STREAM)
    assert main(["compare", str(tmp_path / "one"), str(tmp_path / "one")]) == 3
    assert "4 of them are unverified on a side" in capsys.readouterr().out


# --- digits and factors


@pytest.mark.parametrize(
    ("number", "error"),
    [("1.00", 0.01), ("100", 0.01), ("5.401e+01", 0.001 / 5.401), ("0.009", 1 / 9), ("", 0.0), ("0", 0.0), ("x", 0.0)],
)
def test_an_error_is_one_unit_in_the_last_printed_place(number: str, error: float) -> None:
    assert printed_error(number) == pytest.approx(error)


@pytest.mark.parametrize(
    ("number", "error"), [(997e6, 1 / 997), (63.3e3, 1 / 633), (4e8, 0.025), (1e8, 0.05), (0.0, 0.0)]
)
def test_of_a_number_the_zeros_at_its_end_are_not_printed(number: float, error: float) -> None:
    assert printed_error(number) == pytest.approx(error)


def test_factors_are_recognized_and_their_neighbours_are_not() -> None:
    for factor, word in (
        (1.024, "KiB"),
        (1.048576, "MiB"),
        (1.0737, "GiB"),
        (8, "bits"),
        (1000, "k, M"),
        (1e6, "next but one"),
    ):
        assert word in slip(factor) and word in slip(1 / factor)
        assert not slip(factor * 1.005) and not slip(factor * 0.995)
    assert not slip(1.0) and not slip(0.0)


# --- one more format

MADE_FORMAT = """
from hwdyno.formats import printed

NAME = "made-text"


def recognizes(text):
    return text.startswith("made: ")


def read(text, name):
    point = printed.point({"threads": 1}, float(text.split()[1]), "bytes/s")
    return printed.run(NAME, "made", text, name, [printed.experiment("memory.made", "?", "made", "threads", [point])])
"""


def test_a_format_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = formats.list_formats()
    (tmp_path / "a_made_format.py").write_text(MADE_FORMAT)
    (tmp_path / "a_helper.py").write_text("")
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    assert [*formats.list_formats()] == [*without, "a_made_format"]
    ((run,), _) = formats.read_every("made: 7e9 bytes/s", "made.txt")
    assert run.imported_from == "made-text" and run.experiments[0].points[0].throughput.value == 7e9
