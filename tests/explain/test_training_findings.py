"""What the training rules say of made Runs: of a failing storage, a slow client, a warm cache, a mislabelled row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.analysis.estimates import interval
from hwdyno.explain.findings import explain
from hwdyno.model.histogram import Histogram
from hwdyno.model.machine import Machine, Memory
from hwdyno.model.words import ExperimentResult, Finding, Measurement, Parameters, PeerResult, Run, Stream
from made_experiment import made_experiment
from made_training import BATCH, FIXED, NEED, RECORD, client, plain, point


def findings(*points: Measurement, clients: ExperimentResult | None = None, **run: Any) -> dict[str, Finding]:
    result = made_experiment(
        "training.unet3d.h100", "training", "?", "accelerators", "training_loader", points, fixed=FIXED
    )
    made = Run(
        id="x", started="", finished="", profile="", command="",
        machines=(Machine(memory=Memory(total_bytes=64 << 30)),),
        experiments=(result, clients) if clients else (result,), **run,
    )  # fmt: skip
    return {found.rule: found for found in explain(made).findings if found.rule.startswith("training")}


def test_feeding_all_accelerators_is_no_warning() -> None:
    found = findings(point(1, 0.99), point(2, 0.97))
    assert set(found) == {"training_capacity"}
    assert "feeds 2 h100 for unet3d" in found["training_capacity"].says
    assert "--accelerators 4,8" in found["training_capacity"].advice


def test_a_storage_that_is_too_slow_fails_with_its_limit() -> None:
    found = findings(point(1, 0.95), point(2, 0.6), point(4, 0.3), clients=client(50e9, 50e9, 50e9, 50e9))
    assert set(found) == {"training_capacity", "training_au"}
    assert "feeds 1 h100" in found["training_capacity"].says
    assert "the next limit is the storage" in found["training_capacity"].says
    assert found["training_capacity"].evidence["by_throughput"] == pytest.approx(4 * 0.3 / 0.9, rel=0.01)
    assert found["training_au"].severity == "warning"


def test_slow_client_is_not_storages_fault() -> None:
    found = findings(point(1, 0.95), point(2, 0.6), clients=client(4e9, 4e9))
    assert "training_au" not in found
    assert "4,000 MB/s where 5,719 MB/s are needed" in found["training_client_bound"].says
    assert "the next limit is this client" in found["training_capacity"].says


def test_bytes_from_memory_are_said() -> None:
    found = findings(point(1, 0.99, cached_share_by_device=0.6))
    assert "60% of the bytes came from the page cache" in found["training_cached"].says


def test_a_small_data_set_gives_no_verdict_and_the_size_that_would() -> None:
    found = findings(point(1, 0.99, dataset_bytes=20e9))
    assert "too small to judge" in found["training_too_small"].says
    assert "500 steps" in found["training_too_small"].says
    assert "--samples 3500" in found["training_too_small"].advice
    assert "too small for a verdict" in found["training_capacity"].says


def test_the_study_of_storage_classes_has_its_table_and_says_who_feeds_whom() -> None:
    from hwdyno.studies import find

    study = find("kubernetes-ai-storage")
    results = [
        made_experiment(
            f"training.unet3d.{name}.112@{storage}", "training", "?", "accelerators", "training_loader",
            points=(point(1, au),),
            fixed={**FIXED, "accelerator": name, "storage": storage, "files": 112, "samples_per_file": 1},
        )
        for name, storage, au in (("a100", "ceph", 0.5), ("a100", "local", 0.95), ("h100", "ceph", 0.3))
    ]  # fmt: skip
    run = Run(
        id="x", started="", finished="", machines=(), profile="", command="", study=study.name,
        experiments=(*results, client(5e9), replace(plain((4, 2e9)), name="storage.pattern.unet3d@ceph")),
    )  # fmt: skip
    ours, reads, published = study.tables(run)
    assert reads.rows == (("ceph", "512 KiB", "4", "2000", "-", "1.38", "0.70"),)
    assert [row[:5] for row in ours.rows] == [
        ("A100", "1", "112", "ceph", "50.00"),
        ("A100", "1", "112", "local", "95.00"),
        ("H100", "1", "112", "ceph", "30.00"),
    ]
    assert [row[-1] for row in ours.rows] == ["fail", "pass", "fail"]
    assert len(published.rows) >= 4
    # AU x need = throughput, but for the row that is an H100's
    law = [float(row[6]) / float(row[5]) for row in published.rows]
    assert [round(share, 1) for share in law] == [1.0, 1.0, 0.5, 1.0]
    first, second = study.observations(run)
    assert first == "A100 on unet3d: local feeds it; the best AU is 95.0% on local."
    assert "no storage measured here feeds it" in second


def test_the_study_tells_what_inference_gets_of_each_storage() -> None:
    from hwdyno.studies import find

    def users(count: int, read_ms: int) -> Measurement:
        fast, slow = Histogram(), Histogram()
        fast.record(read_ms * 1_000_000, 500)
        slow.record(2_000_000, 100)
        streams = (
            Stream("read", 500, 0, latency_ns={"total": fast.summary()}),
            Stream("write", 100, 0, latency_ns={"total": slow.summary()}),
        )
        details = {"tokens_s": 900.0, "read_bytes_s": 5e8, "write_bytes_s": 1e8}
        return replace(point(1, 1.0), parameters={"users": count}, streams=streams, details=details)

    def queries(threads: int, rate: float) -> Measurement:
        details = {"queries_s": rate, "recall": 0.97, "reads_per_query": 60.0}
        return replace(point(1, 1.0), parameters={"threads": threads}, details=details)

    def result(name: str, kernel: str, *points: Measurement, **fixed: Any) -> ExperimentResult:
        return made_experiment(f"training.{name}", "training", "?", "users", kernel, points=points, fixed=fixed)

    study = find("kubernetes-ai-storage")
    cache, search = "inference_kv_cache", "inference_vector_search"
    run = Run(
        id="x", started="", finished="", machines=(), profile="", command="", study=study.name,
        experiments=(
            result("kv@a", cache, users(1, 20), users(4, 150), users(16, 90), storage="a", model="m", scale=0.01),
            result("kv@b", cache, users(1, 20), users(4, 50), storage="b", model="m", scale=0.01),
            result("v@a", search, queries(1, 500), queries(4, 1500), storage="a", index="diskann"),
        ),
    )  # fmt: skip
    tables = {table.title: table for table in study.tables(run)}
    rows = tables["KV cache of m (contexts shortened to 0.01 of their tokens)"].rows
    assert [row[:4] for row in rows[:2]] == [("a", "1", "900", "500"), ("a", "4", "900", "500")]
    assert [float(row[4]) for row in rows[:2]] == pytest.approx([20, 150], rel=0.01)
    assert tables["Vector search"].rows[1][:4] == ("a", "diskann", "4", "1500")
    first, second = study.observations(run)
    assert first.endswith("of those measured: 1 on a, 4 on b.")
    assert "the maximum is 1.50 k queries/s on a with 4 threads, at 97% recall" in second


def test_epochs_that_are_read_ahead_whole_tell_nothing() -> None:
    # 8 steps over 2 epochs are 4 an epoch, and 4 readers with 2 batches each hold 8
    found = findings(point(1, 0.99, steps=8, epochs=2))
    assert "all 4 batches of an epoch" in found["training_read_ahead"].says
    assert "training_read_ahead" not in findings(point(1, 0.99, steps=80, epochs=2))
    # an epoch of 42 steps whose successor was cut short after 3
    cut = point(1, 0.99, steps=45, epochs=2, samples_per_epoch=42 * BATCH)
    assert "training_read_ahead" not in findings(cut)


def test_a_mislabelled_row_breaks_the_law() -> None:
    # the row "A100, 24.51%, 729.10 MiB/s" of a published table is an H100's
    a100 = {**FIXED, "accelerator": "a100", "compute": 0.636}
    row = replace(
        point(1, 0.2451, need_bytes_s=None, samples_s_dlio=729.1 * 2**20 / RECORD),
        parameters={"accelerators": 1, **a100},
    )
    found = findings(row, imported_from="table")
    assert "AU x need and throughput disagree by" in found["training_law"].says
    assert found["training_law"].evidence["need_by_row_bytes_s"] == pytest.approx(NEED, rel=0.03)
    right = replace(row, parameters={"accelerators": 1})
    assert "training_law" not in findings(right, imported_from="table")


def test_plain_reads_agree() -> None:
    speed = 4 * 0.3 * NEED
    reads = plain((4, speed), (8, speed), (16, speed))
    found = findings(point(1, 0.95), point(2, 0.6), point(4, 0.3), clients=reads)
    says = found["training_capacity"].says
    assert "feeds 1 h100 for unet3d (AU of at least 90%). With 2, AU is 60%" in says
    assert "By plain 512 KiB reads with 16 threads (3,813 MB/s), it would feed 1" in says
    assert found["training_capacity"].evidence["plain_by_throughput"] == pytest.approx(1.2 / 0.9, rel=0.01)
    assert "training_plain" not in found


def test_a_loader_that_loses_what_the_storage_gives_is_named() -> None:
    reads = plain((4, 9e9), (8, 9e9))
    found = findings(point(1, 0.95), point(2, 0.6), clients=reads)["training_plain"]
    assert "The loader gets 3,813 MB/s, plain 512 KiB reads with 8 threads get 9,000 MB/s." in found.says
    assert "The storage is not the limit" in found.says
    assert "--read-threads 8" in found.advice


def test_a_loader_that_beats_plain_reads_did_not_measure_the_storage() -> None:
    found = findings(point(1, 0.95), clients=plain((4, 1e9)))["training_plain"]
    assert "Possible causes: a cache" in found.says
    disturbed = replace(point(1, 0.95), conditions={"steal": 0.2})
    assert "training_plain" not in findings(disturbed, clients=plain((4, 1e9)))


def test_a_first_step_that_weighs_breaks_the_law_on_our_own_rows() -> None:
    rate = 0.9 * NEED / RECORD
    short = point(1, 0.9, samples_s_dlio=0.7 * rate, samples_s_after_first=rate)
    found = findings(short)["training_law"]
    assert found.severity == "info"
    assert "AU leaves out the first step" in found.says
    assert "training_law" not in findings(point(1, 0.9, samples_s_dlio=0.98 * rate, samples_s_after_first=rate))


def test_cached_point_is_named_once() -> None:
    from hwdyno.model.words import Stream

    cached = replace(
        point(1, 0.9, cached_share_by_device=0.9),
        streams=(Stream("read", 100, 10**9),), counters={"process_read_bytes": 10.0**8},
    )  # fmt: skip
    run = explain(
        Run(
            id="x", started="", finished="", machines=(), profile="", command="",
            experiments=(
                made_experiment(
                    "training.unet3d", "training", "?", "accelerators", "training_loader", (cached,),
                    fixed={**FIXED, "direct": True},
                ),
            ),
        )
    )  # fmt: skip
    rules = [found.rule for found in run.findings]
    assert "training_cached" in rules and "page_cache" not in rules
    assert run.experiments[0].points[0].validity == "invalid"
    assert "although direct I/O was requested" in next(f.says for f in run.findings if f.rule == "training_cached")


@pytest.mark.parametrize(
    ("theirs", "severity", "says"),
    [
        (0.94, "info", "Both agree: AU 95% here, 94% by dlio 2.0.0 on the same files"),
        (0.60, "info", "35.0 percentage points less AU by its own work, not the storage's"),
        (0.99, "warning", "4.0 percentage points more AU, which the same storage cannot explain"),
    ],
)
def test_dlio_agrees_or_says_why(theirs: float, severity: str, says: str) -> None:
    peer = PeerResult(
        tool="dlio", version="2.0.0", point=0, value=interval([1e9], "bytes/s"), ratio=None,
        details={"au": theirs, "cpu_s_per_gb": 0.9},
    )  # fmt: skip
    result = made_experiment(
        "training.unet3d.h100", "training", "?", "accelerators", "training_loader",
        (point(1, 0.95, client_cpu_s_per_gb=0.12),), fixed=FIXED, peers=(peer,),
    )  # fmt: skip
    run = explain(Run("x", "", "", (), "", "", (result,)))
    found = next(finding for finding in run.findings if finding.rule == "training_beside_dlio")
    assert found.severity == severity
    assert says in found.says


def test_columns_that_are_not_read_are_not_needed() -> None:
    # 40 of 200 columns: 160 of 761 bytes, so that 7.0 of 33 GB/s do
    fixed: Parameters = {**FIXED, "record_bytes": 761, "batch_size": 16384, "compute": 0.000375, "read_columns": 40}
    rate = 0.9 * 16384 / 0.000375
    loaded = replace(
        point(1, 0.5), bytes=160 * 10**6,
        details={"au_dlio": 0.5, "samples_s_dlio": rate, "nominal_bytes": 761 * 10**6, "dataset_bytes": 10e12},
    )  # fmt: skip
    dlrm = made_experiment("training.dlrm", "training", "?", "accelerators", "training_loader", (loaded,), fixed=fixed)
    slow = replace(client(5e9), fixed={**fixed, "compute": 0.0})
    run = explain(Run("x", "", "", (), "", "", (dlrm, slow)))
    found = next(finding for finding in run.findings if finding.rule == "training_client_bound")
    assert found.evidence["need_bytes_s"] == pytest.approx(0.7 * 6.99e9, rel=0.3)
    assert "5,000 MB/s where 6,291 MB/s are needed" in found.says
