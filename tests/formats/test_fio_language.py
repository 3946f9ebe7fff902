"""Job files compared with fio itself: the same sections run by both do the same operations."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from devices import MIB, loop, loops
from hwdyno.cli.main import main
from hwdyno.formats.fio_job import keys
from hwdyno.measure.hosts.local import Local

FIO = shutil.which("fio")

Operation = tuple[str, int, int]
"""Direction, offset, length."""

# Sections of a job file of 64 KiB in blocks of 4 KiB, and what of their operations is the same: their order, which
# they are in any order, or how many of each direction and length.
ORDER, EACH, COUNT = "in this order", "each of them", "as many"
SECTIONS: dict[str, tuple[str, str]] = {
    "plain": ("rw=read", ORDER),
    "written": ("rw=write\nbs=8k", ORDER),
    "gaps": ("rw=read:8k", ORDER),
    "gaps_that_wrap": ("rw=read:8k\nsize=80k", ORDER),
    "backward": ("rw=read:-8k", ORDER),
    "zones": ("rw=read\nzonemode=strided\nzonesize=8k\nzoneskip=8k", ORDER),
    "zones_twice": ("rw=write\nzonemode=strided\nzonesize=16k\nzonerange=8k\nzoneskip=0", ORDER),
    "loops": ("rw=read\nloops=2", ORDER),
    "more_than_size": ("rw=read\nio_size=100k", ORDER),
    "few": ("rw=read\nnumber_ios=5", ORDER),
    "few_and_loops": ("rw=read\nnumber_ios=5\nloops=2", ORDER),
    "no_more_than_size": ("rw=read\nnumber_ios=500", ORDER),
    "region": ("rw=read\noffset=16k\nsize=32k", ORDER),
    "reads_of_a_mix": ("rw=rw\nrwmixread=100", ORDER),
    "random": ("rw=randread", EACH),
    "random_zones": ("rw=randread\nzonemode=strided\nzonesize=8k\nzonerange=8k", EACH),
    "random_writes_of_8k": ("rw=randwrite\nbs=4k,8k", EACH),
    "random_twice": ("rw=randread\nloops=2", EACH),
    "with_repeats": ("rw=randread\nnorandommap", COUNT),
    "some_in_sequence": ("rw=randread\npercentage_random=50", COUNT),
    "every_fourth": ("rw=randread:4", COUNT),
    "aligned": ("rw=randread\nblockalign=8k", COUNT),
    "skewed": ("rw=randwrite\nrandom_distribution=zipf:1.1", COUNT),
    "of_8k_and_no_other": ("rw=randread\nbssplit=8k/100", COUNT),
    "checked": ("rw=write\nverify=crc32c", ORDER),
    "synced": ("rw=write\nfsync=4", ORDER),
    "durable": ("rw=write\nsync=dsync", ORDER),
    "zeroes": ("rw=write\nzero_buffers", ORDER),
    "compressible": ("rw=write\nbuffer_compress_percentage=50", ORDER),
    "repeating": ("rw=write\ndedupe_percentage=50", ORDER),
    "in_cache": ("rw=read\npre_read=1", ORDER),
    "paced": ("rw=read\nrate_iops=4000", ORDER),
    "of_io_uring": ("rw=randread\nioengine=io_uring\niodepth=4", EACH),
    "of_libaio": ("rw=randwrite\nioengine=libaio\niodepth=4", EACH),
    "of_mmap": ("rw=read\nioengine=mmap", ORDER),
    "of_sync": ("rw=write\nioengine=sync", ORDER),
    "of_posixaio": ("rw=read\nioengine=posixaio", ORDER),
    "of_two_threads": ("rw=read\nnumjobs=2\ngroup_reporting", COUNT),
}


@dataclass
class Done:
    """What one of the tools made of the job file."""

    jobs: dict[str, dict[str, Any]]
    traces: dict[str, list[Operation]]


def traced(path: Path) -> list[Operation]:
    """The transfers of an iolog in version 3."""
    found = []
    for line in path.read_text().splitlines()[1:]:
        words = line.split()
        if words[2] in {"read", "write", "trim"}:
            found.append((words[2], int(words[3]), int(words[4])))
    return found


def job_file(sections: dict[str, str]) -> str:
    """All sections one after the other, each with a separate trace."""
    text = "[global]\nsize=64k\nbs=4k\nioengine=psync\n"
    return text + "".join(f"[{name}]\nstonewall\nwrite_iolog={name}.log\n{lines}\n" for name, lines in sections.items())


def by_fio(place: Path, text: str) -> Done:
    """Runs it by fio."""
    place.mkdir()
    (place / "x.fio").write_text(text)
    assert FIO is not None
    done = subprocess.run(
        [FIO, "x.fio", "--output-format=json"], cwd=place, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout[done.stdout.index("{") :])
    return Done({job["jobname"]: job for job in document["jobs"]}, _traces(place))


def by_us(
    place: Path, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *options: str
) -> Done:
    """Runs it by hwdyno."""
    place.mkdir()
    (place / "x.fio").write_text(text)
    monkeypatch.setenv("HWDYNO_HOME", str(place / "home"))
    monkeypatch.chdir(place)
    status = main(["storage", "job", "x.fio", "--quiet", "--no-page", "--output-format", "fio-json", *options])
    out = capsys.readouterr()
    assert status in {0, 3}, out.err
    return Done({job["jobname"]: job for job in json.loads(out.out)["jobs"]}, _traces(place))


def _traces(place: Path) -> dict[str, list[Operation]]:
    return {path.stem: traced(path) for path in place.glob("*.log")}


def test_traces_read_like_fios(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(
        "fio version 3 iolog\n1 f add\n2 f open\n3 f read 0 4096\n4 f write 8 16\n5 f close\n"
    )
    assert traced(tmp_path / "a.log") == [("read", 0, 4096), ("write", 8, 16)]


@pytest.mark.peer("fio")
def test_fio_and_hwdyno_do_same_operations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = job_file({name: lines for name, (lines, _) in SECTIONS.items()})
    theirs = by_fio(tmp_path / "theirs", text)
    ours = by_us(tmp_path / "ours", text, capsys, monkeypatch)
    wrong = []
    for name, (lines, same) in SECTIONS.items():
        # fio counts the reads of a check too, and ours are separate.
        mine = ours.traces[name]
        other = [operation for operation in theirs.traces[name] if operation[0] == "write" or "verify" not in lines]
        if same is ORDER and mine != other:
            wrong.append(f"{name}: {mine} and not {other}")
        if same is EACH and sorted(mine) != sorted(other):
            wrong.append(f"{name}: {sorted(mine)} and not {sorted(other)}")
        if Counter((way, length) for way, _, length in mine) != Counter((way, length) for way, _, length in other):
            wrong.append(f"{name}: {len(mine)} operations and not {len(other)}")
        for way in ("read", "write", "trim"):
            if "verify" in lines and way == "read":
                continue
            rows = [(tool.jobs[name][way]["total_ios"], tool.jobs[name][way]["io_bytes"]) for tool in (ours, theirs)]
            if rows[0] != rows[1]:
                wrong.append(f"{name}: {way} {rows[0]} and not {rows[1]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.peer("fio")
def test_mixes_hold_what_theirs_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = job_file({"mixed": "rw=rw\nsize=4m\nrwmixread=70", "random": "rw=randrw\nsize=4m\nrwmixwrite=20"})
    theirs = by_fio(tmp_path / "theirs", text)
    ours = by_us(tmp_path / "ours", text, capsys, monkeypatch)
    for name, percent in (("mixed", 70), ("random", 80)):
        for tool in (ours, theirs):
            # Of 1024 draws the share deviates by 1.5%.
            assert sum(way == "read" for way, _, _ in tool.traces[name]) == pytest.approx(10.24 * percent, abs=75)
            assert len(tool.traces[name]) == 1024
    for tool in (ours, theirs):
        # Reads and writes in sequence each go on where they were.
        for way in ("read", "write"):
            offsets = [offset for direction, offset, _ in tool.traces["mixed"] if direction == way]
            assert offsets == [number * 4096 for number in range(len(offsets))]
        assert len({offset for _, offset, _ in tool.traces["random"]}) == 1024


@pytest.mark.peer("fio")
def test_a_trace_of_fios_is_run_again_as_fio_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = "fio version 2 iolog\nfirst add\nsecond add\nfirst open\nsecond open\n"
    log += "first write 0 4096\nsecond write 8192 512\nfirst sync 0 0\nfirst read 0 4096\n"
    log += "second wait 200\nfirst write 20480 1024\nfirst close\nsecond close\n"
    (tmp_path / "v2").write_text(log)
    once = f"[again]\nioengine=psync\nread_iolog={tmp_path / 'v2'}\nwrite_iolog=again.log\n"
    theirs = by_fio(tmp_path / "theirs", once)
    ours = by_us(tmp_path / "ours", once, capsys, monkeypatch)
    transfers = [("write", 0, 4096), ("write", 8192, 512), ("read", 0, 4096), ("write", 20480, 1024)]
    assert ours.traces["again"] == transfers
    for way in ("read", "write"):
        assert ours.jobs["again"][way]["total_ios"] == theirs.jobs["again"][way]["total_ios"], way
        assert ours.jobs["again"][way]["io_bytes"] == theirs.jobs["again"][way]["io_bytes"], way
    again = (
        f"[more]\nioengine=io_uring\niodepth=4\nread_iolog={tmp_path / 'ours' / 'again.log'}\nwrite_iolog=more.log\n"
    )
    again += "replay_redirect=one\nreplay_no_stall=1\nreplay_skip=read\n"
    assert by_us(tmp_path / "more", again, capsys, monkeypatch).traces["more"] == [
        step for step in transfers if step[0] == "write"
    ]


def test_files_are_trimmed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = job_file(
        {
            "all": "rw=trim",
            "some": "rw=randtrim\nnumber_ios=5",
            "pairs": "rw=trimwrite\nioengine=io_uring\niodepth=8",
            "shuffled": "rw=randtrimwrite\nnumjobs=2",
        }
    )
    ours = by_us(tmp_path / "ours", text, capsys, monkeypatch)
    blocks = [number * 4096 for number in range(16)]
    assert ours.traces["all"] == [("trim", at, 4096) for at in blocks]
    assert ours.traces["pairs"] == [(way, at, 4096) for at in blocks for way in ("trim", "write")]
    for name, trims, writes in (("all", 16, 0), ("some", 5, 0), ("pairs", 16, 16), ("shuffled", 32, 32)):
        job = ours.jobs[name]
        assert [job[way]["total_ios"] for way in ("read", "write", "trim")] == [0, writes, trims], name
        assert job["trim"]["io_bytes"] == trims * 4096 and job["trim"]["lat_ns"]["N"] == trims and not job["error"]


@loops
@pytest.mark.peer("fio")
def test_a_free_device_is_trimmed_as_fio_does_and_only_with_consent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with loop(tmp_path / "backing", MIB) as device:
        text = job_file(
            {"trims": f"filename={device}\nrw=trim\nsize=1m", "both": f"filename={device}\nrw=trimwrite\nsize=1m"}
        )
        theirs = by_fio(tmp_path / "theirs", text)
        for name, counts in (("trims", (0, 0, 256)), ("both", (0, 256, 256))):
            totals = tuple(theirs.jobs[name][way]["total_ios"] for way in ("read", "write", "trim"))
            assert totals == counts, name
        (tmp_path / "x.fio").write_text(text)
        monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
        monkeypatch.chdir(tmp_path)
        assert main(["storage", "job", "x.fio", "--quiet", "--no-page"]) == 2
        assert "raw device" in capsys.readouterr().err


def test_jobs_wait_for_each_other_and_end_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "[global]\nsize=64k\nioengine=psync\n[long]\nrw=randread\ntime_based\nruntime=300\n"
    text += "[brief]\nrw=write\nexitall\nwrite_iolog=brief.log\nfilename=f\n[group]\nstonewall\nrw=read\n"
    text += "[later]\nwait_for=group\nrw=write\n[last]\nwait_for=later\nrw=read\n"
    ours = by_us(tmp_path / "ours", text, capsys, monkeypatch)
    assert len(ours.traces["brief"]) == 16
    assert [ours.jobs[name]["write"]["total_ios"] for name in ("brief", "later")] == [16, 16]
    assert ours.jobs["last"]["read"]["total_ios"] == 16 and ours.jobs["long"]["elapsed"] < 250


def test_flows_and_targets_and_rates_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "[global]\nsize=1m\nioengine=psync\nbs=4k\n[one]\nrw=read\nflow=1\n[four]\nrw=read\nflow=4\n"
    text += "[apart]\nstonewall\nrw=randrw\nrate_iops=2000,500\nnumber_ios=100\n"
    text += "[missed]\nstonewall\nrw=read\nrate_iops=100\nrate_iops_min=200\nrate_cycle=100\ntime_based\nruntime=60\n"
    text += "[found]\nstonewall\nrw=randread\nioengine=io_uring\niodepth=4\nlatency_target=10s\nlatency_window=10ms\n"
    text += "time_based\nruntime=60\n"
    ours = by_us(tmp_path / "ours", text, capsys, monkeypatch)
    assert [ours.jobs[name]["read"]["total_ios"] for name in ("one", "four")] == [256, 256]
    apart = ours.jobs["apart"]
    assert apart["read"]["total_ios"] + apart["write"]["total_ios"] == 100
    assert apart["job options"]["rate_iops"] == "2000,500"
    assert ours.jobs["missed"]["error"] == 5 and ours.jobs["missed"]["elapsed"] < 50
    found = ours.jobs["found"]
    assert (found["latency_depth"], found["latency_target"], found["latency_window"]) == (4, 10_000_000, 10_000)
    assert found["read"]["total_ios"] > 0 and found["elapsed"] < 50


def test_written_bytes_are_the_requested_ones(tmp_path: Path) -> None:
    kept = tmp_path / "own"
    host = Local()
    host.run("storage_layout", {"path": str(kept), "size": 65536, "seed": 1})
    job = {"path": str(kept), "rw": "write", "bs": 4096, "ioengine": "psync", "time_based": False, "runtime": 0.0}
    host.run("storage_blocks", {**job, "buffer_pattern": "deadbeef"})
    assert kept.read_bytes() == b"\xde\xad\xbe\xef" * 16384
    host.run("storage_blocks", {**job, "dedupe_percentage": 100})
    blocks = {kept.read_bytes()[at : at + 4096] for at in range(0, 65536, 4096)}
    assert len(blocks) == 1
    host.run("storage_blocks", {**job, "buffer_compress_percentage": 75, "buffer_compress_chunk": 512})
    assert 0.7 < kept.read_bytes().count(0) / 65536 < 0.77
    host.run("storage_blocks", {**job, "rw": "trim"})
    assert not any(kept.read_bytes()) and kept.stat().st_size == 65536


def test_the_page_on_job_files_holds_the_table_of_the_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "fio-jobs.md").read_text()
    assert keys.table() in page
