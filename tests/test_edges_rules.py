"""Thresholds of the rules on GPUs, networks, clients, served models and settings, just below and just above each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hwdyno.axes import SHARED_FILE
from hwdyno.findings.gpu import gpu_link_narrow, gpu_load_in_turn, gpu_load_waits
from hwdyno.findings.gpu_latency import gpu_levels
from hwdyno.findings.network_path import policed
from hwdyno.findings.ranks import shared_file
from hwdyno.findings.rule import Case
from hwdyno.findings.scaling import unfair
from hwdyno.findings.serving import IN_PROCESS, serving_limit
from hwdyno.findings.settings import costly_setting
from hwdyno.machine import Cpu, Machine, Settings
from hwdyno.words import Value
from made_clients import made, point
from made_experiment import made_experiment
from test_single_gpu import MEBI, chase, on_machine, point_of, sure, with_gpu
from test_single_lines import case_of
from test_single_rules import memory_reads
from test_single_serving import answered, machine_of, on_curve, served
from test_thresholds import base, found_in, run_of

# --- links, loads and caches of a GPU


@pytest.mark.parametrize(
    ("lanes", "says"),
    [
        (15, None),
        (14, "The GPU's link ran at PCIe 4 x14 during the copies, although it can PCIe 4 x16. That leaves 88%"),
        (12, "The GPU's link ran at PCIe 4 x12 during the copies, although it can PCIe 4 x16. That leaves 75%"),
    ],
)
def test_a_link_is_narrow_below_nine_tenths_of_its_rate(lanes: int, says: str | None) -> None:
    """Of 16 lanes; no slot has 14 or 15 of them, which stand for 88% and 94%."""
    details = {"link_generation": 4, "link_lanes": lanes}
    machine = with_gpu(link_generation_max=4, link_lanes_max=16)
    found = gpu_link_narrow(on_machine(machine, "gpu_transfer", (replace(point_of(1e9), details=details),)))
    assert (found is not None) == (says is not None)
    assert found is None or says is None or found.says.startswith(says)


@pytest.mark.parametrize(("whole_bytes_s", "waits"), [(1.78e9, False), (1.82e9, True)])
def test_a_load_waits_for_its_slower_part_from_nine_tenths_of_that_parts_rate(
    whole_bytes_s: float, waits: bool
) -> None:
    """Reading alone has 2 GB/s and copying alone 8 GB/s."""
    points = tuple(
        point_of(rate, part=part, access="direct", block=MEBI, buffers=2, readers=1, on="gpu")
        for part, rate in (("whole", whole_bytes_s), ("read", 2e9), ("copy", 8e9))
    )
    found = gpu_load_waits(on_machine(Machine(), "gpu_load", points))
    assert (found is not None) == waits
    assert found is None or found.says.startswith("The copy to the GPU waits for storage (direct, 1 MiB)")


@pytest.mark.parametrize(
    ("user_s", "says"),
    [(79.0, "limit not identified."), (81.0, "both need the processors, which are 91% busy.")],
)
def test_processors_keep_parts_from_overlapping_from_nine_tenths_of_their_time(user_s: float, says: str) -> None:
    """It takes as long as both parts in turn; of 100 s on 10 processors 89 s and 91 s are used, 10 s by the system."""
    counters = {"process_cpu_user_s": user_s, "process_cpu_system_s": 10.0}
    points = tuple(
        replace(
            point_of(rate, part=part, access="direct", block=MEBI, buffers=2, readers=1, on="gpu"),
            elapsed_s=10.0,
            counters=counters,
        )
        for part, rate in (("whole", 5e8), ("read", 1e9), ("copy", 1e9))
    )
    found = gpu_load_in_turn(on_machine(Machine(cpu=Cpu(threads=10)), "gpu_load", points))
    assert found is not None and says in found.says


@pytest.mark.parametrize(
    ("stated_mebi", "levels", "reach_mebi"),
    [
        (95, ["L2"], None),  # 1.57 octaves above
        (100, None, None),  # 1.64 octaves above
        (11, ["L2"], None),  # 1.54 octaves below
        (10, [], 32),  # 1.68 octaves below
    ],
)
def test_a_stated_cache_ends_within_1_6_octaves_of_its_size(
    stated_mebi: int, levels: list[str] | None, reach_mebi: int | None
) -> None:
    """The latency rises at 32 MiB: the end of L2, or past its stated size the reach of a TLB."""
    machine = with_gpu(l2_bytes=stated_mebi * MEBI)
    found = gpu_levels(on_machine(machine, "gpu_latency", chase([100.0] * 6 + [400.0] * 4, MEBI)))
    assert (None if found is None else list(found.evidence["levels"])) == levels
    assert found is None or found.evidence["reach_bytes"] == (reach_mebi and reach_mebi * MEBI)


@pytest.mark.parametrize(("stated_mebi", "says"), [(63, ""), (66, " The driver states 66 MiB of L2;")])
def test_a_last_cache_is_in_parts_where_twice_the_measured_size_is_stated(stated_mebi: int, says: str) -> None:
    """The latency rises at 32 MiB."""
    machine = with_gpu(l2_bytes=stated_mebi * MEBI)
    found = gpu_levels(on_machine(machine, "gpu_latency", chase([100.0] * 6 + [400.0] * 4, MEBI)))
    assert found is not None and list(found.evidence["levels"]) == ["L2"]
    assert says in found.says and ("states" in found.says) == bool(says)


# --- networks, shared files and clients


@pytest.mark.parametrize(("second_bytes_s", "is_policed"), [(1.057e8, True), (1.063e8, False)])
def test_a_policed_path_gives_more_streams_the_same_goodput_within_6_percent(
    second_bytes_s: float, is_policed: bool
) -> None:
    """One stream has 100 MB/s; both points lose segments without a queue."""
    details = {"congestion_control": "cubic", "retransmit_share": 0.02, "rtt_mean_us": 1000.0, "rtt_min_us": 990.0}
    points = tuple(
        replace(
            base(), parameters={"protocol": "tcp", "streams": streams}, throughput=sure(bytes_s), details=dict(details)
        )
        for streams, bytes_s in ((1, 1e8), (2, second_bytes_s))
    )
    result = made_experiment("network.x", "network", "?", "streams", "network_throughput", points, fixed={})
    found = policed(case_of(result))
    assert (found is not None) == is_policed
    assert found is None or "from 1 to 2 streams" in found.says


@pytest.mark.parametrize(
    ("shared_bytes_s", "says"),
    [(90.5, "One shared file is as fast as a file for each host"), (89.5, "One shared file costs 10%")],
)
def test_a_shared_file_costs_below_nine_tenths_of_files_of_their_own(shared_bytes_s: float, says: str) -> None:
    """Files of their own give 100 bytes/s; no value has an interval."""
    points = tuple(
        replace(base(), parameters={"rw": "write", SHARED_FILE.name: shared}, throughput=Value(bytes_s, "bytes/s"))
        for shared, bytes_s in ((True, shared_bytes_s), (False, 100.0))
    )
    result = made_experiment("storage.x", "storage", "?", "iodepth", "storage_blocks", points, fixed={})
    result = replace(result, declaration=replace(result.declaration, axes=(*result.declaration.axes, SHARED_FILE)))
    (found,) = shared_file(case_of(result))
    assert found.says.startswith(says)


@pytest.mark.parametrize(
    ("shares", "says"),
    [((0.66, 0.34), None), ((0.675, 0.325), "Jain's index is 0.89 of 1 over 2 clients.")],
)
def test_clients_are_unequal_below_an_index_of_nine_tenths(shares: tuple[float, float], says: str | None) -> None:
    """Jain's index of two shares is 1 / (2 × the sum of their squares): 0.907 and 0.891."""
    found = unfair(case_of(made(point(1), point(2, shares)).experiments[0], at=1))
    assert (found is not None) == (says is not None)
    assert found is None or says is None or says in found.says


# --- served models


@pytest.mark.parametrize(
    ("steps_bytes_s", "limit", "of_memory"), [(20.7e9, "processors", 0.69), (21.3e9, "memory bandwidth", 0.71)]
)
def test_an_engine_waits_for_memory_from_seven_tenths_of_its_bandwidth(
    steps_bytes_s: float, limit: str, of_memory: float
) -> None:
    """Four threads read 30 GB/s; the engine computes for 95% of the time."""
    details = {"weights_bytes": 1e9, "step_bytes_s": steps_bytes_s, "engine_cpu_share": 0.95}
    few, many = (answered(10.0, details, concurrency=load, threads=4) for load in (2, 8))
    case = on_curve(served(few, many, kernel=IN_PROCESS))
    run = replace(case.run, experiments=(case.result, memory_reads(({"threads": 4}, 3e10))), machines=(machine_of(),))
    found = serving_limit(replace(case, run=run))
    assert found is not None and found.evidence["limit"] == limit
    assert found.evidence["of_memory_bandwidth"] == pytest.approx(of_memory)


# --- settings and other processes


@pytest.mark.parametrize(
    ("system_s", "says"), [(1.44, None), (1.56, "The kernel took 52% of the CPU time that limits")]
)
def test_a_debug_kernel_costs_from_half_of_the_clients_time(system_s: float, says: str | None) -> None:
    """One job takes all 3 s of its processor: 48% and 52% of them in the kernel."""
    run = run_of(replace(base(), cpu_user_s=3.0 - system_s, cpu_system_s=system_s))
    machine = replace(run.machine, settings=Settings(debug_kernel=("lockdep",)))
    found = costly_setting(Case(replace(run, machines=(machine,))))
    assert len(found) == (says is not None)
    assert all(says is not None and says in one.says for one in found)


@pytest.mark.parametrize(("cpu_user", "others", "named"), [(0.1075, 0.0, False), (0.1175, 0.375, True)])
def test_other_processes_count_from_a_tenth_of_the_processors_in_user_mode(
    cpu_user: float, others: float, named: bool
) -> None:
    """8 processors are 40% busy, 2.5% by this point and half of that in user mode: others have 9.5% and 10.5% there.

    Below it, the rest may be kernel threads that work for the point's own I/O.
    """
    run = run_of(replace(base(), conditions={"cpu_busy": 0.4, "cpu_user": cpu_user, "steal": 0.0}))
    assert Case(run, run.experiments[0], 0).others_share == pytest.approx(others)
    assert ("others_at_work" in found_in(run)) == named
