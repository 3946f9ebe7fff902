"""A real store by TLS: what uses it as files has TLS in its details and ceilings, as plain requests have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hwdyno.cli.main import main
from object_store import CERTIFICATES, real_store, set_credentials

pytestmark = [pytest.mark.machine, pytest.mark.timeout(120)]

COMMANDS = {
    "checkpoint": ["training", "--checkpoint", "llama3-8b", "--scale", "0.0002", "--ranks", "2"],
    "KV cache": ["inference", "--kv-cache", "llama3.1-8b", "--scale", "0.02", "--users", "2", "--runtime", "1"],
    "vector index": [
        *("inference", "--vector-search", "diskann", "--vectors", "500", "--dim", "24", "--queries", "20"),
        *("--threads", "1", "--runtime", "0.1", "--budget", "1s"),
    ],
    "model": ["inference", "--model", "tiny", "--cold", "raw,read", "--threads", "2,4", "--budget", "5s"],
    "loader": ["training", "--workload", "tiny.yaml", "--accelerators", "1", "--runtime", "0.3"],
    "requests": ["object", "--object-size", "300k", "--objects", "4", "--concurrency", "2", "--keep-alive", "0"],
}
BOTH_ENDS = "TCP and TLS over loopback"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    set_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_CA_BUNDLE", str(CERTIFICATES / "authority.pem"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "buckets" / "bench").mkdir(parents=True)
    (tmp_path / "tiny.yaml").write_text(
        "model: {name: tiny}\nframework: pytorch\n"
        "dataset: {data_folder: data, format: npz, num_files_train: 24, record_length_bytes: 900}\n"
        "reader: {batch_size: 2, read_threads: 2}\ntrain: {epochs: 2, computation_time: 0.01}\n"
    )
    keys = ("--cert", str(CERTIFICATES / "right.pem"), "--key", str(CERTIFICATES / "server.key"))
    with real_store("versitygw", tmp_path / "buckets", *keys) as url:
        yield url


def measured(name: str, url: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    words = COMMANDS[name]
    place = ["--bucket", "bench", "--runtime", "0.1"] if words[0] == "object" else ["--path", "s3://bench/x"]
    option = "--store-endpoint" if words[0] == "inference" else "--endpoint"
    assert main([*words, *place, option, url, "--no-page", "--quiet", "--json"]) in {0, 3}
    run: dict[str, Any] = json.loads(capsys.readouterr().out)
    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_encryption_is_in_details_and_ceilings(name: str, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = measured(name, store, capsys)
    result = run["experiments"][0]
    for point in result["points"]:
        details = point["details"]
        assert not point["faults"] and "_AES_" in details["tls_suite"] and details["tls_bytes_cpu_s"] > 1e6
        assert details["client_threads"] >= 1 and details["connections_made"] >= 1
    if name == "vector index":  # Its ceiling is plain GETs, which are by TLS, too.
        assert "search_gets" in result["ceilings"][0]["metric"]
        result = next(other for other in run["experiments"] if other["kernel"] == "object_requests")
    assert BOTH_ENDS in {ceiling["label"] for ceiling in result["ceilings"]}
