"""A resource is one file: a made one gets its headline, its word for a rate, its ceilings and its limits by itself."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hwdyno.analysis import resources
from hwdyno.analysis.resources import Resource, all_resources, find, list_ceilings, rate_word, why_no_ceiling
from hwdyno.cli.main import load_subcommand
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.bottleneck import find_limit
from hwdyno.explain.findings.rule import Case
from hwdyno.model.machine import Machine
from hwdyno.model.words import Declaration, ExperimentResult, Measurement, Run
from hwdyno.report import page
from hwdyno.report.rows import make_rows
from hwdyno.report.scorecard import scorecard
from hwdyno.report.terminal import print_run
from made_memory import point

MADE = """
from hwdyno.analysis.resources.description import Doubt, HeadlineFigure, Resource
from hwdyno.model.words import Ceiling


def link(machine):
    return (Ceiling("total_bytes_s", "physical", 2e9, "bytes/s", "16 lanes", "the survey", "the copy link"),)


def launches(run, result):
    yield Ceiling("launches", "reference", 3e5, "operations/s", "one a gap", "an empty launch", "launch gap")


RESOURCE = Resource(
    common_options=("runtime",),
    examples=("hwdyno gadget",),
    name="gadget",
    title="Gadget",
    subject="The gadget",
    rate_word="launches/s",
    figures=(
        HeadlineFigure(title="copy {way}", unit="bytes/s", where={"way": "in"}),
        HeadlineFigure(title="launch", unit="ns", where={"way": "empty"}),
        HeadlineFigure(title="launches, {way}", unit="operations/s", where={"way": "full"}),
    ),
    ceilings=link,
    why_no_ceiling=lambda machine: ("gadget: its clock is unknown",),
    derived={"gadget_launch": launches},
    limits=("the copy engine", "its scheduler"),
    above_ceiling=Doubt(cause="the copies never left the host", test="Copy more", changes={"size": "8G"}),
)
"""


@pytest.fixture
def gadget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Resource]:
    (tmp_path / "gadget.py").write_text(MADE)
    monkeypatch.setattr(resources, "__path__", [*resources.__path__, str(tmp_path)])
    all_resources.cache_clear()
    yield find("gadget")
    monkeypatch.undo()
    all_resources.cache_clear()


def copies(way: str, bytes_s: float) -> Measurement:
    return replace(point(bytes_s, ns=5e3, way=way), cpu_user_s=0.1)


def launches(way: str, launches_s: float, ns: float) -> Measurement:
    return replace(point(launches_s, "operations/s", ns, way=way), cpu_user_s=0.1)


def make_run(kernel: str, *points: Measurement) -> Run:
    machine = Machine(hostname="made")
    result = ExperimentResult(
        f"gadget.{kernel}", "gadget", "Copies and launches", "way", kernel, points,
        ceilings=list_ceilings(machine, "gadget") if kernel == "gadget_copy" else (),
    )  # fmt: skip
    return explain(Run("id", "2026-01-01T00:00:00+00:00", None, (machine,), "quick", "hwdyno", (result,)))


def printed(run: Run) -> str:
    text = io.StringIO()
    print_run(run, file=text, width=120, verbose=True)
    return " ".join(text.getvalue().split())


def paged(run: Run) -> str:
    return page.html(run).replace("\N{NO-BREAK SPACE}", " ")


def test_a_made_resource_has_its_headline_in_terminal_and_page(gadget: Resource) -> None:
    run = make_run("gadget_copy", copies("in", 1.5e9), copies("out", 1.9e9))
    (row,) = scorecard(run).rows
    assert (row.resource, row.title, row.value) == ("Gadget", "copy way=in", "1,500 MB/s")
    assert "Gadget copy way=in 1,500 MB/s" in printed(run) and "1,500 MB/s" in paged(run)
    launched = make_run(
        "gadget_launch", launches("empty", 2e5, 4e3), launches("empty", 2.5e5, 3e3), launches("full", 9e4, 9e3)
    )
    shown = [(row.title, row.value) for row in scorecard(launched).rows]
    assert shown == [("launch", "3.00 µs"), ("launches, way=full", "90.0 k launches/s")]


def test_made_resource_has_a_command_from_its_description(gadget: Resource) -> None:
    screen = load_subcommand(gadget.name).HELP
    assert screen.options == gadget.common_options and screen.examples == ("hwdyno gadget",)


def test_made_resource_counts_in_its_word(gadget: Resource) -> None:
    run = make_run("gadget_launch", launches("empty", 2e5, 4e3), launches("full", 1e5, 9e3))
    assert "launches/s" in printed(run) and "launches/s" in paged(run)
    assert "operations/s" not in printed(run)


def test_a_made_resource_has_its_ceilings_with_their_doubts(gadget: Resource) -> None:
    assert why_no_ceiling(Machine(), "gadget") == ("gadget: its clock is unknown",)
    run = make_run("gadget_copy", copies("in", 3e9))
    (finding,) = [candidate for candidate in run.findings if candidate.rule == "physical_ceiling"]
    assert "the copy link can carry" in finding.says and "the copies never left the host" in finding.says
    assert finding.advice.startswith("Copy more: hwdyno gadget")
    assert "the copy link" in printed(run) and "the copy link" in paged(run)
    (row,) = make_rows(make_run("gadget_launch", launches("empty", 1.5e5, 4e3)))
    assert row.ceiling is not None and row.ceiling.label == "launch gap" and row.share == pytest.approx(0.5)


def test_a_made_resource_names_what_else_can_limit_it(gadget: Resource) -> None:
    run = make_run("gadget_copy", copies("in", 1.5e9))
    limit = find_limit(Case(run, run.experiments[0], 0))
    assert limit.kind == "not identified" and limit.says.startswith(
        "Limit not identified: nothing measured was above 90%"
    )
    assert limit.says.endswith("Not measured: the copy engine, its scheduler.")
    (row,) = make_rows(run)
    assert row.why_not_double == "", "no cause was measured"


def test_each_resource_is_described_under_its_files_name() -> None:
    assert set(all_resources()) >= {"storage", "memory", "compute", "network", "training", "inference"}
    for name, resource in all_resources().items():
        module = type(resource).__module__
        assert module == "hwdyno.analysis.resources.description" and resource.name == name and resource.title
        assert resource.figures or resource.headline_rules or resource.rate_word or resource.derived, (
            f"{name} has no figure of its own"
        )


def test_resource_that_nobody_describes_is_plain() -> None:
    tape = find("tape")
    assert (tape.name, tape.title, tape.rate_word, tape.client) == ("tape", "Tape", "", "beside")
    assert list_ceilings(Machine(), "tape") == () == why_no_ceiling(Machine(), "tape")


@pytest.mark.parametrize(
    ("name", "operation", "expected"),
    [
        ("storage", "operation", "IOPS"),
        ("storage", "I/O", "IOPS"),
        ("memory", "access", "accesses/s"),
        ("network", "round trip", "round trips/s"),
        ("training", "operation", "samples/s"),
        ("training", "entry", "entries/s"),
        ("compute", "context switch", "context switches/s"),
        ("compute", "operation", ""),
    ],
)
def test_rate_is_counted_in_fields_word(name: str, operation: str, expected: str) -> None:
    assert rate_word(name, Declaration(operation=operation)) == expected


def test_headline_belongs_to_its_named_experiment(gadget: Resource) -> None:
    run = make_run("gadget_copy", copies("in", 1.5e9))
    assert [row.title for row in scorecard(run).rows] == ["copy way=in"]
    for figure in (
        replace(gadget.figures[0], kernels=("gadget_other",)),
        replace(gadget.figures[0], not_in=("gadget.gadget_copy",)),
    ):
        named = replace(gadget, figures=(figure,))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hwdyno.report.headlines.find", lambda name, named=named: named)
            assert [row.title for row in scorecard(run).rows] != ["copy way=in"]
