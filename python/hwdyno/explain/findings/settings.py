"""Settings that slow a figure down: a library pinned to an older processor, threads that cannot run, a low priority.

A setting is named where a figure suffers from it, and the figure is the evidence. What suffers nothing is only listed
with the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hwdyno.analysis.ceilings.compute import LOOPS, field_name
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.bottleneck import BUSY
from hwdyno.explain.findings.compute import LINPACK
from hwdyno.explain.findings.conditions import OTHERS
from hwdyno.explain.findings.rule import Case, Verdict, percent
from hwdyno.model.machine import Machine
from hwdyno.model.units import number_at, plural

SETS = ("sse", "avx", "avx2", "avx512")
"""Instruction sets of x86, each with registers or operations that the one before it lacks."""
KERNELS = {
    **dict.fromkeys(("prescott", "core2", "penryn", "dunnington", "nehalem", "athlon", "opteron", "barcelona"), "sse"),
    **dict.fromkeys(("sandybridge", "bulldozer", "piledriver", "steamroller"), "avx"),
    **dict.fromkeys(("haswell", "zen", "excavator"), "avx2"),
    **dict.fromkeys(("skylakex", "skx", "cooperlake", "sapphirerapids", "zen4", "zen5"), "avx512"),
}
"""The instruction set of OpenBLAS's or BLIS's kernels, by their name (OpenBLAS, ``TargetList.txt``)."""
PINS = ("OPENBLAS_CORETYPE", "BLIS_ARCH_TYPE", "MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE", "MKL_CBWR")
"""Variables that choose a library's kernels in place of the processor."""
THREADS = (
    *("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "MKL_NUM_THREADS"),
    *("BLIS_NUM_THREADS", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND"),
)
"""Variables that hold a library's threads back or bind them."""
ENOUGH = 0.80
"""Share of the measured peak of FMA from which on a library's kernels are fast enough."""
STARVED = 0.60
"""Share of the CPU time that its threads could use, below which a figure lacks processors."""
SLOW_GOVERNORS = {"powersave", "conservative", "ondemand"}
SLOW_CLOCK = 0.90
IN_KERNEL = 0.50
"""Share of a figure's CPU time that the kernel spends, from which on its checks and mitigations count."""


def pinned_library(case: Case) -> Verdict | None:
    """A numeric library runs kernels of an older instruction set than the processor has, and its rate shows it."""
    settings, isa = case.run.machine.settings, set(case.run.machine.cpu.isa)
    has = next((name for name in reversed(SETS) if any(extension.startswith(name) for extension in isa)), "")
    peaks = {
        given.get("threads"): point.throughput.value
        for _, _, point, given in case.run.measured_points(LOOPS)
        if (given.get("operation"), given.get("precision")) == ("fma", "double") and given.get("operands") != "zero"
    }
    found: list[tuple[float, Case, str, str]] = []
    for result, at, point, given in case.run.measured_points(LINPACK):
        word = str(point.details.get("library_kernels") or "")
        uses = KERNELS.get(word.lower(), "")
        if point.validity == "invalid" or not uses or not has or SETS.index(uses) >= SETS.index(has):
            continue
        peak = peaks.get(given.get("threads"))
        share = point.throughput.value / peak if peak else 0.0
        if share < ENOUGH:
            found.append((share, Case(case.run, result, at), word, uses))
    if not found:
        return None
    share, here, word, uses = max(found, key=lambda candidate: candidate[0])
    library = str(here.point.details.get("library") or "the library")
    pins = [name for name in PINS if settings.environment.get(name)]
    named = ", ".join(f"{name}={settings.environment[name]}" for name in pins)
    who = (
        f"The environment pins {library} to {word} kernels ({named})"
        if pins
        else f"The library {library} chose {word} kernels"
    )
    reached = f" The rate is {percent(share)} of the measured FMA peak ({here.label})." if share else ""
    unset = "".join(f"-u {name} " for name in pins)
    return Verdict(
        "warning" if pins else "info",
        f"{who}. They use {field_name(uses)}, and this processor has {field_name(has)}.{reached}",
        {"kernels": word, "uses": uses, "has": has, "environment": pins, "peak_share": share or None},
        f"Measure without it: env {unset}{here.command()}"
        if pins
        else f"Name the processor's own kernels, such as SkylakeX: env OPENBLAS_CORETYPE=SkylakeX {here.command()}",
    )


@dataclass(frozen=True, slots=True)
class _Setting:
    """One kind of setting: how it is set on a machine, which points show that it costs, and what undoes it."""

    name: str
    set: Callable[[Machine], str]
    """How it is set, as a sentence; empty where it is not."""
    shows: Callable[[Case], str]
    """What of a point shows that it costs, as a sentence; empty where nothing does."""
    undo: Callable[[Case], str]
    """The advice."""


def costly_setting(case: Case) -> list[Verdict]:
    """A setting of the machine or of the environment, and a figure that suffers from it."""
    found = []
    for setting in _SETTINGS:
        how = setting.set(case.run.machine)
        hits = list(_hits(case, setting)) if how else []
        if hits:
            here, evidence = hits[0]
            more = f" {plural(len(hits), 'point')} in all." if len(hits) > 1 else ""
            found.append(
                Verdict(
                    "warning" if setting.name in _HEAVY else "info",
                    f"{how} {evidence}{more}",
                    {"setting": setting.name, "points": len(hits)},
                    setting.undo(here),
                    resource=here.result.resource,
                )
            )
    return found


def _hits(case: Case, setting: _Setting) -> Iterator[tuple[Case, str]]:
    for result in case.run.experiments:
        for at, point in enumerate(result.points):
            here = Case(case.run, result, at)
            evidence = setting.shows(here) if point.validity != "invalid" else ""
            if evidence:
                yield here, evidence


def _environment(machine: Machine) -> str:
    given = [f"{name}={machine.settings.environment[name]}" for name in THREADS if name in machine.settings.environment]
    return f"The environment holds threads back: {', '.join(given)}." if given else ""


def _cpuset(machine: Machine) -> str:
    allowed, every = len(machine.container.cpuset), machine.cpu.threads or 0
    return f"This process may run on {allowed} of {plural(every, 'processor')} (cpuset)." if 0 < allowed < every else ""


def _governor(machine: Machine) -> str:
    governor = machine.conditions.governor
    return f"The CPU's governor is {governor}." if governor in SLOW_GOVERNORS else ""


def _nice(machine: Machine) -> str:
    nice = machine.settings.nice or 0
    return f"This process runs at nice {nice}, so other processes get the CPU first." if nice > 0 else ""


def _smt(machine: Machine) -> str:
    return f"SMT is {machine.settings.smt}: each core runs one thread." if machine.settings.smt in _SMT_OFF else ""


_SMT_OFF = {"off", "forceoff"}


def _huge_pages(machine: Machine) -> str:
    return "Transparent huge pages are off." if machine.memory.transparent_huge_pages == "never" else ""


def _debug(machine: Machine) -> str:
    checks = machine.settings.debug_kernel
    return f"This kernel is built or started for debugging ({', '.join(checks)})." if checks else ""


def _mitigations(machine: Machine) -> str:
    known = machine.settings.mitigations
    return f"The kernel works around known vulnerabilities of the processor ({len(known)})." if known else ""


def _memlock(machine: Machine) -> str:
    limit = machine.settings.limits.get("memlock", "unlimited")
    return "" if limit == "unlimited" else f"This process may lock {int(limit) >> 10} KiB of memory (ulimit -l)."


def _describe_starvation(case: Case) -> str:
    """Several threads that do arithmetic or move memory had too little CPU time."""
    point, threads = case.point, case.number("threads") or 1
    if case.resource.client != "measured" or threads < 2 or point.cpu_user_s is None or point.elapsed_s <= 0:
        return ""
    had = (point.cpu_user_s + (point.cpu_system_s or 0.0)) / point.elapsed_s / threads
    if (
        had >= STARVED
        or (case.others_share or 0.0) > OTHERS
        or not any(_holds_back(case, name, threads) for name in THREADS)
    ):
        return ""
    return f"{plural(threads, 'thread')} had {percent(had)} of the CPU time that they could use ({case.label})."


def _holds_back(case: Case, name: str, threads: float) -> bool:
    """Whether a variable allows fewer threads than were requested, or binds them."""
    value = case.run.machine.settings.environment.get(name, "")
    if not name.endswith(("_NUM_THREADS", "_LIMIT")):
        return bool(value)
    first = value.partition(",")[0].strip()
    return first.isdecimal() and int(first) < threads


def _describe_crowding(case: Case) -> str:
    """More threads than the process has processors."""
    threads, allowed = case.number("threads") or case.jobs, len(case.run.machine.container.cpuset)
    return f"{plural(threads, 'thread')} share them ({case.label})." if threads > allowed else ""


def _slow_clock(case: Case) -> str:
    """The clock under load is below what the processor can do."""
    most, during = case.run.machine.cpu.clock_hz.max, number_at(case.point.details, "clock_hz_during")
    if not most or not during or during >= SLOW_CLOCK * most:
        return ""
    return f"The clock reached {percent(during / most)} of its maximum ({case.label})."


def _gave_way(case: Case) -> str:
    share = case.others_share or 0.0
    return f"Others used {percent(share)} of the CPU meanwhile ({case.label})." if share > OTHERS else ""


def _client_bound(case: Case) -> str:
    """The processors that issue the operations are the limit, and the kernel has most of their time."""
    share, point = case.cpu_share, case.point
    if share is None or share <= BUSY or case.resource.client != "beside" or not point.cpu_system_s:
        return ""
    kernel = point.cpu_system_s / (point.cpu_system_s + (point.cpu_user_s or 0.0))
    if kernel <= IN_KERNEL:
        return ""
    return f"The kernel took {percent(kernel)} of the CPU time that limits throughput ({case.label})."


def _all_busy(case: Case) -> str:
    """Every processor issues operations, and more of them would issue more."""
    if case.threads is None or case.jobs < case.threads or (case.cpu_share or 0.0) <= BUSY:
        return ""
    which = "The only processor is" if case.threads == 1 else f"All {case.threads} processors are"
    return f"{which} busy ({case.label})."


def _small_pages(case: Case) -> str:
    """Random loads on small pages, whose page walks cost time: the same on huge pages is faster."""
    point, given = case.point, case.parameters
    if given.get("pages") != "4k" or point.latency_ns is None:
        return ""
    for other in case.result.points:
        alike = {**case.result.fixed, **other.parameters} == {**given, "pages": "2m"}
        if alike and other.latency_ns is not None and other.latency_ns.mean < 0.9 * point.latency_ns.mean:
            gain = percent(1 - other.latency_ns.mean / point.latency_ns.mean)
            return f"Loads take {gain} less time on huge pages ({case.label})."
    return ""


def _not_registered(case: Case) -> str:
    refused = case.point.details.get("io_uring_registered_buffers") is False
    return f"The kernel refused to register the buffers, which costs time ({case.label})." if refused else ""


def _again(case: Case) -> str:
    return case.run.command or case.command()


_HEAVY = {"environment", "cpuset", "governor", "debug_kernel"}
"""What costs a large part of a figure."""
_SETTINGS = (
    _Setting(
        *("environment", _environment, _describe_starvation),
        lambda case: (
            "Unset them and measure again: env "
            + "".join(f"-u {name} " for name in THREADS if name in case.run.machine.settings.environment)
            + case.command()
        ),
    ),
    _Setting(
        *("cpuset", _cpuset, _describe_crowding),
        lambda case: (
            f"Use as many threads as there are: {case.command(threads=len(case.run.machine.container.cpuset))}"
        ),
    ),
    _Setting(
        *("governor", _governor, _slow_clock),
        lambda case: f"Set it with `cpupower frequency-set -g performance`, then: {case.command()}",
    ),
    _Setting("nice", _nice, _gave_way, lambda case: f"Run it at nice 0: {_again(case)}"),
    _Setting("smt", _smt, _all_busy, lambda case: "Turn it on: echo on > /sys/devices/system/cpu/smt/control"),
    _Setting(
        *("huge_pages", _huge_pages, _small_pages),
        lambda case: "Allow them: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    ),
    _Setting(
        "debug_kernel", _debug, _client_bound, lambda case: f"Boot a kernel without these checks, then: {_again(case)}"
    ),
    _Setting(
        *("mitigations", _mitigations, _client_bound),
        lambda case: "Compare with another machine of the same mitigations: hwdyno machine",
    ),
    _Setting("memlock", _memlock, _not_registered, lambda case: f"Raise it: ulimit -l unlimited; {case.command()}"),
)
RULES = (
    Rule("pinned_library", "run", pinned_library, Applies(kernels=(LINPACK,)), about="compute", explains=True),
    Rule("costly_setting", "run", costly_setting, Applies(machine=("cpu.threads",)), explains=True),
)
