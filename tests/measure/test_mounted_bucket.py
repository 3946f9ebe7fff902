"""A bucket of a real store that rclone mounts through FUSE, measured beside the store itself, in one Run and in two."""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import warm
from here import may_mount, missing
from hwdyno.explain.repeatability import half_width, unknown
from object_store import find_program, real_store, set_credentials

pytestmark = [pytest.mark.machine, pytest.mark.timeout(120)]

PLAN = """
path = "{mount}"

[[experiment]]
name = "storage.mount"
kernel = "storage_blocks"
load = "iodepth"
axes = {{ rw = "read", bs = "1M", iodepth = [1, 4], direct = true, size = "32M", runtime = 0.3 }}

[[experiment]]
name = "object.get"
axes = {{ concurrency = [1, 8], objects = 8 }}
options = {{ endpoint = "{url}", bucket = "bench" }}
"""
COSTS = 0.1
"""The difference from which on a mount is worth a word (docs/resources/object.md)."""


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path, Path]]:
    """The URL of a store, the folder of its bucket, and where the bucket is mounted."""
    if not may_mount() or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        missing("nothing can be mounted through FUSE here")
    set_credentials(monkeypatch, tmp_path)
    program, at = find_program("rclone"), tmp_path / "mounted"
    at.mkdir()
    (tmp_path / "buckets" / "bench").mkdir(parents=True)
    with real_store("versitygw", tmp_path / "buckets") as url:
        config = tmp_path / "rclone.conf"
        config.write_text(f"[lab]\ntype = s3\nprovider = Other\nendpoint = {url}\nenv_auth = true\n")
        mounting = subprocess.Popen(
            [program, f"--config={config}", "mount", "lab:bench", str(at), "--vfs-cache-mode=writes"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            for _ in range(600):
                if os.path.ismount(at):
                    break
                time.sleep(0.05)
            assert os.path.ismount(at) and mounting.poll() is None
            yield url, tmp_path / "buckets" / "bench", at
        finally:
            subprocess.run(["umount", "--lazy", str(at)], check=False)
            mounting.wait(30)


def best_bytes_s(run: dict[str, Any], name: str) -> dict[str, float]:
    """The fastest throughput of an experiment, with its interval."""
    (result,) = (experiment for experiment in run["experiments"] if experiment["name"] == name)
    valid = [point["throughput"] for point in result["points"] if point["validity"] != "invalid"]
    return max(valid, key=lambda throughput: float(throughput["value"]))


def test_a_mount_is_known_and_its_cost_is_what_both_ways_measured(
    mount: tuple[str, Path, Path], tmp_path: Path
) -> None:
    url, bucket, at = mount
    (bucket / "mine").write_text("data")
    (tmp_path / "plan.toml").write_text(PLAN.format(mount=at, url=url))
    environment = {**os.environ, "HWDYNO_HOME": str(tmp_path / "home")}
    done = warm.run(
        ["run", str(tmp_path / "plan.toml"), "--no-page", "--json", "--quiet", "--budget", "3s"],
        env=environment,
        timeout_s=90,
    )
    assert done.returncode in {0, 3}, done.stderr
    run = json.loads(done.stdout)
    storage = run["machines"][0]["storage"]
    details = [layer["detail"] for layer in storage["chain"]]
    assert "lab:bench through rclone (vfs-cache-mode=writes)" in details
    mounted, direct = best_bytes_s(run, "storage.mount"), best_bytes_s(run, "object.get")
    share = mounted["value"] / direct["value"]
    slower, faster = sorted((mounted, direct), key=lambda throughput: throughput["value"])
    # On a busy machine both may be too noisy to differ.
    differ = abs(share - 1) > COSTS and slower["high"] < faster["low"]
    found = [finding for finding in run["findings"] if finding["rule"] == "object_mount"]
    assert len(found) == differ, (mounted, direct, found)
    for finding in found:
        assert finding["evidence"]["share"] == pytest.approx(share) and "rclone" in finding["says"]
        assert ("The mount costs" if share < 1 else "A cache of the mount answers") in finding["says"]
    assert "others_at_work" not in {finding["rule"] for finding in run["findings"]}, "the mount's process is measured"
    assert [path.name for path in bucket.iterdir() if not path.name.startswith(".")] == ["mine"]


def test_two_runs_are_compared_as_one_run_of_both(mount: tuple[str, Path, Path], tmp_path: Path) -> None:
    url, bucket, at = mount
    environment = {**os.environ, "HWDYNO_HOME": str(tmp_path / "home")}
    commands = {
        "mount": ["storage", "--path", str(at), "--rw", "read", "--bs", "1M", "--iodepth", "1,4", "--size", "32M"],
        "store": ["object", "--endpoint", url, "--bucket", "bench", "--concurrency", "1,8", "--objects", "8"],
    }
    runs = {}
    for name, words in commands.items():
        done = warm.run(
            [*words, "--runtime", "0.5", "--no-page", "--json", "--quiet"], env=environment,
            timeout_s=90,
        )  # fmt: skip
        assert done.returncode in {0, 3}, done.stderr
        runs[name] = json.loads(done.stdout)
        (tmp_path / f"{name}.json").write_text(done.stdout)
    files = [str(tmp_path / f"{name}.json") for name in runs]
    done = warm.run(["compare", *files, "--json"], env=environment, timeout_s=90)
    mounted, direct = (best_bytes_s(run, run["experiments"][0]["name"]) for run in runs.values())
    share, more = mounted["value"] / direct["value"], half_width(unknown())
    (least, most), (low, high) = ([
        throughput["value"] * (1 + sign * math.hypot(throughput[end] / throughput["value"] - 1, more))
        for sign, end in ((-1, "low"), (1, "high"))
    ] for throughput in (mounted, direct))  # fmt: skip
    if abs(share - 1) < COSTS or not (most < low or high < least):  # On a busy machine both may be too noisy to differ.
        assert done.returncode == 2 and "are unlike" in done.stderr, (mounted, direct, done.stderr)
        return
    assert done.returncode == 0, (mounted, direct, done.stderr)
    (side,) = json.loads(done.stdout)["sides"]
    assert side["one_machine"] and not side["changes"]
    assert side["finding"]["rule"] == "object_mount" and side["finding"]["evidence"]["share"] == pytest.approx(share)
    assert "rclone" in side["finding"]["says"]
    assert [path.name for path in bucket.iterdir() if not path.name.startswith(".")] == []
