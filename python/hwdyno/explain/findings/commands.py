"""The command that measures a point again: its axes, and the other options of its Run's command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

from hwdyno.analysis.ceilings.loader_reads import FILES
from hwdyno.analysis.resources import find
from hwdyno.model.axes import shares_joined
from hwdyno.model.kernels import INFERENCE_KV_CACHE, INFERENCE_STREAM, OBJECT_REQUESTS, TRAINING_LOADER
from hwdyno.model.machine import node_name
from hwdyno.model.units import LARGEST_SIZE, parse_size
from hwdyno.model.words import Axis, Declaration, ExperimentResult, Parameters, Run, Scalar, UserError
from hwdyno.system.urls import OBJECT_STORE

_NO_AXES = {
    *("seed", "path", "cpus", "files", "samples_per_file", "record_bytes", "record_bytes_stdev", "format", "prefix"),
    *("subfolders", "row_group", "columns", "storage", "subset", "au_pass", "job", "nb"),
}
"""Options of every command, and parameters that the runner or a data set decides."""
_SWITCHES = {
    *("peers", "dry-run", "json", "overwrite", "no-page", "quiet", "once", "parallel-clients", "keys", "help"),
    *(
        "after-power-cut",
        "keep",
        "generate",
        "create-bucket",
        "no-client",
        "no-plain",
        "no-grid",
        "no-inference",
        "help-all",
    ),
}
"""Options without a value."""
_CARRIED = {"profile", "seed", "ceiling", "link", "device"}
"""Options that say how to measure, for every resource."""
_OF_A_DEVICE = {"destroy", "serial"}
_OF_A_REPORT = {
    *("out", "overwrite", "store", "no-page", "quiet", "json", "dry-run", "fail-under", "output-format", "fio-dir"),
    *("summary", "generate", "load", "budget", "peers"),
}
"""Options that change no reading of a point."""
_WHOLE = {"job", "snia"}
"""Tests of ``hwdyno storage`` that are repeated as a whole: no axis selects one of their points."""
_OF_SNIA = {"size", "ioengine", "direct", "offset"}
"""Axes that SNIA's tests leave open."""
_OURS, _SCRATCH = "hwdyno-", "hwdyno-scratch-"
"""What the names of made folders begin with, of a run's own directory among them."""
_SECTOR = 512
_PAGE = 4096


_COUNT = (1, 1024)
_OF_IMPORTED: dict[str, dict[str, tuple[str, ...] | tuple[float, float]]] = {
    "storage": {
        "rw": ("read", "write", "rw", "randread", "randwrite", "randrw", "trim", "randtrim"),
        "rwmixread": (0, 100), "bs": (512, 10**12), "iodepth": _COUNT, "numjobs": _COUNT, "direct": (0, 1),
        "size": (1, 10**18), "runtime": (1e-3, 1e6), "ioengine": ("io_uring", "libaio", "psync", "mmap", "stdio"),
        "drop_cache": (0, 1), "sync": ("none", "sync", "dsync"),
    },
    "memory": {
        "operation": ("read", "write", "copy", "nt_write", "nt_copy", "scale", "add", "triad", "nt_triad"),
        "threads": _COUNT, "working_set": (4096, 10**14), "stride": (8, 10**9), "delay": (0, 10**9),
        "runtime": (1e-3, 1e6),
    },
    "compute": {"threads": _COUNT, "n": (2, 10**6), "runtime": (1e-3, 1e6)},
    "network": {
        "protocol": ("tcp", "udp"), "streams": (1, 128), "message": (1, 10**6), "block": (1, 10**9),
        "direction": ("up", "down", "both"), "runtime": (1e-3, 1e6), "rate": (0.0, 1e14),
    },
    "training": {"accelerators": (1, 4096)},
}  # fmt: skip
"""The axes of a foreign result that the resource's command takes, by choice or by range, of whole numbers where its
ends are. Other tools have other words for their tests, and a resource without a command is measured by ``hwdyno run``.
"""


def takable(result: ExperimentResult, parameters: Parameters) -> Parameters:
    """What a command of ours takes of a foreign result's parameters."""
    known = _OF_IMPORTED.get(result.resource, {})
    found = {name: value for name, value in parameters.items() if name in known and _fits(value, known[name])}
    if "message" in found:  # A round trip, which has no stream and no block.
        found = {name: value for name, value in found.items() if name not in {"streams", "block", "rate"}}
    if "bs" in found and parse_size(str(found.get("size", LARGEST_SIZE))) < parse_size(
        str(found["bs"]).partition(",")[0]
    ):
        found.pop("size")
    return found


def _fits(value: Scalar, allowed: tuple[str, ...] | tuple[float, float]) -> bool:
    """Whether an option takes a value: one of its words, a number in its range, or a list of such numbers."""
    if isinstance(allowed[0], str):
        return str(value).partition(":")[0] in allowed
    low, high = float(allowed[0]), float(allowed[1])
    try:
        return all(low <= float(parse_size(part)) <= high for part in str(value).lower().split(","))
    except (UserError, ValueError):
        is_fit = isinstance(value, bool | int | float) and low <= float(value) <= high
        return is_fit and (isinstance(allowed[0], float) or float(value).is_integer())


@dataclass(frozen=True, slots=True)
class Typed:
    """A command line as it was typed: its words, and its options with their values (none for a switch)."""

    words: tuple[str, ...]
    options: tuple[tuple[str, str | None], ...]
    pasted: tuple[str, ...] = ()
    """A command line of another tool, which follows ``--``."""

    def values(self, name: str) -> list[str]:
        """Every value of an option."""
        return [value for option, value in self.options if option == name and value is not None]

    def only(self, names: set[str]) -> Typed:
        """The command with these of its options."""
        return replace(self, options=tuple(option for option in self.options if option[0] in names))

    def without(self, names: set[str]) -> Typed:
        """The command without these options."""
        return replace(self, options=tuple(option for option in self.options if option[0] not in names))

    def with_options(self, options: Mapping[str, str | None]) -> Typed:
        """The command with these options, in place of those of the same name."""
        remaining = self.without(set(options))
        return replace(remaining, options=(*remaining.options, *options.items()))

    @property
    def line(self) -> str:
        """The command line, quoted for a shell."""
        shown = [f"--{name}" if value is None else f"--{name} {_quote_word(value)}" for name, value in self.options]
        pasted = ["--", *map(_quote_word, self.pasted)] if self.pasted else []
        return " ".join([*map(_quote_word, self.words), *shown, *pasted])


def _quote_word(text: str) -> str:
    # A comma, a colon and the like need no quotes.
    return (
        text
        if text and all(character.isalnum() or character in "@%+=:,./-_" for character in text)
        else shlex.quote(text)
    )


def typed_command(command: str) -> Typed:
    """A command of ``hwdyno`` in its parts; of anything else, nothing but its words."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    pasted = words[words.index("--") + 1 :] if "--" in words else []
    words = words[: len(words) - len(pasted) - 1] if "--" in words else words
    plain: list[str] = []
    options: list[tuple[str, str | None]] = []
    while words:
        word = words.pop(0)
        name, equals, _ = word[2:].replace("_", "-").partition("=") if word.startswith("--") else ("", "", "")
        if not name:
            plain.append(word)
        elif equals:
            options.append((name, word.partition("=")[2]))
        else:
            options.append((name, None if name in _SWITCHES or not words else words.pop(0)))
    return Typed(tuple(plain), tuple(options), tuple(pasted))


def shared_options(result: ExperimentResult) -> Parameters:
    """The shared parameters that a command must name because its defaults differ."""
    shared = [(axis, result.fixed.get(axis.name)) for axis in result.declaration.axes]
    return {axis.name: value for axis, value in shared if value not in {None, "", axis.default}}


def takes(result: ExperimentResult, name: str) -> bool:
    """Whether the experiment's command has this axis; a kernel without a declaration may have any."""
    return not result.declaration.measures or name in result.declaration.names or name in result.fixed


def make_command(run: Run, result: ExperimentResult, parameters: Mapping[str, Scalar], changes: Parameters) -> str:
    """The command line that measures these parameters with some changes, as the Run measured them otherwise.

    A job file and a test of SNIA's are repeated as a whole; what changes in a job file follows as a comment.
    """
    of_run, kernel = typed_command(run.command), result.declaration
    if of_run.words[:2] == ("hwdyno", "storage") and _WHOLE & set(of_run.words[2:3]):
        return _whole(of_run, kernel, changes)
    given = align_blocks(_without_refused(result, dict(shares_joined(kernel.axes, {**parameters, **changes})), changes))
    named = [axis for axis in kernel.axes if axis.option and axis.name in given]
    options = {axis.option: format_option(axis, given.pop(axis.name)) for axis in named}
    options |= {name: format_option(kernel.axis(name), value) for name, value in given.items() if name not in _NO_AXES}
    options = {name.replace("_", "-"): value for name, value in options.items()}
    if result.kernel == TRAINING_LOADER:
        of_data = {name: str(result.fixed.get(name) or "") for name in ("workload", "accelerator")}
        of_data["samples"] = _samples(run, result)
        options |= {name: value for name, value in of_data.items() if value and name not in options}
    if result.kernel in {INFERENCE_KV_CACHE, INFERENCE_STREAM} and "endpoint" in options:
        options["store-endpoint"] = options.pop("endpoint")  # Of hwdyno inference, --endpoint is a model server's.
    if result.kernel == OBJECT_REQUESTS:
        reached = {name: result.fixed.get(name) for name in ("endpoint", "bucket", "ca_file")}
        options |= {name.replace("_", "-"): str(value) for name, value in reached.items() if value}
    measured = result.resource if not run.imported_from or result.resource in _OF_IMPORTED else "run"
    words = ("hwdyno", *(kernel.command or measured or "run").split())
    if find(result.resource).by_scenario and words[:2] == of_run.words[:2]:
        # Its options choose and size what is prepared, such as a workload's own file.
        mine = replace(of_run.without(_OF_A_REPORT), words=(*words, *(w for w in of_run.words if w.startswith("++"))))
        if any(value.endswith((".yaml", ".yml")) for value in of_run.values("workload")):
            options.pop("workload", None)
            options.pop("accelerator", None)
        return _add_place(mine.with_options(options), run, result).line
    carried = of_run.only(set() if run.imported_from else _CARRIED)
    carried = replace(carried, words=words, options=(*options.items(), *carried.options))
    return _add_place(carried, run, result).line


def _samples(run: Run, result: ExperimentResult) -> str:
    """How many samples a generated data set had; empty for a user's own data."""
    counts = [result.fixed.get(name) for name in ("files", "samples_per_file")]
    files, per_file = (count if isinstance(count, int) else 0 for count in counts)
    is_ours = find_place(run, result) != str(result.fixed.get("path") or "")
    return str(files * per_file) if is_ours and files * per_file else ""


def add_launcher(run: Run, command: str, clients: Scalar = None) -> str:
    """The command as its launcher starts it on as many ranks as the Run had, or as many as ``clients`` names."""
    wanted = [int(number) for number in re.findall(r"\d{1,6}", str(clients or ""))]
    ranks, launcher = max([len(run.machines), *wanted]), run.job.get("launcher")
    if len(run.machines) < 2 or not command.startswith("hwdyno "):
        return command
    if launcher == "mpi":
        return f"mpirun -n {ranks} {command}"
    if launcher == "slurm":
        nodes = len({node_name(machine.hostname or "") for machine in run.machines})
        per_node = -(-len(run.machines) // nodes)
        words = command.removeprefix("hwdyno ")
        return f"hwdyno slurm script --nodes {-(-ranks // per_node)} --ranks-per-node {per_node} -- {words} | sbatch"
    return command


def named_command(run: Run, result: ExperimentResult, words: str, options: Mapping[str, str | None]) -> str:
    """A command of other experiments with options, on the storage and with the settings of the Run."""
    carried = typed_command(run.command).only(set() if run.imported_from else _CARRIED)
    command = replace(carried, words=("hwdyno", *words.split()), options=(*options.items(), *carried.options))
    return _add_place(command, run, result).line


def _whole(of_run: Typed, kernel: Declaration, changes: Parameters) -> str:
    """The Run's own command; its job file or its open axes changed."""
    values = {name: format_option(kernel.axis(name), value) for name, value in changes.items()}
    again = of_run.without(_OF_A_REPORT)
    if of_run.words[2] == "snia":
        return again.with_options({name: value for name, value in values.items() if name in _OF_SNIA}).line
    inside = ", ".join(f"{name}={value.lower()}" for name, value in values.items())
    return again.line + (f" # with {inside} in the job file" if inside else "")


def align_blocks(given: dict[str, Scalar]) -> dict[str, Scalar]:
    """The parameters with blocks of whole pages where it is direct I/O, which moves whole sectors."""
    if str(given.get("direct")).lower() in {"1", "true"} and "bs" in given:
        blocks = given["bs"]
        parts = blocks.split(",") if isinstance(blocks, str) and ".." not in blocks else [blocks]
        whole = list(dict.fromkeys(_in_pages(part) for part in parts))
        given["bs"] = ",".join(map(str, whole)) if len(whole) > 1 else whole[0]
    return given


def _in_pages(block: Scalar) -> Scalar:
    size = parse_size(block) if isinstance(block, str) and ".." not in block else block
    return -(-size // _PAGE) * _PAGE if isinstance(size, int) and size % _SECTOR else block


def _list_refusals(result: ExperimentResult) -> set[str]:
    return {note.code for point in result.points for note in point.notes if note.code.endswith("_refused")}


def _without_refused(result: ExperimentResult, given: dict[str, Scalar], changes: Parameters) -> dict[str, Scalar]:
    """The parameters with what took the place of what this system has just refused, unless it is the advice."""
    refused = _list_refusals(result)
    if "io_uring_refused" in refused and given.get("ioengine") == "io_uring":
        given["ioengine"] = "libaio"
    if "direct_refused" in refused and "direct" not in changes and "direct" in {*given, *result.declaration.names}:
        given["direct"] = False
    return given


def _add_place(command: Typed, run: Run, result: ExperimentResult) -> Typed:
    """The command with the storage that the Run measured; a raw device with the consent that was typed.

    A filesystem that refused direct I/O refuses it again: that needs another place.
    """
    resource, place = find(result.resource), find_place(run, result)
    if "1" in command.values("direct") and "direct_refused" in _list_refusals(result):
        return command.with_options({"path": "DIR"})
    if run.imported_from or not place or not (resource.page_cache or resource.bursty):
        return command
    of_run = typed_command(run.command)
    storage = result.name.partition("@")[2]
    named = storage and command.words[1:] == (result.resource,) and resource.by_scenario and f"{storage}={place}"
    command = command.with_options({"path": named or place})
    if place.startswith("/dev/"):
        consent = of_run.only(_OF_A_DEVICE)
        command = replace(command, options=(*command.without(_OF_A_DEVICE).options, *consent.options))
    return command


def find_place(run: Run, result: ExperimentResult) -> str:
    """The ``--path`` of an experiment: where its folder or its data file was; empty where that is unknown."""
    of_run, text = typed_command(run.command), str(result.fixed.get("path") or "")
    given = [value.partition("=")[2] or value for value in of_run.values("path")]
    if text.startswith(OBJECT_STORE):
        folder, is_ours, _ = text.partition(f"/{_OURS}")
        return text if text in given else folder if is_ours else ""
    path = PurePath(text)
    if not path.is_absolute() or str(path) in given:
        return str(path) if str(path) in given else next(iter(given), "")
    if path.parent.name.startswith(_OURS) and not path.parent.name.startswith(_SCRATCH):
        return str(path.parent.parent)  # A file that was made and removed, in its own folder.
    if path.name.startswith(_OURS) and (result.resource != "storage" or result.name.startswith(FILES)):
        path = path.parent
    return str(path.parent if path.name.startswith(_SCRATCH) else path)


def format_option(axis: Axis, value: Scalar) -> str:
    """A value as typed on the command line: 4k, 1M, true as 1."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float) and axis.unit == "B":
        for suffix, size in (("G", 1 << 30), ("M", 1 << 20), ("k", 1 << 10)):
            if value >= size and value % size == 0:
                return f"{value // size:.0f}{suffix}"
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value)
