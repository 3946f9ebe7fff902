"""What pods measure: claims, ephemeral volumes and folders, as the options name them and as Kubernetes takes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hwdyno.model.words import UserError

Document = dict[str, Any]
VolumeKind = Literal["claim", "class", "ephemeral", "csi", "emptyDir"]
Access = Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]
ACCESS: dict[str, Access] = {"RWO": "ReadWriteOnce", "RWX": "ReadWriteMany", "RWOP": "ReadWriteOncePod"}
EMPTY_DIR = "emptyDir"
NAME, INSTANCE = "app.kubernetes.io/name", "app.kubernetes.io/instance"
"""The labels of all that is made."""
# RFC 1123 labels, as Kubernetes wants names to be.
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?")
# Object names may have dots.
OBJECT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,240}[a-z0-9])?")
HEADROOM = 1.25
"""A volume's size over its data's: room for the filesystem, its metadata and what is written beside."""
SPARE_BYTES = 2 << 30
FOLDER, DEVICE = "/storage/{name}", "/dev/hwdyno-{name}"


@dataclass(frozen=True)
class Volume:
    """One storage, by its name among the pod's."""

    name: str
    kind: VolumeKind
    of: str
    """The claim, the storage class or the driver; empty for the node's own disk."""
    attributes: dict[str, str] = field(default_factory=dict)
    """Attributes of an inline volume of a CSI driver."""

    def path(self, *, block: bool) -> str:
        """Where a pod finds it."""
        return (DEVICE if block else FOLDER).format(name=self.name)


def parse_volumes(text: str) -> tuple[Volume, ...]:
    """The storages of an option, ``[NAME=]KIND[:OF]`` with commas between them; raises ``UserError``."""
    found: dict[str, Volume] = {}
    for part in text.split(","):
        name, equals, source = part.partition("=")
        if not equals or ":" in name:
            name, source = "data", part
        if not LABEL.fullmatch(name):
            raise UserError(f"--storage: '{name}' is not a Kubernetes name; use lower-case letters, digits and -")
        if name in found:
            raise UserError(f"--storage names '{name}' twice")
        found[name] = _volume(name, source)
    return tuple(found.values())


def _volume(name: str, text: str) -> Volume:
    kind, _, of = text.partition(":")
    if kind == EMPTY_DIR:
        if of:
            raise UserError(f"--storage {text}: an emptyDir of a medium is memory, no storage; use emptyDir alone")
        return Volume(name, "emptyDir", "")
    if kind == "csi":
        driver, *pairs = of.split(";")
        attributes = dict(pair.partition("=")[::2] for pair in pairs)
        if OBJECT.fullmatch(driver) and all(attributes.values()):
            return Volume(name, "csi", driver, attributes)
    for known in ("claim", "class", "ephemeral"):
        if kind == known and OBJECT.fullmatch(of):
            return Volume(name, known, of)
    raise UserError(
        f"--storage '{text}' must be claim:NAME, class:NAME, ephemeral:CLASS, csi:DRIVER or emptyDir, such as "
        "class:rook-ceph-block"
    )


def volume_bytes(data_bytes: int) -> int:
    """The least volume for this much data, in whole GiB."""
    return -(-(int(data_bytes * HEADROOM) + SPARE_BYTES) // (1 << 30)) << 30


def quantity(size_bytes: int) -> str:
    """Bytes as Kubernetes writes them."""
    return f"{size_bytes >> 30}Gi" if not size_bytes % (1 << 30) else f"{-(-size_bytes // (1 << 20))}Mi"


def claim_spec(storage_class: str, size: str, access: str, *, block: bool = False) -> Document:
    """What a claim asks for."""
    return {
        "accessModes": [access],
        "storageClassName": storage_class,
        **({"volumeMode": "Block"} if block else {}),
        "resources": {"requests": {"storage": size}},
    }


def claim(name: str, labels: Document, spec: Document) -> Document:
    """A claim of a class."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": spec,
    }


def pod_volume(volume: Volume, claim_name: str, size: str, access: str, *, block: bool = False) -> Document:
    """The volume of a pod."""
    if volume.kind == "emptyDir":
        return {"name": volume.name, "emptyDir": {"sizeLimit": size}}
    if volume.kind == "csi":
        attributes = {"volumeAttributes": volume.attributes} if volume.attributes else {}
        return {"name": volume.name, "csi": {"driver": volume.of, **attributes}}
    if volume.kind == "ephemeral":
        spec = claim_spec(volume.of, size, access, block=block)
        return {"name": volume.name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    named = volume.of if volume.kind == "claim" else claim_name
    return {"name": volume.name, "persistentVolumeClaim": {"claimName": named}}


def as_yaml(documents: Sequence[Document], *notes: str) -> str:
    """Documents as a stream of YAML, below comments with what to do with it."""
    import yaml

    written = str(yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True))
    return "".join(f"# {note}\n" for note in notes) + written
