"""GPUs: what drivers state, the ceilings that follow, and the kernels on the processor's OpenCL driver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from here import missing
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

FAKE = Path(__file__).parents[1] / "data" / "fake_nvidia.c"
H100 = CudaDevice(
    name="H100", compute_capability="9.0", multiprocessors=132, boost_max_hz=1.98e9, memory_clock_max_hz=2.619e9,
    memory_bus_bits=5120, l2_bytes=50 << 20, link_generation=1, link_lanes=16, link_generation_max=5, link_lanes_max=16,
)  # fmt: skip


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the made driver as NVIDIA's two libraries."""
    if not shutil.which("cc") or not shutil.which("c++"):
        missing("this machine has no C and C++ compilers, by which the made driver compiles kernels")
    folder = tmp_path_factory.mktemp("driver")
    library = folder / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, FAKE, "-ldl"], check=True)
    for name in ("libnvidia-ml.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcufile.so.0"):
        shutil.copy(library, folder / name)
    return folder


def of_driver(driver: Path, **planted: str) -> dict[str, str]:
    """The environment of a process that has the made driver alone."""
    libraries = {"LD_LIBRARY_PATH": str(driver), "HWDYNO_LIBRARIES": str(driver), "OCL_ICD_VENDORS": "/nonexistent"}
    return {**os.environ, **libraries, **planted}


def surveyed(driver: Path, **planted: str) -> Any:
    """What a new process finds with the made driver; OpenCL has no driver there."""
    environ = of_driver(driver, **planted)
    code = "import json; from hwdyno.measure import engine; print(json.dumps(engine.survey()))"
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["gpu_drivers"]


def says(found: Any, name: str) -> str:
    (library,) = (library for library in found["looked_for"] if library["name"] == name)
    return str(library["says"])


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
    run = measure_gpu(capsys, "--precision", "single,double,int32", "--width", "16", "--chains", "8")
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
    run = measure_gpu(capsys, "peaks", "--precision", "single,half", "--width", "16", "--chains", "8")
    names = [point.parameters.get("precision") for point in run.experiments[0].points]
    has_half = "half" in run.machine.gpu_drivers.opencl[0].precisions
    assert names == (["single", "half"] if has_half else ["single"])


@pytest.mark.usefixtures("pocl")
def test_bandwidth_launches_and_latency_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    for words, unit in (
        (("--operation", "triad", "--array", "1M,4M", "--width", "16"), "bytes/s"),
        (("--memory", "pinned,pageable", "--block", "1M"), "bytes/s"),
        (("--intensity", "0.125,8,64", "--array", "1M"), "FLOP/s"),
        (("--working-set", "64k,1M"), ""),
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


def by_cuda(driver: Path, tmp_path: Path, *words: str, **planted: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """``hwdyno gpu`` on the made driver, and what that says was never released."""
    left = tmp_path / "left"
    home = {"HWDYNO_HOME": str(tmp_path / "home"), "HWDYNO_FAKE_LEFT": str(left), "HWDYNO_FAKE_UNITS": "1"}
    options = ["--budget", "300ms", "--runtime", "0.05", "--json", "--no-page"]
    command = [sys.executable, "-m", "hwdyno", "gpu", *words, *options]
    environ = of_driver(driver, **home, **planted)
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120)
    return done, left.read_text() if left.exists() else ""


@pytest.mark.parametrize(
    ("words", "units"),
    [
        (
            ("--precision", "single,double,int32,int8", "--width", "4", "--chains", "4"),
            {"FLOP/s", "IOP/s"},
        ),
        (("--operation", "copy,mul,add,triad,dot", "--array", "100k", "--width", "4"), {"bytes/s"}),
        (
            (
                "--operation", "host-to-device,device-to-host,both-ways,device-to-device",
                "--memory", "pinned,pageable", "--block", "1M",
            ),
            {"bytes/s"},
        ),
        (("--intensity", "0.125,1,16.5", "--array", "1M"), {"FLOP/s"}),
        (("--working-set", "64k"), {"operations/s"}),
        (("launch",), {"operations/s"}),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else "",
)  # fmt: skip
def test_cuda_is_measured_verified_and_released(
    driver: Path, tmp_path: Path, words: tuple[str, ...], units: set[str]
) -> None:
    done, left = by_cuda(driver, tmp_path, *words)
    assert done.returncode in {0, 3}, done.stderr
    assert "has been checked on a real GPU yet" in done.stderr
    (result,) = from_json(done.stdout).experiments
    assert result.points and {point.throughput.unit for point in result.points} == units
    for point in result.points:
        details = point.details
        assert details["verification"] == "passed", point.parameters
        assert (details["interface"], details["device_name"]) == ("CUDA", "Fake M40")
        assert details["clock_hz"] == 949e6 and details["power_w"] == 61.5
        assert details["slowed_by"] == "heat (software), power cap"
    assert left == ""


def test_cuda_loads_from_storage_and_releases(driver: Path, tmp_path: Path) -> None:
    words = ("load", "--path", str(tmp_path), "--size", "8M", "--block", "1M")
    done, left = by_cuda(driver, tmp_path, *words)
    assert done.returncode in {0, 3}, done.stderr
    (result,) = from_json(done.stdout).experiments
    assert len(result.points) == 7 and left == ""
    for point in result.points:
        assert point.details["verification"] == "passed", point.parameters
        assert point.details["interface"] == "CUDA"


def test_gpudirect_storage_is_named_and_used_where_it_is(driver: Path, tmp_path: Path) -> None:
    assert "through the host's memory" in says(surveyed(driver), "libcufile.so.0")
    words = ("--access", "gds", "--path", str(tmp_path), "--part", "whole", "--size", "8M", "--block", "1M")
    done, left = by_cuda(driver, tmp_path, *words)
    assert done.returncode in {0, 3}, done.stderr
    (point,) = from_json(done.stdout).experiments[0].points
    assert point.details["verification"] == "passed" and point.details["nvidia_fs"] is False
    assert "gds_through_host" in {note.code for note in point.notes} and left == ""


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ("cuFileDriverOpen:5001", "its driver is not initialized"),
        ("cuFileHandleRegister@1:5008", "this file or filesystem is not supported; use --access direct"),
        ("cuFileBufRegister@3:5009", "this GPU is not supported"),
        ("cuFileRead@4:5010", "nvidia-fs failed"),
        ("cuFileBufRegister@2:5011", "CUDA error 5011"),
    ],
)
def test_what_cufile_refuses_is_one_line_and_leaves_nothing(driver: Path, tmp_path: Path, plan: str, why: str) -> None:
    words = ("--access", "gds", "--path", str(tmp_path), "--part", "whole", "--size", "8M", "--block", "1M")
    done, left = by_cuda(driver, tmp_path, *words, HWDYNO_FAKE_FAIL=plan)
    assert why in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and left == ""


def test_without_cufile_the_remedy_is_named(driver: Path, tmp_path: Path) -> None:
    for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libnvrtc.so.13"):
        shutil.copy(driver / name, tmp_path)
    words = ("--access", "gds", "--path", str(tmp_path), "--part", "whole", "--size", "8M", "--block", "1M")
    done, _ = by_cuda(tmp_path, tmp_path, *words)
    assert "GPUDirect Storage is not installed" in done.stderr and "use --access direct" in done.stderr


PRODUCTS = ("--precision", "fp16,bf16,tf32,fp64,fp8,int8", "--n", "64")


def test_matrix_products_are_verified(driver: Path, tmp_path: Path) -> None:
    done, left = by_cuda(driver, tmp_path, *PRODUCTS, HWDYNO_FAKE_CAPABILITY="90")
    assert done.returncode in {0, 3}, done.stderr
    (result,) = from_json(done.stdout).experiments
    units = {point.parameters["precision"]: point.throughput.unit for point in result.points}
    assert units == {**dict.fromkeys(("bf16", "fp16", "tf32", "fp64", "fp8"), "FLOP/s"), "int8": "IOP/s"}
    for point in result.points:
        details = point.details
        assert details["verification"] == "passed" and details["verified_words"] == 64, point.parameters
        assert (details["engine"], details["library"]) == ("tensor", "cuBLASLt 12.8.4")
        bound = bound_for(result.ceilings, {**result.fixed, **point.parameters})
        assert bound is not None and bound.ceiling.metric.startswith("gpu_peak/tensor/")
    assert left == ""


def test_cublas_multiplies_same_with_one_call(driver: Path, tmp_path: Path) -> None:
    """It has no products of 8-bit floating point, and is not short of them."""
    words = ("--library", "cublas")
    done, left = by_cuda(driver, tmp_path, *PRODUCTS, *words, HWDYNO_FAKE_CAPABILITY="90")
    assert done.returncode in {0, 3}, done.stderr
    (result,) = from_json(done.stdout).experiments
    assert [point.parameters["precision"] for point in result.points] == ["fp16", "bf16", "tf32", "fp64", "int8"]
    assert {point.details["library"] for point in result.points} == {"cuBLAS 12.8.4"}
    assert {point.details["verification"] for point in result.points} == {"passed"} and left == ""
    done, _ = by_cuda(driver, tmp_path, "--precision", "fp8", "--n", "64", *words, HWDYNO_FAKE_CAPABILITY="90")
    assert "cuBLAS has no fp8 products; --library cublaslt has" in done.stderr


def test_mig_instance_has_no_memory_ceiling(driver: Path, tmp_path: Path) -> None:
    (device,) = Machine.of_survey({"gpu_drivers": surveyed(driver, HWDYNO_FAKE_MIG="1")}).gpu_drivers.cuda
    assert device.mig is True
    words = ("--operation", "triad", "--array", "4M", "--width", "4")
    bounds = {}
    for planted in ({}, {"HWDYNO_FAKE_MIG": "1"}):
        done, left = by_cuda(driver, tmp_path, *words, **planted)
        assert done.returncode in {0, 3} and left == "", done.stderr
        (result,) = from_json(done.stdout).experiments
        bounds[len(planted)] = {ceiling.metric for ceiling in result.ceilings}
    whole, part = ([name for name in bounds[at] if name.startswith("gpu_memory/")] for at in (0, 1))
    assert whole and not part, bounds


def test_a_wrong_product_is_seen(driver: Path, tmp_path: Path) -> None:
    words = ("--precision", "fp16", "--n", "64")
    done, _ = by_cuda(driver, tmp_path, *words, HWDYNO_FAKE_CAPABILITY="90", HWDYNO_FAKE_WRONG="1")
    (point,) = from_json(done.stdout).experiments[0].points
    assert point.details["verification"] == "failed" and point.validity == "invalid"


def test_tensor_cores_without_a_precision_are_not_short_of_it(driver: Path, tmp_path: Path) -> None:
    done, _ = by_cuda(driver, tmp_path, *PRODUCTS, HWDYNO_FAKE_CAPABILITY="75")
    names = [point.parameters["precision"] for point in from_json(done.stdout).experiments[0].points]
    assert names == ["fp16", "int8"]
    done, left = by_cuda(driver, tmp_path, "matrix", "--n", "64")
    assert "compute capability 5.2 have no fp16 products (since 7.0)" in done.stderr and left == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ("cublasLtCreate@1:1", "it could not be started"),
        pytest.param(
            "cublasLtMatmulDescCreate@1:3", "out of memory (CUBLAS_STATUS_ALLOC_FAILED)", marks=pytest.mark.long
        ),
        pytest.param(
            "cublasLtMatrixLayoutCreate@2:3", "out of memory (CUBLAS_STATUS_ALLOC_FAILED)", marks=pytest.mark.long
        ),
        ("cublasLtMatmul@1:15", "does not support it (CUBLAS_STATUS_NOT_SUPPORTED)"),
        pytest.param("cublasLtMatmul@3:13", "the GPU failed", marks=pytest.mark.long),
        pytest.param(
            "cublasCreate_v2@1:3", "cuBLAS: out of memory (CUBLAS_STATUS_ALLOC_FAILED)", marks=pytest.mark.long
        ),
        pytest.param("cublasSetStream_v2@1:1", "cuBLAS: it could not be started", marks=pytest.mark.long),
        ("cublasGemmEx@2:13", "cuBLAS: the GPU failed"),
        ("cuMemAlloc_v2@4:2", "B of its memory: a GPU is out of memory"),
    ],
)
def test_what_cublas_refuses_is_one_line_and_leaves_nothing(driver: Path, tmp_path: Path, plan: str, why: str) -> None:
    words = ("--precision", "fp16", "--n", "64", "--library", "cublas" if "Lt" not in plan else "cublaslt")
    done, left = by_cuda(driver, tmp_path, *words, HWDYNO_FAKE_CAPABILITY="90", HWDYNO_FAKE_FAIL=plan)
    assert why in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and left == ""


@pytest.mark.parametrize("old", [False, True])
def test_without_cublas_or_with_an_old_one_the_remedy_is_named(driver: Path, tmp_path: Path, old: bool) -> None:
    for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libnvrtc.so.13"):
        shutil.copy(driver / name, tmp_path)
    if old:
        source = tmp_path / "old.c"
        source.write_text("int cublasLtCreate(void **library) { return 1; }")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libcublasLt.so.13", source], check=True)
    done, _ = by_cuda(tmp_path, tmp_path, "--precision", "fp16", "--n", "64", HWDYNO_FAKE_CAPABILITY="90")
    assert ("it has no cublasLtGetVersion" if old else "pip install nvidia-cublas") in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ("cuDevicePrimaryCtxRetain:46", "busy or unavailable"),
        ("cuMemAlloc_v2@2:2", "out of memory"),
        ("cuMemcpyHtoDAsync_v2@1:719", "was lost or hangs"),
        ("cuEventCreate@2:2", "out of memory"),
        ("cuStreamCreate@1:2", "out of memory"),
        ("cuLaunchKernel@5:214", "ECC error"),
        ("cuEventSynchronize@7:999", "was lost or hangs"),
        ("cuModuleLoadData@1:222", "CUDA error 222"),
        ("nvrtcCompileProgram@1:6", "refused a kernel for sm_52"),
    ],
)
def test_a_call_that_fails_is_one_line_and_leaves_nothing(driver: Path, tmp_path: Path, plan: str, why: str) -> None:
    words = ("--operation", "triad", "--array", "64k", "--width", "1")
    done, left = by_cuda(driver, tmp_path, *words, HWDYNO_FAKE_FAIL=plan)
    assert done.returncode == 2
    assert why in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and left == ""
