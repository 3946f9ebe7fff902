"""Every command that a finding advises is taken as it is pasted, and measures the very point that it speaks of."""

from __future__ import annotations

import importlib
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hwdyno import experiments
from hwdyno.cli import resource
from hwdyno.cli.main import parser_of
from hwdyno.experiments import Experiment
from hwdyno.findings import explain
from hwdyno.findings.rule import Case
from hwdyno.hosts.local import Local
from hwdyno.machine import Cpu, Machine
from hwdyno.plan import Plan, Planned, build
from hwdyno.runner.declared import kept_declaration
from hwdyno.statistics import interval
from hwdyno.words import ExperimentResult, Fault, Latency, Measurement, Note, Parameters, Run, Samples
from simulated_runs import experiment, run_of
from simulation.host import SimulatedMachine

HOST = Local()
KERNELS = HOST.kernels()
COMMAND = re.compile(r"hwdyno (\w+(?: \w+)?)((?: --[\w-]+(?: [^-\s;`]\S*)?)+)")
OF_RESULTS = {"report", "compare", "audit", "machine"}


def plan_of(line: str, path: Path) -> Plan | None:
    """The plan that a command makes; none for training, whose data set settles it."""
    words = shlex.split(line)
    module = importlib.import_module(f"hwdyno.cli.{words[1]}")
    args = parser_of(words[1]).read([*words[2:], "--path", str(path)])
    if words[1] == "training":
        return None
    kernels = getattr(module, "KERNELS", None) or module.KERNEL
    return resource.plan_of(words[1], kernels, args, Local())


def taken(line: str, path: Path) -> Plan | None:
    try:
        return plan_of(line, path)
    except (SystemExit, Exception) as error:
        pytest.fail(f"{line}: {error!r}")


def planned(one: Experiment, profile: str) -> Planned:
    (found,) = build([(one, {})], HOST, profile=profile).experiments
    return found


def result_of(found: Planned, points: tuple[Measurement, ...], given: frozenset[str] = frozenset()) -> ExperimentResult:
    """An experiment's result as the runner leaves it: every default that all points share is in ``fixed``."""
    defaults = {axis.name: axis.default for axis in KERNELS[found.experiment.kernel].axes}
    swept = {name for point in found.points for name in point}
    shared = {n: v for n, v in {**defaults, **found.fixed}.items() if n not in swept and not isinstance(v, list)}
    if "main_memory" in found.experiment.needs and "working_set" not in swept | set(found.fixed):
        shared["working_set"] = 512 << 20
    if "model" in shared:
        shared["model"] = "llama3-8b"
    one, declaration = found.experiment, kept_declaration(found, given, shared)
    return ExperimentResult(
        one.name, one.resource, one.asks, found.load, one.kernel, points, one.metric, fixed=shared,
        declaration=declaration,
    )  # fmt: skip


def bare(parameters: Parameters, value: float = 1e9, unit: str = "bytes/s", **more: Any) -> Measurement:
    made = Measurement(
        parameters=parameters, throughput=interval([value] * 3, unit), rate=None, latency_ns=None, streams=(),
        samples=None, concurrency=None, cpu_user_s=0.1, cpu_system_s=0.1, elapsed_s=3.0, operations=1000, bytes=0,
        repeats=3,
    )  # fmt: skip
    return replace(made, **more)


@pytest.mark.parametrize("one", experiments.all(), ids=lambda one: one.name)
def test_a_point_is_repeated_by_its_own_kernel_and_parameters(one: Experiment, tmp_path: Path) -> None:
    for profile in ("quick", "standard"):
        found = planned(one, profile)
        result = result_of(found, tuple(bare(point) for point in found.points))
        run = Run("r", "", None, (), "quick", "hwdyno run", (result,))
        step = max(1, len(found.points) // 40)
        for at in range(0, len(found.points), step):
            line = Case(run, result, at).command()
            plan = taken(line, tmp_path)
            if plan is None:
                continue
            (again,) = plan.experiments
            assert again.experiment.kernel == one.kernel, line
            (point,) = again.points
            whole = {**again.fixed, **point}
            for name, value in found.points[at].items():
                assert whole.get(name) == value, f"{line}: {name} is {whole.get(name)}, not {value}"


def test_a_sweep_of_ones_own_is_repeated_with_what_was_fixed(tmp_path: Path) -> None:
    """What was given once for all points is no default, so a command that leaves it out measures something else."""
    for given in (
        "hwdyno memory --working-set 1M,4M --pages 4k --locality random --stride 4096",
        "hwdyno memory --block 256 --pattern random --delay 0,100 --threads 1 --working-set 64M",
        "hwdyno storage --rw randrw:70 --numjobs 1,2 --bs 16k --ioengine psync --direct 0",
        "hwdyno compute --n 500,1000 --operation gemm --threads 1",
        "hwdyno network --message 1024 --in-flight 1,2 --congestion reno --exchange echo",
    ):
        plan = taken(given, tmp_path)
        assert plan is not None
        (found,) = plan.experiments
        result = result_of(found, tuple(bare(point) for point in found.points), plan.given)
        line = Case(Run("r", "", None, (), "quick", given, (result,)), result, 1).command()
        again = taken(line, tmp_path)
        assert again is not None
        before = {**found.fixed, **found.points[1]}
        after = {**again.experiments[0].fixed, **again.experiments[0].points[0]}
        assert again.experiments[0].experiment.kernel == found.experiment.kernel, line
        unlike = {n: (v, after.get(n)) for n, v in before.items() if after.get(n) != v and n not in {"size"}}
        assert not unlike, f"{line}: {unlike}"


def troubled(found: Planned) -> ExperimentResult:
    """Points that break what they can: rules that speak of any resource all have something to say."""
    unit = "operations/s" if found.experiment.metric == "latency" else "bytes/s"
    points = []
    for at, parameters in enumerate(found.points[:6]):
        course = (1e9,) * 12 + (3e8,) * 12 if at % 2 else tuple(1e9 * (1 + 0.1 * step) for step in range(24))
        points.append(
            bare(
                parameters,
                1e9 / (at + 1),
                unit,
                rate=interval([1e6, 1.1e6, 0.2e6], "operations/s"),
                latency_ns=Latency(1e6, 1e6, 2e6, 3e6, None, 1e5, 9e6, 1000),
                samples=Samples(1e8, 1e9, 2e9, 0.1, 0.5, course),
                repeats=1,
                cpu_user_s=2.9,
                throughput=interval([1e9, 1.4e9, 0.5e9], unit),
                repeat_values=(1e9, 1.4e9, 5e8, 1.1e9, 9e9),
                faults=(Fault("read", 5, "it failed", 3),),
                notes=(Note("direct_refused", "O_DIRECT was refused"),),
                conditions={"steal": 0.2, "clock_hz_before": 3e9, "clock_hz": 2e9, "swap_in_bytes": 1e9},
            )
        )
    return result_of(found, tuple(points))


@pytest.mark.parametrize("one", experiments.all(), ids=lambda one: one.name)
def test_every_advised_command_is_taken_as_it_is_pasted(one: Experiment, tmp_path: Path) -> None:
    run = Run("r", "", None, (Machine(cpu=Cpu(threads=2)),), "quick", "hwdyno run", (troubled(planned(one, "quick")),))
    count = 0
    for found in explain(run).findings:
        for match in COMMAND.finditer(found.advice):
            line = match[0]
            if match[1].split()[0] in OF_RESULTS | {"run"}:
                continue
            taken(line, tmp_path)
            count += 1
        if one.resource not in {"storage", "training"}:  # What training waits for is a storage, too.
            for words in ("IOPS", "drive", "smartctl", "filesystem", "numjobs"):
                text = f"{found.says} {found.advice}"
                assert words not in text or found.rule == "direct_refused", f"{found.rule}: {text}"
    assert count >= 2


AXES: dict[str, list[Parameters]] = {
    "iodepth": [{"rw": "randread", "bs": 4096, "iodepth": 2**n, "numjobs": 1} for n in range(9)],
    "bs": [{"rw": rw, "bs": 4096 << n, "iodepth": 8, "numjobs": 1} for rw in ("read", "randwrite") for n in range(6)],
    "numjobs": [
        {"rw": "randrw", "rwmixread": 70, "bs": 4096, "iodepth": 8, "numjobs": 2**n, "direct": True} for n in range(4)
    ],
}
RUNS = [(axis, seed, noise) for axis in AXES for seed in range(4) for noise in (0.005, 0.4)]


def test_every_command_advised_of_simulated_disks_is_taken(tmp_path: Path) -> None:
    count = 0
    for axis, seed, noise in RUNS:
        machine = SimulatedMachine.random(seed, noise=noise)
        run = explain(run_of(machine, experiment(machine, axis, AXES[axis], repeats=3)))
        for found in run.findings:
            for match in COMMAND.finditer(found.advice):
                if match[1] == "storage":
                    taken(match[0], tmp_path)
                    count += 1
    assert count > 20
