"""Rules on memory: what is planted is found, and a clean machine is not accused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.analysis.curves.loaded import more_delays
from hwdyno.analysis.resources import list_ceilings, why_no_ceiling
from hwdyno.explain.findings import explain
from hwdyno.measure.sweep import octaves
from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Concurrency
from hwdyno.model.words import Latency, Measurement, Stream, Value
from made_memory import MIB, SET, chase, found, make_run, moved, point, result


def test_practical_ceiling_replaces_unknown_theory() -> None:
    run = make_run(result("memory_bandwidth", "threads", moved(30e9, "read"), moved(45e9, "nt_write"), working_set=SET))
    finding = found(run, "practical_bandwidth")
    assert finding is not None and "unknown (no DIMM table here)" in finding.says and "45.0 GB/s" in finding.says
    ceiling = run.experiments[0].ceilings[0]
    assert (ceiling.kind, ceiling.label, ceiling.value) == ("reference", "practical", 45e9)
    assert explain(run) == run


def test_theory_is_channels_times_speed_and_empty_slots_do_not_count() -> None:
    modules = [
        {"size_bytes": 16 << 30, "configured_mt_s": 4800, "locator": f"CPU0_DIMM_{letter}1"} for letter in "ABCD"
    ]
    modules.append({"size_bytes": None, "configured_mt_s": 4800, "locator": "CPU0_DIMM_E1"})
    machine = {"memory": {"modules": modules}, "cpu": {"threads": 2, "cores": 2}}
    (ceiling,) = list_ceilings(Machine.of_survey(machine), "memory")
    assert ceiling.value == 4800e6 * 4 * 8 and "4800 MT/s x 4 populated channels x 8 B" in ceiling.formula
    assert why_no_ceiling(Machine.of_survey(machine), "memory") == ()
    assert "no DIMM table" in why_no_ceiling(Machine(), "memory")[0]
    run = make_run(
        replace(result("memory_bandwidth", "threads", moved(120e9, "read"), working_set=SET), ceilings=(ceiling,)),
        machine=machine,
    )
    finding = found(run, "practical_bandwidth")
    assert finding is not None and finding.evidence["share"] == pytest.approx(120e9 / 153.6e9)
    above = make_run(
        replace(result("memory_bandwidth", "threads", moved(200e9, "read"), working_set=SET), ceilings=(ceiling,)),
        machine=machine,
    )
    assert above.experiments[0].points[0].validity == "invalid"
    cached = make_run(
        replace(result("memory_bandwidth", "threads", moved(200e9, "read"), working_set=32768), ceilings=(ceiling,)),
        machine=machine,
    )
    assert cached.experiments[0].points[0].validity == "valid"


@pytest.mark.parametrize(("ratio", "seen"), [(1.33, True), (1.0, False)])
def test_streaming_stores_show_write_allocate(ratio: float, seen: bool) -> None:
    points = moved(30e9, "triad"), moved(30e9 * ratio, "nt_triad"), moved(34e9, "read")
    run = make_run(result("memory_bandwidth", "threads", *points, working_set=SET))
    finding = found(run, "write_allocate")
    assert (finding is not None) == seen
    if finding is not None:
        assert finding.evidence["bus_bytes_s"] == pytest.approx(40e9)


@pytest.mark.parametrize(("huge_ns", "paid"), [(200.0, True), (299.0, False)])
def test_huge_pages_pay(huge_ns: float, paid: bool) -> None:
    points = [
        point(1e9 / ns, "operations/s", ns, working_set=SET, pages=pages)
        for pages, ns in (("4k", 300), ("2m", huge_ns))
    ]
    finding = found(make_run(result("memory_latency", "working_set", *points)), "huge_pages")
    assert (finding is not None) == paid
    assert finding is None or "33%" in finding.says


@pytest.mark.parametrize(("all_threads", "seen"), [(34e9, True), (17.5e9, False)])
def test_one_thread_cannot_fill_the_channel(all_threads: float, seen: bool) -> None:
    reads = result("memory_bandwidth", "threads", moved(17e9, "read", 1), moved(all_threads, "read"), working_set=SET)
    idle = point(1e7, "operations/s", 100.0, working_set=SET, pages="2m", locality="random")
    finding = found(make_run(reads, result("memory_latency", "working_set", idle)), "lines_in_flight")
    assert (finding is not None) == seen
    assert finding is None or finding.evidence["lines_in_flight"] == pytest.approx(17e9 * 100e-9 / 64)


@pytest.mark.parametrize(("claimed", "honest"), [(8 * MIB, True), (260 * MIB, False)])
def test_the_cache_that_works_is_found(claimed: int, honest: bool) -> None:
    def ns(size: float) -> float:
        return math.exp(math.log(5) + math.log(20) / (1 + (8 * MIB * 1.3 / size) ** 4))

    points = [
        point(1e9 / ns(size), "operations/s", ns(size), working_set=size, pages="2m", locality="random")
        for size in octaves(64 << 10, 256 * MIB, 8)
    ]
    cpu = {"threads": 2, "cores": 2, "caches": [{"level": 3, "type": "unified", "size_bytes": claimed}]}
    finding = found(make_run(result("memory_latency", "working_set", *points), machine={"cpu": cpu}), "claimed_cache")
    assert finding is not None and ("behaves as if it had" in finding.says) != honest
    assert 0.5 < finding.evidence["found_bytes"][-1] / (8 * MIB) < 2.5


@pytest.mark.parametrize(("far", "seen"), [(20e9, True), (33e9, False)])
def test_a_thread_on_the_wrong_node(far: float, seen: bool) -> None:
    points = moved(34e9, "read", node=0), moved(far, "read", node=1)
    run = make_run(result("memory_bandwidth", "threads", *points, working_set=SET))
    assert (found(run, "wrong_node") is not None) == seen


def test_littles_law_does_not_bind_a_probe_to_the_load_beside_it() -> None:
    latency = Latency(200, 200, 200, 200, None, 200, 200, 1000)
    probe = Stream("chase", 1000, 0, latency_ns={"total": latency})
    loaded = replace(
        point(20e9, "bytes/s", 200.0, delay=0, threads=1),
        rate=Value(20e9 / 64, "operations/s"),
        streams=(probe, Stream("read", 10**8, 64 * 10**8)),
        concurrency=Concurrency(1.0, None),
    )
    assert found(make_run(result("memory_loaded_latency", "delay", loaded, working_set=SET)), "little") is None


def test_loaded_latency_is_read_off_by_bandwidth_and_not_by_the_pause() -> None:
    def at(delay: float) -> Measurement:
        offered = 128 * 3.7e9 / (delay + 15)
        value = (offered**-4 + 20e9**-4) ** -0.25
        return point(value, "bytes/s", 100 / (1.02 - value / 20e9), delay=delay, threads=1)

    delays = (0, 2, 8, 15, 50, 100, 200, 500, 1000, 2500, 5000)
    run = make_run(result("memory_loaded_latency", "delay", *(at(d) for d in delays), working_set=SET))
    (curve,) = run.experiments[0].curves
    assert curve.state == "knee" and curve.ceiling is not None and curve.best is not None and curve.knee is not None
    assert curve.ceiling.value == pytest.approx(20e9, rel=0.05)
    # R = 100 / (1.02 - X / Xm) is 98 ns idle, and 1.2 times the lowest of the points where X is 0.185 of Xm.
    idle_ns = 100 / (1.02 - at(5000).throughput.value / 20e9)
    assert curve.knee.load == pytest.approx(20e9 * (1.02 - 100 / (1.2 * idle_ns)), rel=0.1)
    assert curve.best.measured and curve.best.throughput <= curve.knee.load
    finding = found(run, "loaded_latency")
    assert finding is not None and finding.says.startswith("Load latency stays within 20% of idle up to ")
    assert "% of peak (" in finding.says and " Latency: " in finding.says
    headline = finding.evidence["headline"]
    assert headline["value"] == pytest.approx(100 / (1.02 - 0.5), rel=0.1), "R at half of the peak"
    assert "cycles" not in finding.says and found(run, "knee") is None


def test_a_memory_that_never_slows_a_load_is_said_to() -> None:
    flat = (point(x * 1e9, "bytes/s", 100.0, delay=int(60 / x), threads=1) for x in (1, 2, 3, 4, 6, 10))
    finding = found(make_run(result("memory_loaded_latency", "delay", *flat, working_set=SET)), "loaded_latency")
    assert finding is not None and finding.says.startswith("Load latency stays within 20% of idle up to ")


@pytest.mark.parametrize("threads", [1, 3, 15, 63])
@pytest.mark.parametrize("full", [10e9, 40e9, 300e9])
def test_pauses_are_added_until_eight_points_lie_in_the_upper_decade(threads: int, full: float) -> None:
    def rate(delay: float) -> float:
        return ((threads * 128 * 3.5e9 / (delay + 15)) ** -6 + full**-6) ** (-1 / 6)

    delays: list[float] = [0, 20, 40, 80, 150, 300, 700, 2500, 20000]
    delays += more_delays(delays, [rate(delay) for delay in delays])
    rates = [rate(delay) for delay in delays]
    assert len(set(delays)) == len(delays) <= 9 + 5
    assert sum(measured_rate >= 0.1 * max(rates) for measured_rate in rates) >= 7, "what the law says, within one point"


def test_what_noise_alone_could_part_is_no_difference() -> None:
    """Means far apart whose intervals meet: no finding is on stores, pages or lines in flight."""

    def hardly(value: float, operation: str, threads: int = 2, **more: Any) -> Measurement:
        made = moved(value, operation, threads, **more)
        return replace(made, throughput=replace(made.throughput, low=0.3 * value, high=2.5 * value))

    for blur, says in ((hardly, False), (moved, True)):
        reads = [
            blur(10e9, "read", 1, pages="2m"),
            blur(18e9, "read", 2, pages="2m"),
            blur(13e9, "read", 2, pages="4k"),
        ]
        stores = [blur(20e9, "triad", pages="2m"), blur(32e9, "nt_triad", pages="2m")]
        chase = point(1e9 / 150, "operations/s", 150.0, working_set=SET, pages="2m", locality="random")
        run = make_run(
            result("memory_bandwidth", "threads", *reads, *stores, working_set=SET),
            result("memory_latency", "working_set", chase),
        )
        for rule in ("write_allocate", "huge_pages", "lines_in_flight"):
            assert (found(run, rule) is not None) == says, rule
    store = found(run, "write_allocate")
    assert store is not None and "which explains a factor of 1.33" in store.says


# --- each limit from both sides

ARRAYS = {"write": 1, "copy": 2, "scale": 2, "add": 3, "triad": 3}
"""What STREAM counts of each operation; a cached store reads its array first, which makes it one more on the bus."""
DDR4 = {"memory": {"modules": [{"size_bytes": 16 << 30, "configured_mt_s": 3200, "locator": "CPU0_DIMM_A1"}]}}
"""A module of DDR4-3200: 25.6 GB/s."""


def by(way: str, *rows: tuple[Any, float], operation: str = "read", **more: Any) -> list[Measurement]:
    return [moved(rate, operation, 1, **{way: value}, **more) for value, rate in rows]


def stores(size: int = SET, **gains: float) -> list[Measurement]:
    cached = [moved(1e10, name, working_set=size) for name in gains]
    return cached + [moved(1e10 * gain, f"nt_{name}", working_set=size) for name, gain in gains.items()]


def invalid(bad: int, points: list[Measurement]) -> list[Measurement]:
    return [
        replace(measurement, validity="invalid") if at == bad else measurement for at, measurement in enumerate(points)
    ]


@pytest.mark.parametrize(
    ("rule", "points", "shown"),
    [
        *(("write_allocate", stores(**{name: 1.3}), {"bus_bytes_s": 1e10 * (count + 1) / count, "ratio": 1.3})
          for name, count in ARRAYS.items()),
        ("write_allocate", stores(copy=1.051), {"operation": "copy", "points": "(0, 1)"}),
        ("write_allocate", stores(copy=1.049), None),
        ("write_allocate", stores(copy=1.25, add=1.5), {"operation": "add"}),
        ("write_allocate", stores(copy=1.5, triad=1.2), {"operation": "copy"}),
        ("write_allocate", stores(1 << 14, copy=1.5), None),
        ("write_allocate", invalid(0, stores(copy=1.5)), None),
        ("huge_pages", by("pages", ("4k", 8e9), ("2m", 12e9)), "8,000 MB/s ±1.0% on 4 KiB pages, 12.0 GB/s ±1.0% on 2"),
        ("huge_pages", by("pages", ("4k", 8e9), ("2m", 9.6e9))
         + by("pages", ("4k", 2e9), ("2m", 3e9), operation="copy"), {"gain": 0.5}),
        ("huge_pages", by("pages", ("4k", 1e10), ("2m", 1.051e10)), {"gain": 0.051}),
        ("huge_pages", by("pages", ("4k", 1e10), ("2m", 1.049e10)), None),
        ("huge_pages", by("pages", ("4k", 8e9), ("1g", 12e9)), None),
        *(("huge_pages", invalid(at, by("pages", ("4k", 8e9), ("2m", 12e9))), None) for at in (0, 1)),
        ("huge_pages", chase("pages", ("4k", 1e7, 100.0), ("2m", 1.0515e7, 95.1)), None),
        ("huge_pages", chase("pages", ("4k", 1e7, 100.0), ("2m", 1.0515e7, 94.9)), {"gain": 0.051}),
        ("wrong_node", by("node", (2, 4e10), (3, 2e10)), "--cpunodebind=2 --membind=2"),
        ("wrong_node", by("node", (2, 4e10), (3, 2e10)), {"far_node": 3, "near_node": 2, "points": "(1, 0)"}),
        ("wrong_node", by("node", (0, 1e10), (1, 0.899e10)), {"loss": 0.101}),
        ("wrong_node", by("node", (0, 1e10), (1, 0.901e10)), None),
        ("wrong_node", by("node", (0, 4e10), (1, 1e10), (2, 2e10)), {"far_node": 1, "near_node": 0, "loss": 0.75}),
        ("wrong_node", by("node", (0, 4e10), (1, 3e10)) + by("node", (0, 4e10), (1, 1e10), stride=1), {"loss": 0.75}),
        ("wrong_node", by("node", (0, 0.0), (1, 0.0)) + by("node", (0, 4e10), (1, 1e10), stride=1), {"loss": 0.75}),
        ("wrong_node", by("node", (0, 1.0), (1, 0.5)), {"loss": 0.5}),
        ("wrong_node", by("node", (0, 4e10)) + by("node", (1, 1e10), stride=1), None),
        ("wrong_node", by("node", (0, 0.0), (1, 0.0)), None),
        ("wrong_node", chase("node", (0, 2e7, 40.0), (1, 1e7, 80.0)), "(80 vs 40 ns)"),
        ("wrong_node", chase("node", (0, 2e7, None), (1, 1e7, None)), "(10 vs 20 M accesses/s)"),
        ("wrong_node", [point(3e7 - 1e7 * at, "bytes/s", 80.0, node=at) for at in (1, 2)], "(10 vs 20 MB/s)"),
        ("practical_bandwidth", by("node", (0, 0.0)), None),
        ("practical_bandwidth", by("node", (0, 1.0)), {"best_bytes_s": 1.0}),
        ("practical_bandwidth", by("node", (0, 23e9)), "Look for empty channels"),
        ("practical_bandwidth", by("node", (0, 23.1e9)), "Nothing to do."),
        ("practical_bandwidth", by("node", (0, 23.04e9)), {"share": 0.9}),
    ],
)  # fmt: skip
def test_memory_rule_has_its_limit(rule: str, points: list[Measurement], shown: Any) -> None:
    kernel = "memory_latency" if points[0].throughput.unit == "operations/s" else "memory_bandwidth"
    finding = found(make_run(result(kernel, "threads", *points, working_set=SET), machine=DDR4), rule)
    assert (finding is not None) == (shown is not None)
    if finding is not None and isinstance(shown, str):
        assert shown in finding.says + str(finding.advice)
    elif finding is not None:
        known = {**finding.evidence, "points": str(finding.points)}
        assert {name: known[name] for name in shown} == pytest.approx(shown)
