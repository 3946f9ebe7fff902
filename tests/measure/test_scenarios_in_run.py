"""Scenarios as a part of ``hwdyno run``: a plan file mixes them with experiments, and Ctrl-C leaves nothing of them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from here import shortly
from hwdyno.cli.main import main
from hwdyno.measure import plan
from scenario_commands import place as place

SMALL = """
path = "{path}"
budget = "60s"
[[experiment]]
name = "training.accelerators"
options = {{ workload = "cosmoflow", accelerator = "a100", samples = 8 }}
axes = {{ accelerators = "1,2" }}
[[experiment]]
name = "training.checkpoint"
options = {{ scale = 0.0001, ranks = "2" }}
[[experiment]]
name = "inference.vector_search"
axes = {{ vectors = "500", dim = "24", queries = "20", threads = "1" }}
[[experiment]]
name = "inference.kv_cache"
options = {{ scale = 0.0005 }}
axes = {{ users = "1", capacity = "16M", think = "0" }}
[[experiment]]
name = "compute.threads"
"""


@pytest.mark.machine
def test_plan_file_mixes_scenarios_and_experiments(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plan.PROFILES, "quick", replace(plan.PROFILES["quick"], runtime_s=0.1, repeats_max=3))
    file = place.parent / "plan.toml"
    file.write_text(SMALL.format(path=place))
    (place / "mine").write_text("stays")
    assert main(["run", str(file), "--dry-run", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "data: 8 samples of cosmoflow" in out and "index: diskann of 500 vectors" in out
    assert "checkpoints: 3" in out and "at most 16.8 MB at a time, written by its points" in out
    assert [path.name for path in place.iterdir()] == ["mine"]
    assert main(["run", str(file), "--quiet", "--json", "--no-page"]) in {0, 3}
    run = json.loads(capsys.readouterr().out)
    named = {experiment["name"]: experiment for experiment in run["experiments"]}
    assert list(named) == [
        "training.cosmoflow.a100", "storage.pattern.cosmoflow", "training.checkpoint.llama3-8b",
        "inference.vector_search.diskann", "inference.kv_cache.llama3.1-8b", "compute.threads",
    ]  # fmt: skip
    assert all(experiment["points"] for experiment in named.values())
    assert [point["parameters"]["accelerators"] for point in named["training.cosmoflow.a100"]["points"]] == [1, 2]
    assert [path.name for path in place.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('name = "training.accelerators"\noptions = { samplez = 3 }', "training has no option 'samplez'"),
        ('name = "storage.grid"\noptions = { samples = 3 }', "storage.grid takes no options"),
        ('name = "training.checkpoint"\noptions = { checkpoint = "llama" }', "no checkpoint is called 'llama'"),
        ('name = "training.checkpoint"\noptions = { scale = "much" }', "scale = 'much' is of the wrong type"),
        ('name = "training.client"\noptions = { keep = 1 }', "keep = 1 is of the wrong type"),
        ('name = "training.client"\noptions = { samples = [4, "x"] }', "samples"),
        ('name = "inference.kv_cache"\naxes = { epochs = 3 }', "has no parameter 'epochs'"),
    ],
)
def test_what_is_wrong_in_a_plan_file_is_one_line(
    text: str, says: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "plan.toml").write_text(f'path = "{place}"\n[[experiment]]\n{text}\n')
    assert main(["run", str(place / "plan.toml")]) == 2
    printed = capsys.readouterr()
    assert says in printed.err and printed.err.count("\n") == 1 and not printed.out
    assert [path.name for path in place.iterdir()] == ["plan.toml"]


@pytest.mark.machine
def test_run_only_names_resources_and_writes_nothing_in_a_dry_run(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--only", "training,inference,network", "--path", str(place), "--dry-run", "--quiet"]) == 0
    out = capsys.readouterr().out
    for words in (
        "training.cosmoflow.h100",
        "inference.vector_search.diskann",
        "network.",
        "data: ",
        "index: ",
        "KV cache: ",
    ):
        assert words in out
    assert not list(place.iterdir())
    assert main(["run", "--only", "training.client", "--path", str(place), "--dry-run", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "training.client.cosmoflow" in out and "storage.pattern" not in out and "training.cosmoflow" not in out


FEW_SAMPLES = """
[[experiment]]
name = "training.accelerators"
options = { workload = "cosmoflow", accelerator = "a100", samples = 8 }
"""


@pytest.mark.machine
@pytest.mark.parametrize("at", shortly(1, "measuring", "generating"))
def test_ctrl_c_leaves_nothing_of_a_run(at: str, place: Path) -> None:
    file = place.parent / "plan.toml"
    file.write_text(FEW_SAMPLES)
    # What generates must do so for long enough to be interrupted; what measures needs few samples.
    planned = ["--only", "training"] if at == "generating" else [str(file)]
    process = subprocess.Popen(
        [sys.executable, "-m", "hwdyno", "run", *planned, "--path", str(place), "--json", "--no-page"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    until = "generating" if at == "generating" else "training.cosmoflow"
    line = next(line for line in process.stderr if until in line)
    assert line
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert not list(place.iterdir())
    if at == "measuring":
        assert json.loads(out)["interrupted"] is True


@pytest.mark.machine
def test_ctrl_c_while_an_index_is_built_leaves_nothing(place: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "hwdyno", "inference", "--vector-search", "diskann", "--vectors", "200000", "--path",
         str(place)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert any("building the diskann index" in line for line in iter(process.stderr.readline, ""))
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted while the index was built" in err
    assert not list(place.iterdir())
