"""Runs DLIO, the reference tool of training storage, on one of our points: same files, batches and computing time."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hwdyno.formats import dlio
from hwdyno.measure.hosts import programs
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.model.kernels import TRAINING_LOADER
from hwdyno.model.words import UserError
from hwdyno.system import safe_files, signals
from hwdyno.system.processes import SILENT, family, read_stat

TIMEOUT_S = 600.0
GUESS_BYTES_S = 1.5e9
"""DLIO's best load rate on a machine with two cores; gives the epochs of a point without computing."""
MIN_EPOCHS = 3
"""The first epoch starts the readers, so CPU cost is taken from the later ones."""
_LOADER = {"tfrecord": "tensorflow", **dict.fromkeys(("npz", "npy", "hdf5", "jpeg", "png", "csv"), "pytorch")}
_EPOCH = re.compile(r"Starting epoch (\d+): (?:Overriding number of steps to )?(\d+)")
_LAST = "Maximum number of steps reached"
# Open MPI refuses root and more ranks than cores without these; other MPIs ignore them.
_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
}


class Dlio:
    """``dlio_benchmark``, on the path or named by ``HWDYNO_DLIO``."""

    name = "dlio"
    kernels = frozenset({TRAINING_LOADER})

    def version(self) -> str | None:
        """DLIO's version, such as ``2.0.0``; none if it is not installed."""
        found = _program()
        return _version(found) if found else None

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why DLIO cannot measure this point; none if it can."""
        if kernel not in self.kernels:
            return f"DLIO cannot measure {kernel}"
        kind = str(parameters.get("format", ""))
        if kind not in _LOADER:
            return f"DLIO 2.0 needs further files to load {kind}"
        if _LOADER[kind] == "pytorch" and int(parameters.get("samples_per_file", 1)) > 1:
            return "DLIO's PyTorch loader needs one sample per file"
        if parameters.get("direct"):
            return "DLIO 2.0 reads through the page cache"
        if int(parameters.get("accelerators", 1)) > 1 and shutil.which("mpirun") is None:
            return "DLIO needs mpirun for more than one accelerator"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line, with the whole workload as overrides, so that it needs no DLIO file."""
        loader, ranks = _LOADER[str(parameters["format"])], int(parameters.get("accelerators", 1))
        threads, prefetch = int(parameters.get("read_threads", 4)), int(parameters.get("prefetch", 2))
        steps, epochs = _length(parameters)
        shuffle = "seed" if parameters.get("order") == "shuffled" else "off"
        workload: dict[str, object] = {
            "framework": loader,
            "workflow.generate_data": False,
            "workflow.train": True,
            "workflow.evaluation": False,
            "workflow.checkpoint": False,
            "dataset.data_folder": parameters.get("path", ""),
            "dataset.format": parameters["format"],
            "dataset.num_files_train": _files(parameters),
            "dataset.num_files_eval": 0,
            "dataset.num_samples_per_file": int(parameters.get("samples_per_file", 1)),
            "dataset.num_subfolders_train": int(parameters.get("subfolders") or 0),
            "dataset.num_subfolders_eval": 0,
            "dataset.record_length": float(parameters.get("record_bytes", 0)),
            "dataset.record_length_stdev": float(parameters.get("record_bytes_stdev", 0)),
            "dataset.file_prefix": parameters.get("prefix") or "img",
            "reader.data_loader": loader,
            "reader.batch_size": int(parameters.get("batch_size", 1)),
            "reader.read_threads": threads,
            # PyTorch's loader divides prefetch among its readers, TensorFlow's counts batches
            "reader.prefetch_size": prefetch * (max(1, threads) if loader == "pytorch" else 1),
            "reader.transfer_size": int(parameters.get("transfer_size", 512 << 10)),
            "reader.file_shuffle": shuffle,
            "reader.sample_shuffle": shuffle,
            "train.epochs": epochs,
            "train.total_training_steps": steps,
            "train.computation_time": float(parameters.get("compute", 0.0)),
            "metric.au": float(parameters.get("au_pass", 0.9)),
        }
        ours = [f"++workload.{key}={value}" for key, value in workload.items()]
        program = [_program() or "dlio_benchmark", "workload=default", *ours]
        return ["mpirun", "-n", str(ranks), *program] if ranks > 1 else program

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run DLIO once on this point, with an empty page cache if ours had one."""
        why = self.unsupported_reason(kernel, parameters)
        if why:
            raise UserError(why)
        files = data_files(parameters)
        if parameters.get("cache") == "drop":
            _forget(files)
        with safe_files.temporary("hwdyno-dlio-") as folder:
            out = folder / "out"
            # Hydra writes a copy of its configuration to the directory where it starts.
            places = [f"++workload.output.folder={out}", f"hydra.run.dir={folder}", "hydra.output_subdir=null"]
            watch = _Watch()
            _run_dlio([*self.command(kernel, parameters), *places], watch, folder)
            try:
                text = (out / "summary.json").read_text(encoding="utf-8")
            except OSError:
                raise OSError("DLIO ended without a summary.json") from None
        return parse_output(text, parameters, sum(path.stat().st_size for path in files) / max(1, len(files)), watch)


PEER = Dlio()


class _Watch:
    """CPU time of DLIO's processes at the start and end of each epoch, followed by its output."""

    def __init__(self) -> None:
        self.began: dict[int, float] = {}
        """CPU time at the start of each epoch, s."""
        self.ended = 0.0
        """CPU time after the last step of the last epoch, s."""
        self.steps = 0

    def line(self, text: str, cpu_s: Callable[[], float]) -> None:
        """Process one line of DLIO's output."""
        if found := _EPOCH.search(text):
            self.began.setdefault(int(found[1]), cpu_s())
            self.steps = int(found[2])
        elif _LAST in text:
            self.ended = cpu_s()

    @property
    def epoch_s(self) -> float | None:
        """Mean CPU time of an epoch without the first, s; none if there is only one."""
        after = sorted(self.began)[1:]
        return (self.ended - self.began[after[0]]) / len(after) if after and self.ended else None

    @property
    def start_s(self) -> float | None:
        """CPU time before the first epoch, s."""
        return self.began.get(1)


def parse_output(
    text: str, parameters: Mapping[str, Any], file_bytes: float, watch: _Watch | None = None
) -> PeerReading:
    """Read a ``summary.json``; ``file_bytes`` is the real size of a file, where DLIO counts nominal records.

    Throughput and CPU time leave out the first epoch, which starts the readers; AU is DLIO's, over all epochs.
    Raises ``OSError`` in one line if the summary cannot be read.
    """
    try:
        ((point,),) = [result.points for result in dlio.read(text, "summary.json").experiments]
    except UserError as error:
        raise OSError(str(error)) from None
    by_epoch = point.details["samples_s_dlio_by_epoch"]
    rates = [rate for rate in (by_epoch[1:] or by_epoch) if rate > 0]
    if not rates:
        raise OSError("DLIO ran no step")
    batch, per_file = int(parameters.get("batch_size", 1)), int(parameters.get("samples_per_file", 1))
    samples_s = len(rates) / sum(1 / rate for rate in rates)
    steps, epochs = watch.steps if watch else 0, max(1, len(rates))
    operations = steps * batch * int(parameters.get("accelerators", 1)) * epochs
    epoch_s = watch.epoch_s if watch else None
    details: dict[str, Any] = {
        "au": point.details["au_dlio"],
        "au_by_epoch": point.details["au_dlio_by_epoch"],
        "samples_s": point.details["samples_s_dlio"],
        "passes": point.details.get("passes"),
        "start_cpu_s": watch.start_s if watch else None,
        "cpu_s_per_gb": epoch_s * epochs / (operations / per_file * file_bytes / 1e9)
        if epoch_s and operations
        else None,
    }
    return PeerReading(
        throughput=samples_s / per_file * file_bytes,
        unit="bytes/s",
        rate=samples_s,
        latency_ns_mean=None,
        cpu_s=epoch_s * epochs if epoch_s and operations else None,
        operations=operations,
        details=details,
    )


def data_files(parameters: Mapping[str, Any]) -> list[Path]:
    """The files in this point's folder that DLIO reads, in DLIO's order."""
    folder, ending = Path(str(parameters.get("path", ""))) / "train", f"*.{parameters.get('format')}"
    found = sorted([*folder.glob(ending), *folder.glob(f"*/{ending}")], key=lambda path: path.name)
    wanted = _files(parameters)
    if not found or len(found) < wanted:
        raise UserError(f"{folder} has {len(found)} of {wanted} files; generate the data set first")
    return found[:wanted]


def _files(parameters: Mapping[str, Any]) -> int:
    files, subset = int(parameters.get("files") or 0), int(parameters.get("subset") or 0)
    return min(files, subset) if subset else files


def _length(parameters: Mapping[str, Any]) -> tuple[int, int]:
    """Steps per epoch (-1 for all) and epochs: DLIO cannot end by time, so our runtime is converted to a count."""
    batch, ranks = int(parameters.get("batch_size", 1)), int(parameters.get("accelerators", 1))
    whole = _files(parameters) * int(parameters.get("samples_per_file", 1)) // (batch * ranks)
    steps = min(int(parameters.get("steps") or whole), whole)
    epochs, runtime = int(parameters.get("epochs", 1)), float(parameters.get("runtime") or 0.0)
    step_bytes = batch * ranks * float(parameters.get("record_bytes", 1))
    step_s = max(float(parameters.get("compute") or 0.0), step_bytes / GUESS_BYTES_S)
    if runtime:
        fits = max(1, int(runtime / step_s))
        # after the first epoch the data is in the page cache again
        least = 1 if parameters.get("cache") == "drop" else MIN_EPOCHS
        epochs = min(epochs, max(least, -(-fits // max(1, steps))))
    return (steps if 0 < steps < whole else -1), max(1, epochs)


def _program() -> str | None:
    return shutil.which(os.environ.get("HWDYNO_DLIO") or "dlio_benchmark")


@cache
def _version(program: str) -> str | None:
    """Read by the Python of DLIO's script, because starting DLIO takes seconds."""
    try:
        first = Path(program).read_text(encoding="utf-8", errors="replace").partition("\n")[0]
        python = first.removeprefix("#!").strip().split()
        script = "import importlib.metadata as m; print(m.version('dlio_benchmark'))"
        answer = subprocess.run([*python, "-c", script], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


def _forget(files: Sequence[Path]) -> None:
    for path in files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _run_dlio(command: list[str], watch: _Watch, folder: Path) -> None:
    """Run DLIO to its end, shielded from Ctrl-C; if this process is stopped, DLIO and its readers are too."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder,
            start_new_session=True, env={**os.environ, **_ENVIRONMENT, **SILENT},
        )  # fmt: skip
    except OSError as error:
        raise OSError(f"DLIO cannot be started: {error.strerror}") from None
    assert process.stdout is not None
    end, partial, last = time.monotonic() + TIMEOUT_S, b"", ""
    try:
        with selectors.DefaultSelector() as ready, signals.halting(lambda: _end(process)):
            ready.register(process.stdout, selectors.EVENT_READ)
            while True:
                if not ready.select(max(0.0, end - time.monotonic())):
                    raise TimeoutError(f"DLIO was killed after {TIMEOUT_S:.0f} s")
                piece = os.read(process.stdout.fileno(), 1 << 16)
                if not piece:
                    break
                *lines, partial = (partial + piece).split(b"\n")
                for line in lines:
                    text = line.decode(errors="replace")
                    watch.line(text, lambda: _cpu_s(process.pid))
                    last = text.strip() or last
        status = process.wait(timeout=max(1.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"DLIO was killed after {TIMEOUT_S:.0f} s") from None
    finally:
        _end(process)
    if status:
        raise OSError(f"DLIO failed with status {status}: {last[:200] or 'no message'}")


def _end(process: subprocess.Popen[bytes]) -> None:
    for pid in reversed(family(process.pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    programs.end(process)  # and readers whose parent ended first


def _cpu_s(pid: int) -> float:
    """CPU time of a process and its descendants, ended children included, s (proc(5): utime to cstime)."""
    ticks = sum(int(value) for process in family(pid) for value in read_stat(process)[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")
