"""GPUs: what drivers state, the ceilings that follow, and the kernels on the processor's OpenCL driver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from here import missing, sample
from hwdyno.analysis.ceilings import bound_for, gpu
from hwdyno.analysis.resources import list_ceilings, why_no_ceiling
from hwdyno.cli.main import main
from hwdyno.measure import engine
from hwdyno.measure.experiments.gpu import BANDWIDTH
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.plan import select
from hwdyno.measure.topology import Topology, gpus_in
from hwdyno.model.machine import CudaDevice, GpuDrivers, GpuLibrary, Machine, OpenClDevice
from hwdyno.model.words import Declaration, Parameters, Run
from hwdyno.system.store import from_json
from nvidia_driver import driver as driver
from nvidia_driver import says, surveyed

# Long kernels take seconds to compile.
WHOLE, WIDTH, CHAINS = sample(0, 1), str(sample(4, 16)), str(sample(2, 8))

H100 = CudaDevice(
    name="H100", compute_capability="9.0", multiprocessors=132, boost_max_hz=1.98e9, memory_clock_max_hz=2.619e9,
    memory_bus_bits=5120, l2_bytes=50 << 20, link_generation=1, link_lanes=16, link_generation_max=5, link_lanes_max=16,
)  # fmt: skip


def test_a_driver_states_its_gpu(driver: Path) -> None:
    found = surveyed(driver)
    machine = Machine.of_survey({"gpu_drivers": found})
    (card,) = machine.gpu_drivers.cuda
    assert (card.name, card.compute_capability, card.multiprocessors, card.l2_bytes) == ("Fake M40", "5.2", 24, 3 << 20)
    assert (card.clock_hz, card.boost_max_hz, card.memory_clock_max_hz) == (949e6, 1114e6, 3004e6)
    assert (card.link_generation, card.link_lanes, card.link_generation_max, card.link_lanes_max) == (1, 8, 3, 16)
    assert card.slowed_by == ("power cap", "heat (software)") and card.ecc is True and card.mig is None
    assert (card.driver, card.cuda_version, card.power_mw, card.temperature_c) == ("550.54.14", "12.4", 61500, 41)
    assert machine.other == {}, "every key has its field"
    assert says(found, "libnvidia-ml.so.1") == "answers"


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ("cuInit:100", "no GPU for this process"),
        ("cuInit:803", "update it, or reboot"),
        ("cuInit:304", "no access to the device files"),
        ("cuDeviceGetCount:999", "was lost or hangs"),
        ("cuDeviceGet:46", "busy or unavailable"),
        ("cuInit:214", "ECC error"),
        ("cuInit:2", "out of memory"),
        ("cuInit:crash", "it crashed with signal 6"),
    ],
)
def test_failing_driver_is_one_line(driver: Path, plan: str, why: str) -> None:
    found = surveyed(driver, HWDYNO_FAKE_FAIL=plan)
    assert found["cuda"] == [] and why in says(found, "libcuda.so.1")
    assert "\n" not in says(found, "libcuda.so.1")


def test_without_its_management_library_a_gpu_is_still_found(driver: Path) -> None:
    found = surveyed(driver, HWDYNO_FAKE_FAIL="nvmlInit_v2:18")
    assert found["cuda"][0]["name"] == "Fake M40" and "clock_hz" not in found["cuda"][0]
    assert "reboot after the update" in says(found, "libnvidia-ml.so.1")


def test_without_any_driver_all_that_was_looked_for_is_named() -> None:
    found = surveyed(Path("/nonexistent"))
    assert [library["name"] for library in found["looked_for"]][1:] == [
        "libcuda.so.1", "libnvidia-ml.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libcublas.so.13",
        "libcufile.so.0",
    ]  # fmt: skip
    assert found["cuda"] == [] and found["opencl"] == []


def machine_with(device: CudaDevice) -> Machine:
    return Machine(gpu_drivers=GpuDrivers(cuda=(device,)))


@pytest.mark.parametrize(
    ("device", "peaks"),
    [
        # NVIDIA's data sheets, in TFLOP/s: M40 6.84; A100 19.5, 9.7, 312, 156, 19.5, 624; H100 66.9, 33.5.
        (CudaDevice(compute_capability="5.2", multiprocessors=24, boost_max_hz=1.114e9), {"vector/single": "6.84"}),
        (
            CudaDevice(compute_capability="8.0", multiprocessors=108, boost_max_hz=1.41e9),
            {"vector/single": "19.5", "vector/double": "9.7", "tensor/fp16": "312", "tensor/tf32": "156",
             "tensor/fp64": "19.5", "tensor/int8": "624"},
        ),
        (H100, {"vector/single": "66.9", "vector/double": "33.5", "tensor/fp64": "66.9"}),
        # Its tensor cores are quoted at another clock.
        (replace(H100, boost_max_hz=1.83e9), {"tensor/fp16": "989", "tensor/fp8": "1979", "tensor/tf32": "495"}),
    ],
)  # fmt: skip
def test_peaks_are_those_of_data_sheets(device: CudaDevice, peaks: dict[str, str]) -> None:
    made = {found.metric.removeprefix(gpu.PEAK): found for found in list_ceilings(machine_with(device), "gpu")}
    for name, printed in peaks.items():
        digits = len(printed.partition(".")[2])
        assert abs(made[name].value / 1e12 - float(printed)) <= 0.5 * 10**-digits, name
        assert "multiprocessors ×" in made[name].formula and made[name].source


def test_memory_and_link_have_their_formula() -> None:
    made = {ceiling.metric.partition("/")[0]: ceiling for ceiling in list_ceilings(machine_with(H100), "gpu")}
    assert made["gpu_memory"].value == pytest.approx(3352e9, rel=0.001)
    assert "2.62 GHz × 2 × 5120 bit / 8" in made["gpu_memory"].formula
    assert made["host_copy"].value == pytest.approx(63.0e9, rel=0.001), "by what the link can train to"


def test_bound_applies_to_what_it_bounds() -> None:
    ceilings = list_ceilings(machine_with(H100), "gpu")
    peak = bound_for(ceilings, {"precision": "single"})
    assert peak is not None and peak.ceiling.metric == "gpu_peak/vector/single"
    assert bound_for(ceilings, {"precision": "single", "on": "cpu"}) is None
    assert bound_for(ceilings, {"precision": "int8"}) is None, "the tensor cores' rate bounds no vector loop"
    in_cache: Parameters = {"operation": "triad", "array": 50 << 20, "precision": "single"}
    assert bound_for(ceilings, in_cache) is None, "three arrays of the cache's size may lie in it in part"
    memory = bound_for(ceilings, {**in_cache, "array": 1 << 30})
    assert memory is not None and memory.ceiling.metric.startswith("gpu_memory/")
    copy = bound_for(ceilings, {"operation": "host-to-device", "memory": "pinned", "block": 1 << 26})
    assert copy is not None and copy.unit == "bytes/s"
    assert bound_for(ceilings, {"operation": "both-ways", "memory": "pinned", "block": 1 << 26}) is None


def test_why_there_is_no_peak() -> None:
    (why,) = why_no_ceiling(machine_with(replace(H100, compute_capability="99.0")), "gpu")
    assert "99.0 is not in the table" in why
    both = Machine(gpu_drivers=GpuDrivers(cuda=(H100, replace(H100, name="other"))))
    assert list_ceilings(both, "gpu") == () and "several kinds" in why_no_ceiling(both, "gpu")[0]
    assert why_no_ceiling(Machine(), "gpu") == () == why_no_ceiling(machine_with(H100), "gpu")


def test_cudas_gpus_count_where_their_kernels_can_be_compiled() -> None:
    compiler = GpuLibrary(name="libnvrtc.so.13", found=True)
    drivers = GpuDrivers(cuda=(H100, H100), opencl=(OpenClDevice(kind="gpu"),), looked_for=(compiler,))
    assert gpus_in(drivers) == 2 and gpus_in(replace(drivers, looked_for=(replace(compiler, found=False),))) == 1


def test_a_processors_driver_is_no_gpu() -> None:
    found = GpuDrivers(opencl=(OpenClDevice(kind="cpu"), OpenClDevice(kind="gpu")))
    assert Topology.of_machine(Machine(gpu_drivers=found)).gpus() == 1
    assert Topology.of_machine(Machine()).gpus() == 0


@pytest.fixture
def pocl() -> None:
    """OpenCL on the processor."""
    if not list(Path("/etc/OpenCL/vendors").glob("pocl*")):
        missing("an OpenCL driver of the processor (Debian's pocl-opencl-icd)")


def measure_gpu(capsys: pytest.CaptureFixture[str], *words: str) -> Run:
    """The Run of a short command on the processor."""
    options = ["--on", "cpu", "--budget", "300ms", "--runtime", "0.02", "--json", "--no-page", "--quiet"]
    assert main(["gpu", *words, *options]) in {0, 3}
    return from_json(capsys.readouterr().out)


@pytest.mark.usefixtures("pocl")
def test_precisions_are_measured_and_verified(capsys: pytest.CaptureFixture[str]) -> None:
    run = measure_gpu(capsys, "--precision", "single,double,int32", "--width", WIDTH, "--chains", CHAINS)
    points = {point.parameters["precision"]: point for point in run.experiments[0].points}
    assert {name: point.throughput.unit for name, point in points.items()} == {
        "single": "FLOP/s", "double": "FLOP/s", "int32": "IOP/s",
    }  # fmt: skip
    for point in points.values():
        assert point.details["verification"] == "passed" and point.throughput.value > 0
        assert point.details["engine"] == "vector" and point.details["device_kind"] == "cpu"
    assert run.machine.gpu_drivers.opencl[0].kind == "cpu"


@pytest.mark.usefixtures("pocl")
def test_a_precision_that_the_device_has_not_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    run = measure_gpu(capsys, "peaks", "--precision", "single,half", "--width", WIDTH, "--chains", CHAINS)
    names = [point.parameters.get("precision") for point in run.experiments[0].points]
    has_half = "half" in run.machine.gpu_drivers.opencl[0].precisions
    assert names == (["single", "half"] if has_half else ["single"])


@pytest.mark.usefixtures("pocl")
def test_bandwidth_launches_and_latency_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    for words, unit in (
        (("--operation", "triad", "--array", ("1M", "1M,4M")[WHOLE], "--width", WIDTH), "bytes/s"),
        (("--memory", "pinned,pageable", "--block", "1M"), "bytes/s"),
        (("--intensity", ("0.125,16", "0.125,8,64")[WHOLE], "--array", "1M"), "FLOP/s"),
        (("--working-set", ("64k", "64k,1M")[WHOLE]), ""),
        (("launch",), ""),
    ):
        (result,) = measure_gpu(capsys, *words).experiments
        assert result.resource == "gpu" and result.points
        for point in result.points:
            assert point.details["verification"] == "passed", words
            assert unit in {"", point.throughput.unit}


@pytest.mark.usefixtures("pocl")
def test_a_file_is_loaded_from_storage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ("load", "--path", str(tmp_path), "--size", "8M", "--block", "1M,2M")
    run = measure_gpu(capsys, *words)
    (result,) = run.experiments
    rates: dict[Any, float] = {}
    for point in result.points:
        given = {**result.fixed, **point.parameters}
        assert point.details["verification"] == "passed", given
        assert point.throughput.unit == "bytes/s" and point.throughput.value > 0
        rates[given["part"], given["access"], given["block"]] = point.throughput.value
    assert len(rates) == 14, "whole and read by three ways, and the copy, by two blocks"
    (bound,) = [ceiling for ceiling in result.ceilings if ceiling.metric == "gpu_load/direct/1048576/2/1/cpu"]
    slower = min(rates["read", "direct", 1 << 20], rates["copy", "direct", 1 << 20])
    assert bound.value == pytest.approx(slower) and "the slower of reading alone" in bound.formula
    assert not list(tmp_path.iterdir()), "the data file goes with the run"


def test_block_beyond_its_file_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["gpu", "load", "--on", "cpu", "--path", str(tmp_path), "--size", "1M", "--block", "8M"]) == 2
    assert "use --size 8MiB or more" in capsys.readouterr().err


def test_without_a_gpu_the_command_says_what_it_looked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    survey = Local.survey

    def without_gpus(host: Local, path: Path | None = None) -> Machine:
        machine = survey(host, path)
        cpus = tuple(device for device in machine.gpu_drivers.opencl if device.kind == "cpu")
        return replace(machine, gpu_drivers=replace(machine.gpu_drivers, opencl=cpus))

    monkeypatch.setattr(Local, "survey", without_gpus)
    assert main(["gpu"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "libcuda.so.1: " in error and "no GPU can be measured here" in error


def test_run_includes_what_is_there() -> None:
    class Site:
        def __init__(self, gpus: int) -> None:
            self.gpus = gpus

        def topology(self) -> Topology:
            return Topology(processors=4, gpus=lambda: self.gpus)

        def kernels(self) -> dict[str, Declaration]:
            return engine.kernels()

    chosen = {gpus: {experiment.resource for experiment, _ in select(None, Site(gpus))} for gpus in (0, 1)}
    assert "gpu" not in chosen[0] and chosen[1] == chosen[0] | {"gpu"}


@pytest.mark.usefixtures("pocl")
def test_processor_runs_as_short_as_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpu", "--on", "cpu", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert BANDWIDTH.quick and shown.count("gpu.bandwidth ") == len(BANDWIDTH.quick.points())
    assert "on=cpu" in shown and "on=gpu" not in shown
