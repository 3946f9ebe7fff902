"""Vector search in an object store: the command beside a folder, what the rules say of round trips, what is refused."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hwdyno.analysis.estimates import interval
from hwdyno.cli.main import main
from hwdyno.explain.findings import all_rules, explain
from hwdyno.explain.findings.rule import Verdict
from hwdyno.model.histogram import Histogram
from hwdyno.model.machine import Cpu, Machine
from hwdyno.model.units import format_ns
from hwdyno.model.words import Latency, Measurement, Run, Stream
from made_experiment import made_experiment
from made_point import make_case
from object_store import SECRET_KEY, real_store, set_credentials

SMALL = ["--vectors", "500", "--dim", "24", "--queries", "20", "--runtime", "0.1", "--budget", "1s", "--no-page"]
FIXED: dict[str, Any] = {"index": "diskann", "vectors": 20_000, "dim": 128, "k": 10, "search_list": 50, "beam": 4}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))


def objects_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.machine
@pytest.mark.timeout(120)
def test_a_store_stands_beside_a_folder_and_keeps_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bucket, disk = tmp_path / "buckets" / "bench", tmp_path / "disk"
    bucket.mkdir(parents=True)
    disk.mkdir()
    (bucket / "mine").write_text("data")
    with real_store("versitygw", tmp_path / "buckets") as url:
        words = [
            "inference",
            "--vector-search",
            "diskann,ivf",
            "--path",
            f"disk={disk}",
            "--path",
            "s3=s3://bench/x",
        ]
        assert main([*words, "--store-endpoint", url, "--threads", "2", *SMALL, "--json", "--quiet"]) in {0, 3}
        text = capsys.readouterr().out
    run = json.loads(text)
    results = {result["name"]: result for result in run["experiments"]}
    for kind in ("diskann", "ivf"):
        of_disk, of_store = (results[f"inference.vector_search.{kind}@{place}"] for place in ("disk", "s3"))
        plain = results[f"object.plain.vector_search.{kind}@s3"]
        for ours, theirs in zip(of_store["points"], of_disk["points"], strict=True):
            assert not ours["faults"] and ours["details"]["requests_repeated"] == 0
            assert ours["details"]["recall"] == pytest.approx(theirs["details"]["recall"], abs=0.02)
            assert ours["details"]["bytes_per_query"] == pytest.approx(theirs["details"]["bytes_per_query"], rel=0.1)
            assert ours["details"]["connections_made"] == 4 * ours["parameters"]["threads"]
        assert [point["parameters"]["concurrency"] for point in plain["points"]] == [8]
        assert [ceiling["metric"] for ceiling in of_store["ceilings"]] == ["search_gets/8"]
        assert plain["points"][0]["bytes"] and not of_disk["ceilings"]
    rules = {finding["rule"] for finding in run["findings"]}
    assert "vector_queries" in rules and not rules & {"page_cache", "io_faults"} and SECRET_KEY not in text
    assert objects_in(bucket) == ["mine"] and not list(disk.iterdir())


@pytest.mark.machine
@pytest.mark.long
@pytest.mark.timeout(120)
def test_an_interrupted_search_leaves_nothing_in_the_bucket(tmp_path: Path) -> None:
    bucket = tmp_path / "buckets" / "bench"
    bucket.mkdir(parents=True)
    with real_store("versitygw", tmp_path / "buckets") as url:
        words = ["inference", "--vector-search", "ivf", "--path", "s3://bench", "--store-endpoint", url, "--no-page"]
        small = ["--vectors", "2000", "--dim", "24", "--queries", "20", "--runtime", "60", "--threads", "1", "--json"]
        with subprocess.Popen(
            [sys.executable, "-m", "hwdyno", *words, *small], cwd=tmp_path, env={**os.environ},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ) as running:  # fmt: skip
            for _ in range(600):
                if sum("get-" in name for name in objects_in(bucket)) == 4:
                    break
                time.sleep(0.05)
            time.sleep(1.0)
            running.send_signal(signal.SIGINT)
            text, _ = running.communicate(timeout=30)
            assert running.returncode == 130
    assert json.loads(text)["interrupted"] and not objects_in(bucket)


@pytest.mark.machine
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name the object store: --store-endpoint URL"),
        (["--store-endpoint", "http://127.0.0.1:9, minio"], "--store-endpoint minio: use a URL with a host and a port"),
        (["--store-endpoint", "http://127.0.0.1:9"], "connect to the store at http://127.0.0.1:9"),
        (["--store-endpoint", "http://127.0.0.1:9", "--keep"], "an object store keeps no index"),
        (["--store-endpoint", "http://127.0.0.1:9", "--generate"], "an object store keeps no index"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    words: Sequence[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inference", "--vector-search", "hnsw", "--path", "s3://bench/x", "--quiet", *words]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


@pytest.mark.machine
def test_a_dry_run_names_the_object_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["inference", "--vector-search", "ivf", "--path", "s3://bench/x", "--store-endpoint", "http://127.0.0.1:9"]
    assert main([*words, "--dry-run"]) == 0
    listed = capsys.readouterr().out
    assert "s3://bench/x/hwdyno-… (built and removed)" in listed and "object.plain.vector_search.ivf" in listed


def latency(mean_ns: float) -> Latency:
    histogram = Histogram()
    histogram.record(int(mean_ns), 1000)
    return histogram.summary()


def point(threads: int, trips: float, trip_ns: float, compute_ns: float, **details: float) -> Measurement:
    query_ns = trips * trip_ns + compute_ns
    times = {"total": latency(query_ns), "hop": latency(trip_ns)}
    rate = threads * 1e9 / query_ns
    return Measurement(
        parameters={"threads": threads}, throughput=interval([rate * 4 * trips * 4096], "bytes/s"),
        rate=interval([rate], "operations/s"), latency_ns=times["total"],
        streams=(Stream("read", 1000, 200_000_000, latency_ns=times),), samples=None, concurrency=None,
        cpu_user_s=0.1, cpu_system_s=0.1, elapsed_s=2.0, operations=1000, bytes=200_000_000, repeats=1,
        details={"queries_s": rate, "recall": 0.97, "reads_per_query": 4 * trips, "hops_per_query": trips,
                 "bytes_per_query": 4 * trips * 4096, **details},
    )  # fmt: skip


def explained(*points: Measurement, fixed: dict[str, Any] = FIXED, plain: Sequence[Measurement] = ()) -> Run:
    search = made_experiment(
        "inference.vector_search.diskann", "inference", "?", "threads", "inference_vector_search", points, fixed=fixed
    )
    gets = made_experiment(
        "object.plain.vector_search.diskann", "object", "?", "concurrency", "object_requests", plain,
        fixed={"operation": "range", "range_size": 4096},
    )  # fmt: skip
    run = Run(
        id="x", started="", finished="", machines=(Machine(cpu=Cpu(threads=64)),), profile="", command="",
        experiments=(search, gets) if plain else (search,),
    )  # fmt: skip
    return explain(run)


def round_trips(*points: Measurement, **fixed: Any) -> Verdict | None:
    """What the rule finds; none also where it does not apply."""
    (rule,) = (rule for rule in all_rules() if rule.name == "vector_round_trips")
    result = made_experiment(
        "inference.vector_search.diskann", "inference", "?", "threads", "inference_vector_search", points,
        fixed={**FIXED, **fixed},
    )  # fmt: skip
    case = make_case(result)
    found = rule.check(case) if rule.applies.to(case) else None
    assert found is None or isinstance(found, Verdict)
    return found


def test_round_trips_are_found_where_they_take_most_of_a_query() -> None:
    rng = random.Random(7)
    for _ in range(200):
        trips, trip_ns = rng.uniform(2, 60), 10 ** rng.uniform(5, 8)
        waiting = trips * trip_ns
        loads = [point(threads, trips, trip_ns * threads, waiting * rng.uniform(0, 0.8), store_requests=1)
                 for threads in (1, 4)]  # fmt: skip
        found = round_trips(*loads)
        assert found is not None and found.points == (0, 1)
        assert found.evidence["round_trips"] == pytest.approx(trips)
        assert found.evidence["round_trip_ns"] == pytest.approx(trip_ns, rel=0.01)
        assert found.evidence["share"] * found.evidence["query_ns"] == pytest.approx(waiting, rel=0.01)
        assert not round_trips(point(1, trips, trip_ns, waiting * rng.uniform(1.2, 9), store_requests=1))
        assert not round_trips(point(1, trips, trip_ns, 0.0))


@pytest.mark.parametrize(
    ("index", "trips", "advised"),
    [
        ("diskann", 13.0, "--beam 16"),
        ("ivf", 4.0, "--beam 24"),
        ("ivf", 1.0, "--threads 4"),
        ("hnsw", 9.0, "--beam 16"),
    ],
)
def test_advice_is_fewer_round_trips(index: str, trips: float, advised: str) -> None:
    (found,) = (
        finding
        for finding in explained(point(1, trips, 1e6, 0.0, store_requests=1), fixed={**FIXED, "index": index}).findings
        if finding.rule == "vector_round_trips"
    )
    assert advised in found.advice, found.advice
    shown = format_ns(trips * 1e6)
    assert f"{trips:.3g} x 1.00 ms = {shown} of {shown}" in found.says, found.says


def test_plain_gets_over_as_many_connections_are_the_ceiling() -> None:
    def gets(concurrency: int, bytes_s: float) -> Measurement:
        made = point(1, 1.0, 1e6, 0.0)
        return replace(made, parameters={"concurrency": concurrency}, throughput=interval([bytes_s], "bytes/s"))

    searched = [point(threads, 13.0, 1.2e6, 0.0, store_requests=1) for threads in (1, 4)]
    run = explained(*searched, plain=[gets(4, 2e7), gets(16, 7e7)])
    (found,) = (finding for finding in run.findings if finding.rule == "vector_round_trips")
    assert "the slowest of 4 GETs at once, where a plain GET takes 1.00 ms." in found.says
    ceilings = {ceiling.metric: ceiling.value for ceiling in run.experiments[0].ceilings}
    assert ceilings == {"search_gets/4": 2e7, "search_gets/16": 7e7}
    from hwdyno.analysis.ceilings import bound_for

    for threads, value in ((1, 2e7), (4, 7e7)):
        bound = bound_for(run.experiments[0].ceilings, {**FIXED, "threads": threads})
        assert bound is not None and bound.value == value
    assert bound_for(run.experiments[0].ceilings, {**FIXED, "threads": 2}) is None
