"""The findings on 200 random simulated machines a rule are just what was planted, and nothing on clean ones."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hwdyno.analysis.estimates import t_quantile
from hwdyno.explain.findings import all_rules, explain, why_not_double
from hwdyno.explain.findings.bottleneck import find_limit
from hwdyno.explain.findings.rule import Case
from hwdyno.model.machine import Link
from hwdyno.model.words import Ceiling, Measurement, Parameters, Run, Value
from made_experiment import made_experiment
from simulated_runs import FIXED, MACHINES, TWO_POINTS, experiment, list_rules, make_run, measured, the
from simulated_runs import at as _at
from simulation.host import SimulatedHost, SimulatedMachine

DESCRIBES = {"knee", "still_rising", "saturated", "best_block_size", "spinning_or_solid", "best_combination"}
"""Rules that say what a healthy machine is like."""


# --- nothing on clean machines


@pytest.mark.parametrize("part", range(4))
def test_clean_machines_have_nothing_wrong(part: int) -> None:
    for seed in MACHINES[part::4]:
        machine = SimulatedMachine.random(seed)
        run = explain(
            make_run(
                machine,
                experiment(machine, "iodepth", [_at(iodepth=2**k) for k in range(0, 11, 2)]),
                experiment(machine, "bs", [_at(bs=4096 * 4**k, iodepth=8) for k in range(5)]),
                experiment(
                    machine,
                    "bs",
                    [_at(rw=rw, iodepth=8) for rw in ("randread", "randrw:70", "randrw:50", "randwrite")],
                    name="storage.mix",
                ),
                experiment(machine, "iodepth", [_at(rw=rw, bs=1 << 20, iodepth=8) for rw in ("read", "write")]),
            )
        )
        wrong = [finding.says for finding in run.findings if finding.severity != "info"]
        assert not wrong, f"machine {seed}: {wrong}"
        assert list_rules(run.findings) <= DESCRIBES | {"interval_not_reached"}, f"machine {seed}"
        assert {point.validity for result in run.experiments for point in result.points} == {"valid"}
        solid = the(run, "spinning_or_solid")
        assert solid.evidence["verdict"] == "solid state"


# --- what is planted in a point is found there, and nothing else is


def _machine_with(**ranges: tuple[float, float]) -> Callable[[random.Random], dict[str, Any]]:
    return lambda draw: {name: draw.uniform(*bounds) for name, bounds in ranges.items()}


# rule: (what is planted, fixed parameters over the default ones, rules that may have findings beside it)
PLANTED: dict[str, tuple[Callable[[random.Random], dict[str, Any]], Parameters, set[str]]] = {
    "page_cache": (_machine_with(cache_share=(0.05, 1.0)), {}, {"physical_ceiling"}),
    "unwritten_file": (
        lambda draw: {draw.choice(["unwritten_share", "hole_share"]): draw.uniform(0.05, 1)},
        {},
        {"physical_ceiling"},
    ),
    "unequal_jobs": (_machine_with(unequal_jobs=(0.15, 0.9)), {"time_based": False, "size": 16 << 30}, set()),
    "direct_refused": (lambda draw: {"direct_refused": True}, {}, set()),
    "synchronous_engine": (lambda draw: {}, {"ioengine": "libaio", "direct": False}, set()),
    "depth_not_reached": (lambda draw: {"depth_cap": draw.choice([1, 2, 3])}, {}, set()),
    "faults": (lambda draw: {"short_transfers": draw.randint(1, 50)}, {}, set()),
    "client_bound": (lambda draw: {"client_bound": True}, {}, set()),
    "throttled": (_machine_with(throttle_at=(0.2, 0.75), throttle_to=(0.4, 0.8)), {}, set()),
    "not_steady": (
        lambda draw: (
            {"drift": draw.choice([-1, 1]) * draw.uniform(0.2, 0.6)}
            if draw.random() < 0.5
            else {"wobble": draw.uniform(0.2, 0.5)}
        ),
        {},
        set(),
    ),
    "others_at_work": (
        lambda draw: {
            "others_cpu": draw.uniform(0.3, 0.6),
            "others_before": draw.choice([0.0, 0.5]),
            "load_before": draw.choice([0.0, 8.0]),
            **draw.choice([{}, {"throttle_at": 0.5}, {"drift": -0.4}, {"noise": 0.3}, {"wobble": 0.3}]),
        },
        {},
        set(),
    ),
    "another_run": (
        lambda draw: {
            "other_runs": draw.choice([1.0, 2.0]),
            **draw.choice(
                [{}, {"throttle_at": 0.5}, {"drift": -0.4}, {"noise": 0.3}, {"wobble": 0.3}, {"others_cpu": 0.4}]
            ),
            "others_before": draw.choice([0.0, 0.5]),
        },
        {},
        set(),
    ),
    "steal": (_machine_with(steal=(0.11, 0.4)), {}, set()),
    "swapping": (_machine_with(swap_bytes_s=(2e6, 1e9)), {}, set()),
    "load_before": (_machine_with(others_before=(0.11, 1.0)), {}, set()),
}


@pytest.mark.parametrize("rule", PLANTED)
def test_just_what_was_planted_is_found(rule: str) -> None:
    plant, over, also = PLANTED[rule]
    degrades = next(all_rule.degrades for all_rule in all_rules() if all_rule.name == rule)
    missed, extra = [], []
    for seed in MACHINES:
        machine = SimulatedMachine.random(seed, **plant(random.Random(seed)))
        fixed = {**FIXED, **over}
        run = explain(make_run(machine, experiment(machine, "iodepth", TWO_POINTS, fixed, repeats=2)))
        found = list_rules(run.findings, "warning", "invalid") - {"interval_not_reached"}
        if rule not in found:
            missed.append(seed)
        elif degrades:
            (finding,) = [finding for finding in run.findings if finding.rule == rule]
            for at in finding.points:
                assert run.experiments[0].points[at].validity != "valid"
                assert rule in run.experiments[0].points[at].why
        if not found <= {rule} | also:
            extra.append((seed, found))
    assert not missed, f"{rule} missed on machines {missed}"
    assert not extra, f"beside {rule}: {extra}"


def test_above_link_is_always_invalid() -> None:
    for seed in MACHINES:
        draw = random.Random(seed)
        clean = SimulatedMachine.random(seed)
        machine = replace(clean, host_cache_bytes_s=clean.link_bytes_s * draw.uniform(1.1, 4))
        run = explain(make_run(machine, experiment(machine, "bs", [_at(rw="read", bs=1 << 20, iodepth=8)], repeats=2)))
        finding = the(run, "physical_ceiling")
        assert list_rules(run.findings, "warning", "invalid") <= {"physical_ceiling", "interval_not_reached"}
        assert run.experiments[0].points[0].validity == "invalid"
        assert finding.evidence["ratio"] == pytest.approx(machine.host_cache_bytes_s / clean.link_bytes_s, rel=0.06)
        assert "hypervisor" in finding.says and "--size 64G" in finding.advice


def _broken(rule: str, draw: random.Random, point: Measurement) -> Measurement:
    """A row as someone might have copied it wrongly."""
    assert point.latency_ns is not None and point.rate is not None and point.concurrency is not None
    factor = draw.uniform(1.06, 2.0)
    if rule == "little":
        return replace(
            point,
            latency_ns=replace(point.latency_ns, mean=point.latency_ns.mean * factor),
            concurrency=replace(point.concurrency, effective=None),
        )
    return replace(
        point, throughput=Value(point.throughput.value * draw.choice([factor, 1 / factor, 1000 / 1024]), "bytes/s")
    )


@pytest.mark.parametrize("rule", ["little", "rate_times_size"])
def test_contradicting_numbers_are_named(rule: str) -> None:
    for seed in MACHINES:
        machine = SimulatedMachine.random(seed)
        point = measured(SimulatedHost(machine), _at(iodepth=16), repeats=2)
        result = experiment(machine, "iodepth", [])
        result = replace(result, points=(_broken(rule, random.Random(seed), point),), ceilings=())
        run = explain(make_run(machine, result))
        assert list_rules(run.findings, "warning", "invalid") - {"interval_not_reached"} == {rule}, seed


def test_above_a_makers_figure_is_worth_a_word_and_no_more() -> None:
    for seed in MACHINES:
        machine = SimulatedMachine.random(seed)
        point = measured(SimulatedHost(machine), _at(rw="read", bs=1 << 20, iodepth=8))
        share = random.Random(seed).choice([0.5, 0.8, 0.93, 1.1, 1.5])
        rated = Ceiling("read_bytes_s", "rated", point.throughput.value * share, "bytes/s", "given", "the maker")
        result = replace(experiment(machine, "bs", []), points=(point,), ceilings=(rated,))
        run = explain(make_run(machine, result))
        assert run.experiments[0].points[0].validity == "valid"
        assert ("rated_exceeded" in list_rules(run.findings)) == (share < 1)
        if share == 0.5:
            assert "Suspect a cache" in the(run, "rated_exceeded").advice


@pytest.mark.parametrize("rule", ["interval_not_reached"])
def test_an_interval_is_missed_when_it_is_wider_than_the_profile_aims_at(rule: str) -> None:
    notices = 0
    for seed in MACHINES:
        machine = SimulatedMachine.random(seed, noise=random.Random(seed).choice([0.002, 0.1, 0.2]))
        run = explain(make_run(machine, experiment(machine, "iodepth", [_at(iodepth=4)])))
        value = run.experiments[0].points[0].throughput
        assert value.low is not None and value.high is not None
        half = (value.high - value.low) / 2 / value.value
        assert (rule in list_rules(run.findings)) == (half > 0.10)
        # Ten repeats of a scatter of 14% are within 10%: 0.1 x sqrt(10) / 2.262.
        repeats = run.experiments[0].points[0].repeat_values
        scatter = half * math.sqrt(len(repeats)) / t_quantile(len(repeats) - 1)
        assert (rule in list_rules(run.findings, "warning")) == (half > 0.20 and scatter > 0.1398)
        notices += half > 0.10
        assert list_rules(run.findings, "warning", "invalid") <= {rule, "repeats_disagree"}, f"machine {seed}"
    assert notices > 0.4 * len(MACHINES)


def test_clock_matters_where_cpu_works() -> None:
    for seed in MACHINES:
        drop = random.Random(seed).uniform(0.05, 0.5)
        machine = SimulatedMachine.random(seed, clock_drop=drop, client_bound=True)
        run = explain(make_run(machine, experiment(machine, "iodepth", [_at(iodepth=16)], repeats=2)))
        assert the(run, "clock_dropped").evidence["drop"] == pytest.approx(drop)
        idle = SimulatedMachine.random(seed, clock_drop=drop, cpu_s_per_operation=1e-8)
        quiet = explain(make_run(idle, experiment(idle, "iodepth", [_at(iodepth=16)], repeats=2)))
        assert not list_rules(quiet.findings, "warning", "invalid") - {"interval_not_reached"}


# --- one of a kind


def test_a_link_below_its_best_is_named_and_no_other() -> None:
    for seed in MACHINES:
        draw, machine = random.Random(seed), SimulatedMachine.random(seed)
        run = make_run(machine)
        disk = run.machine.storage.disk
        link = disk.link or Link()
        best, width = draw.choice([3, 4, 5]), draw.choice([2, 4])
        now, lanes = draw.choice([best, best - 1]), draw.choice([width, width // 2])
        pcie = link.type == "pcie"
        if pcie:
            link = replace(link, generation=now, generation_max=best, lanes=lanes, lanes_max=width)
            storage = replace(run.machine.storage, disks=(replace(disk, link=link),))
            run = replace(run, machines=(replace(run.machine, storage=storage),))
            bare = replace(storage, disks=(replace(disk, link=replace(link, generation_max=None)),))
            unknown = replace(run, machines=(replace(run.machine, storage=bare),))
        if not pcie or (now, lanes) == (best, width):
            assert "link_below_its_best" not in list_rules(explain(run).findings), f"machine {seed}"
            continue
        finding = the(explain(run), "link_below_its_best")
        assert f"PCIe {now}.0 x{lanes}" in finding.says and f"PCIe {best}.0 x{width}" in finding.says
        assert f"about {2.0 ** (now - best) * lanes / width:.0%} of" in finding.says
        assert "link_below_its_best" not in list_rules(explain(unknown).findings), "unknown is not below"


def test_a_repeat_far_off_is_named_and_leaves_the_laws_alone() -> None:
    for seed in MACHINES:
        draw, machine = random.Random(seed), SimulatedMachine.random(seed)
        share, repeats = draw.choice([0.01, 0.1, 0.5]), draw.choice([5, 6, 9])
        parameters = _at(rw=draw.choice(["randread", "randwrite"]), iodepth=draw.choice([1, 8]))
        point = measured(SimulatedHost(machine), parameters, repeats=repeats, stalled={draw.randrange(repeats): share})
        result = experiment(machine, "iodepth", [])
        run = explain(make_run(machine, replace(result, points=(point,))))
        found = the(run, "outlying_repeats")
        assert f"One of {repeats} repeats was " in found.says and "the median is reported" in found.says
        assert list_rules(run.findings) <= {"outlying_repeats", "interval_not_reached", "spinning_or_solid"}, seed
        truth = machine.operations_per_s(str(parameters["rw"]), 100, 4096, float(parameters["iodepth"] or 1)) * 4096
        assert point.throughput.value == pytest.approx(truth, rel=0.05)
        quiet = measured(SimulatedHost(machine), parameters, repeats=repeats)
        silent = explain(make_run(machine, replace(result, points=(quiet,))))
        assert "outlying_repeats" not in list_rules(silent.findings), seed


def test_operations_that_straddle_the_ends_are_no_breach_of_littles_law() -> None:
    machine = SimulatedMachine()
    point = experiment(machine, "iodepth", [_at(iodepth=8)]).points[0]
    assert point.latency_ns is not None and point.concurrency is not None
    stalled = replace(
        point,
        latency_ns=replace(point.latency_ns, max=0.3e9),
        concurrency=replace(point.concurrency, effective=8.8),
    )
    for concurrency, rule in ((8.8, "little"), (7.0, "depth_not_reached")):
        counted = replace(point, concurrency=replace(point.concurrency, effective=concurrency))
        straddles = replace(stalled, concurrency=replace(point.concurrency, effective=concurrency))
        result = experiment(machine, "iodepth", [])
        assert rule in list_rules(explain(make_run(machine, replace(result, points=(counted,)))).findings)
        assert rule not in list_rules(explain(make_run(machine, replace(result, points=(straddles,)))).findings)


def test_what_others_read_does_not_hide_the_page_cache() -> None:
    machine = SimulatedMachine(cache_share=0.7)
    result = experiment(machine, "iodepth", [_at(iodepth=8)])
    busy = replace(result.points[0], counters={**result.points[0].counters, "device_read_bytes": 1e12})
    finding = the(explain(make_run(machine, replace(result, points=(busy,)))), "page_cache")
    assert finding.evidence["cached_share"] == pytest.approx(0.7, abs=0.01)
    silent = replace(result.points[0], counters={"process_read_bytes": 0.0})
    assert "page_cache" not in list_rules(explain(make_run(machine, replace(result, points=(silent,)))).findings)


def test_repeats_too_short_to_have_a_course_are_not_called_unsteady() -> None:
    machine = SimulatedMachine(throttle_at=0.5)
    fixed = {**FIXED, "runtime": 0.3, "interval_s": 0.1}
    run = explain(make_run(machine, experiment(machine, "iodepth", [_at(iodepth=8)], fixed, repeats=6)))
    assert not list_rules(run.findings) & {"throttled", "not_steady"}


def test_scattered_hiccups_are_no_throttling() -> None:
    short = {**FIXED, "runtime": 0.4, "interval_s": 0.02}
    wrong = []
    for seed in MACHINES:
        draw = random.Random(seed)
        machine = SimulatedMachine.random(seed, hiccups=draw.choice([0.02, 0.1]))
        run = explain(
            make_run(machine, experiment(machine, "iodepth", TWO_POINTS, short, repeats=draw.choice([1, 3, 5])))
        )
        known = {"interval_not_reached", "repeats_disagree", "stalls"}
        wrong += [finding.says for finding in run.findings if finding.severity != "info" and finding.rule not in known]
    assert not wrong


def test_the_load_of_ones_last_command_is_no_fault() -> None:
    """The load average still counts what has ended; CPU time of others up to a tenth is what any system has."""
    for planted in ({"load_before": 64.0}, {"others_before": 0.099}):
        machine = SimulatedMachine(**planted)
        assert not list_rules(explain(make_run(machine, experiment(machine, "iodepth", [_at()]))).findings, "warning")


def test_a_kernel_at_work_for_our_own_io_is_nobody_else() -> None:
    machine = SimulatedMachine(others_cpu=0.5)
    result = experiment(machine, "iodepth", [_at(iodepth=8)])
    point = result.points[0]
    mine = replace(point, conditions={**point.conditions, "cpu_user": 0.03})
    run = explain(make_run(machine, replace(result, points=(mine,))))
    assert not list_rules(run.findings, "warning", "invalid")


OPTIONAL = {
    "rate": None,
    "latency_ns": None,
    "streams": (),
    "samples": None,
    "concurrency": None,
    "cpu_user_s": None,
    "elapsed_s": 0.0,
    "operations": 0,
    "bytes": 0,
    "counters": {},
    "conditions": {},
    "details": {},
    "parameters": {},
    "throughput": Value(0.0, "bytes/s"),
}


@pytest.mark.parametrize("missing", [*OPTIONAL, "all"])
def test_a_figure_that_is_missing_silences_its_rules_and_breaks_nothing(missing: str) -> None:
    assert set(OPTIONAL) <= {field.name for field in fields(Measurement)}
    machine = SimulatedMachine.random(1, cache_share=0.5)
    full = experiment(machine, "iodepth", [_at(iodepth=n) for n in (1, 4, 16, 64)])
    gone: dict[str, Any] = OPTIONAL if missing == "all" else {missing: OPTIONAL[missing]}
    points = tuple(replace(point, **gone) for point in full.points)
    for machines in ((machine.survey(),), ()):
        bare = replace(make_run(machine, replace(full, points=points)), machines=machines)
        for imported in ("", "fio-json"):
            run = explain(replace(bare, imported_from=imported))
            for result in run.experiments:
                for at, point in enumerate(result.points):
                    limit = find_limit(Case(run, result, at))
                    assert limit.says.endswith(".")
                    why = why_not_double(point, run=run, experiment=result)
                    assert why in {"", limit.says} and (not why or limit.kind != "not identified")
            assert all(finding.says.endswith(".") and finding.advice for finding in run.findings)
            if missing == "all":
                assert not list_rules(run.findings, "warning", "invalid")


def test_an_empty_run_is_explained() -> None:
    run = Run("x", "", None, (), "", "", (made_experiment("a", "storage", "?", "iodepth", "k", ()),))
    assert explain(run).findings == ()


@pytest.mark.parametrize("through", ["stdio", "mmap"])
def test_direct_reads_are_advised_of_an_engine_that_has_them(through: str) -> None:
    """stdio and mmap always go through the page cache, and refuse --direct 1."""
    machine = SimulatedMachine(cache_share=0.7)
    result = experiment(machine, "iodepth", [_at(iodepth=1)])
    result = replace(result, fixed={**result.fixed, "ioengine": through, "direct": False})
    advice = the(explain(make_run(machine, result)), "page_cache").advice
    assert "--direct 1" in advice and "--ioengine psync" in advice and through not in advice
