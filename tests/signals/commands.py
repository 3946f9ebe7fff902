"""The commands that are ended: short, and together every kind of work that hwdyno does."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "target" / "release" / "hwdyno-engine"
HWDYNO = (sys.executable, "-m", "hwdyno")
JOB = "[global]\nsize=8m\nruntime=300ms\ntime_based=1\n[one]\nrw=randread\n[two]\nstonewall\nrw=randwrite\n"


@dataclass(frozen=True)
class Place:
    """Where one command works: the directory that it measures, and that of its reports."""

    data: Path
    out: Path
    port: int

    @property
    def earlier(self) -> Path:
        """A Run of another time, to report, compare and export."""
        return ROOT / "tests" / "data" / "run-1.json"

    @property
    def foreign(self) -> Path:
        """A result of fio's, to import."""
        return next(iter(sorted((ROOT / "tests" / "data" / "fio").glob("*.json"))))


@dataclass(frozen=True)
class Command:
    """One command line."""

    name: str
    words: tuple[str, ...]
    seconds: float = 1.5
    """Its length on an idle machine, about."""
    keeps: bool = True
    """Whether the first signal is a request, because there is something to keep."""
    stays_when_killed: tuple[str, ...] = ()
    """What a killed command leaves in the measured directory, and no other removes."""
    stays_when_generating: tuple[str, ...] = ()
    """What stays if a signal comes before the first reading, for the same command to go on with."""
    program: tuple[str, ...] = HWDYNO
    environment: tuple[tuple[str, str], ...] = ()
    is_here: Callable[[], bool] = lambda: True

    @property
    def works_in_directory(self) -> bool:
        """Whether it makes files in the measured directory."""
        return "{data}" in self.words and self.words[0] in {
            "run",
            "watch",
            "storage",
            "training",
            "inference",
            "together",
        }

    def line(self, place: Place) -> list[str]:
        """The whole command line at a place."""
        values = {
            "data": str(place.data), "out": str(place.out), "earlier": str(place.earlier),
            "foreign": str(place.foreign), "port": str(place.port), "job": str(place.out / "job.fio"),
        }  # fmt: skip
        if self.name == "job file":
            (place.out / "job.fio").write_text(JOB)
        return [*self.program, *(word.format_map(values) for word in self.words)]


def _has(*programs: str) -> Callable[[], bool]:
    return lambda: all(shutil.which(program) for program in programs)


def _has_pocl() -> bool:
    return any(Path("/etc/OpenCL/vendors").glob("pocl*"))


def _measuring(name: str, *words: str, **more: object) -> Command:
    common = ("--path", "{data}", "--no-page")
    return Command(name, (*words, *common), **more)  # type: ignore[arg-type]


SHORT = ("--runtime", "200ms", "--ramp-time", "0", "--size", "8M")

COMMANDS = (
    Command("run", ("run", "--only", "storage.iodepth", "--budget", "2s", "--path", "{data}", "--out", "{out}/report"),
            seconds=4.5),
    Command("watch", ("watch", "--only", "storage.iodepth", "--budget", "2s", "--path", "{data}", "--metrics",
                      "{out}/metrics"), seconds=4.5),
    _measuring("storage", "storage", "--rw", "randread,randwrite", "--iodepth", "1,4", *SHORT),
    _measuring("metadata create", "storage", "--operation", "create", "--nrfiles", "20000", "--numjobs", "2",
               "--runtime", "500ms"),
    _measuring("metadata stat", "storage", "--operation", "stat,rename", "--nrfiles", "500", "--runtime", "300ms"),
    _measuring("verify", "storage", "--rw", "randwrite", "--verify", "crc32c", *SHORT),
    _measuring("storage peers", "storage", "--rw", "randread", "--iodepth", "1", "--peers", *SHORT,
               is_here=_has("fio")),
    _measuring("job file", "storage", "job", "{job}"),
    _measuring("snia", "storage", "snia", "iops", "--budget", "2s", "--size", "16M"),
    _measuring("memory", "memory", "--threads", "1,2", "--runtime", "100ms"),
    _measuring("compute", "compute", "--threads", "1,2", "--runtime", "100ms"),
    _measuring("linpack", "compute", "--operation", "lu,gemm", "--n", "1500", "--runtime", "200ms"),
    # Most of its time its compiler runs, which nothing cuts short.
    Command("gpu", ("gpu", "--on", "cpu", "--no-page"), seconds=12.0, is_here=_has_pocl),
    _measuring("network", "network", "streams", "--runtime", "200ms"),
    _measuring("network peers", "network", "streams", "--runtime", "1s", "--peers", is_here=_has("iperf3")),
    Command("network server", ("network", "server", "--port", "{port}", "--runtime", "3s"), seconds=3.0),
    _measuring("training", "training", "--workload", "cosmoflow", "--accelerators", "1", "--samples", "8",
               "--epochs", "2", "--runtime", "1s", stays_when_generating=("hwdyno-*",)),
    _measuring("vector search", "inference", "--vector-search", "diskann", "--vectors", "5000", "--runtime", "500ms"),
    _measuring("cold start", "inference", "--model", "tiny", "--cold", "raw,mapped"),
    _measuring("images", "inference", "--images", "8", "--threads", "1,2", "--runtime", "300ms", seconds=3.0),
    _measuring("kv restore", "inference", "--model", "tiny", "--restore", "onnxruntime", "--tokens", "16,64"),
    _measuring("checkpoint", "training", "--checkpoint", "llama3-8b", "--scale", "0.0005", "--ranks", "1"),
    _measuring("together", "together", "--resources", "storage,compute", "--at", "storage=4,compute=1",
               "--budget", "2s", seconds=6.0),
    _measuring("study", "study", "jetson-sequential-read", "--budget", "2s"),
    _measuring("agents", "storage", "--rw", "randread", "--iodepth", "1,2", *SHORT,
               environment=(("HWDYNO_AGENTS", f"{ENGINE} serve"),), is_here=ENGINE.exists),
    Command("report page", ("report", "{earlier}", "--html", "{out}/page.html"), keeps=False),
    Command("report pictures", ("report", "{earlier}", "--png", "{out}/png"), keeps=False),
    Command("import", ("report", "{foreign}", "--html", "{out}/page.html"), keeps=False),
    Command("compare", ("compare", "{earlier}", "{earlier}"), keeps=False, seconds=0.8),
    Command("export", ("export", "{earlier}", "--parquet", "{out}/runs.parquet"), keeps=False, seconds=0.8),
    Command("history", ("history",), keeps=False, seconds=0.3),
    Command("machine", ("machine",), keeps=False, seconds=0.3),
    Command("benchmarks", ("--path", "{data}", "--pairs", "1", "--runtime", "0.1", "--only", "storage"),
            program=(sys.executable, "-m", "benchmarks"), stays_when_killed=(".hwdyno-bench-*",),
            is_here=_has("fio")),
)  # fmt: skip


def here() -> list[Command]:
    """The commands that this machine can run."""
    return [command for command in COMMANDS if command.is_here()]


def environment(place: Place, home: Path, mark: str) -> dict[str, str]:
    """What a command and its descendants see; ``mark`` is how they are found."""
    temporary = place.out / "tmp"
    temporary.mkdir(exist_ok=True)
    return {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(ROOT)]), "COLUMNS": "100",
        "HWDYNO_HOME": str(home), "TMPDIR": str(temporary), "HWDYNO_MOMENT": mark,
        "POCL_CACHE_DIR": str(place.out / "pocl"),  # Empty, so that each kernel is compiled.
    }  # fmt: skip
