"""The page: hostile names escaped, nothing loaded from elsewhere, and in headless Chromium every chart drawn."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import hostile
import made_run
import pytest
from here import missing
from hwdyno.printable import printable
from hwdyno.report import page
from hwdyno.report.charts import charts_of
from hwdyno.store import from_json, to_json
from hwdyno.words import Note, Run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
PAGES: dict[str, str] = {}
RUNS: dict[str, Run] = {}


def run_of(name: str) -> Run:
    if name not in RUNS:
        made = {**made_run.ALL, **hostile.RUNS, "huge": made_run.huge_run}
        RUNS[name] = made[name]()
    return RUNS[name]


def page_of(name: str) -> str:
    if name not in PAGES:
        PAGES[name] = page.html(run_of(name))
    return PAGES[name]


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


@pytest.mark.parametrize("name", made_run.ALL)
def test_the_page_follows_no_outside_address(name: str) -> None:
    reader = Reader(page_of(name))
    for tag, attributes in reader.tags:
        for key in ("src", "href", "action", "poster", "srcset", "data", "formaction", "xlink:href"):
            value = attributes.get(key) or "#"
            assert value.startswith(("#", "data:")), f"<{tag} {key}={value}>"
        assert "style" not in attributes or "url(" not in (attributes["style"] or "")
    style = re.search(r"<style>(.*?)</style>", page_of(name), re.S)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    # The page's policy forbids every load, so that a slip in a library could not reach out either.
    policies = [
        a["content"] for t, a in reader.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies
    assert "default-src 'none'" in str(policies[0])
    for kind in ("specs", "themes"):
        assert "://" not in reader.scripts[kind]


def test_hostile_names_are_text_and_the_data_survives_whole() -> None:
    reader = Reader(page_of("hostile"))
    assert [tag for tag, _ in reader.tags].count("script") == 5
    assert "img" not in {tag for tag, _ in reader.tags}
    assert not any(key.startswith("on") for _, attributes in reader.tags for key in attributes)
    assert made_run.HOSTILE in "".join(reader.text)
    assert from_json(reader.scripts["run"]) == run_of("hostile")
    labels = {
        row["series"]
        for spec in json.loads(reader.scripts["specs"])
        for rows in spec["datasets"].values()
        for row in rows
        if "series" in row
    }
    assert any(made_run.HOSTILE in label for label in labels)


@pytest.mark.parametrize("name", hostile.RUNS)
def test_a_hostile_run_adds_no_element_no_attribute_and_no_steering(name: str) -> None:
    reader, plain = Reader(page_of(name)), Reader(page_of("whole"))
    known = {tag for tag, _ in plain.tags} | {"code", "p", "ul", "li", "pre", "details", "summary"}
    assert {tag for tag, _ in reader.tags} <= known
    assert not any(key.startswith("on") for _, attributes in reader.tags for key in attributes)
    assert not any(attributes.get("id") == "pwned" for _, attributes in reader.tags)
    assert not hostile.steers(page_of(name).replace(page.vega(), ""))
    assert from_json(reader.scripts["run"]) == run_of(name)


@pytest.mark.parametrize("name", ["whole", "wholly"])
def test_the_policy_names_each_script_by_its_hash_and_allows_no_other(name: str) -> None:
    reader = Reader(page_of(name))
    policy = next(str(a["content"]) for t, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    allowed = re.search("script-src ([^;]*)", policy)
    assert allowed is not None
    kinds = [attributes.get("type") for tag, attributes in reader.tags if tag == "script"]
    programs = [text for text, kind in zip(reader.scripts.values(), kinds, strict=True) if kind is None]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in programs]
    assert allowed[1].split() == [f"'sha256-{digest}'" for digest in digests]
    assert len(digests) == 2
    assert "\r" not in "".join(programs), "a browser would hash another text"


@pytest.mark.parametrize("name", made_run.ALL)
def test_the_raw_data_is_the_run(name: str) -> None:
    assert json.loads(Reader(page_of(name)).scripts["run"]) == json.loads(to_json(run_of(name)))


def test_the_page_holds_all_that_a_reader_asks_for() -> None:
    text = " ".join("".join(Reader(page_of("whole")).text).split())
    for words in (
        "This storage reads",
        "SEQ1M Q8T1 read",
        "Why not double?",
        "fio 3.33: ours is 1.004 × (0.989 … 1.020)",
        "physical, PCIe 3.0 x4: 8 GT/s x 4 lanes x 128/130 / 8",
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


@pytest.mark.parametrize(
    ("name", "words"), [("partial", "2 of 6 points"), ("empty", "Nothing was measured."), ("invalid", "1 invalid")]
)
def test_what_is_wrong_with_a_run_is_said_on_top(name: str, words: str) -> None:
    assert words in page_of(name)[page_of(name).index("<main") :][:2500]


def test_remarks_and_parameters_are_told_once_and_only_where_they_say_something() -> None:
    run = made_run.whole_run()
    note = [Note("interval_not_reached", f"the interval should be within 10%; it is within {n}%") for n in (20, 30)]
    first, second, *rest = run.experiments[0].points
    loose = [replace(first, notes=(note[0],)), replace(second, notes=(note[1],)), *rest]
    experiment = replace(
        run.experiments[0], points=tuple(loose), fixed={"cpus": "[]", "offset": 0, "direct": False, "runtime": 0.579336}
    )
    remarks = page._remarks(experiment)
    assert len([one for one in remarks if "interval" in one]) == 1
    assert any("wider than the profile aims at" in one and f"(2 of {len(loose)} points)" in one for one in remarks)
    assert page._fixed(experiment) == [("direct", "no"), ("runtime", "0.579")]


def test_a_page_of_a_thousand_points_folds_what_is_not_asked_for() -> None:
    reader = Reader(page_of("huge"))
    drawings = [attributes for _, attributes in reader.tags if attributes.get("class") == "drawing"]
    assert len(drawings) == len(charts_of(run_of("huge"))) > page.CHARTS_IN_SIGHT
    assert not any(tag == "details" and "open" in attributes for tag, attributes in reader.tags)
    assert "All 1056 points" in page_of("huge")


# --- in a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if not (CHROMIUM and DRIVER):
        missing("no chromium and chromedriver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def opened(
    browser: Any, name: str, directory: Path, *, width: int = 1280, scheme: str = "light", media: str = ""
) -> None:
    path = directory / f"{name}.html"
    path.write_text(page_of(name))
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(path.as_uri())


def drawn(browser: Any) -> int:
    """Open every fold, bring each chart into view, and count those that became pictures with marks in them."""
    browser.execute_script("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    browser.execute_script("document.documentElement.style.scrollBehavior = 'auto'")
    places = browser.execute_script("return document.querySelectorAll('.drawing').length")
    script = (
        "return [...document.querySelectorAll('.drawing')].filter((place) => "
        "place.querySelector('svg .mark-symbol path, svg .mark-line path, svg .mark-rect path')).length"
    )
    limit = time.monotonic() + 20
    for at in range(places):
        place = f"document.querySelectorAll('.drawing')[{at}]"
        browser.execute_script(f"{place}.scrollIntoView({{block: 'center'}})")
        while not browser.execute_script(f"return {place}.dataset.drawn") and time.monotonic() < limit:
            time.sleep(0.02)
    while browser.execute_script(script) < places and time.monotonic() < limit:
        time.sleep(0.02)
    return int(browser.execute_script(script))


def complaints(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser")]


def requests(browser: Any) -> set[str]:
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
    return {url for url in sent if not url.startswith(("file:", "data:", "blob:"))}


@pytest.mark.browser
@pytest.mark.parametrize("name", made_run.ALL)
def test_every_chart_is_drawn_with_no_complaint_and_no_request(name: str, browser: Any, tmp_path: Path) -> None:
    opened(browser, name, tmp_path)
    assert drawn(browser) == len(charts_of(run_of(name)))
    assert complaints(browser) == []
    assert requests(browser) == set()
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.browser
@pytest.mark.parametrize("name", hostile.RUNS)
def test_nothing_hostile_runs(name: str, browser: Any, tmp_path: Path) -> None:
    opened(browser, name, tmp_path)
    assert drawn(browser) == len(charts_of(printable(run_of(name))))
    # A reader goes over each mark, and saves each chart.
    browser.execute_script(
        "document.querySelectorAll('.drawing svg path, .drawing svg text').forEach((mark) => "
        "['mousemove', 'mouseover', 'click'].forEach((kind) => mark.dispatchEvent(new MouseEvent(kind, "
        "{bubbles: true, clientX: 40, clientY: 40}))))"
    )
    assert browser.execute_script("return window.__pwned ?? null") is None
    assert (
        browser.execute_script("return document.querySelectorAll('#pwned, img, iframe, [onload], [onerror]').length")
        == 0
    )
    assert browser.execute_script("return [...document.links].every((link) => link.getAttribute('href')[0] === '#')")
    assert browser.execute_script("return document.scripts.length") == 5
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    assert complaints(browser) == []
    assert requests(browser) == set()


@pytest.mark.browser
def test_the_policy_stops_what_a_slip_would_let_in(browser: Any, tmp_path: Path) -> None:
    opened(browser, "whole", tmp_path)
    tries = (
        "const script = document.createElement('script'); script.textContent = 'window.__pwned = 1';"
        "document.body.append(script)",
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.__pwned = 1\">')",
        "document.body.insertAdjacentHTML('beforeend', '<svg onload=\"window.__pwned = 1\"></svg>')",
        "location.href = 'javascript:window.__pwned = 1'",
        "const base = document.createElement('base'); base.href = 'http://evil.invalid/'; document.head.append(base)",
    )
    for script in tries:
        browser.get_log("browser")
        browser.execute_script(script)
        time.sleep(0.2)
        assert any("Content Security Policy" in complaint for complaint in complaints(browser)), script
    for text in ("eval('window.__pwned = 1')", "Function('window.__pwned = 1')()"):
        # Later, by the page itself: while a driver's own script runs, the browser lets eval pass.
        later = (
            f"window.said = ''; setTimeout(() => {{ try {{ {text} }} catch (error) {{ window.said = error.name }} }})"
        )
        browser.execute_script(later)
        time.sleep(0.2)
        assert browser.execute_script("return window.said") == "EvalError"
    assert browser.execute_script("return window.__pwned ?? null") is None
    assert requests(browser) == set()


@pytest.mark.browser
@pytest.mark.parametrize("name", ["whole", "named"])
def test_a_chart_and_the_data_can_be_saved_under_the_policy(name: str, browser: Any, tmp_path: Path) -> None:
    opened(browser, name, tmp_path)
    drawn(browser)
    browser.execute_script(
        "window.saved = []; HTMLAnchorElement.prototype.click = function () { saved.push([this.download, this.href]) };"
        "document.querySelector('[data-save=svg]').click(); document.querySelector('[data-save=png]').click();"
        "document.getElementById('download').click()"
    )
    limit = time.monotonic() + 10
    while browser.execute_script("return saved.length") < 3 and time.monotonic() < limit:
        time.sleep(0.05)
    saved = dict(browser.execute_script("return saved"))
    assert sorted(Path(file).suffix for file in saved) == [".json", ".png", ".svg"]
    assert all(re.fullmatch(r"[\w.-]+", file) for file in saved)
    assert all(link.startswith(("data:", "blob:")) for link in saved.values())
    assert complaints(browser) == []


@pytest.mark.browser
def test_dark_light_and_paper_differ_as_they_should(browser: Any, tmp_path: Path) -> None:
    paper = "return getComputedStyle(document.body).backgroundColor"
    label = "return getComputedStyle(document.querySelector('.drawing svg .role-axis-label text')).fill"
    opened(browser, "whole", tmp_path, scheme="dark")
    drawn(browser)
    assert browser.execute_script(paper) == "rgb(20, 23, 27)"
    dark = browser.execute_script(label)
    browser.execute_script("document.getElementById('theme').click()")
    assert browser.execute_script(paper) == "rgb(255, 255, 255)"
    assert browser.execute_script(label) != dark, "charts follow the theme without being drawn again"
    browser.execute_script("localStorage.clear()")
    opened(browser, "whole", tmp_path, scheme="dark", media="print")
    assert browser.execute_script(paper) == "rgb(255, 255, 255)"
    assert browser.execute_script("return getComputedStyle(document.getElementById('theme')).display") == "none"
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    shown = browser.execute_script("return document.querySelectorAll('.drawing svg').length")
    assert shown == len(charts_of(run_of("whole"))), "printing draws what the reader had not yet scrolled to"
    assert len(printed) > 50_000


@pytest.mark.browser
def test_a_picture_of_the_page_has_its_charts_without_scrolling(browser: Any, tmp_path: Path) -> None:
    opened(browser, "whole", tmp_path)  # Returns when the page is loaded, as a screenshot from the command line does.
    sight = "return [...document.querySelectorAll('.drawing')].filter((place) => place.offsetParent"
    empty = f"{sight} && !place.querySelector('svg')).length"
    assert browser.execute_script("return document.querySelectorAll('.drawing').length") >= 6
    assert browser.execute_script(empty) == 0
    assert browser.execute_script("return scrollY") == 0
    assert complaints(browser) == []


@pytest.mark.browser
@pytest.mark.parametrize("name", ["whole", "hostile", "sweep", "wholly", "Value", "words"])
def test_a_phone_needs_no_sideways_scrolling(name: str, browser: Any, tmp_path: Path) -> None:
    opened(browser, name, tmp_path, width=390)
    assert drawn(browser) == len(charts_of(printable(run_of(name))))
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390


@pytest.mark.browser
def test_a_tooltip_says_the_exact_figures_and_the_legend_hides_the_others(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    opened(browser, "whole", tmp_path)
    drawn(browser)
    chart = browser.find_element(By.CSS_SELECTOR, "figure[id$='iodepth-throughput']")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    first = chart.find_elements(By.CSS_SELECTOR, "svg .mark-symbol.role-mark path")[0]
    ActionChains(browser).move_to_element(first).perform()
    tip = browser.find_element(By.ID, "tip")
    assert re.search(r"throughput\s+[\d.,]+ MB/s \([\d.,]+ … [\d.,]+\)", tip.text)
    assert re.search(r"rate\s+[\d,]+ IOPS", tip.text)
    faded = (
        "return [...arguments[0].querySelectorAll('svg .mark-symbol.role-mark path')]"
        ".filter((path) => Number(path.getAttribute('opacity') ?? 1) < 0.5).length"
    )
    assert browser.execute_script(faded, chart) == 0
    entry = chart.find_elements(By.CSS_SELECTOR, "svg .role-legend-symbol path")[0]
    ActionChains(browser).move_to_element(entry).click().perform()
    limit = time.monotonic() + 5
    while not browser.execute_script(faded, chart) and time.monotonic() < limit:
        time.sleep(0.05)
    assert browser.execute_script(faded, chart) >= 9


@pytest.mark.browser
def test_a_thousand_points_open_at_once_and_their_charts_follow_without_scrolling(browser: Any, tmp_path: Path) -> None:
    opened(browser, "huge", tmp_path)
    assert browser.execute_script("return document.readyState") == "complete"
    left = "return [...document.querySelectorAll('.drawing')].filter((p) => p.offsetParent && !p.dataset.drawn).length"
    limit = time.monotonic() + 30
    while browser.execute_script(left) and time.monotonic() < limit:
        time.sleep(0.05)
    assert browser.execute_script(left) == 0
    assert complaints(browser) == []
