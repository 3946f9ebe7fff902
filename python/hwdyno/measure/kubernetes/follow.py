"""The way of a measurement through a cluster, by ``kubectl``: applied, followed, its Runs collected, and removed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hwdyno.measure.kubernetes.volumes import INSTANCE, Document
from hwdyno.model.words import Run, UserError
from hwdyno.system import foreign, signals
from hwdyno.system.store import StoreError, from_json

KUBECTL = "HWDYNO_KUBECTL"
POLL_S = 1.0
CALL_S = 60.0
MAX_LOG_BYTES = 256 << 20
"""What is read of one pod's log: hundreds of times the largest Run."""
STUCK_S = 120.0
"""Limit for an image or a volume that does not come: a registry may answer late."""
LOST_CALLS = 5
"""Calls in a row that may fail before the cluster counts as gone."""
_STUCK = {
    *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"),
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
}
"""Why a container waits, where waiting does not help."""
_NO_KIND = re.compile(r'no matches for kind "([^"]*)" in version "([^"]*)"')
"""What kubectl says of a kind that the server lacks, in the first of several lines."""


class Cluster:
    """One namespace of the cluster that ``kubectl`` talks to."""

    def __init__(self, namespace: str | None = None, environment: Mapping[str, str] = os.environ) -> None:
        found = environment.get(KUBECTL) or shutil.which("kubectl")
        if found is None:
            raise UserError("kubectl is not installed; install it, or apply what `hwdyno kubernetes manifest` prints")
        self._command = [found, *(["--namespace", namespace] if namespace else [])]

    def create(self, documents: Sequence[Document]) -> None:
        """Make these; raises ``UserError`` with the server's own words."""
        self._call("create", "--filename", "-", text=_as_stream(documents))

    def delete(self, documents: Sequence[Document]) -> None:
        """Remove these and their pods, as far as they are there."""
        self._call(*_DELETE, text=_as_stream(documents))

    def delete_apart(self, documents: Sequence[Document]) -> None:
        """Begin to remove these by a process that outlives this one."""
        process = subprocess.Popen(
            [*self._command, *_DELETE], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        signals.spare(process.pid)
        assert process.stdin is not None
        process.stdin.write(_as_stream(documents).encode())
        process.stdin.close()

    def get(self, kind: str, name: str) -> Document:
        """One object."""
        found = _parse(self._call("get", kind, name, "--output", "json"))
        return found if isinstance(found, dict) else {}

    def of_measurement(self, kind: str, name: str) -> list[Document]:
        """The objects of a kind that belong to the measurement of this name."""
        found = _parse(self._call("get", kind, "--selector", f"{INSTANCE}={name}", "--output", "json"))
        items = found.get("items") if isinstance(found, dict) else None
        return [document for document in items or () if isinstance(document, dict)]

    def log(self, pod: str) -> str:
        """What a pod has printed."""
        return self._call("logs", pod, "--container", "hwdyno", "--limit-bytes", str(MAX_LOG_BYTES))

    def _call(self, *words: str, text: str = "") -> str:
        try:
            done = subprocess.run(
                [*self._command, *words], input=text, capture_output=True, timeout=CALL_S, check=False,
                encoding="utf-8", errors="replace",  # A pod prints what it likes.
                start_new_session=True,  # Ctrl-C is for this process, which then removes what it made.
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UserError(f"kubectl {words[0]} did not end within {CALL_S:g} s; is the cluster reachable?") from None
        except OSError as error:
            raise UserError(f"kubectl cannot be started: {error.strerror}; set {KUBECTL} to its path") from None
        if done.returncode:
            if lacks := _NO_KIND.search(done.stderr):
                raise UserError(
                    f"the cluster has no {lacks[1]} ({lacks[2]}): install its operator, or use another --form"
                )
            why = done.stderr.strip().splitlines() or ["no message"]
            raise UserError(f"kubectl {words[0]}: {why[-1]}")
        return done.stdout


def _parse(printed: str) -> Any:
    return foreign.parse_json(printed, "what kubectl printed", is_ours=True)


_DELETE = ("delete", "--filename", "-", "--ignore-not-found", "--wait=false", "--cascade=background")


def _as_stream(documents: Sequence[Document]) -> str:
    """One after another: kubectl leaves the validation of each to the server, but not that of a List."""
    return "\n".join(map(json.dumps, documents))


@dataclass(frozen=True)
class JobState:
    """Where a measurement is."""

    says: str
    """The state in words; the same while nothing changes."""
    ended: bool = False
    failed: str = ""
    """Why it failed; empty if it did not."""
    stuck: bool = False
    """Whether waiting may be without effect."""


def read_state(job: Document, pods: Iterable[Document]) -> JobState:
    """Where a Job or an MPIJob and its pods are, by their own statuses."""
    status, listed = job.get("status") or {}, list(pods)
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in {
            "Complete",
            "SuccessCriteriaMet",
            "Succeeded",
        }:
            return JobState("done", ended=True)
        if condition.get("status") == "True" and condition.get("type") == "Failed":
            why = _failure(listed) or str(condition.get("message") or condition.get("reason") or "no reason is given")
            return JobState("failed", ended=True, failed=why)
    phases: dict[str, int] = {}
    for pod in listed:
        phase = str((pod.get("status") or {}).get("phase") or "Unknown").lower()
        phases[phase] = phases.get(phase, 0) + 1
    words = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items())) or "no pod yet"
    for pod in listed:
        if why := _waiting(pod):
            return JobState(f"{words}: {_name(pod)} waits: {why}", stuck=True)
    return JobState(words)


def _name(document: Document) -> str:
    return str((document.get("metadata") or {}).get("name") or "a pod")


def _waiting(pod: Document) -> str:
    """Why a pod does not start, where its status tells."""
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        waits = (container.get("state") or {}).get("waiting") or {}
        if waits.get("reason") in _STUCK:
            return " ".join(f"{waits['reason']}: {waits.get('message') or ''}".split())[:300]
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return " ".join(str(condition.get("message") or condition.get("reason") or "it is not scheduled").split())[
                :300
            ]
    return ""


def _failure(pods: Sequence[Document]) -> str:
    """Which pod ended badly, and how."""
    for pod in pods:
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            ended = (container.get("state") or {}).get("terminated") or {}
            if ended.get("exitCode"):
                reason = f" ({ended['reason']})" if ended.get("reason") not in {None, "Error"} else ""
                return f"{_name(pod)} ended with status {ended['exitCode']}{reason}"
    return ""


@dataclass(frozen=True)
class Measured:
    """What came of a measurement."""

    runs: tuple[Run, ...]
    failed: str = ""
    last_lines: tuple[str, ...] = ()
    """The last lines of the log of a pod without a Run."""


def run_measurement(
    cluster: Cluster,
    documents: Sequence[Document],
    says: Callable[[str], object],
    *,
    keep: bool = False,
) -> Measured:
    """Apply the documents, follow their Job to its end, and collect the Runs; all is removed then, also on Ctrl-C.

    Raises ``UserError`` where the cluster refuses, and ``KeyboardInterrupt`` after a signal, when all is removed.
    """
    job = documents[-1]
    name, kind = _name(job), "mpijobs.kubeflow.org" if job["kind"] == "MPIJob" else "jobs.batch"
    with signals.keeping(), signals.at_leave(signals.Stage.REMOVE, lambda: cluster.delete_apart(documents)):
        try:
            cluster.create(documents)
            says(f"{job['kind']} {name} is made")
            state = _follow_job(cluster, kind, name, says)
            return _collect_runs(cluster, name, state)
        finally:
            if not keep:
                says(_remove_documents(cluster, documents, f"{job['kind']} {name}"))


def _remove_documents(cluster: Cluster, documents: Sequence[Document], subject: str) -> str:
    """Remove the documents, and say whether that was done: why the measurement ended matters more than this."""
    try:
        cluster.delete(documents)
    except UserError as error:
        again = f"hwdyno kubernetes clean --name {_name(documents[-1])}"
        return f"{subject} may be left in the cluster: {error}; remove it: {again}"
    return f"{subject} and all that was made for it are removed"


def _follow_job(cluster: Cluster, kind: str, name: str, says: Callable[[str], object]) -> JobState:
    before, stuck_s, lost = "", 0.0, 0
    while True:
        signals.check()
        try:
            state = read_state(cluster.get(kind, name), cluster.of_measurement("pods", name))
            lost = 0
        except UserError as error:
            lost += 1
            if lost >= LOST_CALLS:
                raise
            state = JobState(f"the cluster does not answer: {error}")
        if state.says != before:
            says(state.says)
            before = state.says
        if state.ended:
            return state
        stuck_s = stuck_s + POLL_S if state.stuck else 0.0
        if stuck_s >= STUCK_S:
            return JobState(state.says, ended=True, failed=state.says)
        _wait(POLL_S)


def _wait(seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        signals.check()
        time.sleep(min(0.1, left))


def _collect_runs(cluster: Cluster, name: str, state: JobState) -> Measured:
    runs: list[Run] = []
    last: tuple[str, ...] = ()
    for pod in sorted(cluster.of_measurement("pods", name), key=_name):
        try:
            text = cluster.log(_name(pod))
        except UserError as error:
            last = last or (str(error),)
            continue
        found = runs_in(text)
        runs += found
        if not found and not last:
            last = tuple(line for line in text.splitlines() if line.strip())[-3:]
    return Measured(tuple(runs), state.failed, () if runs else last)


def runs_in(log: str) -> list[Run]:
    """The Runs of a log: each is one line, among lines of progress."""
    found = []
    for line in log.splitlines():
        start = line.find('{"')
        if start >= 0 and '"hwdyno.run/' in line:
            try:
                found.append(from_json(line[start:]))
            except StoreError:  # Cut off, or another program's.
                continue
    return found


def documents_named(name: str) -> list[Document]:
    """What a measurement of this name may have left, for its removal."""
    kinds = (("batch/v1", "Job"), ("v1", "Service"), ("v1", "Secret"))
    return [{"apiVersion": version, "kind": kind, "metadata": {"name": name}} for version, kind in kinds]


def list_claims(cluster: Cluster, name: str) -> list[Document]:
    """The claims that a measurement of this name has made."""
    return [
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": _name(claim)}}
        for claim in cluster.of_measurement("persistentvolumeclaims", name)
    ]
