"""An API server of Kubernetes on the loopback, for kubectl: it keeps what is made, and plays the controllers."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Document = dict[str, Any]
_RESOURCES = {
    "v1": (
        ("pods", "Pod"), ("services", "Service"), ("secrets", "Secret"),
        ("persistentvolumeclaims", "PersistentVolumeClaim"),
    ),
    "batch/v1": (("jobs", "Job"),),
    "kubeflow.org/v2beta1": (("mpijobs", "MPIJob"),),
}  # fmt: skip


@dataclass
class State:
    """The cluster's objects, and what is planted."""

    objects: dict[tuple[str, str], Document] = field(default_factory=dict)
    """Objects by plural and name."""
    made: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)
    """What each pod prints, by its number."""
    looks: int = 0
    """How often the job was read."""
    ends_after: int = 2
    """Looks until it is complete."""
    exit_code: int = 0
    waits: str = ""
    """Why its pods' images do not come; empty if they do."""
    refuses: str = ""
    """The plural of what the server forbids."""
    lacks: str = ""
    """The group and version that the server does not know."""


def _pod(job: Document, number: int, state: State) -> Document:
    name = job["metadata"]["name"]
    template = job["spec"].get("template") or job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    is_done = state.looks > state.ends_after
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": state.waits}}
    ended = {"terminated": {"exitCode": state.exit_code, "reason": "Error" if state.exit_code else "Completed"}}
    phase = "Pending" if state.waits else "Succeeded" if is_done and not state.exit_code else "Running"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-{number}-x7k2p",
            "namespace": "default",
            "labels": template["metadata"]["labels"],
        },
        "spec": template["spec"],
        "status": {
            "phase": "Failed" if is_done and state.exit_code else phase,
            "containerStatuses": [
                {"name": "hwdyno", "state": waiting if state.waits else ended if is_done else {"running": {}}}
            ],
        },
    }


def _job(job: Document, state: State) -> Document:
    state.looks += 1
    if state.waits or state.looks <= state.ends_after:
        return job
    if state.exit_code:
        message = "Job has reached the specified backoff limit"
        condition = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": message}
    else:
        condition = {"type": "Complete" if job["kind"] == "Job" else "Succeeded", "status": "True"}
    return {**job, "status": {"conditions": [condition]}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def state(self) -> State:
        return self.server.state  # type: ignore[attr-defined, no-any-return]

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _send(self, document: Document | str, status: int = 200) -> None:
        text = document if isinstance(document, str) else json.dumps(document)
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(document, str) else "application/json")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def _failure(self, status: int, reason: str, message: str) -> None:
        self._send(
            {
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message,
                "code": status,
            },
            status,
        )  # fmt: skip

    def _parts(self) -> tuple[str, str, str]:
        """Plural, name and subresource of a namespaced path."""
        words = urlsplit(self.path).path.strip("/").split("/")
        after = words[words.index("namespaces") + 2 :] if "namespaces" in words else []
        plural, name, sub = (*after, "", "", "")[:3]
        return plural, name, sub

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/api":
            return self._send({"kind": "APIVersions", "versions": ["v1"]})
        if path == "/apis":
            groups = [
                resource.split("/") for resource in _RESOURCES if "/" in resource and resource != self.state.lacks
            ]
            listed = [
                {"name": name, "versions": [group_version], "preferredVersion": group_version}
                for name, version in groups
                for group_version in [{"groupVersion": f"{name}/{version}", "version": version}]
            ]
            return self._send({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
        if path.startswith("/openapi/v3"):
            return self._openapi(path.removeprefix("/openapi/v3").strip("/"))
        version = path.removeprefix("/apis/").removeprefix("/api/")
        if version in _RESOURCES:
            rows = [
                {
                    "name": plural, "singularName": kind.lower(), "namespaced": True, "kind": kind,
                    "verbs": ["create", "delete", "get", "list"],
                }
                for plural, kind in _RESOURCES[version]
            ]  # fmt: skip
            return self._send(
                {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": rows}
            )
        return self._get()

    def _openapi(self, part: str) -> None:
        """What kubectl asks before it leaves the validation to the server."""
        places = {f"{'apis' if '/' in resource else 'api'}/{resource}": resource for resource in _RESOURCES}
        if not part:
            return self._send({"paths": {place: {"serverRelativeURL": f"/openapi/v3/{place}"} for place in places}})
        group, _, version = places[part].rpartition("/")
        paths = {
            f"/{part}/namespaces/{{namespace}}/{plural}/{{name}}": {
                "patch": {
                    "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
                    "parameters": [{"name": "fieldValidation", "in": "query"}],
                }
            }
            for plural, kind in _RESOURCES[places[part]]
        }
        return self._send({"openapi": "3.0.0", "info": {"title": "k", "version": "1"}, "paths": paths})

    def _get(self) -> None:
        plural, name, sub = self._parts()
        if not plural:
            return self._failure(404, "NotFound", "the server could not find the requested resource")
        jobs = [document for (kind, _), document in self.state.objects.items() if kind in {"jobs", "mpijobs"}]
        pods = {
            pod["metadata"]["name"]: pod
            for job in jobs
            for number in range(job["spec"].get("completions", 1))
            for pod in [_pod(job, number, self.state)]
        }
        if sub == "log" and name in pods:
            return self._send(self.state.logs.get(name.rsplit("-", 2)[1], "") + "\n")
        if plural == "pods":
            if name:
                return self._send(pods[name]) if name in pods else self._missing(plural, name)
            return self._send({"kind": "PodList", "apiVersion": "v1", "items": list(pods.values())})
        if name:
            found = self.state.objects.get((plural, name))
            if found is None:
                return self._missing(plural, name)
            return self._send(_job(found, self.state) if plural in {"jobs", "mpijobs"} else found)
        selector = parse_qs(urlsplit(self.path).query).get("labelSelector", [""])[0]
        items = [
            document
            for (kind, _), document in self.state.objects.items()
            if kind == plural
            and selector in {f"{k}={v}" for k, v in document["metadata"].get("labels", {}).items()} | {""}
        ]
        return self._send({"kind": "List", "apiVersion": "v1", "items": items})

    def _missing(self, plural: str, name: str) -> None:
        self._failure(404, "NotFound", f'{plural} "{name}" not found')

    def do_POST(self) -> None:
        plural, _, _ = self._parts()
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = document["metadata"]["name"]
        if plural == self.state.refuses:
            return self._failure(403, "Forbidden", f'{plural} is forbidden: User "ci" cannot create {plural}')
        if (plural, name) in self.state.objects:
            return self._failure(409, "AlreadyExists", f'{plural} "{name}" already exists')
        self.state.objects[plural, name] = document
        self.state.made.append(f"{plural}/{name}")
        return self._send(document, 201)

    def do_DELETE(self) -> None:
        if length := int(self.headers.get("Content-Length") or 0):
            self.rfile.read(length)
        plural, name, _ = self._parts()
        if self.state.objects.pop((plural, name), None) is None:
            return self._missing(plural, name)
        self.state.removed.append(f"{plural}/{name}")
        return self._send({"kind": "Status", "apiVersion": "v1", "status": "Success"})


@contextlib.contextmanager
def served(folder: Path) -> Iterator[tuple[State, dict[str, str]]]:
    """The server, and the environment in which kubectl finds it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.state = State()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    place = f"http://127.0.0.1:{server.server_address[1]}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": place}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
        "current-context": "x",
    }
    (folder / "kubeconfig").write_text(json.dumps(config))
    try:
        yield server.state, {"KUBECONFIG": str(folder / "kubeconfig"), "KUBECACHEDIR": str(folder / "cache")}  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
