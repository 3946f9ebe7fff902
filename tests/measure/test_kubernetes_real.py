"""A measurement's way through a real kube-apiserver: what it validates, forbids, keeps and removes.

Where no such server is, these tests are not collected (``conftest.py``), and tests/cluster.py replaces it.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_store
import pytest
import real_cluster
from hwdyno.cli.main import main
from hwdyno.measure.kubernetes import follow
from hwdyno.system.store import Store, to_json
from test_kubernetes import FORMS, MEASURES, RUN, printed

# The server takes seconds to be ready, and each signal's test starts the program anew.
pytestmark = [pytest.mark.machine, pytest.mark.slow]
OURS = ["jobs/hwdyno", f"{real_cluster.CLAIMS}/hwdyno-data", "secrets/hwdyno", "services/hwdyno"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[real_cluster.Real, Path]]:
    folder = tmp_path_factory.mktemp("cluster")
    with real_cluster.served(folder) as cluster:
        yield cluster, folder


@pytest.fixture
def api(served: tuple[real_cluster.Real, Path], monkeypatch: pytest.MonkeyPatch) -> real_cluster.Real:
    cluster, folder = served
    cluster.ends, cluster.exit_code, cluster.logs = True, 0, {"0": f"1 point done\n{to_json(made_store.run())}"}
    monkeypatch.setattr(follow, "POLL_S", 0.05)
    monkeypatch.setenv("KUBECONFIG", str(folder / "admin.json"))
    monkeypatch.setenv("KUBECACHEDIR", str(folder / "cache"))
    return cluster


def gone(cluster: real_cluster.Real) -> bool:
    """Whether all is removed in time: what plays the controllers needs a moment for it."""
    until = time.monotonic() + 20
    while cluster.left() and time.monotonic() < until:
        time.sleep(0.05)
    return not cluster.left()


def read_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("hwdyno:")]


@pytest.mark.parametrize("form", [name for name in FORMS if name != "mpi"])
def test_the_server_takes_every_form_and_misses_no_field(
    form: str, api: real_cluster.Real, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = printed(capsys, *FORMS[form])
    dry = ["kubectl", "create", "--dry-run=server", "--validate=strict", "--output", "json", "--filename", "-"]
    done = subprocess.run(dry, input="\n".join(map(json.dumps, documents)), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    taken: list[Any] = []
    decoder, at = json.JSONDecoder(), 0
    while at < len(done.stdout.rstrip()):
        document, at = decoder.raw_decode(done.stdout, at)
        at += len(done.stdout[at:]) - len(done.stdout[at:].lstrip())
        taken += document["items"] if document["kind"] == "List" else [document]
    assert [document["kind"] for document in taken] == [document["kind"] for document in documents]
    for ours, theirs in zip(documents, taken, strict=True):
        # A secret's texts are kept as data, which is the same in base 64.
        assert missing_in(theirs, {**ours, "stringData": {}} if ours["kind"] == "Secret" else ours) == []


def missing_in(theirs: Any, ours: Any, at: str = "") -> list[str]:
    """Where what the server keeps lacks, or has otherwise, what was sent."""
    if isinstance(ours, dict):
        parts = [
            part
            for name, our_part in ours.items()
            for part in missing_in((theirs or {}).get(name), our_part, f"{at}.{name}")
        ]
        return parts if ours else []
    if isinstance(ours, list):
        same = isinstance(theirs, list) and len(theirs) >= len(ours)
        return (
            [part for our_part, other in zip(ours, theirs, strict=False) for part in missing_in(other, our_part, at)]
            if same
            else [at]
        )
    return [] if str(ours) == str(theirs) else [f"{at}: {ours} is {theirs}"]


def test_one_command_applies_follows_stores_the_run_and_leaves_nothing(
    api: real_cluster.Real, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    assert main([*RUN, "--store", str(store), *MEASURES]) in {0, 3}
    out, err = capsys.readouterr()
    run = made_store.run()
    assert Store(store).load(run.id) == run and f"run {run.id}: hwdyno report {run.id}" in out
    assert err.startswith("Job hwdyno is made\n") and err.endswith(
        "done\nJob hwdyno and all that was made for it are removed\n"
    )
    assert gone(api)


def test_a_pod_that_fails_is_named_with_the_end_of_its_log(
    api: real_cluster.Real, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.exit_code, api.logs = 2, {"0": "hwdyno: --path /storage/data: Permission denied"}
    assert main([*RUN, "--store", str(tmp_path / "store"), *MEASURES]) == 2
    (line,) = read_lines(capsys)
    assert "hwdyno-0-x7k2p ended with status 2" in line and "Permission denied" in line
    assert gone(api)


def test_forbidden_role_leaves_nothing(
    api: real_cluster.Real,
    served: tuple[real_cluster.Real, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rules = [{"apiGroups": [""], "resources": [real_cluster.CLAIMS, "services", "secrets", "pods"], "verbs": ["*"]}]
    rbac = "rbac.authorization.k8s.io"
    place = f"/apis/{rbac}/v1/namespaces/default"
    named = {"apiVersion": f"{rbac}/v1", "metadata": {"name": "ci"}}
    api.call(f"{place}/roles", "POST", {**named, "kind": "Role", "rules": rules})
    refers = {"roleRef": {"apiGroup": rbac, "kind": "Role", "name": "ci"}}
    subjects = [{"kind": "User", "name": "ci", "apiGroup": rbac}]
    api.call(f"{place}/rolebindings", "POST", {**named, "kind": "RoleBinding", **refers, "subjects": subjects})
    monkeypatch.setenv("KUBECONFIG", str(served[1] / "ci.json"))
    assert main([*RUN, "--store", str(tmp_path / "store"), *MEASURES]) == 2
    (line,) = read_lines(capsys)
    assert 'User "ci" cannot create resource "jobs"' in line
    assert gone(api)


def test_missing_kind_is_one_line(api: real_cluster.Real, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("kubernetes", "run", *FORMS["mpi"], "--store", str(tmp_path / "store"))
    assert main([*words, *MEASURES]) == 2
    (line,) = read_lines(capsys)
    assert (
        line == "hwdyno: the cluster has no MPIJob (kubeflow.org/v2beta1): install its operator, or use another --form"
    )
    assert gone(api)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_removes_all_that_was_made(api: real_cluster.Real, tmp_path: Path, how: signal.Signals) -> None:
    api.ends = False
    command = [sys.executable, "-m", "hwdyno", *RUN, "--store", str(tmp_path / "store"), *MEASURES]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stderr is not None and any("running" in line for line in process.stderr)
        assert [name for name in api.left() if not name.startswith("pods/")] == OURS
        process.send_signal(how)
        process.communicate(timeout=60)
        assert process.returncode == 128 + how and gone(api)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


def test_what_a_killed_run_left_is_removed_by_one_command(api: real_cluster.Real, tmp_path: Path) -> None:
    api.ends = False
    command = [sys.executable, "-m", "hwdyno", *RUN, "--store", str(tmp_path / "store"), *MEASURES]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None and any("running" in line for line in process.stderr)
        process.kill()
    assert [name for name in api.left() if not name.startswith("pods/")] == OURS
    assert main(["kubernetes", "clean"]) == 0 and gone(api)
