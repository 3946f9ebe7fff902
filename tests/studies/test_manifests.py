"""The manifests of the study of storage classes are what Kubernetes takes, and mount what the command reads."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_store
import pytest
import yaml
from hwdyno import studies
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.model.machine import Machine, Memory
from hwdyno.model.words import PeerResult, Run, Value
from hwdyno.system.store import from_json, to_json
from made_experiment import made_experiment
from made_training import BATCH, FIXED, RECORD, point

STUDY = ["study", "kubernetes-ai-storage"]
COMPUTE_S = {"a100": 0.636, "h100": 0.323}


def of_storage_classes(rows: Mapping[tuple[str, str], float]) -> Run:
    """A Run of the study with one accelerator a row: the AU by accelerator and storage."""
    results = [
        made_experiment(
            f"training.unet3d.{name}.112@{storage}", "training", "?", "accelerators", "training_loader",
            points=(point(1, au, need_bytes_s=RECORD * BATCH / COMPUTE_S[name]),),
            fixed={
                **FIXED, "accelerator": name, "storage": storage, "compute": COMPUTE_S[name], "files": 112,
                "samples_per_file": 1,
            },
        )
        for (name, storage), au in rows.items()
    ]  # fmt: skip
    machine = Machine(memory=Memory(total_bytes=64 << 30))
    return explain(Run("x", "", "", (machine,), "", "hwdyno study", tuple(results), study=STUDY[1]))


def printed(capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, Any]]:
    assert main([*STUDY, "--manifests", "ceph=rook-ceph-block,local=emptyDir", *more]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def test_a_claim_for_each_class_and_one_job_over_all(capsys: pytest.CaptureFixture[str]) -> None:
    claim, job = printed(capsys, "--image", "registry/hwdyno:1")
    assert (claim["apiVersion"], claim["kind"]) == ("v1", "PersistentVolumeClaim")
    assert claim["spec"]["storageClassName"] == "rook-ceph-block"
    # 3500 samples of 146.6 MB are 478 GiB, and a quarter more
    assert claim["spec"]["resources"]["requests"]["storage"] == "600Gi"
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    pod = job["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    (container,) = pod["containers"]
    assert container["image"] == "registry/hwdyno:1"
    names = {volume["name"]: volume for volume in pod["volumes"]}
    assert names["ceph"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert "emptyDir" in names["local"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounts) == set(names)
    typed = shlex.split(container["command"][2])
    paths = dict(word.split("=") for word, before in zip(typed[1:], typed, strict=False) if before == "--path")
    assert paths == mounts


def test_the_command_in_them_is_one_that_is_understood(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    _, job = printed(capsys, "--samples", "63", "--profile", "quick")
    typed = shlex.split(job["spec"]["template"]["spec"]["containers"][0]["command"][2])
    typed = typed[1 : typed.index("||")]
    for name in ("ceph", "local"):
        (tmp_path / name).mkdir()
    assert main([*(word.replace("/storage", str(tmp_path)) for word in typed), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert out.count("data: 63 samples of unet3d") == 2
    assert "training.unet3d.h100.63@ceph" in out


def test_run_outlives_its_pod(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([*STUDY, "--manifests", "local=emptyDir,ceph=rook-ceph-block"]) == 0
    text = capsys.readouterr().out
    (container,) = list(yaml.safe_load_all(text))[1]["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "HWDYNO_HOME", "value": "/storage/ceph/hwdyno-runs"}]
    typed = shlex.split(container["command"][2])
    assert "--json" in typed and typed[typed.index("--summary") + 1] == "/storage/ceph/hwdyno-summary"
    # A log has the progress, too; the line of the header gets the document out of it.
    document = to_json(made_store.run())
    log = tmp_path / "log"
    log.write_text(f"data: 42 samples of unet3d\n{document}\nexit status 3: the Run is degraded\n")
    fetch = next(line.partition("outlive: ")[2] for line in text.splitlines() if "kubectl logs" in line)
    shell = fetch.replace(f"kubectl logs job/hwdyno-{STUDY[1]}", f"cat {log}")
    subprocess.run(["sh", "-c", shell], cwd=tmp_path, check=True)
    assert from_json((tmp_path / "run.json").read_bytes()) == made_store.run()
    assert main(["report", str(tmp_path / "run.json")]) == 0


def test_runs_of_jobs_are_one_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    names = []
    for storage in ("ceph", "weka"):
        run = of_storage_classes({("a100", storage): 0.95})
        names.append(tmp_path / f"{storage}.json")
        names[-1].write_text(to_json(run))
    words = [word for name in names for word in ("--merge", str(name))]
    assert main([*STUDY, *words]) == 0
    out = capsys.readouterr().out
    assert "ceph, weka feed it" in out and out.count("A100") >= 2
    assert main(["study", "sata-ssd-queue", *words]) == 2
    assert "is a Run of kubernetes-ai-storage, not of sata-ssd-queue" in capsys.readouterr().err


def test_fio_grid_runs_on_each_storage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("ceph", "local"):
        (tmp_path / name).mkdir()
    paths = [word for name in ("ceph", "local") for word in ("--path", f"{name}={tmp_path / name}")]
    parts = [*paths]
    assert main([*STUDY, *parts, "--dry-run", "--peers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in ("ceph", "local"):
        assert sum(line.startswith(f"storage.grid@{name} ") for line in lines) == 5 * 2 * 2
        assert any("fio's grid: " in line and f"/{name}/hwdyno-fio-grid/data" in line for line in lines)
    # Two storages with fio beside are planned to end within five minutes, too.
    took = re.search(r"at least (?:(\d) min)?(?: ?(\d+) s)?,", lines[-1])
    assert took is not None and 60 * int(took[1] or 0) + int(took[2] or 0) < 300, lines[-1]
    assert main([*STUDY, *parts, "--dry-run", "--no-grid"]) == 0
    assert "storage.grid" not in capsys.readouterr().out
    points = [made_store.point(at, 1e8 * at) for at in (1, 2)]
    grid = replace(made_store.experiment(*points, name="storage.grid@ceph"), resource="storage")
    theirs = PeerResult("fio", "fio-3.33", 1, Value(1.5e8, "bytes/s"), None)
    run = replace(made_store.run(replace(grid, peers=(theirs,))), study=STUDY[1])
    table = next(candidate for candidate in studies.tables(run) if candidate.title == "fio's grid by storage")
    assert [(row[0], row[4], row[7]) for row in table.rows] == [("ceph", "100", "-"), ("ceph", "200", "150")]


@pytest.mark.parametrize(("storages", "peers"), [(1, True), (3, False), (4, True)])
def test_quick_is_planned_to_end_within_five_minutes_however_many_storages_there_are(
    storages: int, peers: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = [*STUDY]
    for at in range(storages):
        (tmp_path / str(at)).mkdir()
        words += ["--path", f"s{at}={tmp_path / str(at)}"]
    assert main([*words, "--dry-run", *(["--peers"] if peers else [])]) == 0
    out = capsys.readouterr().out
    took = re.search(r"at least (?:(\d) min)?(?: ?(\d+) s)?,", out.splitlines()[-1])
    assert took is not None and 60 * int(took[1] or 0) + int(took[2] or 0) < 300, out.splitlines()[-1]
    for at in range(storages):
        for part in ("training.unet3d.h100.112", "storage.grid", "inference.cold_start", "inference.restore"):
            assert f"\n{part}@s{at} " in out, "no storage and no part is left out"


def test_no_accelerator_is_fed_less_than_one_that_needs_more() -> None:
    """A reading that something else slowed is no limit of the storage: what feeds an H100 feeds an A100."""
    run = of_storage_classes({("a100", "local"): 0.70, ("h100", "local"): 0.95})
    says = {found.evidence["headline"]["title"]: found.says for found in run.findings if "headline" in found.evidence}
    (slower,) = (text for title, text in says.items() if "A100s fed" in title)
    assert "feeds 1 a100" in slower and "fed 1 h100, which need more" in slower
    assert "feeds 0" not in " ".join(says.values())
    sentences = " ".join(studies.observations(run))
    assert "A100 on unet3d: local (it feeds H100, which needs more) feeds it" in sentences
    other = of_storage_classes({("a100", "local"): 0.70, ("h100", "ceph"): 0.95})
    assert any("feeds 0 a100" in found.says for found in other.findings)


def test_a_smaller_data_set_is_the_first_files_of_the_larger(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    assert main([*STUDY, "--samples", "63,112", "--path", str(tmp_path), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert out.count("data: ") == 1 and "data: 112 samples of unet3d" in out
    assert "training.unet3d.a100.63@" in out and "training.unet3d.a100.112@" in out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--manifests", "ceph"], "must be NAME=CLASS"),
        (["--manifests", "Ceph=x"], "is not a Kubernetes name"),
        (["--manifests", "a=x,a=y"], "names 'a' twice"),
        (["--manifests", "a=x", "--samples", "many"], "must be whole numbers"),
    ],
)
def test_what_is_wrong_is_one_line(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*STUDY, *options]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_other_studies_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "sata-ssd-queue", "--manifests", "a=x"]) == 2
    assert "has no manifests" in capsys.readouterr().err
