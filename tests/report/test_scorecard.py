"""The scorecard: one screen on any Run, a verdict with its reason, commands that work, and the machine."""

from __future__ import annotations

import io
import re
import shlex
from dataclasses import replace
from pathlib import Path

import made_run
import pytest
from hwdyno.cli.machine import show
from hwdyno.cli.main import main, make_parser
from hwdyno.explain.findings import ABOUT_THE_RUN, all_rules
from hwdyno.explain.findings.summary import name_effect
from hwdyno.model.machine import Machine
from hwdyno.model.words import Finding
from hwdyno.report.headlines import DISBELIEVED, MAX_ROWS
from hwdyno.report.machine import describe_machine
from hwdyno.report.scorecard import (
    MAX_TODO,
    Scorecard,
    command_in,
    command_lines,
    machine_line,
    scorecard,
)
from hwdyno.report.tables import markdown
from hwdyno.system.store import to_json
from made_scorecards import ADVICE, RUNS, printed
from made_survey import MACHINE

SCREEN = 36
"""Lines that a scorecard may have."""


# --- one screen


@pytest.mark.parametrize("width", [80, 100, 132])
@pytest.mark.parametrize("name", RUNS)
def test_a_scorecard_fits_one_screen(name: str, width: int) -> None:
    text = printed(RUNS[name], width)
    lines = text.splitlines()
    assert 3 <= len(lines) <= SCREEN
    assert all(len(line) <= width for line in lines)
    assert not any(letter in text for letter in "\x1b\x07\u202e")


def test_a_scorecard_has_its_limits_and_keeps_the_figures_of_a_resource_together() -> None:
    for run in RUNS.values():
        card = scorecard(run)
        assert len(card.rows) <= MAX_ROWS and len(card.todo) <= MAX_TODO
        names = [row.resource for row in card.rows]
        assert names == sorted(names, key=names.index)
        for row in card.rows:
            point = run.experiments[row.experiment].points[row.point]
            doubted = {finding.rule for finding in run.findings} & {*DISBELIEVED} or row.title.endswith("read / write")
            assert row.state == point.validity or (doubted and row.state != "valid")
            assert row.title and re.match(r"[\d.,]+( \S|$)", row.value)


def test_everything_is_printed_on_request() -> None:
    run = RUNS["explained whole"]
    short, whole = printed(run), printed(run, verbose=True)
    assert short.splitlines()[:-1] == whole.splitlines()[: len(short.splitlines()) - 1]
    assert "--verbose" in short and "--verbose" not in whole
    for experiment in run.experiments:
        assert experiment.asks in whole and experiment.asks not in short
    plain = " ".join(whole.split())
    assert all(" ".join(finding.says.split()) in plain for finding in run.findings)


def test_the_command_shows_the_scorecard_and_names_what_shows_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("my run.json")
    path.write_text(to_json(made_run.whole_run()))
    assert main(["report", str(path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    command = shlex.split(last.partition(": ")[2])
    assert command == ["hwdyno", "report", str(path), "--verbose"]
    assert main(command[1:]) == 0
    assert "Standard disk tests" in capsys.readouterr().out


def test_scorecard_comes_first_in_markdown() -> None:
    text = markdown(made_run.whole_run())
    assert text.startswith("# bench-07: Example CPU 9000, 16 threads")
    assert (
        text.index("**sound**")
        < text.index("| Storage | SEQ1M Q8T1 read / write | 3,288 / 2,566 MB/s |")
        < text.index("## Figures")
    )
    assert "83% of PCIe 3.0 x4, 3,938 MB/s" in text and "3,200 / 2,300 MB/s for PCIe 3.0 x4 NVMe" in text


# --- what to do


def test_warnings_come_first_those_on_the_machine_before_the_noise_of_this_run() -> None:
    noise = Finding(
        "interval_not_reached",
        "warning",
        "memory",
        "24 results vary.",
        {},
        "Measure longer: hwdyno memory --profile full",
    )
    again = replace(
        noise, rule="outlying_repeats", says="One repeat was off.", advice="Again: hwdyno memory --threads 2"
    )
    link = Finding("link_below_its_best", "warning", "storage", "The drive links at half.", {}, "Check: hwdyno machine")
    cache = Finding("claimed_cache", "info", "memory", "L3 is smaller.", {}, ADVICE["machine"])
    run = replace(made_run.whole_run(), findings=(noise, again, cache, link))
    assert [todo.says for todo in scorecard(run).todo] == [
        "The drive links at half.",
        "24 results vary.",
        "L3 is smaller.",
    ]
    wrong = Finding(
        "page_cache", "invalid", "storage", "This is the page cache.", {}, "Measure: hwdyno storage --direct 1"
    )
    assert scorecard(replace(run, findings=(noise, cache, wrong))).todo[0].says == "This is the page cache."


def test_grave_finding_without_command_is_explained() -> None:
    link = Finding(
        "link_below_its_best", "warning", "storage", "The drive links at half.", {}, "Move it to another slot."
    )
    run = replace(made_run.whole_run(), findings=(link, replace(link, rule="foreign"), replace(link, severity="info")))
    (todo,) = scorecard(run).todo
    assert (todo.says, todo.command) == ("The drive links at half.", "hwdyno explain link_below_its_best")
    assert main(shlex.split(todo.command)[1:]) == 0


def test_rules_about_run_are_rules() -> None:
    known = {rule.name for rule in all_rules()}
    assert {"interval_not_reached", "repeats_disagree", "steal"} <= ABOUT_THE_RUN & known
    assert known >= ABOUT_THE_RUN
    assert name_effect("client_bound") == "a busy client CPU" and name_effect("no_such_rule") == "no such rule"


def parsed(command: str) -> None:
    words = shlex.split(command)
    assert words[0] == "hwdyno"
    make_parser(words[1]).read(words[2:])


@pytest.mark.parametrize("name", sorted(set(RUNS) - {"every resource", "explained sweep"}))
def test_each_thing_to_do_is_a_command_that_the_parser_takes(name: str) -> None:
    for todo in scorecard(RUNS[name]).todo:
        assert todo.says and len(todo.says) <= 76
        parsed(todo.command)
        # As printed, over several lines if it is long.
        lines = command_lines(todo.command)
        assert all(line.endswith("\\") for line in lines[:-1])
        assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(todo.command)


@pytest.mark.parametrize(
    ("advice", "command"),
    [
        (ADVICE["whole"], ADVICE["whole"].partition(": ")[2]),
        ("Look closer: hwdyno memory caches", "hwdyno memory caches"),
        ("Compare runs: `hwdyno compare` uses this.", "hwdyno compare"),
        ("Measure a path: `hwdyno network server --bind ADDR` there.", ""),
        ("Set the governor.", ""),
        ("Again: hwdyno storage --path .", "hwdyno storage --path ."),
        ("Again: hwdyno storage --path . Then compare.", "hwdyno storage --path ."),
        ("Again: hwdyno run --path '/a b'", "hwdyno run --path '/a b'"),
        ("Again: hwdyno run; rm -rf /", "hwdyno run"),
        ("Again: hwdyno run && rm -rf /", ""),
        ("Again: hwdyno run --path $(reboot)", ""),
        ("Again: hwdyno run --path '/a", ""),
        ("Again: hwdyno run | sh", ""),
        ("Again: hwdyno storage --path /a/hwdyno-scratch-1f/made/data", ""),
    ],
)
def test_a_command_is_taken_from_an_advice_only_if_it_works_as_printed(advice: str, command: str) -> None:
    assert command_in(advice) == command


def test_example_ceiling_is_not_offered() -> None:
    advice = "Read the modules, then: hwdyno memory --ceiling 'physical 51.2 GB/s'"
    guess = Finding("practical_bandwidth", "info", "memory", "Memory reaches 60 GB/s.", {}, advice)
    run = replace(made_run.whole_run(), findings=(guess,))
    assert scorecard(run).todo == ()
    given = replace(run, command="hwdyno memory --ceiling 'physical 51.2 GB/s'")
    assert [todo.command for todo in scorecard(given).todo] == ["hwdyno memory --ceiling 'physical 51.2 GB/s'"]


def test_a_foreign_command_is_not_offered() -> None:
    nasty = replace(made_run.partial_run(), command="hwdyno run; reboot")
    assert scorecard(nasty).todo == ()


# --- the machine


def test_the_machine_is_one_line() -> None:
    assert (
        machine_line(made_run.whole_run()) == "bench-07: Example CPU 9000, 16 threads; 64 GiB; ext4 on Example SSD 1TB"
    )
    assert "storage" not in machine_line(replace(made_run.whole_run(), machines=(Machine(),)))
    two = replace(made_run.whole_run(), machines=made_run.whole_run().machines * 2)
    assert machine_line(two).startswith("bench-07 and 1 more host: ")
    assert "unknown" in machine_line(RUNS["imported"])


def test_the_command_and_the_page_say_the_bytes_of_a_machine_alike() -> None:
    whole = Machine.of_survey(MACHINE)
    out = io.StringIO()
    show(whole, (), (), out)
    paged = " ".join(fact.says for group in describe_machine(whole) for fact in group.facts)
    for amount in ("64 GiB", "51 GiB", "48 KiB"):
        assert amount in out.getvalue() and amount in paged
    assert "1 TB" in out.getvalue() and "1 TB" in paged
    for text in (out.getvalue(), paged):
        assert not re.search(r"\b(68\.7|54\.8|49\.2) |\b931 GiB", text), "the same bytes in another unit"


def test_a_scorecard_of_a_frozen_run_is_the_same_each_time() -> None:
    first: Scorecard = scorecard(RUNS["explained whole"])
    assert first == scorecard(RUNS["explained whole"])
