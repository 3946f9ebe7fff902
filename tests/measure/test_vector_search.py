"""Vector search on storage: the index that is built, the answers that it gives, what the rules say, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hwdyno.analysis.estimates import interval
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.measure import engine
from hwdyno.model.histogram import Histogram
from hwdyno.model.machine import Cpu, Machine
from hwdyno.model.words import Finding, Measurement, Run, Stream
from made_experiment import made_experiment

INDEX: dict[str, Any] = {"index": "diskann", "vectors": 1200, "dim": 48, "degree": 24, "queries": 50}


def build(path: Path, **parameters: Any) -> dict[str, Any]:
    return engine.run("inference_vector_index", {**INDEX, **parameters, "path": str(path)})


def search(path: Path, **parameters: Any) -> dict[str, Any]:
    """A search as long as every query takes: a busy machine answers few in a moment, and recall is their mean."""
    for runtime in (0.2, 2.0, 20.0):
        given = {**INDEX, "direct": False, "runtime": runtime, **parameters, "path": str(path)}
        reading = engine.run("inference_vector_search", given)
        if reading["streams"][0]["operations"] >= INDEX["queries"]:
            break
    return reading


@pytest.mark.machine
@pytest.mark.parametrize("kind", ["diskann", "hnsw", "ivf"])
def test_answers_are_nearly_the_exact_ones_and_every_read_is_counted(tmp_path: Path, kind: str) -> None:
    size = build(tmp_path, index=kind)["streams"][0]["bytes"]
    assert (tmp_path / "vectors.hwdyno").stat().st_size == size
    reading = search(tmp_path, index=kind, threads=2, probes=16)
    details, (stream,) = reading["details"], reading["streams"]
    assert not reading["faults"]
    assert details["recall"] > 0.9
    assert details["bytes_per_query"] * stream["operations"] == pytest.approx(stream["bytes"])
    assert details["bytes_per_query"] >= 4096 * details["reads_per_query"]
    assert stream["latency_ns"]["total"]["count"] == stream["operations"] > 0


@pytest.mark.machine
def test_longer_lists_find_more(tmp_path: Path) -> None:
    build(tmp_path)
    few, many = (search(tmp_path, search_list=size, beam=1)["details"] for size in (10, 80))
    assert few["recall"] < many["recall"]
    assert few["reads_per_query"] < many["reads_per_query"]
    assert many["hops_per_query"] == pytest.approx(many["reads_per_query"])
    assert search(tmp_path, search_list=80, beam=8)["details"]["hops_per_query"] < many["hops_per_query"] / 3


@pytest.mark.machine
def test_hnsw_reads_every_vector_that_diskann_judges_in_memory(tmp_path: Path) -> None:
    """The same number is found with as long a list, in a fraction of the memory, for many times the reads."""
    found = {}
    for kind in ("diskann", "hnsw"):
        build(tmp_path / kind, index=kind)
        found[kind] = search(tmp_path / kind, index=kind, search_list=40, beam=32)["details"]
    ours, theirs = found["hnsw"], found["diskann"]
    assert ours["recall"] > 0.95
    assert ours["recall"] == pytest.approx(theirs["recall"], abs=0.04)
    # a 12th of the vectors reach an upper level and are kept whole; DiskANN keeps all, in a byte a dimension
    assert ours["memory_bytes"] < 0.7 * theirs["memory_bytes"]
    assert ours["reads_per_query"] > 3 * theirs["reads_per_query"]
    assert search(tmp_path / "hnsw", index="hnsw", search_list=10)["details"]["recall"] < ours["recall"]


@pytest.mark.machine
def test_an_index_that_is_there_is_kept_and_another_one_is_not_searched(tmp_path: Path) -> None:
    build(tmp_path)
    before = (tmp_path / "vectors.hwdyno").stat().st_mtime_ns
    assert build(tmp_path)["details"]["kept"] is True
    assert (tmp_path / "vectors.hwdyno").stat().st_mtime_ns == before
    with pytest.raises(engine.MachineError, match="it is an index of other vectors; rebuild it"):
        search(tmp_path, vectors=1300)
    with pytest.raises(engine.MachineError, match="no index found; build it first"):
        search(tmp_path / "nowhere")


@pytest.mark.machine
def test_a_damaged_index_is_named_by_its_block_or_not_opened(tmp_path: Path) -> None:
    build(tmp_path)
    path = tmp_path / "vectors.hwdyno"
    whole = bytearray(path.read_bytes())
    broken = bytearray(whole)
    for block in range(1, 50):
        broken[4096 * block + 700] ^= 1
    path.write_bytes(broken)
    reading = search(tmp_path, direct=False)
    assert reading["details"]["corrupt_blocks"] > 0
    assert "is flipped: its CRC-32C is wrong" in reading["faults"][0]["says"]
    path.write_bytes(whole[:-100])
    with pytest.raises(engine.MachineError, match=r"vectors\.hwdyno: it is cut short: build it again"):
        search(tmp_path)
    path.write_bytes(b"something else" * 1000)
    with pytest.raises(engine.MachineError, match="it is no vector index of hwdyno"):
        search(tmp_path)


@pytest.mark.machine
def test_an_index_beyond_the_room_is_refused_before_a_byte_is_written(tmp_path: Path) -> None:
    with pytest.raises(engine.MachineError, match=r"needs .* GB of storage, but .* are free: use fewer vectors"):
        build(tmp_path, vectors=1 << 31, dim=4096)
    assert not list(tmp_path.iterdir())


def point(threads: int, recall: float, queries_s: float = 500.0) -> Measurement:
    histogram = Histogram()
    histogram.record(2_000_000, 1000)
    latency = histogram.summary()
    return Measurement(
        parameters={"threads": threads}, throughput=interval([queries_s * 2e5], "bytes/s"),
        rate=interval([queries_s], "operations/s"), latency_ns=latency,
        streams=(Stream("read", 1000, 200_000_000, latency_ns={"total": latency}),), samples=None, concurrency=None,
        cpu_user_s=0.2, cpu_system_s=0.2, elapsed_s=2.0, operations=1000, bytes=200_000_000, repeats=1,
        details={"queries_s": queries_s, "recall": recall, "reads_per_query": 50.0, "bytes_per_query": 2e5},
    )  # fmt: skip


def explained(*points: Measurement) -> Run:
    fixed: dict[str, Any] = {"index": "diskann", "vectors": 20_000, "dim": 128, "k": 10, "search_list": 50}
    result = made_experiment(
        "inference.vector_search.diskann", "inference", "?", "threads", "inference_vector_search", points, fixed=fixed
    )
    run = Run(
        id="x",
        started="",
        finished="",
        machines=(Machine(cpu=Cpu(threads=4)),),
        profile="",
        command="",
        experiments=(result,),
    )
    return explain(run)


def findings(*points: Measurement) -> dict[str, Finding]:
    return {found.rule: found for found in explained(*points).findings}


def test_the_best_point_is_told_with_its_price_and_its_answers() -> None:
    found = findings(point(1, 0.97, 500), point(4, 0.97, 1500))
    assert "answers 1.50 k queries/s with 4 threads, p50 2.00 ms" in found["vector_queries"].says
    assert (
        "97% recall@10. It has 20.0 k vectors of 128 dimensions. Each query takes 50 reads, 200 kB in all."
        in found["vector_queries"].says
    )
    assert "vector_recall" not in found


def test_of_several_storages_each_is_named() -> None:
    (result,) = explained(point(1, 0.97, 500)).experiments
    several = [replace(result, name=f"{result.name}@{name}") for name in ("ceph", "local")]
    run = Run(id="x", started="", finished="", machines=(), profile="", command="", experiments=tuple(several))
    findings = [found.says for found in explain(run).findings if found.rule == "vector_queries"]
    assert "Index diskann on ceph answers" in findings[0]
    assert "Index diskann on local answers" in findings[1]
    from hwdyno.report.overview import make_overview

    third = replace(result, name=f"{result.name}@weka")
    overview = make_overview(explain(replace(run, experiments=(*several, third))))
    assert overview.says.count("Index diskann") == 2
    assert overview.says.endswith("1 more load is listed below.")


def test_headline_says_what_storage_carries() -> None:
    from hwdyno.report.overview import make_overview

    run = explained(point(1, 0.97, 500), point(4, 0.97, 1500))
    assert make_overview(run).says.endswith("and p99 2.00 ms, at 97% recall@10.")


def test_fast_answers_that_are_wrong_are_no_answers() -> None:
    found = findings(point(1, 0.6))["vector_recall"]
    assert "only 60% of the 10 nearest vectors were found" in found.says
    assert "--search-list 100" in found.advice
    assert "only 60%" in findings(point(1, 0.8), point(2, 0.6))["vector_recall"].says
    assert "vector_recall" in findings(point(1, 0.899)) and "vector_recall" not in findings(point(1, 0.9))
    for recall, best in ((0.9, 1000.0), (0.8, 9000.0)):
        found = findings(point(1, 0.5, 9000.0), point(2, recall, 1000.0))["vector_queries"]
        assert found.evidence["queries_s"] == best


@pytest.mark.machine
def test_command_searches_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    place = tmp_path / "place"
    place.mkdir()
    options = [
        "inference",
        "--vector-search",
        "diskann,hnsw,ivf",
        "--vectors",
        "500",
        "--dim",
        "24,32",
        "--path",
        str(place),
    ]
    shorter = ["--budget", "1s", "--queries", "20", "--threads", "1,2", "--runtime", "0.05"]
    assert main([*options, *shorter, "--json", "--no-page", "--quiet"]) in {0, 3}
    run = json.loads(capsys.readouterr().out)
    names = [experiment["name"].removeprefix("inference.vector_search.") for experiment in run["experiments"]]
    assert names == ["diskann.dim-24", "diskann.dim-32", "hnsw.dim-24", "hnsw.dim-32", "ivf.dim-24", "ivf.dim-32"]
    assert all(
        measurement["details"]["recall"] > 0.8 for result in run["experiments"] for measurement in result["points"]
    )
    assert not list(place.iterdir())
    assert main([*options[:3], "--vectors", "500", "--path", str(place), "--generate", "--quiet"]) == 0
    assert len(list(place.iterdir())) == 3


@pytest.mark.machine
def test_what_is_wrong_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inference", "--path", str(tmp_path), "--vector-search", "annoy"]) == 2
    assert "no index is called 'annoy'; known: diskann, hnsw, ivf" in capsys.readouterr().err
    options = ["--vector-search", "ivf", "--vectors", "2000000000", "--dim", "4096", "--quiet"]
    assert main(["inference", "--path", str(tmp_path), *options]) == 2
    error = capsys.readouterr().err
    assert "use fewer vectors" in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())
