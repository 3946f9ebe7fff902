"""Pictures: nice ticks, places on axes, texts that leave each other room, and SVG that any reader of XML takes."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hwdyno.model.words import ExperimentResult
from hwdyno.report import svg, theme
from hwdyno.report.bars import of_rows
from hwdyno.report.drawing import axis_of_load
from hwdyno.report.headlines import MARKS, headlines
from hwdyno.report.lettering import Box, Room, fit_text, text_width
from hwdyno.report.picture import (
    CEILING,
    Bar,
    ChartAxis,
    Dot,
    Mark,
    Picture,
    Polyline,
    ReferenceLine,
    Whisker,
    Words,
    decades,
    even,
    make_names_axis,
    nice_step,
    plain,
    with_ends,
)
from hwdyno.report.story import make_story
from made_experiment import made_experiment
from made_run import empty_run, iodepth, measured, plain_sweep_run, whole_run
from test_report_page import machine_run

SPACE = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("top", "labels"),
    [
        (3_288, ["0", "1,000", "2,000", "3,000", "4,000"]),
        (1.0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (0.034, ["0.00", "0.01", "0.02", "0.03", "0.04"]),
        (95, ["0", "20", "40", "60", "80", "100"]),
        (1e7, ["0", "2,000,000", "4,000,000", "6,000,000", "8,000,000", "10,000,000"]),
        (0, ["0", "1"]),
    ],
)
def test_an_even_axis_begins_at_zero_and_ends_past_the_largest_value(top: float, labels: list[str]) -> None:
    side = even("MB/s", [None, top / 3, top])
    assert [text for _, text in side.ticks] == labels
    assert side.low == 0 and side.high >= top


@pytest.mark.parametrize("least", [1e-7, 0.3, 1, 1.01, 2, 4.9, 5, 7, 999, 3e12])
def test_a_step_is_one_two_or_five_and_never_too_small(least: float) -> None:
    step = nice_step(least)
    assert least * 0.999 <= step <= 2.5 * least * 1.001
    assert f"{step:e}"[0] in "125"


def test_decades_have_ticks_at_one_two_and_five_where_they_have_room() -> None:
    near, far = decades("µs", [3, 900]), decades("µs", [1, 1e6])
    assert [text for _, text in near.ticks] == ["5", "10", "20", "50", "100", "200", "500", "1,000"]
    assert [text for _, text in far.ticks] == ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"]
    assert all(near.low <= tick <= near.high for tick, _ in near.ticks)
    assert decades("µs", []).kind == "log"
    assert [plain(0.25, 0.05), plain(1e6, 1e5), plain(3, 1)] == ["0.25", "1,000,000", "3"]


def test_values_lie_where_their_axis_says() -> None:
    assert even("", [8]).share(4) == pytest.approx(0.5)
    log = ChartAxis("", 1, 100, "log")
    assert [log.share(at) for at in (1, 10, 100, 0, 1e9)] == pytest.approx([0, 0.5, 1, 0, 1])
    symlog = ChartAxis("", 0, math.expm1(2), "symlog")
    assert symlog.share(math.expm1(1)) == pytest.approx(0.5)
    assert ChartAxis("", 3, 3).share(3) == 0.5
    assert make_names_axis(["a", "b", "c"]).share(1) == pytest.approx(0.5)


def over(load: str, *values: float) -> ExperimentResult:
    points = tuple(measured({load: value, "rw": "read"}, 1e3, 1, 1) for value in values)
    return made_experiment("storage.one", "storage", "?", load, "storage_blocks", points)


@pytest.mark.parametrize(
    ("load", "values", "kind", "labels"),
    [
        ("iodepth", (1, 2, 4, 64), "log", ["1", "2", "4", "64"]),
        ("iodepth", (1, 2, 3, 4), "linear", ["1", "2", "3", "4"]),
        ("bs", (4096, 65536, 1 << 20), "log", ["4 KiB", "64 KiB", "1 MiB"]),
        ("thinktime", (0, 10, 1000), "symlog", ["0", "10", "1,000"]),
    ],
)
def test_the_axis_of_load_has_a_tick_at_each_load(
    load: str, values: tuple[float, ...], kind: str, labels: list[str]
) -> None:
    side = axis_of_load(over(load, *values), values)
    assert (side.kind, [text for _, text in side.ticks]) == (kind, labels)
    assert side.low < values[0] and side.high > values[-1]


def test_many_loads_have_even_ticks() -> None:
    values = [float(at) for at in range(1, 200)]
    side = axis_of_load(over("iodepth", *values), values)
    assert [text for _, text in side.ticks] == ["1", "2", "5", "10", "20", "50", "100", "199"]


def test_text_is_cut_at_its_room() -> None:
    assert fit_text("short", 11, 200) == "short"
    cut = fit_text("W" * 300, 11, 100)
    assert cut.endswith("…") and text_width(cut, 11) <= 100
    assert text_width("iiii", 10) < text_width("mmmm", 10) < text_width("漢漢漢漢", 10)


def test_texts_take_free_place_or_none() -> None:
    room = Room(Box(0, 0, 100, 100), 10)
    first = room.place("first", [(10, 20, "start")])
    assert first == (10, 20, "start")
    assert room.place("other", [(10, 20, "start"), (10, 60, "start")]) == (10, 60, "start")
    assert room.place("third", [(10, 20, "start"), (10, 62, "start"), (90, 90, "start")]) is None
    room.marks.append(Box(40, 30, 60, 50))
    assert room.place("x", [(45, 44, "start")]) is None
    assert room.place("x", [(45, 44, "start")], over_marks=True) == (45, 44, "start")


def of(
    *marks: Mark, x: ChartAxis | None = None, y: ChartAxis | None = None, series: tuple[str, ...] = ("one",)
) -> Picture:
    return Picture("Title", "Caption.", x or even("s", [10]), y or even("MB/s", [10]), series, marks)


def drawn(picture: Picture, *, alone: bool = False) -> ElementTree.Element:
    return ElementTree.fromstring(svg.draw(picture, theme.paint(), alone=alone))


def test_marks_are_drawn_at_their_values() -> None:
    picture = of(
        Dot(0, 0, 0),
        Dot(0, 10, 10),
        Whisker(0, 5, 2, 4),
        Polyline(0, ((0, 0), (10, 10))),
        ReferenceLine(CEILING, 8, 0, 10, "top"),
    )
    node = drawn(picture)
    low, high = [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in node.iter(f"{SPACE}circle")]
    paths = [str(path.get("d")) for path in node.iter(f"{SPACE}path")]
    assert f"M{low[0]:g} {low[1]:g}L{high[0]:g} {high[1]:g}" in paths
    middle, two, four = low[0] + (high[0] - low[0]) / 2, *(low[1] + share * (high[1] - low[1]) for share in (0.2, 0.4))
    (whisker,) = (path for path in paths if "h6M" in path)
    assert [float(number) for number in re.findall(r"[\d.]+", whisker)[:3]] == pytest.approx(
        [middle, two, four], abs=0.1
    )
    (rule,) = (path for path in node.iter(f"{SPACE}path") if path.get("stroke-dasharray"))
    assert float(str(rule.get("d")).split(" ")[1].split("H")[0]) == pytest.approx(
        low[1] + 0.8 * (high[1] - low[1]), abs=0.1
    )


def test_bars_show_value_and_interval() -> None:
    rows = [
        {"name": "read", "series": "one", "y": 100.0, "low": 90.0, "high": 110.0, "text": "100", "tip": ()},
        {"name": "write", "series": "one", "y": 50.0, "low": None, "high": None, "text": "50.0", "tip": ()},
    ]
    picture = of_rows("Title", "Caption.", "MB/s", rows, ("one",))
    assert picture is not None and [type(mark) for mark in picture.marks] == [Bar, Bar]
    node = drawn(picture)
    long, short = [float(bar.attrib["width"]) for bar in node.iter(f"{SPACE}rect")]
    assert long == pytest.approx(2 * short, abs=0.2)
    (whisker,) = [str(path.get("d")) for path in node.iter(f"{SPACE}path") if "v6M" in str(path.get("d"))]
    left, right = (float(number) for number in re.findall(r"M([\d.]+) [\d.]+H([\d.]+)", whisker)[0])
    start = float(next(node.iter(f"{SPACE}rect")).attrib["x"])
    assert (left - start, right - start) == pytest.approx((0.9 * long, 1.1 * long), abs=0.2)
    assert of_rows("Title", "Caption.", "MB/s", [], ()) is None


def test_an_interval_that_dwarfs_its_value_has_no_end_on_the_picture() -> None:
    row = {"name": "read", "series": "one", "y": 100.0, "low": 0.0, "high": 900.0, "text": "100", "tip": ()}
    picture = of_rows("Title", "Caption.", "MB/s", [row], ("one",))
    assert picture is not None and 160 <= picture.x.high <= 200
    (whisker,) = [str(path.get("d")) for path in drawn(picture).iter(f"{SPACE}path") if "v6" in str(path.get("d"))]
    assert whisker.count("v6") == 1
    assert with_ends([1.0, 2.0], [2.5, 99.0, None]) == [1.0, 2.0, 2.5, 3.2]


def test_a_tooltip_is_a_title_with_a_line_for_each_field() -> None:
    node = drawn(of(Dot(0, 5, 5, tip=(("throughput", "5 MB/s"), ("latency", ""), ("validity", "<b>")))))
    assert [title.text for title in node.iter(f"{SPACE}title")] == ["throughput\t5 MB/s\nvalidity\t<b>"]


@pytest.mark.parametrize("text", ["</text><script>1</script>", "\"'&<>", "\ufffe\uffffx", "漢" * 90, "W" * 900])
def test_any_text_stays_text_and_the_whole_is_xml(text: str) -> None:
    picture = of(Words(0, 5, 5, text), x=ChartAxis(text, 0, 1, ticks=((0, text), (1, text))), series=(text, "b" + text))
    picture = Picture(text, text, picture.x, even(text, [1]), picture.series, picture.marks)
    for alone in (False, True):
        node = drawn(picture, alone=alone)
        assert {element.tag for element in node.iter()} <= {
            f"{SPACE}{tag}" for tag in ("svg", "g", "path", "text", "rect", "title", "circle")
        }
        assert node.get("aria-label") == f"{text}. {text}".replace("\ufffe\uffff", "")


def test_a_file_has_title_caption_and_plain_colours_and_the_page_its_variables() -> None:
    picture = of(Dot(0, 5, 5))
    alone, placed = svg.draw(picture, theme.paint(), alone=True), svg.draw(picture, theme.paint(page=True))
    assert ">Title<" in alone and ">Caption.<" in alone and "var(" not in alone and theme.LIGHT["paper"] in alone
    assert ">Title<" not in placed and "var(--series-0)" in placed and "#" not in placed


def test_a_legend_names_every_series_where_there_are_several() -> None:
    names = tuple(f"series number {at}" for at in range(8))
    node = drawn(of(*(Dot(at, 5, 5) for at in range(8)), series=names))
    entries = [group for group in node.iter(f"{SPACE}g") if group.get("class") == "entry"]
    assert [next(entry.iter(f"{SPACE}text")).text for entry in entries] == list(names)
    assert [entry.get("data-of") for entry in entries] == [str(at) for at in range(8)]
    assert not [group for group in drawn(of(Dot(0, 5, 5))).iter(f"{SPACE}g") if group.get("class") == "entry"]


def test_a_load_of_one_value_and_equal_values_can_be_drawn() -> None:
    experiment = iodepth(("randread",))
    side = axis_of_load(experiment, [8.0, 8.0])
    assert side.low < 8 < side.high
    node = drawn(of(Dot(0, 8, 0), x=side, y=even("", [0, 0])))
    assert all(math.isfinite(float(dot.attrib["cx"])) for dot in node.iter(f"{SPACE}circle"))


# --- the story


def test_storage_story_has_shares_and_p99() -> None:
    shares, depth, *others = make_story(whole_run())
    assert (shares.name, depth.name) == ("shares", "depth") and 1 <= len(others) <= 3
    (picture,) = shares.pictures
    bars = [mark for mark in picture.marks if isinstance(mark, Bar)]
    assert picture.x.high >= 100, "the axis has room for what the hardware allows"
    rows = [row for row in headlines(whole_run())[1] if row.share and row.state != "invalid"]
    assert [bar.value for bar in bars] == pytest.approx([100 * row.share.of_ceiling for row in rows if row.share])
    assert [name for _, name in picture.y.ticks] == [f"{row.title}{MARKS[row.state]}" for row in rows]
    above, below = depth.pictures
    assert (above.y.title, below.y.title) == ("IOPS", "p99 latency, µs")
    assert next(mark.y for mark in below.marks if isinstance(mark, Dot)) == pytest.approx(read_p99(iodepth(), 0) / 1e3)
    ends = [max(float(dot.attrib["cx"]) for dot in drawn(drawing).iter(f"{SPACE}circle")) for drawing in depth.pictures]
    assert ends[0] == ends[1], "one below the other"
    assert "p99" in depth.title and "queue depth" in depth.title


def read_p99(experiment: ExperimentResult, at: int) -> float:
    latency = experiment.points[at].latency_ns
    assert latency is not None
    return latency.p99


def test_measured_latency_and_roofline_are_shown() -> None:
    assert [figure.name for figure in make_story(machine_run())] == ["shares", "depth", "working-set", "roofline"]


def test_other_runs_show_first_charts() -> None:
    run = plain_sweep_run()
    assert [figure.pictures[0].title for figure in make_story(run)] == ["Throughput by threads", "Throughput by device"]
    assert make_story(empty_run()) == []


def test_shares_of_reference_tools_and_invalid_points_are_no_shares_of_the_hardware() -> None:
    run = whole_run()
    invalid = [replace(point, validity="invalid") for point in run.experiments[0].points]
    grid = replace(run.experiments[0], points=tuple(invalid))
    assert not [figure for figure in make_story(replace(run, experiments=(grid,))) if figure.name == "shares"]
    only = tuple(replace(ceiling, kind="reference") for ceiling in run.experiments[0].ceilings)
    with_peers = replace(run, experiments=(replace(run.experiments[0], ceilings=only),))
    assert not [figure for figure in make_story(with_peers) if figure.name == "shares"]
