"""Settings that slow a figure down are surveyed and named where a figure suffers, and nowhere else."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from here import missing
from hwdyno.explain.findings import explain
from hwdyno.measure import engine
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.measurement import make_measurement
from hwdyno.model.machine import Clocks, Container, Machine, Settings
from hwdyno.model.words import ExperimentResult, Measurement, Run
from made_experiment import made_experiment
from made_point import base
from made_point import make_run as point_run
from simulated_runs import FIXED, MACHINES, at, experiment, list_rules, make_run, the
from simulation.host import SimulatedMachine

RULES = {"pinned_library", "costly_setting"}
AVX512 = ("sse2", "avx", "avx2", "fma", "avx512f", "avx512dq")


def points(kernel: str, rate: float, details: dict[str, Any], cpu: float = 1.0, **given: Any) -> ExperimentResult:
    """One point of arithmetic, whose threads had this share of their CPU time."""
    threads = int(given.get("threads", 1))
    reading = {
        "elapsed_s": 1.0,
        "streams": [{"name": "lu", "operations": 100, "bytes": 0, "flops": int(rate)}],
        "cpu": {"user_s": cpu * threads, "system_s": 0.0},
        "details": details,
    }
    made: Measurement = make_measurement(given, [reading] * 3)
    return made_experiment(f"compute.{kernel}", "compute", "?", "threads", kernel, (made,))


def linpack(rate: float, kernels: str, cpu: float = 1.0, threads: int = 4) -> ExperimentResult:
    details = {"library": "openblas", "library_kernels": kernels, "verification": "passed"}
    return points("linpack", rate, details, cpu, operation="lu", n=4000, threads=threads)


def peak(rate: float, threads: int = 4, **details: Any) -> ExperimentResult:
    return points("compute_flops", rate, details, operation="fma", precision="double", isa="auto", threads=threads)


def judged(machine: Machine, *results: ExperimentResult) -> Run:
    return explain(replace(make_run(SimulatedMachine(), *results), machines=(machine,)))


def machine_with(isa: tuple[str, ...] = AVX512, **changes: Any) -> Machine:
    base = SimulatedMachine().survey()
    return replace(replace(base, cpu=replace(base.cpu, isa=isa)), **changes)


def environment(**variables: str) -> Settings:
    return Settings(environment=variables)


# --- the library's kernels


def test_a_library_pinned_to_older_kernels_is_named_with_the_variable() -> None:
    pinned = machine_with(settings=environment(OPENBLAS_CORETYPE="Haswell"))
    run = judged(pinned, linpack(180e9, "Haswell"), peak(470e9))
    finding = the(run, "pinned_library")
    assert finding.severity == "warning" and "OPENBLAS_CORETYPE=Haswell" in finding.says
    assert "AVX2" in finding.says and "AVX-512" in finding.says and "38% of the measured FMA peak" in finding.says
    assert finding.advice.startswith("Measure without it: env -u OPENBLAS_CORETYPE hwdyno compute")
    assert "--operation lu" in finding.advice


@pytest.mark.parametrize(
    ("isa", "kernels", "rate"),
    [
        (AVX512, "SkylakeX", 180e9),  # the processor's own
        (("sse2", "avx", "avx2", "fma"), "Haswell", 180e9),  # pinned, and right
        (AVX512, "Haswell", 0.81 * 470e9),  # the figure does not suffer
        (AVX512, "Unheardof", 180e9),  # no one knows what it uses
    ],
)
def test_a_library_that_suits_the_processor_or_costs_nothing_is_not(
    isa: tuple[str, ...], kernels: str, rate: float
) -> None:
    machine = machine_with(isa, settings=environment(OPENBLAS_CORETYPE=kernels))
    assert not list_rules(judged(machine, linpack(rate, kernels), peak(470e9)).findings) & RULES


def test_older_kernels_by_the_librarys_own_choice_are_worth_a_word() -> None:
    run = judged(machine_with(), linpack(180e9, "Haswell"), peak(470e9))
    finding = the(run, "pinned_library")
    assert finding.severity == "info" and "library openblas chose Haswell kernels" in finding.says


def test_library_reports_its_variable() -> None:
    """A real OpenBLAS tells what the environment made of it."""
    code = (
        "from hwdyno.measure.hosts.local import Local; from hwdyno.measure.workloads import find; "
        "print(find('linpack').run({'n': 64, 'runtime': 0.0})['details']['library_kernels'], "
        "Local().survey().settings.environment)"
    )
    variables = {**os.environ, "OPENBLAS_CORETYPE": "Nehalem"}
    printed = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert "'OPENBLAS_CORETYPE': 'Nehalem'" in printed.stdout
    if platform.machine() not in {"x86_64", "AMD64"}:
        missing("Nehalem is a kernel of x86")
    assert printed.stdout.startswith("Nehalem")


# --- the other settings: (what is set, the point that suffers, words of the sentence, the same point unharmed)


def storage(**planted: Any) -> ExperimentResult:
    machine = SimulatedMachine(threads=2, **planted)
    return replace(experiment(machine, "iodepth", [at(iodepth=8, numjobs=2)]), ceilings=())


def loads(pages_cost: float) -> ExperimentResult:
    given = {"working_set": 1 << 30, "locality": "random", "stride": 64}
    results = []
    for pages, ns in (("4k", 100 * pages_cost), ("2m", 100.0)):
        from hwdyno.formats.printed import point

        results.append(replace(point({**given, "pages": pages}, 1e9 / ns, "operations/s", ns), repeats=3))
    return made_experiment("memory.pages", "memory", "?", "working_set", "memory_latency", tuple(results))


def unregistered(refused: bool) -> ExperimentResult:
    result = storage()
    (point,) = result.points
    details = {**point.details, "io_uring_registered_buffers": not refused}
    return replace(result, points=(replace(point, details=details),))


def clocked(share: float) -> ExperimentResult:
    return peak(100e9, 1, clock_hz_during=share * 4e9, clock_hz_before=4e9)


def of_others(share: float) -> ExperimentResult:
    result = experiment(SimulatedMachine(threads=2, others_cpu=share), "iodepth", [at(iodepth=8)])
    return replace(result, ceilings=())


TWO = {"cpu": replace(machine_with().cpu, threads=2)}
PLANTED: dict[str, tuple[Machine, ExperimentResult, str, ExperimentResult]] = {
    "environment": (
        machine_with(settings=environment(OMP_NUM_THREADS="1")),
        linpack(100e9, "SkylakeX", cpu=0.25),
        "OMP_NUM_THREADS=1. 4 threads had 25% of the CPU time",
        linpack(400e9, "SkylakeX", cpu=0.98),
    ),
    "affinity": (
        machine_with(settings=environment(GOMP_CPU_AFFINITY="0")),
        linpack(100e9, "SkylakeX", cpu=0.25),
        "GOMP_CPU_AFFINITY=0",
        linpack(400e9, "SkylakeX", cpu=0.98),
    ),
    "cpuset": (
        machine_with(container=Container(cpuset=(0, 1))),
        linpack(100e9, "SkylakeX", threads=8),
        "may run on 2 of 8 processors (cpuset). 8 threads share them",
        linpack(100e9, "SkylakeX", threads=2),
    ),
    "governor": (
        machine_with(
            conditions=replace(machine_with().conditions, governor="powersave"),
            cpu=replace(machine_with().cpu, clock_hz=Clocks(max=4e9)),
        ),
        clocked(0.6),
        "governor is powersave. The clock reached 60% of its maximum",
        clocked(0.95),
    ),
    "nice": (machine_with(settings=Settings(nice=19), **TWO), of_others(0.5), "nice 19", of_others(0.0)),
    "smt": (
        machine_with(settings=Settings(smt="off"), **TWO),
        storage(client_bound=True),
        "SMT is off",
        storage(),
    ),
    "huge pages": (
        machine_with(memory=replace(machine_with().memory, transparent_huge_pages="never")),
        loads(1.4),
        "Loads take 29% less time on huge pages",
        loads(1.02),
    ),
    "a debug kernel": (
        machine_with(settings=Settings(debug_kernel=("lockdep",)), **TWO),
        storage(client_bound=True),
        "debugging (lockdep). The kernel took 80% of the CPU time",
        storage(),
    ),
    "mitigations": (
        machine_with(settings=Settings(mitigations={"spectre_v2": "Retpolines"}), **TWO),
        storage(client_bound=True),
        "vulnerabilities of the processor (1)",
        storage(),
    ),
    "ulimits": (
        machine_with(settings=Settings(limits={"memlock": "65536"})),
        unregistered(True),
        "may lock 64 KiB of memory (ulimit -l)",
        unregistered(False),
    ),
}


@pytest.mark.parametrize("setting", PLANTED)
def test_a_setting_is_named_where_a_figure_suffers_from_it(setting: str) -> None:
    machine, suffers, words, unharmed = PLANTED[setting]
    finding = the(judged(machine, suffers), "costly_setting")
    heavy = setting in {"environment", "affinity", "cpuset", "governor", "a debug kernel"}
    assert words in finding.says and finding.severity == ("warning" if heavy else "info")
    assert "costly_setting" not in list_rules(judged(machine, unharmed).findings), "set, but it costs nothing"
    without = machine_with(**TWO) if "cpu" in setting else machine_with()
    assert "costly_setting" not in list_rules(judged(replace(without, settings=Settings()), suffers).findings), (
        "it suffers, but nothing is set"
    )


def test_usual_settings_of_clean_machines_are_not_accused() -> None:
    for seed in MACHINES[:50]:
        machine = SimulatedMachine.random(seed)
        run = explain(make_run(machine, experiment(machine, "iodepth", [at(iodepth=2**k) for k in (0, 4, 8)], FIXED)))
        assert not list_rules(run.findings) & RULES, seed


# --- the survey


def test_survey_reads_settings_of_recorded_machine(tmp_path: Path) -> None:
    files = {
        "sys/devices/system/cpu/smt/control": "forceoff\n",
        "sys/devices/system/cpu/vulnerabilities/meltdown": "Not affected\n",
        "sys/devices/system/cpu/vulnerabilities/mds": "Mitigation: Clear CPU buffers; SMT disabled\n",
        "sys/devices/system/cpu/vulnerabilities/l1tf": "Vulnerable\n",
        "proc/sys/kernel/osrelease": "6.1.0-debug\n",
        "proc/cmdline": "root=/dev/vda slub_debug=FZP quiet\n",
        "proc/lockdep": "all lock classes:\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = Machine.of_survey(engine.survey(None, tmp_path)).settings
    assert found.smt == "forceoff" and found.mitigations == {"mds": "Clear CPU buffers; SMT disabled"}
    assert found.debug_kernel == ("debug build", "lockdep", "slub_debug")
    assert (found.environment, found.nice, found.limits) == ({}, None, {}), "a recorded tree has no process"
    nothing = Machine.of_survey(engine.survey(None, tmp_path / "none")).settings
    assert (nothing.smt, nothing.mitigations, nothing.debug_kernel) == (None, {}, ())


def test_run_has_this_machines_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("LD_PRELOAD_NOT", "x")
    found = Local().survey().settings
    assert found.environment["OPENBLAS_CORETYPE"] == "Haswell" and "LD_PRELOAD_NOT" not in found.environment
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert found.limits["nofile"] == ("unlimited" if soft == resource.RLIM_INFINITY else str(soft))
    assert found.nice == os.getpriority(os.PRIO_PROCESS, 0)


# --- limits, on both sides of each

BOUND = {"settings": environment(OMP_NUM_THREADS="1")}


def worked(user_s: float, system_s: float = 0.0, threads: int = 4, **changes: Any) -> tuple[str, dict[str, Any]]:
    """Threads of arithmetic with this CPU time in a second."""
    made = {"parameters": {"threads": threads}, "elapsed_s": 1.0, "conditions": {}}
    return "compute", {**made, "cpu_user_s": user_s, "cpu_system_s": system_s, **changes}


DEBUG = {"settings": Settings(debug_kernel=("lockdep",))}
POWERSAVE = {
    "conditions": replace(machine_with().conditions, governor="powersave"),
    "cpu": replace(machine_with().cpu, threads=8, clock_hz=Clocks(max=4e9)),
}


@pytest.mark.parametrize(("machine", "point", "says"), [
    # Threads are starved below 60% of the CPU time that they could use, of which the system's is a part.
    *((BOUND, worked(*cpu_s), says) for cpu_s, says in (((2.44,), ""), ((2.36,), "4 threads had 59%"))),
    *((BOUND, worked(*cpu_s), says) for cpu_s, says in (((0.8, 0.4), "4 threads had 30%"), ((2.0, 0.5), ""))),
    ({"settings": environment(KMP_AFFINITY="compact")}, worked(0.5, threads=1), ""),
    *((BOUND, worked(1.0, **more), "") for more in (
        {"elapsed_s": 0.0}, {"cpu_user_s": None}, {"conditions": {"cpu_busy": 0.9, "cpu_user": 0.9}},
    )),
    *(({"settings": environment(**{name: value})}, worked(1.0), says) for name, value, says in (
        ("OMP_NUM_THREADS", "3", "4 threads had 25%"), ("OMP_NUM_THREADS", "4", ""), ("OMP_THREAD_LIMIT", "many", ""),
        ("OMP_NUM_THREADS", "2,8", "4 threads had 25%"), ("KMP_AFFINITY", "compact", "4 thr"), ("KMP_AFFINITY", "", ""),
    )),
    # A cpuset leaves processors out, and more threads share what remains.
    *(({"container": Container(cpuset=tuple(range(allowed)))}, worked(8.0, threads=threads), says)
      for allowed, threads, says in ((1, 2, "may run on 1 of 8 processors (cpuset). 2 threads share them"),
                                     (7, 8, "may run on 7 of 8"), (7, 7, ""), (8, 9, ""), (0, 9, ""))),
    # The kernel has more than half of a client's time that is the limit: 3 s of one job.
    *((DEBUG, ("storage", {"cpu_user_s": 3 - kernel_s, "cpu_system_s": kernel_s}), says)
      for kernel_s, says in ((1.44, ""), (1.56, "The kernel took 52% of the CPU time that limits throughput ("))),
    (DEBUG, ("storage", {"cpu_user_s": 0.5, "cpu_system_s": 1.5}), ""),
    *((POWERSAVE, worked(4.0, details={"clock_hz_during": share * 4e9}), says)
      for share, says in ((0.91, ""), (0.89, "The clock reached 89% of its maximum"))),
])  # fmt: skip
def test_setting_costs_from_limit_on(machine: dict[str, Any], point: tuple[str, dict[str, Any]], says: str) -> None:
    resource_name, changes = point
    run = point_run(base(**changes), resource_name)
    run = replace(run, machines=(replace(run.machine, **machine),))
    found = [finding for finding in explain(run).findings if finding.rule == "costly_setting"]
    assert [says in finding.says for finding in found] == [True] * bool(says)


@pytest.mark.parametrize(("cost", "named"), [(1.10, False), (1.12, True)])
def test_small_pages_cost_a_tenth(cost: float, named: bool) -> None:
    never = machine_with(memory=replace(machine_with().memory, transparent_huge_pages="never"))
    assert ("costly_setting" in list_rules(judged(never, loads(cost)).findings)) == named


@pytest.mark.parametrize(("share", "shown"), [(0.81, 0.5), (0.79, 0.79)])
def test_older_kernels_cost_fifth_of_peak(share: float, shown: float) -> None:
    """The best of several figures is shown."""
    figures = (linpack(value * 470e9, "Haswell") for value in (0.5, share))
    finding = the(judged(machine_with(), *figures, peak(470e9)), "pinned_library")
    assert finding.evidence["peak_share"] == pytest.approx(shown)
