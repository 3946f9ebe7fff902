from __future__ import annotations

import random
from typing import Any

import pytest
from hwdyno.measure.measurement import (
    MAX_SAMPLES,
    choose_unit,
    compute_throughput,
    make_measurement,
    summarize_conditions,
)
from hwdyno.model.histogram import Histogram
from hwdyno.model.point_details import Note
from hwdyno.model.words import Declaration
from hypothesis import given
from hypothesis import strategies as st

BLOCKS = Declaration(counts={"operations": "1", "bytes": "bs"})
ARITHMETIC = Declaration(counts={"flops": "2", "operations": "1"})


def reading(
    operations: int = 1000,
    elapsed_s: float = 1.0,
    latencies: list[int] | None = None,
    name: str = "read",
    flops: int = 0,
    interval_s: float = 0.1,
    **more: Any,
) -> dict[str, Any]:
    rows = max(1, round(elapsed_s / interval_s))
    counts = [operations // rows] * rows
    total = Histogram.from_values(latencies or [100_000] * operations)
    return {
        "kernel": "storage_blocks",
        "parameters": {},
        "elapsed_s": elapsed_s,
        "streams": [
            {
                "name": name,
                "operations": operations,
                "bytes": operations * 4096,
                "flops": flops,
                "latency_ns": {"total": total.to_reading()},
            }
        ],
        "samples": {"interval_s": interval_s, "operations": [counts], "bytes": [[n * 4096 for n in counts]]},
        "cpu": {"user_s": 0.01, "system_s": 0.03},
        "concurrency_requested": 4.0,
        "counters": {"device_read_bytes": operations * 4096},
        "faults": [],
        "notes": [],
        "details": {},
        "interrupted": False,
        **more,
    }


def test_repeats_sum_with_harmonic_rates() -> None:
    made = make_measurement({"iodepth": 4}, [reading(1000), reading(2000)], BLOCKS)
    assert made.operations == 3000
    assert made.bytes == 3000 * 4096
    assert made.elapsed_s == 2.0
    assert made.counters == {"device_read_bytes": 3000 * 4096}
    assert made.cpu_user_s == pytest.approx(0.02)
    assert made.repeat_values == (1000 * 4096, 2000 * 4096)
    assert made.throughput.value == pytest.approx(4096 * 2 / (1 / 1000 + 1 / 2000))
    assert made.rate is not None
    assert made.rate.unit == "operations/s"
    assert made.validity == "valid"


def test_a_stalled_repeat_leaves_the_median_and_littles_law_alone() -> None:
    repeats = [reading(n, latencies=[4_000_000_000 // n] * n) for n in (1000, 1010, 12, 990, 1005)]
    made = make_measurement({"iodepth": 4}, repeats, BLOCKS)
    assert made.throughput.value == 1000 * 4096
    assert made.rate is not None
    assert made.rate.value * 4096 == pytest.approx(made.throughput.value)
    assert [note.code for note in made.notes] == ["median_of_repeats"]
    assert made.concurrency is not None
    assert made.concurrency.effective == pytest.approx(4, rel=0.001), "of the same repeats as the latencies"
    steady = make_measurement({"iodepth": 4}, repeats[:2], BLOCKS)
    assert not steady.notes


def test_percentiles_come_from_merged_histograms_and_are_never_averaged() -> None:
    quick, slow = [1_000] * 990, [1_000_000] * 10
    made = make_measurement({}, [reading(990, latencies=quick), reading(10, latencies=slow)], BLOCKS)
    assert made.latency_ns is not None
    assert made.latency_ns.p50 == pytest.approx(1_000, rel=0.001)
    assert made.latency_ns.p99 == pytest.approx(1_000, rel=0.001)
    assert made.latency_ns.max == 1_000_000
    assert made.latency_ns.count == 1000
    assert made.latency_ns.p999 is None
    assert Histogram.unpack(made.latency_ns.histogram) == Histogram.from_values(quick + slow)


def test_directions_stay_apart_and_come_together_in_the_whole() -> None:
    both = reading(600, latencies=[1000] * 600)
    both["streams"] += reading(400, latencies=[9000] * 400, name="write")["streams"]
    made = make_measurement({}, [both, both], BLOCKS)
    assert [(stream.name, stream.operations) for stream in made.streams] == [("read", 1200), ("write", 800)]
    assert made.streams[1].latency_ns["total"].mean == 9000
    assert made.latency_ns is not None
    assert made.latency_ns.count == 2000
    assert made.latency_ns.mean == pytest.approx((600 * 1000 + 400 * 9000) / 1000)


@given(st.integers(1, 64), st.integers(1, 500))
def test_effective_concurrency_is_littles(in_flight: int, latency_us: int) -> None:
    operations = 7 * in_flight
    elapsed = operations * latency_us / 1e6 / in_flight
    made = make_measurement({}, [reading(operations, elapsed, [latency_us * 1000] * operations)], BLOCKS)
    assert made.concurrency is not None
    assert made.concurrency.effective == pytest.approx(in_flight, rel=1e-6)


def test_samples_keep_their_extremes_when_they_are_folded() -> None:
    draw = random.Random(1)
    counts = [draw.randrange(50, 150) for _ in range(10 * MAX_SAMPLES + 3)]
    made = reading(sum(counts), len(counts) * 0.1, [1000])
    made["samples"]["bytes"] = [[count * 4096 for count in counts]]
    samples = make_measurement({}, [made], BLOCKS).samples
    assert samples is not None
    assert len(samples.values) <= MAX_SAMPLES
    assert samples.interval_s == pytest.approx(1.1)
    assert (samples.min, samples.max) == (min(counts) * 40960, max(counts) * 40960)
    assert samples.avg == pytest.approx(sum(counts) / len(counts) * 40960)


def test_part_of_interval_is_no_sample() -> None:
    made = reading(100, 0.25)
    made["samples"]["bytes"] = [[40960, 40960, 4096]]
    samples = make_measurement({}, [made], BLOCKS).samples
    assert samples is not None
    assert samples.values == (409600, 409600)


def test_what_counts_is_what_kernel_declares() -> None:
    assert choose_unit(BLOCKS) == ("bytes", "bytes/s")
    assert choose_unit(ARITHMETIC) == ("flops", "FLOP/s")
    assert choose_unit(Declaration(counts={"operations": "1"}), [reading(flops=0)]) == ("bytes", "bytes/s")
    assert choose_unit(None) == ("operations", "operations/s")
    made = make_measurement({}, [reading(1000, flops=2_000_000)], ARITHMETIC)
    assert (made.throughput.value, made.throughput.unit) == (2_000_000, "FLOP/s")
    assert made.samples is not None
    assert made.samples.avg == pytest.approx(2_000_000)


def test_a_reading_that_did_nothing_is_degraded_and_no_division_by_zero() -> None:
    empty = reading(0, 0.0, [1])
    empty["streams"][0]["latency_ns"] = {"total": Histogram().to_reading()}
    assert compute_throughput(empty, "bytes") == 0
    made = make_measurement({}, [empty], BLOCKS)
    assert made.throughput.value == 0
    assert made.latency_ns is None
    assert made.validity == "degraded"
    assert "nothing_done" in made.why


def test_faults_add_up_by_kind_and_notes_are_told_once() -> None:
    fault = {"operation": "read", "errno": 5, "says": "Input/output error", "count": 2}
    note = {"code": "fallback", "says": "no fixed buffers"}
    made = make_measurement({}, [reading(faults=[fault], notes=[note])] * 2, BLOCKS, notes=[Note("mine", "said")])
    assert [(merged_fault.errno, merged_fault.count) for merged_fault in made.faults] == [(5, 4)]
    assert [merged_note.code for merged_note in made.notes] == ["fallback", "mine"]
    assert made.why == ("faults",)


def test_conditions_are_shares_over_all_repeats_and_gauges_at_their_worst() -> None:
    before = {"cpu_total_s": 100.0, "cpu_idle_s": 50.0, "cpu_steal_s": 1.0, "load_1m": 0.5, "clock_hz": 3e9}
    after = {"cpu_total_s": 110.0, "cpu_idle_s": 54.0, "cpu_steal_s": 2.0, "load_1m": 0.9, "clock_hz": 2e9}
    found = summarize_conditions([(before, after)])
    assert found["cpu_busy"] == pytest.approx(0.6)
    assert found["steal"] == pytest.approx(0.1)
    assert found["load_1m"] == 0.5
    assert (found["clock_hz_before"], found["clock_hz"]) == (3e9, 2e9)
    assert summarize_conditions([]) == {}
    assert summarize_conditions([({}, {})]) == {}


def test_whole_numbers_make_no_flops_and_declared_bytes_win_over_arithmetic() -> None:
    stream = {"name": "add", "operations": 10, "bytes": 0, "flops": 160}
    counted = {"elapsed_s": 2.0, "streams": [stream], "parameters": {"precision": "int32"}}
    assert make_measurement({}, [counted], Declaration(counts={"operations": "1"})).throughput.unit == "IOP/s"
    moved = {"elapsed_s": 1.0, "streams": [{**stream, "bytes": 640}], "parameters": {}}
    point = make_measurement({}, [moved], Declaration(counts={"operations": "1", "bytes": "block"}))
    assert (point.throughput.unit, point.throughput.value) == ("bytes/s", 640.0)


def test_probe_is_not_in_the_rate() -> None:
    timed = {"total": Histogram.from_values([100] * 50).to_reading()}
    chase = {"name": "chase", "operations": 50, "bytes": 0, "latency_ns": timed}
    load = {"name": "read", "operations": 1000, "bytes": 64000, "latency_ns": {}}
    both = {"elapsed_s": 1.0, "streams": [chase, load], "concurrency_requested": 1.0}
    point = make_measurement({}, [both], Declaration(counts={"operations": "1", "bytes": "block"}))
    assert point.rate is not None and point.rate.value == 1000
    assert point.concurrency is not None and point.concurrency.effective is None
    assert point.latency_ns is not None and point.latency_ns.count == 50


def chased(batch: int, batches: int, ns: int) -> dict[str, Any]:
    """A reading of a chase that times batches of loads: the histogram counts batches, the stream loads."""
    histogram = Histogram()
    histogram.record(ns, batches)
    stream = {"name": "read", "operations": batch * batches, "bytes": 0, "flops": 0}
    return {
        "kernel": "memory_latency",
        "elapsed_s": batch * batches * ns / 1e9,
        "streams": [{**stream, "latency_ns": {"total": histogram.to_reading()}}],
        "concurrency_requested": 1.0,
    }


def test_batches_count_for_the_loads_that_they_stand_for() -> None:
    """Little's law holds within each repeat, so it must hold over them: a slow repeat took shorter batches."""
    made = make_measurement({"working_set": 1 << 20}, [chased(1024, 4000, 10), chased(256, 8000, 40)])
    assert made.latency_ns is not None and made.concurrency is not None
    assert made.concurrency.effective == pytest.approx(1.0, rel=1e-6)
    assert made.operations / made.elapsed_s * made.latency_ns.mean / 1e9 == pytest.approx(1.0, rel=1e-6)
    assert made.latency_ns.count == 4 * 4000 + 8000, "in units of the shortest batch"
    assert made.streams[0].latency_ns["total"].p50 == 10
