"""The page as text: what it shows where, hostile names escaped, nothing loaded from elsewhere, no library needed."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import random
import re
import subprocess
import sys
from dataclasses import replace
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path

import hostile
import made_run
import pytest
from here import sample
from hwdyno.model.histogram import Histogram
from hwdyno.model.point_details import Note
from hwdyno.model.words import Run
from hwdyno.report import figures, page
from hwdyno.report.benchmarking_rules import judged_rules
from hwdyno.report.charts import list_charts
from hwdyno.report.scorecard import scorecard
from hwdyno.report.story import make_story
from hwdyno.system.store import from_json, to_json

PAGES: dict[str, str] = {}
RUNS: dict[str, Run] = {}


def machine_run() -> Run:
    """What ``hwdyno run`` measured on a real machine, a small one."""
    return from_json(
        gzip.decompress((Path(__file__).parents[1] / "data" / "run-machine.json.gz").read_bytes()).decode()
    )


def find_run(name: str) -> Run:
    if name not in RUNS:
        made = {**made_run.ALL, **hostile.RUNS, "huge": made_run.huge_run, "machine": machine_run}
        RUNS[name] = made[name]()
    return RUNS[name]


def make_page(name: str) -> str:
    if name not in PAGES:
        PAGES[name] = page.html(find_run(name))
    return PAGES[name]


@lru_cache
def make_full_page() -> str:
    """The page of the huge Run with all of its data."""
    return page.html(find_run("huge"), full_data=True)


class Reader(HTMLParser):
    """Collects the tags with their attributes, and the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self.text: list[str] = []
        self._script: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self._script = dict(attrs).get("id") or f"script-{len(self.scripts)}"
            self.scripts[self._script] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts[self._script] += data
        else:
            self.text.append(data)


def unpacked(text: str) -> str:
    """What a page carries packed."""
    return gzip.decompress(base64.b64decode(text)).decode()


def carried(reader: Reader) -> Run:
    """The Run that a page carries."""
    return from_json(unpacked(reader.scripts["run"]))


@pytest.mark.parametrize("name", made_run.ALL)
def test_the_page_follows_no_outside_address(name: str) -> None:
    reader = Reader(make_page(name))
    for tag, attributes in reader.tags:
        for key in ("src", "href", "action", "poster", "srcset", "data", "formaction", "xlink:href"):
            value = attributes.get(key) or "#"
            assert value.startswith(("#", "data:")), f"<{tag} {key}={value}>"
        assert "style" not in attributes or "url(" not in (attributes["style"] or "")
    style = re.search(r"<style>(.*?)</style>", make_page(name), re.S)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    # The page's policy forbids every load, so that a slip in a library could not reach out either.
    policies = [
        a["content"] for t, a in reader.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies
    assert "default-src 'none'" in str(policies[0])
    assert "://" not in re.sub(r'xmlns="http://www.w3.org/2000/svg"', "", str(reader.tags[0]))


def test_hostile_names_are_text_and_the_data_survives_whole() -> None:
    reader = Reader(make_page("hostile"))
    assert [tag for tag, _ in reader.tags].count("script") == 2
    assert "img" not in {tag for tag, _ in reader.tags}
    assert not any(key.startswith("on") for _, attributes in reader.tags for key in attributes)
    assert made_run.HOSTILE in "".join(reader.text)
    assert carried(reader) == find_run("hostile")
    texts = "".join(reader.text)
    assert any(made_run.HOSTILE in chart.picture.series for chart in list_charts(find_run("hostile")))
    assert f"series\t{made_run.HOSTILE}" in texts, "a tooltip says the whole name, a legend what of it fits"


@pytest.mark.parametrize("name", hostile.RUNS)
def test_a_hostile_run_adds_no_element_no_attribute_and_no_steering(name: str) -> None:
    reader, plain = Reader(make_page(name)), Reader(make_page("whole"))
    known = {tag for tag, _ in plain.tags} | {"code", "p", "ul", "li", "pre", "details", "summary"}
    assert {tag for tag, _ in reader.tags} <= known
    assert not any(key.startswith("on") for _, attributes in reader.tags for key in attributes)
    assert not any(attributes.get("id") == "pwned" for _, attributes in reader.tags)
    assert not hostile.steers(make_page(name))
    assert carried(reader) == find_run(name)


@pytest.mark.parametrize("name", ["whole", "wholly"])
def test_the_policy_names_each_script_by_its_hash_and_allows_no_other(name: str) -> None:
    reader = Reader(make_page(name))
    policy = next(str(a["content"]) for t, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    allowed = re.search("script-src ([^;]*)", policy)
    assert allowed is not None
    kinds = [attributes.get("type") for tag, attributes in reader.tags if tag == "script"]
    programs = [text for text, kind in zip(reader.scripts.values(), kinds, strict=True) if kind is None]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in programs]
    assert allowed[1].split() == [f"'sha256-{digest}'" for digest in digests]
    assert len(digests) == 1
    assert "\r" not in "".join(programs), "a browser would hash another text"


@pytest.mark.parametrize("name", made_run.ALL)
def test_the_raw_data_is_the_run(name: str) -> None:
    assert json.loads(unpacked(Reader(make_page(name)).scripts["run"])) == json.loads(to_json(find_run(name)))


def test_large_runs_page_is_shortened() -> None:
    whole, reader = find_run("huge"), Reader(make_page("huge"))
    short = carried(reader)
    words = " ".join("".join(reader.text).split())
    assert f"hwdyno report {whole.id} --html FILE --full-data" in words and "1056 points" in words.replace(",", "")
    assert len(make_page("huge").encode()) < 1_500_000 < len(make_full_page().encode())
    (full_result,), (short_result,) = whole.experiments, short.experiments
    pairs = list(zip(full_result.points, short_result.points, strict=True))
    # Every seventh has each direction, size, depth and number of jobs.
    for point, less in pairs[:: sample(7, 1)]:
        assert point.latency_ns is not None and less.latency_ns is not None and point.samples and less.samples
        assert (less.parameters, less.operations, less.repeats) == (point.parameters, point.operations, point.repeats)
        assert less.throughput.value == pytest.approx(point.throughput.value, rel=1e-4)
        fine, coarse = (Histogram.unpack(of.histogram) for of in (point.latency_ns, less.latency_ns))
        assert (coarse.count, coarse.min, coarse.max) == (fine.count, fine.min, fine.max)
        for share in (0.5, 0.9, 0.99, 0.999):
            assert coarse.quantile(share) == pytest.approx(fine.quantile(share), rel=0.017)
        kept = {kind for stream in less.streams for kind, of in stream.latency_ns.items() if of.histogram}
        assert kept == ({"total"} if len(less.streams) > 1 else set())
    assert [chart.title for chart in list_charts(short)] == [chart.title for chart in list_charts(whole)]
    quoted = [[(row.title, row.value, row.interval, row.p99) for row in scorecard(of).rows] for of in (short, whole)]
    assert quoted[0] == quoted[1] != []


def test_the_whole_data_stands_in_the_page_where_it_is_asked_for() -> None:
    run = find_run("huge")
    text = make_full_page()
    reader = Reader(text)
    assert carried(reader) == run
    assert 'data-packed="' not in text and "All 1056 points" in text


@pytest.mark.parametrize("seed", range(20))
def test_a_coarser_histogram_knows_its_values_to_one_part_in_64(seed: int) -> None:
    rng = random.Random(seed)
    fine = Histogram.from_values(math.exp(rng.uniform(0, 25)) for _ in range(2000))
    coarse = fine.coarser(5)
    assert len(coarse.buckets) <= 32 * 37 < 1200
    assert (coarse.count, coarse.sum, coarse.min, coarse.max) == (fine.count, fine.sum, fine.min, fine.max)
    for share in (0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0):
        assert abs(coarse.quantile(share) - fine.quantile(share)) <= max(1.0, fine.quantile(share) / 60)


def test_page_shows_all_main_figures() -> None:
    text = " ".join("".join(Reader(make_page("whole")).text).split())
    for words in (
        "bench-07: Example CPU 9000, 16 threads; 64 GiB",
        "sound All figures below hold.",
        "SEQ1M Q8T1 read / write 3,288 / 2,566 MB/s ±1.8% 83% read, of PCIe 3.0 x4, 3,938 MB/s",
        "Why not double?",
        "fio 3.33: ours is 1.004 × (0.989 … 1.020)",
        "Move it to a PCIe 4.0 slot",
        "Operating points",
        "p99.9, µs",
        "min over time, MB/s",
        "All 18 points",
        "unknown: no cpufreq driver is loaded",
        "11. Upper performance bounds are shown",
        "hwdyno storage --rw randread,randwrite --bs 4k --iodepth 1..256",
        "fio --name=point",
    ):
        assert words in text, words


def test_the_page_is_in_the_order_in_which_it_is_read() -> None:
    reader = Reader(make_page("whole"))
    sections = [str(attributes["id"]) for tag, attributes in reader.tags if tag == "section"]
    assert sections == ["top", "findings", "charts", "resource-1", "machine", "method", "commands", "data"]
    links = [str(a["href"]) for tag, a in reader.tags if tag == "a" and a.get("class") != "brand"]
    assert links == [f"#{name}" for name in sections]
    folds = [a for tag, a in reader.tags if tag == "details" and a.get("class") == "resource"]
    assert len(folds) == 2 and not any("open" in attributes for attributes in folds)
    story = [str(a["id"]) for tag, a in reader.tags if tag == "figure" and str(a["id"]).startswith("story-")]
    assert story[:2] == ["story-shares", "story-depth"] and 3 <= len(story) <= 5


def test_three_findings_are_on_top() -> None:
    first = find_run("whole").findings[0]
    noise = replace(first, rule="others_at_work", says="Others were at work.", severity="warning")
    some = [replace(first, rule=f"rule{at}", says=f"This is rule {at}.", severity="info") for at in range(4)]
    twice = replace(some[0], says="This is rule 0 again.", experiment="storage.iodepth")
    run = replace(find_run("whole"), findings=(noise, some[0], twice, *some[1:]))
    text = page.html(run)
    top = text[text.index('id="findings"') : text.index('id="charts"')]
    assert re.findall(r"This is rule \d[^<]*", top) == ["This is rule 0.", "This is rule 1.", "This is rule 2."]
    assert "Others were at work." not in top and "Others were at work." in text
    assert "3 more findings below, by resource." in top


def test_the_reason_of_the_verdict_is_not_repeated_in_every_row() -> None:
    run = machine_run()
    card = scorecard(run)
    degraded = [row for row in card.rows if row.state == "degraded"]
    assert len(degraded) > 3 and {row.why for row in degraded} == {"another hwdyno run at the same time"}
    assert "another hwdyno run" in card.reason.lower()
    top = scored(page.html(run))
    assert top.count(">degraded<") == len(degraded) - 1, "without its reason where that was said"
    assert top.count("another hwdyno run at the same time") == 1


def scored(text: str) -> str:
    """The scorecard of a page."""
    return text[text.index('<section class="card"') : text.index('<section id="findings"')]


def test_a_command_stands_once() -> None:
    run = find_run("whole")
    again = replace(run, experiments=(*run.experiments, *run.experiments))
    text = page.html(again)
    shown = text[text.index('<section id="commands">') : text.index('<section id="data">')]
    lines = [line for block in re.findall(r"<pre>(.*?)</pre>", shown, re.S) for line in block.split("\n") if line]
    assert lines and len(lines) == len(set(lines))


def test_the_page_needs_no_other_library_for_its_charts() -> None:
    """Neither vl-convert nor pyarrow nor Altair is loaded when a page is made."""
    made = (
        "import sys; sys.modules.update(dict.fromkeys(['vl_convert', 'pyarrow', 'altair']));"
        "import made_run; from hwdyno.report import page; print(page.html(made_run.whole_run()).count('<svg'))"
    )
    paths = ":".join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", made], env={"PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > len(list_charts(find_run("whole")))


def test_a_picture_without_scripts_has_its_texts_and_its_tooltips() -> None:
    text = make_page("whole")
    (drawing,) = re.findall(
        r'id="chart-2-storage-iodepth-throughput">.*?(<svg class="plot".*?</svg>|<svg xmlns.*?</svg>)', text, re.S
    )
    titles = re.findall("<title>(.*?)</title>", drawing, re.S)
    assert any(
        re.search(r"throughput\t[\d.,]+ MB/s \([\d.,]+ … [\d.,]+\)\nrate\t[\d,]+ IOPS", title) for title in titles
    )
    assert "queue depth (iodepth)" in drawing


@pytest.mark.parametrize(
    ("name", "words"),
    [("partial", "2 of 6 points"), ("empty", "Nothing was measured"), ("invalid", "not to be trusted")],
)
def test_what_is_wrong_with_a_run_is_said_on_top(name: str, words: str) -> None:
    text = make_page(name).replace("\N{NO-BREAK SPACE}", " ")
    assert words in text[text.index("<main") :][:2500]


def test_remarks_and_parameters_are_told_once_and_only_where_they_say_something() -> None:
    run = made_run.whole_run()
    note = [Note("interval_not_reached", f"the interval should be within 10%; it is within {n}%") for n in (20, 30)]
    first, second, *others = run.experiments[0].points
    loose = [replace(first, notes=(note[0],)), replace(second, notes=(note[1],)), *others]
    experiment = replace(
        run.experiments[0], points=tuple(loose), fixed={"cpus": "[]", "offset": 0, "direct": False, "runtime": 0.579336}
    )
    remarks = figures.remarks(experiment)
    assert len([remark for remark in remarks if "interval" in remark]) == 1
    assert any(
        "wider than the profile aims at" in remark and f"(2 of {len(loose)} points)" in remark for remark in remarks
    )
    assert page._list_fixed(experiment) == [("direct", "no"), ("runtime", "0.579")]


def test_a_page_of_a_thousand_points_folds_what_is_not_asked_for() -> None:
    text = make_page("huge")
    reader = Reader(text + "".join(map(unpacked, re.findall('data-packed="([^"]*)"', text))))
    drawings = [str(a["id"]) for tag, a in reader.tags if tag == "figure" and str(a["id"]).startswith("chart-")]
    assert len(drawings) == len(list_charts(find_run("huge"))) > page.CHARTS_IN_SIGHT
    assert not any(tag == "details" and "open" in attributes for tag, attributes in reader.tags)
    assert "All 1056 points" in text


def test_a_page_has_no_heading_and_no_column_without_anything_in_it() -> None:
    text = make_page("imported")
    assert 'id="commands"' not in text and 'href="#commands"' not in text
    card = text[text.index('<table class="score">') : text.index("</table>")]
    assert "Typical" not in card and "unknown; rated: --device" in card and "0 findings" not in text
    assert "Typical" in make_page("whole") and 'id="commands"' in make_page("whole")


def test_charts_above_each_other_have_one_axis_where_a_point_lacks_its_latency() -> None:
    figure = next(candidate for candidate in make_story(find_run("imported")) if candidate.name == "depth")
    above, below = figure.pictures
    assert (above.x.low, above.x.high, above.x.ticks) == (below.x.low, below.x.high, below.x.ticks)
    assert len(above.x.ticks) == 3


def test_a_run_that_was_cut_short_gives_two_reasons_and_counts_the_rest() -> None:
    run = find_run("partial")
    for many, ending in (
        (1, "reason 1."),
        (3, "reason 2; reason 3."),
        (9, "reason 2; and 7 more reasons in the raw data."),
    ):
        short = replace(run, degraded=tuple(f"reason {at + 1}" for at in range(many)))
        rule = next(
            judged_rule for judged_rule in judged_rules(short) if judged_rule.asks == "Missing points are explained"
        )
        assert rule.why.startswith("4 of 6 planned points are missing: reason 1") and rule.why.endswith(ending)
