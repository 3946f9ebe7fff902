"""Files, logs, steady state and the rest of fio's language, run on real storage; and fio's own example jobs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from here import needs
from hwdyno.cli.main import main
from hwdyno.formats import fio_job, fio_log
from hwdyno.formats.fio_job.keys import HARMLESS, SUPPORTED, WHY
from hwdyno.measure import engine
from hwdyno.model.words import UserError


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(place: Path, text: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    (place / "x.fio").write_text(text)
    assert main(["storage", "job", "x.fio", "--quiet", "--no-page", "--output-format", "fio-json"]) in {0, 3}
    jobs: list[dict[str, object]] = json.loads(capsys.readouterr().out)["jobs"]
    return jobs


@pytest.mark.parametrize(
    ("lines", "name", "value"),
    [
        ("rw=randrw\nbssplit=4k/50:8k/50,16k", "bssplit_write", "16384"),
        ("rw=randrw\nbs=4k,8k", "bssplit_write", "8192/100"),
        ("rw=randrw\nbs=4k,8k", "bs", 8192),
        ("rw=randwrite\nbssplit=4k/50:8k/50,16k/50:32k/50", "bssplit", "16384/50:32768/50"),
        ("thinktime=1ms\nthinktime_spin=1s", "thinktime_spin", 1e-3),
        ("thinktime=1ms\nthinktime_iotime=2s", "thinktime_iotime", 2.0),
        ("rate_process=poisson\nrate_iops=10", "rate_process", "poisson"),
        ("ss=iops_slope:0.3%\nss_dur=30\nss_ramp=5", "steadystate", "iops_slope:0.3%"),
        ("ss=bw:10\nss_dur=30\nss_ramp=5", "steadystate_ramp_time", 5.0),
        ("write_bw_log=x\nlog_avg_msec=500", "interval_s", 0.5),
        ("nrfiles=4\nopenfiles=2\nfile_service_type=random:8", "openfiles", 2),
        ("nrfiles=4\nfile_service_type=zipf:1.2:8", "file_service_type", "zipf:1.2:8"),
        ("loops=3", "loops", 3),
        ("verify=md5", "verify", "crc32c"),
        ("bs=$pagesize", "bs", os.sysconf("SC_PAGE_SIZE")),
        ("timeout=30  # as long", "runtime", 30.0),
        ("bs=8", "bs", 8),
    ],
)
def test_each_key_means_what_fio_means(lines: str, name: str, value: object) -> None:
    assert fio_job.parse(f"[job]\nsize=1m\n{lines}", "x.fio").jobs[0].parameters[name] == value


def test_files_have_fios_names() -> None:
    def paths(lines: str) -> tuple[str, ...]:
        job = fio_job.parse(f"[j]\nsize=1m\n{lines}", "x.fio").jobs[0]
        return job.files.paths(job.name, int(str(job.parameters["numjobs"])))

    assert paths("filename=a:b\\:c\ndirectory=d") == ("d/a", "d/b:c")
    assert paths("filename_format=$jobname.$jobnum.$filenum\nnrfiles=2\nnumjobs=2") == (
        "j.0.0",
        "j.0.1",
        "j.1.0",
        "j.1.1",
    )
    assert paths("filename_format=t.$filenum\nnrfiles=2\nnumjobs=2") == ("t.0", "t.1")
    assert paths("filename_format=f.$jobnum\ndirectory=d:e\nnumjobs=3") == ("d/f.0", "e/f.1", "d/f.2")
    assert paths("nrfiles=3") == ()
    job = fio_job.parse("[j]\nsize=4m\nnrfiles=4\n", "x.fio").jobs[0]
    assert (job.files.count, job.files.file_bytes) == (4, 1 << 20)
    assert fio_job.parse("[j]\nfilesize=1k-3k\nnrfiles=2", "x.fio").jobs[0].files.file_bytes == 2048


def test_an_included_file_stands_in_its_place_and_an_error_names_it() -> None:
    files = {"common.inc": "[global]\nbs=8k\nsize=1m\n", "bad.inc": "\nrw=odd\n", "round": "include round"}
    known = fio_job.parse("include common.inc\n[a]\n", "x.fio", included=files.__getitem__)
    assert known.jobs[0].parameters["bs"] == 8192
    with pytest.raises(UserError, match=r"bad.inc:2: rw=odd"):
        fio_job.parse("[a]\nsize=1m\ninclude bad.inc\n", "x.fio", included=files.__getitem__)
    with pytest.raises(UserError, match="inside another"):
        fio_job.parse("include round\n", "x.fio", included=files.__getitem__)


MANY = """
[global]
size=1m
nrfiles=4
ioengine=psync

[own]
rw=write
numjobs=2
verify=crc32c
file_service_type=random

[named]
stonewall
rw=randread
filename_format=kept.$filenum
openfiles=2
"""


def test_many_files_are_removed_after_use(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unnamed, named = run(place, MANY, capsys)
    assert unnamed["write"]["total_ios"] == 512 and not unnamed["error"]  # type: ignore[index]
    assert named["read"]["total_ios"] == 256 and unnamed["job options"]["nrfiles"] == "8"  # type: ignore[index]
    assert sorted(path.name for path in place.iterdir()) == ["home", "x.fio"]


def test_users_files_are_never_written_among_many(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "mine").write_text("thesis" * 1000)
    (place / "x.fio").write_text("[w]\nrw=write\nsize=8k\nfilename=new:mine\n")
    assert main(["storage", "job", "x.fio", "--quiet", "--no-page"]) == 2
    assert "would overwrite" in capsys.readouterr().err and not (place / "new").exists()
    assert (place / "mine").read_text() == "thesis" * 1000


TWO_GROUPS = "[global]\nsize=1m\nfilename=shared\nrw=randwrite\ndirect={direct}\n[first]\n[second]\nstonewall\n"


@pytest.mark.parametrize("direct", [0, 1])
@pytest.mark.parametrize("how", ["renamed", "removed_and_written"])
def test_a_file_swapped_between_groups_is_not_written(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, how: str, direct: int
) -> None:
    thesis = b"thesis" * 200_000
    run_kernel, groups = engine.run, []

    def swap_after_first(kernel: str, *given: Any, **more: Any) -> Any:
        reading = run_kernel(kernel, *given, **more)
        if kernel == "storage_blocks":
            groups.append(kernel)
            if how == "removed_and_written":  # its inode may be the one that was verified
                (place / "shared").unlink()
            (place / "thesis").write_bytes(thesis)
            (place / "thesis").rename(place / "shared")
        return reading

    monkeypatch.setattr(engine, "run", swap_after_first)
    (place / "x.fio").write_text(TWO_GROUPS.format(direct=direct))
    assert main(["storage", "job", "x.fio", "--quiet", "--no-page"]) == 3
    says = " ".join(capsys.readouterr().out.split())
    assert "took the place of one: it was not written" in says and "1 of 2 points" in says
    assert len(groups) == 1 and (place / "shared").read_bytes() == thesis


def test_logs_match_fios_format(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "[logged]\nrw=randrw\nsize=1m\nnumjobs=2\nruntime=350ms\ntime_based\n"
    (job,) = run(place, text + "write_bw_log=out\nwrite_lat_log\nlog_avg_msec=100\n", capsys)
    made = {path.name for path in place.glob("*.log")}
    assert made == {
        f"{name}.{n}.log" for name in ("out_bw", "logged_slat", "logged_clat", "logged_lat") for n in (1, 2)
    }
    rows = [list(map(int, line.split(", "))) for line in (place / "out_bw.1.log").read_text().splitlines()]
    assert {row[2] for row in rows} == {0, 1} and all(len(row) == 6 and row[0] % 100 == 0 for row in rows)
    latencies = [list(map(int, line.split(", "))) for line in (place / "logged_lat.2.log").read_text().splitlines()]
    assert latencies and all(row[1] > 0 for row in latencies)
    assert job["read"]["total_ios"]  # type: ignore[index]


def test_a_threads_course_becomes_lines_of_kib_operations_and_ns() -> None:
    way = {"operations": [4, 0, 2], "bytes": [8192, 0, 4096], "submit_ns": [0, 0, 0], "complete_ns": [40, 0, 10]}
    none: dict[str, list[int]] = {name: [] for name in way}
    thread = {"interval_s": 0.5, "read": {**way, "total_ns": [80, 0, 30]}, "write": {**none, "total_ns": []}}
    assert fio_log.format_log(thread, "bw") == "500, 16, 0, 0, 0, 0\n1500, 8, 0, 0, 0, 0\n"
    assert fio_log.format_log(thread, "iops").splitlines()[0] == "500, 8, 0, 0, 0, 0"
    assert fio_log.format_log(thread, "lat") == "500, 20, 0, 0, 0, 0\n1500, 15, 0, 0, 0, 0\n"


def test_a_steady_job_ends_early_and_its_document_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "[s]\nrw=randread\nsize=1m\nrate_iops=2000\nruntime=60\ntime_based\n"
    text += "ss=iops:60%\nss_dur=400ms\nss_interval=200ms\n"
    (job,) = run(place, text, capsys)
    steady = job["steadystate"]
    assert isinstance(steady, dict) and steady["attained"] == 1 and len(steady["data"]["iops"]) == 2
    assert job["elapsed"] < 50  # type: ignore[operator]


def test_the_keys_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", "job", "--keys"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {key} " in out for key in (*SUPPORTED, *HARMLESS, *WHY))


def _examples() -> list[Path]:
    """The example jobs that fio's package or source brings."""
    folders = [Path("/usr/share/doc/fio/examples"), Path("/usr/local/share/doc/fio/examples")]
    folders += [Path(folder) for folder in os.environ.get("HWDYNO_FIO_EXAMPLES", "").split(":") if folder]
    return [path for folder in folders for path in sorted(folder.glob("*.fio"))]


def _understood(path: Path, environment: dict[str, str]) -> bool:
    try:
        fio_job.parse(path.read_text(errors="replace"), path.name, environment=environment)
    except UserError as error:
        assert re.match(rf"{re.escape(path.name)}:\d+: \S", str(error)), error
        return False
    return True


def test_every_example_job_of_fio_runs_or_stops_with_file_line_and_reason() -> None:
    class Anything(dict[str, str]):
        def get(self, key: str, default: object = None) -> str:  # type: ignore[override]
            return "8"

    understood = 0
    for path in _examples():
        understood += _understood(path, Anything())
    assert understood or not _examples()


# Of its kinds, one for each thing that it reads; by hand it also made -N, -L, -C and -g of bw and iops.
CHARTS = {
    "bars": ["-l", "-d", "1", "2", "-n", "1"],
    "histogram": ["-H", "-d", "1", "-n", "1"],
    "latency": ["-g", "-d", "1", "-n", "1", "2", "-t", "lat", "clat"],
}


IN_TURN = """
import ast, runpy, sys
for sys.argv in ast.literal_eval(sys.argv[1]):
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if end.code:
            print(*sys.argv, "ends with", end.code)
            raise
"""
"""Command lines of a program in Python one after the other: its libraries are loaded once."""


def _fio_plot() -> str | None:
    return shutil.which("fio-plot") or shutil.which("fio-plot", path=os.environ.get("HWDYNO_FIO_PLOT", ""))


@needs(_fio_plot() is not None, "fio-plot (PyPI) is not installed")
@pytest.mark.slow  # fio-plot draws by matplotlib
def test_fio_plot_makes_its_charts_of_our_document_and_logs(place: Path) -> None:
    command = [
        "storage",
        "--path",
        str(place),
        "--rw",
        "randread",
        "--iodepth",
        "1,2",
        "--numjobs",
        "1,2",
        "--size",
        "16m",
    ]
    command += [
        "--runtime=0.3",
        "--budget=2s",
        "--log=1",
        "--fio-dir=plots",
        "--quiet",
        "--no-page",
        "--output-format=fio-json",
    ]
    assert main(command) in {0, 3}
    tool = _fio_plot()
    assert tool is not None
    lines = [
        [tool, "-i", "plots", "-r", "randread", "-T", name, "-o", str(place / f"{name}.png"), *options]
        for name, options in CHARTS.items()
    ]
    interpreter = Path(tool).read_text().splitlines()[0].removeprefix("#!").strip()
    done = subprocess.run(
        [interpreter, "-c", IN_TURN, repr(lines)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-800:]}{done.stderr[-800:]}"
    for name in CHARTS:
        assert (place / f"{name}.png").read_bytes().startswith(b"\x89PNG"), name
