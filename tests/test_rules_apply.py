"""A rule is called for what it applies to and for nothing else, and what it is not called for it would not find."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import test_findings
import test_network_findings as paths
import test_simulated_core as cores
import test_training_findings as training
from hwdyno import engine, findings, resources, workloads
from hwdyno.findings import RULES, explain
from hwdyno.findings.applies import Applies, Rule
from hwdyno.findings.rule import Case
from hwdyno.words import ExperimentResult, Run
from simulated_runs import FIXED, at, experiment, run_of
from simulation.core import Core
from simulation.host import SimulatedMachine

SEEDS = range(30_000, 30_006)
GENERAL = {
    # Laws that hold for whatever was measured.
    *("physical_ceiling", "rated_exceeded", "little", "wrong_result", "faults", "outlying_repeats"),
    # Caches and queues stand before many kinds of measurement; what shows them is one of several counters.
    *("page_cache", "unwritten_file", "best_combination", "mix_penalty"),
    # Conditions of the machine, by one of several counters.
    *("others_at_work", "swapping"),
}
"""Rules that no resource, kernel or single figure limits."""


def test_a_family_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = """
from hwdyno.findings.applies import Applies, Rule

RULES = (Rule("made_rule", "point", lambda case: None, Applies(kernels=("made",))),)
"""
    (tmp_path / "a_made_family.py").write_text(made)
    monkeypatch.setattr(findings, "__path__", [*findings.__path__, str(tmp_path)])
    with_it = findings.declared_rules()
    assert [rule.name for rule in with_it] == [*(rule.name for rule in RULES), "made_rule"]


def storage_run(seed: int = 1) -> Run:
    machine = SimulatedMachine.random(seed)
    return run_of(machine, experiment(machine, "iodepth", [at(iodepth=2**k) for k in range(0, 11, 2)]))


def runs() -> Iterator[Run]:
    """Storage, paths, cores and training with everything that their tests plant."""
    for seed in SEEDS:
        for plant, over, _ in test_findings.PLANTED.values():
            machine = SimulatedMachine.random(seed, **plant(random.Random(seed)))
            fixed = {**FIXED, **over}
            yield run_of(machine, experiment(machine, "iodepth", test_findings.TWO_POINTS, fixed, repeats=2))
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
        yield run_of(machine, *results)
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

    monkeypatch.setattr(findings, "RULES", tuple(map(counted, RULES)))
    explain(storage_run())
    assert calls["queue"] and calls["laws"] and calls["truth"]
    others = {"training", "training_data", "training_capacity", "training_peer", "training_loaders", "kv_cache"}
    others |= {"vector_search", "network", "network_path", "memory", "tlb", "compute", "peers", "snia"}
    assert not others & set(calls), calls


def test_what_a_rule_needs_loses_no_finding(explained: list[Run]) -> None:
    for run in explained:
        for rule in RULES:
            if not rule.applies.needs:
                continue
            wider = replace(rule.applies, needs=())
            for case in cases(run, rule.scope):
                if wider.to(case) and not rule.applies.to(case):
                    found = rule.check(case)
                    # A rule that counts faults relies on there being one.
                    assert not found or "faults" in rule.applies.needs, rule.name


def test_every_rule_is_limited_to_what_it_speaks_about_unless_it_is_a_law(explained: list[Run]) -> None:
    unlimited = {rule.name for rule in RULES if rule.applies == Applies()}
    assert unlimited <= GENERAL, "say what they apply to, or why they apply to everything"
    assert GENERAL - {"wrong_result", "faults"} <= unlimited, "these are limited now: leave them out here"
    fired = {(finding.rule, finding.resource) for run in explained for finding in run.findings}
    for rule in RULES:
        if rule.applies.resources:
            spoke = {resource for name, resource in fired if name == rule.name}
            assert spoke <= set(rule.applies.resources) | {""}
            assert not spoke or set(rule.applies.resources) == spoke, f"{rule.name} speaks of fewer resources"


def test_what_rules_name_is_there() -> None:
    kernels = {*engine.kernels(), *workloads.all()}
    names = {rule.name for rule in RULES}
    assert len(names) == len(RULES)
    for rule in RULES:
        assert {*rule.applies.kernels, *rule.applies.not_kernels} <= kernels, rule.name
        assert {*rule.applies.resources, *filter(None, [rule.about])} <= set(resources.all_resources()), rule.name
        assert {*rule.instead_of, *rule.unless} <= names, rule.name
        for need in rule.applies.needs:
            kind, _, rest = need.partition(".")
            assert kind in {"latency", "samples", "faults", "hosts", "peers", "notes", "parameters", "counters",
                            "conditions", "details"}, need  # fmt: skip
            assert rest or kind in {"latency", "samples", "faults", "hosts", "peers"}, need


def test_a_rule_that_stands_in_for_another_is_called_alone() -> None:
    broken = training.point(1, 0.95)
    fault = test_findings.the(explain(faulty_storage()), "faults")
    assert fault.resource == "storage"
    result = ExperimentResult(
        "training.unet3d", "training", "?", "accelerators", "training_loader",
        (replace(broken, faults=faulty_storage().experiments[0].points[0].faults),), fixed=training.FIXED,
    )  # fmt: skip
    found = {one.rule for one in explain(replace(storage_run(), experiments=(result,))).findings}
    assert "training_faults" in found and "faults" not in found


def faulty_storage() -> Run:
    machine = replace(SimulatedMachine.random(3), short_transfers=9)
    return run_of(machine, experiment(machine, "iodepth", [at(iodepth=16)]))
