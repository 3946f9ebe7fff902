"""The documentation: commands that parse, links that lead somewhere, a site that builds strictly and fits a phone."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import subprocess
import sys
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from browser_page import browser as browser
from here import needs
from hwdyno import studies
from hwdyno.analysis import resources
from hwdyno.cli.main import main, make_parser
from hwdyno.explain.findings import all_rules
from hwdyno.measure import engine
from hwdyno.model.words import UserError

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
TOOLS = ROOT / "target" / "docs-env"
"""The environment that `make docs` makes."""


IN_REPOSITORY = re.compile(r"^https://(?:github\.com|raw\.githubusercontent\.com)/hwdyno/hwdyno/(?:blob/)?main/")
"""How the README, which PyPI shows too, begins a link to a file of the repository."""


tools = needs(
    any(TOOLS.glob("lib/python*/site-packages/pydata_sphinx_theme")),
    "the site's tools are missing; make docs installs them",
)


def code_lines(page: Path) -> list[str]:
    """The lines of a page's code blocks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def commands(page: Path) -> list[str]:
    """The commands of hwdyno in a page's code blocks, also those that continue on the next line."""
    whole = re.sub(r"\\\n *", "", "\n".join(code_lines(page)))
    lines = [line.partition(" #")[0].strip() for line in whole.splitlines()]
    return [line for line in lines if line.startswith("hwdyno ")]


def build(sources: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build a site as `make docs` does."""
    settings = ["--conf-dir", DOCS / "site", "--doctree-dir", sources / ".doctrees"]
    command = [
        TOOLS / "bin" / "python",
        "-m",
        "sphinx",
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        *settings,
        sources,
        site,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, which the first of the workers builds for all of them."""
    common = tmp_path_factory.getbasetemp()
    folder = (common.parent if "PYTEST_XDIST_WORKER" in os.environ else common) / "site"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            subprocess.run([sys.executable, DOCS / "pages.py", folder / "sources"], check=True)
            done = build(folder / "sources", folder / "html")
            assert done.returncode == 0, done.stdout + done.stderr
            (folder / "built").touch()
    return folder / "html"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_page_is_one(page: Path) -> None:
    for line in commands(page):
        _, name, *words = shlex.split(line)
        parser = make_parser(name)
        parser.raises = True
        try:
            parser.read(words)
        except UserError as error:
            pytest.fail(f"{page.name}: {line}: {error}")


def test_wrong_command_in_page_is_found(tmp_path: Path) -> None:
    page = tmp_path / "x.md"
    page.write_text("```\nhwdyno storage \\\n  --iodpeth 3   # wrong\n```\n\nhwdyno in a sentence\n")
    (line,) = commands(page)
    parser = make_parser("storage")
    parser.raises = True
    with pytest.raises(UserError, match="did you mean"):
        parser.read(shlex.split(line)[2:])


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: str(page.relative_to(DOCS)))
def test_code_fits_a_window(page: Path) -> None:
    """A command of 100 columns fits beside the navigation of the site, so that none is cut off."""
    assert [line for line in code_lines(page) if len(line) > 100] == []


def test_output_of_home_is_what_the_lesson_prints() -> None:
    text = (DOCS / "index.md").read_text()
    shown = text.partition("hwdyno explain host_cache\n```\n\n```\n")[2].partition("…\n```")[0]
    done = subprocess.run(
        [sys.executable, "-m", "hwdyno", "explain", "host_cache"], capture_output=True, text=True, check=True
    )
    assert shown and done.stdout.startswith(shown)


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_every_file_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    made = {"hwdyno.run-2.schema.json"}
    for link in re.findall(r"\]\(([^)\s#]+)", text):
        link = IN_REPOSITORY.sub("", link)
        if "://" not in link:
            assert (page.parent / link).exists() or link in made, f"{page.name}: {link}"


def test_the_readme_is_short_and_shows_what_it_says() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    assert "](https://raw.githubusercontent.com/hwdyno/hwdyno/main/docs/report.png)" in text
    links = re.findall(r"\]\(([^)\s]+)", text)
    assert links and all(link.startswith("https://") for link in links), "PyPI knows no relative link"
    named = set(re.findall(r"docs/resources/(\w+)\.md", text))
    assert named == {path.stem for path in (DOCS / "resources").glob("*.md")}
    assert {name for name in resources.all_resources() if resources.find(name).by_default} <= named


MUCH_GB = 10
"""What an example of the README may write unless it says so; it may take a minute."""
NOT_HERE = {"job", "server", "--server", "gpu", "report", "audit", "compare", "explain"}
"""Words of examples that need a file, another host or a GPU, or measure nothing."""


def measuring() -> list[tuple[str, str]]:
    """The README's examples that measure on this machine, each with its remark."""
    lines = [
        line.partition("#") for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("hwdyno ")
    ]
    listed = {"run", "storage", "memory", "compute", "network", "training", "inference", "together", "study"}
    found = [(command.strip(), remark) for command, _, remark in lines]
    return [
        (command, remark)
        for command, remark in found
        if command.split()[1] in listed and not NOT_HERE & set(command.split())
    ]


SURVEYED = lru_cache(engine.survey)
"""A survey watches the machine for half a second: one serves every dry run."""


@pytest.mark.parametrize(("command", "remark"), measuring())
def test_an_example_is_short_or_says_what_it_takes(
    command: str, remark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine, "survey", SURVEYED)
    words = shlex.split(command.replace("/data", str(tmp_path)))[1:]
    status = main([*words, "--dry-run"])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    total = re.search(r"at least (.+?), (?:(?:up to )?([\d.]+ \w+)|nothing else) written", printed.out)
    assert total is not None, printed.out
    assert "min" not in total[1] or re.search(r"\d min", remark), total[0]
    number, unit = (total[2] or "0 B").split()
    much = unit in {"TB", "PB"} or (unit == "GB" and float(number) >= MUCH_GB)
    assert not much or re.search(r"writes up to \d+ [GT]B", remark), total[0]


# --- the site


class Page(HTMLParser):
    """The ids of a page, where its links lead, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.ids += [named["id"]] if "id" in named else []
        self.links += [named["href"]] if tag == "a" and "href" in named else []
        source = named.get("href" if tag == "link" else "src")
        self.loaded += [source] if tag in {"link", "script", "img"} and source else []


@pytest.mark.long  # `make docs` builds it as strictly, and the small site below shows that a broken link fails
@tools
def test_site_has_every_page_and_what_the_code_knows(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    assert {path for path in pages if not (site / path).is_file()} == set()
    assert {rule.name for rule in all_rules()} <= set(Page(site / "findings.html").ids)
    found = (site / "studies.html").read_text()
    assert [study.name for study in studies.all() if f"hwdyno study {study.name} " not in found] == []
    assert "hwdyno.run" in (site / "python.html").read_text()
    assert "throughput" in (site / "run.html").read_text()
    storage = (site / "resources" / "storage.html").read_text()
    assert "storage.iodepth" in storage and "<!-- exp" not in storage


@pytest.mark.long
@tools
def test_links_and_files_of_site_are_there(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    for path, page in pages.items():
        assert len(page.ids) == len(set(page.ids)), path
        assert not [source for source in page.loaded if "//" in source], path
        for link in [*page.links, *page.loaded]:
            file, _, anchor = link.partition("#")
            if "://" not in file and not file.startswith("data:"):
                target = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
                assert target.is_file(), f"{path.name}: {link}"
                assert not anchor or anchor in pages[target].ids, f"{path.name}: {link}"


@tools
def test_broken_links_fail_the_build(tmp_path: Path) -> None:
    links = "[page](lost.md) [anchor](other.md#gone) [own anchor](#nowhere) [found](other.md#part)"
    (tmp_path / "index.md").write_text(f"# Home\n\n{links}\n\n```{{toctree}}\nother\n```\n")
    (tmp_path / "other.md").write_text("# Other\n\n## Part\n\nText.\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    warned = [line for line in done.stderr.splitlines() if "WARNING" in line]
    assert len(warned) == 3
    assert all(sum(word in line for line in warned) == 1 for word in ("lost.md", "gone", "nowhere")), done.stderr


CUT_OFF = """
const scrolls = (box) => box && !box.matches('article') &&
  (/auto|scroll/.test(getComputedStyle(box).overflowX) || scrolls(box.parentElement));
const wide = [...document.querySelectorAll('article, article *')].filter((part) =>
  part.getBoundingClientRect().right > innerWidth || (part.matches('pre') && part.scrollWidth > part.clientWidth));
return wide.filter((part) => !scrolls(part)).map((part) => part.outerHTML.slice(0, 80));
"""
"""What reaches beyond the window's right edge, or a box of code that is too narrow, and does not scroll."""


def narrow(browser: Any, page: Path) -> None:
    """Show a page of the site on a phone."""
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(page.as_uri())


@pytest.mark.long
@tools
@pytest.mark.browser
def test_site_fits_a_phone_and_finds_findings(site: Path, browser: Any) -> None:
    for name in ("index", "install", "resources/object", "findings"):
        narrow(browser, site / f"{name}.html")
        browser.execute_script("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        assert browser.execute_script(CUT_OFF) == [], name
    browser.execute_script(
        "document.querySelector('article').insertAdjacentHTML('beforeend', '<hr style=\"width: 900px\">')"
    )
    assert len(browser.execute_script(CUT_OFF)) == 1, "what is cut off would be found"
    shown = "return [...document.querySelectorAll('article details')].filter((fold) => fold.checkVisibility())"
    assert len(browser.execute_script(shown)) == len(all_rules())
    browser.find_element("id", "filter").send_keys("EXTENTS holes")
    left = browser.execute_script(f"{shown}.map((fold) => fold.id)")
    assert "unwritten_file" in left and len(left) < len(all_rules()) / 10
    assert browser.find_element("id", "count").text == f"{len(left)} of {len(all_rules())}"
    narrow(browser, site / "index.html")
    browser.get(f"{(site / 'findings.html').as_uri()}#knee")
    assert browser.execute_script("return document.getElementById('knee').open")
