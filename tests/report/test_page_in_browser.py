"""The page in headless Chromium: how it looks in each state, that nothing hostile runs, and what a reader can do.

A picture of each state is kept in ``target/pages`` (``HWDYNO_PAGES`` names another folder).
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hostile
import made_run
import pytest
from here import missing, shortly
from hwdyno.explain import comparison
from hwdyno.model.words import Run
from hwdyno.report import compared_page
from hwdyno.report.charts import list_charts
from hwdyno.report.story import make_story
from hwdyno.system.printable import printable
from test_report_page import find_run, make_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
KEPT = Path(os.environ.get("HWDYNO_PAGES") or Path(__file__).parents[2] / "target" / "pages")

pytestmark = pytest.mark.browser


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
        "--disable-quic",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def opened(
    browser: Any,
    name: str,
    directory: Path,
    *,
    width: int = 1280,
    scheme: str = "light",
    media: str = "",
    scripts: bool = True,
    folds: bool = True,
) -> None:
    """Show a page, with every fold open unless ``folds`` is false."""
    shown(
        browser, directory, make_page(name),
        width=width, scheme=scheme, media=media, scripts=scripts, folds=folds, stem=name,
    )  # fmt: skip


def shown(
    browser: Any,
    directory: Path,
    page: str,
    *,
    width: int = 1280,
    scheme: str = "light",
    media: str = "",
    scripts: bool = True,
    folds: bool = True,
    stem: str = "page",
) -> None:
    """Show the text of a page."""
    path = directory / f"{stem}.html"
    path.write_text(page)
    metrics = {"width": width, "height": screen(width), "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(path.as_uri())
    if folds and scripts:
        browser.execute_script("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        browser.execute_script("document.documentElement.style.scrollBehavior = 'auto'")
        all_unpacked(browser)


def screen(width: int) -> int:
    """The height of a screen that is so wide, as of a phone of 390 x 844."""
    return 844 if width < 500 else 900


def all_unpacked(browser: Any) -> None:
    """Wait until every fold that is open has been unpacked."""
    limit = time.monotonic() + 20
    while browser.execute_script("return document.querySelectorAll('details[open] > [data-packed]').length"):
        assert time.monotonic() < limit, "a fold stays packed"
        time.sleep(0.02)


def keep(browser: Any, name: str, *, most: int = 6000) -> Path:
    """A picture of the current page, from its top."""
    size = browser.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": min(most, size["height"]), "scale": 1}
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{name}.png"
    path.write_bytes(base64.b64decode(taken["data"]))
    return path


def pictures(run: Run) -> int:
    """How many pictures the page of a Run has."""
    shown = printable(run)
    return len(list_charts(shown)) + sum(len(figure.pictures) for figure in make_story(shown))


def seen(browser: Any) -> int:
    """How many pictures with marks in them have a place on the page."""
    return int(
        browser.execute_script(
            "return [...document.querySelectorAll('svg.plot')].filter((plot) => "
            "plot.getBoundingClientRect().width > 200 && plot.querySelector('g > path, g > circle, g > rect')).length"
        )
    )


def complaints(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser")]


def requests(browser: Any) -> set[str]:
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
    return {url for url in sent if not url.startswith(("file:", "data:", "blob:"))}


# --- how it looks


@pytest.mark.parametrize("name", made_run.ALL)
def test_every_chart_is_drawn_with_no_complaint_and_no_request(name: str, browser: Any, tmp_path: Path) -> None:
    opened(browser, name, tmp_path)
    assert seen(browser) == pictures(find_run(name))
    assert complaints(browser) == []
    assert requests(browser) == set()
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


OVERLAPS = """
const worst = [];
for (const plot of document.querySelectorAll('svg.plot')) {
  const frame = plot.viewBox.baseVal;
  const texts = [...plot.querySelectorAll('text')].map((text) => [text.textContent, text.getBBox()]);
  texts.forEach(([one, a], at) => {
    if (a.x < -0.5 || a.x + a.width > frame.width + 0.5 || a.y < -0.5 || a.y + a.height > frame.height + 0.5)
      worst.push(`outside: ${one}`);
    for (const [other, b] of texts.slice(at + 1)) {
      const wide = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
      const high = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
      if (wide > 1 && high > 2) worst.push(`${plot.closest('figure').id}: ${one} | ${other}`);
    }
  });
}
return worst;
"""


@pytest.mark.parametrize("name", shortly(1 + len(made_run.ALL), "machine", *made_run.ALL, "huge"))
def test_no_label_of_a_chart_lies_over_another_or_outside(name: str, browser: Any, tmp_path: Path) -> None:
    opened(browser, name, tmp_path)
    assert browser.execute_script(OVERLAPS) == []


def test_label_over_another_would_be_found(browser: Any, tmp_path: Path) -> None:
    opened(browser, "whole", tmp_path)
    browser.execute_script(
        "const text = document.querySelector('svg.plot text'); const copy = text.cloneNode(true);"
        "copy.setAttribute('y', Number(text.getAttribute('y')) + 5); text.after(copy)"
    )
    assert browser.execute_script(OVERLAPS)


@pytest.mark.parametrize("name", ["whole", "machine"])
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
def test_picture_of_each_state_is_kept(name: str, width: int, scheme: str, browser: Any, tmp_path: Path) -> None:
    opened(browser, name, tmp_path, width=width, scheme=scheme, folds=False)
    kept = keep(browser, f"{name}-{'desktop' if width > 500 else 'phone'}-{scheme}")
    assert kept.stat().st_size > 20_000
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    top = browser.execute_script("return document.querySelector('svg.plot').getBoundingClientRect().top")
    assert top < 2 * screen(width) - 200, "the first chart begins well within the second screen"
    below = browser.execute_script("return document.getElementById('findings').getBoundingClientRect().top")
    assert width > 500 or top < below, "on a phone no finding, however long, stands between the scorecard and a chart"
    card = browser.execute_script("return document.getElementById('top').getBoundingClientRect().bottom")
    assert width < 500 or card < 900, "the scorecard is one screen"
    assert complaints(browser) == []


def test_a_fold_of_a_thousand_points_is_unpacked_when_it_is_opened(browser: Any, tmp_path: Path) -> None:
    opened(browser, "huge", tmp_path, folds=False)
    packed = "return document.querySelectorAll('[data-packed]').length"
    assert browser.execute_script(packed) == 2, "the further charts and the table"
    few = seen(browser)
    browser.execute_script("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    all_unpacked(browser)
    assert few < seen(browser) == pictures(find_run("huge"))
    rows = "return [...document.querySelectorAll('table.plain')].map((table) => table.tBodies[0].rows.length)"
    assert 1056 in browser.execute_script(rows)
    assert browser.execute_script(
        "return [...document.querySelectorAll('svg.plot')].every((one) => one.tabIndex === 0)"
    )
    assert complaints(browser) == [] and requests(browser) == set()
    keep(browser, "huge-unpacked")


def test_a_page_is_small() -> None:
    for name in ("whole", "machine", "huge"):
        assert len(make_page(name).encode()) < 1_500_000


def test_without_scripts_every_chart_is_there(browser: Any, tmp_path: Path) -> None:
    opened(browser, "whole", tmp_path, scripts=False)
    nodes = browser.execute_cdp_cmd("DOM.getDocument", {"depth": -1, "pierce": True})
    found = browser.execute_cdp_cmd(
        "DOM.querySelectorAll",
        {"nodeId": nodes["root"]["nodeId"], "selector": "#charts svg.plot path, #charts svg.plot rect"},
    )
    assert len(found["nodeIds"]) > 20
    for node in found["nodeIds"][:3]:
        browser.execute_cdp_cmd("DOM.getBoxModel", {"nodeId": node})  # Raises for what has no place on the page.
    keep(browser, "whole-without-scripts")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("name", ["whole", "hostile", "sweep", "machine", "wholly", "Value", "words"])
def test_a_phone_needs_no_sideways_scrolling(name: str, browser: Any, tmp_path: Path) -> None:
    opened(browser, name, tmp_path, width=390)
    assert seen(browser) == pictures(find_run(name))
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390


def test_dark_light_and_paper_differ_as_they_should(browser: Any, tmp_path: Path) -> None:
    paper = "return getComputedStyle(document.body).backgroundColor"
    label = "return getComputedStyle(document.querySelector('svg.plot text')).fill"
    opened(browser, "whole", tmp_path, scheme="dark")
    assert browser.execute_script(paper) == "rgb(20, 23, 27)"
    dark = browser.execute_script(label)
    browser.execute_script("document.getElementById('theme').click()")
    assert browser.execute_script(paper) == "rgb(255, 255, 255)"
    assert browser.execute_script(label) != dark, "charts follow the theme without being drawn again"
    browser.execute_script("localStorage.clear()")
    opened(browser, "whole", tmp_path, scheme="dark", media="print")
    assert browser.execute_script(paper) == "rgb(255, 255, 255)"
    assert browser.execute_script("return getComputedStyle(document.getElementById('theme')).display") == "none"


@pytest.mark.parametrize("name", ["whole", "machine"])
def test_paper_has_the_resources_on_at_most_twelve_pages(name: str, browser: Any, tmp_path: Path) -> None:
    opened(browser, name, tmp_path, folds=False)
    browser.execute_script(
        "window.heard = 0; addEventListener('beforeprint', () => {"
        "heard = document.querySelectorAll('.resource[open]').length })"
    )
    printed = base64.b64decode(
        browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})["data"]
    )
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / f"{name}-print.pdf").write_bytes(printed)
    assert browser.execute_script("return heard") == browser.execute_script(
        "return document.querySelectorAll('.resource').length"
    )
    assert not browser.execute_script("return document.querySelector('.resource[open]')"), "folded again afterwards"
    assert 1 < len(re.findall(rb"/Type\s*/Page[^s]", printed)) <= 12
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    columns = "return getComputedStyle(document.querySelector('#charts .charts')).gridTemplateColumns.split(' ').length"
    assert browser.execute_script(columns) == 2, "the grid of a desk, not that of a phone"


# --- what a reader does


def test_a_tooltip_says_the_exact_figures_and_the_legend_hides_the_others(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    opened(browser, "whole", tmp_path)
    chart = browser.find_element(By.CSS_SELECTOR, "figure[id$='iodepth-throughput']")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    point = chart.find_elements(By.CSS_SELECTOR, "svg.plot g[data-s='1'] path.tipped")[-1]
    ActionChains(browser).move_to_element(point).perform()
    tip = browser.find_element(By.ID, "tip")
    assert re.search(r"throughput\s+[\d.,]+ MB/s \([\d.,]+ … [\d.,]+\)", tip.text)
    assert re.search(r"rate\s+[\d,]+ IOPS", tip.text)
    faded = "return arguments[0].querySelectorAll('g.faded .tipped').length"
    assert browser.execute_script(faded, chart) == 0
    entry = chart.find_elements(By.CSS_SELECTOR, "svg.plot .entry text")[0]
    ActionChains(browser).move_to_element(entry).click().perform()
    assert browser.execute_script(faded, chart) >= 9
    ActionChains(browser).move_to_element(entry).click().perform()
    assert browser.execute_script(faded, chart) == 0


def test_a_tap_shows_the_figures_too(browser: Any, tmp_path: Path) -> None:
    opened(browser, "whole", tmp_path, width=390)
    shown = browser.execute_script(
        "const bar = document.querySelector('figure[id$=grid-tests] rect.tipped');"
        "bar.scrollIntoView({block: 'center'}); const box = bar.getBoundingClientRect();"
        "bar.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true, pointerType: 'touch',"
        "clientX: box.x + 5, clientY: box.y + 5})); return document.getElementById('tip').innerText"
    )
    assert "SEQ1M Q8T1 read" in shown and "MB/s" in shown
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390


def test_arrow_keys_move_between_points(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    opened(browser, "whole", tmp_path)
    plot = browser.find_element(By.CSS_SELECTOR, "figure[id$='grid-tests'] svg.plot")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", plot)
    texts = []
    for _ in range(3):
        browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
        texts.append(browser.find_element(By.ID, "tip").text)
    assert [text.split("\n")[1] for text in texts] == ["SEQ1M Q8T1 read", "SEQ1M Q8T1 write", "RND4K Q32T1 read"]


def test_the_contents_follow_the_reader_and_open_what_is_folded(browser: Any, tmp_path: Path) -> None:
    opened(browser, "whole", tmp_path, width=1440, folds=False)
    browser.execute_script("document.documentElement.style.scrollBehavior = 'auto'")
    here = "return [...document.querySelectorAll('.contents a[aria-current]')].map((link) => link.textContent)"
    assert browser.execute_script(here) == ["Summary"]
    browser.execute_script("document.querySelector('.contents a[href=\"#resource-1\"]').click()")
    limit = time.monotonic() + 5
    while browser.execute_script(here) != ["Storage"] and time.monotonic() < limit:
        time.sleep(0.02)
    assert browser.execute_script(here) == ["Storage"]
    assert browser.execute_script("return document.querySelector('#resource-1 > details').open")
    browser.execute_script("scrollTo(0, document.documentElement.scrollHeight)")
    while browser.execute_script(here) != ["Data"] and time.monotonic() < limit:
        time.sleep(0.02)
    assert browser.execute_script(here) == ["Data"]


@pytest.mark.parametrize("name", ["whole", "named"])
def test_a_chart_and_the_data_can_be_saved_under_the_policy(name: str, browser: Any, tmp_path: Path) -> None:
    opened(browser, name, tmp_path)
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
    (drawing,) = (link for file, link in saved.items() if file.endswith(".svg"))
    assert "Share%20of%20the%20ceiling" in drawing and "var(" not in drawing and "%230072b2" in drawing
    assert complaints(browser) == []


def test_a_thousand_points_open_at_once(browser: Any, tmp_path: Path) -> None:
    opened(browser, "huge", tmp_path, folds=False)
    assert browser.execute_script("return document.readyState") == "complete"
    assert complaints(browser) == []


# --- a comparison


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "light")])
def test_a_comparison_is_drawn_with_no_complaint_and_no_request(
    width: int, scheme: str, browser: Any, tmp_path: Path
) -> None:
    run = find_run("whole")
    slower = comparison.runs_compared(run, with_model(run, "Other CPU"), "after")
    page = compared_page.html("before", [slower])
    shown(browser, tmp_path, page, width=width, scheme=scheme)
    assert browser.execute_script(OVERLAPS) == []
    assert seen(browser) >= 3
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    kept = keep(browser, f"compare-{'desktop' if width > 500 else 'phone'}-{scheme}")
    assert kept.stat().st_size > 20_000
    assert complaints(browser) == [] and requests(browser) == set()


@pytest.mark.parametrize("name", ["named", "words", "ExperimentResult"])
def test_nothing_hostile_runs_in_a_comparison(name: str, browser: Any, tmp_path: Path) -> None:
    run = hostile.RUNS[name]()
    page = compared_page.html(
        hostile.PAYLOAD, [comparison.runs_compared(run, with_model(run, hostile.PAYLOAD), hostile.PAYLOAD)]
    )
    shown(browser, tmp_path, page)
    assert browser.execute_script("return window.__pwned ?? null") is None
    marks = "#pwned, img, iframe, [onload], [onerror]"
    assert browser.execute_script(f"return document.querySelectorAll('{marks}').length") == 0
    assert browser.execute_script("return document.scripts.length") == 2
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    assert complaints(browser) == [] and requests(browser) == set()


def with_model(run: Run, model: str) -> Run:
    changed = replace(run.machine, cpu=replace(run.machine.cpu, model=model))
    return replace(run, machines=(changed, *run.machines[1:]))


# --- what no one may do


@pytest.mark.parametrize("name", hostile.RUNS)
def test_nothing_hostile_runs(name: str, browser: Any, tmp_path: Path) -> None:
    opened(browser, name, tmp_path)
    assert seen(browser) == pictures(find_run(name))
    # A reader goes over each mark, clicks on each legend, and saves each chart.
    browser.execute_script(
        "HTMLAnchorElement.prototype.click = () => {};"
        "document.querySelectorAll('svg.plot *, [data-save], .contents a').forEach((mark) => "
        "['pointermove', 'mouseover', 'click'].forEach((kind) => mark.dispatchEvent(new MouseEvent(kind, "
        "{bubbles: true, clientX: 40, clientY: 40}))))"
    )
    assert browser.execute_script("return window.__pwned ?? null") is None
    assert (
        browser.execute_script("return document.querySelectorAll('#pwned, img, iframe, [onload], [onerror]').length")
        == 0
    )
    assert browser.execute_script("return [...document.links].every((link) => link.getAttribute('href')[0] === '#')")
    assert browser.execute_script("return document.scripts.length") == 2
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    assert complaints(browser) == []
    assert requests(browser) == set()


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
