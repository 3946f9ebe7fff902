"""What was measured is shown, and the part that a bug took is named, no matter in which part the bug is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hwdyno.explain.findings import catalogue, explanation
from hwdyno.model.point_details import Samples
from hwdyno.model.words import Run
from hwdyno.report import charts, contention, distributions, page, plots, scorecard, story, svg, tables, terminal
from hwdyno.report.charts import list_charts
from hwdyno.report.scorecard import explain_run
from hwdyno.report.terminal import print_run
from hwdyno.system.failures import attempt, collecting
from report_runs import MADE, WHOLE

WITH_FINDING = next(
    run for run in MADE.values() if any(point.why for result in run.experiments for point in result.points)
)
"""A Run with a finding on a point."""


def broken(*_: Any, **__: Any) -> Any:
    raise ValueError("planted")


@pytest.fixture(autouse=True)
def users_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HWDYNO_TRACEBACK", raising=False)


def test_an_attempt_without_a_listener_hides_no_bug() -> None:
    with pytest.raises(ValueError, match="planted"):
        attempt("the part", broken, None)


def test_tracebacks_are_shown_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWDYNO_TRACEBACK", "1")
    with collecting(), pytest.raises(ValueError, match="planted"):
        attempt("the part", broken, None)


def test_an_error_of_the_machine_is_no_bug() -> None:
    with collecting() as missing, pytest.raises(FileNotFoundError):
        attempt("the part", lambda: Path("/nowhere/at/all").read_text(), "")
    assert missing == []


def test_a_failed_part_is_named_once_and_to_all_listeners() -> None:
    with collecting() as outer:
        with collecting() as inner:
            assert attempt("the part", broken, 3) == 3
            assert attempt("the part", broken, 3) == 3
        assert len(inner) == 1
    assert outer == inner
    assert outer[0].startswith("the part is missing: internal error: ValueError: planted; please report it")


EXPLAINED: dict[str, tuple[Any, str, str]] = {
    "a model": (explanation, "fit_curves", "the curve of "),
    "derived figures": (explanation, "_DERIVED", "a step"),
    "a finding": (explanation, "summarize_hits", "the rule "),
    "headlines": (scorecard, "headlines", "the verdict"),
    "the verdict": (scorecard, "verdict_on", "the verdict"),
    "all": (scorecard, "explain", "the list of findings"),
}


@pytest.mark.parametrize("part", EXPLAINED)
def test_a_run_is_explained_without_the_part_that_fails(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, named = EXPLAINED[part]
    monkeypatch.setattr(module, name, (("a step", broken),) if name == "_DERIVED" else broken)
    run = explain_run(replace(WITH_FINDING, degraded=()))
    assert [sentence for sentence in run.degraded if sentence.startswith(named)], run.degraded
    assert run.verdict in {"use with care", "not to be trusted"}
    assert sum(len(experiment.points) for experiment in run.experiments) == points(WITH_FINDING)


def test_a_rule_that_fails_costs_its_own_finding_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = explain_run(WHOLE)
    name = whole.findings[-1].rule
    rules = [replace(rule, check=broken) if rule.name == name else rule for rule in catalogue.all_rules()]
    monkeypatch.setattr(explanation, "all_rules", lambda: rules)
    run = explain_run(WHOLE)
    assert {finding.rule for finding in whole.findings} - {finding.rule for finding in run.findings} == {name}
    assert [sentence for sentence in run.degraded if f"the rule {name} is missing" in sentence]


def points(run: Run) -> int:
    return sum(len(experiment.points) for experiment in run.experiments)


SHOWN: dict[str, tuple[Any, str]] = {
    "a chart": (plots, "throughput"),
    "a distribution": (distributions, "samples"),
    "all charts": (charts, "choose_kinds"),
    "drawing": (svg, "draw"),
    "the first charts": (story, "_figures"),
    "headlines": (scorecard, "headlines"),
    "to do": (scorecard, "_todo"),
    "contention": (contention, "matrices"),
    "a table": (tables, "points_table"),
    "distributions": (tables, "distribution_table"),
    "rules": (page, "judged_rules"),
    "machines": (page, "describe_machines"),
    "figures": (page, "make_rows"),
}


@cache
def make_sound_page() -> str:
    return page.html(WHOLE)


@pytest.mark.parametrize("part", SHOWN)
def test_a_page_is_drawn_without_the_part_that_fails(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = make_sound_page()
    monkeypatch.setattr(*SHOWN[part], broken)
    shown = page.html(WHOLE)
    assert shown.count("Left out: ") >= 1 and "Left out: " not in sound
    assert "ValueError: planted" in shown
    assert 'id="data"' in shown and "</html>" in shown


@pytest.mark.parametrize("part", ["headlines", "to do", "a table"])
def test_the_terminal_shows_the_figures_where_a_part_fails(
    part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, name = (terminal, "_body") if part == "a table" else SHOWN[part]
    monkeypatch.setattr(module, name, broken)
    with collecting() as missing:
        print_run(replace(WHOLE, quoted=()), verbose=part == "a table")
    out = capsys.readouterr().out
    assert len(missing) >= 1
    # Each experiment's points, but for the table that failed.
    assert out.count("could not be made") == (len(missing) if part == "a table" else 0)
    assert "IOPS" in out


def test_samples_of_a_point_that_moved_nothing_are_drawn() -> None:
    """A line on a log scale has no place for zeros."""
    result = next(experiment for experiment in WHOLE.experiments if len(experiment.points) > 3)
    busy = Samples(0.0, 1.0, 2.0, 0.01, None, tuple(float(10 ** (at % 4)) for at in range(100)))
    idle = replace(busy, values=(0.0,) * 100)
    some = [replace(point, samples=samples) for point, samples in zip(result.points, (idle, busy, busy), strict=False)]
    drawn = distributions.samples(replace(result, points=tuple(some)), [0, 1, 2])
    assert drawn is not None
    assert {mark.series for mark in drawn.marks} == {1, 2}


def test_no_part_of_a_made_run_fails() -> None:
    with collecting() as missing:
        list_charts(explain_run(WHOLE))
        page.html(WHOLE)
    assert missing == []
