"""Job files of fio: what each key is read as, what stops and where, and whole files run on real storage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hwdyno.cli.main import main
from hwdyno.explain.findings.commands import typed_command
from hwdyno.formats import fio_job
from hwdyno.formats.fio_job.keys import HARMLESS, SUPPORTED, WHY
from hwdyno.model.words import UserError
from read_format import read_run


def one(*lines: str) -> fio_job.FioJob:
    return fio_job.parse("[job]\n" + "\n".join(lines), "x.fio").jobs[0]


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("bs=4k", "bs", 4096),
        ("bs=4kib\nkb_base=1000", "bs", 4096),
        ("blocksize=0x2000", "bs", 8192),
        ("bs=8k,16k", "bs", 8192),
        ("rw=randwrite\nbs=8k,16k", "bs", 16384),
        ("bsrange=4k-16k", "bssplit", "4096:8192:12288:16384"),
        ("bssplit=4k/60:64k/", "bssplit", "4096/60:65536"),
        ("rw=readwrite\nrwmixwrite=20", "rwmixread", 80),
        ("rw=read:8k", "gap", 8192),
        ("rw=read:-8k", "gap", -8192),
        ("rw=randread:8", "random_every", 8),
        ("rw=randread:8\nrw_sequencer=identical", "rw_sequencer", "identical"),
        ("rw=rw", "positions_apart", True),
        ("rw=trimwrite", "rw", "trimwrite"),
        ("rw=randtrim\nbs=4k,8k,16k", "bs", 16384),
        ("rw=randread\npercentage_random=30", "sequential_read", 70),
        ("rw=randrw\npercentage_random=30,100", "sequential_read", 70),
        ("rw=randread\nblockalign=64k", "blockalign", 65536),
        ("rw=randread\nba=64k", "norandommap", True),
        ("rw=randread\nnorandommap", "norandommap", True),
        ("zonesize=1m\nzoneskip=3m", "zonerange", 1 << 20),
        ("zonemode=strided\nzonesize=2m\nzonerange=1m", "zonesize", 2 << 20),
        ("bsrange=1k-64k\nbs_unaligned", "bssplit", "1024/50:65536/50"),
        ("rw=rw\nrate=50m,20m", "rate_write", 20 << 20),
        ("rw=rw\nrate=,500k", "rate_write", 500 << 10),
        ("rw=randrw\nrate_iops=20\nnumjobs=3", "rate_iops_read", 60),
        ("rw=write\nrate=1m,2m", "rate_bytes", 2 << 20),
        ("rw=trim\nrate=1m,2m,3m", "rate_bytes", 3 << 20),
        ("rate_min=1m\nnumjobs=2", "rate_min_read", 2 << 20),
        ("rw=write\nrate_iops_min=5\nrate_cycle=500", "rate_cycle", 0.5),
        ("latency_target=500000\nlatency_window=2s", "latency_target", 0.5),
        ("latency_target=5ms\nlatency_percentile=99.9", "latency_percentile", 99.9),
        ("flow=8\nflow_sleep=1000", "flow_sleep", 1e-3),
        ("thinktime=1ms\nrate_iops=5\nrate_ignore_thinktime", "rate_ignore_thinktime", True),
        ("sync=1", "sync", "sync"),
        ("sync=dsync", "sync", "dsync"),
        ("pre_read=1", "drop_cache", False),
        ("zero_buffers", "buffer_pattern", "00"),
        ("buffer_pattern=0xdeadbeef", "buffer_pattern", "deadbeef"),
        ("buffer_compress_percentage=50", "buffer_compress_chunk", 512),
        ("dedupe_percentage=30", "dedupe_percentage", 30),
        ("ioengine=posixaio\niodepth=8", "ioengine", "libaio"),
        ("ioengine=null\nsize=1m", "ioengine", "null"),
        ("write_iolog=x.log", "write_iolog", "x.log"),
        ("runtime=2m\ntime_based", "runtime", 120.0),
        ("runtime=500ms", "runtime", 0.5),
        ("ramp_time=5", "ramp_time", 5.0),
        ("thinktime=250", "thinktime", 250e-6),
        ("thinktime=2ms", "thinktime", 2e-3),
        ("rate_iops=500\nnumjobs=4", "rate", 2000.0),
        ("rate=1m", "rate_bytes", 1 << 20),
        ("rw=randread\nrandom_distribution=zipf:1.2", "random_distribution", "zipf:1.2"),
        ("rw=randread\nrandom_distribution=zoned:60/10:30/:/50", "random_distribution", "zoned:60/10:30/40:10/50"),
        ("size=1m\nloops=3", "loops", 3),
        ("number_ios=10\nnumjobs=2", "number_ios", 20),
        ("ioengine=sync\niodepth=32", "iodepth", 1),
        ("ioengine=pvsync", "ioengine", "psync"),
        ("buffered=0", "direct", True),
        ("invalidate=0", "drop_cache", False),
        ("verify=crc32c-intel", "verify", "crc32c"),
        ("fsync=8", "fsync", 8),
        ("filename=/x\nnumjobs=2", "share", "whole"),
        ("numjobs=2", "share", "partition"),
        ("cpus_allowed=0,2-4", "cpus", "0,2,3,4"),
        ("bs=${SIZE}", "bs", 4096),
    ],
)
def test_each_key_means_what_fio_means(line: str, name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIZE", "4k")
    assert one(*line.split("\n")).parameters[name] == value


def test_sections_inherit_and_groups_follow_stonewalls() -> None:
    text = "[global]\nbs=8k\nsize=1m\n; no\n[a]\nrw=read\n[b]\nbs=16k\n"
    text += "[global]\nsize=2m\n[c]\nstonewall\n# end\n[d]\nname=e\n"
    known = fio_job.parse(text, "x.fio")
    rows = [(job.name, job.group, job.parameters["bs"], job.size) for job in known.jobs]
    assert rows == [("a", 0, 8192, 1 << 20), ("b", 0, 16384, 1 << 20), ("c", 1, 8192, 2 << 20), ("e", 1, 8192, 2 << 20)]
    assert [len(group) for group in known.groups] == [2, 2]


def test_each_thread_of_an_increment_is_a_job_with_its_own_offset() -> None:
    jobs = fio_job.parse("[j]\nfilename=/x\nsize=1m\nnumjobs=3\noffset_increment=4m\nrate_iops=10\n", "x.fio").jobs
    assert [(job.name, job.parameters["offset"], job.parameters["rate"]) for job in jobs] == [
        ("j.0", 0, 10.0),
        ("j.1", 4 << 20, 10.0),
        ("j.2", 8 << 20, 10.0),
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("atomic=1", "x.fio:2: atomic is not supported and would change the result"),
        ("exec_prerun=rm", "no commands are run"),
        ("ioscheduler=none", "change the machine"),
        ("zonemode=zbd", "zoned block device"),
        ("zonesize=1k\nbs=4k", "must hold an operation"),
        ("dedupe_percentage=5\ndedupe_mode=working_set", "use repeat"),
        ("wait_for=nobody", "no earlier job has that name"),
        ("read_iolog=gone", "read_iolog=gone: no such file"),
        ("rate=1m\nrate_iops=5", "exclude each other"),
        ("ioengine=null", "add for example size=1g"),
        ("iodept=4", "did you mean iodepth?"),
        ("frobnicate=1", "--ignore frobnicate"),
        ("bs=4x", "x.fio:2: bs=4x"),
        ("rate=4k,8x\nrw=rw", "is not a rate, such as 10m"),
        ("rate=4k\nrw=trimwrite", "belong together"),
        ("rw=randread:8k", "a number of operations"),
        ("ioengine=rados", "Ceph's library; mount the cluster and name a file; use one of: io_uring"),
        ("bssplit=4k/50:8k/20", "70%"),
        ("verify=sha7", "verify=crc32c"),
        ("runtime=soon", "a time such as"),
        ("numjobs=0", "1 to 1024"),
        ("bs=${NOWHERE_SET}", "NOWHERE_SET"),
        ("include other.fio", "include other.fio: no such file"),
        ("fsync=1\nfdatasync=1", "exclude each other"),
        ("direct=yes", "neither 0 nor 1"),
    ],
)
def test_what_would_change_the_result_stops_with_file_and_line(line: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        one(line)
    assert says in str(caught.value) and str(caught.value).startswith("x.fio") and "\n" not in str(caught.value)


def test_ineffective_and_ignored_keys_are_notes() -> None:
    known = fio_job.parse("[j]\ngroup_reporting\nthread=1\natomic=1\n", "x.fio", ignore=["atomic"])
    assert {code for code, _ in known.notes} == {"left_out_group_reporting", "left_out_thread", "ignored_atomic"}


def test_no_key_is_in_two_tables() -> None:
    assert not set(SUPPORTED) & set(HARMLESS) and not set(WHY) & {*SUPPORTED, *HARMLESS}


JOBS = """
[global]
ioengine=psync
size=2m
runtime=100ms

[reads]
rw=randread
time_based

[paced]
rw=write
bs=16k
rate_iops=200
time_based

[checked]
stonewall
rw=randwrite
verify=crc32c
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.fio").write_text(JOBS)
    return tmp_path


def test_a_job_file_runs_and_its_document_is_read_back(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", "job", "x.fio", "--quiet", "--no-page", "--output-format", "fio-json+"]) in {0, 3}
    out = capsys.readouterr().out
    document = json.loads(out)
    assert [job["jobname"] for job in document["jobs"]] == ["reads", "paced", "checked"]
    reads, paced, checked = document["jobs"]
    assert reads["read"]["total_ios"] > 0 and reads["read"]["clat_ns"]["bins"] and not reads["error"]
    assert paced["write"]["iops"] <= 220 and paced["job options"]["rate_iops"] == "200"
    assert checked["write"]["total_ios"] == 512
    assert set(checked["job options"]) == {
        *("rw", "bs", "iodepth", "numjobs", "ioengine", "direct", "size", "runtime", "verify", "randseed"),
    }
    (place / "out.json").write_text(out)
    run = read_run(place / "out.json")
    points = run.experiments[0].points
    assert [point.operations for point in points] == [
        sum(job[way]["total_ios"] for way in ("read", "write")) for job in document["jobs"]
    ]
    latency = points[0].latency_ns
    assert latency is not None and latency.p99 == pytest.approx(
        reads["read"]["lat_ns"]["percentile"]["99.000000"], rel=0.01
    )
    assert sorted(path.name for path in place.iterdir()) == ["home", "out.json", "x.fio"]


def test_work_within_the_ramp_counts(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was "0 IOPS, nothing done"."""
    job = "[global]\nrw=write\nbs=64k\nsize=64M\nioengine=psync\nramp_time=30\nruntime=30\n"
    (place / "x.fio").write_text(job + "[a]\nio_size=16M\n[b]\nstonewall\nio_size=8M\nnumjobs=2\n")
    assert main(["storage", "job", "x.fio", "--quiet", "--no-page", "--json"]) in {0, 3}
    (result,) = json.loads(capsys.readouterr().out)["experiments"]
    assert [point["operations"] for point in result["points"]] == [256, 256]
    for point in result["points"]:
        assert point["throughput"]["value"] > 0 and "done_in_ramp" in {note["code"] for note in point["notes"]}


def test_coarse_distribution_shares_add_up(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["storage", "job", "x.fio", "--quiet", "--no-page", "--output-format", "fio-json"])
    for job in json.loads(capsys.readouterr().out)["jobs"]:
        assert sum(sum(job[name].values()) for name in ("latency_ns", "latency_us", "latency_ms")) == pytest.approx(100)
        assert "bins" not in job["read"]["clat_ns"]


def test_a_file_of_the_users_is_read_and_never_written(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = place / "mine"
    mine.write_bytes(bytes(range(256)) * 4096)
    before = mine.read_bytes(), mine.stat().st_mtime_ns
    (place / "r.fio").write_text("[r]\nfilename=mine\nrw=read\nsize=100%\n[b]\nfilename=mine\nrw=randread\nsize=50%\n")
    assert main(["storage", "job", "r.fio", "--quiet", "--no-page"]) in {0, 3}
    for rw in ("write", "randrw"):
        (place / "w.fio").write_text(f"[w]\nfilename=mine\nrw={rw}\nsize=1m\n")
        assert main(["storage", "job", "w.fio", "--quiet", "--no-page"]) == 2
        assert "would overwrite" in capsys.readouterr().err
    assert (mine.read_bytes(), mine.stat().st_mtime_ns) == before
    (place / "long.fio").write_text("[w]\nfilename=mine\nrw=read\nsize=1g\n")
    assert main(["storage", "job", "long.fio", "--quiet", "--no-page"]) == 2


def test_made_named_file_is_removed(place: Path) -> None:
    (place / "n.fio").write_text("[w]\nfilename=new\nrw=randwrite\nsize=1m\nnumjobs=2\n")
    assert main(["storage", "job", "n.fio", "--quiet", "--no-page"]) in {0, 3}
    assert not (place / "new").exists()


def test_dry_run_touches_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", "job", "x.fio", "--dry-run"]) == 0
    assert "group 2  checked" in capsys.readouterr().out
    assert main(["storage", "job", "gone.fio"]) == 2
    assert main(["storage", "job"]) == 2
    (place / "bad.fio").write_text("[j]\natomic=1\n")
    assert main(["storage", "job", "bad.fio"]) == 2
    assert "bad.fio:2: atomic" in capsys.readouterr().err


JETSON = (
    "fio --name=fiotest --filename=small_fio_test_read --size=16Mb --rw=read --bs=4K --direct=1 --numjobs=1 "
    "--ioengine=libaio --iodepth=1 --group_reporting --runtime=60 --startdelay=60"
)
"""The published line, with a smaller file."""


def test_fio_command_line_is_job_file() -> None:
    (job,) = fio_job.parse(fio_job.make_job_file(JETSON.split()), "fio").jobs
    assert job.name == "fiotest" and job.size == 16 << 20
    given = {name: job.parameters[name] for name in ("rw", "bs", "direct", "ioengine", "iodepth", "runtime")}
    assert given == {"rw": "read", "bs": 4096, "direct": True, "ioengine": "libaio", "iodepth": 1, "runtime": 60.0}
    assert job.parameters["startdelay"] == 60.0
    text = "--direct 1 --time_based --runtime=1s --output=x --eta-newline=1 --name=a --rw=read --name b --rw=write"
    assert fio_job.make_job_file(text.split()) == (
        "[global]\ndirect=1\ntime_based\nruntime=1s\n[a]\nrw=read\n[b]\nrw=write\n"
    )
    assert fio_job.make_job_file(["fio", "--rw=read"]).endswith("[fio]\n")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("fio reads.fio", "hwdyno storage job reads.fio"),
        ("fio --name", "--name has no value"),
        ("fio --name=a --section=b", "--section is an option of fio's program"),
        ("fio --name=a --filename=b;c", "no such value"),
        ("fio --name=a --client=host", "--client is an option of fio's program"),
    ],
)
def test_a_command_line_that_is_no_job_is_refused(line: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        fio_job.make_job_file(line.split())


@pytest.mark.machine
def test_a_pasted_command_line_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    pasted = JETSON.replace("--runtime=60 --startdelay=60", "--runtime=50ms --time_based").split()
    options = ["--path", str(tmp_path), "--json", "--no-page", "--quiet"]
    assert main(["storage", "job", *options, "--", *pasted]) in {0, 3}
    run = json.loads(capsys.readouterr().out)
    (point,) = run["experiments"][0]["points"]
    assert point["parameters"]["job"] == "fiotest" and point["bytes"] > 0
    assert run["command"].endswith("-- " + " ".join(pasted))
    assert main(["storage", "iodepth", "--", *pasted]) == 2
    assert "hwdyno storage job --" in capsys.readouterr().err


def test_a_pasted_command_line_is_repeated_as_it_is() -> None:
    typed = typed_command(f"hwdyno storage job --path . --quiet -- {JETSON}")
    assert typed.words == ("hwdyno", "storage", "job") and dict(typed.options) == {"path": ".", "quiet": None}
    assert typed.without({"quiet"}).line == f"hwdyno storage job --path . -- {JETSON}"
