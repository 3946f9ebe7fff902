"""The benchmarks' arithmetic: ratios from pairs, and targets met, missed or open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import Bench, Target, make_row
from benchmarks import object as object_benchmark
from benchmarks.__main__ import main as benchmarks_main
from benchmarks.memory import INTERVAL_S, LATENCY, Interval, _paced, agreement


@pytest.mark.parametrize(
    ("target", "value", "low", "high", "verdict"),
    [
        (Target(at_least=0.97), 0.98, 0.9, 1.0, "met"),
        (Target(at_least=0.97), 0.95, 0.9, 1.0, "open"),
        (Target(at_least=0.97), 0.95, 0.9, 0.96, "not met"),
        (Target(at_most=0.6), 0.6, 0.5, 0.7, "met"),
        (Target(at_most=0.6), 0.7, 0.59, 0.8, "open"),
        (Target(at_most=0.6), 0.7, 0.61, 0.8, "not met"),
        (Target(at_most=0.6), 0.7, None, None, "not met"),
        (Target(0.95, 1.05), 1.0, None, None, "met"),
        (Target(0.95, 1.05), 1.1, 1.04, 1.2, "open"),
        (Target(0.95, 1.05), 0.9, 0.8, 0.94, "not met"),
    ],
)
def test_target_is_met_missed_or_open(
    target: Target, value: float, low: float | None, high: float | None, verdict: str
) -> None:
    assert target.verdict(value, low, high) == verdict


def test_ratio_is_median_of_pairs() -> None:
    row = make_row(
        "x", "IOPS", [(100.0, 100.0), (50.0, 40.0), (10.0, 5.0), (8.0, 8.0), (90.0, 60.0)], Target(at_least=1)
    )
    assert row.ratio == 1.25
    assert row.low is not None and row.high is not None and row.low <= 1.25 <= row.high
    assert (row.ours, row.theirs, row.verdict) == (50.0, 40.0, "met")


def test_two_runs_agree_where_their_intervals_meet_or_a_noise_is_named() -> None:
    quiet = [{"a": Interval(1.0, 2.0, False)}, {"a": Interval(1.5, 2.5, False)}, {"a": Interval(2.2, 3.0, False)}]
    assert agreement(quiet) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    noisy = [*quiet[:2], {"a": Interval(2.2, 3.0, True)}]
    assert agreement(noisy) == (pytest.approx(2 / 3), 1.0)
    assert agreement(quiet[:1]) == (0.0, 0.0), "one run agrees with nothing"


@pytest.mark.parametrize("stolen", [0.0, 0.3])
def test_paced_traffic_is_held_to_the_law_in_the_time_that_it_had(stolen: float) -> None:
    """Traffic that keeps the law at a clock of 3 GHz, of whose intervals others take some whole."""

    def run(kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if kernel == LATENCY:
            return {"details": {"clock_hz": 3e9}}
        rate = parameters["threads"] * 128 * 3e9 / (parameters["delay"] + 15)
        intervals = [0.0 if at % 10 < 10 * stolen else rate * INTERVAL_S for at in range(100)]
        return {"details": {}, "samples": {"bytes": [[], intervals]}}

    rows = list(_paced(Bench(Path(), 3, 0.1, run, lambda _: None)))
    assert [row.ratio for row in rows] == pytest.approx([1.0] * len(rows))
    assert [row.title.split(",")[0] for row in rows][-1] == "traffic at a delay of 5000" and len(rows) >= 4


@pytest.mark.parametrize("words", [("--pairs", "0"), ("--runtime", "-1"), ("--runtime", "nan")])
def test_nothing_is_measured_without_a_pair_or_time(
    words: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", *words])
    with pytest.raises(SystemExit):
        benchmarks_main()
    assert "at least one pair, of more than 0 seconds" in capsys.readouterr().err


def test_a_client_whose_python_is_not_there_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for peer in object_benchmark.PEERS:
        monkeypatch.setenv(f"HWDYNO_{peer.upper()}", str(tmp_path / "python"))
    lines: list[str] = []
    bench = Bench(tmp_path, 1, 1.0, lambda *_: {}, lines.append)
    assert object_benchmark._find_peers(bench) == {} and len(lines) == len(object_benchmark.PEERS)
