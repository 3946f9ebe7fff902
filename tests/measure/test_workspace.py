from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from hwdyno.measure import workspace
from hwdyno.measure.workspace import Place, Workspace, check_place, clean_stale, fit, scratch_directories
from hwdyno.model.words import UserError


def abandoned(parent: Path, name: str = "hwdyno-scratch-0123456789abcdef") -> Path:
    """What a killed run leaves: its lock is free."""
    directory = parent / name
    directory.mkdir()
    (directory / "lock").write_bytes(scratch_directories._SIGNATURE)
    (directory / "data").write_bytes(b"x" * 4096)
    return directory


def test_the_data_file_lies_apart_and_is_gone_at_the_end(tmp_path: Path) -> None:
    with Workspace(Place(tmp_path)) as made:
        assert made.data.parent.parent == tmp_path
        assert made.data.stat().st_size == made.laid_out_bytes == 0
        assert [entry.name for entry in tmp_path.iterdir()] == [made.data.parent.name]
    assert not list(tmp_path.iterdir())
    made.close()


def test_what_a_dead_run_left_is_cleaned_by_the_next(tmp_path: Path) -> None:
    directory = abandoned(tmp_path)
    # Of a job with several files, a first write, and a tree of small files.
    for name in ("data.0", "data.fresh.1", "names-7-abc/t0/f0-1"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"x")
    with Workspace(Place(tmp_path)) as made:
        assert [entry.name for entry in tmp_path.iterdir()] == [made.data.parent.name]


def test_a_name_that_a_run_cannot_hold_is_refused_in_words(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"bad\377name")
    odd.mkdir()
    with pytest.raises(UserError, match=r"bad\\xffname: its name is not UTF-8"):
        check_place(odd, writes=True)


def test_a_living_run_is_left_alone(tmp_path: Path) -> None:
    directory = abandoned(tmp_path)
    with (directory / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert clean_stale(tmp_path) == []
    assert (directory / "data").exists()
    assert clean_stale(tmp_path) == [directory]


def test_two_concurrent_runs_have_own_files(tmp_path: Path) -> None:
    with Workspace(Place(tmp_path)) as first, Workspace(Place(tmp_path)) as other:
        assert first.data != other.data
        assert first.data.exists()
        assert other.data.exists()


@pytest.mark.parametrize(
    "change",
    ["no signature", "other name", "a file of the user's within", "a link as lock", "a file, not a directory"],
)
def test_what_looks_alike_but_is_the_users_stays(tmp_path: Path, change: str) -> None:
    directory = abandoned(tmp_path)
    precious = directory / "data"
    if change == "no signature":
        (directory / "lock").write_bytes(b"mine")
    elif change == "other name":
        precious = directory.rename(tmp_path / "hwdyno-scratch-mine") / "data"
    elif change == "a file of the user's within":
        precious = directory / "thesis.txt"
        precious.write_text("years of work")
    elif change == "a link as lock":
        target = tmp_path / "target"
        target.write_bytes(scratch_directories._SIGNATURE)
        (directory / "lock").unlink()
        (directory / "lock").symlink_to(target)
    else:
        for entry in directory.iterdir():
            entry.unlink()
        directory.rmdir()
        directory.write_text("mine")
        precious = directory
    clean_stale(tmp_path)
    assert precious.exists()


def test_places_that_cannot_be_measured_are_named_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="no such directory"):
        check_place(tmp_path / "missing", writes=True)
    with pytest.raises(UserError, match="not a directory"):
        check_place(tmp_path / "file", writes=True)
    with pytest.raises(UserError, match="not a directory"):
        check_place(Path("/dev/null"), writes=True)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UserError, match="no permission"):
        check_place(tmp_path, writes=True)
    status = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*status[:8], os.ST_RDONLY, status[9])))
    with pytest.raises(UserError, match="read-only"):
        check_place(tmp_path, writes=True)


def test_raw_device_is_only_ever_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stat.S_ISBLK", lambda _: True)
    device = tmp_path / "device"
    device.write_bytes(bytes(8192))
    with pytest.raises(UserError, match=r"would destroy its data; .*--rw read.*--destroy"):
        check_place(device, writes=True)
    with pytest.raises(UserError, match="not the device of --path"):
        check_place(device, writes=True, destroy=str(tmp_path / "other"), serial="X")
    with pytest.raises(UserError, match="needs --serial"):
        check_place(device, writes=True, destroy=str(device))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with monkeypatch.context() as refused, pytest.raises(UserError, match="does not let root read it"):
        refused.setattr("os.open", lambda *_: (_ for _ in ()).throw(PermissionError(1, "Operation not permitted")))
        check_place(device, writes=False)
    place = check_place(device, writes=False)
    assert place.device_bytes == 8192
    with Workspace(place) as made:
        assert made.data == device
        assert made.laid_out_bytes == 8192
    assert device.read_bytes() == bytes(8192)
    assert [entry.name for entry in tmp_path.iterdir()] == ["device"]


def test_the_size_shrinks_to_the_room_only_where_it_may(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place, mib = Place(tmp_path), 1 << 20
    monkeypatch.setattr("hwdyno.measure.workspace.place.room", lambda _: 100 * mib + 17)
    assert fit(place, 64 * mib, 0, may_shrink=True) == (64 * mib, "")
    size, says = fit(place, 1024 * mib, 0, may_shrink=True)
    assert size == 100 * mib
    assert "100 MiB instead of 1 GiB" in says
    with pytest.raises(UserError, match="1 GiB are needed"):
        fit(place, 1024 * mib, 0, may_shrink=False)
    with pytest.raises(UserError, match="200 MiB are needed"):
        fit(place, 1024 * mib, 200 * mib, may_shrink=True)


def test_a_reserve_is_kept_free(tmp_path: Path) -> None:
    status = os.statvfs(tmp_path)
    free = status.f_bavail * status.f_frsize
    assert workspace.room(Place(tmp_path)) <= free


def test_filesystem_that_refuses_file_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def full(path: Path, flags: int, mode: int = 0o777, **where: int) -> int:
        if str(path).endswith("data"):
            raise OSError(28, "No space left on device", str(path))
        return real(path, flags, mode, **where)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(UserError, match="No space left"):
        Workspace(Place(tmp_path))
    assert not list(tmp_path.iterdir())
