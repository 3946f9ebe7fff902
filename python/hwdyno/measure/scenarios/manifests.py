"""Writes Kubernetes manifests of the study of storage classes: a claim for each class, and one Job over them all."""

from __future__ import annotations

import re
import shlex
from typing import Any

from hwdyno import __version__
from hwdyno.formats import workload
from hwdyno.measure.kubernetes.volumes import (
    ACCESS,
    EMPTY_DIR,
    LABEL,
    NAME,
    Volume,
    as_yaml,
    claim,
    claim_spec,
    pod_volume,
    quantity,
    volume_bytes,
)
from hwdyno.model.words import UserError

STUDY = "kubernetes-ai-storage"
IMAGE = f"hwdyno:{__version__}"
FETCH = f"kubectl logs job/hwdyno-{STUDY} | grep '^{{' > run.json"
"""The log's one line that is a Run document; all others are progress."""


def format_manifests(study: str, storages: str, image: str, profile: str, samples: str) -> str:
    """The manifests of a study, ready to be applied; raises ``UserError``."""
    if study != STUDY:
        raise UserError(f"{study} has no manifests; only {STUDY} has")
    documents = manifests(classes(storages), image, profile, samples)
    return as_yaml(
        documents,
        f"kubectl apply -f THIS; kubectl wait --for=condition=complete --timeout=-1s job/hwdyno-{STUDY}",
        f"The log has the Run, which a volume of a pod may not outlive: {FETCH}",
        f"Then: hwdyno report run.json; several Jobs as one table: hwdyno study {STUDY} --merge A --merge B",
        f"{image} is any image in which `pip install` of hwdyno's checkout or wheel was done.",
    )


def classes(text: str) -> dict[str, str]:
    """Storages by name, each with its class or ``emptyDir``; raises ``UserError``."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, kind = part.partition("=")
        if not equals or not kind:
            raise UserError(f"--manifests '{part}' must be NAME=CLASS, such as ceph=rook-ceph-block or local=emptyDir")
        if not LABEL.fullmatch(name):
            raise UserError(f"--manifests: '{name}' is not a Kubernetes name; use lower-case letters, digits and -")
        if name in found:
            raise UserError(f"--manifests names '{name}' twice")
        found[name] = kind
    return found


def manifests(storages: dict[str, str], image: str, profile: str, samples: str) -> list[dict[str, Any]]:
    """A PersistentVolumeClaim for each class that is not ``emptyDir``, and the Job that compares them."""
    counts = samples.split(",")
    if not all(re.fullmatch(r"[0-9]{1,15}", count) and int(count) for count in counts):
        raise UserError(f"--samples '{samples}' must be whole numbers, separated by commas")
    most = max(map(int, counts))
    size = quantity(volume_bytes(int(workload.find("unet3d", "h100").with_samples(most).bytes)))
    labels = {NAME: "hwdyno"}
    volumes = {
        name: Volume(name, "emptyDir", "") if kind == EMPTY_DIR else Volume(name, "class", kind)
        for name, kind in storages.items()
    }
    claims = [
        claim(f"hwdyno-{volume.name}", labels, claim_spec(volume.of, size, ACCESS["RWO"]))
        for volume in volumes.values()
        if volume.kind == "class"
    ]
    sources = [pod_volume(volume, f"hwdyno-{name}", size, ACCESS["RWO"]) for name, volume in volumes.items()]
    paths = [word for name in storages for word in ("--path", f"{name}=/storage/{name}")]
    command = ["hwdyno", "study", STUDY, "--profile", profile, "--samples", samples, *paths, "--no-page", "--json"]
    # What outlives the pod, if anything does.
    lasting = next((name for name, kind in storages.items() if kind != EMPTY_DIR), next(iter(storages)))
    command += ["--summary", f"/storage/{lasting}/hwdyno-summary", "--overwrite"]
    container = {
        "name": "hwdyno",
        "image": image,
        # Status 3 is a run that is done, but with degraded points, as its report says: no failed Job.
        "command": ["sh", "-c", f"{shlex.join(command)} || test $? -eq 3"],
        "env": [{"name": "HWDYNO_HOME", "value": f"/storage/{lasting}/hwdyno-runs"}],
        # Guaranteed, so that neither a neighbour nor a limit is measured instead of the storage.
        "resources": {"requests": {"cpu": "4", "memory": "8Gi"}, "limits": {"cpu": "4", "memory": "8Gi"}},
        "volumeMounts": [{"name": name, "mountPath": f"/storage/{name}"} for name in storages],
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"hwdyno-{STUDY}", "labels": dict(labels)},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": {"labels": dict(labels)},
                "spec": {"restartPolicy": "Never", "containers": [container], "volumes": sources},
            },
        },
    }
    return [*claims, job]
