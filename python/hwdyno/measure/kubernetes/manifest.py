"""The documents of a measurement: a Job, an Indexed Job whose pods are ranks, or an MPIJob."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hwdyno import __version__
from hwdyno.measure.kubernetes.volumes import (
    ACCESS,
    INSTANCE,
    LABEL,
    NAME,
    Access,
    Document,
    Volume,
    claim,
    claim_spec,
    pod_volume,
    quantity,
    volume_bytes,
)
from hwdyno.model.units import format_size, parse_size
from hwdyno.model.words import UserError

Form = Literal["job", "indexed", "mpi"]
IMAGE = f"hwdyno:{__version__}"
PORT = 5210
USER = 65532
"""The image's, which is no one's elsewhere."""
TIMES_MEMORY = 2
"""A data file this many times the pod's memory cannot stay in its page cache, which is charged to the pod."""
STUDY = "study"
_DEGRADED_IS_DONE = "|| test $? -eq 3"
"""Status 3 is a Run that is done, but with degraded points, as its report says: no failed Job."""
PLAN, STORE, STORE_SIZE = "/plan/plan.toml", "/store", "1Gi"
"""Where a watching pod finds its plan file and keeps its Runs, and the room for these."""
_CPU = re.compile(r"[1-9][0-9]{0,4}")
_MEMORY = re.compile(r"[1-9][0-9]{0,6}(Mi|Gi)")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,240}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be measured in which pods."""

    words: tuple[str, ...]
    """The command, without ``hwdyno``."""
    name: str = "hwdyno"
    form: Form = "job"
    clients: int = 1
    volumes: tuple[Volume, ...]
    size_bytes: int | None = None
    """Size of each volume that is made; by the data if none."""
    access: Access = "ReadWriteOnce"
    block: bool = False
    """Whether the volumes are raw devices."""
    image: str = IMAGE
    cpu: str = "4"
    memory: str = "8Gi"
    spread: bool = False
    """Whether each pod is on a separate node."""
    on: dict[str, str] = field(default_factory=dict)
    """Labels of the nodes that pods may be on."""
    limit_s: int | None = None

    @property
    def memory_bytes(self) -> int:
        """The pod's memory."""
        return parse_size(f"{self.memory}B")

    @property
    def data_bytes(self) -> int:
        """The data file that a measurement of storage lays out: twice the pod's memory, or what the command says."""
        given = _option(self.words, "--size")
        return TIMES_MEMORY * self.memory_bytes if given is None else parse_size(given)


def make_documents(wanted: Wanted) -> list[Document]:
    """All documents in the order in which they are made; raises ``UserError`` for what no pod could do."""
    _check(wanted)
    labels = {NAME: "hwdyno", INSTANCE: wanted.name}
    size = quantity(wanted.size_bytes or volume_bytes(wanted.data_bytes))
    claims = [
        claim(_claim_name(wanted, volume), labels, claim_spec(volume.of, size, wanted.access, block=wanted.block))
        for volume in wanted.volumes
        if volume.kind == "class"
    ]
    if wanted.form == "mpi":
        return [*claims, _mpi_job(wanted, labels, size)]
    if wanted.clients == 1:
        return [*claims, _job(wanted, labels, _pod(wanted, labels, size, _measures(wanted)))]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": wanted.name, "labels": dict(labels)},
        # Ranks look for each other before they are ready.
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": dict(labels)},
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": wanted.name, "labels": dict(labels)},
        "stringData": {"secret": secrets.token_hex(16)},
    }
    pod = _pod(wanted, labels, size, _measures(wanted), _ranks(wanted))
    pod["spec"]["subdomain"] = wanted.name
    job = _job(wanted, labels, pod)
    job["spec"] |= {"completions": wanted.clients, "parallelism": wanted.clients, "completionMode": "Indexed"}
    return [*claims, service, secret, job]


def make_cron_job(wanted: Wanted, schedule: str, plan: str, *, keeps: bool) -> list[Document]:
    """A CronJob of a command that judges its Runs by the earlier ones, on one node; raises ``UserError``.

    ``plan`` is the text of the plan file that the pod finds at ``PLAN``, empty for none. What ``keeps`` its Runs has a
    claim for them.
    """
    _check(wanted)
    labels = {NAME: "hwdyno", INSTANCE: wanted.name}
    made: list[Document] = []
    line = shlex.join(["hwdyno", *wanted.words])
    size = quantity(volume_bytes(wanted.data_bytes))
    pod = _pod(wanted, labels, size, ["sh", "-c", f"{line} {_DEGRADED_IS_DONE}"])
    # A history is of one machine, which is the node and not each of its pods.
    pod["spec"]["hostname"] = wanted.on[HOSTNAME].partition(".")[0]
    if plan:
        folder, _, name = PLAN.rpartition("/")
        made.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"{wanted.name}-plan", "labels": dict(labels)},
                "data": {name: plan},
            }
        )
        _mount(pod, "plan", folder, {"configMap": {"name": f"{wanted.name}-plan"}})
    if keeps:
        name = f"{wanted.name}-store"
        spec = {"accessModes": [ACCESS["RWO"]], "resources": {"requests": {"storage": STORE_SIZE}}}
        made.append(claim(name, labels, spec))
        _mount(pod, "store", STORE, {"persistentVolumeClaim": {"claimName": name}})
        variables = pod["spec"]["containers"][0]["env"]
        next(variable for variable in variables if variable["name"] == "HWDYNO_HOME")["value"] = STORE
    job = _job(wanted, labels, pod)
    return [
        *made,
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": wanted.name, "labels": dict(labels)},
            # Two turns at once would measure one another.
            "spec": {"schedule": schedule, "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job["spec"]}},
        },
    ]


def _mount(pod: Document, name: str, path: str, source: Document) -> None:
    pod["spec"]["volumes"].append({"name": name, **source})
    pod["spec"]["containers"][0]["volumeMounts"].append({"name": name, "mountPath": path})


def _check(wanted: Wanted) -> None:
    if not LABEL.fullmatch(wanted.name):
        raise UserError(f"--name '{wanted.name}' is not a Kubernetes name; use lower-case letters, digits and -")
    if wanted.form == "job" and wanted.clients > 1:
        raise UserError("--form job has one pod; use --form indexed or mpi for several clients")
    if wanted.form == "mpi" and wanted.clients < 2:
        raise UserError("--form mpi is for several clients; add --clients 4")
    shared = [volume for volume in wanted.volumes if volume.kind == "class"]
    if wanted.clients > 1 and shared and wanted.access != ACCESS["RWX"]:
        raise UserError(
            f"{wanted.clients} clients cannot share a claim of {shared[0].of} as {wanted.access}; use --access RWX, or "
            f"--storage ephemeral:{shared[0].of} for a volume each"
        )
    if wanted.block and any(volume.kind in {"emptyDir", "csi"} for volume in wanted.volumes):
        raise UserError("--mode block needs a claim, a class or an ephemeral volume; emptyDir and csi are filesystems")
    if len(wanted.volumes) > 1 and wanted.words[0] != STUDY:
        raise UserError(f"{len(wanted.volumes)} storages are for a study; give {wanted.words[0]} one --storage")
    if not _CPU.fullmatch(wanted.cpu) or not _MEMORY.fullmatch(wanted.memory):
        raise UserError(f"--cpu {wanted.cpu} --memory {wanted.memory}: use whole numbers, and Mi or Gi")
    for key, value in wanted.on.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            raise UserError(f"--on '{key}={value}' is no label of a node; kubectl get nodes --show-labels lists them")
    if wanted.size_bytes is not None and wanted.size_bytes < wanted.data_bytes and wanted.words[0] == "storage":
        raise UserError(
            f"--volume-size {format_size(wanted.size_bytes)} is less than the data file's "
            f"{format_size(wanted.data_bytes)}; use a larger one, or a smaller --size after --"
        )


def _option(words: Sequence[str], name: str) -> str | None:
    """An option's value among a command's words."""
    for at, word in enumerate(words):
        if word == name and at + 1 < len(words):
            return words[at + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


def pod_command(wanted: Wanted) -> list[str]:
    """The command that a pod runs: on its storage, with data beyond its memory, and the Run on its output."""
    words = list(wanted.words)
    if words[0] == STUDY:
        paths = [
            word for volume in wanted.volumes for word in ("--path", f"{volume.name}={volume.path(block=wanted.block)}")
        ]
    else:
        paths = ["--path", wanted.volumes[0].path(block=wanted.block)]
    if _option(words, "--path") is not None:
        paths = []
    size = ["--size", str(wanted.data_bytes)] if words[0] == "storage" and _option(words, "--size") is None else []
    return ["hwdyno", *words, *paths, *size, "--no-page", "--quiet", "--json"]


def _measures(wanted: Wanted) -> list[str]:
    return ["sh", "-c", f"{shlex.join(pod_command(wanted))} {_DEGRADED_IS_DONE}"]


def _ranks(wanted: Wanted) -> list[Document]:
    """What makes ranks of an Indexed Job's pods (``JOB_COMPLETION_INDEX`` is Kubernetes' own)."""
    return [
        {"name": "HWDYNO_RENDEZVOUS", "value": f"{wanted.name}-0.{wanted.name}:{PORT}"},
        {"name": "HWDYNO_RANKS", "value": str(wanted.clients)},
        {"name": "HWDYNO_SECRET", "valueFrom": {"secretKeyRef": {"name": wanted.name, "key": "secret"}}},
    ]


def _claim_name(wanted: Wanted, volume: Volume) -> str:
    return f"{wanted.name}-{volume.name}"


def _job(wanted: Wanted, labels: Document, pod: Document) -> Document:
    limit = {} if wanted.limit_s is None else {"activeDeadlineSeconds": wanted.limit_s}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": wanted.name, "labels": dict(labels)},
        # What failed once measured something else the second time.
        "spec": {"backoffLimit": 0, **limit, "template": pod},
    }


def _pod(
    wanted: Wanted, labels: Document, size: str, command: list[str], variables: Sequence[Document] = ()
) -> Document:
    """A pod that needs no right beyond its storage: another user, no capability, a root that nothing writes."""
    resources = {"cpu": wanted.cpu, "memory": wanted.memory}
    container: Document = {
        "name": "hwdyno",
        "image": wanted.image,
        "command": command,
        "env": [
            {"name": "HOME", "value": "/tmp"},
            {"name": "HWDYNO_HOME", "value": "/tmp/hwdyno"},
            {"name": "HWDYNO_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            *variables,
        ],
        # Guaranteed, so that neither a neighbour nor a limit is measured instead of the storage.
        "resources": {"requests": dict(resources), "limits": dict(resources)},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    if wanted.block:
        container["volumeDevices"] = [
            {"name": volume.name, "devicePath": volume.path(block=True)} for volume in wanted.volumes
        ]
    else:
        container["volumeMounts"] += [
            {"name": volume.name, "mountPath": volume.path(block=False)} for volume in wanted.volumes
        ]
    volumes = [
        pod_volume(volume, _claim_name(wanted, volume), size, wanted.access, block=wanted.block)
        for volume in wanted.volumes
    ]
    return {
        "metadata": {"labels": dict(labels)},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **_placement(wanted, labels),
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}, *volumes],
        },
    }


def _placement(wanted: Wanted, labels: Document) -> Document:
    found: Document = {"nodeSelector": dict(wanted.on)} if wanted.on else {}
    if wanted.spread:
        found["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": HOSTNAME,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": dict(labels)},
            }
        ]
    return found


def _mpi_job(wanted: Wanted, labels: Document, size: str) -> Document:
    """kubeflow.org/v2beta1: a launcher runs mpirun, and its ranks are on workers that run sshd."""
    started = ["mpirun", "-n", str(wanted.clients), "--bind-to", "none", *pod_command(wanted)]
    launcher = _pod(wanted, labels, size, ["sh", "-c", f"{shlex.join(started)} {_DEGRADED_IS_DONE}"])
    worker = _pod(wanted, labels, size, ["/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"])
    # The launcher measures nothing.
    few: dict[str, Any] = {"cpu": "1", "memory": "1Gi"}
    launcher["spec"]["containers"][0]["resources"] = {"requests": dict(few), "limits": dict(few)}
    limit = {} if wanted.limit_s is None else {"activeDeadlineSeconds": wanted.limit_s}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": wanted.name, "labels": dict(labels)},
        "spec": {
            "slotsPerWorker": 1,
            "sshAuthMountPath": "/home/mpiuser/.ssh",
            "mpiImplementation": "OpenMPI",
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0, **limit},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": launcher},
                "Worker": {"replicas": wanted.clients, "template": worker},
            },
        },
    }
