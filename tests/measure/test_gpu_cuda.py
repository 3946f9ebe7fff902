"""GPUs through CUDA, on a made driver: what is measured, verified and released, and what is refused in one line."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import warm
from hwdyno.analysis.ceilings import bound_for
from hwdyno.model.machine import Machine
from hwdyno.system.store import from_json
from nvidia_driver import driver as driver
from nvidia_driver import of_driver, says, surveyed


def by_cuda(driver: Path, tmp_path: Path, *words: str, **planted: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """``hwdyno gpu`` on the made driver, and what that says was never released."""
    left = tmp_path / "left"
    home = {"HWDYNO_HOME": str(tmp_path / "home"), "HWDYNO_FAKE_LEFT": str(left), "HWDYNO_FAKE_UNITS": "1"}
    options = ["--budget", "300ms", "--runtime", "0.01", "--json", "--no-page"]
    environ = of_driver(driver, **home, **planted)
    done = warm.run(["gpu", *words, *options], env=environ, cwd=tmp_path)
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
    (instance,) = Machine.of_survey({"gpu_drivers": surveyed(driver, HWDYNO_FAKE_MIG="1")}).gpu_drivers.cuda
    assert instance.mig is True
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
