"""The soak finds what grows or stays behind, and finds nothing where nothing does."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from soak.rounds import Soak
from soak.series import estimate_slope, judged

ROOT = Path(__file__).parents[1]
ALLOWED = 10.0


def noisy(growth: float, rounds: int, seed: int = 1) -> list[float]:
    rng = random.Random(seed)
    return [1000 + growth * number + rng.gauss(0, 20) for number in range(rounds)]


@pytest.mark.parametrize("seed", range(20))
def test_growth_is_told_from_noise(seed: int) -> None:
    assert judged("x", "", ALLOWED, noisy(0, 40, seed)).word == "flat"
    assert judged("x", "", ALLOWED, noisy(2 * ALLOWED, 40, seed)).word == "GROWS"


def test_an_interval_holds_the_slope_as_often_as_it_says() -> None:
    slopes = [estimate_slope(noisy(3, 20, seed)) for seed in range(300)]
    covered = sum(slope.low <= 3 <= slope.high for slope in slopes)
    assert 0.97 <= covered / len(slopes) < 1


@pytest.mark.parametrize("values", [[], [1], [1, 2, 3], [5] * 6])
def test_a_short_series_decides_nothing(values: Sequence[float]) -> None:
    assert judged("x", "", 0, values).word == "undecided"


def test_what_fills_once_does_not_grow() -> None:
    fills = [0, 500, 900, 1000, *[1000] * 16]
    assert judged("x", "", 0, fills).word == "flat"
    assert judged("x", "", 0, [12.0] * 9).word == "flat"


def fills(rounds: int, fills_in: float, seed: int) -> list[float]:
    """What nears 70,000 above its start, as free memory that threads keep."""
    rng = random.Random(seed)
    return [70_000 * (1 - math.exp(-number / fills_in)) + rng.gauss(0, 20) for number in range(rounds)]


@pytest.mark.parametrize("seed", range(10))
def test_what_fills_slowly_and_stays_is_not_accused(seed: int) -> None:
    assert judged("x", "", ALLOWED, fills(60, 3, seed)).word == "flat"
    assert judged("x", "", ALLOWED, fills(20, 3, seed)).word != "flat"  # It still fills.


@pytest.mark.parametrize("seed", range(10))
def test_leak_beneath_what_fills_is_found(seed: int) -> None:
    values = [value + 2 * ALLOWED * number for number, value in enumerate(fills(60, 3, seed))]
    assert judged("x", "", ALLOWED, values).word == "GROWS"


@pytest.mark.parametrize("seed", range(10))
def test_leak_that_begins_late_is_found(seed: int) -> None:
    values = [value + max(0, number - 30) * 4 * ALLOWED for number, value in enumerate(noisy(0, 60, seed))]
    assert judged("x", "", ALLOWED, values).word == "GROWS"


def runs(growth: float, rounds: int = 34, seed: int = 1) -> Soak:
    """What a soak saw of Runs whose size varies by 1%, and grows by a share in each round of 28."""
    rng = random.Random(seed)
    soak = Soak(rounds=rounds)
    sizes = [1 + growth * number / 28 + rng.gauss(0, 0.01) for number in range(rounds * 28)]
    soak.runs = [((number % 28,), 1e5 * (1 + number % 28) * size) for number, size in enumerate(sizes)]
    return soak


@pytest.mark.parametrize(("growth", "word"), [(0.0, "flat"), (0.002, "GROWS"), (0.01, "GROWS")])
def test_a_run_that_grows_from_round_to_round_is_found(growth: float, word: str) -> None:
    found = {verdict.name: verdict.word for verdict in runs(growth).verdicts(28)}
    assert found["bytes of a Run"] == word


@pytest.mark.parametrize(("growth", "word"), [(0.0, "flat"), (0.003, "GROWS")])
def test_peak_growth_by_share_is_found(growth: float, word: str) -> None:
    rng = random.Random(2)
    soak = Soak(rounds=60)
    soak.peaks["images"] = [400e6 * (1 + growth * number + rng.gauss(0, 0.01)) for number in range(60)]
    assert {verdict.name: verdict.word for verdict in soak.verdicts(28)}["peak of images"] == word


def test_steady_growth_is_exact() -> None:
    verdict = judged("x", "", 0.5, list(range(12)))
    assert (verdict.word, verdict.slope.low, verdict.slope.value, verdict.slope.high) == ("GROWS", 1, 1, 1)


def soaked(*words: str, rounds: int = 12) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "python")])
    line = [sys.executable, "-m", "soak", "--rounds", str(rounds), "--only", "history", *words]
    return subprocess.run(line, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)


# Among other tests a figure may still settle in the last round; make test-long soaks all commands alone.
@pytest.mark.long
@pytest.mark.timing
def test_commands_that_leak_nothing_pass(tmp_path: Path) -> None:
    done = soaked("--path", str(tmp_path), rounds=24)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "process: descriptors" in done.stdout and "peak of history" in done.stdout
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("planted", "says", "word"),
    [
        pytest.param("memory", "process: anonymous", "GROWS", marks=pytest.mark.long),
        pytest.param("little memory", "process: in use", "GROWS", marks=pytest.mark.long),
        pytest.param("object", "process: objects", "GROWS", marks=pytest.mark.long),
        pytest.param("descriptor", "process: descriptors", "GROWS", marks=pytest.mark.long),
        pytest.param("thread", "process: threads", "GROWS", marks=pytest.mark.long),
        pytest.param("disk", "file left-", "BAD", marks=pytest.mark.long),
        ("process", "process sleep", "BAD"),
    ],
)
def test_a_planted_leak_is_found(tmp_path: Path, planted: str, says: str, word: str) -> None:
    # What stays behind a command is seen after the first one; what grows shows in many.
    done = soaked("--path", str(tmp_path), "--plant", planted, rounds=1 if word == "BAD" else 12)
    assert done.returncode == 1, done.stdout + done.stderr
    assert [word for line in done.stdout.splitlines() if says in line and word in line], done.stdout
    assert not any(tmp_path.iterdir())
