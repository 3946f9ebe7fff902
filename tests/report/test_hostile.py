"""Hostile texts from a machine, a file or an import: shown as text, and obeyed by nothing."""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import hostile
import made_run
import pytest
from hwdyno.cli import machine, progress
from hwdyno.cli.main import main
from hwdyno.formats import table
from hwdyno.measure.runner.observers import NextReading
from hwdyno.model.words import Finding, Latency, Run
from hwdyno.report import chart_files, svg, tables, theme
from hwdyno.report.charts import list_charts
from hwdyno.report.projections import project_curves
from hwdyno.report.terminal import print_run
from hwdyno.system.printable import (
    WIDEST,
    columns,
    console_on,
    csv_cell,
    escape_text,
    markdown_code,
    markdown_text,
    printable,
)
from hwdyno.system.store import Store, StoreError, from_json, to_json

HOUSE = Path(__file__).parents[2] / "python" / "hwdyno"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
RUNS = hostile.RUNS


def printed(run: Run, width: int = 100) -> str:
    out = io.StringIO()
    path = Path("/tmp") / "\x1b[31mreport\n\u202e.html"
    for verbose in (False, True):
        print_run(run, [path], file=out, width=width, verbose=verbose)
    return out.getvalue()


# --- the doors


def test_printable_text_is_unchanged() -> None:
    run = made_run.whole_run()
    assert printable(run) is run
    text = "µs, ×, 漢字, العربية, é, 🦀, a\u00a0b"
    assert printable(text) == escape_text(text) == text
    assert escape_text("a\n\tb") == "a\n\tb"
    assert printable("a\n\tb") == "a\\n\\tb"


@pytest.mark.parametrize("letter", sorted(hostile.STEERING))
def test_what_steers_a_terminal_is_shown_as_its_escape(letter: str) -> None:
    shown = f"a{json.dumps(letter)[1:-1]}b"
    assert escape_text(f"a{letter}b") == printable(f"a{letter}b") == shown
    assert printable({letter: (letter, [letter])}) == {shown[1:-1]: (shown[1:-1], [shown[1:-1]])}


def test_a_document_survives_its_escapes_whole() -> None:
    run = hostile.wholly_hostile_run()
    text = to_json(run)
    assert not hostile.steers(text)
    assert from_json(text) == run


@pytest.mark.parametrize("text", hostile.FORMULAS)
def test_formula_is_text_in_spreadsheet(text: str) -> None:
    cell = csv_cell(text)
    assert cell[0] not in "=+-@＝\t\r\n "
    assert not hostile.steers(cell) and "\n" not in cell


@pytest.mark.parametrize(
    "cell", [-5.3, 0, -1, 1e-9, None, True, "-5.3", "+1", "-1e-9", "12", "plain", "a=b", "a-b", ""]
)
def test_numbers_and_plain_text_are_unchanged(cell: object) -> None:
    assert csv_cell(cell) is cell or csv_cell(cell) == cell


def test_markdown_keeps_hostile_text_in_cell() -> None:
    for make in (markdown_text, markdown_code):
        shown = make(hostile.PAYLOAD)
        assert not set(shown) & set("|<>`[]*\n\\")
        assert not hostile.steers(shown)
    assert markdown_code("hwdyno run --size 1G") == "`hwdyno run --size 1G`"


def test_one_long_name_does_not_hide_the_other_columns() -> None:
    text = columns([("name", "value"), ("W" * 5000, "1"), ("short", "2")])
    assert max(map(len, text.splitlines())) <= WIDEST + len("  value")
    assert [line.split()[-1] for line in text.splitlines()] == ["value", "1", "2"]


def test_consoles_are_made_in_one_place() -> None:
    for path in HOUSE.rglob("*.py"):
        text = path.read_text()
        if "Console" not in text and "DictWriter" not in text:
            continue
        calls = [
            node
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in {"Console", "DictWriter"}
        ]
        assert not calls, f"{path}: take printable.console_on, or csv.writer with printable.csv_cell"


# --- a Run


def test_every_word_of_the_document_is_spoilt_in_some_run() -> None:
    """The groups are found by type, so this fails only where a kind is left out on purpose."""
    assert hostile.list_kinds(Run) - set().union(*hostile.GROUPS.values()) == {Latency}


def test_a_spoilt_histogram_is_refused_before_anything_is_drawn_of_it() -> None:
    with pytest.raises(StoreError, match=r"not a packed histogram") as caught:
        from_json(to_json(hostile.spoiled(made_run.whole_run(), {Latency})))
    assert "\n" not in str(caught.value)


def test_missing_point_is_refused() -> None:
    run = made_run.whole_run()
    experiment = run.experiments[1]
    curve = replace(experiment.curves[0], points=(0, 999))
    broken = replace(run, experiments=(replace(experiment, curves=(curve,)),))
    with pytest.raises(StoreError, match="point 999 does not exist"):
        from_json(to_json(broken))


def test_a_curve_without_a_load_is_not_projected() -> None:
    document = json.loads(to_json(made_run.whole_run()))
    for result in document["experiments"]:
        for curve in result["curves"]:
            del result["points"][curve["points"][0]]["parameters"][curve["load"]]
    assert project_curves(made_run.whole_run(), [1e3])
    assert project_curves(from_json(json.dumps(document)), [1e3]) == []


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("width", [50, 100])
def test_the_terminal_gets_nothing_raw_and_no_line_too_long(name: str, width: int) -> None:
    text = printed(RUNS[name](), width)
    assert not hostile.steers(text)
    assert max(map(len, text.splitlines())) <= width
    assert not [line for line in text.splitlines() if line.startswith(("# head", "| a | b |"))], "a name forged a line"


def test_colours_are_only_orders_on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    for make in RUNS.values():
        text = printed(make())
        assert "\x1b[1m" in text
        assert not hostile.steers(COLOURS.sub("", text))
    finding = Finding("rule", "warning", "cpu", "[red]boo[/red] [/bold] :smile: [link=x]y", {}, "")
    out = io.StringIO()
    print_run(replace(made_run.whole_run(), findings=(finding,)), file=out, width=100, verbose=True)
    text = out.getvalue()
    assert "[red]boo[/red] [/bold] :smile: [link=x]y" in text


@pytest.mark.parametrize("name", RUNS)
def test_markdown_tables_do_not_break(name: str) -> None:
    text = tables.markdown(RUNS[name]())
    assert not hostile.steers(text)
    assert "<" not in text
    wide = 0
    for line in text.splitlines():
        if not line.startswith("|"):
            wide = 0
            continue
        assert wide in {0, line.count("|")}
        wide = line.count("|")
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert all(line.startswith(("# ", "## ", "### ")) for line in headings)
    assert not any(line.startswith("# head") for line in headings)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("make", [tables.csv_text, lambda run: table.format_csv(table.make_rows(run))])
def test_csv_holds_numbers_and_text_but_no_formula(name: str, make: Callable[[Run], str]) -> None:
    run = RUNS[name]()
    text = make(run)
    assert not hostile.steers(text)
    heads, *lines = csv.reader(io.StringIO(text))
    assert len(lines) == sum(len(experiment.points) for experiment in run.experiments)
    for line in (heads, *lines):
        assert len(line) == len(heads)
        for cell in line:
            assert cell[:1] not in {"=", "@", "\t", "\r"}
            assert cell[:1] not in {"+", "-"} or re.fullmatch(r"[+-][0-9.]+(e[+-]?[0-9]+)?", cell)


@pytest.mark.parametrize("start", hostile.FORMULAS)
def test_every_cell_that_a_spreadsheet_would_run_is_quoted(start: str) -> None:
    run = hostile.wholly_hostile_run(start + "x")
    cells = [cell for line in csv.reader(io.StringIO(table.format_csv(table.make_rows(run)))) for cell in line]
    cells += [cell for line in csv.reader(io.StringIO(tables.csv_text(run))) for cell in line]
    assert any(cell.startswith(("'", "\\")) for cell in cells)
    assert not any(cell.lstrip()[:1] in {*"=+-@＝"} for cell in cells if cell)


@pytest.mark.parametrize("name", ["named", "words", "ExperimentResult"])
def test_pictures_hold_hostile_text_as_text(name: str, tmp_path: Path) -> None:
    run = RUNS[name]()
    charts = list_charts(printable(run))
    assert charts
    paths = chart_files.write(run, tmp_path, "svg")
    assert [path.parent for path in paths] == [tmp_path] * len(charts)
    for path in paths:
        text = path.read_text()
        drawn = {node.tag.rpartition("}")[2] for node in ElementTree.fromstring(text).iter()}
        assert drawn <= {"svg", "g", "path", "text", "rect", "title", "circle"}
        assert not hostile.steers(text)


def test_hostile_text_becomes_png_and_pdf() -> None:
    chart = list_charts(printable(RUNS["ExperimentResult"]()))[0]
    assert chart_files.draw(chart, "png").startswith(b"\x89PNG")
    document = chart_files.draw(chart, "pdf")
    assert document.startswith(b"%PDF") and b"/JavaScript" not in document and b"/URI" not in document


@pytest.mark.parametrize("name", RUNS)
def test_every_text_of_a_picture_is_text_and_no_attribute_leads_anywhere(name: str) -> None:
    for chart in list_charts(printable(RUNS[name]())):
        node = ElementTree.fromstring(svg.draw(chart.picture, theme.paint(page=True)))
        for part in node.iter():
            assert part.tag.rpartition("}")[2] in {"svg", "g", "path", "text", "rect", "circle", "title"}
            assert set(part.attrib) <= PLAIN, part.attrib
        assert not hostile.steers("".join(node.itertext()).replace("\t", " "))
        assert str(node.get("aria-label")).startswith(chart.title[:200])


PLAIN = {
    *("aria-label", "class", "cx", "cy", "d", "data-of", "data-s", "fill", "fill-opacity", "font-family", "font-size"),
    *("height", "opacity", "paint-order", "r", "role", "rx", "stroke", "stroke-dasharray", "stroke-linejoin"),
    *("stroke-width", "text-anchor", "transform", "viewBox", "width", "x", "y"),
}
"""Attributes of pictures: none holds an address or a script."""


# --- progress


def test_progress_shows_hostile_names_in_one_line_each() -> None:
    run = RUNS["Measurement"]()
    measurement = run.experiments[1].points[0]
    out = io.StringIO()
    with progress.Lines(out) as lines:
        lines.end_point(hostile.PAYLOAD, measurement, hostile.PAYLOAD)
    assert out.getvalue().count("\n") == 1
    assert not hostile.steers(out.getvalue())


def test_the_live_bar_obeys_no_name_and_no_line_written_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(sys, "stdout", out)
    with progress.LiveBar() as bar:
        bar.says(hostile.PAYLOAD)
        bar.begins(NextReading(hostile.PAYLOAD, {hostile.PAYLOAD: hostile.PAYLOAD}, 1, 1, 2, 3.0))
        sys.stderr.write(f"{hostile.TERMINAL}{hostile.DIRECTIONS}\n")
        bar.end_point(hostile.PAYLOAD, RUNS["Measurement"]().experiments[1].points[0], hostile.PAYLOAD)
    movements = re.compile(r"\x1b\[(\?25[lh]|[0-9;]*[mAK]|2K|1A)|\r")
    assert not hostile.steers(movements.sub("", out.getvalue()))
    assert "\x1b[31m" not in out.getvalue()


# --- the commands, end to end


def run_command(*arguments: str | bytes, cwd: Path, status: tuple[int, ...] = (0, 3), **env: str) -> tuple[str, str]:
    """What a command prints to each stream; it may colour nothing, since no one requested it."""
    done = subprocess.run(
        [sys.executable, "-m", "hwdyno", *arguments],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(sys.path), "HWDYNO_HOME": str(cwd / "home"), **env},
        capture_output=True,
        check=False,
        timeout=120,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode in status, err
    for text in (out, err):
        assert not hostile.steers(text)
        assert "Traceback" not in text
    return out, err


HOSTILE_FILE = b"run\x1b[31m\n\xe2\x80\xae\xff=1.json"


def test_commands_on_a_hostile_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first and the last are programs, for what the system gives and takes; the others need none."""
    file = os.fsencode(tmp_path) + b"/" + HOSTILE_FILE
    Path(os.fsdecode(file)).write_text(to_json(RUNS["wholly"]()))
    out, _ = run_command("report", file, "--with-names", "--html", "page.html", "--svg", "svg", cwd=tmp_path)
    assert "HYPERLINK" in out
    assert (tmp_path / "page.html").is_file()
    monkeypatch.chdir(tmp_path)

    def performed(*words: str | bytes) -> str:
        assert main([os.fsdecode(word) for word in words]) in {0, 3}
        printed = capfd.readouterr()
        assert not hostile.steers(printed.out) and not hostile.steers(printed.err)
        return printed.out

    assert "<" not in performed("report", file, "--markdown")
    for command in ("report", "export"):
        out = performed(command, file, "--csv", *(["-"] if command == "export" else []))
        assert all(cell[:1] not in {*"=+@\t\r"} for line in csv.reader(io.StringIO(out)) for cell in line)
    performed("export", file, "--csv", "out.csv", "--parquet", "out.parquet")
    assert not hostile.steers((tmp_path / "out.csv").read_text())
    out = performed("compare", file, file)
    assert max(map(len, out.splitlines())) < 7 * WIDEST
    assert "2 common points" in out
    performed("compare", file, file, "--json")
    _, err = run_command("report", file + b"x", cwd=tmp_path, status=(2,))
    assert err.count("\n") == 1


def test_history_of_hostile_runs_is_table(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    for at, name in enumerate(RUNS):
        store.save(replace(RUNS[name](), id=f"20260101-00000{at}-abcd"))
    (store.runs / os.fsdecode(b"20260102-\x1b[31m\xe2\x80\xae.json")).write_text("spoilt \x1b[2J")
    out, err = run_command("history", cwd=tmp_path)
    assert len(out.splitlines()) == 2 + len(RUNS)
    assert max(map(len, out.splitlines())) < 7 * WIDEST
    assert err.count("\n") == 1
    out, _ = run_command("history", "--json", cwd=tmp_path)
    assert len(json.loads(out)) == 1 + len(RUNS)


@pytest.mark.parametrize("arguments", [("\x1b[31m",), ("report", "\x1b]0;x\x07\n\u202e"), ("run", "--\x9b31m\u2066")])
def test_what_was_typed_is_echoed_harmlessly(arguments: tuple[str, ...], tmp_path: Path) -> None:
    _, err = run_command(*arguments, cwd=tmp_path, status=(2,))
    assert err


def test_a_hostile_machine_is_described(tmp_path: Path) -> None:
    tree = (Path(__file__).parents[1] / "trees" / "nvme-server.tree").read_text()
    word = "<svg onload=alert(1)>[/bold][red]\x1b[2J\x1b]0;x\x07\x9b31m\u202e=1+1" + "W" * 900
    names = ("hostname: ", "osrelease: ", "sys_vendor: ", "product_name: ", "model name\t: ", "/model: ", "/serial: ")
    pattern = re.compile(f'({"|".join(map(re.escape, names))}|/firmware_rev: |PRETTY_NAME="|tcp_congestion_control: )')
    spoilt, count = pattern.subn(lambda found: found[0] + word, tree)
    assert count >= 6
    (tmp_path / "hostile.tree").write_text(spoilt)
    out, _ = run_command("machine", "--root", "hostile.tree", cwd=tmp_path)
    assert "onload=alert(1)>[/bold][red]" in out
    assert max(map(len, out.splitlines())) <= 110
    out, _ = run_command("machine", "--root", "hostile.tree", "--json", cwd=tmp_path)
    assert json.loads(out)["hostname"].startswith(word[:40])


def test_hostile_survey_is_shown() -> None:
    out = io.StringIO()
    machine.show(RUNS["wholly"]().machine, RUNS["wholly"]().experiments[0].ceilings, (hostile.PAYLOAD,), out)
    assert not hostile.steers(out.getvalue())


def test_main_gives_the_streams_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    assert main(["\x1b[31m"]) == 2
    assert (sys.stdout, sys.stderr) == before
    assert "\\u001b[31m" in capsys.readouterr().err


def test_a_console_measures_what_it_shows() -> None:
    out = io.StringIO()
    console_on(out, 40).print("[/bold]\x1b[31mred")
    assert out.getvalue() == "[/bold]\\u001b[31mred\n"
