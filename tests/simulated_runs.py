"""Runs measured on simulated machines, for the tests of curves and findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from here import sample
from hwdyno.analysis.resources import list_ceilings
from hwdyno.measure.measurement import make_measurement
from hwdyno.model.words import ExperimentResult, Finding, Measurement, Parameters, Run
from made_experiment import made_experiment
from simulation.host import SimulatedHost, SimulatedMachine

MACHINES = range(20_000, 20_000 + sample(16, 200))
"""Random machines on which no rule or tolerance was tuned."""
FIXED: Parameters = {"direct": True, "ioengine": "io_uring", "size": 1 << 30, "runtime": 1.0, "interval_s": 0.05}
TWO_POINTS: tuple[Parameters, ...] = (
    {"rw": "randread", "bs": 4096, "iodepth": 16, "numjobs": 1},
    {"rw": "randread", "bs": 65536, "iodepth": 4, "numjobs": 2},
)


def at(**changes: Any) -> Parameters:
    """A point: a single random 4 KiB read, with changes."""
    return {"rw": "randread", "bs": 4096, "iodepth": 1, "numjobs": 1, **changes}


def measured(
    host: SimulatedHost,
    parameters: Parameters,
    fixed: Parameters | None = None,
    repeats: int = 3,
    stalled: Mapping[int, float] | None = None,
) -> Measurement:
    """One point, measured as by the runner; a repeat in ``stalled`` reaches only that share of its throughput."""
    given: dict[str, Any] = {**(FIXED if fixed is None else fixed), **parameters}
    word, _, mix = str(given.get("rw", "randread")).partition(":")
    given.update({"rw": word, **({"rwmixread": int(mix)} if mix else {})})
    readings, snapshots = [], []
    steady = host.machine
    for repeat in range(repeats):
        before = host.snapshot()
        share = (stalled or {}).get(repeat)
        host.machine = steady if share is None else replace(steady, drift=0.0, throttle_at=0.0, throttle_to=share)
        readings.append(host.run("storage_blocks", given))
        host.machine = steady
        snapshots.append((before, host.snapshot()))
    return make_measurement(parameters, readings, host.kernels()["storage_blocks"], snapshots)


def experiment(
    machine: SimulatedMachine,
    load: str,
    points: Iterable[Parameters],
    fixed: Parameters | None = None,
    *,
    name: str = "",
    repeats: int = 3,
) -> ExperimentResult:
    """One experiment on a new host of the machine, with the ceilings of its link."""
    host, every = SimulatedHost(machine), tuple(points)
    return made_experiment(
        name=name or f"storage.{load}",
        resource="storage",
        asks="?",
        load=load,
        kernel="storage_blocks",
        points=tuple(measured(host, parameters, fixed, repeats) for parameters in every),
        ceilings=list_ceilings(machine.survey(), "storage"),
        planned=len(every),
        fixed=FIXED if fixed is None else fixed,
    )


def make_run(machine: SimulatedMachine, *experiments: ExperimentResult) -> Run:
    """A Run of the experiments, without findings."""
    return Run(
        id="simulated",
        started="2026-01-01T00:00:00+00:00",
        finished="2026-01-01T00:01:00+00:00",
        machines=(machine.survey(),),
        profile="quick",
        command="hwdyno run",
        experiments=experiments,
    )


def list_rules(findings: tuple[Finding, ...], *severities: str) -> set[str]:
    """The rules that have a finding, of the given severities or any."""
    return {finding.rule for finding in findings if finding.severity in (severities or ("info", "warning", "invalid"))}


def the(run: Run, rule: str) -> Finding:
    """A rule's only finding."""
    found = [finding for finding in run.findings if finding.rule == rule]
    assert len(found) == 1, f"{rule}: {[finding.says for finding in found]} among {list_rules(run.findings)}"
    return found[0]
