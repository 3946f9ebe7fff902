"""An axis is read by what its kernel declares of it: a new one needs no edit, and the field's are the engine's."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.point_labels import format_label, load_words
from hwdyno.measure import runner
from hwdyno.measure.experiments import Experiment
from hwdyno.measure.hosts.local import Alike, Local
from hwdyno.measure.plan import Given, build
from hwdyno.measure.runner.declared import kept_declaration
from hwdyno.measure.sweep import Sweep, powers
from hwdyno.model.axes import FIELD, FIELD_LOOPS, find_per_element, read_share, shares_joined, shares_split
from hwdyno.model.per_element import PerElement
from hwdyno.model.words import Axis, Curve, Declaration, ExperimentResult, Finding, Parameters, Run
from hwdyno.report import charts, page
from hwdyno.system.store import from_json, to_json
from simulated_hosts import Memory
from simulation.host import SimulatedHost, SimulatedMachine
from simulation.reading import latencies, noisy, reading, stream

DATA = Path(__file__).parents[1] / "data"
KERNELS = Local().kernels()

# --- the field's axes and the engine's


def declared_twice() -> list[tuple[str, Axis]]:
    return [(name, axis) for name, kernel in KERNELS.items() for axis in kernel.axes if axis.name in FIELD]


@pytest.mark.parametrize(("kernel", "axis"), declared_twice(), ids=lambda argument: getattr(argument, "name", argument))
def test_fields_axes_match_the_kernels(kernel: str, axis: Axis) -> None:
    """A foreign result must be read as one of ours: only bounds, words of other tools and unset units may differ."""
    known = FIELD[axis.name]
    assert known.role == axis.role and known.workers == axis.workers
    assert known.unit in {axis.unit, ""}
    if axis.traits:
        assert known.split == axis.split or kernel in {"idle"}
        assert {word: set(known.traits.get(word, ())) for word in axis.choices} == {
            word: set(axis.traits.get(word, ())) for word in axis.choices
        }


@pytest.mark.parametrize("kernel", ["memory_bandwidth", "memory_loaded_latency", "gpu_bandwidth"])
def test_the_fields_loops_are_counted_as_kernels_declare_them(kernel: str) -> None:
    """Whether the caches of a GPU allocate on a write is unknown."""
    declared = KERNELS[kernel].axis("operation").per_element
    known = {word: FIELD_LOOPS[word] for word in declared if word in FIELD_LOOPS}
    if kernel == "gpu_bandwidth":
        known = {word: replace(known_format, allocates=0) for word, known_format in known.items()}
        assert set(known) == set(declared)
    assert known and known == {word: declared[word] for word in known}


def test_a_declaration_without_loops_has_those_of_the_field() -> None:
    declared = (Axis("operation", per_element={"sum": PerElement(3, 1, 1, 2)}),)
    assert find_per_element({"operation": "sum"}, declared) == PerElement(3, 1, 1, 2)
    assert find_per_element({"operation": "triad"}, declared) is None
    assert find_per_element({"operation": "triad"}, (Axis("operation"),)) == FIELD_LOOPS["triad"]
    assert find_per_element({"operation": "randread"}) is None


def test_every_axis_of_the_field_is_declared_by_a_kernel_or_named_by_a_foreign_tool() -> None:
    ours = {axis.name for _, axis in declared_twice()}
    assert set(FIELD) - ours == {"rate_iops"}


# --- a kernel that only this test knows

SERVICE_S, BYTES_S, LANES, CYCLES_S = 20e-6, 2e9, 10, 1e9
COPY = Declaration(
    measures="chunks copied by lanes, offered after a pause or at arrivals",
    operation="chunk",
    counts={"operations": "1", "bytes": "chunk"},
    stateful=False,
    axes=(
        Axis("chunk", "B", "size", 4096, "bytes of one copy", "integer", least=1, most=1 << 30),
        Axis("lanes", "", "concurrency", 1, "copies in flight", "integer", least=1, most=4096),
        Axis("pause", "cycles", "delay", 0, "wait after each copy", "integer", least=0, most=1e9),
        Axis("arrivals", "operations/s", "rate", 0.0, "copies offered a second", least=0, most=1e9),
        Axis("runtime", "s", default=1.0, means="of one reading", least=0, most=1e5),
    ),
)


class Copier(SimulatedHost):
    """A host with one kernel more, whose laws are the textbook's."""

    def kernels(self) -> dict[str, Declaration]:
        return {**super().kernels(), "gpu_copy": COPY}

    def read(self, kernel: str, given: dict[str, Any], draw: random.Random) -> dict[str, Any]:
        if kernel != "gpu_copy":
            return super().read(kernel, given, draw)
        each_s = SERVICE_S + given["chunk"] / BYTES_S
        offered = min(given["lanes"], LANES) / each_s
        if given["pause"]:
            offered = (offered**-8 + (given["pause"] / CYCLES_S) ** 8) ** (-1 / 8)
        mean_s = max(each_s, given["lanes"] / offered)
        if given["arrivals"]:
            capacity, offered = offered, min(offered, given["arrivals"])
            mean_s = each_s / (1 - min(0.999, offered / capacity))
        count = max(1, round(noisy(0.002, draw) * offered * given["runtime"]))
        copied = stream("copy", count, count * given["chunk"], latency_ns={"total": latencies(count, mean_s * 1e9)})
        samples = {"interval_s": given["runtime"], "operations": [[count]], "bytes": [[count * given["chunk"]]]}
        return reading(given["runtime"], [copied], (0.01, 0.01), in_flight=0.0, samples=samples)


def swept(path: Path, load: str, **axes: Any) -> Run:
    """A Run of the kernel along one of its axes, through plan, runner and document."""
    given: Given = {}
    definition = Experiment(name="fpga.copy", asks="?", kernel="gpu_copy", load=load, sweep=Sweep(**axes))
    host = Copier(SimulatedMachine(seed=3))
    run = runner.run(build([(definition, given)], host, path=path, seed=1), host, Memory(), "run", explain=explain)
    return from_json(to_json(run))


def the_curve(run: Run) -> Curve:
    (result,) = run.experiments
    (curve,) = result.curves
    return curve


def find_finding(run: Run, rule: str) -> Finding:
    (found,) = [finding for finding in run.findings if finding.rule == rule]
    return found


def drawn(run: Run) -> str:
    """The report's charts and its page, as text."""
    return repr([chart.picture for chart in charts.list_charts(run)]) + page.html(run)


def test_a_new_size_has_its_curve_its_unit_and_its_advice(tmp_path: Path) -> None:
    run = swept(tmp_path, "chunk", chunk=powers(4096, 4 << 20), lanes=1)
    curve = the_curve(run)
    assert curve.model == "block-size"
    assert curve.parameters["B"].value == pytest.approx(BYTES_S, rel=0.05)
    assert curve.parameters["n1/2"].value == pytest.approx(SERVICE_S * BYTES_S, rel=0.1)
    best = find_finding(run, "best_block_size")
    assert "512 KiB" in best.says
    assert "hwdyno fpga --lanes 1 --chunk 512k" in best.advice
    text = drawn(run)
    assert "512 KiB" in text and "by chunk" in text


def test_a_new_concurrency_has_its_knee_and_its_advice(tmp_path: Path) -> None:
    run = swept(tmp_path, "lanes", lanes=powers(1, 64), chunk=4096)
    curve = the_curve(run)
    assert curve.model == "queue-knee" and curve.state == "knee"
    assert curve.parameters["N*"].value == pytest.approx(LANES, rel=0.1)
    found = find_finding(run, "knee")
    assert "lanes" in found.says and "--chunk 4k --lanes 7" in found.advice
    rising = swept(tmp_path, "lanes", lanes=(1, 2, 4), chunk=4096)
    assert find_finding(rising, "still_rising").advice.endswith("--chunk 4k --lanes 4..32")


def test_a_new_delay_has_its_knee_and_its_unit(tmp_path: Path) -> None:
    delays = (0, 100, 300, 1000, 2000, 5000, 20_000, 100_000)
    run = swept(tmp_path, "pause", pause=delays, lanes=8, chunk=4096)
    curve = the_curve(run)
    assert curve.state == "knee" and curve.knee is not None
    # Where what the pauses let come is what the lanes carry.
    assert curve.knee.load == pytest.approx(CYCLES_S * (SERVICE_S + 4096 / BYTES_S) / 8, rel=0.25)
    found = find_finding(run, "knee")
    assert "a pause of" in found.says and "cycles" in found.says and "--pause" in found.advice
    assert "pause, cycles" in drawn(run)


def test_a_new_rate_has_its_queue_and_its_advice(tmp_path: Path) -> None:
    capacity = 1 / (SERVICE_S + 4096 / BYTES_S)
    rates = tuple(float(round(share * capacity)) for share in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9))
    run = swept(tmp_path, "arrivals", arrivals=rates, lanes=1, chunk=4096)
    curve = the_curve(run)
    assert curve.model == "g-g-m" and curve.ceiling is not None
    assert curve.ceiling.value == pytest.approx(capacity * 4096, rel=0.05)
    found = find_finding(run, "users_wait")
    assert "chunks/s (" in found.says and "--arrivals 0" in found.advice
    assert "arrivals, operations/s" in drawn(run)


# --- what a Run keeps


def test_a_run_keeps_the_axes_that_matter_and_their_commands_defaults(tmp_path: Path) -> None:
    from hwdyno.measure import experiments

    host = Alike(4, between=True)
    for experiment in experiments.all():
        if experiment.resource == "training":
            continue
        (planned,) = build([(experiment, {})], host, path=tmp_path).experiments
        kept = kept_declaration(planned, frozenset(), planned.fixed)
        swept_axes = {name for point in planned.points for name in point}
        assert swept_axes <= set(kept.names), experiment.name
        assert "path" not in kept.names and "seed" not in kept.names
        assert not set(kept.names) - set(planned.declaration.names)
        for axis in kept.axes:
            whole = planned.declaration.axis(axis.name)
            assert replace(axis, default=None, option="") == replace(whole, default=None), (
                f"{experiment.name}: {axis.name}"
            )
    (planned,) = build([(experiments.find("storage.iodepth")[0], {})], host, path=tmp_path).experiments
    kept = kept_declaration(planned, frozenset(), planned.fixed)
    assert kept.axis("direct").default is True, "the command takes it by itself, though the kernel would not"
    assert kept.axis("iodepth").default == 1 and kept.axis("bs").default == 4096
    result = ExperimentResult("a", "storage", "?", "iodepth", "storage_blocks", (), declaration=kept)
    run = Run("r", "", None, (), "quick", "hwdyno", (result,))
    assert len(to_json(run)) < 10_000


# --- a Run of schema 1


def _command(advice: str) -> str:
    """The command in a text: neither the words around it nor its Run's settings are those of earlier versions."""
    if "hwdyno " not in advice:
        return ""
    return re.sub(r" --(?:path|ceiling|profile|seed|size) (?:'[^']*'|\S+)", "", advice[advice.find("hwdyno ") :])


def _of_points(finding: dict[str, Any]) -> bool:
    """Whether it was read off points: a newer fit reads other numbers off the same curves."""
    return finding["resource"] == "storage" and finding["rule"] not in {"knee", "still_rising"}


def test_a_run_of_schema_1_opens_explains_and_has_the_same_curves() -> None:
    text = (DATA / "run-1.json").read_text()
    before: dict[str, Any] = json.loads(text)
    run = from_json(text)
    assert before["schema"] == "hwdyno.run/1" and run.schema == "hwdyno.run/2"
    again = explain(run)
    curves = {experiment.name: experiment.curves for experiment in run.experiments}
    loaded = "memory.loaded"
    assert [
        [(curve.points, curve.state, curve.model) for curve in experiment.curves]
        for experiment in again.experiments
        if experiment.name != loaded
    ] == [
        [(curve.points, curve.state, curve.model) for curve in experiment.curves]
        for experiment in run.experiments
        if experiment.name != loaded
    ]
    # Its fit was by the pause then, and is by bandwidth now.
    assert {experiment.name: [curve.model for curve in experiment.curves] for experiment in again.experiments}[
        loaded
    ] == ["loaded-latency"]
    (depth,), (delay,) = curves["storage.iodepth"], curves["memory.loaded"]
    assert depth.knee is not None and depth.knee.load == pytest.approx(8.593, abs=0.01)
    assert delay.knee is not None and delay.knee.load == pytest.approx(180.9, abs=0.1)
    assert {curve.model for curve in curves["storage.blocksize"]} == {"block-size"}
    advised = {
        (
            finding["rule"],
            finding["severity"],
            finding["experiment"],
            tuple(finding["points"]),
            _command(finding["advice"]),
        )
        for finding in before["findings"]
        if _of_points(finding)
    }
    found = {
        (finding.rule, finding.severity, finding.experiment, finding.points, _command(finding.advice))
        for finding in again.findings
    }
    assert advised <= found
    assert "queue depth (iodepth)" in drawn(again)


# --- one reading of a mix


@pytest.mark.parametrize(
    ("parameters", "share"),
    [
        ({"rw": "randread"}, 1.0), ({"rw": "write"}, 0.0), ({"rw": "randrw"}, 0.5),
        ({"rw": "rw", "rwmixread": 70}, 0.7),
        ({"rw": "randrw:30"}, 0.3), ({"rwmixread": 65}, 0.65), ({"rw": "randread", "rwmixread": 50}, 1.0),
        ({"rw": "trim"}, None), ({"rw": "trimwrite"}, 0.0), ({}, None), ({"rw": "sideways"}, None),
    ],
)  # fmt: skip
def test_the_share_of_reads(parameters: Parameters, share: float | None) -> None:
    assert read_share(FIELD.values(), parameters) == share


def test_a_share_goes_into_its_word_and_out_of_it() -> None:
    axes = tuple(FIELD.values())
    apart: Parameters = {"rw": "randrw", "bs": 4096, "rwmixread": 70}
    assert shares_split(axes, {"rw": "randrw:70", "bs": 4096}) == apart
    assert shares_joined(axes, apart) == {"rw": "randrw:70", "bs": 4096}
    assert shares_split(axes, {"rw": "read", "rwmixread": 70}) == {"rw": "read"}
    assert shares_joined(axes, {"rw": "read", "rwmixread": 70}) == {"rw": "read"}


def test_a_delay_in_a_label_is_a_quantity_and_none_is_called_so() -> None:
    axes = (Axis("operation"), Axis("mix"), Axis("delay", "cycles", "delay", 0))
    kernel = Declaration(axes=axes)
    labels = [format_label({"operation": "mix", "mix": "1:0", "delay": cycles}, kernel) for cycles in (0, 200)]
    assert labels == ["mix 1:0, no delay", "mix 1:0, delay 200 cycles"]
    assert [load_words(axes[2], cycles) for cycles in (0, 200)] == ["no delay", "a delay of 200 cycles"]
