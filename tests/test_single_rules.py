"""Single lines of rules that a change would break and no planted fault showed: of sites, memory, loaders, tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.axes import SHARED_FILE, with_field_axes
from hwdyno.ceilings.compute import _units
from hwdyno.ceilings.gpu import why_none
from hwdyno.ceilings.inference import bandwidths, of_served
from hwdyno.ceilings.links import of_link
from hwdyno.ceilings.named import link_rate
from hwdyno.findings.claims import CLAIM, memory_by_clock
from hwdyno.findings.commands import takable
from hwdyno.findings.compute import LOOPS, peak_share
from hwdyno.findings.contention import BACKGROUND, Cell, cause_of, cost_words
from hwdyno.findings.hosts import straggler
from hwdyno.findings.inference import break_even
from hwdyno.findings.laws import against_ceilings
from hwdyno.findings.limits import _next_test
from hwdyno.findings.memory import _figure, huge_pages, write_allocate
from hwdyno.findings.network_path import policed
from hwdyno.findings.open_loop import chance
from hwdyno.findings.queue import _knee_words, best_combination
from hwdyno.findings.ranks import shared_file
from hwdyno.findings.rule import Case, _as_time
from hwdyno.findings.serving import _next_step
from hwdyno.findings.steadiness import alike
from hwdyno.findings.tlb import _chases
from hwdyno.findings.training import Fed, fed
from hwdyno.findings.training_capacity import Plain
from hwdyno.findings.training_data import training_other_data
from hwdyno.machine import GpuDrivers, Link, Machine, OpenClDevice
from hwdyno.words import Ceiling, Curve, ExperimentResult, HostShare, Latency, Measurement, Note, Value
from made_experiment import made_experiment
from test_single_lines import case_of
from test_thresholds import base, run_of


def sure(value: float, unit: str = "bytes/s") -> Value:
    return Value(value, unit, 0.99 * value, 1.01 * value)


# --- blocks and depths


def test_the_best_combination_needs_two_axes_and_is_the_least_that_is_enough() -> None:
    def grid(blocks: tuple[int, ...], depths: tuple[int, ...]) -> ExperimentResult:
        points = tuple(
            replace(base(), parameters={"rw": "randread", "bs": block, "iodepth": depth},
                    throughput=sure(min(1e9, 1e5 * depth * block / 4)))
            for block in blocks
            for depth in depths
        )  # fmt: skip
        return made_experiment("storage.x", "storage", "?", "iodepth", "storage_blocks", points, fixed={})

    (found,) = best_combination(case_of(grid((4096, 65536), (1, 2, 4, 8, 16, 32))))
    assert found.evidence["best"] == {"iodepth": 1, "bs": 65536}
    assert best_combination(case_of(grid((4096,), (1, 2, 4, 8, 16, 32)))) == []


# --- restore or recompute


def test_the_break_even_lies_on_the_line_through_both_sides() -> None:
    """4 s slower at 100 tokens and 12 s quicker at 500: a quarter of the way."""
    assert break_even({"recompute": [(100.0, 1.0), (500.0, 20.0)], "restore": [(100.0, 5.0), (500.0, 8.0)]}) == 200.0
    assert break_even({"recompute": [(100.0, 9.0), (500.0, 20.0)], "restore": [(100.0, 5.0), (500.0, 8.0)]}) == 0.0


# --- several hosts


@pytest.mark.parametrize(("elapsed_s", "waits"), [((30.0, 10.0, 10.0), True), ((10.0, 10.0, 10.0), False)])
def test_a_site_waits_for_a_straggler_whose_reading_is_longer(elapsed_s: tuple[float, ...], waits: bool) -> None:
    """By what one reading took: ten readings of 1 s are no longer than one."""
    repeats = (10, 10, 10)
    rates = (50.0, 100.0, 101.0)
    shares = tuple(
        HostShare(host=name, throughput=sure(rate), operations=1000, bytes=1000, elapsed_s=took, start_offset_s=0.0,
                  repeats=count)
        for name, rate, took, count in zip("abc", rates, elapsed_s, repeats, strict=True)
    )  # fmt: skip
    found = straggler(Case(run_of(point := replace(base(), hosts=shares)), run_of(point).experiments[0], 0))
    assert found is not None and ("The site waits for it." in found.says) == waits
    few = (replace(shares[0], elapsed_s=1.0, repeats=1), *shares[1:])
    again = straggler(Case(run_of(point := replace(base(), hosts=few)), run_of(point).experiments[0], 0))
    assert again is not None and "The site's result includes it." in again.says
    more = (replace(shares[0], elapsed_s=10.0), *(replace(one, elapsed_s=3.0, repeats=1) for one in shares[1:]))
    third = straggler(Case(run_of(point := replace(base(), hosts=more)), run_of(point).experiments[0], 0))
    assert third is not None and "The site's result includes it." in third.says


@pytest.mark.parametrize(("kept", "says"), [(0.5, "costs 50%"), (0.97, "is as fast as"), (1.3, "is as fast as")])
def test_a_shared_file_costs_where_it_is_slower(kept: float, says: str) -> None:
    points = tuple(
        replace(base(), parameters={"rw": "write", "bs": 1 << 20, "iodepth": 8, SHARED_FILE.name: shared},
                throughput=sure(1e9 * (kept if shared else 1.0)))
        for shared in (True, False)
    )  # fmt: skip
    result = made_experiment("storage.x", "storage", "?", "iodepth", "storage_blocks", points, fixed={})
    result = replace(result, declaration=replace(result.declaration, axes=(*result.declaration.axes, SHARED_FILE)))
    (found,) = shared_file(case_of(result))
    assert says in found.says and found.evidence["shared_to_own"] == pytest.approx(kept)


# --- what is printed


@pytest.mark.parametrize(
    ("rate", "time"),
    [
        (Value(1e6, "operations/s", 0.8e6, 1.25e6), Value(1000.0, "ns", 800.0, 1250.0)),
        (Value(0.0, "operations/s", 0.0, 1e6), Value(0.0, "ns", 1000.0, None)),
        (2e6, 500.0),
        (0.0, 0.0),
    ],
)
def test_the_time_of_one_operation_is_one_over_its_rate(rate: Value | float, time: Value | float) -> None:
    assert _as_time(rate) == time


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (Value(0.57, "1", 0.53, 0.62), "43% (38 to 47%)"),
        (Value(0.57, "1"), "43%"),
        (Value(1.25, "1"), "-25%"),
    ],
)
def test_a_cost_is_what_was_not_kept(kept: Value, words: str) -> None:
    assert cost_words(kept) == words


@pytest.mark.parametrize(
    ("unit", "latency", "words"),
    [("operations/s", 80.0, "80.0 ns"), ("operations/s", None, "10.0 M"), ("bytes/s", 80.0, "10.0 MB/s")],
)
def test_memory_far_away_is_said_as_a_time_where_time_was_measured(
    unit: str, latency: float | None, words: str
) -> None:
    whole = None if latency is None else Latency(latency, latency, latency, latency, None, latency, latency, 9)
    assert _figure(replace(base(), throughput=Value(1e7, unit), latency_ns=whole)).startswith(words)


# --- chance, swings and falls


@pytest.mark.parametrize(
    ("operations", "share", "expected"), [(400, 1.0, 0.05), (400, 0.25, 0.025), (0, 1.0, 1.0), (400, 0.0, 1.0)]
)
def test_few_arrivals_are_below_their_rate_by_chance(operations: int, share: float, expected: float) -> None:
    usual = chance(replace(base(), operations=400), 1.0)
    found = chance(replace(base(), operations=operations), share)
    assert found == pytest.approx(expected if expected == 1.0 else usual * expected / 0.05)


def test_repeats_of_one_course_are_alike_and_a_flat_one_differs_from_none() -> None:
    assert alike([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]) == pytest.approx([1.0, 1.0])
    assert alike([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]) == pytest.approx([-1.0, -1.0])
    assert alike([[5.0, 5.0, 5.0], [1.0, 2.0, 3.0]]) == [1.0, 1.0]
    assert alike([[4.0, 1.0, 9.0]]) == pytest.approx([1.0])


# --- links and drivers by name


@pytest.mark.parametrize(("name", "begins"), [("2x 25GbE", "2 × 25 Gbit/s"), ("25GbE", "25 Gbit/s")])
def test_several_lines_are_counted_in_the_formula(name: str, begins: str) -> None:
    rate = link_rate(name)
    assert rate is not None and rate.formula.startswith(begins)


@pytest.mark.parametrize(("kind", "is_missed"), [("gpu", True), ("cpu", False)])
def test_peaks_are_missed_of_a_gpu_and_not_of_a_processor(kind: str, is_missed: bool) -> None:
    device = OpenClDevice(platform="p", name="d", kind=kind)
    found = why_none(replace(Machine(), gpu_drivers=GpuDrivers(opencl=(device,))))
    assert bool(found) == is_missed


# --- memory


def test_the_larger_of_two_gains_is_said() -> None:
    """Of huge pages the one with more gain, whatever its bandwidth."""
    points = tuple(
        replace(base(), parameters={"pages": pages, "operation": way, "threads": 1, "working_set": 1 << 30},
                throughput=sure(rate))
        for way, pages, rate in (("read", "4k", 8e9), ("read", "2m", 9.6e9), ("copy", "4k", 2e9), ("copy", "2m", 3e9))
    )  # fmt: skip
    result = made_experiment("memory.pages", "memory", "?", "pages", "memory_bandwidth", points, fixed={})
    found = huge_pages(case_of(result))
    assert found is not None and found.evidence == {"gain": pytest.approx(0.5), "pages_4k": 2e9, "pages_2m": 3e9}


def test_the_larger_cost_of_write_allocate_is_said() -> None:
    """Of copy and triad the one that gains more, which comes first by its letter."""
    points = tuple(
        replace(
            base(), parameters={"operation": operation, "threads": 4, "working_set": 4 << 30}, throughput=sure(rate)
        )
        for operation, rate in (("copy", 1e10), ("nt_copy", 1.5e10), ("triad", 1e10), ("nt_triad", 1.2e10))
    )
    result = made_experiment("memory.stream", "memory", "?", "threads", "memory_bandwidth", points, fixed={})
    found = write_allocate(case_of(result))
    assert found is not None and found.evidence["operation"] == "copy" and found.evidence["ratio"] == pytest.approx(1.5)


# --- compute


def test_only_fma_in_fp64_on_numbers_is_a_share_of_the_peak() -> None:
    def loop(rate: float, **given: Any) -> Measurement:
        parameters = {"operation": "fma", "precision": "double", "threads": 4, "isa": "avx2", **given}
        return replace(base(), parameters=parameters, throughput=sure(rate, "FLOP/s"))

    def share(*others: Measurement) -> float:
        points = (loop(8e10), *others)
        peak = Ceiling("flop_s/fma/double/avx2/4", "physical", 1e11, "FLOP/s", "4 cores", "test")
        made = made_experiment("compute.flops", "compute", "?", "threads", LOOPS, points, fixed={})
        found = peak_share(case_of(replace(made, ceilings=(peak,))))
        assert found is not None
        return float(found.evidence["flop_s"])

    assert share() == 8e10
    assert share(loop(9e10)) == 9e10
    assert share(loop(9e10, operation="add")) == 8e10
    assert share(loop(9e10, precision="single")) == 8e10
    assert share(loop(9e10, operands="zero")) == 8e10


# --- loaders


def plain(*rates: float) -> Plain:
    points = tuple(
        replace(base(), parameters={"numjobs": 4 * number}, throughput=sure(rate))
        for number, rate in enumerate(rates, 1)
    )
    result = made_experiment("storage.pattern.x", "storage", "?", "numjobs", "storage_blocks", points, fixed={})
    return Plain(result, 4)


def accelerator(**changes: Any) -> Fed:
    made = Fed(number=1, name="h100", workload="unet3d", au=0.95, au_pass=0.9, need_bytes_s=1e9, nominal_bytes_s=1e9,
               batch_bytes=1e6, whole_bytes_s=1e9, read_share=1.0)  # fmt: skip
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("need", "share", "feeds"), [(1e9, 1.0, 2), (1e9, 0.5, 3), (3e9, 1.0, 0), (3e9, 0.25, 3), (1.2e9, 1.0, 1)]
)
def test_plain_reads_feed_what_reaches_its_au(need: float, share: float, feeds: int) -> None:
    """1.0, 1.9 and 2.1 GB/s with the readers of one, two and three accelerators; AU 90%."""
    one = accelerator(need_bytes_s=need, read_share=share)
    assert plain(1.1e9, 1.9e9, 2.1e9).feeds(one, 3) == feeds


def test_a_point_without_accelerators_is_one() -> None:
    point = replace(base(), parameters={"record_bytes": 1e6, "batch_size": 7, "compute": 0.5}, details={"au_rule": 0.9})
    result = made_experiment("training.x", "training", "?", "accelerators", "training_loader", (point,), fixed={})
    found = fed(result, point)
    assert found is not None and (found.number, found.need_bytes_s) == (1, 1.4e7)


@pytest.mark.parametrize(("code", "invalid"), [("other_workload", True), ("no_step", True), ("short", False)])
def test_data_of_another_workload_counts_for_nothing(code: str, invalid: bool) -> None:
    point = replace(base(), notes=(Note(code, "it is another's"),))
    found = training_other_data(Case(run_of(point), run_of(point).experiments[0], 0))
    assert (found is not None and found.severity == "invalid") == invalid


# --- published figures and foreign results


@pytest.mark.parametrize(
    ("text", "found"),
    [("3.2 GT/s x 8 B x 2", False), ("3.2 GHz x 8 B x 2", True), ("3.3 x 8 B x 2", True), ("3200 x 8 B x 2", False)],
)
def test_a_transfer_rate_of_ddr_is_no_clock_unless_it_says_so(text: str, found: bool) -> None:
    point = replace(base(), parameters={"claim": text}, throughput=Value(51.2e9, "bytes/s"),
                    details={"claimed_unit": "bytes/s"})  # fmt: skip
    memory = made_experiment("memory.claims", "memory", "?", "claim", CLAIM, (point,), fixed={})
    verdict = memory_by_clock(Case(replace(run_of(base()), experiments=(memory,)), memory, 0))
    assert (verdict is not None) == found


@pytest.mark.parametrize(
    ("resource", "name", "least", "most"),
    [
        ("storage", "rwmixread", 0, 100),
        ("storage", "bs", 512, 10**12),
        ("storage", "iodepth", 1, 1024),
        ("storage", "size", 1, 10**18),
        ("memory", "threads", 1, 1024),
        ("memory", "working_set", 4096, 10**14),
        ("memory", "stride", 8, 10**9),
        ("compute", "n", 2, 10**6),
        ("network", "streams", 1, 128),
        ("network", "block", 1, 10**9),
        ("training", "accelerators", 1, 4096),
    ],
)
def test_a_command_takes_a_foreign_figure_within_its_range(resource: str, name: str, least: int, most: int) -> None:
    result = made_experiment(f"{resource}.x", resource, "?", name, "", (base(),), fixed={})
    for value, taken in ((least, True), (most, True), (least - 1, False), (2 * most, False)):
        assert (name in takable(result, {name: value})) == taken, value


@pytest.mark.parametrize(("threads", "advised"), [(16, True), (15, False)])
def test_a_load_is_doubled_where_the_client_has_the_processors(threads: int, advised: bool) -> None:
    point = replace(base(), parameters={"threads": 8, "operation": "fma", "precision": "double"})
    run = run_of(point, "compute")
    machine = Machine.of_survey({"cpu": {"threads": threads}})
    result = made_experiment("compute.flops", "compute", "?", "threads", "compute_flops", (point,), fixed={})
    run = replace(run, machines=(machine,), experiments=(result,))
    assert ("Next test: `hwdyno compute" in _next_test(Case(run, result, 0))) == advised


# --- inference


def memory_reads(*points: tuple[dict[str, Any], float]) -> ExperimentResult:
    made = tuple(
        replace(base(), parameters={"operation": "read", "working_set": 1 << 30, **given}, throughput=sure(rate))
        for given, rate in points
    )
    return made_experiment("memory.read", "memory", "?", "threads", "memory_bandwidth", made, fixed={})


def test_the_memorys_bandwidth_is_the_best_read_of_as_many_threads() -> None:
    reads = memory_reads(({"threads": 1}, 1e10), ({"threads": 1}, 1.2e10), ({"threads": 4}, 3e10),
                         ({}, 1.1e10), ({"threads": 4, "operation": "copy"}, 9e10))  # fmt: skip
    assert bandwidths(replace(run_of(base()), experiments=(reads,))) == {1: 1.2e10, 4: 3e10}
    assert bandwidths(replace(run_of(base()), experiments=(memory_reads(({}, 1e10)),))) == {1: 1e10}


@pytest.mark.parametrize(
    ("details", "given", "rate"),
    [
        ({"bytes_per_token": 1e8, "output_tokens_mean": 11.0}, {}, 10.0),
        ({"bytes_per_token": 1e8, "output_tokens_mean": 11.0}, {"threads": 4}, 30.0),
        ({"bytes_per_token": 1e8, "output_tokens_mean": 11.0}, {"threads": 3}, None),
        ({"bytes_per_token": 1e8, "output_tokens_mean": 1.0}, {}, None),
        ({"bytes_per_token": 1e8}, {}, None),
        ({"output_tokens_mean": 11.0}, {}, None),
    ],
)
def test_memory_bounds_requests_by_the_tokens_after_the_first(
    details: dict[str, float], given: dict[str, Any], rate: float | None
) -> None:
    reads = memory_reads(({"threads": 1}, 1e10), ({"threads": 4}, 3e10))
    point = replace(base(), parameters={"concurrency": 8, **given}, details=details)
    served = made_experiment(
        "inference.serving", "inference", "?", "concurrency", "inference_serving", (point,), fixed={}
    )
    found = list(of_served(replace(run_of(base()), experiments=(reads, served)), served))
    assert [one.value for one in found] == ([] if rate is None else [pytest.approx(rate)])


@pytest.mark.parametrize(("most", "half"), [(64.0, 32), (3.0, 1), (1.0, 1)])
def test_a_busy_client_is_split_in_two(most: float, half: int) -> None:
    point = replace(base(), parameters={"concurrency": 8})
    served = made_experiment(
        "inference.serving", "inference", "?", "concurrency", "inference_serving", (point,), fixed={}
    )
    assert f"--concurrency {half}" in _next_step(case_of(served), "client", most)


# --- ceilings


@pytest.mark.parametrize(
    ("details", "units"),
    [
        ({"isa": "amx", "instructions_per_cycle": 2.0}, 1 / 16),
        ({"isa": "avx2", "instructions_per_cycle": 1.9}, 2),
        ({"isa": "avx2", "instructions_per_cycle": 0.2}, 1),
    ],
)
def test_units_are_whole_but_a_tile_takes_its_cycles(details: dict[str, Any], units: float) -> None:
    assert _units(details) == units


@pytest.mark.parametrize(
    ("link", "label", "bytes_s", "shared"),
    [
        (Link(type="sata", bits_s=6e9), "SATA 6 Gbit/s", 6e8, True),
        (Link(type="sas", bits_s=12e9), "SAS 12 Gbit/s", 1.2e9, False),
        (Link(type="sas", bits_s=48e9, lanes=4), "SAS 12 Gbit/s x4", 4.8e9, False),
        (Link(type="sas", bits_s=22.5e9), "SAS 22.5 Gbit/s", 2.4e9, False),
    ],
)
def test_both_ways_share_a_link_of_sata_and_none_of_sas(link: Link, label: str, bytes_s: float, shared: bool) -> None:
    rate = of_link(link)
    assert rate is not None and (rate.label, rate.shared) == (label, shared)
    assert rate.bytes_s == pytest.approx(bytes_s)


@pytest.mark.parametrize(
    ("rw", "engine", "bounded"),
    [("randread", "io_uring", True), ("trim", "io_uring", False), ("randread", "null", False)],
)
def test_what_carries_no_data_has_no_share_of_a_link(rw: str, engine: str, bounded: bool) -> None:
    point = replace(base(), parameters={"rw": rw, "bs": 4096, "ioengine": engine, "iodepth": 8})
    link = Ceiling("read_bytes_s", "physical", 1e9, "bytes/s", "the link", "test")
    result = with_field_axes(ExperimentResult("storage.x", "storage", "?", "iodepth", "storage_blocks", (point,)))
    assert bool(against_ceilings(case_of(replace(result, ceilings=(link,))), "physical")) == bounded


# --- contention


@pytest.mark.parametrize(
    ("moved", "capacity", "cause"), [(0.85, 1.0, "memory bandwidth"), (0.849, 1.0, ""), (0.9, 0.0, "")]
)
def test_memory_is_full_where_both_move_nearly_what_it_carries(moved: float, capacity: float, cause: str) -> None:
    """Half of it by each side; what moves nothing alone fills nothing."""
    details = {"cores": 2.0, "cores_alone": 2.0, "bytes_s": moved * 5e9, "load_bytes_s": moved * 5e9,
               "bytes_s_alone": capacity * 1e10}  # fmt: skip
    if not capacity:
        del details["bytes_s_alone"]
    point = replace(base(), parameters={BACKGROUND.name: "storage"}, details=details)
    result = made_experiment("memory.x", "memory", "?", BACKGROUND.name, "", (point,), fixed={})
    cell = Cell(result, 0, "storage", Value(0.7, "1", 0.68, 0.72), Value(0.7, "1", 0.66, 0.74))
    found = cause_of(cell, run_of(base()))
    assert (found.name if found else "") == cause
    other = Cell(replace(result, resource="storage"), 0, "network", Value(0.7, "1"), Value(0.7, "1"))
    assert cause_of(other, run_of(base())) is None


# --- TLB, knees and paths


@pytest.mark.parametrize(
    ("changes", "details", "kept"),
    [
        ({}, {}, True),
        ({"locality": "pages"}, {}, False),
        ({"working_set": 0}, {}, False),
        ({}, {"latency_ns": None}, False),
    ],
)
def test_only_random_chases_with_a_latency_show_the_tlb(
    changes: dict[str, Any], details: dict[str, Any], kept: int
) -> None:
    parameters = {"working_set": 1 << 24, "pages": "4k", "stride": 4096, **changes}
    point = replace(base(), parameters=parameters, **details)
    result = made_experiment("memory.tlb", "memory", "?", "working_set", "memory_latency", (point,), fixed={})
    dense, paged = _chases(case_of(result))
    assert not dense and sum(map(len, paged.values())) == int(kept)


@pytest.mark.parametrize(
    ("crossing", "least_90", "words"),
    [
        (Value(8.0, "1", 7.0, 9.0), 32.0, "Knee: iodepth 8 (7 to 9)"),
        (Value(8.0, "1", 2.0, 9.0), 32.0, "Knee: between iodepth 2 and 9"),
        (Value(8.0, "1", None, 9.0), 32.0, "Knee: iodepth 8"),
        (Value(8.0, "1", 7.0, None), 32.0, "Knee: iodepth 8"),
        (Value(8.0, "1", 7.0, 9.0), 4.0, "Knee: iodepth 4"),
        (None, 4.0, "Knee: not located"),
    ],
)
def test_a_knee_is_said_with_both_ends_or_none(crossing: Value | None, least_90: float, words: str) -> None:
    curve = Curve(series={}, load="iodepth", points=(0,), unit="operations/s", model="", load_90=least_90,
                  parameters={"N*": crossing} if crossing else {})  # fmt: skip
    axis = case_of(run_of(base()).experiments[0]).result.axis("iodepth")
    assert axis is not None and _knee_words(curve, axis) == words


@pytest.mark.parametrize(
    ("lost", "rtt_us", "found"),
    [((0.02, 0.02), (1000.0, 1000.0), True), ((0.02, 0.0), (1000.0, 1000.0), False), ((0.02,), (1000.0,), False),
     ((0.02, 0.02), (1000.0, 90000.0), False), ((0.0, 0.0), (1000.0, 1000.0), False)],
)  # fmt: skip
def test_a_path_is_policed_where_all_streams_lose_without_a_queue(
    lost: tuple[float, ...], rtt_us: tuple[float, ...], found: bool
) -> None:
    points = tuple(
        replace(base(), parameters={"protocol": "tcp", "streams": 1 << number}, throughput=sure(1e8),
                details={"congestion_control": "cubic", "retransmit_share": share, "rtt_mean_us": rtt,
                         "rtt_min_us": 990.0})
        for number, (share, rtt) in enumerate(zip(lost, rtt_us, strict=True))
    )  # fmt: skip
    result = made_experiment("network.x", "network", "?", "streams", "network_throughput", points, fixed={})
    assert (policed(case_of(result)) is not None) == found
