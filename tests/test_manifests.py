"""The manifests of the study of storage classes are what Kubernetes takes, and mount what the command reads."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import yaml
from hwdyno.cli.main import main

STUDY = ["study", "kubernetes-ai-storage"]


def printed(capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, Any]]:
    assert main([*STUDY, "--manifests", "ceph=rook-ceph-block,local=emptyDir", *more]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def test_a_claim_for_each_class_and_one_job_over_all(capsys: pytest.CaptureFixture[str]) -> None:
    claim, job = printed(capsys, "--image", "registry/hwdyno:1")
    assert (claim["apiVersion"], claim["kind"]) == ("v1", "PersistentVolumeClaim")
    assert claim["spec"]["storageClassName"] == "rook-ceph-block"
    # 3500 samples of 146.6 MB are 478 GiB, and a quarter more
    assert claim["spec"]["resources"]["requests"]["storage"] == "599Gi"
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
    assert "training.unet3d.h100.63@ceph" in out or "training.unet3d.h100@ceph" in out


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
