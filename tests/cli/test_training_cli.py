"""``hwdyno training`` from end to end, on small data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hwdyno.cli.main import main
from hwdyno.formats import workload

pytestmark = pytest.mark.machine


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))


# Two epochs in 0.2 s: where others take the processor, too few steps are left for an AU.
@pytest.mark.timing
def test_training_feeds_accelerators_and_cleans_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "place"
    place.mkdir()
    command = ["training", "--workload", "cosmoflow", "--accelerator", "a100", "--samples", "24", "--path", str(place)]
    options = ["--accelerators=1,2", "--runtime=0.2", "--budget=2s", "--epochs=2", "--json", "--no-page", "--quiet"]
    status = main([*command, *options, "--summary", str(tmp_path / "dlio")])
    out = capsys.readouterr().out
    assert status in {0, 3}
    run = json.loads(out)
    named = {result["name"]: result for result in run["experiments"]}
    plain = "storage.pattern.cosmoflow"
    assert set(named) == {"training.cosmoflow.a100", "training.client.cosmoflow", plain}
    assert [point["parameters"]["numjobs"] for point in named[plain]["points"]][:2] == [4, 8]
    points = named["training.cosmoflow.a100"]["points"]
    assert [point["parameters"]["accelerators"] for point in points] == [1, 2]
    assert all(0 < point["details"]["au_rule"] <= 1 for point in points)
    assert {"training_capacity", "training_too_small"} <= {found["rule"] for found in run["findings"]}
    assert not list(place.iterdir())
    summary = json.loads((tmp_path / "dlio" / "cosmoflow.a100-2" / "summary.json").read_text())
    assert summary["num_accelerators"] == 2
    assert 0 < summary["metric"]["train_au_mean_percentage"] <= 100


def test_generated_data_is_kept_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "training",
        "--workload",
        "cosmoflow",
        "--accelerator",
        "h100",
        "--samples",
        "3",
        "--path",
        str(tmp_path),
    ]
    assert main([*options, "--generate"]) == 0
    assert len(list((tmp_path / "hwdyno-cosmoflow-3" / "train").iterdir())) == 3
    capsys.readouterr()


def test_several_storages_and_a_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    options = ["--path", f"ceph={tmp_path / 'a'}", "--path", f"local={tmp_path / 'b'}", "--samples", "1000,3500"]
    assert main(["training", "--accelerator", "a100,h100", "--accelerators", "1", *options, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "training.unet3d.h100.3500@ceph" in out
    assert "3500 samples of unet3d, 513 GB" in out
    assert "training.unet3d.a100.1000@local" in out
    assert out.count("data: ") == 2  # the smaller set is the first files of the larger


@pytest.mark.parametrize("name", sorted(workload.catalogue()))
def test_every_catalogued_workload_has_a_plan(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["training", "--workload", name, "--samples", "2000", "--path", str(tmp_path), "--dry-run"]) == 0
    assert f"samples of {name}" in capsys.readouterr().out


def test_a_checkpoint_is_saved_and_loaded_with_its_memory_said_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["training", "--checkpoint", "llama3-8b", "--scale", "0.0001", "--ranks", "1,4", "--path", str(tmp_path)]
    assert main([*options, "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert "33.7 MB at a time" in captured.out
    assert "3 saves, then 3 loads, instead of MLPerf Storage's 10 and 10" in captured.err
    assert main([*options, "--no-page"]) in {0, 3}
    captured = capsys.readouterr()
    assert captured.err.startswith("llama3-8b at scale 0.0001: ")
    assert "ranks 4: save" in captured.out
    assert "ranks 1: load" in captured.out
    assert not (tmp_path / "hwdyno-checkpoint").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--workload", "unet"], "did you mean 'unet3d'"),
        (["--accelerator", "h200"], "unet3d has no accelerator 'h200'"),
        (["--path", "/no/such/place"], "is not a directory"),
        (["--profile", "slow"], "no profile is called 'slow'"),
        (["--workload", "x.yaml"], "cannot read x.yaml: no such file"),
        (["--samples", "none"], "none"),
        (["--checkpoint", "llama"], "no checkpoint is called 'llama'; did you mean 'llama3-8b'"),
        (["--checkpoint", "llama3-8b", "--scale", "2"], "must be above 0 and at most 1"),
        (["--checkpoint", "llama3-1t", "--scale", "1"], "a checkpoint of 15.1 TiB does not fit in the"),
        (["--accelerators", "0"], "--accelerators 0: must be 1"),
        (["--read-threads", "-1"], "--read-threads"),
    ],
)
def test_what_is_wrong_is_one_line(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["training", *options]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_data_set_beyond_the_room_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["training", "--samples", "100000000", "--path", str(tmp_path), "--quiet"]) == 2
    assert "GB more" in capsys.readouterr().err
    assert not list(tmp_path.glob("hwdyno-*"))


def test_the_data_of_another_workload_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = tmp_path / "train"
    train.mkdir()
    options = ["training", "--workload", "unet3d", "--path", str(tmp_path)]
    assert main(options) == 2
    assert "has no .npz file of unet3d; select that one with --workload" in capsys.readouterr().err
    (train / "img_0_of_4.tfrecord").write_bytes(b"x")
    assert main(options) == 2
    error = capsys.readouterr().err
    assert "but img_0_of_4.tfrecord: it belongs to another workload" in error
    assert error.count("\n") == 1
