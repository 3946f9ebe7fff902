"""``hwdyno inference --images``: ResNet-50 fed from JPEG files, with the real decoder and the real engine."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from here import sample
from hwdyno.analysis.ceilings.inference import CACHED_IMAGES
from hwdyno.analysis.estimates import interval
from hwdyno.analysis.resources import with_derived
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.measure import plan
from hwdyno.measure.models import installed, jpeg_images
from hwdyno.measure.scenarios.request import bytes_below
from hwdyno.measure.workloads import find
from hwdyno.model.machine import Cpu, Machine
from hwdyno.model.words import Finding, Measurement, Run
from made_experiment import made_experiment
from style import find_faults

MACHINES = sample(60, 200)
REPEATS = 4
PROCESSORS = 4


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "place").mkdir()
    monkeypatch.setitem(plan.PROFILES, "quick", replace(plan.PROFILES["quick"], repeats_min=1, repeats_max=1))
    return tmp_path / "place"


def words(place: Path, *more: str) -> list[str]:
    return ["inference", "--images", "6", *more, "--path", str(place), "--quiet"]


@pytest.mark.machine
def test_images_come_from_storage_and_each_stage_is_timed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words(place, "--threads", "1,2", "--runtime=300ms", "--budget=2s"), "--json", "--no-page"]) in {0, 3}
    run = json.loads(capsys.readouterr().out)
    (result,) = run["experiments"]
    assert len(result["points"]) == 4
    for point in result["points"]:
        details, count = point["details"], point["operations"] / point["repeats"]
        cold = point["parameters"]["cache"] == "cold"
        assert details["cached_before"] == (0.0 if cold else 1.0)
        assert details["image_bytes"] == pytest.approx(count * jpeg_images.MEAN_BYTES, rel=0.02)
        assert (details["fetched_bytes"] >= details["image_bytes"]) if cold else details["fetched_bytes"] == 0
        stages = sum(details[f"{name}_s"] for name in ("read", "decode", "infer"))
        assert all(details[f"{name}_s"] > 0 for name in ("read", "decode", "infer"))
        assert count * stages <= point["elapsed_s"] / point["repeats"] * point["parameters"]["threads"] * 1.01
        assert point["throughput"]["unit"] == "operations/s"
    bounds = {ceiling["metric"] for ceiling in result["ceilings"] if ceiling["metric"].startswith(CACHED_IMAGES)}
    assert bounds == {f"{CACHED_IMAGES}1", f"{CACHED_IMAGES}2"}
    assert "images_from_files" in {finding["rule"] for finding in run["findings"]}
    assert not list(place.iterdir())


@pytest.mark.machine
def test_a_dry_run_names_the_bytes_that_then_lie_there(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words(place), "--dry-run"]) == 0
    assert "images: 6 JPEG files in" in capsys.readouterr().out and not list(place.iterdir())
    assert main([*words(place), "--generate"]) == 0
    assert bytes_below(place / "hwdyno-images-6") == pytest.approx(6 * jpeg_images.MEAN_BYTES, rel=0.01)
    assert main([*words(place), "--dry-run"]) == 0
    assert "(existing images)\n" in capsys.readouterr().out


@pytest.mark.machine
def test_a_cut_image_is_one_line(place: Path) -> None:
    assert main([*words(place), "--generate"]) == 0
    folder = place / "hwdyno-images-6"
    file = folder / jpeg_images.name_image(0)
    file.write_bytes(file.read_bytes()[:40_000])
    job = {"model": "resnet50", "path": str(place / "hwdyno-model-resnet50"), "folder": str(folder), "files": 6}
    with pytest.raises(OSError, match=r"onnxruntime failed: .*truncated"):
        find("inference_images").run(job)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--images", "0"], "--images 0 is no number of images"),
        (["--images", "many"], "--images many is no number of images"),
        (["--images", "4", "--model", "encoder"], "--images needs a vision model; use --model resnet50"),
        (["--images", "4", "--model", "no.onnx"], "no such file"),
        (["--images", "4", "--tokens", "3"], "inference_images has no parameter 'tokens'"),
        (["--images", "999999"], "use fewer --images"),
    ],
)
def test_what_is_wrong_is_one_line(
    more: list[str], says: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hwdyno.measure.scenarios.images.free_bytes", lambda path: 10**10)
    assert main(["inference", *more, "--path", str(place), "--quiet"]) == 2
    shown = capsys.readouterr().err
    assert says in shown and shown.count("\n") == 1 and not list(place.iterdir())


def test_a_missing_decoder_is_one_line(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert main(words(place)) == 2
    assert capsys.readouterr().err == 'hwdyno: decoding images needs pillow: pip install "hwdyno[inference]"\n'
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    assert main(words(place)) == 2
    assert 'loading a model needs onnxruntime: pip install "hwdyno[inference]"' in capsys.readouterr().err


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from hwdyno.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.machine
@pytest.mark.parametrize(
    ("least", "line"),
    [
        (50_000_000, ["--images", "4"]),
        (40_000, ["--cold", "raw", "--model", "tiny"]),
        (40_000, ["--restore", "onnxruntime", "--model", "tiny"]),
    ],
    ids=["images", "cold start", "restore"],
)
def test_files_that_do_not_fit_are_one_line_and_go(least: int, line: list[str], place: Path) -> None:
    command = [sys.executable, "-c", FULL, str(least), "inference", *line, "--path", str(place), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})
    assert done.returncode == 2
    assert "could not be written: File too large; free space" in done.stderr and done.stderr.count("\n") == 1
    assert not list(place.iterdir())


def test_made_images_are_photographs_in_size_and_decode_the_same_each_time() -> None:
    first, second = list(jpeg_images.make_images(2, 1)), list(jpeg_images.make_images(2, 1))
    assert first == second and first[0] != first[1]
    assert all(len(image) == pytest.approx(jpeg_images.MEAN_BYTES, rel=0.01) for image in first)
    pixels = jpeg_images.decode_image(first[0])
    assert pixels.shape == (1, 3, 224, 224) and pixels.dtype == "float32"
    assert -3 < pixels.min() < 0 < pixels.max() < 3
    assert jpeg_images.decode_image(first[0], 96).shape == (1, 3, 96, 96)
    with pytest.raises(OSError, match="cannot identify"):
        jpeg_images.decode_image(b"no image")


# --- simulated machines


def point(cache: str, workers: int, read: float, decode: float, infer: float, busy: float) -> Measurement:
    """Workers whose images take so long in each stage, while ``busy`` processors compute."""
    rates = [workers / (read + decode + infer) * (1 + 0.001 * at) for at in range(REPEATS)]
    return Measurement(
        parameters={"cache": cache, "threads": workers}, throughput=interval(rates, "operations/s"), rate=None,
        latency_ns=None, streams=(), samples=None, concurrency=None, cpu_user_s=REPEATS * busy, cpu_system_s=0.0,
        elapsed_s=float(REPEATS), operations=round(REPEATS * rates[0]), bytes=0, repeats=REPEATS,
        details={"read_s": read, "decode_s": decode, "infer_s": infer, "image_bytes": 1e7,
                 "cached_before": 0.0 if cache == "cold" else 1.0},
    )  # fmt: skip


def explained(*points: Measurement) -> dict[str, list[Finding]]:
    result = made_experiment(
        "inference.images", "inference", "?", "threads", "inference_images", points,
        fixed={"model": "resnet50", "files": 256},
    )  # fmt: skip
    machine = Machine(cpu=Cpu(threads=PROCESSORS))
    run = Run(id="x", started="", finished="", machines=(machine,), profile="", command="", experiments=(result,))
    found: dict[str, list[Finding]] = {}
    for finding in explain(with_derived(run)).findings:
        found.setdefault(finding.rule, []).append(finding)
        assert not find_faults(finding.says), (finding.says, find_faults(finding.says))
    return found


PLANTS: dict[str, tuple[str, str]] = {
    "storage": ("Storage limits it", "a faster storage still helps"),
    "processors": ("The processors limit it", "a faster storage would not help"),
    "worker": ("Each worker is busy with inference; ", "a faster storage would not help"),
    "neither": ("Limit not identified", "a faster storage would not help"),
}


def planted(cause: str, seed: int) -> tuple[Measurement, ...]:
    source = random.Random(seed)
    decode, infer = source.uniform(0.002, 0.006), source.uniform(0.01, 0.05)
    computes = decode + infer
    workers = PROCESSORS if cause == "processors" else 2
    read = computes * (source.uniform(1.2, 5) if cause == "storage" else source.uniform(0.001, 0.05))
    busy = workers * computes / (computes + read) * (0.4 if cause == "neither" else 1.0)
    warm_read = 0.0005 * computes
    return (
        point("cold", workers, read, decode, infer, busy),
        point("warm", workers, warm_read, decode, infer, busy),
    )


@pytest.mark.parametrize("cause", PLANTS)
def test_what_limits_the_images_is_found(cause: str) -> None:
    for seed in range(MACHINES):
        (found,) = explained(*planted(cause, seed))["images_from_files"]
        limit, gain = PLANTS[cause]
        assert limit in found.says and gain in found.says, (seed, found.says)
        others = {cause_text for cause_text, _ in PLANTS.values()} - {limit}
        assert not any(cause_text in found.says for cause_text in others), (seed, found.says)


def test_images_from_memory_are_named_and_degrade_the_point() -> None:
    cold, warm = planted("storage", 1)
    assert "images_not_cold" not in explained(cold, warm)
    cached = replace(cold, details={**cold.details, "cached_before": 0.4})
    (found,) = explained(cached, warm)["images_not_cold"]
    assert "40% of the images were in the page cache" in found.says


def from_files(read: float = 0.1, busy: float = 0.0, cache: str = "cold", cached: float = 0.0, speed: float = 1.0
               ) -> Measurement:  # fmt: skip
    """Two workers whose images take a second, a part of it reading; a quarter of what remains is decoding."""
    made = point(cache, 2, read / speed, 0.25 * (1 - read) / speed, 0.75 * (1 - read) / speed, busy)
    return replace(made, details={**made.details, "cached_before": cached})


@pytest.mark.parametrize(
    ("words", "points", "below", "above"),
    [
        ("were in the page cache", lambda share: [from_files(cached=share)], 0.0499, 0.0501),
        ("Storage limits it", lambda read: [from_files(read)], 0.499, 0.501),
        ("The processors limit it", lambda busy: [from_files(busy=busy)], 3.199, 3.201),
        ("Each worker is busy", lambda busy: [from_files(busy=busy)], 1.599, 1.601),
        ("a faster storage still helps", lambda share: [from_files(), from_files(cache="warm", speed=1 / share)], 0.901,
         0.899),
        ("classifies", lambda rate: [replace(from_files(), throughput=interval([rate], "operations/s"))], 0.0, 0.5),
    ],
)  # fmt: skip
def test_a_threshold_of_images_is_kept(words: str, points: Any, below: float, above: float) -> None:
    silent, named = (explained(*points(number)).values() for number in (below, above))
    assert any(words in finding.says for found in named for finding in found)
    assert not any(words in finding.says for found in silent for finding in found)


def test_the_images_from_memory_bound_those_from_storage_with_as_many_workers() -> None:
    cold, warm = planted("storage", 2)
    result = made_experiment(
        "inference.images", "inference", "?", "threads", "inference_images", (cold, warm), fixed={"model": "resnet50"}
    )
    run = Run(
        id="x", started="", finished="", machines=(Machine(),), profile="", command="", experiments=(result,)
    )  # fmt: skip
    ceilings: dict[str, Any] = {ceiling.metric: ceiling.value for ceiling in with_derived(run).experiments[0].ceilings}
    assert ceilings == {f"{CACHED_IMAGES}2": warm.throughput.value}
