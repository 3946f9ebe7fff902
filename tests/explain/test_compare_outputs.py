"""What ``hwdyno compare`` writes: one screen, JUnit and a page, safe against hostile names, and the workflow."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import hostile
import junitparser
import made_store as made
import pytest
import yaml
from here import shortly
from hwdyno.analysis.ceilings.named import parse_device
from hwdyno.cli.main import main
from hwdyno.explain.comparison import Compared, device_compared, runs_compared
from hwdyno.model.machine import Cpu
from hwdyno.model.units import plural
from hwdyno.model.words import Run, Value
from hwdyno.report import compared_files, compared_page, overlay, svg, theme
from hwdyno.report.compared import FIRST_EXPERIMENTS, format_comparison, refusal
from hwdyno.system.printable import printable
from hwdyno.system.store import from_json, to_json
from made_comparison import DEVICE, given, machine, scaled, with_points, with_results

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / "docs" / "ci" / "hwdyno-compare.yml"


# --- outputs


def many() -> Sequence[Compared]:
    other = replace(scaled(0.7, run_id="c"), machines=(machine(cpu=Cpu(model="Other")),))
    return [
        runs_compared(scaled(), scaled(0.8, run_id="b"), "after"),
        runs_compared(scaled(), other, "other"),
        device_compared(scaled(), DEVICE, parse_device(DEVICE)),
    ]


def test_terminal_shows_one_screen_unless_verbose() -> None:
    results = [scaled(name=f"storage.{at}").experiments[0] for at in range(30)]
    before = replace(scaled(), experiments=tuple(results))
    after = with_points(before, lambda p: replace(p, repeat_values=tuple(0.8 * repeat for repeat in p.repeat_values)))
    for sides in ([runs_compared(before, after, "after")], [runs_compared(before, after, str(at)) for at in range(5)]):
        short = format_comparison("before", sides, 0.95)
        assert len(short.splitlines()) <= 24 + 3 * len(sides) and max(map(len, short.splitlines())) <= 132
        assert f"{30 - FIRST_EXPERIMENTS} more experiments (--verbose)" in short
        assert format_comparison("before", sides, verbose=True).count("storage.29") >= 5 * len(sides)


def test_latency_tests_are_compared_in_times() -> None:
    """Its rate is the same figure upside down, in a unit that no one judges memory by."""

    def at(mean_ns: float) -> Run:
        point = made.point(1, 1e9, rw="chase")
        value = Value(1e9 / mean_ns, "operations/s", 0.95e9 / mean_ns, 1.1e9 / mean_ns)
        point = replace(point, throughput=value, latency_ns=made.latency(mean_ns), repeat_values=())
        result = replace(made.experiment(point, name="memory.latency"), resource="memory", metric="latency")
        return made.run(result, run_id=str(mean_ns))

    side = runs_compared(at(90.0), at(100.0), "after")
    text, page = format_comparison("before", [side], verbose=True), compared_page.html("before", [side])
    assert "90.0 ns" in text and "100 ns" in text and "90.0 ns" in page
    assert "IOPS" not in text and "operations/s" not in text
    assert "0.900" in text and "above 1 is faster" in text
    (change,) = [candidate for candidate in side.changes if candidate.points == 1]
    assert change.before == Value(90.0, "ns", pytest.approx(90 / 1.1), pytest.approx(90 / 0.95))


def test_several_sides_stand_in_columns() -> None:
    text = format_comparison("before", many())
    (head,) = (line for line in text.splitlines() if line.startswith("experiment"))
    assert head.split()[1:3] == ["after", "other"] and head.endswith(DEVICE)
    assert re.search(r"^storage\.iodepth +0\.800 - +0\.700 -$", text, re.MULTILINE)


def test_junit_is_read_by_a_parser_of_ci_tools() -> None:
    sides = many()
    text = compared_files.junit("before", sides, 0.95)
    found = junitparser.JUnitXml.fromstring(text.encode())
    assert len(list(found)) == 2 + len({change.experiment for change in sides[2].changes})
    for suite, side in zip(found, sides, strict=False):
        cases = list(suite)
        assert suite.tests == len(cases) == len([change for change in side.changes if change.experiment in suite.name])
        assert suite.failures == sum(any(isinstance(r, junitparser.Failure) for r in case.result) for case in cases)
        assert {suite_property.name for suite_property in suite.properties()} >= {"base", "compared with"}
    assert found.failures == sum(suite.failures for suite in found) > 0 == found.errors
    passing = junitparser.JUnitXml.fromstring(compared_files.junit("before", sides[1:2], None).encode())
    assert passing.failures == 0, "another machine is no regression"


# What Jenkins' schema of JUnit reports (junit-10.xsd) allows of the elements that are used here.
JUNIT = {
    "testsuites": ({"name", "tests", "failures", "skipped", "errors", "time"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname"},
        {"properties", "testcase", "system-out"},
    ),
    "properties": (set[str](), {"property"}),
    "property": ({"name", "value"}, set[str]()),
    "testcase": ({"name", "classname", "time", "status"}, {"failure", "skipped", "error", "system-out"}),
    "failure": ({"message", "type"}, set[str]()),
    "skipped": ({"message", "type"}, set[str]()),
    "system-out": (set[str](), set[str]()),
}


def checked_junit(text: str) -> ElementTree.Element:
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    for node in root.iter():
        attributes, children = JUNIT[node.tag]
        assert set(node.attrib) <= attributes and {child.tag for child in node} <= children
        assert node.tag not in {"testsuite", "testcase"} or node.get("name")
    for suite in root:
        assert int(suite.get("tests", "-1")) == len(suite.findall("testcase"))
        assert int(suite.get("failures", "-1")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("skipped", "-1")) == len(suite.findall("testcase/skipped"))
    return root


def test_junit_holds_to_its_schema() -> None:
    checked_junit(compared_files.junit("before", many(), 0.95))


def test_page_overlays_all_sides() -> None:
    sides = many()
    (chart, *_) = overlay.overlays("before", sides)
    assert chart.picture.series == ("before", "after", "other")
    drawn = ElementTree.fromstring(svg.draw(chart.picture, theme.paint(page=True)))
    legend = [node for node in drawn.iter() if node.get("class") == "entry"]
    assert len(legend) == 3
    dots = {mark.series for mark in chart.picture.marks if type(mark).__name__ == "Dot"}
    assert dots == {0, 1, 2}
    page = compared_page.html("before", sides, 0.95)
    assert page.index("different machines") < page.index("<svg xmlns") and "processor Some CPU → Other" in page
    assert page.count("Content-Security-Policy") == 1 and "http-equiv" in page


def test_colour_means_one_side_everywhere() -> None:
    writes = with_points(scaled(name="storage.iodepth"), lambda p: given(p, rw="randwrite")).experiments[0]
    both = replace(
        scaled(),
        experiments=(replace(scaled().experiments[0], points=(*scaled().experiments[0].points, *writes.points)),),
    )
    sides = [runs_compared(both, scaled(0.9), "reads"), runs_compared(both, with_results(both), "both")]
    for chart in overlay.overlays("base", sides):
        assert chart.picture.series == ("base", "reads", "both")


# --- hostile names


@pytest.mark.parametrize("name", shortly(3, *hostile.RUNS))
def test_no_output_obeys_a_hostile_name(name: str, tmp_path: Path) -> None:
    run = hostile.RUNS[name]()
    other = replace(run, machines=(machine(cpu=Cpu(model=hostile.PAYLOAD)),))
    side = runs_compared(run, other, hostile.PAYLOAD)
    assert side.changes
    sides = [side]
    for verbose in (False, True):
        text = format_comparison(hostile.PAYLOAD, sides, 0.95, verbose=verbose)
        assert not hostile.steers(text)
        assert not [line for line in text.splitlines() if line.startswith(("# head", "| a | b |"))]
    assert not hostile.steers(refusal(sides, printable(hostile.PAYLOAD)))
    checked_junit(compared_files.junit(hostile.PAYLOAD, sides, 0.95))
    json.loads(compared_files.json_text(hostile.PAYLOAD, sides, None))
    page = compared_page.html(hostile.PAYLOAD, sides)
    assert not hostile.steers(page)
    assert "<img" not in page and "<script>window" not in page and 'onload="' not in page
    assert page.count("</script>") == 2


# --- the workflow of the documents


def test_workflow_is_one_that_github_reads() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert workflow[True] == "pull_request", "YAML 1.1 reads the key `on` as true, and GitHub as itself"
    (job,) = workflow["jobs"].values()
    assert job["runs-on"] and all(("uses" in step) != ("run" in step) for step in job["steps"])
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]) for step in job["steps"] if "uses" in step)


@pytest.mark.long  # It measures memory twice, for fifteen seconds at most each.
@pytest.mark.machine
def test_the_workflows_commands_run(tmp_path: Path) -> None:
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    program = tmp_path / "bin" / "hwdyno"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hwdyno "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "python"),
        "HWDYNO_HOME": str(tmp_path / "home"),
    }
    for step in job["steps"]:
        if "run" not in step or "pip install" in step["run"]:
            continue
        # As GitHub runs a step: bash, which ends at the first error.
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0 or (step["name"] == "Compare" and done.returncode in {1, 3}), done.stderr
    checked_junit((tmp_path / "compare.xml").read_text())
    measured = [
        {point.parameters["operation"] for point in from_json((tmp_path / name).read_text()).experiments[0].points}
        for name in ("before.json", "after.json")
    ]
    # A busy machine leaves time for one of the two points.
    common = plural(len(measured[0] & measured[1]), "common point")
    assert common != "0 common points" and common in (tmp_path / "compare.txt").read_text()
    assert (tmp_path / "compare.html").read_text().startswith("<!doctype html>")


def test_a_page_is_replaced_only_where_hwdyno_wrote_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text(to_json(scaled()))
    page = tmp_path / "page.html"
    arguments = ["compare", str(tmp_path / "a.json"), str(tmp_path / "a.json"), "--html", str(page)]
    assert main(arguments) == 0 and main(arguments) == 0
    page.write_text("mine")
    assert main(arguments) == 2 and page.read_text() == "mine"
