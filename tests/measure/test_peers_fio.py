"""fio is run on just our point, harms no file, and its failures are one line."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hwdyno.measure import peers
from hwdyno.measure.peers import fio
from hwdyno.model.words import UserError

DATA = Path(__file__).parents[1] / "data" / "fio"
KERNEL = "storage_blocks"
FIO = peers.find("fio")


def options(**parameters: Any) -> dict[str, str]:
    """The options that fio gets."""
    words = FIO.command(KERNEL, {"path": "/data", **parameters})
    assert words[0] == "fio"
    return {name: value for name, _, value in (word.removeprefix("--").partition("=") for word in words[1:])}


def test_the_same_point_in_fios_words() -> None:
    parameters = options(
        rw="randrw", rwmixread=70, bs=16384, iodepth=8, ioengine="libaio", direct=True, size=1 << 20, offset=4096,
        runtime=1.5, ramp_time=0.25, seed=7, numjobs=1, cpus=[0, 1],
    )  # fmt: skip
    expected = {
        "filename": "/data", "rw": "randrw", "rwmixread": "70", "bs": "16384", "iodepth": "8", "ioengine": "libaio",
        "direct": "1", "size": "1048576", "offset": "4096", "runtime": "1500ms", "ramp_time": "250ms", "randseed": "7",
        "numjobs": "1", "cpus_allowed": "0,1", "time_based": "", "norandommap": "", "randrepeat": "0",
        "group_reporting": "", "output-format": "json",
    }  # fmt: skip
    assert {name: parameters.get(name) for name in expected} == expected


def test_fio_never_makes_or_grows_file() -> None:
    parameters = options(rw="randwrite")
    assert (parameters["allow_file_create"], parameters["fallocate"]) == ("0", "none")
    assert not {"unlink", "overwrite", "create_on_open"} & parameters.keys()


def test_only_mixes_are_called_mixes() -> None:
    assert "rwmixread" not in options(rw="randread", rwmixread=70)


def test_jobs_share_region_as_ours_do() -> None:
    parameters = options(numjobs=4, size=1 << 20, bs=4096)
    assert (parameters["size"], parameters["offset_increment"]) == (str(1 << 18), str(1 << 18))
    parameters = options(numjobs=4, size=1 << 20, bs=4096, share="whole")
    assert parameters["size"] == str(1 << 20) and "offset_increment" not in parameters


def test_colon_in_path_is_one_file() -> None:
    assert options(path="/mnt/a:b/data")["filename"] == "/mnt/a\\:b/data"


def test_unfinished_pass_is_not_time_based() -> None:
    assert "time_based" not in options(time_based=False)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"bs": 4 << 30, "runtime": 1}, "one system call"),
        ({"bs": 1 << 30, "iodepth": 4, "runtime": 1}, "of buffers"),
        ({"runtime": 0}, "without an end"),
    ],
)
def test_points_that_fio_cannot_measure(parameters: dict[str, Any], says: str) -> None:
    assert says in (FIO.unsupported_reason(KERNEL, parameters) or "")
    with pytest.raises(UserError, match=says):
        FIO.run(KERNEL, parameters)


def test_it_stands_beside_storage_alone() -> None:
    assert "cannot measure memory_copy" in (FIO.unsupported_reason("memory_copy", {}) or "")


def test_parsed_result_is_fios() -> None:
    reading = fio.parse_output("note: hello\n" + (DATA / "randrw-json-plus.json").read_text(), "", 0)
    assert reading.throughput == 279121326 + 120306189
    assert reading.rate == pytest.approx(68144.855145 + 29371.628372)
    assert reading.operations == 68213 + 29401
    assert reading.cpu_s == pytest.approx(2.0 * (0.053 + 0.2335))
    mean = (154943.709865 * 68213 + 174675.280739 * 29401) / reading.operations
    assert reading.latency_ns_mean == pytest.approx(mean)


@pytest.mark.parametrize(
    ("out", "err", "says"),
    [
        ("", "fio: file:ioengines.c:134, func=dlopen, error=x\nfio: engine foo not loadable", "fio failed: "),
        ("", "", "ended with status 1"),
        ("garbage {", "fio: no such engine", "no such engine"),
        ((DATA / "randrw-json-plus.json").read_text().replace('"error": 0', '"error": 22'), "", "invalid argument"),
        ((DATA / "randrw-json-plus.json").read_text().replace('"total_ios"', '"x"'), "", "ended with status 1"),
    ],
)
def test_a_failure_is_one_line(out: str, err: str, says: str) -> None:
    with pytest.raises(OSError, match=says) as caught:
        fio.parse_output(out, err, 1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("out", "says"), [("", "it printed nothing"), ("{}", "no JSON, but: {}")])
def test_fio_that_answers_nonsense_is_quoted(out: str, says: str) -> None:
    with pytest.raises(OSError, match=says):
        fio.parse_output(out, "", 0)


def test_a_missing_fio_is_no_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HWDYNO_FIO", str(tmp_path / "none"))
    assert FIO.version() is None
    with pytest.raises(FileNotFoundError, match="install it"):
        FIO.run(KERNEL, {"path": "/data", "runtime": 1})


def stand_in(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_fio_that_hangs_is_killed_with_its_children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"x" * 4096)
    mark = tmp_path / "children"
    script = stand_in(tmp_path / "fio", f'sleep 60 & echo $! > "{mark}"; sleep 60')
    monkeypatch.setenv("HWDYNO_FIO", str(script))
    monkeypatch.setattr(fio, "GRACE_S", 0.3)
    with pytest.raises(OSError, match="was killed after"):
        FIO.run(KERNEL, {"path": str(data), "size": 4096, "runtime": 0.01})
    child = int(mark.read_text())
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or " Z " in Path(f"/proc/{child}/stat").read_text():
            return
        time.sleep(0.02)
    raise AssertionError("its child lives on")


@pytest.mark.parametrize("parameters", [{"path": "none"}, {"path": "."}, {"path": "data", "size": 8192}])
def test_a_file_that_fio_would_make_or_grow_is_refused(
    parameters: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HWDYNO_FIO", str(stand_in(tmp_path / "fio", "exit 0")))
    (tmp_path / "data").write_bytes(b"x" * 4096)
    with pytest.raises(UserError, match=r"on the data file only|would extend"):
        FIO.run(KERNEL, {"runtime": 1, **parameters, "path": str(tmp_path / parameters["path"])})


@pytest.mark.peer("fio")
@pytest.mark.parametrize(
    "parameters",
    [
        {"rw": "randread", "iodepth": 8, "numjobs": 2},
        {"rw": "randrw", "rwmixread": 70, "ioengine": "libaio", "iodepth": 4},
        {"rw": "write", "bs": 65536, "ioengine": "psync"},
        {"rw": "randread", "ioengine": "mmap"},
    ],
)
def test_fio_itself_leaves_the_file_as_long_as_it_was(parameters: dict[str, Any], tmp_path: Path) -> None:
    data = tmp_path / "da:ta"
    data.write_bytes(os.urandom(1 << 20))
    before = data.stat()
    given = {"ioengine": "libaio", "path": str(data), "size": 1 << 19, "offset": 1 << 19, "runtime": 0.2, **parameters}
    tail = data.read_bytes()[: 1 << 19]
    reading = FIO.run(KERNEL, given)
    after = data.stat()
    assert (after.st_size, after.st_ino) == (before.st_size, before.st_ino)
    assert data.read_bytes()[: 1 << 19] == tail, "outside the region nothing changes"
    assert [path.name for path in tmp_path.iterdir()] == ["da:ta"]
    assert reading.operations > 0 and reading.throughput > 0
    assert (FIO.version() or "").startswith("fio-")


def test_a_peer_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_peer.py").write_text("PEER = object()")
    (tmp_path / "made_helper.py").write_text("WORDS = ()")
    monkeypatch.setattr(peers, "__path__", [*peers.__path__, str(tmp_path)])
    assert type(peers.find("made_peer")) is object and {"fio", "made_peer"} <= set(peers.names())
    for name in ("made_helper", "program", "none_such"):
        with pytest.raises(UserError, match=f"no reference tool is called '{name}'; (known: .*fio|did you mean)"):
            peers.find(name)


def test_fios_own_samples_are_kept_where_there_are_two_or_more() -> None:
    way = {"io_bytes": 1 << 20, "bw_min": 1000, "bw_max": 2000, "bw_samples": 3}
    idle = {"io_bytes": 0, "bw_min": 0, "bw_max": 0, "bw_samples": 0}
    assert fio._bandwidth_range({"jobs": [{"read": way, "write": idle}]}) == {
        "bytes_s_min": 1024e3,
        "bytes_s_max": 2048e3,
    }
    assert fio._bandwidth_range({"jobs": [{"read": {**way, "bw_samples": 1}, "write": idle}]}) == {}
    assert fio._bandwidth_range({"jobs": [{"read": way, "write": way}]}) == {}
