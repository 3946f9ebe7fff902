"""A user's files beside those that a scenario makes: they stay, and no link is followed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hwdyno.cli.main import main
from hwdyno.measure import engine
from hwdyno.system import safe_files
from user_files import CHECKPOINT, KV_CACHE, MINE, VECTORS, data_set, refused
from user_files import place as place
from user_files import thesis as thesis

pytestmark = [pytest.mark.machine, pytest.mark.timeout(120)]


# --- files that a scenario makes


def test_checkpoint_link_is_not_followed(place: Path, thesis: Path) -> None:
    folder = place / "hwdyno-checkpoint"
    folder.mkdir(mode=0o777)
    for kind in ("model", "optimizer"):
        (folder / f"checkpoint-0-{kind}-rank-0000-0.hwdyno").symlink_to(thesis)
    assert main(["training", *CHECKPOINT, "--path", str(place)]) in {0, 3}
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(("command", "name"), [(CHECKPOINT, "hwdyno-checkpoint"), (KV_CACHE, "hwdyno-kv-cache")])
def test_linked_folder_is_not_followed(
    command: tuple[str, ...], name: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    mine = [elsewhere / "kv-00000001.hwdyno", elsewhere / "checkpoint-notes.hwdyno"]
    for path in mine:
        path.write_bytes(MINE)
    (place / name).symlink_to(elsewhere)
    assert main(["training", *command, "--path", str(place)]) == 2
    assert "symbolic link" in capsys.readouterr().err
    assert [path.read_bytes() for path in mine] == [MINE, MINE]
    assert (place / name).is_symlink()
    assert len(list(elsewhere.iterdir())) == 2


@pytest.mark.parametrize(("command", "name"), [(CHECKPOINT, "hwdyno-checkpoint"), (KV_CACHE, "hwdyno-kv-cache")])
def test_a_users_files_in_a_folder_of_that_name_stay(command: tuple[str, ...], name: str, place: Path) -> None:
    folder = place / name
    folder.mkdir()
    mine = [folder / "kv-mine.hwdyno", folder / "kv-00000000.hwdyno", folder / "checkpoint-mine.hwdyno"]
    for path in mine:
        path.write_bytes(MINE)
    assert main(["training", *command, "--path", str(place)]) in {0, 3}
    assert [path.read_bytes() for path in mine] == [MINE] * 3
    assert len(list(folder.iterdir())) == 3


def test_a_link_laid_for_a_vector_index_is_not_followed(
    place: Path, thesis: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["inference", *VECTORS, "--path", str(place)]
    assert main([*command, "--generate"]) == 0
    (folder,) = place.glob("hwdyno-vectors-*")
    (folder / "vectors.hwdyno").unlink()
    (folder / "vectors.part").symlink_to(thesis)
    refused(capsys, *command, says="vectors.part is not hwdyno's")
    assert (folder / "vectors.part").is_symlink()
    (folder / "vectors.part").unlink()
    (folder / "vectors.hwdyno").write_bytes(MINE)
    refused(capsys, *command, says="vectors.hwdyno is not hwdyno's")
    assert (folder / "vectors.hwdyno").read_bytes() == MINE


def test_a_link_laid_for_a_data_set_is_not_followed(
    place: Path, thesis: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*data_set(place), "--path", str(place)]
    assert main([*command, "--generate"]) == 0
    train = place / "hwdyno-small-4" / "train"
    (train / "img_1_of_4.npz").unlink()
    part = train / "img_1_of_4.npz.part"
    part.symlink_to(thesis)
    refused(capsys, *command, says="img_1_of_4.npz.part")
    assert part.is_symlink()


def test_a_data_sets_folder_that_is_a_link_is_not_followed(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (place / "hwdyno-small-4").symlink_to(tmp_path / "elsewhere")
    refused(capsys, *data_set(place), "--path", str(place), says="symbolic link")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_users_file_in_data_set_stays(place: Path) -> None:
    kept = {**SHAPE, "path": str(place / "set")}
    engine.run("training_generate", kept)
    (place / "set" / "train" / "notes.txt").write_bytes(MINE)
    safe_files.remove_folder(place / "set", "img_*.npz")
    assert {path.name for path in (place / "set").rglob("*") if path.is_file()} == {"notes.txt", safe_files.MARK}


SHAPE = {"format": "npz", "files": 3, "samples_per_file": 1, "record_bytes": 40_000}


@pytest.mark.parametrize(
    ("name", "prefix"), [("../../x", "img"), ("x", "../../../../y"), ("x/y", "img"), ("x", "a/b"), ("..", "img")]
)
def test_names_that_climb_out_of_the_folder_are_refused(
    name: str, prefix: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(path for path in place.parent.rglob("*") if "home" not in path.parts)
    command = [*data_set(place, name=name, prefix=prefix), "--path", str(place)]
    refused(capsys, *command, says="must be a plain name")
    after = sorted(path for path in place.parent.rglob("*") if "home" not in path.parts)
    assert set(after) - set(before) == {place.parent / "workload_x.yaml"}


def test_the_engine_makes_no_data_set_outside_of_its_folder(place: Path) -> None:
    with pytest.raises(engine.UsageError, match="plain name"):
        engine.run("training_generate", {**SHAPE, "path": str(place / "set"), "prefix": "../../y"})
    assert not list(place.parent.glob("y_*"))


# --- what another run left


def test_a_killed_runs_entries_go_with_the_next_and_those_of_others_stay(place: Path) -> None:
    script = (
        "import json, os, threading, time; from hwdyno.measure import engine\n"
        f"p = json.loads({json.dumps({**KV, 'path': str(place / 'hwdyno-kv-cache')})!r})\n"
        "threading.Thread(target=engine.run, args=('inference_kv_cache', p), daemon=True).start()\n"
        f"import pathlib; f = pathlib.Path({str(place)!r})\n"
        "while not list(f.rglob('kv-*.hwdyno')): time.sleep(0.01)\n"
        "os._exit(9)"
    )
    import subprocess
    import sys

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    folder = place / "hwdyno-kv-cache"
    assert list(folder.rglob("kv-*.hwdyno"))
    (folder / "kv-mine.hwdyno").write_bytes(MINE)
    assert main(["inference", *KV_CACHE, "--path", str(place)]) in {0, 3}
    assert [path.name for path in folder.iterdir()] == ["kv-mine.hwdyno"]


KV = {"users": 1, "scale": 0.0005, "think": 0.0, "runtime": 60.0, "capacity": 32 << 20, "transfer_size": 65536}
