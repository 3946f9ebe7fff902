"""What the training rules say of made Runs: of a failing storage, a slow client, a warm cache, a mislabelled row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.analysis.estimates import interval
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.training import read_feed
from hwdyno.model.histogram import Histogram
from hwdyno.model.machine import Cpu, Machine, Memory
from hwdyno.model.point_details import Fault, Note
from hwdyno.model.words import ExperimentResult, Finding, Measurement, Parameters, PeerResult, Run, Stream, Value
from made_experiment import made_experiment

RECORD, BATCH, COMPUTE = 146_600_628, 7, 0.323
NEED = RECORD * BATCH / COMPUTE
Found = Callable[..., dict[str, Finding]]
FIXED: Parameters = {
    "workload": "unet3d", "accelerator": "h100", "record_bytes": RECORD, "batch_size": BATCH, "compute": COMPUTE,
    "au_pass": 0.9, "read_threads": 4, "prefetch": 2,
}  # fmt: skip


def point(number: int, au: float, **details: Any) -> Measurement:
    rate = au * NEED * number / RECORD
    return Measurement(
        parameters={"accelerators": number},
        throughput=interval([rate * RECORD] * 3, "bytes/s"), rate=interval([rate] * 3, "operations/s"),
        latency_ns=None, streams=(), samples=None, concurrency=None, cpu_user_s=1.0, cpu_system_s=1.0,
        elapsed_s=60.0, operations=int(rate * 60), bytes=int(rate * 60 * RECORD), repeats=3,
        details={
            "au_dlio": au, "au_rule": au, "samples_s_dlio": rate, "steps": 500, "need_bytes_s": NEED,
            "dataset_bytes": 10e12, "cached_share_by_device": 0.0, **details,
        },
    )  # fmt: skip


def client(*speeds: float) -> ExperimentResult:
    points = tuple(
        replace(point(number, 0.5), throughput=interval([speed] * 3, "bytes/s"), details={})
        for number, speed in enumerate(speeds, 1)
    )
    fixed: Parameters = {**FIXED, "compute": 0.0}
    return made_experiment(
        "training.client.unet3d", "training", "?", "accelerators", "training_loader", points, fixed=fixed
    )


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


def plain(*speeds: tuple[int, float], **more: Any) -> ExperimentResult:
    """Plain reads of the same storage: bytes/s by threads."""
    points = tuple(
        replace(point(1, 0.5), parameters={"numjobs": jobs}, throughput=interval([speed] * 3, "bytes/s"), details={})
        for jobs, speed in speeds
    )
    return made_experiment(
        "storage.pattern.unet3d", "storage", "?", "numjobs", "storage_blocks", points,
        fixed={"rw": "read", "bs": 512 << 10}, **more,
    )  # fmt: skip


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


# --- thresholds and words, one change at a time


def kind(*points: Measurement, name: str = "h100", peers: tuple[PeerResult, ...] = (), **fixed: Any
         ) -> ExperimentResult:  # fmt: skip
    """Accelerators of a kind on unet3d; a parameter that is None is left out."""
    given = {name: value for name, value in {**FIXED, "accelerator": name, **fixed}.items() if value is not None}
    return made_experiment(
        f"training.unet3d.{name}", "training", "?", "accelerators", "training_loader", points, fixed=given, peers=peers
    )


MACHINE = Machine(cpu=Cpu(threads=8), memory=Memory(total_bytes=64 << 30))


def rules(result: ExperimentResult, *others: ExperimentResult) -> dict[str, Finding]:
    """The findings on the first experiment."""
    run = Run("x", "", "", (MACHINE,), "", "hwdyno training", (result, *others))
    return {found.rule: found for found in explain(run).findings if found.experiment == result.name}


def bad_point(number: int, au: float = 0.99, notes: str = "", faults: str = "", **details: Any) -> Measurement:
    """A point with a note of this code, and with a fault of each file, named by one letter."""
    return replace(
        point(number, au, **details), notes=(Note(notes, "they end together"),) if notes else (),
        faults=tuple(Fault("record", 0, name, 1) for name in faults),
    )  # fmt: skip


def alone(number: int = 1, au: float = 0.99, given: Parameters | None = None, **details: Any) -> dict[str, Finding]:
    return rules(kind(bad_point(number, au, **details), **(given or {})))


def against(rate: float, *others: ExperimentResult, au: float = 0.5, readers: int = 4, **given: Any
            ) -> dict[str, Finding]:  # fmt: skip
    """A loader that reaches this many bytes/s, where plain reads reach 1 GB/s."""
    moved = replace(point(1, au), throughput=interval([rate] * 3, "bytes/s"))
    return rules(kind(moved, **given), plain((readers, 1e9)), *others)


def versus(tool: str, *aus: float, au: float = 0.95, epochs: int = 1, conditions: Any = None, **costs: float
           ) -> dict[str, Finding]:  # fmt: skip
    """An AU here, and those of a loader whose reads the engine beats threefold, twofold … with 1, 2, 4 accelerators."""
    points = [
        replace(point(1 << at, au, client_cpu_s_per_gb=0.5), conditions=conditions or {}) for at in range(len(aus))
    ]
    peers = (
        PeerResult(tool, "2.0.0", at, Value(1e9, "bytes/s"), Value(3.0 - at, "1", 2.9 - at, 3.1 - at),
                   details={"au": theirs, **costs})
        for at, theirs in enumerate(aus)
    )  # fmt: skip
    return rules(kind(*points, peers=tuple(peers), epochs=epochs))


STEPS_BYTES, RATE_S = 500 * RECORD * BATCH, 0.95 * NEED / RECORD
WAITS = "training with it waits for the loader"
# The rule, what it says, what is measured, a number at which it does not say so, and one at which it does.
THRESHOLDS: list[tuple[str, str, Found, float, float]] = [
    ("training_too_small", "(500 steps)", lambda size: alone(dataset_bytes=size * STEPS_BYTES), 1.01, 0.99),
    ("training_too_small", "(500 steps)", lambda size: alone(2, dataset_bytes=size * STEPS_BYTES), 2.01, 1.99),
    ("training_too_small", "(5 times this host's memory)",
     lambda size: alone(given={"batch_size": 1}, dataset_bytes=size * (64 << 30)), 5.01, 4.99),
    ("training_cached", "from the page cache", lambda share: alone(cached_share_by_device=share), 0.0495, 0.0505),
    ("training_au", "is below the required 90%", lambda au: alone(1, au), 0.901, 0.899),
    ("training_law", "over all steps", lambda off: alone(1, 0.95, samples_s=RATE_S / (1 + off)), 0.0495, 0.0505),
    ("training_law", "over all steps", lambda off: alone(1, 0.95, samples_s=RATE_S / (1 + off)), -0.0495, -0.0505),
    ("training_read_ahead", "is meaningless", lambda steps: alone(steps=steps, epochs=1), 8.1, 7.9),
    ("training_faults", "Data loss", lambda count: alone(faults="a", lost_samples=count), 0, 1),
    ("training_client_bound", "Client-bound", lambda share: rules(kind(point(1, 0.6)), client(share * 0.9 * NEED)),
     1.01, 0.99),
    ("training_client_bound", "Client-bound", lambda rate: rules(kind(point(1, 0.6)), client(rate)), 0.0, 1.0),
    ("training_plain", "faster than plain reads", against, 1.19e9, 1.21e9),
    ("training_plain", "slower than plain reads", against, 0.81e9, 0.79e9),
    ("training_plain", "slower than plain reads", against, 0.0, 1.0),
    ("training_plain", "slower than plain reads", lambda au: against(0.5e9, au=au), 0.91, 0.89),
    ("training_beside_dlio", "less AU by its own work", lambda apart: versus("dlio", 0.95 - apart), 0.0199, 0.0201),
    ("training_beside_loaders", WAITS, lambda apart: versus("pytorch", 0.95 - apart), 0.0199, 0.0201),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "words", "found", "below", "above"), THRESHOLDS)
def test_a_training_threshold_is_kept(rule: str, words: str, found: Found, below: float, above: float) -> None:
    silent, named = (found(number).get(rule) for number in (below, above))
    assert named is not None and words in named.says
    assert silent is None or words not in silent.says


@pytest.mark.parametrize(("share", "severity"), [(0.0099, "warning"), (0.0101, "invalid")])
def test_one_percent_lost_is_invalid(share: float, severity: str) -> None:
    lost = share * point(1, 0.99).operations / 3
    assert alone(faults="a", lost_samples=lost)["training_faults"].severity == severity


COLUMNS: dict[str, Any] = {"read_columns": 3}
READ_HALF = tuple(replace(point(number, au, nominal_bytes=2e9), bytes=10**9) for number, au in ((1, 0.95), (2, 0.5)))
NEEDED = 2 * 0.9 * NEED / 2
OTHERS = {"cpu_busy": 0.6, "cpu_user": 0.6, "steal": 0.0}
UNEVEN: dict[str, Any] = {"notes": "uneven_tails", "samples_per_epoch": 8, "samples_left_over": 1}
# The rule, what is measured, the finding, and its advice.
MESSAGES: list[tuple[str, Found, str, str]] = [
    ("training_au", lambda: rules(kind(point(1, 0.6), point(2, 0.5))), "(2 h100 on unet3d): accelerators wait 50% of",
     "--read-threads 16"),
    ("training_client_bound", lambda: rules(kind(point(1, 0.6), point(2, 0.6)), client(2e9, 3e9)), "3,000 MB/s", ""),
    ("training_capacity", lambda: rules(kind(*READ_HALF, **COLUMNS), client(0.0, 0.99 * NEEDED)), "is this client", ""),
    ("training_capacity", lambda: rules(kind(*READ_HALF, **COLUMNS), client(0.0, 1.01 * NEEDED)), "is the storage", ""),
    ("training_plain", lambda: against(1.5e9, direct=False), "is 50% faster than plain reads", "--direct 1"),
    ("training_plain", lambda: against(0.5e9, client(0.79e9)), "no more than 790 MB/s", "or parse nothing: "),
    ("training_plain", lambda: against(0.5e9, client(0.81e9)), "Possible causes: opening files", "--read-threads 8"),
    ("training_plain", lambda: against(0.5e9), "h100 on unet3d): the loader is 50% slower", "--prefetch 4"),
    ("training_plain", lambda: against(0.5e9, readers=1, read_threads=None), "reads with 1 thread get", ""),
    ("training_faults", lambda: alone(faults="abc"), "Files: a; b; c.", "--generate"),
    ("training_faults", lambda: alone(faults="abcde"), "Files: a; b; c; 2 more.", "--generate"),
    ("training_uneven", lambda: alone(**UNEVEN), "1 of 9 samples is never read", "--samples 7"),
    ("training_uneven", lambda: alone(2, given={"batch_size": 4}, **UNEVEN), "1 of 9 samples", "--samples 8"),
    ("training_uneven", lambda: alone(2, given={"batch_size": 100}, **UNEVEN), "", "x batch size divides."),
    ("training_uneven", lambda: rules(kind(bad_point(1, **UNEVEN), bad_point(2, **{**UNEVEN, "samples_left_over": 4}))),
     "4 of 12 samples are never read", ""),
    ("training_other_data", lambda: alone(notes="other_workload"), "This point does not count", "the data set has"),
    ("training_other_data", lambda: alone(notes="no_step"), "This point does not count", "or more samples"),
    ("training_beside_dlio", lambda: versus("dlio", 0.9, 0.5, 0.8), "45.0 percentage points less", "--accelerators 2"),
    ("training_beside_dlio", lambda: versus("dlio", 0.5, cpu_s_per_gb=2.0), "DLIO would use 6.4 processors.", ""),
    ("training_beside_dlio", lambda: versus("dlio", 0.5, conditions=OTHERS), "Other processes loaded this", ""),
    ("training_beside_dlio", lambda: versus("dlio", 0.9, au=0.5, epochs=5), "more AU, which the same", "--epochs 1"),
    ("training_beside_loaders", lambda: versus("numpy", 0.9, 0.95, cpu_s_per_gb=2.0), "With 2 accelerators, numpy",
     "--accelerators 4,8"),
    ("training_beside_loaders", lambda: versus("numpy", 0.95, cpu_s_per_gb=2.0), "(3 times as much, 2.9 to 3.1).",
     ""),
    ("training_beside_loaders", lambda: versus("numpy", 0.95, cpu_s_per_gb=2.0), "2.00 s of CPU time there", ""),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "found", "says", "advice"), MESSAGES)
def test_a_training_rule_says_and_advises(rule: str, found: Found, says: str, advice: str) -> None:
    finding = found()[rule]
    assert says in finding.says
    assert advice in finding.advice


@pytest.mark.parametrize("costs", [{}, {"cpu_s_per_gb": 0.3}])
def test_dlio_on_an_idle_machine_is_not_called_busy(costs: dict[str, float]) -> None:
    says = versus("dlio", 0.5, **costs)["training_beside_dlio"].says
    assert "DLIO would use" not in says and "Other processes" not in says


@pytest.mark.parametrize(
    ("given", "details", "batches", "samples"),
    [
        ({"batch_size": None}, {"steps": 100, "samples_per_epoch": 12}, 6.0, 32),
        ({"batch_size": 2}, {"steps": 100, "samples_per_epoch": 24}, 6.0, 64),
        ({"batch_size": 2}, {"steps": 10, "samples_per_epoch": 24}, 5.0, 64),
        ({"batch_size": 2}, {"steps": 50}, 5.0, 64),
        ({"batch_size": 2}, {"steps": 100}, None, 0),
    ],
)
def test_epoch_within_prefetch_needs_more_samples(
    given: Any, details: Any, batches: float | None, samples: int
) -> None:
    """Each of two accelerators has four readers that prefetch two batches, 8 in all; twice as many samples suffice."""
    found = alone(2, given=given, epochs=5, **details).get("training_read_ahead")
    assert (found and found.evidence["steps_an_epoch"]) == batches
    assert found is None or f"--samples {samples}" in found.advice


@pytest.mark.parametrize(
    ("columns", "nominal", "share"), [(3, 4e9, 0.25), (3, 0.5e9, 1.0), (3, None, 1.0), (None, 4e9, 1.0)]
)
def test_only_chosen_columns_are_read(columns: int | None, nominal: float | None, share: float) -> None:
    read = replace(point(1, 0.9, nominal_bytes=nominal), bytes=10**9, parameters={})
    found = read_feed(kind(read, read_columns=columns), read)
    assert found is not None and (found.number, found.read_share) == (1, share)


@pytest.mark.parametrize(("times", "share", "feeds"), [(1.0, 1.0, 2), (1.0, 0.5, 3), (0.33, 1.0, 0), (0.83, 1.0, 1)])
def test_plain_reads_feed_full_au(times: float, share: float, feeds: int) -> None:
    """1.1, 1.9 and 2.1 times the need of one, with the readers of one, two and three accelerators; AU 90%."""
    points = tuple(replace(point(number, 0.5, nominal_bytes=1e9), bytes=int(share * 1e9)) for number in (1, 2, 3))
    reads = plain(*((4 * number, times * need * NEED) for number, need in ((1, 1.1), (2, 1.9), (3, 2.1))))
    found = rules(kind(*points, **COLUMNS), reads)["training_capacity"]
    assert found.evidence["plain_most"] == feeds
    invalid = replace(reads, points=tuple(replace(read, validity="invalid") for read in reads.points))
    assert "plain_most" not in rules(kind(*points), invalid)["training_capacity"].evidence


@pytest.mark.parametrize(
    ("kinds", "changes", "words"),
    [
        ((("v100", 2), ("a100", 3), ("b200", 1)), {}, "this storage fed 3 a100, which need more"),
        ((("v100", 1),), {}, "this storage fed 1 v100, which need more"),
        ((("v100", 0),), {}, ""),
        ((("v100", 3),), {"need_bytes_s": NEED}, ""),
        ((("v100", 3),), {"workload": "resnet50"}, ""),
        ((("v100", 3),), {"files": 8}, ""),
    ],
)
def test_fed_hungrier_kind_clears_storage(kinds: Any, changes: Any, words: str) -> None:
    """A kind that needs twice as much reached its AU with this many accelerators."""
    need = changes.pop("need_bytes_s", 2 * NEED)
    others = [
        kind(*(point(number, 0.95 if number <= most else 0.5, need_bytes_s=need) for number in (1, 2, 3)),
             name=name, **{"files": 7, **changes})
        for name, most in kinds
    ]  # fmt: skip
    says = rules(kind(point(1, 0.5), files=7), *others)["training_capacity"].says
    assert words in says and ("which need more" in says) == bool(words)
