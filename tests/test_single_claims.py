"""Single lines of rules on claimed ceilings, compute, open loops and loaders that a change would break unseen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.axes import with_field_axes
from hwdyno.ceilings.compute import LOOPS
from hwdyno.curves import CAPACITY
from hwdyno.findings.claims import CLAIM, claim_exceeded, flops_per_core, formula_yields_other, memory_by_clock
from hwdyno.findings.compute import LINPACK, linpack_share, noisy_neighbour, operands_cost, peak_share, wide_clock_drop
from hwdyno.findings.coverage import small_region
from hwdyno.findings.open_loop import offered_and_reached, users_wait
from hwdyno.findings.rule import Case
from hwdyno.findings.training import LOADER, client_bytes_s, fed, training_read_ahead
from hwdyno.findings.training_capacity import Plain, plain_of, training_capacity, training_plain
from hwdyno.findings.training_data import training_faults, training_uneven
from hwdyno.findings.training_peer import dlio_compared
from hwdyno.machine import Machine
from hwdyno.words import Ceiling, Curve, ExperimentResult, Fault, Measurement, Note, Parameters, PeerResult, Value
from made_experiment import made_experiment
from test_single_lines import case_of
from test_single_rules import sure
from test_thresholds import base, run_of

# --- claims


def claimed(resource: str, text: str, value: float, unit: str, **given: Any) -> ExperimentResult:
    point = replace(base(), parameters={"claim": text, "study": "s", **given}, throughput=Value(value, unit),
                    details={"claimed_unit": unit})  # fmt: skip
    return made_experiment(f"{resource}.claims", resource, "?", "claim", CLAIM, (point,), fixed={})


def of_claim(*results: ExperimentResult) -> Case:
    return Case(replace(run_of(base()), experiments=results), results[0], 0)


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("8 x 3.2 GT/s x 2", 51.2e9, False),
        ("8 x 3.2 GT/s x 2", 0.0, False),
        ("no product at all", 51.2e9, False),
        ("2 x 0.5", 1.0, False),
        ("2 x 3", 1.0, True),
        ("8 x 3200 MT/s x 2", 51.2, False),
        ("8 x 3200 MT/s x 2", 25.6, True),
    ],
)
def test_a_product_yields_a_claim_whatever_the_prefix_of_its_factors(text: str, value: float, found: bool) -> None:
    """A value of zero claims nothing."""
    assert (formula_yields_other(of_claim(claimed("memory", text, value, "bytes/s"))) is not None) == found


def test_a_product_so_large_that_no_ratio_is_left_stays_as_it_is() -> None:
    found = formula_yields_other(of_claim(claimed("memory", "1" + 308 * "0" + " x 1", 1e-20, "bytes/s")))
    assert found is not None and found.evidence == {"product": 1e308, "claimed": 1e-20}


@pytest.mark.parametrize(
    ("rate", "found"),
    [
        ("3.6 GT/s", False),
        ("3.2144 GT/s", False),
        ("3.2176 GT/s", True),
        ("3214.4 MT/s", False),
        ("3217.6 MT/s", True),
        ("2133.3 MT/s", False),
        ("11.2 GT/s", True),
    ],
)
def test_a_transfer_rate_may_be_half_a_percent_off_and_in_millions(rate: str, found: bool) -> None:
    """3.2144 is 0.45% above 3.2 and 3.2176 is 0.55%; 11.2 is twice a rate of DDR, and none itself."""
    case = of_claim(claimed("memory", f"{rate} x 8 B x 2", 51.2e9, "bytes/s"))
    assert (memory_by_clock(case) is not None) == found


@pytest.mark.parametrize(
    ("rate", "clock", "same"),
    [
        ("3.7", "3.7 GHz", True),
        ("3.71665", "3.7 GHz", True),
        ("3.72035", "3.7 GHz", False),
        ("3.9", "3.7 GHz", False),
        ("3.7", "3.7", True),
        ("0.5", "0.5", False),
        ("0.6", "0.6", True),
        ("0.5", "0.5 GHz", True),
        ("6.9", "6.9", True),
        ("7.5", "7.5", False),
        ("7.5", "7.5 GHz", True),
    ],
)
def test_a_clock_is_the_same_within_half_a_percent_and_without_a_unit_only_where_clocks_lie(
    rate: str, clock: str, same: bool
) -> None:
    """3.71665 is 0.45% above 3.7 and 3.72035 is 0.55%; a factor without GHz is a clock between 0.5 and 7."""
    memory = claimed("memory", f"{rate} GHz x 8 B x 2", 51.2e9, "bytes/s")
    found = memory_by_clock(of_claim(memory, claimed("compute", f"16 cores x {clock} x 16", 947e9, "FLOP/s")))
    assert found is not None and found.evidence["same_clock"] == same
    assert found.weight == (2.0 if same else 1.0)


M40 = 6.84e12
"""FLOP/s of a Tesla M40: 3072 cores at 1.114 GHz."""


@pytest.mark.parametrize(
    ("text", "device", "ratio", "found"),
    [
        ("Tesla M40: 3072 x 1.114 GHz x 2", None, 1.0, False),
        ("Tesla M40: 3072 x 1.114 GHz x 2", None, 1.019, False),
        ("Tesla M40: 3072 x 1.114 GHz x 2", None, 1.021, True),
        ("3072 x 1.114 GHz x 8", "Tesla M40", 1.0, False),
        ("3072 x 1.114 GHz x 8", "Tesla M40", 4.0, True),
        ("Tesla M40", None, 4.0, True),
    ],
)
def test_a_known_gpu_is_accused_of_what_exceeds_its_data_sheet(
    text: str, device: str | None, ratio: float, found: bool
) -> None:
    result = claimed("gpu", text, ratio * M40, "FLOP/s", **({"device": device} if device else {}))
    verdict = flops_per_core(of_claim(result))
    assert (verdict is not None) == found
    if verdict is not None:
        assert verdict.says.endswith(" 3072 cores x 1.114 GHz x 2 is 6.84 TFLOP/s.")
        assert verdict.weight == pytest.approx(ratio) and verdict.evidence["correct"] == M40


@pytest.mark.parametrize(
    ("factor", "per_core"), [("2", None), ("2.5", None), ("3", 3.0), ("64", 64.0), ("65", None), ("1", None)]
)
def test_an_unknown_gpus_core_is_accused_of_a_whole_factor_above_two(factor: str, per_core: float | None) -> None:
    found = flops_per_core(of_claim(claimed("gpu", f"1024 cores x 1.5 GHz x {factor}", 1e12, "FLOP/s")))
    assert (found and found.evidence["per_core"]) == per_core
    assert found is None or found.weight == 1.0


@pytest.mark.parametrize(
    ("text", "rw", "ratio", "cause"),
    [
        ("reads of 1 GB/s", "randread", 1.3, "A cache answered, or the claim is wrong."),
        ("reads of 1 GB/s", "randread", 1.21, "A cache answered, or the claim is wrong."),
        ("reads of 1 GB/s", "randread", 1.19, "The claim or the measurement is wrong."),
        ("reads of 1 GB/s", "randwrite", 1.3, None),
        ("writes of 1 GB/s", "randread", 1.3, None),
        ("writes of 1 GB/s", "randwrite", 1.3, "A cache answered, or the claim is wrong."),
        ("1 GB/s", "randwrite", 1.3, "A cache answered, or the claim is wrong."),
        ("reads of 1 GB/s", None, 1.3, None),
    ],
)
def test_a_claim_on_one_direction_is_exceeded_by_that_one(
    text: str, rw: str | None, ratio: float, cause: str | None
) -> None:
    measured = replace(base(), parameters={"rw": rw}, throughput=Value(ratio * 1e9, "bytes/s"))
    other = made_experiment("storage.x", "storage", "?", "iodepth", "x", (measured,), fixed={"study": "s"})
    found = claim_exceeded(of_claim(claimed("storage", text, 1e9, "bytes/s"), other))
    assert [one.says.endswith(cause or "") for one in found] == ([] if cause is None else [True])


# --- compute


def loop(isa: str, rate: float = 1e10, /, *, hz: float | None = None, **given: Any) -> Measurement:
    details: dict[str, Any] = {"isa": isa} if hz is None else {"isa": isa, "clock_hz_during": hz}
    parameters: Parameters = {"operation": "fma", "precision": "double", "threads": 1, **given}
    return replace(base(), parameters=parameters, throughput=sure(rate, "FLOP/s"), details=details)


def of_loops(*points: Measurement, kernel: str = LOOPS) -> ExperimentResult:
    return made_experiment("compute.x", "compute", "?", "threads", kernel, points, fixed={})


@pytest.mark.parametrize(("threads", "found"), [({}, True), ({"threads": 1}, True), ({"threads": 2}, False)])
def test_a_loop_without_threads_is_one_and_is_judged_on_one_processor(threads: Parameters, found: bool) -> None:
    details = {"flop_per_cycle": 4.0, "flop_per_cycle_best_slice": 8.0}
    made = run_of(replace(base(), parameters=threads, details=details), "compute")
    run = replace(made, machines=(Machine.of_survey({"cpu": {"threads": 1}}),))
    assert (noisy_neighbour(Case(run, run.experiments[0], 0)) is not None) == found


@pytest.mark.parametrize(
    ("clocks", "drop"),
    [
        ((("scalar", 4e9), ("avx2", 3.86e9)), 0.035),
        ((("scalar", 4e9), ("avx2", 3.9e9)), None),
        ((("scalar", 4e9), ("avx512", 2e9), ("avx512", 3e9)), 0.25),
        ((("scalar", 1.0), ("avx512", 0.5)), 0.5),
        ((("avx512", 0.5),), None),
        ((("avx2", 4e9), ("avx512", 3e9)), None),
    ],
)
def test_a_wide_clock_falls_from_the_best_narrow_one_by_more_than_three_percent(
    clocks: tuple[tuple[str, float], ...], drop: float | None
) -> None:
    """In any unit: 0.5 beside 1 has fallen by half, and nothing falls where no narrow clock is known."""
    found = wide_clock_drop(case_of(of_loops(*(loop(isa, hz=hz) for isa, hz in clocks))))
    assert (found and found.evidence["drop"]) == (None if drop is None else pytest.approx(drop))


def test_the_loop_that_real_data_cost_most_is_said_whatever_its_name() -> None:
    """AVX2 loses a half, SSE, whose name comes after it, a fifth."""
    pairs = (("avx2", 5e9), ("sse", 8e9))
    points = [one for isa, rate in pairs for one in (loop(isa, rate), loop(isa, 1e10, operands="zero"))]
    found = operands_cost(case_of(of_loops(*points)))
    assert found is not None and found.evidence["isa"] == "avx2" and found.evidence["cost"] == pytest.approx(0.5)


@pytest.mark.parametrize(("zeros", "cost"), [(1.0, 0.5), (0.0, None)])
def test_a_loop_that_did_anything_counts(zeros: float, cost: float | None) -> None:
    found = operands_cost(case_of(of_loops(loop("avx2", 0.5), loop("avx2", zeros, operands="zero"))))
    assert (found and found.evidence["cost"]) == cost


@pytest.mark.parametrize(
    ("rate", "says"),
    [
        (8e10, "reaches 80% of its FP64 peak: "),
        (9.9e10, "reaches 99% of its FP64 peak: "),
        (1e11, "reaches its FP64 peak: "),
        (1.01e11, "reaches its FP64 peak: "),
    ],
)
def test_a_processor_at_its_peak_reaches_it(rate: float, says: str) -> None:
    peak = Ceiling("flop_s/fma/double/avx2/4", "physical", 1e11, "FLOP/s", "4 cores", "test")
    result = replace(of_loops(loop("avx2", rate, threads=4, isa="avx2")), ceilings=(peak,))
    found = peak_share(case_of(result))
    assert found is not None and says in found.says


@pytest.mark.parametrize(
    ("of_peak", "of_linpack", "share"), [({}, {}, 0.8), ({}, {"threads": 1}, 0.8), ({}, {"threads": 2}, None)]
)
def test_a_peak_without_threads_is_that_of_one(
    of_peak: Parameters, of_linpack: Parameters, share: float | None
) -> None:
    def measured(kernel: str, operation: str, rate: float, given: Parameters) -> ExperimentResult:
        parameters: Parameters = {"operation": operation, "precision": "double", "n": 4000, **given}
        return of_loops(replace(base(), parameters=parameters, throughput=sure(rate, "FLOP/s")), kernel=kernel)

    solved = measured(LINPACK, "lu", 8e10, of_linpack)
    run = replace(run_of(base()), experiments=(measured(LOOPS, "fma", 1e11, of_peak), solved))
    found = linpack_share(Case(run, solved))
    assert found is not None and found.evidence["measured_peak_share"] == share


# --- coverage


@pytest.mark.parametrize(("region", "found"), [(0.0, False), (1.0, True)])
def test_a_region_of_any_size_is_a_small_one(region: float, found: bool) -> None:
    point = replace(base(), parameters={**base().parameters, "size": 0}, details={"region_bytes": region})
    assert (small_region(Case(run_of(point), run_of(point).experiments[0], 0)) is not None) == found


# --- open loops


@pytest.mark.parametrize(
    ("axis", "unit", "reached"),
    [
        ("rate", "bytes/s", 7e3),
        ("rate", "operations/s", 7e3),
        ("rate_bytes", "bytes/s", 5e6),
        ("rate_bytes", "operations/s", None),
    ],
)
def test_what_was_reached_is_in_the_unit_of_what_was_offered(axis: str, unit: str, reached: float | None) -> None:
    point = replace(base(), parameters={"rw": "randread", "bs": 4096, axis: 1e7}, rate=Value(7e3, "operations/s"),
                    throughput=Value(5e6, unit))  # fmt: skip
    result = with_field_axes(ExperimentResult("storage.rate", "storage", "?", axis, "storage_blocks", (point,)))
    found = offered_and_reached(case_of(result))
    assert (found and (found[0].name, *found[1:])) == (None if reached is None else (axis, 1e7, reached))


def of_rates(axis: str, *rates: float) -> ExperimentResult:
    points = tuple(
        replace(base(), parameters={"rw": "randread", "bs": 4096, axis: rate}, rate=Value(rate, "operations/s"))
        for rate in rates
    )
    return with_field_axes(ExperimentResult("storage.rate", "storage", "?", axis, "storage_blocks", points))


def curve_of(axis: str, **parameters: Value) -> Curve:
    return Curve(series={}, load=axis, points=(0, 1), unit="operations/s", model="", parameters=parameters)


def test_users_wait_at_rates_of_requests_and_of_a_curve() -> None:
    requests, of_bytes = of_rates("rate", 5e3, 1e4), of_rates("rate_bytes", 5e3, 1e4)
    assert users_wait(case_of(requests)) is None
    assert users_wait(replace(case_of(of_bytes), curve=curve_of("rate_bytes"))) is None
    found = users_wait(replace(case_of(requests), curve=curve_of("rate")))
    assert found is not None and found.evidence["rates"] == [5e3, 1e4]


@pytest.mark.parametrize(("low", "words"), [(2e4, "20.0 k to 80.0 k"), (None, "0 to 80.0 k")])
def test_an_open_capacity_without_a_lower_end_may_be_nothing(low: float | None, words: str) -> None:
    """Four servers of 0.1 ms each: 40,000/s fit best."""
    capacity = Value(4e4, "operations/s", low, 8e4)
    curve = curve_of("rate", S=Value(1e5, "ns"), m=Value(4.0, "servers"), **{CAPACITY: capacity})
    found = users_wait(replace(case_of(of_rates("rate", 5e3, 1e4)), curve=curve))
    assert found is not None and f"The capacity is open: {words} " in found.says
    assert "(best fit: 40.0 k)" in found.says


# --- loaders


GIVEN: Parameters = {"workload": "w", "accelerator": "a", "record_bytes": 1e6, "read_threads": 4, "prefetch": 2}


def loaded(number: int = 1, rate: float = 1e9, **details: Any) -> Measurement:
    """A point of accelerators that each need 1 GB/s, with an AU of 90% unless told."""
    made = {"au_rule": 0.9, "need_bytes_s": 1e9, **details}
    return replace(base(), parameters={"accelerators": number}, throughput=sure(rate), details=made)


def of_loader(*points: Measurement, name: str = "training.w.a", **fixed: Any) -> ExperimentResult:
    given = {name: value for name, value in {**GIVEN, **fixed}.items() if value is not None}
    return made_experiment(name, "training", "?", "accelerators", LOADER, points, fixed=given)


def plain_reads(*rates: float, each: int = 4) -> ExperimentResult:
    """Plain reads with the readers of one, two … accelerators."""
    points = tuple(
        replace(base(), parameters={"numjobs": each * number}, throughput=sure(rate))
        for number, rate in enumerate(rates, 1)
    )
    return made_experiment("storage.pattern.w", "storage", "?", "numjobs", "storage_blocks", points, fixed={})


@pytest.mark.parametrize(("batch", "batch_bytes"), [(None, 1e6), (1, 1e6), (7, 7e6)])
def test_a_batch_without_a_size_is_one_record(batch: int | None, batch_bytes: float) -> None:
    point = loaded()
    found = fed(of_loader(point, batch_size=batch), point)
    assert found is not None and found.batch_bytes == batch_bytes


@pytest.mark.parametrize(
    ("columns", "nominal", "share"),
    [(3, 4e9, 0.25), (3, 1e9, 1.0), (3, 0.5e9, 1.0), (3, None, 1.0), (None, 4e9, 1.0), (None, None, 1.0)],
)
def test_less_than_all_is_read_only_where_columns_are_chosen(
    columns: int | None, nominal: float | None, share: float
) -> None:
    point = replace(loaded(nominal_bytes=nominal), bytes=10**9)
    found = fed(of_loader(point, read_columns=columns), point)
    assert found is not None and found.read_share == share


@pytest.mark.parametrize(("rate", "found"), [(0.0, None), (1.0, 1.0), (2e9, 2e9)])
def test_a_client_that_delivered_anything_has_a_rate(rate: float, found: float | None) -> None:
    alone = of_loader(loaded(2, rate), name="training.client.w", compute=0.0)
    result = of_loader(loaded(2))
    assert client_bytes_s(replace(run_of(base()), experiments=(result, alone)), result, 2) == found


@pytest.mark.parametrize(
    ("batch", "details", "each", "samples"),
    [
        (None, {"steps": 100, "epochs": 5, "samples_per_epoch": 12}, 6.0, 32),
        (2, {"steps": 100, "epochs": 5, "samples_per_epoch": 24}, 6.0, 64),
        (2, {"steps": 10, "epochs": 5, "samples_per_epoch": 24}, 5.0, 64),
        (2, {"steps": 50, "epochs": 5}, 5.0, 64),
        (2, {"steps": 100, "epochs": 5}, None, 0),
    ],
)
def test_an_epoch_is_read_ahead_where_its_batches_fit_into_what_readers_prefetch(
    batch: int | None, details: dict[str, Any], each: float | None, samples: int
) -> None:
    """Each of two accelerators has four readers that prefetch two batches, 8 in all; twice as many samples suffice."""
    point = loaded(2, **details)
    found = training_read_ahead(case_of(of_loader(point, batch_size=batch)))
    assert (found and found.evidence["steps_an_epoch"]) == each
    assert found is None or f"--samples {samples}" in found.advice


# --- plain reads beside loaders


def test_a_plain_read_counts_where_it_is_valid_and_moved_anything() -> None:
    result = plain_reads(0.0, 1.0, 2e9)
    invalid = replace(result.points[2], validity="invalid")
    found = Plain(replace(result, points=(*result.points[:2], invalid)), 4)
    assert [found.bytes_s(number) for number in (1, 2, 3, 4)] == [None, 1.0, None, None]
    assert Plain(result, 4).bytes_s(3) == 2e9


@pytest.mark.parametrize(("threads", "each"), [(None, 1), (1, 1), (4, 4)])
def test_a_loader_without_readers_has_one(threads: int | None, each: int) -> None:
    result = of_loader(loaded(), read_threads=threads)
    found = plain_of(replace(run_of(base()), experiments=(result, plain_reads(1e9))), result)
    assert found is not None and found.threads_each == each


@pytest.mark.parametrize(
    ("fed_of", "says"), [((("b", 2), ("c", 3), ("d", 1)), "3 c"), ((("d", 1),), "1 d"), ((("d", 0),), "")]
)
def test_of_several_needier_kinds_the_most_accelerators_are_said(
    fed_of: tuple[tuple[str, int], ...], says: str
) -> None:
    """Each needs 2 GB/s, where the one that failed needs one; of four, so many reached their AU."""
    kinds = [
        of_loader(
            *(loaded(number, need_bytes_s=2e9, au_rule=0.9 if number <= most else 0.5) for number in range(1, 5)),
            accelerator=name,
        )
        for name, most in fed_of
    ]
    slow = of_loader(loaded(1, au_rule=0.5))
    found = training_capacity(Case(replace(run_of(base()), experiments=(slow, *kinds)), slow, 0))
    assert found is not None and ("which need more" in found.says) == bool(says)
    assert f"this storage fed {says}" in found.says or not says


@pytest.mark.parametrize(("client", "limit"), [(0.89e9, "this client"), (0.91e9, "the storage")])
def test_a_client_is_the_limit_below_what_is_read_for_a_passing_au(client: float, limit: str) -> None:
    """Two of 1 GB/s, of which half is read, pass at an AU of 90%: 0.9 GB/s."""
    points = tuple(
        replace(loaded(number, au_rule=au, nominal_bytes=2e9), bytes=10**9) for number, au in ((1, 0.95), (2, 0.5))
    )
    result = of_loader(*points, read_columns=3)
    alone = of_loader(loaded(2, client), name="training.client.w", compute=0.0)
    found = training_capacity(Case(replace(run_of(base()), experiments=(result, alone)), result, 0))
    assert found is not None and f"the next limit is {limit}: " in found.says


def against_plain(rate: float, client: float | None = None) -> Case:
    """A loader that reached this rate and fails, beside plain reads of 1 GB/s."""
    result = of_loader(loaded(1, rate, au_rule=0.5), direct=False)
    alone = () if client is None else (of_loader(loaded(1, client), name="training.client.w", compute=0.0),)
    return Case(replace(run_of(base()), experiments=(result, plain_reads(1e9), *alone)), result, 0)


@pytest.mark.parametrize(("rate", "apart"), [(0.0, None), (1.0, 1.0), (0.5e9, 0.5), (0.81e9, None), (1.5e9, 0.5)])
def test_a_loader_that_moved_anything_is_apart_from_plain_reads_by_a_fifth(rate: float, apart: float | None) -> None:
    found = training_plain(against_plain(rate))
    assert (found and found.evidence["apart"]) == (None if apart is None else pytest.approx(apart))


def test_a_loader_faster_than_the_storage_is_advised_to_read_past_the_cache() -> None:
    found = training_plain(against_plain(1.5e9))
    assert found is not None and found.advice.endswith(" --direct 1")


@pytest.mark.parametrize(
    ("client", "why", "advice"),
    [
        (0.79e9, "The loader itself delivers no more than 790 MB/s from memory.", "parse nothing"),
        (0.81e9, "Possible causes: opening files", "Keep more in flight"),
        (1.5e9, "Possible causes: opening files", "Keep more in flight"),
        (None, "Possible causes: opening files", "Keep more in flight"),
    ],
)
def test_a_client_slower_than_plain_reads_by_a_fifth_is_the_reason(client: float | None, why: str, advice: str) -> None:
    found = training_plain(against_plain(0.5e9, client))
    assert found is not None and why in found.says and advice in found.advice


# --- a loader's data


@pytest.mark.parametrize(
    ("damaged", "ends"),
    [
        (1, "Files: file 1."),
        (3, "Files: file 1; file 2; file 3."),
        (4, "Files: file 1; file 2; file 3; 1 more."),
        (5, "Files: file 1; file 2; file 3; 2 more."),
    ],
)
def test_three_damaged_files_are_named_and_the_others_counted(damaged: int, ends: str) -> None:
    faults = tuple(Fault("record", 0, f"file {number}", 1) for number in range(1, damaged + 1))
    found = training_faults(case_of(of_loader(replace(loaded(), faults=faults))))
    assert found is not None and found.says.endswith(ends)


@pytest.mark.parametrize(
    ("left", "each", "noted", "says", "weight"),
    [
        (2, 6, True, "2 of 8 samples are never read", 0.25),
        (2, None, True, "2 of 2 samples are never read", 1.0),
        (0, None, True, "0 of 0 samples are never read", 0.0),
        (2, 6, False, "", 0.0),
        (None, 6, True, "", 0.0),
    ],
)
def test_samples_left_over_are_a_share_of_all(
    left: int | None, each: int | None, noted: bool, says: str, weight: float
) -> None:
    notes = (Note("uneven_tails", "they end together"),) if noted else ()
    point = replace(loaded(samples_left_over=left, samples_per_epoch=each), notes=notes)
    found = training_uneven(case_of(of_loader(point)))
    assert (found is not None) == bool(says)
    if found is not None:
        assert found.says.startswith(says) and found.weight == weight


@pytest.mark.parametrize(
    ("batch", "ends"), [(None, "batch size divides."), (2, "--samples 8"), (4, "--samples 8"), (100, "size divides.")]
)
def test_the_samples_that_are_advised_are_shared_evenly_or_none(batch: int | None, ends: str) -> None:
    """Two accelerators and 9 samples."""
    point = replace(loaded(2, samples_left_over=1, samples_per_epoch=8), notes=(Note("uneven_tails", "they end"),))
    found = training_uneven(case_of(of_loader(point, batch_size=batch)))
    assert found is not None and ends in found.advice and ("--samples" in found.advice) == ("--samples" in ends)


# --- beside DLIO


def against_dlio(*theirs: float, ours: float = 0.9, cpu: float | None = None, why: tuple[str, ...] = ()) -> Case:
    """Accelerators that need 1 GB/s together here, and DLIO's AU with one, two …"""
    points = tuple(
        replace(loaded(number, au_rule=ours, client_cpu_s_per_gb=0.5), why=why) for number in range(1, len(theirs) + 1)
    )
    details = {} if cpu is None else {"cpu_s_per_gb": cpu}
    peers = tuple(
        PeerResult("dlio", "2.0", at, Value(1e9, "bytes/s"), None, details={"au": au, **details})
        for at, au in enumerate(theirs)
    )
    return case_of(replace(of_loader(*points, epochs=5), peers=peers))


def test_the_point_where_dlio_differs_most_is_said() -> None:
    found = dlio_compared(against_dlio(0.8, 0.5, 0.7))
    assert found is not None and found.points == (1,) and found.evidence["points_apart"] == pytest.approx(40.0)
    assert found.evidence["compared"] == 3


@pytest.mark.parametrize(("why", "words"), [(("others_at_work",), True), ((), False), (("steal",), False)])
def test_other_work_beside_dlio_is_said(why: tuple[str, ...], words: bool) -> None:
    found = dlio_compared(against_dlio(0.5, why=why))
    assert found is not None and ("Other processes loaded this machine." in found.says) == words


@pytest.mark.parametrize(("cpu", "words"), [(1.0, ""), (2.0, "DLIO would use 2 processors."), (None, "")])
def test_dlios_processors_are_said_where_it_needs_more_than_one(cpu: float | None, words: str) -> None:
    """At 1 GB/s, by its seconds for each GB."""
    found = dlio_compared(against_dlio(0.5, cpu=cpu))
    assert found is not None and ("DLIO would use" in found.says) == bool(words) and words in found.says


def test_a_page_cache_that_helped_dlio_is_ruled_out_by_one_epoch() -> None:
    found = dlio_compared(against_dlio(0.9, ours=0.5))
    assert found is not None and found.severity == "warning" and found.advice.endswith(" --epochs 1 --peers")


def test_the_words_of_the_first_of_two_equal_factors_say_what_it_is() -> None:
    found = memory_by_clock(of_claim(claimed("memory", "3.2 GHz x 8 B x 3.2", 81.92e9, "bytes/s")))
    assert found is not None and found.evidence["rate"] == 3.2


def test_a_product_beyond_all_numbers_is_held_against_nothing() -> None:
    assert formula_yields_other(of_claim(claimed("memory", f"1{400 * '0'} x 2", 51.2e9, "bytes/s"))) is None
