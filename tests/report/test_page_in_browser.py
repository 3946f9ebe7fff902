"""The page in headless Chromium: how it looks in each state, and that nothing hostile runs.

A picture of each state is kept in ``target/pages`` (``HWDYNO_PAGES`` names another folder).
"""

from __future__ import annotations

import base64
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import hostile
import made_run
import pytest
from browser_page import KEPT, all_unpacked, complaints, keep, opened, pictures, requests, screen, seen, shown
from browser_page import browser as browser
from here import shortly
from hwdyno.explain import comparison
from hwdyno.model.words import Run
from hwdyno.report import compared_page
from test_report_page import find_run, make_page

pytestmark = pytest.mark.browser


# --- how it looks


@pytest.mark.parametrize("name", made_run.ALL)
def test_every_chart_is_drawn_with_no_complaint_and_no_request(name: str, browser: Any, tmp_path: Path) -> None:
    opened(browser, name, tmp_path)
    assert seen(browser) == pictures(find_run(name))
    assert browser.execute_script(OVERLAPS) == []
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


@pytest.mark.parametrize("name", shortly(1, "machine", "huge"))
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
