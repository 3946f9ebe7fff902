"""Every reader of text that others wrote, with the seeds that its inputs are made of and what it may refuse by."""

from __future__ import annotations

import argparse
import ast
import json
import os
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from hwdyno import formats
from hwdyno.cli import elsewhere as bare
from hwdyno.explain.findings import explain
from hwdyno.formats import checkpoint_sizes, dlio_yaml, fio_job, kv_model, request_trace, workload
from hwdyno.formats.data_set import file_bytes
from hwdyno.formats.fio_job import command_line
from hwdyno.formats.fio_job.keys import HARMLESS, SUPPORTED, WHY
from hwdyno.formats.statements import add_statements
from hwdyno.measure import plan, scenarios, sweep
from hwdyno.measure.hosts import Outcome, engine_files
from hwdyno.measure.models import safetensors
from hwdyno.measure.peers import (
    PeerReading,
    aiperf,
    cpufp,
    dlio,
    fio,
    guidellm,
    hpcc,
    iozone,
    iperf3,
    likwid,
    llama_bench,
    loaders,
    mlc,
    mlperf_kv,
    multichase,
    netperf,
    ping,
    sockperf,
    stream,
    sysbench,
    vllm_bench,
)
from hwdyno.measure.runner import elsewhere
from hwdyno.measure.runner.observers import Journal
from hwdyno.measure.serving import answers, wire
from hwdyno.model import units
from hwdyno.model.axes import FIELD
from hwdyno.model.machine import survey_from_machine
from hwdyno.model.words import LONGEST_ERROR, Axis, Measurement, PeerResult, Run, UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table
from hwdyno.system.store import from_json, to_json
from hwdyno.system.store import history as index
from hwdyno.system.store.journal import from_journal
from simulation.host import SimulatedHost

from fuzz import folders, packed

DATA = Path(__file__).parents[1] / "data"
KEPT = DATA / "fuzz-corpus"
"""A file of inputs of each target, as Python writes bytes, a line each."""
FAILED = DATA / "fuzz-failed"
"""Inputs on which a reader once failed, by target."""
AXES = (
    None,
    Axis("bs", "B", kind="integer", least=1, most=1 << 40),
    Axis("runtime", "s", kind="number"),
    Axis("share", kind="number"),
    Axis("seed", kind="integer", least=-5, most=1 << 62),
    replace(FIELD["rw"], choices=("read", "randrw")),
)


MAY_BE_IDLE = {"fio", "dlio", "iperf3"}
"""Formats that also say that nothing was moved."""


@dataclass(frozen=True)
class Target:
    """One reader."""

    name: str
    read: Callable[[bytes], object]
    """Reads one input, and checks what came of it."""
    refuses_by: type[Exception] = UserError
    seeds: tuple[str, ...] = ()
    """Folders and files below ``tests/data``; the folder of its name if there are none."""
    words: tuple[str, ...] = ()
    """What its language is made of."""

    def corpus(self) -> list[bytes]:
        """All seeds."""
        places = [DATA / seed for seed in self.seeds or (f"fuzz/{self.name}",)]
        files = [file for place in places for file in (sorted(place.iterdir()) if place.is_dir() else [place])]
        return [file.read_bytes() for file in files]

    def kept(self) -> list[bytes]:
        """The small inputs that reached the most code when they were found."""
        path = KEPT / f"{self.name}.txt"
        return [ast.literal_eval(line) for line in path.read_text().splitlines()] if path.is_file() else []

    def failed(self) -> list[Path]:
        """The inputs on which it once failed."""
        folder = FAILED / self.name
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def __call__(self, data: bytes) -> bool:
        """Whether an input is accepted; what it is refused by has to be one line, and nothing else may be raised."""
        try:
            self.read(data)
        except self.refuses_by as error:
            says = str(error)
            assert says.strip(), f"{error!r} says nothing"
            assert len(says.splitlines()) == 1, f"more than one line: {says!r}"
            assert len(says) <= LONGEST_ERROR, f"{len(says)} characters: {says[:100]!r}"
            says.encode()
            return False
        return True


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _storable(run: Run) -> None:
    document = to_json(run)
    document.encode()
    assert from_json(document) == run, "it is another Run after it was stored"


def _imported(name: str) -> Callable[[bytes], object]:
    form = formats.list_formats()[name]

    def read(data: bytes) -> None:
        text = _text(data)
        for other in formats.list_formats().values():
            other.recognizes(text)
        run = formats.read_as(form, text, f"{name}.txt")
        values = [point.throughput.value for result in run.experiments for point in result.points]
        assert all(value > 0 or (value == 0 and name in MAY_BE_IDLE) for value in values)
        # Most of the time goes into curves, which are the same for most inputs.
        _storable(explain(run) if len(data) < 600 or zlib.crc32(data) % 8 == 0 else run)

    return read


@cache
def _file(suffix: str) -> Path:
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return Path(tempfile.mkdtemp(dir=folder)) / f"input{suffix}"


def _written(data: bytes, suffix: str) -> Path:
    path = _file(suffix)
    path.write_bytes(data)
    return path


def _any_format(data: bytes) -> None:
    text = _text(data)
    runs, _ = formats.read_every(text, "input.txt")
    for run in add_statements(runs, text):
        _storable(run)


def _job(data: bytes) -> None:
    text = _text(data)
    job_file = fio_job.parse(text, "x.fio", environment={"HOME": "/root"}, included=lambda name: "[included]\nbs=4k\n")
    json.dumps([job.parameters for job in job_file.jobs], allow_nan=False).encode()
    for job in job_file.jobs:
        assert all("\0" not in path for path in job.files.paths(job.name, 4))


def _fio_line(data: bytes) -> None:
    """A command line of fio, a word a line."""
    text = command_line.make_job_file(_text(data).split("\n"))
    job_file = fio_job.parse(text, "x.fio", environment={"HOME": "/root"})
    json.dumps([job.parameters for job in job_file.jobs], allow_nan=False).encode()


def _iolog(data: bytes) -> None:
    text = _text(data)
    job_file = fio_job.parse("[a]\nread_iolog=x.log\n", "x.fio", environment={}, traces=lambda name: text)
    json.dumps([job.parameters for job in job_file.jobs], allow_nan=False).encode()


def _workload(data: bytes) -> None:
    found = dlio_yaml.read(_written(data, ".yaml"))
    json.dumps([found.layout, found.parameters], allow_nan=False).encode()
    assert found.min_bytes(8, 1e12) > 0 and found.need_read_bytes_s > 0
    if found.files < 1000:
        file_bytes(found)


def _overrides(data: bytes) -> None:
    dlio_yaml.read(DATA / "fuzz/dlio_yaml/unet3d_h100.yaml", _text(data).split("\n"))


@cache
def _host() -> SimulatedHost:
    return SimulatedHost()


def _plan(data: bytes) -> None:
    made = plan.read_toml(_written(data, ".toml"), _host(), plan.build)
    json.dumps([[planned.points, planned.fixed] for planned in made.experiments], allow_nan=False).encode()


def _scenario_plan(data: bytes) -> None:
    plan.read_toml(_written(data, ".toml"), _host(), scenarios.of_experiments)


def _axis(data: bytes) -> None:
    refused = [error for axis in AXES if (error := _refusal(_text(data), axis))]
    if len(refused) == len(AXES):
        raise refused[0]


def _refusal(text: str, axis: Axis | None) -> UserError | None:
    try:
        json.dumps(sweep.parse_axis(text, axis), allow_nan=False).encode()
    except UserError as error:
        return error
    return None


def _workloads(data: bytes) -> None:
    for kind in workload.read_workloads(_text(data), "x.toml").values():
        json.dumps([kind.layout, kind.parameters], allow_nan=False).encode()


def _checkpoints(data: bytes) -> None:
    for layout in checkpoint_sizes.read_layouts(
        Table.from_value(foreign.parse_toml(_text(data), "x.toml"), "x.toml")
    ).values():
        json.dumps(checkpoint_sizes.Checkpoint("x", layout, 1, 1, 0.5).parameters, allow_nan=False).encode()


def _kv_models(data: bytes) -> None:
    for model in kv_model.read_models(_text(data), "x.toml").values():
        json.dumps(model.parameters, allow_nan=False).encode()


def _requests(data: bytes) -> None:
    found = request_trace.read_requests(_text(data), "x.trace")
    times = [request.due_s for request in found]
    json.dumps(times, allow_nan=False)
    assert times == sorted(times) and times[0] == 0
    assert all(0 < request.output_tokens <= request_trace.MAX_TOKENS for request in found)


def _response(data: bytes) -> None:
    """The bytes of a server's response, in pieces whose lengths the first byte says."""
    exchange, step, failure = wire.Exchange(), 1 + (data[0] if data else 0), "cut"
    try:
        for at in range(1, len(data), step):
            piece = data[at : at + step]
            if exchange.add(piece, [len(piece)], [at]):
                failure = ""
                break
    except wire.WireError as error:
        failure = str(error)
    found = answers.read_answer(exchange, failure)
    assert bool(found.failure) != bool(found.chunks_ns)
    json.dumps([found.complaint, found.output_tokens, found.server_prompt_ms], allow_nan=False).encode()
    assert list(found.chunks_ns) == sorted(found.chunks_ns) and len(found.failure) < 200
    if found.failure and not found.failure.startswith("status"):
        raise UserError(found.failure)


def _quantities(data: bytes) -> None:
    for line in _text(data).splitlines():
        json.dumps([units.as_number(line), units.printed_number(line)], allow_nan=False)
        try:
            json.dumps([units.parse_duration(line)], allow_nan=False)
        except UserError:
            json.dumps([units.parse_size(line)], allow_nan=False)


def _read_back(data: bytes) -> None:
    _storable(from_json(data))


def _journal(data: bytes) -> None:
    _storable(from_journal(data, Path("x.journal")))


def _safetensors(data: bytes) -> None:
    path = _written(data, ".safetensors")
    opened = safetensors.read_header(path)
    assert all(place.offset + place.length <= len(data) for place in opened.places.values()), (
        "a tensor outside its file"
    )
    assert set(safetensors.wrong_tensors(path, opened)) <= set(opened.places)


class _Forgetful:
    """Keeps nothing of a Run."""

    def begin(self, run: Run) -> Journal:
        """It is its own journal."""
        return self

    def point(self, experiment: str, measurement: Measurement, left_s: float | None = None) -> None:
        """Nothing."""

    def peer(self, experiment: str, result: PeerResult) -> None:
        """Nothing."""

    def finish(self, run: Run) -> None:
        """Nothing."""

    def abandon(self) -> None:
        """Nothing."""


def _survey(data: bytes) -> None:
    json.dumps(
        survey_from_machine(engine_files.host_of_survey(_written(data, ".json")).survey()), allow_nan=False
    ).encode()


def _readings(data: bytes) -> None:
    words, host = engine_files.read_readings(_written(data, ".jsonl"))
    scenario, _ = bare.rebuild_scenario(words, host, argparse.Namespace())
    _storable(elsewhere.run(scenario.plan, host, _Forgetful(), "run"))


def _index(data: bytes) -> None:
    text = _text(data)
    entry = index.entry_from(text, Path("x.json"))
    figures = index.figures_from(text)
    if not entry and not figures:
        raise UserError("it is no line of an index")
    if entry:
        index.entry_text(entry)


def _peer(parse_output: Callable[..., PeerReading], *arguments: Any) -> Callable[[bytes], object]:
    def read(data: bytes) -> None:
        found = parse_output(_text(data), *arguments)
        plain = {field.name: getattr(found, field.name) for field in fields(found)}
        json.dumps(plain, allow_nan=False).encode()
        assert found.throughput > 0

    return read


def _mlc_row(text: str, delay: int) -> PeerReading:
    return mlc.parse_output(Outcome(0, text, "", 0.0), delay)


def _iozone_files(text: str, rw: str) -> PeerReading:
    return iozone.parse_output(Outcome(0, text, "", 0.0), rw)


_JSON_FIO = ("fio/depths.json", "fio/randrw-json-plus.json")
_SEEDS: dict[str, tuple[str, ...]] = {"fio": _JSON_FIO, "dlio": ("dlio", "fuzz/dlio")}
# A peer of the same name reads another output of the same tool.
_SEEDS |= {name: (f"fuzz/format_{name}",) for name in ("sysbench", "sockperf", "netperf", "ping")}
_TABLE_WORDS = (
    "|", "---", ",", "\t", "<tr><td>", "IOPS", "MB/s", "lat us", "p99", "bs", "QD", "4k", "1,234", "70/30", "unit",
)  # fmt: skip
_FMA = {"operation": "fma", "precision": "double"}
_JOB_WORDS = (*SUPPORTED, *HARMLESS, *WHY, "[global]", "[a]", "zipf:1.1", "zoned:1/1", "4k/50:8k/50", "50%", "${HOME}")
_PLAN_WORDS = ("profile", "only", "[[experiment]]", "axes", "kernel", "storage_blocks", "iodepth", "storage.grid", "..")

TARGETS = (
    *(
        Target(name, _imported(name), seeds=_SEEDS.get(name, ()), words=_TABLE_WORDS if name == "published" else ())
        for name in formats.list_formats()
    ),
    Target(
        "any_format", _any_format, seeds=("dlio", *(f"fuzz/{name}" for name in ("mlc", "stream", "linpack", "iperf3")))
    ),
    Target("mlpstorage", folders.read_results, words=("=== ", "summary.json\n", "_metadata.json\n", "NaN", "null")),
    Target("cosbench_archive", folders.read_results, words=("=== ", "workload-config.xml\n", "<work", "workers=", ",")),
    Target("zstd", packed.unpack),
    Target("by_shape", _any_format, words=("MB/s", "$ dd if=x", "### ", "avg:", "(ms):", "|", "per second", "IOPS")),
    Target("statements", _any_format, words=(". ", "depth ", "SATA", "eMMC", "inverse", "threads", "IOPS of ", "best")),
    Target("fio_job", _job, words=_JOB_WORDS),
    Target("fio_line", _fio_line, words=tuple(f"--{word}=" for word in (*SUPPORTED, *HARMLESS, "name", "output"))),
    Target("iolog", _iolog, words=("add", "read", "write", "trim", "wait")),
    Target(
        "dlio_yaml",
        _workload,
        words=(*sorted(dlio_yaml.known_keys()), "&a", "*a", "<<: *a", "!!int", "!!timestamp x", "!!set"),
    ),
    Target("override", _overrides, words=(*sorted(dlio_yaml.known_keys()), "++workload.")),
    Target("plan", _plan, words=_PLAN_WORDS),
    Target("scenario_plan", _scenario_plan, seeds=("fuzz/plan",), words=_PLAN_WORDS),
    Target("workload", _workloads, words=tuple(field.name for field in fields(workload.TrainingWorkload))),
    Target("checkpoint", _checkpoints, words=tuple(field.name for field in fields(checkpoint_sizes.TransformerLayout))),
    Target("kv_model", _kv_models, words=("latent", "rope", "head", "kv_heads")),
    Target("request_trace", _requests, words=("timestamp", "hash_ids", "Request tokens", "ContextTokens", "e308")),
    Target(
        "response", _response, words=("data: ", "\r\n", "0\r\n\r\n", "[DONE]", "Content-Length: ", "usage", "choices")
    ),
    Target("axis", _axis, words=("..", "+", "k", "MiB", "randrw:")),
    Target("size", _quantities, words=("k", "MiB", "ms", "h")),
    Target("run", _read_back),
    Target("survey", _survey, words=("cpu", "threads", "numa_nodes", "storage", "disks", "unknown")),
    Target("readings", _readings, words=("plan", "steps", "survey", "reading", "streams", "started_s", "words")),
    Target("history", _index, words=("headline", "points", "verdict")),
    Target("journal", _journal),
    Target("safetensors", _safetensors, words=("data_offsets", "__metadata__", "crc32c", "dtype", "shape", "F32")),
    *(
        Target(f"peer_{name}", _peer(parse_output, *arguments), OSError, seeds or (f"fuzz/{name}",))
        for name, parse_output, arguments, seeds in (
            ("fio", fio.parse_output, ("", 0), _JSON_FIO),
            ("dlio", dlio.parse_output, ({"samples_per_file": 1}, 1e6), ("dlio",)),
            ("iperf3", iperf3.parse_output, (), ()),
            ("iozone", _iozone_files, ("write",), ("fuzz/iozone/throughput.txt",)),
            ("stream", stream.parse_output, ("triad",), ()),
            ("hpcc", hpcc.parse_output, ("linpack", {"operation": "lu"}), ()),
            ("likwid", likwid.parse_output, ("memory_bandwidth",), ()),
            ("mlc", _mlc_row, (0,), ("fuzz/mlc/mlc.txt",)),
            ("sysbench", sysbench.parse_output, (), ()),
            ("multichase", multichase.parse_output, (), ()),
            ("cpufp", cpufp.parse_output, (_FMA,), ()),
            ("ping", ping.parse_output, (), ()),
            ("sockperf", sockperf.parse_output, (), ()),
            ("netperf", netperf.parse_output, (), ()),
            ("mlperf_kv", mlperf_kv.parse_output, (), ()),
            ("vllm_bench", vllm_bench.parse_output, (), ()),
            ("aiperf", aiperf.parse_output, (), ()),
            ("guidellm", guidellm.parse_output, (), ()),
            ("llama_bench", llama_bench.parse_output, (), ("fuzz/llama_bench/decode.json",)),
            ("loaders", loaders.parse_output, ({"batch_size": 4, "samples_per_file": 2}, 1e6), ()),
        )
    ),
)
