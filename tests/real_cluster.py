"""A real kube-apiserver with etcd on the loopback, for whoever has them: this plays the controllers and the kubelet.

Neither is in the lists of what the tests need: ``HWDYNO_KUBE_APISERVER`` names the server, or the path has it. etcd,
kubectl and openssl are the distribution's. No package brings the server: a Go module whose ``main`` runs
``app.NewAPIServerCommand()`` of ``k8s.io/kubernetes/cmd/kube-apiserver/app``, with the replacements of that module's
``go.mod`` at the same release, builds it in a quarter of an hour.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Document = dict[str, Any]
SERVER = os.environ.get("HWDYNO_KUBE_APISERVER") or shutil.which("kube-apiserver")
IS_HERE = bool(SERVER and shutil.which("etcd") and shutil.which("kubectl") and shutil.which("openssl"))
ADMIN, CI = "admin-of-the-tests", "ci-of-the-tests"
"""Tokens of two users: one who may do all, and one who must be given each right."""
PODS, JOBS = "/api/v1/namespaces/default/pods", "/apis/batch/v1/namespaces/default/jobs"
START_S = 60.0
STEP_S = 0.05


@dataclass
class Real:
    """What a test sees of the cluster, and plants in it."""

    place: str
    logs: dict[str, str] = field(default_factory=dict)
    """What each pod prints, by its number."""
    ends: bool = True
    """Whether pods end."""
    exit_code: int = 0

    def call(self, path: str, method: str = "GET", body: Document | None = None, kind: str = "") -> Document:
        """One call by the administrator; raises ``urllib.error.HTTPError`` where the server refuses."""
        request = urllib.request.Request(
            self.place + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Authorization": f"Bearer {ADMIN}", "Content-Type": kind or "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20, context=_trusting()) as answer:
            found: Document = json.load(answer)
            return found

    def change(self, path: str, body: Document) -> None:
        """Merge a part into an object that may be gone by now."""
        with contextlib.suppress(urllib.error.HTTPError):
            self.call(path, "PATCH", body, "application/merge-patch+json")

    def left(self) -> list[str]:
        """What is there of measurements, as ``plural/name``."""
        return sorted(
            f"{path.rsplit('/', 1)[1]}/{document['metadata']['name']}"
            for path in (PODS, JOBS, *(PODS.replace("pods", kind) for kind in ("services", "secrets", CLAIMS)))
            for document in self.call(f"{path}?labelSelector=app.kubernetes.io/name=hwdyno")["items"]
        )


CLAIMS = "persistentvolumeclaims"


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _controlled(cluster: Real, kubelet: int, done: threading.Event) -> None:
    """What the controllers of jobs and claims, the scheduler, the kubelet and the collector of garbage do."""
    while not done.wait(STEP_S):
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            jobs = {document["metadata"]["name"]: document for document in cluster.call(JOBS)["items"]}
            pods = {document["metadata"]["name"]: document for document in cluster.call(PODS)["items"]}
            for name, pod in pods.items():
                if pod["metadata"]["ownerReferences"][0]["name"] not in jobs:
                    cluster.call(f"{PODS}/{name}?gracePeriodSeconds=0", "DELETE")
            for name, job in jobs.items():
                _stepped(cluster, job, [pod for pod_name, pod in pods.items() if pod_name.startswith(f"{name}-")])
            claims = PODS.replace("pods", CLAIMS)
            for claim in cluster.call(claims)["items"]:
                if "deletionTimestamp" in claim["metadata"]:
                    cluster.change(f"{claims}/{claim['metadata']['name']}", {"metadata": {"finalizers": None}})


def _stepped(cluster: Real, job: Document, pods: list[Document]) -> None:
    """One step of a job: its pods are made, run, and end."""
    name, count = job["metadata"]["name"], job["spec"].get("completions", 1)
    if len(pods) < count:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
        for number in range(count):
            template = job["spec"]["template"]
            labels = {**template["metadata"]["labels"], "job-name": name}
            made = {"name": f"{name}-{number}-x7k2p", "labels": labels, "ownerReferences": [owner]}
            spec = {**template["spec"], "nodeName": "n0"}
            cluster.call(PODS, "POST", {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec})
        return
    phases = {pod.get("status", {}).get("phase") for pod in pods}
    if phases == {"Pending"}:
        _set_status(cluster, pods, "Running", {"running": {}})
    elif phases == {"Running"} and cluster.ends:
        _end(cluster, job, pods)


def _end(cluster: Real, job: Document, pods: list[Document]) -> None:
    """The pods' end, and then the job's, which says first that it will end (KEP 3998)."""
    count, bad = job["spec"].get("completions", 1), cluster.exit_code != 0
    ended = {"exitCode": cluster.exit_code, "reason": "Error" if bad else "Completed"}
    _set_status(cluster, pods, "Failed" if bad else "Succeeded", {"terminated": ended})
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    why = {"reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"} if bad else {}
    status: Document = {"startTime": now, "active": 0, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    status |= {"failed": count} if bad else {"succeeded": count, "completedIndexes": f"0-{count - 1}"}
    conditions = []
    for kind in ("FailureTarget", "Failed") if bad else ("SuccessCriteriaMet", "Complete"):
        conditions.append({"type": kind, "status": "True", "lastTransitionTime": now, **why})
        body = {"status": {**status, "conditions": conditions}}
        body["status"] |= {"completionTime": now} if kind == "Complete" else {}
        cluster.call(f"{JOBS}/{job['metadata']['name']}/status", "PATCH", body, "application/merge-patch+json")


def _set_status(cluster: Real, pods: list[Document], phase: str, state: Document) -> None:
    for pod in pods:
        container = {"name": "hwdyno", "state": state, "ready": phase == "Running", "restartCount": 0,
                     "image": "hwdyno", "imageID": ""}  # fmt: skip
        status = {"phase": phase, "containerStatuses": [container]}
        cluster.change(f"{PODS}/{pod['metadata']['name']}/status", {"status": status})


class _Kubelet(BaseHTTPRequestHandler):
    """Answers what the API server asks a node for: the logs of a container."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        cluster: Real = self.server.cluster  # type: ignore[attr-defined]
        _, pod, _ = self.path.split("?")[0].removeprefix("/containerLogs/").split("/")
        body = (cluster.logs.get(pod.rsplit("-", 2)[1], "") + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def _kubelet(folder: Path, cluster: Real) -> Iterator[int]:
    subject = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", folder / "kubelet.key",
         "-out", folder / "kubelet.crt", *subject], check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "kubelet.crt", folder / "kubelet.key")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Kubelet)
    server.cluster = cluster  # type: ignore[attr-defined]
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextlib.contextmanager
def _process(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{Path(words[0]).name}.txt").open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield process
    finally:
        # It takes its leave for tens of seconds, and keeps nothing that anybody needs.
        process.kill()
        process.wait()


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Real]:
    """The whole of it, ready; the folder's ``admin.json`` and ``ci.json`` are the users' configurations of kubectl."""
    assert SERVER is not None
    etcd, peers, port = _free_port(), _free_port(), _free_port()
    (folder / "tokens.csv").write_text(f'{ADMIN},admin,admin,"system:masters"\n{CI},ci,ci\n')
    key = str(folder / "sa.key")
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    cluster = Real(f"https://127.0.0.1:{port}")
    with contextlib.ExitStack() as stack:
        to_etcd = f"http://127.0.0.1:{etcd}"
        between = f"http://127.0.0.1:{peers}"
        stack.enter_context(
            _process(
                folder, "etcd", "--data-dir", str(folder / "etcd"), "--listen-client-urls", to_etcd,
                "--advertise-client-urls", to_etcd, "--listen-peer-urls", between,
                "--initial-advertise-peer-urls", between, "--initial-cluster", f"default={between}",
            )
        )  # fmt: skip
        process = stack.enter_context(
            _process(
                folder, SERVER, "--etcd-servers", to_etcd, "--secure-port", str(port), "--bind-address", "127.0.0.1",
                "--cert-dir", str(folder / "certificates"), "--token-auth-file", str(folder / "tokens.csv"),
                "--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", key,
                "--service-account-signing-key-file", key, "--authorization-mode", "RBAC",
                "--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount",
                "--kubelet-preferred-address-types", "InternalIP", "--feature-gates", "WatchList=false",
            )
        )  # fmt: skip
        until = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError):
                cluster.call("/api/v1/namespaces/default")
                break
            assert process.poll() is None and time.monotonic() < until, (folder / "kube-apiserver.txt").read_text()
            time.sleep(STEP_S)
        kubelet = stack.enter_context(_kubelet(folder, cluster))
        cluster.call("/api/v1/nodes", "POST", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}})
        address = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                   "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet}}}  # fmt: skip
        cluster.call("/api/v1/nodes/n0/status", "PATCH", {"status": address}, "application/merge-patch+json")
        for user, token in (("admin", ADMIN), ("ci", CI)):
            (folder / f"{user}.json").write_text(json.dumps(_configuration(cluster.place, token)))
        done = threading.Event()
        player = threading.Thread(target=_controlled, args=(cluster, kubelet, done), daemon=True)
        player.start()
        try:
            yield cluster
        finally:
            done.set()
            player.join(10)


def _configuration(place: str, token: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": place, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
        "current-context": "x",
    }
