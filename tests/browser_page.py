"""A page in headless Chromium: how it is opened, what is seen of it, its complaints and its requests."""

from __future__ import annotations

import base64
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from here import missing
from hwdyno.model.words import Run
from hwdyno.report.charts import list_charts
from hwdyno.report.story import make_story
from hwdyno.system.printable import printable
from test_report_page import make_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
KEPT = Path(os.environ.get("HWDYNO_PAGES") or Path(__file__).parents[1] / "target" / "pages")


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
