"""Runs loaders in plain NumPy and PyTorch on our points: same files, batches and computing time as our loader."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hwdyno.measure.hosts import programs
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.model.kernels import TRAINING_LOADER
from hwdyno.model.words import UserError
from hwdyno.system import foreign, signals
from hwdyno.system.foreign import Table

SCRIPT = Path(__file__).parent / "loading.py"
TIMEOUT_S = 600.0
FORMATS = {
    "npz": "", "npy": "", "csv": "", "tfrecord": "", "hdf5": "h5py", "jpeg": "pillow", "png": "pillow",
    "parquet": "pyarrow",
}  # fmt: skip
"""The formats that these loaders read, each with the package that it needs besides NumPy."""
_PACKAGES = {"numpy": "numpy", "pytorch": "torch"}
_JOB_PARAMETERS = (
    *("format", "samples_per_file", "accelerators", "batch_size", "read_threads", "prefetch", "epochs", "steps"),
    *("compute", "runtime", "cache", "read_columns"),
)


class LoaderPeer:
    """A loader, run by this Python or by the one that ``HWDYNO_LOADER_PYTHON`` names."""

    kernels = frozenset({TRAINING_LOADER})

    def __init__(self, name: str) -> None:
        self.name = name

    def version(self) -> str | None:
        """The package's version; none if it is not installed."""
        return _version(_python(), _PACKAGES[self.name])

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why the loader cannot measure this point; none if it can."""
        kind = str(parameters.get("format", ""))
        if kernel not in self.kernels:
            return f"a loader cannot measure {kernel}"
        if kind not in FORMATS:
            return f"neither NumPy nor PyTorch reads {kind}"
        if FORMATS[kind] and _version(_python(), FORMATS[kind]) is None:
            return f"{kind} needs {FORMATS[kind]}, which is not installed"
        if parameters.get("direct"):
            return "it reads through the page cache"
        if parameters.get("order") == "shuffled":
            return "its order differs"
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line, with a placeholder for the list of files."""
        job = {"loader": self.name, **{name: parameters.get(name) for name in _JOB_PARAMETERS}, "files": ["…"]}
        return [_python(), str(SCRIPT), json.dumps(job)]

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run the loader once on this point, with an empty page cache if ours had one."""
        why = self.unsupported_reason(kernel, parameters)
        if why:
            raise UserError(why)
        files = _files(parameters)
        job = {
            "loader": self.name,
            **{name: parameters.get(name) for name in _JOB_PARAMETERS},
            "files": [str(p) for p in files],
        }
        answer = _answers([_python(), str(SCRIPT), json.dumps(job)], self.name)
        return parse_output(answer, parameters, sum(path.stat().st_size for path in files) / len(files))


def parse_output(text: str, parameters: Mapping[str, Any], file_bytes: float) -> PeerReading:
    """Combine the ranks' answers, a JSON list. Raises ``OSError`` if it cannot be read or no step was done."""
    try:
        ranks = foreign.parse_json(text, "it")
        answers = [Table.from_value(rank, "it") for rank in (ranks if isinstance(ranks, list) else [ranks])]
        steps = sum(answer.count("steps") for answer in answers)
        elapsed = max((answer.number("elapsed_s") for answer in answers), default=0.0)
        cpu_s = sum(answer.number("cpu_s") for answer in answers)
        shares = [share for answer in answers for share in answer.numbers("au")]
    except UserError as error:
        raise OSError(f"its answer cannot be read: {error}") from None
    batch, per_file = int(parameters.get("batch_size", 1)), int(parameters.get("samples_per_file", 1))
    samples = batch * steps
    if not samples or not elapsed:
        raise OSError("it ran no step: there are fewer samples than one batch per accelerator")
    read = samples / per_file * file_bytes
    return PeerReading(
        throughput=read / elapsed,
        unit="bytes/s",
        rate=samples / elapsed,
        latency_ns_mean=None,
        cpu_s=cpu_s,
        operations=samples,
        details={
            "au": sum(shares) / len(shares) if shares else None,
            "samples_s": samples / elapsed,
            "cpu_s_per_gb": cpu_s / (read / 1e9),
        },
    )


def _files(parameters: Mapping[str, Any]) -> list[Path]:
    """The files of this point's folder in the engine's order."""
    folder, ending = Path(str(parameters.get("path", ""))) / "train", f"*.{parameters.get('format')}"
    found = sorted([*folder.glob(ending), *folder.glob(f"*/{ending}")])
    wanted = [int(parameters.get(name) or 0) for name in ("files", "subset")]
    most = min([count for count in wanted if count] or [len(found)])
    if not found or len(found) < most:
        raise UserError(f"{folder} has {len(found)} of {most} files; generate the data set first")
    return found[:most]


def _python() -> str:
    return os.environ.get("HWDYNO_LOADER_PYTHON") or sys.executable


@cache
def _version(python: str, package: str) -> str | None:
    """Read without importing the package, which takes seconds."""
    if python == sys.executable:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None
    script = f"import importlib.metadata as m; print(m.version('{package}'))"
    try:
        answer = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


def _answers(command: list[str], name: str) -> str:
    """The last line of the script, run shielded from Ctrl-C; if this process is stopped, all ranks are too."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        with signals.halting(lambda: programs.end(process)):
            out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{name}'s loader was killed after {TIMEOUT_S:.0f} s") from None
    finally:
        if process.poll() is None:
            programs.end(process)
    if process.returncode:
        lines = [line for line in err.strip().splitlines() if line.strip() and "its own words" not in line]
        raise OSError(f"{name}'s loader failed: {(lines or ['no message'])[-1].strip()[:200]}")
    return out.strip().rpartition("\n")[2]
