"""A rule is called for what it applies to and for nothing else, and what it is not called for it would not find."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_training as training
import pytest
import test_findings
import test_network_findings as paths
import test_simulated_core as cores
from here import sample
from hwdyno.analysis import resources
from hwdyno.explain import findings
from hwdyno.explain.findings import all_rules, explain, explanation
from hwdyno.explain.findings.applies import ROUND, Applies, Rule
from hwdyno.explain.findings.rule import Case
from hwdyno.measure import engine, workloads
from hwdyno.model.axes import BACKGROUND, with_field_axes
from hwdyno.model.point_details import Concurrency, Fault, Note, Samples
from hwdyno.model.words import Ceiling, ExperimentResult, HostShare, Run, Stream, Value
from made_point import base, case_of_base, make_case
from simulated_runs import FIXED, TWO_POINTS, at, experiment, make_run
from simulation.core import Core
from simulation.host import SimulatedMachine

SEEDS = range(30_000, 30_000 + sample(1, 6))
GENERAL = {
    # Laws that hold for every measurement.
    *("physical_ceiling", "rated_exceeded", "little", "wrong_result", "faults", "outlying_repeats"),
    # Any two axes of a load may be swept.
    "best_combination",
    # A condition of the machine, by one of several counters.
    "swapping",
}
"""Rules that no resource, kernel or single figure limits."""


def test_a_family_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = """
from hwdyno.explain.findings.applies import Applies, Rule

RULES = (Rule("made_rule", "point", lambda case: None, Applies(kernels=("made",))),)
"""
    (tmp_path / "a_made_family.py").write_text(made)
    before = all_rules()
    monkeypatch.setattr(findings, "__path__", [*findings.__path__, str(tmp_path)])
    with_it = all_rules.__wrapped__()
    assert [rule.name for rule in with_it] == [*(rule.name for rule in before), "made_rule"]


def test_each_rule_is_named_by_a_test_that_plants_it() -> None:
    """``python -m disabled_rules`` shows that such a test fails without it; the lesson of each is a test's, too."""
    others = [path for path in Path(__file__).parents[1].rglob("test_*.py") if path != Path(__file__)]
    words = set(re.findall(r"\w+", " ".join(path.read_text() for path in others)))
    assert {rule.name for rule in all_rules()} - words == set()


@pytest.mark.parametrize(("load", "limits", "applies"), [
    ("iodepth", {}, True), (ROUND, {}, False), (BACKGROUND.name, {}, False),
    (ROUND, {"rounds": True}, True), ("iodepth", {"rounds": True}, False),
    (BACKGROUND.name, {"under_load": True}, True), ("iodepth", {"under_load": True}, False),
    ("iodepth", {"not_named": "memory."}, True), ("iodepth", {"not_named": "storage."}, False),
    (ROUND, {"rounds": True, "not_named": "storage."}, False),
    ("iodepth", {"loads": ("bs", "iodepth")}, True), ("iodepth", {"loads": ("bs",)}, False),
    ("iodepth", {"needs": ("parameters.shared", "parameters.own")}, True),
    ("iodepth", {"needs": ("parameters.none",)}, False), ("iodepth", {"needs": ("run_to_run",)}, False),
])  # fmt: skip
def test_rule_applies_within_its_limits(load: str, limits: dict[str, Any], applies: bool) -> None:
    made = ExperimentResult("storage.x", "storage", "?", load, "", (base(parameters={"own": 1}),), fixed={"shared": 1})
    assert Applies(**limits).to(make_case(with_field_axes(made))) == applies


def test_rule_needs_its_points_figures() -> None:
    """An experiment has what one of its points has; a rule on the machine needs no experiment."""
    case = make_case(replace(case_of_base().result, points=(base(samples=None), base())))
    assert [Applies(needs=("samples",)).to(replace(case, at=at)) for at in (0, 1, -1)] == [False, True, True]
    run = replace(case.run, experiments=())
    assert Applies(machine=("cpu.threads",)).to_run(run) and not Applies(machine=("cpu.cores",)).to_run(run)
    assert not Applies(machine=("cpu.threads",), resources=("storage",)).to_run(run)


def storage_run(seed: int = 1) -> Run:
    machine = SimulatedMachine.random(seed)
    return make_run(machine, experiment(machine, "iodepth", [at(iodepth=2**k) for k in range(0, 11, 2)]))


def runs() -> Iterator[Run]:
    """Storage, paths, cores and training with everything that their tests plant."""
    for seed in SEEDS:
        for plant, over, _ in test_findings.PLANTED.values():
            machine = SimulatedMachine.random(seed, **plant(random.Random(seed)))
            fixed = {**FIXED, **over}
            yield make_run(machine, experiment(machine, "iodepth", TWO_POINTS, fixed, repeats=2))
        yield storage_run(seed)
        for path, points, kernel, _ in paths.planted(seed).values():
            yield paths.measured(path, points, kernel)
        core = Core.random(seed, write_allocate=True)
        machine = SimulatedMachine(seed=7, threads=core.threads, core=core)
        results = (
            cores.bandwidths(core),
            cores.measured(core, "memory_latency", "working_set", [*cores.CHASES, *cores.PAGED], locality="random"),
            cores.measured(core, "compute_flops", "threads", [*cores.ISAS, *cores.ON_ZEROS]),
        )
        yield make_run(machine, *results)
    points = (training.point(1, 0.95), training.point(2, 0.6, cached_share_by_device=0.4, dataset_bytes=1e9))
    result = ExperimentResult(
        "training.unet3d", "training", "?", "accelerators", "training_loader", points, fixed=training.FIXED
    )
    yield replace(storage_run(), experiments=(result, training.client(4e9, 4e9)))


@pytest.fixture(scope="module")
def explained() -> list[Run]:
    return [explain(run) for run in runs()]


def cases(run: Run, scope: str) -> Iterator[Case]:
    for result in run.experiments:
        if scope == "point":
            yield from (Case(run, result, at) for at in range(len(result.points)))
        elif scope == "curve":
            yield from (Case(run, result, curve=curve) for curve in result.curves)
        elif scope == "experiment":
            yield Case(run, result)


def test_a_storage_run_calls_no_rule_of_another_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()

    def counted(rule: Rule) -> Rule:
        def check(case: Case) -> object:
            calls[rule.check.__module__.rpartition(".")[2]] += 1
            return rule.check(case)

        return replace(rule, check=check)  # type: ignore[arg-type]

    rules = tuple(map(counted, all_rules()))
    monkeypatch.setattr(explanation, "all_rules", lambda: rules)
    explain(storage_run())
    assert calls["saturation"] and calls["laws"] and calls["truth"]
    others = {"training", "training_data", "training_capacity", "training_peer", "training_loaders", "kv_cache"}
    others |= {"vector_search", "network", "network_path", "memory", "tlb", "compute", "peers", "snia"}
    assert not others & set(calls), calls


def test_what_rule_needs_loses_no_finding(explained: list[Run]) -> None:
    for run in explained:
        for rule in all_rules():
            if not rule.applies.needs:
                continue
            wider = replace(rule.applies, needs=())
            for case in cases(run, rule.scope):
                if wider.to(case) and not rule.applies.to(case):
                    found = rule.check(case)
                    # A rule that counts faults relies on there being one.
                    assert not found or "faults" in rule.applies.needs, rule.name


def test_every_rule_has_narrow_limits(explained: list[Run]) -> None:
    unlimited = {rule.name for rule in all_rules() if rule.applies == Applies()}
    assert unlimited <= GENERAL, "say what they apply to, or why they apply to everything"
    assert GENERAL - {"wrong_result", "faults"} <= unlimited, "these are limited now: leave them out here"
    fired = {(finding.rule, finding.resource) for run in explained for finding in run.findings}
    for rule in all_rules():
        if rule.applies.resources:
            spoke = {resource for name, resource in fired if name == rule.name}
            assert spoke <= set(rule.applies.resources) | {""}


def test_what_rules_name_is_there() -> None:
    kernels = {*engine.kernels(), *workloads.all()}
    names = {rule.name for rule in all_rules()}
    assert len(names) == len(all_rules())
    for rule in all_rules():
        assert {*rule.applies.kernels, *rule.applies.not_kernels} <= kernels, rule.name
        assert {*rule.applies.resources, *filter(None, [rule.about])} <= set(resources.all_resources()), rule.name
        assert {*rule.instead_of, *rule.unless} <= names, rule.name
        for need in rule.applies.needs:
            kind, _, suffix = need.partition(".")
            assert kind in {"latency", "samples", "faults", "hosts", "peers", "notes", "parameters", "counters",
                            "conditions", "details", "run_to_run"}, need  # fmt: skip
            assert suffix or kind in {"latency", "samples", "faults", "hosts", "peers", "run_to_run"}, need


def test_a_rule_that_stands_in_for_another_is_called_alone() -> None:
    broken = training.point(1, 0.95)
    fault = test_findings.the(explain(faulty_storage()), "faults")
    assert fault.resource == "storage"
    result = ExperimentResult(
        "training.unet3d", "training", "?", "accelerators", "training_loader",
        (replace(broken, faults=faulty_storage().experiments[0].points[0].faults),), fixed=training.FIXED,
    )  # fmt: skip
    found = {finding.rule for finding in explain(replace(storage_run(), experiments=(result,))).findings}
    assert "training_faults" in found and "faults" not in found


def faulty_storage() -> Run:
    machine = replace(SimulatedMachine.random(3), short_transfers=9)
    return make_run(machine, experiment(machine, "iodepth", [at(iodepth=16)]))


SILENT = {
    ("best_combination", "compute"): "any two axes of load and size may be swept; the Runs here sweep one",
    ("best_combination", "memory"): "as of compute",
    ("best_combination", "network"): "as of compute",
    ("best_combination", "storage"): "as of compute; tests/explain/test_findings_curves.py sweeps two",
    ("best_combination", "training"): "as of compute",
    **{
        (rule, resource): "any curve of a queue or a block size may have this shape; tests/calibration plants it"
        for rule in ("rolls_over", "off_the_curve")
        for resource in ("memory", "network", "storage", "training")
    },
    **{
        (
            "repeats_disagree",
            resource,
        ): "no Run here has samples within repeats; test_calibration.py plants it"
        for resource in ("compute", "memory", "network", "storage")
    },
    **{
        ("stalls", resource): "nothing here stands still; tests/explain/test_power.py plants it"
        for resource in ("compute", "memory", "network", "storage")
    },
}
"""Why a rule may apply to a resource where nothing here triggers it."""
POINTS_EACH = 6
"""Points of each kernel that everything is planted in."""
GIVEN = ("physical", "rated")
"""The classes of ceiling that ``--ceiling`` can set for any resource."""


def planted(run: Run, result: ExperimentResult, at: int) -> Iterator[tuple[Run, ExperimentResult]]:
    """A point as its kernel gave it, and with everything wrong that a machine or a kernel may report."""
    point = result.points[at]
    value, unit = point.throughput.value, point.throughput.unit

    def made(over: ExperimentResult = result, **changes: Any) -> tuple[Run, ExperimentResult]:
        points = (*result.points[:at], replace(point, **changes), *result.points[at + 1 :])
        other = replace(over, points=points)
        return replace(
            run,
            experiments=tuple(
                other if measured_experiment is result else measured_experiment
                for measured_experiment in run.experiments
            ),
        ), other

    yield run, result
    calm = {"cpu_busy": 0.9, "cpu_user": 0.8, "steal": 0.0, "clock_hz": 1e9, "clock_hz_before": 3e9}
    yield made(conditions=calm, cpu_user_s=0.01 * point.elapsed_s, cpu_system_s=0.0)
    for busy in (1, 512):
        yield made(conditions=calm, cpu_user_s=busy * point.elapsed_s, cpu_system_s=0.0)
    bad = {"steal": 0.3, "cgroup_throttled": 0.5, "swap_in_bytes": 1e15, "swap_out_bytes": 0.0, "other_runs": 1.0}
    yield made(conditions=bad)
    yield made(faults=(Fault("read", 5, "I/O error", 9),))
    yield made(notes=(Note("direct_refused", "planted"),))
    yield made(throughput=replace(point.throughput, low=0.1 * value, high=3 * value))
    yield made(repeats=7, repeat_values=(*6 * (value,), 9 * value))
    for factor in (0.01, 100.0):
        yield made(concurrency=Concurrency(64.0, 64.0 * factor))
    for kind in GIVEN:
        for metric in ("read_bytes_s", "write_bytes_s", "bytes_s", "operations_s", "flop_s", "iop_s"):
            ceiling = Ceiling(metric, kind, 1e-3, unit, "given", "--ceiling", "")
            yield made(replace(result, ceilings=(ceiling,)))
    fall = [value * (1.0 if k < 10 else 0.5) * (1 + 0.001 * (k % 2)) for k in range(20)]
    yield made(samples=Samples(min(fall), value, max(fall), 0.1, 0.3, tuple(fall)), repeats=1)
    drift = [value * (1 + k / 20) for k in range(20)]
    yield made(samples=Samples(min(drift), value, max(drift), 0.1, 0.3, tuple(drift)), repeats=1)
    yield made(details={**point.details, "verification": "failed"})
    shares = (
        HostShare("a", Value(value, unit), 10, 10, 1.0, 0.0, point.repeats),
        HostShare("b", Value(value / 9, unit), 10, 10, 1.0, 0.9, 0, failure="it died"),
    )
    yield made(hosts=shares, why=("hosts_apart",))
    yield made(hosts=(shares[0], replace(shares[1], repeats=point.repeats, failure="")))
    if result.resource in ON_STORAGE:
        # Counters of a device and extents of a file are given by kernels that work on files.
        counters = {"device_read_bytes": 1.0, "device_write_bytes": 1.0, "process_read_bytes": 1.0}
        yield made(counters=counters, streams=(Stream("read", 9, 1 << 30),))
        yield made(details={**point.details, "extent_hole_bytes": 1e15, "extent_unwritten_bytes": 0.0})


ON_STORAGE = {"storage", "training"}
"""Resources whose kernels work on files."""


def test_a_rule_applies_to_no_resource_of_which_it_can_never_speak(explained: list[Run]) -> None:
    """Each rule on every kernel's points with everything planted: where it applies and is silent, it is too wide."""
    applies: set[tuple[str, str]] = set()
    spoke: set[tuple[str, str]] = set()
    seen: Counter[tuple[str, str]] = Counter()

    def called(rule: Rule, case: Case) -> None:
        key = (rule.name, case.result.resource)
        if key not in spoke and rule.applies.to(case):
            applies.add(key)
            if rule.check(case):
                spoke.add(key)

    for run in explained:
        for scope in ("curve", "experiment"):
            for case in cases(run, scope):
                for rule in all_rules():
                    if rule.scope == scope:
                        called(rule, case)
        for result in run.experiments:
            name = (result.kernel, result.resource)
            for index in range(min(len(result.points), POINTS_EACH - seen[name])):
                seen[name] += 1
                for other, changed in planted(run, result, index):
                    for rule in all_rules():
                        if rule.scope == "point":
                            called(rule, Case(other, changed, index))
    several = {rule for rule, _ in applies if len({of for name, of in applies if name == rule}) > 1}
    silent = {key for key in applies - spoke if key[0] in several}
    assert not sorted(silent - SILENT.keys()), "narrow what these apply to, or say in SILENT why they may"
    assert not sorted(SILENT.keys() - silent), "these speak now: leave them out of SILENT"
