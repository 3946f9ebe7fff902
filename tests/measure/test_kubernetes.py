"""Manifests hold against the published schemas, and a measurement leaves its Run here and nothing in the cluster."""

from __future__ import annotations

import contextlib
import importlib.util
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cluster
import made_store
import pytest
import yaml
from here import missing, needs
from hwdyno.cli.main import main
from hwdyno.measure.kubernetes import follow
from hwdyno.measure.kubernetes.follow import read_state, runs_in
from hwdyno.measure.kubernetes.volumes import parse_volumes, volume_bytes
from hwdyno.model.words import UserError
from hwdyno.system.store import Store, to_json

HAS_SCHEMAS = importlib.util.find_spec("kubernetes_validate") is not None
RELEASES = ("1.25", "1.28", "1.31", "1.34", "1.37")
MEASURES = ("--", "storage", "--rw", "randread", "--iodepth", "1,8")
FORMS: dict[str, tuple[str, ...]] = {
    "claim": ("--storage", "claim:mine"),
    "class": ("--storage", "class:rook-ceph-block"),
    "node's own disk": ("--storage", "emptyDir", "--on", "kubernetes.io/hostname=node7"),
    "ephemeral": ("--storage", "ephemeral:local-nvme", "--clients", "4", "--spread"),
    "csi": ("--storage", "csi:secrets.example.io;tier=fast"),
    "block": ("--storage", "class:raw", "--mode", "block", "--access", "RWOP"),
    "many": ("--storage", "class:cephfs", "--access", "RWX", "--clients", "3", "--spread", "--time", "10m"),
    "mpi": ("--storage", "class:cephfs", "--access", "RWX", "--clients", "3", "--form", "mpi", "--time", "10m"),
}


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    pasted = () if "--" in words else MEASURES
    assert main(["kubernetes", "manifest", *words, *pasted]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def find_pod(documents: list[dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = documents[-1]["spec"]
    whole = spec["template"] if "template" in spec else spec["mpiReplicaSpecs"]["Launcher"]["template"]
    pod: dict[str, Any] = whole["spec"]
    return pod


# --- manifests


@needs(HAS_SCHEMAS, "the schemas are not installed")
@pytest.mark.parametrize("release", RELEASES)
def test_every_document_fits_the_schema(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    import kubernetes_validate

    for words in FORMS.values():
        for document in printed(capsys, *words):
            if document["kind"] != "MPIJob":
                kubernetes_validate.validate(document, release, strict=True)
                continue
            # Kubeflow's own kind is not Kubernetes'; its pods are.
            for replica in document["spec"]["mpiReplicaSpecs"].values():
                pod = {"apiVersion": "v1", "kind": "Pod", **replica["template"]}
                kubernetes_validate.validate(pod, release, strict=True)
    job = printed(capsys)[-1]
    job["spec"]["completionmode"] = "Indexed"
    with pytest.raises(kubernetes_validate.ValidationError, match="completionmode"):
        kubernetes_validate.validate(job, release, strict=True)


@pytest.mark.parametrize("form", FORMS)
def test_no_pod_has_a_right_that_it_does_not_need(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    pod = find_pod(printed(capsys, *FORMS[form]))
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"] and not pod["automountServiceAccountToken"]
    assert container["resources"]["requests"] == container["resources"]["limits"], "guaranteed"
    assert pod["restartPolicy"] == "Never"
    mounts = {mount["name"] for mount in (*container["volumeMounts"], *container.get("volumeDevices", ()))}
    assert mounts == {volume["name"] for volume in pod["volumes"]}, "what is there is mounted"


def test_each_kind_of_storage_is_the_volume_that_kubernetes_has_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    def volume(form: str) -> dict[str, Any]:
        volumes: list[dict[str, Any]] = find_pod(printed(capsys, *FORMS[form]))["volumes"]
        return volumes[-1]

    assert volume("claim")["persistentVolumeClaim"] == {"claimName": "mine"}
    claim, *_, job = printed(capsys, *FORMS["class"])
    assert claim["spec"]["storageClassName"] == "rook-ceph-block" and job["kind"] == "Job"
    assert volume("class")["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert volume("ephemeral")["ephemeral"]["volumeClaimTemplate"]["spec"]["storageClassName"] == "local-nvme"
    assert volume("csi")["csi"] == {"driver": "secrets.example.io", "volumeAttributes": {"tier": "fast"}}
    assert set(volume("node's own disk")["emptyDir"]) == {"sizeLimit"}, "on a disk, and bounded"
    raw, *_, job = printed(capsys, *FORMS["block"])
    assert raw["spec"]["volumeMode"] == "Block" and raw["spec"]["accessModes"] == ["ReadWriteOncePod"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["volumeDevices"] == [{"name": "data", "devicePath": "/dev/hwdyno-data"}]
    assert "--path /dev/hwdyno-data" in container["command"][2]


def test_data_exceeds_pod_memory(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    claim, job = printed(capsys, *FORMS["class"], "--memory", "3Gi")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    words = shlex.split(container["command"][2])
    assert int(words[words.index("--size") + 1]) == 2 * (3 << 30)
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi" == f"{volume_bytes(6 << 30) >> 30}Gi"
    typed = [word.replace("/storage/data", str(tmp_path)) for word in words[1 : words.index("||")]]
    assert main([*typed, "--dry-run"]) == 0, "the pod's command is one that is understood"
    capsys.readouterr()
    given = find_pod(printed(capsys, *FORMS["class"], *MEASURES, "--size", "1G"))["containers"][0]["command"][2]
    assert given.count("--size") == 1, "what the command says stands"


def test_pods_of_an_indexed_job_are_ranks_that_find_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    from hwdyno.measure.hosts.launch import ByAddress, find_launch, host_name

    documents = {document["kind"]: document for document in printed(capsys, *FORMS["many"], "--name", "io")}
    job, service, secret = (documents[kind] for kind in ("Job", "Service", "Secret"))
    assert (job["spec"]["completionMode"], job["spec"]["completions"], job["spec"]["parallelism"]) == ("Indexed", 3, 3)
    assert job["spec"]["backoffLimit"] == 0 and job["spec"]["activeDeadlineSeconds"] == 600
    pod = job["spec"]["template"]["spec"]
    assert service["spec"]["clusterIP"] == "None" and pod["subdomain"] == service["metadata"]["name"]
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    (spread,) = pod["topologySpreadConstraints"]
    assert (
        spread["whenUnsatisfiable"] == "DoNotSchedule"
        and spread["labelSelector"]["matchLabels"].items() <= labels.items()
    )
    given = {variable["name"]: variable.get("value", "") for variable in pod["containers"][0]["env"]}
    given |= {"HWDYNO_SECRET": secret["stringData"]["secret"], "JOB_COMPLETION_INDEX": "2", "HWDYNO_NODE": "node7"}
    launch = find_launch(given)
    assert isinstance(launch, ByAddress) and (launch.rank, launch.size) == (2, 3)
    assert launch.meeting.address == "io-0.io" and host_name(given) == "node7"


def test_an_mpi_job_starts_its_ranks_on_its_workers(capsys: pytest.CaptureFixture[str]) -> None:
    job = printed(capsys, *FORMS["mpi"])[-1]
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    assert job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 3 and job["spec"]["slotsPerWorker"] == 1
    (launcher,) = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    assert launcher["command"][2].startswith("mpirun -n 3 ") and " hwdyno storage " in launcher["command"][2]
    assert job["spec"]["runPolicy"]["activeDeadlineSeconds"] == 600


def test_several_classes_in_one_command_make_the_studys_table(capsys: pytest.CaptureFixture[str]) -> None:
    storages = "ceph=class:rook-ceph-block,weka=class:weka,local=emptyDir"
    documents = printed(capsys, "--storage", storages, "--", "study", "kubernetes-ai-storage", "--profile", "quick")
    assert [document["kind"] for document in documents] == ["PersistentVolumeClaim", "PersistentVolumeClaim", "Job"]
    typed = find_pod(documents)["containers"][0]["command"][2]
    assert all(f"--path {name}=/storage/{name}" in typed for name in ("ceph", "weka", "local"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--storage", "class:a", "--clients", "2"), "use --access RWX, or --storage ephemeral:a"),
        (("--storage", "emptyDir:Memory"), "is memory, no storage"),
        (("--storage", "nfs"), "must be claim:NAME"),
        (("--storage", "a=class:x,a=class:y"), "names 'a' twice"),
        (("--storage", "a=class:x,b=class:y"), "2 storages are for a study"),
        (("--storage", "emptyDir", "--mode", "block"), "--mode block needs a claim"),
        (("--form", "job", "--clients", "2"), "--form job has one pod"),
        (("--form", "mpi"), "--form mpi is for several clients"),
        (("--name", "Mine"), "is not a Kubernetes name"),
        (("--memory", "lots"), "use whole numbers"),
        (("--on", "zone"), "must be LABEL=VALUE"),
        (("--on", "zone=a b"), "is no label of a node"),
        (("--storage", "class:x", "--volume-size", "1G"), "is less than the data file's"),
        (("--clients", "0"), "must be from 1"),
        (("--", "hwdyno", "storage"), "is no command of hwdyno"),
    ],
)
def test_what_no_pod_could_do_is_refused_in_one_line(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pasted = () if "--" in words else MEASURES
    assert main(["kubernetes", "manifest", *words, *pasted]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_names_of_storages_are_kept_apart() -> None:
    assert [volume.name for volume in parse_volumes("a=claim:x,b=emptyDir")] == ["a", "b"]
    assert (parse_volumes("claim:x")[0].name, parse_volumes("claim:x")[0].kind) == ("data", "claim")
    with pytest.raises(UserError):
        parse_volumes("csi:x;novalue")


# --- where a measurement is


def test_a_pod_that_waits_in_vain_is_named_with_the_clusters_own_reason() -> None:
    job: dict[str, Any] = {"kind": "Job", "metadata": {"name": "j"}, "status": {"active": 1}}
    message = "0/3 nodes are available: 3 Insufficient memory."
    unplaced = {
        "metadata": {"name": "j-0"},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}],
        },
    }
    state = read_state(job, [unplaced])
    assert state.stuck and not state.ended and state.says == f"1 pending: j-0 waits: {message}"
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}
    pulling = {
        "metadata": {"name": "j-0"},
        "status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": waiting}}]},
    }
    assert 'ImagePullBackOff: Back-off pulling image "x"' in read_state(job, [pulling]).says
    starting = {"metadata": {"name": "j-0"}, "status": {"phase": "Pending", "containerStatuses": [
        {"state": {"waiting": {"reason": "ContainerCreating"}}}
    ]}}  # fmt: skip
    assert not read_state(job, [starting]).stuck and read_state(job, []).says == "no pod yet"


def test_a_pod_that_was_killed_for_memory_is_said_so() -> None:
    job = {"status": {"conditions": [{"type": "Failed", "status": "True", "message": "backoff limit"}]}}
    ended = {"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    pod = {"metadata": {"name": "j-1"}, "status": {"phase": "Failed", "containerStatuses": [ended]}}
    assert read_state(job, [pod]).failed == "j-1 ended with status 137 (OOMKilled)"
    assert read_state(job, []).failed == "backoff limit"


def test_runs_are_found_in_a_log_among_other_lines() -> None:
    document = to_json(made_store.run())
    assert runs_in(f"started\n{document}\nexit status 3\n") == [made_store.run()]
    assert runs_in(f"1: {document}") == [made_store.run()], "mpirun may tag lines"
    assert runs_in(document[: len(document) // 2]) == [] and runs_in('{"some": "json"}') == []


# --- the whole way, by the real kubectl


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[cluster.State]:
    if shutil.which("kubectl") is None:
        missing("kubectl")
    monkeypatch.setattr(follow, "POLL_S", 0.05)
    with cluster.served(tmp_path) as (state, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        state.logs["0"] = f"1 point done\n{to_json(made_store.run())}"
        yield state


RUN = ("kubernetes", "run", "--storage", "class:cephfs", "--access", "RWX", "--clients", "2")


@pytest.mark.machine
def test_one_command_applies_follows_stores_the_run_and_leaves_nothing(
    api: cluster.State, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    assert main([*RUN, "--store", str(store), *MEASURES]) in {0, 3}
    out, err = capsys.readouterr()
    kinds = ["persistentvolumeclaims/hwdyno-data", "services/hwdyno", "secrets/hwdyno", "jobs/hwdyno"]
    assert api.made == kinds and sorted(api.removed) == sorted(kinds) and not api.objects
    run = made_store.run()
    assert Store(store).load(run.id) == run and f"run {run.id}: hwdyno report {run.id}" in out
    assert "Job hwdyno is made" in err and "2 running" in err and "done" in err


@pytest.mark.machine
def test_a_pod_that_fails_is_named_with_the_end_of_its_log(
    api: cluster.State, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.exit_code, api.logs["0"] = 2, "hwdyno: --path /storage/data: Permission denied"
    assert main([*RUN, "--store", str(tmp_path / "store"), *MEASURES]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("hwdyno:")]
    assert len(lines) == 1 and "hwdyno-0-x7k2p ended with status 2" in lines[0] and "Permission denied" in lines[0]
    assert not api.objects


@pytest.mark.machine
def test_refused_objects_are_removed(api: cluster.State, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    api.refuses = "jobs"
    assert main([*RUN, "--store", str(tmp_path / "store"), *MEASURES]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("hwdyno:")]
    assert len(lines) == 1 and 'User "ci" cannot create jobs' in lines[0]
    assert len(api.made) == 3 and not api.objects


@pytest.mark.machine
def test_a_kind_that_the_cluster_lacks_is_named_with_the_way_out(
    api: cluster.State, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.lacks = "kubeflow.org/v2beta1"
    words = ("kubernetes", "run", *FORMS["mpi"], "--store", str(tmp_path / "store"))
    assert main([*words, *MEASURES]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("hwdyno:")]
    says = "the cluster has no MPIJob (kubeflow.org/v2beta1): install its operator, or use another --form"
    assert lines == [f"hwdyno: {says}"]
    assert not api.objects


@pytest.mark.machine
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_removes_all_that_was_made(api: cluster.State, tmp_path: Path, how: signal.Signals) -> None:
    api.ends_after = 10**6
    command = [sys.executable, "-m", "hwdyno", *RUN, "--store", str(tmp_path / "store"), *MEASURES]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stderr is not None and any("is made" in line for line in process.stderr)
        process.send_signal(how)
        process.communicate(timeout=60)
        assert process.returncode == 128 + how and not api.objects
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


@pytest.mark.machine
def test_what_a_killed_run_left_is_removed_by_one_command(
    api: cluster.State, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.ends_after = 10**6
    command = [sys.executable, "-m", "hwdyno", *RUN, "--store", str(tmp_path / "store"), *MEASURES]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None and any("is made" in line for line in process.stderr)
        process.kill()
    assert len(api.objects) == 4
    assert main(["kubernetes", "clean"]) == 0 and not api.objects
    assert main(["kubernetes", "clean"]) == 0, "and nothing is no fault"


def test_missing_kubectl_names_the_alternative(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("HWDYNO_KUBECTL", raising=False)
    assert main([*RUN, *MEASURES]) == 2
    error = capsys.readouterr().err
    assert "kubectl is not installed" in error and error.count("\n") == 1


def test_a_cluster_that_is_not_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gone = tmp_path / "kubectl"
    gone.write_text(
        "#!/bin/sh\necho 'E1 memcache.go' >&2\necho 'Unable to connect to the server: refused' >&2\nexit 1\n"
    )
    gone.chmod(0o755)
    monkeypatch.setenv("HWDYNO_KUBECTL", str(gone))
    assert main([*RUN, *MEASURES]) == 2
    error = capsys.readouterr().err
    lines = [line for line in error.splitlines() if line.startswith("hwdyno:")]
    assert lines == ["hwdyno: kubectl create: Unable to connect to the server: refused"]
    assert "may be left in the cluster" in error and "hwdyno kubernetes clean --name hwdyno" in error


@pytest.mark.parametrize(
    ("printed", "why"), [(r"\377\376", "is not JSON"), ("{", "is not JSON"), ("%0100000d", "is not JSON|out of range")]
)
def test_what_kubectl_prints_besides_json_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, why: str
) -> None:
    fake = tmp_path / "kubectl"
    fake.write_text(f"#!/bin/sh\nprintf '{printed}' 7\n")
    fake.chmod(0o755)
    monkeypatch.setenv("HWDYNO_KUBECTL", str(fake))
    cluster = follow.Cluster(None)
    with pytest.raises(UserError, match=f"what kubectl printed (?:{why}|has a number {why})"):
        cluster.get("job", "x")
    assert follow.runs_in(cluster.log("pod")) == []
