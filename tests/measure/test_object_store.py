"""The object scenario: objects below the run's mark alone, their removal, and the figures of each operation."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import warm
from here import may_mount, missing, needs, shortly
from hwdyno.measure import engine
from hwdyno.measure.hosts.local import Local
from hwdyno.model.words import Run
from hwdyno.report import redaction
from made_experiment import made_experiment
from made_memory import point as make_point
from object_store import (
    ACCESS_KEY,
    CERTIFICATES,
    SECRET_KEY,
    STORES,
    find_program,
    free_port,
    null_store,
    set_credentials,
    wait_for,
)
from object_store import real_store as serve_store
from test_ranks import by_address, read_run

SUMS = "none,sha256,crc32c,crc64nvme,sha256-trailer"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_credentials(monkeypatch, tmp_path)


@pytest.fixture
def store() -> Iterator[str]:
    with null_store() as url:
        yield url


@pytest.fixture(params=STORES)
def each_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Every make, also in ``make test``."""
    folder = tmp_path / "buckets"
    folder.mkdir()
    with serve_store(request.param, folder) as url:
        yield url, folder


@pytest.fixture(params=shortly(1, *STORES))
def real_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "buckets"
    folder.mkdir()
    with serve_store(request.param, folder) as url:
        yield url, folder


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "hwdyno", "object", *words]


def hwdyno(folder: Path, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HWDYNO_HOME": str(folder / "home"), **changes}
    return warm.run(["object", *words], cwd=folder, env=environment)


def measured(folder: Path, *words: str, runtime: str = "0.1") -> dict[str, Any]:
    done = hwdyno(folder, *words, "--runtime", runtime, "--json", "--no-page")
    assert done.returncode in {0, 3}, done.stderr
    run: dict[str, Any] = json.loads(done.stdout)
    assert SECRET_KEY not in done.stdout + done.stderr and ACCESS_KEY not in done.stdout + done.stderr
    return run


def while_deleting(store: str, concurrency: str) -> str:
    """The requests in flight: rclone removes the folder with each object, and fails a put of that moment (500)."""
    return "1" if store == "rclone" else concurrency


def test_each_operation_has_its_figures(store: str, tmp_path: Path) -> None:
    words = ("--endpoint", store, "--bucket", "bench", "--object-size", "64k", "--concurrency", "2", "--objects", "8")
    run = measured(tmp_path, *words, "--operation", "get,range,put,head,list,delete", "--range-size", "4k")
    points = {point["parameters"]["operation"]: point for point in run["experiments"][0]["points"]}
    assert set(points) == {"get", "range", "put", "head", "list", "delete"}
    for operation, point in points.items():
        assert point["throughput"]["unit"] == ("bytes/s" if operation in {"get", "range", "put"} else "operations/s")
        (stream,) = point["streams"]
        assert {"total", "first_byte"} <= set(stream["latency_ns"]), operation
        assert stream["latency_ns"]["first_byte"]["p50"] <= stream["latency_ns"]["total"]["p50"]
        assert not point["faults"]
    (ceiling, *_) = run["experiments"][0]["ceilings"]
    assert ceiling["metric"].startswith("object/")


def test_each_operation_of_a_mix_has_its_figures(
    real_store: tuple[str, Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url, folder = real_store
    words = ("--endpoint", url, "--bucket", "bench", "--create-bucket", "--object-size", "64k", "--objects", "8")
    concurrency = while_deleting(request.node.callspec.params["real_store"], "2,8")
    run = measured(tmp_path, *words, "--mix", "get=45,head=30,put=15,delete=10", "--concurrency", concurrency)
    for point in run["experiments"][0]["points"]:
        assert not point["faults"] and point["throughput"]["value"] > 0
        names = {stream["name"]: stream["operations"] for stream in point["streams"]}
        assert set(names) == {"get", "put", "head", "delete"} and names["get"] > names["put"] >= names["delete"]
    assert not [path for path in (folder / "bench").rglob("*") if path.is_file()]
    refused = hwdyno(tmp_path, *words, "--mix", "put=1,delete=2")
    assert refused.returncode == 2 and "put needs at least its share" in refused.stderr, refused.stderr


def test_a_dry_run_counts_the_requests_of_an_upload(tmp_path: Path) -> None:
    words = ("--endpoint", "http://127.0.0.1:9", "--bucket", "bench", "--operation", "multipart")
    done = hwdyno(tmp_path, *words, "--object-size", "64M", "--part-size", "5M,16M", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "13 UploadPart of 5 MiB, 1 CreateMultipartUpload and 1 CompleteMultipartUpload" in done.stdout
    assert "4 UploadPart of 16 MiB" in done.stdout


IN_PARTS = ("--operation", "multipart")


def test_a_real_store_puts_parts_together(each_store: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = each_store
    words = ("--endpoint", url, "--bucket", "bench", "--create-bucket", "--object-size", "11M", *IN_PARTS)
    run = measured(tmp_path, *words, "--concurrency", "1,4", "--objects", "2", "--checksum", SUMS, runtime="0.02")
    for point in run["experiments"][0]["points"]:
        assert not point["faults"] and point["throughput"]["value"] > 0, point["parameters"]
        names = {stream["name"]: stream for stream in point["streams"]}
        assert names["part"]["latency_ns"]["total"]["count"] >= 3 and names["part"]["operations"] == 0
    assert not [path for path in (folder / "bench").rglob("*") if path.is_file()]


def test_uploads_of_a_killed_run_are_aborted(real_store: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = real_store
    words = ("--endpoint", url, "--bucket", "bench", "--create-bucket", "--object-size", "512M", *IN_PARTS)
    environment = {**os.environ, "HWDYNO_HOME": str(tmp_path / "home")}
    with subprocess.Popen(
        command(*words, "--runtime", "30", "--objects", "1"), env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL
    ) as killed:
        for _ in range(1200):
            if list((folder / "bench").rglob("*multipart*/*/*")):
                break
            time.sleep(0.05)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    # The store goes on with the parts that it has received whole.
    before: list[Path] = []
    while (parts := [path for path in (folder / "bench").rglob("*") if path.is_file()]) != before:
        before = parts
        time.sleep(0.5)
    assert parts
    after = hwdyno(
        tmp_path,
        *words[:5],
        "--object-size",
        "4k",
        "--objects",
        "4",
        "--runtime",
        "0.05",
        "--no-page",
        "--concurrency",
        "1",
    )
    assert "of runs that were killed" in after.stderr, after.stderr
    assert not [path for path in (folder / "bench").rglob("*") if path.is_file()]


def test_a_dry_run_sends_nothing_and_counts_requests(tmp_path: Path) -> None:
    done = hwdyno(tmp_path, "--endpoint", "http://127.0.0.1:9", "--bucket", "bench", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "128 PUT and as many DELETE requests" in done.stdout and "below hwdyno-…/" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name the object store: --endpoint URL"),
        (("--endpoint", "http://127.0.0.1:9"), "name the bucket"),
        (
            ("--endpoint", "minio:9000", "--bucket", "bench", "--dry-run"),
            "--endpoint minio:9000: use a URL with a host",
        ),
        (("--endpoint", "https://127.0.0.1:9", "--bucket", "bench", "--ca-file", "no.pem"), "read the authorities'"),
        (("--endpoint", "https://127.0.0.1:9,http://127.0.0.1:9", "--bucket", "bench"), "use one of them for all"),
        (
            ("--endpoint", "http://u:hunter2@127.0.0.1:9", "--bucket", "bench"),
            "a URL with a user or password is refused",
        ),
        (("--endpoint", "http://127.0.0.1:9", "--bucket", "bench"), "connect to the store at http://127.0.0.1:9"),
        (("--endpoint", "http://127.0.0.1:9", "--bucket", "No"), "a bucket's name has"),
        (("--endpoint", "http://127.0.0.1:9", "--bucket", "bench", "delete"), "takes no test called 'delete'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = hwdyno(tmp_path, *words)
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert says in last and "hunter2" not in done.stderr + done.stdout, done.stderr


def test_without_credentials_the_variables_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    done = hwdyno(tmp_path, "--endpoint", "http://127.0.0.1:9", "--bucket", "bench")
    assert done.returncode == 2 and "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in done.stderr


def test_only_marked_keys_are_written_and_removed(store: str) -> None:
    reached = {"endpoint": store, "bucket": "bench"}
    for prefix in ("", "data/", "hwdyno-x/"):
        with pytest.raises(engine.UsageError, match="only below hwdyno-"):
            engine.run("object_removal", {**reached, "prefix": prefix})
    unmarked = {**reached, "prefix": "hwdyno-0123456789abcdef/"}
    with pytest.raises(OSError, match="has no mark of a hwdyno run"):
        engine.run("object_removal", unmarked)
    with pytest.raises(OSError, match="has no mark of a hwdyno run"):
        engine.run("object_requests", {**unmarked, "operation": "put", "object_size": 10, "runtime": 0.1})


def test_a_real_store_keeps_what_is_the_users(real_store: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = real_store
    words = ("--endpoint", url, "--bucket", "bench", "--object-size", "10k", "--objects", "5", "--concurrency", "2")
    refused = hwdyno(tmp_path, *words)
    assert refused.returncode == 2 and "--create-bucket makes it" in refused.stderr, refused.stderr
    measured(tmp_path, *words, "--create-bucket", "--operation", "head")
    (folder / "bench" / "hwdyno-of-a-user").write_text("data")
    (folder / "bench" / "team").mkdir()
    (folder / "bench" / "team" / "model").write_text("weights")
    # Of a body alone there is a checksum.
    for more in (("--operation", "get,put", "--checksum", SUMS), ("--operation", "list,delete")):
        (result,) = measured(tmp_path, *words, "--prefix", "team", *more, runtime="0.02")["experiments"]
        assert all(not point["faults"] and point["throughput"]["value"] > 0 for point in result["points"])
    left = sorted(str(path.relative_to(folder / "bench")) for path in (folder / "bench").rglob("*") if path.is_file())
    assert left == ["hwdyno-of-a-user", "team/model"]


@pytest.fixture(params=STORES)
def virtual_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "buckets"
    folder.mkdir()
    with serve_store(request.param, folder, *STORES[request.param].virtual) as url:
        yield url.replace("127.0.0.1", "localhost"), folder


def test_a_bucket_may_be_part_of_the_hosts_name(
    virtual_store: tuple[str, Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url, folder = virtual_store
    concurrency = while_deleting(request.node.callspec.params["virtual_store"], "2")
    words = ("--endpoint", url, "--bucket", "bench", "--create-bucket", "--style", "virtual", "--object-size", "10k")
    operations = ("--operation", "get,put,head,list,delete", "--concurrency", concurrency)
    run = measured(tmp_path, *words, "--objects", "4", *operations)
    assert all(not point["faults"] and point["operations"] for point in run["experiments"][0]["points"])
    assert (folder / "bench").is_dir() and not [path for path in (folder / "bench").rglob("*") if path.is_file()]


def test_each_visit_reads_each_object_once(real_store: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = real_store
    words = ("--endpoint", url, "--bucket", "bench", "--create-bucket", "--object-size", "64k", "--objects", "8")
    run = measured(tmp_path, *words, "--visit", "first,second", "--concurrency", "4")
    points = run["experiments"][0]["points"]
    assert [point["parameters"]["visit"] for point in points] == ["first", "second"]
    assert all(not point["faults"] and point["operations"] == 8 * point["repeats"] for point in points)
    assert not [path for path in (folder / "bench").rglob("*") if path.is_file()]
    refused = hwdyno(tmp_path, *words, "--visit", "first", "--operation", "put")
    assert refused.returncode == 2 and "visit = first: it is for operation get" in refused.stderr, refused.stderr


@pytest.mark.machine
def test_hosts_share_objects_or_have_their_own(real_store: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = real_store
    words = ("object", "--endpoint", url, "--bucket", "bench", "--create-bucket", "--object-size", "64k")
    points = ("--objects", "8", "--concurrency", "2", "--operation", "get,delete", "--separate-objects", "0,1")
    with by_address(2, *words, *points, "--runtime", "0.05", store=tmp_path / "runs") as ranks:
        status, out, err = ranks.ended()
    assert status in {0, 3}, err
    run = read_run(out)
    for point in run.experiments[0].points:
        assert not point.faults and len(point.hosts) == 2, point.parameters
        assert all(share.throughput.value > 0 and not share.failure for share in point.hosts), point.parameters
        # Each host deletes what it made: none finds that another one was faster.
        if point.parameters["operation"] == "delete":
            assert point.operations == 2 * 8 * point.repeats
    assert not [path for path in (folder / "bench").rglob("*") if path.is_file()]


@needs(may_mount(), "this user may not mount; the survey of a recorded mount needs none")
def test_a_mounted_bucket_is_named_with_its_program_and_cache(tmp_path: Path) -> None:
    if not shutil.which("fusermount3"):
        missing("fusermount3 (fuse3)")
    (tmp_path / "buckets" / "bench").mkdir(parents=True)
    (mount := tmp_path / "mount").mkdir()
    with serve_store("versitygw", tmp_path / "buckets") as url:
        remote = f":s3,provider=Other,env_auth=true,endpoint='{url}':bench"
        serving = subprocess.Popen(
            [find_program("rclone"), "mount", remote, str(mount), "--config=/dev/null", "--vfs-cache-mode", "writes"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            for _ in range(600):
                if mount.is_mount():
                    break
                time.sleep(0.05)
            storage = Local().survey(mount).storage
        finally:
            subprocess.run(["fusermount3", "-uz", mount], check=False)
            serving.kill()
            serving.wait()
    assert (storage.filesystem, storage.disk.kind, storage.disk.driver) == ("fuse.rclone", "fuse", "rclone")
    assert "through rclone (vfs-cache-mode=writes)" in str(storage.chain[0].detail)


@pytest.fixture(params=shortly(1, *STORES))
def secure_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "buckets"
    folder.mkdir()
    keys = ("--cert", str(CERTIFICATES / "right.pem"), "--key", str(CERTIFICATES / "server.key"))
    with serve_store(request.param, folder, *keys) as url:
        yield url


def test_a_real_store_is_measured_by_tls(secure_store: str, tmp_path: Path) -> None:
    words = ("--endpoint", secure_store, "--bucket", "bench", "--create-bucket", "--object-size", "300k")
    authority = str(CERTIFICATES / "authority.pem")
    points = ("--objects", "4", "--concurrency", "2", "--operation", "get,put,range,list", "--range-size", "4k")
    run = measured(tmp_path, *words, *points, "--ca-file", authority, runtime="0.05")
    (result,) = run["experiments"]
    assert result["fixed"]["tls"] is True and "tls" not in [axis["name"] for axis in result["declaration"]["axes"]]
    assert all(not point["faults"] and point["throughput"]["value"] > 0 for point in result["points"])
    least = ("--objects", "1", "--concurrency", "1", "--operation", "get", "--runtime", "0.05", "--no-page")
    by_bundle = hwdyno(tmp_path, *words, *least, AWS_CA_BUNDLE=authority)
    assert by_bundle.returncode in {0, 3}, by_bundle.stderr
    for endpoint, says in (
        (secure_store, "--ca-file"),
        (secure_store.replace("https", "http"), "use https:// in --endpoint"),
    ):
        done = hwdyno(tmp_path, "--endpoint", endpoint, *words[2:], "--no-page")
        last = done.stderr.strip().splitlines()[-1]
        assert done.returncode == 2 and says in last, done.stderr


def test_a_wrong_key_is_one_line(real_store: tuple[str, Path], tmp_path: Path) -> None:
    done = hwdyno(tmp_path, "--endpoint", real_store[0], "--bucket", "bench", AWS_SECRET_ACCESS_KEY="wrongwrong")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 2 and "SignatureDoesNotMatch" in last and "check the credentials" in last, done.stderr
    assert "wrongwrong" not in done.stderr


def test_what_a_killed_run_left_goes_with_the_next(real_store: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = real_store
    words = ("--endpoint", url, "--bucket", "bench", "--create-bucket", "--object-size", "10k", "--objects", "5")
    environment = {**os.environ, "HWDYNO_HOME": str(tmp_path / "home")}
    with subprocess.Popen(
        command(*words, "--runtime", "30", "--concurrency", "1"),
        env=environment,
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as killed:
        for _ in range(600):
            if list((folder / "bench").glob("hwdyno-*/get-10240-00000004")):
                break
            time.sleep(0.05)
        (mine,) = (folder / "bench").glob("hwdyno-*")
        # Another run leaves it alone while its process lives.
        meanwhile = hwdyno(tmp_path, *words, "--runtime", "0.05", "--no-page", "--concurrency", "1")
        assert "1 other run stay" in meanwhile.stderr and (mine / ".hwdyno").is_file(), meanwhile.stderr
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    after = hwdyno(tmp_path, *words, "--runtime", "0.05", "--no-page", "--concurrency", "1")
    assert "removed 6 objects of runs that were killed" in after.stderr, after.stderr
    assert not [path for path in (folder / "bench").rglob("*") if path.is_file()]


def test_a_run_without_a_store_leaves_it_out(tmp_path: Path) -> None:
    environment = {**os.environ, "HWDYNO_HOME": str(tmp_path / "home")}
    done = warm.run(["run", "--only", "object", "--no-page"], cwd=tmp_path, env=environment)
    assert "no object store was named" in done.stderr, done.stderr


def test_a_profile_has_credentials_region_and_endpoint(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    (tmp_path / ".aws").mkdir()
    keys = f"aws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    (tmp_path / ".aws" / "credentials").write_text(f"[lab]\n{keys}")
    (tmp_path / ".aws" / "config").write_text("[profile lab]\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_PROFILE", "lab")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", store)
    run = measured(tmp_path, "--bucket", "bench", "--object-size", "4k", "--concurrency", "1", "--objects", "4")
    assert run["experiments"][0]["points"][0]["operations"] > 0


def test_a_copy_for_others_names_no_endpoint() -> None:
    fixed = {"endpoint": "http://s3.lab.example:9000,http://s4.lab.example", "bucket": "bench"}
    result = replace(
        made_experiment("object.get", "object", "?", "concurrency", "object_requests", (make_point(1e8),)), fixed=fixed
    )
    shown = redaction.without_names(
        Run("r", "", None, (), "quick", "hwdyno object --endpoint http://s3.lab.example:9000", (result,))
    )
    assert "lab.example" not in repr(shown) and "server-1" in str(shown.experiments[0].fixed["endpoint"])


def test_the_null_server_of_the_command_line_answers(tmp_path: Path) -> None:
    port = str(free_port())
    with subprocess.Popen(
        command("server", "--port", port, "--object-size", "4k"), stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as server:
        assert server.stderr is not None and f"http://127.0.0.1:{port}" in server.stderr.readline()
        wait_for(int(port))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/bucket/any-key", timeout=30) as answer:
            assert len(answer.read()) == 4096
        server.send_signal(signal.SIGINT)
        assert "answered 1 request" in server.stderr.read()
    assert server.returncode == 130


def test_a_store_that_refuses_the_first_request_keeps_nothing(tmp_path: Path, store: str) -> None:
    alone = f"http://127.0.0.1:{free_port()}"
    for words, says in (
        (("--endpoint", alone), "Connection refused"),
        (("--endpoint", store.replace("http:", "https:")), "it does not speak TLS; use http:// in --endpoint"),
    ):
        began = time.monotonic()
        done = hwdyno(tmp_path, *words, "--bucket", "bench", "--budget", "2s", "--no-page", "--quiet")
        assert done.returncode == 2 and says in done.stderr
        assert time.monotonic() - began < 10.0, "a deadline of 10 s was waited for"
        assert "may remain" not in done.stderr
