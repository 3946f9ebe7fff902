"""``hwdyno compare``: what differs comes first, unlike results are refused, and every output holds what it must."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import hostile
import junitparser
import made_store as made
import pytest
import yaml
from here import shortly
from hwdyno.analysis.ceilings.named import parse_device
from hwdyno.cli.main import main
from hwdyno.explain.comparison import Compared, device_compared, differences, match_points, runs_compared
from hwdyno.model.machine import Conditions, Cpu, Machine, Memory, Nic, OperatingSystem, Settings
from hwdyno.model.point_details import Note
from hwdyno.model.words import Axis, Finding, Measurement, Run, Value
from hwdyno.report import compared_files, compared_page, overlay, svg, theme
from hwdyno.report.compared import FIRST_EXPERIMENTS, format_comparison, refusal
from hwdyno.system.printable import printable
from hwdyno.system.store import to_json

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / "docs" / "ci" / "hwdyno-compare.yml"
DEVICE = "Samsung 990 PRO 2TB"


def machine(**changed: Any) -> Machine:
    base = Machine(
        os=OperatingSystem(kernel="6.1", distribution="Debian 12"),
        cpu=Cpu(model="Some CPU", threads=4),
        memory=Memory(total_bytes=64 << 30, transparent_huge_pages="madvise"),
        conditions=Conditions(governor="performance", load_1m=0.1),
        settings=Settings(environment={"OMP_NUM_THREADS": "4"}),
    )
    return replace(base, **changed)


def scaled(factor: float = 1.0, *, name: str = "storage.iodepth", noise: float = 0.001, run_id: str = "a") -> Run:
    points = [
        made.point(depth, value * factor, tuple(value * factor * (1 + at * noise) for at in (-1, 0, 1)))
        for depth, value in ((1, 1e8), (2, 1.9e8), (4, 2.5e8), (8, 2.6e8))
    ]
    return replace(made.run(made.experiment(*points, name=name), run_id=run_id), machines=(machine(),))


def with_results(run: Run, **changed: Any) -> Run:
    return replace(run, experiments=tuple(replace(experiment, **changed) for experiment in run.experiments))


def with_points(run: Run, change: Any) -> Run:
    return replace(
        run,
        experiments=tuple(
            replace(experiment, points=tuple(map(change, experiment.points))) for experiment in run.experiments
        ),
    )


def given(point: Measurement, **parameters: Any) -> Measurement:
    return replace(point, parameters={**point.parameters, **parameters})


# --- what differs


def test_settings_and_machine_that_differ_are_named_and_what_passes_is_not() -> None:
    before = scaled()
    after = replace(
        scaled(),
        machines=(
            machine(
                hostname="other",
                os=OperatingSystem(kernel="6.8", distribution="Debian 12"),
                memory=Memory(total_bytes=(64 << 30) - (1 << 20), transparent_huge_pages="madvise", available_bytes=5),
                conditions=Conditions(governor="powersave", load_1m=3.0),
                settings=Settings(environment={}),
            ),
        ),
    )
    text = format_comparison("before", [runs_compared(before, after, "after")])
    assert "Differs: kernel 6.1 → 6.8; governor performance → powersave; OMP_NUM_THREADS 4 → not set" in text
    assert text.index("Differs") < text.index("ratio") and "one machine" in text
    assert "other" not in text and "load" not in text, "a host's name and the moment's load describe no machine"
    assert [difference.path for difference in differences(before, before)] == []


@pytest.mark.parametrize(
    "changed",
    [
        {"cpu": Cpu(model="Some CPU", threads=8)},
        {"cpu": Cpu(model="Other", threads=4)},
        {"memory": Memory(total_bytes=32 << 30)},
        {"hypervisor": "kvm"},
    ],
)
def test_machine_differences_are_no_regression(changed: dict[str, Any]) -> None:
    other = replace(scaled(0.5), machines=(machine(**changed),))
    side = runs_compared(scaled(), other, "other")
    assert not side.is_one_machine and side.differences[0].is_identity
    assert runs_compared(scaled(), scaled(0.5), "after").is_one_machine


def test_interfaces_that_are_virtual_or_down_are_no_difference() -> None:
    def with_nics(*nics: Nic) -> Run:
        return replace(scaled(), machines=(machine(nics=nics),))

    real = Nic(name="eth0", driver="mlx5", bits_s=25e9, mtu=1500, up=True)
    before = with_nics(real, Nic(name="veth1", virtual=True, up=True, mtu=1400))
    assert differences(before, with_nics(replace(real, name="eth7"))) == []
    (found,) = differences(before, with_nics(replace(real, mtu=9000)))
    assert (found.path, found.before, found.after) == ("nics.0.mtu", 1500, 9000)


# --- what is alike


def test_readings_of_another_length_and_place_are_still_alike() -> None:
    fixed = {"path": "/a", "runtime": 0.25, "ramp_time": 0.1, "seed": 1, "interval_s": 0.01}
    other = {"path": "/b", "runtime": 0.31, "ramp_time": 0.2, "seed": 2, "interval_s": 0.02}
    pairs = match_points(with_results(scaled(), fixed=fixed), with_results(scaled(), fixed=other)).pairs
    assert [len(some) for some in pairs.values()] == [4]


def test_an_axis_that_a_later_version_has_parts_nothing_at_its_default() -> None:
    def declared(run: Run, *axes: Axis, **fixed: Any) -> Run:
        (result,) = run.experiments
        known = replace(result.declaration, axes=(*result.declaration.axes, *axes))
        return with_results(run, declaration=known, fixed=fixed)

    gap = Axis("gap", default=0)
    before = scaled()
    assert match_points(before, declared(scaled(), gap, gap=0)).pairs
    assert not match_points(before, declared(scaled(), gap, gap=7)).pairs


UNLIKE = {
    "block": (lambda p: given(p, bs=131072), "bs 4 KiB against 128 KiB"),
    "cache": (lambda p: given(p, direct=False), "direct against cached"),
    "refused": (lambda p: replace(p, notes=(Note("direct_refused", "It was."),)), "direct against cached"),
    "unit": (
        lambda p: replace(p, throughput=Value(9e9, "FLOP/s"), rate=None, repeat_values=(9e9,)),
        "bandwidth (bytes/s) against FLOP/s",
    ),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_unlike_results_are_refused_in_one_line_that_names_what_differs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, words = UNLIKE[name]
    (tmp_path / "a.json").write_text(to_json(scaled()))
    (tmp_path / "b.json").write_text(to_json(with_points(scaled(), change)))
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert f"a.json and b.json are unlike: {words} in storage.iodepth" in err


def test_another_axis_is_refused() -> None:
    jobs = with_results(
        with_points(scaled(), lambda p: replace(given(p, iodepth=1, numjobs=p.parameters["iodepth"] * 3))),
        load="numjobs",
    )
    text = refusal([runs_compared(scaled(), jobs, "jobs")], "depths")
    assert "another axis, iodepth against numjobs" in text


@pytest.mark.parametrize(("server", "alike"), [("", True), ("127.0.0.1", True), ("10.0.0.5", False)])
def test_loopback_is_not_a_network(server: str, alike: bool) -> None:
    def run(server: str) -> Run:
        return with_results(scaled(), resource="network", kernel="network_throughput", fixed={"server": server})

    side = runs_compared(run(""), run(server), "after")
    assert bool(side.changes) == alike
    if not alike:
        assert "loopback against a network (10.0.0.5)" in refusal([side], "before")


def test_what_is_left_out_beside_what_is_compared_is_said() -> None:
    cached = with_points(scaled(name="storage.cached"), lambda p: given(p, direct=False)).experiments
    before = replace(scaled(), experiments=(*scaled().experiments, *scaled(name="storage.cached").experiments))
    after = replace(scaled(), experiments=(*scaled().experiments, *cached))
    text = format_comparison("before", [runs_compared(before, after, "after")])
    assert "Not compared: storage.cached: direct against cached" in text and "4 common points" in text


def test_a_side_alone_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text(to_json(scaled()))
    assert main(["compare", str(tmp_path / "a.json")]) == 2
    assert "--device NAME" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "a.json"), "--device", "No such drive"]) == 2
    assert "is not in the catalogue" in capsys.readouterr().err


@pytest.mark.parametrize("form", [(), ("--verbose",), ("--json",), ("--junit", "-")])
def test_names_are_left_out_and_told_apart_unless_they_are_asked_for(
    form: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for at, name in enumerate(("vault7.example.org", "vault8.example.org")):
        run = replace(scaled(run_id=str(at)), machines=(machine(hostname=name, cpu=Cpu(model=f"CPU of {name}")),))
        (tmp_path / f"{at}.json").write_text(to_json(run))
    files = [str(tmp_path / "0.json"), str(tmp_path / "1.json")]
    assert main(["compare", *files, *form]) == 0
    hidden = capsys.readouterr().out
    assert "vault" not in hidden
    if form == ("--verbose",):
        assert "CPU of host-1" in hidden and "CPU of host-2" in hidden, "one word each"
        assert main(["compare", *files, *form, "--with-names"]) == 0
        assert "vault7.example.org" in capsys.readouterr().out


# --- a published result, a device


def table(tmp_path: Path, text: str) -> str:
    path = tmp_path / "table.csv"
    path.write_text(text)
    return str(path)


def compared_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    status = main(["compare", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_without_repeats_ratios_stay_undecided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, rate in (("a", 1.0), ("b", 0.01)):
        point = made.point(1, 1e8 * rate, (1e8 * rate,))
        (tmp_path / f"{name}.json").write_text(to_json(made.run(made.experiment(point))))
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 3
    out = capsys.readouterr().out
    assert "cannot tell (no repeats)" in out and "slower" not in out.partition("ratio is of")[0]


@pytest.mark.parametrize("side", ["a", "b"])
def test_what_a_cache_of_the_host_answered_is_no_change(
    side: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cached = Finding(
        "host_cache", "warning", "storage", "Writes are faster than reads.", {}, "", "storage.iodepth", (0,)
    )
    for name, rate in (("a", 1.0), ("b", 1.5)):
        points = [made.point(load, 1e8 * share, tuple(1e8 * share * k for k in (0.99, 1.0, 1.01)))
                  for load, share in ((1, rate), (2, 1.9))]  # fmt: skip
        run = made.run(made.experiment(*points))
        (tmp_path / f"{name}.json").write_text(to_json(replace(run, findings=(cached,) * (name == side))))
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--verbose"]) == 0
    out = capsys.readouterr().out
    assert "cannot tell (the host's cache answered)" in out and "faster" not in out.partition("common points")[0]
    assert "1 cannot tell" in out


def test_a_published_table_is_compared_by_what_it_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run.json"
    run.write_text(to_json(scaled()))
    published = table(tmp_path, "rw,bs,QD,BW (MB/s)\nrandread,4k,1,50\nrandread,4k,4,500\nrandread,128k,8,9\n")
    status, document = compared_json(capsys, published, str(run))
    (side,) = document["sides"]
    found = {change["parameters"]["iodepth"]: change["ratio"]["value"] for change in side["changes"]}
    assert status == 3 and found == pytest.approx({1: 2.0, 4: 0.5})
    assert {change["verdict"] for change in side["changes"]} == {"unknown"} and not side["one_machine"]
    status, document = compared_json(capsys, published, str(run), "--fail-under", "95%")
    assert (status, document["status"]) == (3, "open"), "a single reading proves no loss"


def test_ambiguous_table_is_not_guessed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run.json"
    run.write_text(to_json(scaled()))
    assert main(["compare", str(run), table(tmp_path, "rw,bs,BW (MB/s)\nrandread,4k,50\n")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_catalogued_device_meets_nearest_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run.json"
    run.write_text(to_json(scaled()))
    status, document = compared_json(capsys, str(run), "--device", DEVICE)
    (side,) = document["sides"]
    rated = next(change for change in side["changes"] if change["before"]["unit"] == "operations/s")
    assert status == 0 and rated["before"]["value"] == pytest.approx(1.4e6)
    assert rated["after"]["value"] == pytest.approx(2.6e8 / 4096) and rated["parameters"]["iodepth"] == 8
    assert rated["verdict"] == "slower" and "maker's figure" in rated["stated"]
    assert main(["compare", str(run), "--device", DEVICE]) == 0
    assert "below" in (out := capsys.readouterr().out) and "slower" not in out
    assert main(["compare", str(run), "--device", DEVICE, "--fail-under", "50%"]) == 1


# --- the exit status


@pytest.mark.parametrize(
    ("factor", "limit", "status"),
    [(0.8, None, 1), (0.8, "95%", 1), (0.8, "70%", 0), (1.0, "95%", 0), (1.2, "95%", 0), (0.8, "100%", 1)],
)
def test_the_exit_status_follows_the_limit(
    factor: float, limit: str | None, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, run in (("a", scaled()), ("b", scaled(factor, run_id="b"))):
        (tmp_path / f"{name}.json").write_text(to_json(run))
    given = ["--fail-under", limit] if limit else []
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), *given]) == status
    out = capsys.readouterr().out
    assert ("Failed" in out) == (limit is not None and status == 1)


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
    assert "common points" in (tmp_path / "compare.txt").read_text()
    assert (tmp_path / "compare.html").read_text().startswith("<!doctype html>")


def test_a_page_is_replaced_only_where_hwdyno_wrote_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text(to_json(scaled()))
    page = tmp_path / "page.html"
    arguments = ["compare", str(tmp_path / "a.json"), str(tmp_path / "a.json"), "--html", str(page)]
    assert main(arguments) == 0 and main(arguments) == 0
    page.write_text("mine")
    assert main(arguments) == 2 and page.read_text() == "mine"
