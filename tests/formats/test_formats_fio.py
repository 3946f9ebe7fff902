"""fio's JSON becomes a Run like one of our own, also with other text around it and however spoilt it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hwdyno.analysis.curves import fit_curves
from hwdyno.formats import fio, fio_options
from hwdyno.model.machine import Disk
from hwdyno.model.words import Measurement, UserError
from hwdyno.system.store import from_json, to_json
from read_format import read_run

DATA = Path(__file__).parents[1] / "data" / "fio"


def points(name: str) -> tuple[Measurement, ...]:
    return read_run(DATA / name).experiments[0].points


def document(name: str = "depths.json") -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DATA / name).read_text())
    return loaded


def direction(total: int = 1000, **more: Any) -> dict[str, Any]:
    return {
        "io_bytes": total * 4096,
        "bw_bytes": total * 4096,
        "iops": float(total),
        "runtime": 1000,
        "total_ios": total,
        "lat_ns": {"min": 10, "max": 2000, "mean": 1000.0, "stddev": 1.0, "N": total},
        **more,
    }


def job(**more: Any) -> dict[str, Any]:
    base = {"jobname": "a", "groupid": 0, "error": 0, "job options": {"rw": "randread"}, "read": direction()}
    return {**base, **more}


def measured(*jobs: dict[str, Any], **more: Any) -> tuple[Measurement, ...]:
    text = json.dumps({"fio version": "fio-3.33", "jobs": jobs, **more})
    return fio.read(text, "x.json").experiments[0].points


def test_fio_run_equals_ours() -> None:
    run = read_run(DATA / "depths.json")
    assert (run.imported_from, run.version, run.profile) == ("fio-json", "fio-3.33", "imported")
    assert (run.started, run.finished) == ("2026-11-21T03:34:37.245000+00:00", "2026-11-21T03:34:39.250000+00:00")
    assert run.machine.storage.disks == (Disk(name="vda"),)
    assert from_json(to_json(run)) == run
    assert read_run(DATA / "depths.json").id == run.id, "the same file is the same Run"


def test_options_are_merged_and_numbers_are_those_of_fio() -> None:
    single, _, two_jobs, blocks = points("depths.json")
    assert single.parameters == {
        "rw": "randread",
        "bs": 4096,
        "iodepth": 1,
        "numjobs": 1,
        "ioengine": "libaio",
        "direct": True,
        "size": 64 << 20,
    }
    read = document()["jobs"][0]["read"]
    assert single.throughput.value == read["bw_bytes"]
    assert single.rate is not None and single.rate.value == read["iops"]
    assert (single.operations, single.bytes) == (read["total_ios"], read["io_bytes"])
    assert single.elapsed_s == read["runtime"] / 1e3
    assert single.latency_ns is not None and single.latency_ns.mean == read["lat_ns"]["mean"]
    assert (two_jobs.parameters["numjobs"], two_jobs.operations) == (2, 47507)
    assert (blocks.parameters["bs"], blocks.parameters["rw"]) == (65536, "read")


def test_littles_law_holds_on_import() -> None:
    for point in (*points("depths.json"), *points("randrw-json-plus.json")):
        assert point.concurrency is not None and point.concurrency.effective is not None
        assert point.concurrency.effective == pytest.approx(point.concurrency.requested, rel=0.03)


def test_cpu_time_is_the_share_of_the_jobs_run_time() -> None:
    (point,) = points("randrw-json-plus.json")
    assert point.cpu_user_s == pytest.approx(2.0 * 0.053)
    assert point.cpu_system_s == pytest.approx(2.0 * 0.2335)


def test_json_plus_histograms_merge_whole() -> None:
    (point,) = points("randrw-json-plus.json")
    assert [stream.name for stream in point.streams] == ["read", "write"]
    assert point.latency_ns is not None and point.latency_ns.histogram
    read, write = (stream.latency_ns["complete"] for stream in point.streams)
    row = document("randrw-json-plus.json")["jobs"][0]["read"]["clat_ns"]["percentile"]
    assert read.p50 == pytest.approx(row["50.000000"], rel=0.01)
    assert read.p99 == pytest.approx(row["99.000000"], rel=0.01)
    assert read.p50 < point.latency_ns.p50 < write.p50 + 6000
    assert point.latency_ns.count == read.count + write.count
    assert {note.code for note in point.notes} == {"percentiles_of_completion"}


def test_percentiles_are_never_averaged() -> None:
    """Two records without histograms cannot be merged but by fio's coarse distribution, which the note says."""
    shares = {"latency_us": {"2": 40.0, "4": 55.0, "10": 5.0}}
    quantiles = {"percentile": {"50.000000": 900, "90.000000": 1000, "99.000000": 1100}}
    row = direction(lat_ns={"min": 10, "max": 2000, "mean": 1000.0, "N": 1000, **quantiles})
    (alone,) = measured(job(read=row, **shares))
    assert alone.latency_ns is not None and (alone.latency_ns.p50, alone.latency_ns.p99) == (900, 1100)
    assert alone.notes == ()
    (both,) = measured(job(read=row, write=row, **shares))
    assert both.latency_ns is not None
    assert (both.latency_ns.p50, both.latency_ns.p90, both.latency_ns.p99) == (4000, 4000, 10000)
    assert [note.code for note in both.notes] == ["coarse_percentiles"]
    (none,) = measured(job(read=direction()))
    assert none.latency_ns is not None and (none.latency_ns.mean, none.latency_ns.max) == (1000, 2000)
    assert (none.latency_ns.p50, none.latency_ns.p90, none.latency_ns.p99) == (None, None, None), "a mean is no median"


def test_equal_jobs_are_one_point_and_unlike_ones_are_not() -> None:
    options = {"rw": "randread", "numjobs": "2"}
    (point,) = measured(job(**{"job options": options}), job(**{"job options": options}))
    assert (point.parameters["numjobs"], point.operations, point.throughput.value) == (2, 2000, 2000 * 4096.0)
    first, second = measured(job(), job(jobname="b"))
    assert {note.code for note in (*first.notes, *second.notes)} == {"ran_beside_others"}
    first, second = measured(job(), job(jobname="b", groupid=1))
    assert first.notes == second.notes == ()


def test_samples_are_bytes_per_second() -> None:
    row = direction(bw_min=100, bw_mean=200.0, bw_max=400, bw_dev=20.0, bw_samples=8)
    (point,) = measured(job(read=row))
    samples = point.samples
    assert samples is not None
    assert (samples.min, samples.avg, samples.max) == (100 * 1024, 200 * 1024, 400 * 1024)
    assert (samples.interval_s, samples.cv) == (0.5, 0.1)
    (mix,) = measured(job(read=row, write=row))
    assert mix.samples is None


def test_failed_job_degrades_the_run() -> None:
    text = json.dumps({"fio version": "fio-3.33", "jobs": [job(error=28, total_err=3), job(jobname="b", groupid=1)]})
    run = fio.read(text, "x.json")
    point = run.experiments[0].points[0]
    assert (point.validity, point.faults[0].count) == ("degraded", 3)
    assert run.degraded == ("fio's job a failed: No space left on device",)


def test_a_curve_is_found_in_it() -> None:
    (curve, *_) = fit_curves(read_run(DATA / "depths.json").experiments[0])
    assert curve.load == "iodepth"


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("4k", 4096), ("4kb", 4096), ("4kib", 4000), ("1M", 1 << 20), ("512", 512), ("4k,4k", 4096), ("4k-16k", "4k-16k")],
)
def test_sizes_read_like_fios(text: str, bytes_: int | str) -> None:
    assert fio_options.size(text) == bytes_


def test_sizes_in_other_base_are_reversed() -> None:
    assert (fio_options.size("4k", 1000), fio_options.size("4kib", 1000)) == (4000, 4096)


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"readwrite": "randrw", "rwmixwrite": "30"}, {"rw": "randrw", "rwmixread": 70}),
        ({"rw": "randrw"}, {"rw": "randrw", "rwmixread": 50}),
        ({"rw": "read", "rwmixread": "70"}, {"rw": "read"}),
        ({"blocksize": "1m", "buffered": "0"}, {"bs": 1 << 20, "direct": True}),
    ],
)
def test_options_under_other_names(given_: dict[str, str], expected: dict[str, Any]) -> None:
    found = fio_options.convert_options(given_, 1)
    assert {**fio_options.DEFAULTS, **expected} == found


def test_notes_before_and_after_the_document_are_passed_over() -> None:
    text = (DATA / "depths.json").read_text()
    noisy = "note: both iodepth >= 1 and synchronous I/O engine are selected {x}\n" + text + "\nfio: done\n"
    assert len(fio.read(noisy, "x").experiments[0].points) == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not fio JSON"),
        ("fio: engine foo not loadable", "is not fio JSON"),
        ('{"fio version": "fio-3.33", "jobs": [', "is not fio JSON"),
        ('{"fio version": "fio-3.33"}', "no list of jobs"),
        ('{"fio version": "fio-3.33", "jobs": [1]}', "no list of jobs"),
        ('{"fio version": "fio-3.33", "jobs": []}', "no jobs"),
        ("{" * 100_000, "is not fio JSON"),
    ],
)
def test_what_is_none_is_said_in_one_line(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        fio.read(text, "x.json")
    assert "\n" not in str(caught.value)


def test_a_file_of_no_known_format(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(UserError, match="has no known tool's output"):
        read_run(tmp_path / "a.json")
    with pytest.raises(UserError, match="no such file"):
        read_run(tmp_path / "b.json")
