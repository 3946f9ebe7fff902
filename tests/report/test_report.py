"""Every reporter on made Runs: figures, labels, rows, tables, the terminal and the command."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import re
from dataclasses import replace
from pathlib import Path

import made_run
import pytest
from hwdyno.analysis.estimates import interval
from hwdyno.analysis.resources import rate_word
from hwdyno.cli import main as cli
from hwdyno.explain.findings import explain
from hwdyno.model.axes import FIELD
from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Note
from hwdyno.model.words import Ceiling, Measurement, Parameters, Run, Value
from hwdyno.report import (
    benchmarking_rules,
    charts,
    figures,
    machine,
    overview,
    page,
    plotdata,
    rows,
    tables,
    texts,
)
from hwdyno.report.embedding import MAX_UNPACKED_BYTES
from hwdyno.report.terminal import print_run, sparkline
from hwdyno.system.store import to_json
from made_experiment import made_experiment
from made_survey import MACHINE
from report_runs import MADE, WHOLE


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (3.15e9, "bytes/s", "3,150 MB/s"),
        (1.2e10, "bytes/s", "12.0 GB/s"),
        (4096.0, "bytes/s", "4.10 kB/s"),
        (138_012.4, "operations/s", "138,012 IOPS"),
        (2.86e11, "FLOP/s", "286 GFLOP/s"),
        (0.0, "bytes/s", "0 kB/s"),
        (0.00123, "s", "1.23 ms"),
    ],
)
def test_a_figure_is_said_in_the_unit_of_its_size(value: float, unit: str, expected: str) -> None:
    assert figures.quantity(Value(value, unit), rate_word("storage")) == expected


def test_sizes_and_shares_are_said_as_the_field_says_them() -> None:
    assert [figures.size(4096), figures.size(1 << 20, short=True), figures.parameter(FIELD["bs"], 16384)] == [
        "4 KiB",
        "1M",
        "16 KiB",
    ]
    assert [figures.percent(0.833), figures.percent(0.091), figures.percent(None)] == ["83%", "9.1%", figures.NONE]


def test_grid_has_rows_and_references() -> None:
    grid = [row for row in rows.make_rows(WHOLE) if row.experiment.name == "storage.grid"]
    assert [row.label for row in grid] == [
        "SEQ1M Q8T1 read",
        "SEQ1M Q8T1 write",
        "RND4K Q32T1 read",
        "RND4K Q32T1 write",
        "RND4K Q1T1 read",
        "RND4K Q1T1 write",
    ]
    first, _, random = grid[0], grid[1], grid[2]
    assert first.ceiling is not None
    assert (first.ceiling.kind, first.ceiling.metric) == ("physical", "read_bytes_s")
    assert first.share == pytest.approx(first.measurement.throughput.value / 3.938e9)
    assert first.peer is not None
    assert first.peer.tool == "fio"
    # The rated IOPS leave less room above a 4 KiB read than the link does.
    assert random.ceiling is not None
    assert (random.ceiling.kind, random.ceiling.unit) == ("rated", "operations/s")


def test_ceiling_bounds_its_direction_only() -> None:
    experiment = replace(
        made_run.grid(),
        ceilings=(
            Ceiling("write_bytes_s", "physical", 1e9, "bytes/s", "f", "s"),
            Ceiling("read_bytes_s", "reference", 3.3e9, "bytes/s", "fio", "s"),
        ),
    )
    read, _ = rows.tightest(experiment, 0)
    write, share = rows.tightest(experiment, 1)
    assert read is not None and read.kind == "reference"
    assert write is not None and write.metric == "write_bytes_s"
    assert share is not None and share > 1
    both = replace(
        experiment, ceilings=(*experiment.ceilings, Ceiling("read_bytes_s", "rated", 9e9, "bytes/s", "f", "s"))
    )
    assert rows.tightest(both, 0)[0] is both.ceilings[2]


def test_a_sweep_gives_one_headline_a_curve_at_its_best_operating_point() -> None:
    experiment = made_run.iodepth()
    chosen = rows.headline_points(experiment)
    assert [experiment.points[at].parameters["rw"] for at in chosen] == ["randread", "randwrite"]
    for at, curve in zip(chosen, experiment.curves, strict=True):
        assert curve.best is not None
        assert experiment.points[at].parameters["iodepth"] == curve.best.load


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("whole", "valid", "Storage: SEQ1M Q8T1 read 3,288 MB/s, SEQ1M Q8T1 write 2,566 MB/s"),
        ("invalid", "invalid", "Storage: SEQ1M Q8T1 write 2.57 GB/s"),
        ("partial", "partial", "SEQ1M Q8T1 read"),
        ("imported", "valid", "RND4K Q4T1 read 40.0 k IOPS"),
        ("sweep", "valid", "Processor: FMA, 8 threads 286 GFLOP/s"),
        ("empty", "empty", "Nothing was measured."),
    ],
)
def test_the_verdict_says_what_was_reached_by_valid_points(name: str, status: str, words: str) -> None:
    made = overview.make_overview(MADE[name])
    assert made.status == status
    assert words in made.says


def test_the_gravest_finding_stands_in_the_verdict_and_an_invalid_figure_does_not() -> None:
    made = overview.make_overview(MADE["invalid"])
    assert "page cache" in made.more
    assert "12.0 GB/s" not in made.says
    assert made.tally == "44 points, 1 invalid"
    assert overview.make_overview(MADE["partial"]).tally == "2 of 6 points, all valid"


def holds(run: Run) -> dict[int, str]:
    return {rule.number: rule.holds for rule in benchmarking_rules.judged_rules(run)}


def test_the_twelve_rules_are_judged_by_what_the_run_holds() -> None:
    assert list(holds(WHOLE)) == list(range(1, 13))
    assert holds(WHOLE)[5] == "yes"
    assert holds(WHOLE)[9] == "partly"  # three facts of the machine are unknown
    assert holds(MADE["partial"])[2] == "partly"
    imported = holds(MADE["imported"])
    assert (imported[5], imported[9], imported[10], imported[11]) == ("no", "no", "no", "no")
    assert set(holds(MADE["empty"]).values()) <= {"not applicable", "no", "partly"}


def test_machine_lists_unknowns_with_reasons() -> None:
    groups = {
        group.title: {fact.name: fact for fact in group.facts}
        for group in machine.describe_machine(Machine.of_survey(MACHINE))
    }
    assert groups["Processor"]["clock max"].unknown == "no cpufreq driver is loaded"
    assert groups["Processor"]["clock measured"].says == "3.61 GHz"
    assert groups["Memory"]["total"].says == "64 GiB"
    assert groups["Storage"]["serial"].unknown == "only the administrator may read it"
    assert groups["Storage"]["link rate"].says == "31.5 Gbit/s"


def test_percentiles_need_ten_operations_beyond_them() -> None:
    latency = made_run.latency(1e5, 1, 2000)
    shown = [quantile for quantile, _ in plotdata.list_quantiles(latency)]
    assert max(shown) == 0.995
    assert plotdata.list_quantiles(replace(latency, histogram=""))[-1] == (0.99, latency.p99)


@pytest.mark.parametrize("name", MADE)
def test_every_run_gives_charts_tables_and_a_terminal_report(name: str) -> None:
    for chart in charts.list_charts(MADE[name]):
        assert re.fullmatch(r"[\w-]+", chart.name), "fit for a file's name"
        assert chart.picture.marks and chart.title and chart.caption
    out = io.StringIO()
    print_run(MADE[name], file=out, width=100, verbose=True)
    assert overview.make_overview(MADE[name]).tally in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= 100
    assert tables.markdown(MADE[name]).startswith("# ")


def test_kernel_notes_are_in_whole_report() -> None:
    """Threads that shared a processor, or direct I/O that was refused, were in the document alone."""
    run = made_run.whole_run()
    first, *others = run.experiments
    says = "2 threads share 1 CPU and take turns"
    points = (replace(first.points[0], notes=(Note("oversubscribed", says),)), *first.points[1:])
    text = printed(replace(run, experiments=(replace(first, points=points), *others)), 100)
    assert f"{says} (1 of {len(points)} points)" in " ".join(text.split())


def printed(run: Run, width: int) -> str:
    out = io.StringIO()
    print_run(run, [Path("/tmp/report.html")], file=out, width=width, verbose=True)
    return out.getvalue()


def test_the_terminal_shows_the_grid_then_the_verdict_then_findings_then_the_report() -> None:
    text = printed(MADE["invalid"], 100)
    text = text[text.index("Standard disk tests") :]
    order = ["SEQ1M Q8T1", "RND4K Q32T1", "RND4K Q1T1", "✗ invalid", "! warning", "· info", "report  /tmp/report.html"]
    assert [text.index(word) for word in order] == sorted(text.index(word) for word in order)
    assert re.search(r"SEQ1M Q8T1\s+12,000 ✗\s+3,135\s+2,189\s+305%\s+2,566", text)
    assert "\x1b" not in text, "no colour codes where nobody asked for a terminal"
    assert "knee " in text
    assert "limit " in text


def test_narrow_terminal_keeps_the_main_figures() -> None:
    text = printed(WHOLE, 50)
    assert re.search(r"RND4K Q32T1\s+570\s+200\s+416\s+276", text)
    assert max(map(len, text.splitlines())) <= 50


def test_no_color_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json"
    path.write_text(to_json(MADE["invalid"]))
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "100")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert cli.main(["report", str(path)]) == 3
    assert "\x1b[1;31m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli.main(["report", str(path)]) == 3
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", capsys.readouterr().out)


def test_hostile_names_reach_no_terminal_markup_or_table() -> None:
    nasty = replace(MADE["hostile"], findings=(replace(MADE["hostile"].findings[0], says="\x1b[2J[red]boo[/red]"),))
    text = printed(nasty, 100)
    assert "\x1b" not in text
    assert "[red]boo[/red]" in text
    assert "<script" not in tables.markdown(nasty)
    assert "<img" not in tables.markdown(nasty)


def test_markdown_and_csv_hold_every_point_with_units() -> None:
    text = tables.markdown(WHOLE)
    assert "| test | measured | 95% interval | rate | mean latency |" in text
    assert "MB/s" in text
    assert "p99, µs" in text
    lines = list(csv.DictReader(io.StringIO(tables.csv_text(WHOLE))))
    assert len(lines) == 44
    first = WHOLE.experiments[0].points[0]
    assert float(lines[0]["throughput"]) == first.throughput.value
    assert (lines[0]["throughput_unit"], lines[0]["bs"], lines[0]["rw"]) == ("bytes/s", str(1 << 20), "read")
    assert first.latency_ns is not None
    assert float(lines[0]["latency_p99_ns"]) == first.latency_ns.p99
    evil = replace(first, parameters={**first.parameters, "rw": "=1+1"})
    spoiled = replace(WHOLE, experiments=(replace(WHOLE.experiments[0], points=(evil,)),))
    assert "'=1+1" in tables.csv_text(spoiled)


def test_a_text_format_is_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = """
from hwdyno.report.texts import Text

TEXT = Text("the ids alone", lambda run: f"id: {run.id}")
"""
    (tmp_path / "id_line.py").write_text(made)
    (tmp_path / "run.json").write_text(to_json(WHOLE))
    monkeypatch.setattr(texts, "__path__", [*texts.__path__, str(tmp_path)])
    assert cli.main(["report", str(tmp_path / "run.json"), "--id-line"]) in {0, 3}
    assert capsys.readouterr().out == f"id: {WHOLE.id}"
    assert cli.main(["report", "--help"]) == 0
    assert "--id-line" in capsys.readouterr().out


def test_sparkline_rises_from_zero_to_greatest() -> None:
    assert sparkline([0, 1, 2, 4]) == "▁▃▅█"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([1, 8], ascii_only=True) == ".@"


def test_command_writes_the_requested_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hwdyno.cli.main import main
    from hwdyno.system.store import Store

    store = Store(tmp_path / "store")
    store.save(WHOLE)
    page, pictures = tmp_path / "page.html", tmp_path / "pictures"
    arguments = ["report", WHOLE.id, "--store", str(tmp_path / "store"), "--html", str(page), "--svg", str(pictures)]
    assert main(arguments) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert len(list(pictures.glob("*.svg"))) == 13
    assert str(page) in capsys.readouterr().out
    assert main(["report", "-", "--store", str(tmp_path / "store"), "--csv"]) == 0
    assert capsys.readouterr().out.startswith("experiment,point,")
    assert main(["report", "nothing", "--store", str(tmp_path / "store")]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("hwdyno: ")
    assert printed.count("\n") == 1


def test_a_row_and_the_laws_hold_a_mix_against_the_same_bound() -> None:
    """Reads bounded at 100 MB/s let a mix of half reads reach 200: the report and the rules must not part there."""
    from hwdyno.explain.findings.laws import against_ceilings
    from hwdyno.explain.findings.rule import Case

    experiment = WHOLE.experiments[0]
    point = replace(experiment.points[0], parameters={"rw": "randrw", "rwmixread": 50, "bs": 4096, "iodepth": 1})
    point = replace(point, throughput=Value(150e6, "bytes/s"), rate=Value(150e6 / 4096, "operations/s"))
    bound = Ceiling("read_bytes_s", "physical", 100e6, "bytes/s", "f", "s")
    experiment = replace(experiment, points=(point,), ceilings=(bound,), fixed={})
    ceiling, share = rows.tightest(experiment, 0)
    (against,) = against_ceilings(Case(WHOLE, experiment, 0), "physical")
    assert ceiling is not None and share == against.share == pytest.approx(0.75)
    assert ceiling.value == pytest.approx(200e6)


def test_arithmetic_on_numbers_and_on_integers_is_told_apart_in_tables_and_charts() -> None:
    """FLOP/s and IOP/s share no column and no axis, and neither is left out."""
    first = WHOLE.experiments[0].points[0]

    def at(precision: str, unit: str, threads: int) -> Measurement:
        value = interval([threads * 1e10] * 3, unit)
        parameters: Parameters = {"precision": precision, "threads": threads}
        return replace(first, parameters=parameters, throughput=value, rate=None, latency_ns=None, samples=None)

    points = [at("double", "FLOP/s", n) for n in (1, 2, 4)] + [at("int32", "IOP/s", n) for n in (1, 2, 4)]
    made = made_experiment("compute.threads", "compute", "?", "threads", "compute_flops", tuple(points))
    run = explain(replace(WHOLE, experiments=(made,), findings=()))
    values = [line for line in printed(run, 100).splitlines() if "GFLOP/s" in line or "GIOP/s" in line]
    assert any("GFLOP/s" in line for line in values) and any("GIOP/s" in line for line in values)
    names = [chart.name for chart in charts.list_charts(run) if "throughput" in chart.name]
    assert len(names) == 2 and len(set(names)) == 2
    (floating, whole) = rows.by_unit(run.experiments[0])
    assert [len(floating.points), len(whole.points)] == [3, 3]
    assert [curve.points for curve in whole.curves] == [(0, 1, 2)]


def test_the_parts_of_several_hosts_stand_under_their_names() -> None:
    host = Machine.of_survey(MACHINE)
    alone = machine.describe_machines((host,))
    both = machine.describe_machines((host, replace(host, hostname="bench-08")))
    assert [group.title for group in both] == [f"{name}: {g.title}" for name in ("bench-07", "bench-08") for g in alone]
    assert machine.describe_machines(()) == []


@pytest.mark.parametrize("name", ["report.html", "shown", "shown/run.json"])
def test_report_and_its_folder_are_run(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run.whole_run()
    (tmp_path / "shown").mkdir()
    page.write(run, tmp_path / "report.html")
    (tmp_path / "shown" / "run.json").write_text(to_json(run))
    cli.main(["report", str(tmp_path / name)])
    shown = capsys.readouterr()
    cli.main(["report", str(tmp_path / "shown" / "run.json")])
    assert shown.out.splitlines()[:6] == capsys.readouterr().out.splitlines()[:6] != []
    assert not shown.err


@pytest.mark.parametrize(("kind", "says"), [
    ("no gzip", "its data are damaged"), ("no Run", "is not a hwdyno Run"), ("cut", "its data are"),
    ("a bomb", "over 256 MiB"),
])  # fmt: skip
def test_a_damaged_page_is_one_line(tmp_path: Path, kind: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    small = base64.b64encode(gzip.compress(b"{}")).decode()
    data = {"no gzip": "AAAA", "no Run": small, "cut": small[:20]}.get(kind) or base64.b64encode(
        gzip.compress(bytes(MAX_UNPACKED_BYTES + 1), compresslevel=1)
    ).decode()
    (tmp_path / "r.html").write_text(f'<script type="application/gzip;base64" id="run">{data}</script>')
    assert cli.main(["report", str(tmp_path / "r.html")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line and "r.html" in line


@pytest.mark.parametrize("files", [(), ("a.html", "b.json")])
def test_a_folder_of_no_one_run_says_what_it_has(
    tmp_path: Path, files: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in files:
        (tmp_path / name).write_text("{}")
    assert cli.main(["report", str(tmp_path)]) == 2
    assert ", ".join(files) in capsys.readouterr().err
