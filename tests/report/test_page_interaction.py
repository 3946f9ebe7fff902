"""What a reader does with the page in headless Chromium: tooltips, legends, keys, contents and what is saved."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from browser_page import browser as browser
from browser_page import complaints, opened

pytestmark = pytest.mark.browser


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
