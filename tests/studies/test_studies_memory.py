"""The studies of a laptop's memory and of a cloud VM: tables and observations of made Runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hwdyno import studies
from hwdyno.explain.findings import explain
from hwdyno.measure import peers
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.scenarios import Request
from hwdyno.measure.scenarios import study as command
from hwdyno.model.words import Ceiling, PeerResult, Run, UserError, Value
from hwdyno.studies.point_figures import mb_s
from made_memory import flops, make_run, moved, point, result
from simulation.host import SimulatedHost


def of_study(name: str, run: Run) -> Run:
    return explain(replace(run, study=name))


def laptop() -> Run:
    points = []
    for block in (64, 256):
        for delay in (0, 50, 200, 500, 1000, 2500):
            offered = block * 3.7e9 / max(delay, 1)
            value = (offered**-4 + 20e9**-4) ** -0.25
            parameters = {"mix": "1:0", "block": block, "delay": delay}
            points.append(point(value, "bytes/s", 100 / (1.02 - value / 20e9), **parameters))
    return of_study(
        "laptop-memory-and-flash", make_run(result("memory_loaded_latency", "delay", *points, name="memory.loaded"))
    )


def cloud() -> Run:
    arithmetic = [flops(value * 1e9, "avx512", threads=threads) for threads, value in ((1, 116), (2, 226), (4, 225))]
    arithmetic = [
        replace(measurement, parameters={**measurement.parameters, "isa": "auto"}) for measurement in arithmetic
    ]
    blocks = [
        moved(value * 1e9, "mix", threads, mix="1:0", pattern="random", block=block)
        for block, rate in ((8, 0.1), (8192, 14.0))
        for threads, value in ((1, rate), (2, 2 * rate), (4, 1.95 * rate))
    ]
    solved = [point(68e9, "FLOP/s", operation="lu", n=5000, threads=2, details={"flops_s_best": 70e9})]
    loops = [moved(value * 1e9, "triad", threads) for threads, value in ((1, 15.0), (2, 30.0))]
    return of_study(
        "cloud-vm-suite",
        make_run(
            result("memory_bandwidth", "threads", *loops, name="memory.stream", working_set=512 << 20),
            result("compute_flops", "threads", *arithmetic, name="compute.threads"),
            result("linpack", "n", *solved, name="compute.linpack"),
            result("memory_bandwidth", "threads", *blocks, name="memory.block", working_set=512 << 20),
        ),
    )


def test_the_laptops_tables_and_its_compromise() -> None:
    run = laptop()
    latency, bandwidth = studies.tables(run)
    assert latency.columns == ("delay, cycles", "1:0, 64 B", "1:0, 256 B") and len(latency.rows) == 6
    assert bandwidth.rows[0][1] == "20000"
    sentences = "\n".join(studies.observations(run))
    # Of X / (1.02 - X / 20 GB/s), the power is greatest at half of the bandwidth, which 50 and 200 cycles are next to.
    assert "mix 1:0, block 64 B: the best compromise is a delay of 50 cycles" in sentences
    assert "mix 1:0, block 256 B: the best compromise is a delay of 200 cycles" in sentences
    assert "times the latency without load" in sentences and "of that at full load" in sentences
    assert "of what moves at full load, at " in sentences, "another delay may move more"
    assert "1473" in sentences and "6 of 19 values of delay" in sentences


def test_memory_that_is_not_full_needs_no_compromise() -> None:
    points = [
        point(value, "bytes/s", 100 + delay / 1e3, mix="1:0", block=64, delay=delay)
        for delay, value in ((0, 4e9), (50, 3e9), (200, 2e9), (500, 1e9), (1000, 5e8))
    ]
    run = of_study(
        "laptop-memory-and-flash", make_run(result("memory_loaded_latency", "delay", *points, name="memory.loaded"))
    )
    (sentence,) = (observation for observation in studies.observations(run) if observation.startswith("Memory, mix"))
    assert "no compromise is needed" in sentence and "4,000 MB/s" in sentence
    assert "delay of 0" not in sentence


@pytest.mark.parametrize(("idle_ns", "says"), [(90.0, "the best compromise"), (240.0, "no compromise can be told")])
def test_a_latency_that_falls_as_load_rises_is_not_believed(idle_ns: float, says: str) -> None:
    points = [
        point(value, "bytes/s", ns, mix="1:0", block=64, delay=delay)
        for delay, value, ns in (
            (0, 4e9, 200),
            (50, 3.9e9, 150),
            (200, 2e9, 120),
            (500, 1e9, 110),
            (1000, 5e8, idle_ns),
        )
    ]
    run = of_study(
        "laptop-memory-and-flash", make_run(result("memory_loaded_latency", "delay", *points, name="memory.loaded"))
    )
    assert says in "\n".join(studies.observations(run))


def test_delay_and_access_size_are_told_in_words() -> None:
    points = [
        point(value * scale, "bytes/s", ns * (1 + (block == 256) / 2), mix="1:0", block=block, delay=delay)
        for block, scale in ((64, 1.0), (256, 1.6))
        for delay, value, ns in ((0, 4e9, 200), (50, 3.9e9, 150), (200, 2e9, 120), (500, 1e9, 110), (1000, 5e8, 100))
    ]
    run = of_study(
        "laptop-memory-and-flash", make_run(result("memory_loaded_latency", "delay", *points, name="memory.loaded"))
    )
    sentences = "\n".join(studies.observations(run))
    assert (
        "A delay of 1000 instead of 0 cycles leaves 12% of the bandwidth and 50% of the latency (2 series" in sentences
    )
    assert "within 10% of its most up to a delay of 50 cycles" in sentences
    assert "Blocks of 256 B move 1.6 times the bytes of 64 B without a delay, at 1.5 times the latency" in sentences


@pytest.mark.parametrize(("bytes_s", "text"), [
    (None, "-"), (0.0, "0.0"), (4.9e4, "0.049"), (4.94e3, "0.0049"), (9.5e5, "0.95"), (5.3e6, "5.3"), (2.517e8, "252"),
])  # fmt: skip
def test_a_small_bandwidth_keeps_its_digits(bytes_s: float | None, text: str) -> None:
    assert mb_s(bytes_s) == text


def test_the_laptops_traffic_is_on_all_processors_but_one_and_past_the_caches(tmp_path: Path) -> None:
    request = Request(places=(("", tmp_path),), seed=1, options={"only": "memory"})
    of = {}
    for profile in ("quick", "full"):
        plan = command.make_plan(
            studies.find("laptop-memory-and-flash"), replace(request, profile=profile), SimulatedHost()
        )
        (loaded,) = plan.experiments
        of[profile] = {str(point["mix"]) for point in loaded.points}
        assert {point["threads"] for point in loaded.points} == {max(1, SimulatedHost().topology().processors - 1)}
    assert of["full"] == {"1:0", "3:1-nt", "2:1-nt", "1:1-nt", "0:1"} and of["quick"] == of["full"]


MLC_LOADED = """Intel(R) Memory Latency Checker - v3.11
Command line parameters: --loaded_latency -d100 -t1 -b256m -e -r -U -k1-3 -W7

Using buffer size of 256.000MiB
Using 2:1 traffic type
Measuring Loaded Latencies for the system
Using 2:1 Read-Non-Temporal Write traffic type
Inject  Latency Bandwidth
Delay   (ns)    MB/sec
==========================
 00100  142.31    18764.2
"""


def test_mlc_stands_beside_the_points_that_it_can_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "mlc"
    program.write_text(f"#!/bin/sh\nprintf '%s' \"$*\" > {tmp_path}/asked\ncat <<'END'\n{MLC_LOADED}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("HWDYNO_MLC", str(program))
    peer = peers.find("mlc")
    assert peer.version() == "v3.11"
    point = {"operation": "mix", "mix": "2:1-nt", "delay": 100, "block": 64, "pattern": "random", "threads": 3}
    point |= {"working_set": 256 << 20, "runtime": 0.3}
    read = peer.run("memory_loaded_latency", point)
    assert (read.throughput, read.latency_ns_mean) == (18764.2e6, 142.31)
    assert (tmp_path / "asked").read_text() == "--loaded_latency -d100 -t1 -b256m -e -r -U -k1-3 -W7"
    with pytest.raises(OSError, match="no loaded latency at a delay of 200"):
        peer.run("memory_loaded_latency", {**point, "delay": 200})
    for unlike in ({"block": 256}, {"mix": "4:1-nt"}, {"node": 1}):
        assert peer.unsupported_reason("memory_loaded_latency", {**point, **unlike})
    assert peer.command("memory_loaded_latency", {**point, "mix": "1:0"})[-1] == "-k1-3"


def test_mlcs_figures_stand_in_a_table_of_their_own() -> None:
    run = laptop()
    theirs = PeerResult("mlc", "v3.11", 1, Value(19e9, "bytes/s"), None, latency_ns_mean=150.0)
    loaded = replace(run.experiments[0], peers=(theirs,))
    table = studies.tables(replace(run, experiments=(loaded,)))[2]
    assert table.title.startswith("Loaded latency beside MLC")
    assert table.rows[0][:2] == ("1:0", "50") and table.rows[0][3] == "150" and table.rows[0][5] == "19000"


def test_cloud_optimum_is_least_sufficient() -> None:
    run = cloud()
    titles = [table.title for table in studies.tables(run)]
    assert titles[:2] == ["CPU: operations per second by threads", "LINPACK, GFLOP/s"]
    assert any(title.startswith("Memory, random 1:0: MB/s") for title in titles)
    sentences = "\n".join(studies.observations(run))
    assert "Processor, fma double: best concurrency 2 threads" in sentences
    assert "Memory, random 1:0: best concurrency 2 threads x 8 KiB" in sentences
    assert "of the theoretical peak" in sentences
    linpack = next(table for table in studies.tables(run) if table.title.startswith("LINPACK"))
    assert linpack.columns[1:8] == ("LDA", "time, s", "average", "best", "residual", "residual (norm)", "check")
    assert linpack.rows[0][0] == "5000" and linpack.rows[0][-1] == "71.2238"


def test_no_table_of_a_study_has_two_units_of_one_quantity() -> None:
    fast = [moved(value * 1e9, "triad", threads) for threads, value in ((1, 4.0), (2, 30.0))]
    stream = result("memory_bandwidth", "threads", *fast, name="memory.stream", working_set=512 << 20)
    disk = result("storage_blocks", "numjobs", point(3e8, "bytes/s", 1e5, rw="read", bs=4096, numjobs=1, iodepth=1))
    disk = replace(disk, name="storage.block", resource="storage")
    run = of_study("cloud-vm-suite", make_run(stream, disk, *cloud().experiments[1:]))
    for made in (run, laptop()):
        for table in studies.tables(made):
            text = " ".join([table.title, *table.columns, *(cell for row in table.rows for cell in row)])
            for units in (("GB/s", "MB/s"), ("GFLOP/s", "TFLOP/s"), ("GiB/s", "MiB/s")):
                assert sum(unit in text for unit in units) <= 1, (table.title, units, text)


def test_integers_are_no_part_of_the_double_precisions_efficiency() -> None:
    run = cloud()
    cpu = next(experiment for experiment in run.experiments if experiment.name == "compute.threads")
    whole_numbers = point(9e12, "IOP/s", operation="add", precision="int32", isa="auto", threads=2)
    more = replace(cpu, points=(*cpu.points, whole_numbers))
    run = replace(run, experiments=tuple(more if experiment is cpu else experiment for experiment in run.experiments))
    table = next(candidate for candidate in studies.tables(run) if candidate.title.startswith("Efficiency"))
    row = next(candidate for candidate in table.rows if candidate[0] == "processor, double precision")
    assert row[1] == "226 GFLOP/s" and "IOP" not in " ".join(row)


def test_disk_is_beside_makers_figures() -> None:
    points = [
        point(value * factor * 1e6, "bytes/s", ns, rw=rw, bs=bs, numjobs=jobs, iodepth=1)
        for rw, value in (("read", 300.0), ("write", 100.0))
        for bs, ns, factor in ((4096, 1e5, 0.12), (8 << 20, 2e7, 1.0))
        for jobs in (1, 2)
    ]
    rated = (
        Ceiling("read_bytes_s", "rated", 4e8, "bytes/s", "maker", "sheet", "Drive X"),
        Ceiling("write_bytes_s", "rated", 2e8, "bytes/s", "maker", "sheet", "Drive X"),
    )
    disk = replace(result("storage_blocks", "numjobs", *points, name="storage.block"), resource="storage")
    run = of_study("cloud-vm-suite", make_run(replace(disk, ceilings=rated)))
    table = next(candidate for candidate in studies.tables(run) if candidate.title.startswith("Efficiency"))
    assert [row[:4] for row in table.rows] == [
        ("disk, reads", "300 MB/s", "400 MB/s (Drive X)", "75.0%"),
        ("disk, writes", "100 MB/s", "200 MB/s (Drive X)", "50.0%"),
    ]
    sentences = "\n".join(studies.observations(run))
    assert "Disk, write: best concurrency 1 thread x 8 MiB" in sentences
    assert "For latency: 1 thread x 4 KiB, 100 µs a block." in sentences
    assert "figures are unknown" not in sentences
    bare = of_study("cloud-vm-suite", make_run(disk))
    assert any("The disk's maker's figures are unknown" in observation for observation in studies.observations(bare))


def test_the_cloud_study_writes_alone_too_and_has_all_of_linpacks_sizes(tmp_path: Path) -> None:
    request = Request(places=(("", tmp_path),), profile="full", seed=1)
    plan = command.make_plan(studies.find("cloud-vm-suite"), request, Local())
    found = {planned.experiment.name: planned.points for planned in plan.experiments}
    assert {point["mix"] for point in found["memory.block"]} == {"1:0", "1:1", "0:1"}
    assert {"write", "randwrite"} <= {str(point["rw"]) for point in found["storage.block"]}
    assert len(found["compute.linpack"]) == 15
    stdio = next(planned for planned in plan.experiments if planned.experiment.name == "storage.stdio")
    assert {point["bs"] for point in stdio.points} == {8, 8 << 10, 8 << 20, 80 << 20}
    assert (stdio.fixed["ioengine"], stdio.fixed["direct"]) == ("stdio", False)
    assert {point["blocks"] for point in found["network.count"]} == {65536}


def test_streams_loops_stand_beside_the_studys_and_every_resource_has_its_efficiency() -> None:
    run = cloud()
    made = {table.title: table for table in studies.tables(run)}
    (triad,) = made["Memory: STREAM's loops by threads"].rows
    assert triad == ("triad", "15000 MB/s", "30000 MB/s", "6586.5", "13109.1")
    rows = {row[0]: row[1:] for row in made["Efficiency against theory and the reference tool"].rows}
    assert list(rows) == ["processor, double precision", "LINPACK", "memory", "memory, STREAM's loops"]
    # No DIMM table is known, so memory's theory is not either; and no tool was run beside.
    assert rows["memory"][1:] == ("unknown", "-", "-")
    assert rows["processor, double precision"][0] == "226 GFLOP/s"
    sentences = "\n".join(studies.observations(run))
    assert "Memory, STREAM's: no best concurrency of fewer than 3 points (triad)" in sentences


def test_full_length_reads_each_point_as_long_as_the_study_did(tmp_path: Path) -> None:
    request = Request(places=(("", tmp_path),), profile="full", seed=1)
    plan = command.make_plan(studies.find("laptop-memory-and-flash"), request, Local())
    found = {planned.experiment.name: planned for planned in plan.experiments}
    assert {name: planned.fixed["runtime"] for name, planned in found.items()} == {
        "memory.loaded": 2.0,
        "storage.flash": 30.0,
    }
    assert len({point["delay"] for point in found["memory.loaded"].points}) == 19
    brief = command.make_plan(studies.find("laptop-memory-and-flash"), replace(request, profile="quick"), Local())
    assert len({point["delay"] for point in brief.experiments[0].points}) == 8


def test_only_some_resources_of_a_study(tmp_path: Path) -> None:
    request = Request(places=(("", tmp_path),), seed=1, options={"only": "memory,cpu"})
    plan = command.make_plan(studies.find("cloud-vm-suite"), request, Local())
    assert {planned.experiment.resource for planned in plan.experiments} == {"memory", "compute"}
    assert not plan.needs_data_file
    with pytest.raises(UserError, match="does not measure 'training'"):
        command.make_plan(studies.find("cloud-vm-suite"), replace(request, options={"only": "training"}), Local())


def test_drive_is_beside_makers_figures() -> None:
    run = laptop()
    reads = [point(rate * 4096, "bytes/s", 60e3, rw=rw, bs=4096, iodepth=16) for rw, rate in (("randread", 61e3),)]
    reads = [replace(measurement, rate=Value(61e3, "operations/s")) for measurement in reads]
    loaded = run.experiments[0]
    few = replace(loaded, points=loaded.points[:2] + loaded.points[6:8])
    flash = result("storage_blocks", "bs", *reads, name="storage.flash")
    made = of_study("laptop-memory-and-flash", make_run(few, replace(flash, resource="storage")))
    table = studies.tables(made)[-1]
    assert table.title == "Compared with rated figures"
    assert table.rows[0] == ("this drive, measured", "250", "-", "61.0 k IOPS", "-")
    assert "130 k IOPS" in table.rows[-1]
    assert not any("best compromise" in line for line in studies.observations(made))


def test_linpack_large_systems_need_full_length(tmp_path: Path) -> None:
    request = Request(places=(("", tmp_path),), seed=1, options={"only": "cpu"})
    sizes = {}
    for profile in ("quick", "full"):
        plan = command.make_plan(studies.find("cloud-vm-suite"), replace(request, profile=profile), Local())
        (linpack,) = (planned for planned in plan.experiments if planned.experiment.kernel == "linpack")
        sizes[profile] = [point["n"] for point in linpack.points]
    assert sizes["quick"] == [500, 1000, 2000, 3000, 5000] and sizes["full"][-1] == 45000
    assert "at most 5000 equations instead of 45000" in "\n".join(studies.observations(cloud()))
