"""The documentation: commands that parse, links that lead somewhere, a site that builds strictly, a session."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from here import needs
from hwdyno import studies
from hwdyno.analysis import resources
from hwdyno.cli.main import make_parser
from hwdyno.explain.findings import all_rules
from hwdyno.model.words import UserError

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
PYTHON = Path(os.environ.get("HWDYNO_DOCS_PYTHON") or ROOT / "target" / "docs-env" / "bin" / "python")
"""Python of the environment that `make docs` makes."""


IN_REPOSITORY = re.compile(r"^https://(?:github\.com|raw\.githubusercontent\.com)/hwdyno/hwdyno/(?:blob/)?main/")
"""How the README, which PyPI shows too, begins a link to a file of the repository."""


def is_there() -> bool:
    """Whether the site's tools are installed."""
    code = "import mkdocs, material, pyte"
    return PYTHON.exists() and subprocess.run([PYTHON, "-c", code], capture_output=True, check=False).returncode == 0


tools = needs(is_there(), "the site's tools are missing; make docs installs them")


def commands(page: Path) -> list[str]:
    """The command lines of hwdyno in a page's code blocks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("hwdyno ")]


def in_docs(code: str, *, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run code in the site's environment, which finds hwdyno as `make docs` lets it."""
    path = os.pathsep.join([str(ROOT / "python"), sysconfig.get_path("purelib"), str(DOCS)])
    environment = {**os.environ, "PYTHONPATH": path, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run([PYTHON, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True, check=False)


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
    page.write_text("```\nhwdyno storage --iodpeth 3   # wrong\n```\n\nhwdyno in a sentence\n")
    (line,) = commands(page)
    parser = make_parser("storage")
    parser.raises = True
    with pytest.raises(UserError, match="did you mean"):
        parser.read(shlex.split(line)[2:])


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_every_file_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    made = {f"findings/{rule.name}.md" for rule in all_rules()} | {
        f"studies/{study.name}.md" for study in studies.all()
    }
    made |= {"findings/index.md", "studies/index.md", "hwdyno.run-2.schema.json"}
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


@pytest.mark.parametrize(("command", "remark"), measuring())
def test_an_example_is_short_or_says_what_it_takes(command: str, remark: str, tmp_path: Path) -> None:
    words = shlex.split(command.replace("/data", str(tmp_path)))[1:]
    done = subprocess.run(
        [sys.executable, "-m", "hwdyno", *words, "--dry-run"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    total = re.search(r"at least (.+?), (?:(?:up to )?([\d.]+ \w+)|nothing) written", done.stdout)
    assert total is not None, done.stdout
    assert "min" not in total[1] or re.search(r"\d min", remark), total[0]
    number, unit = (total[2] or "0 B").split()
    much = unit in {"TB", "PB"} or (unit == "GB" and float(number) >= MUCH_GB)
    assert not much or re.search(r"writes up to \d+ [GT]B", remark), total[0]


@tools
def test_site_builds_with_every_page(tmp_path: Path) -> None:
    code = f"from mkdocs.__main__ import cli; cli(['build', '--strict', '--site-dir', {str(tmp_path)!r}])"
    done = in_docs(code)
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = {f"findings/{rule.name}.html" for rule in all_rules()} | {
        f"studies/{study.name}.html" for study in studies.all()
    }
    wanted |= {"index.html", "tutorial.html", "python.html", "run.html", "resources/together.html"}
    assert {name for name in wanted if not (tmp_path / name).is_file()} == set()
    assert "hwdyno.run" in (tmp_path / "python.html").read_text()
    assert "throughput" in (tmp_path / "run.html").read_text()
    storage = (tmp_path / "resources" / "storage.html").read_text()
    assert "storage.iodepth" in storage and "&lt;!-- " not in storage
    for page in tmp_path.rglob("*.html"):
        assert not re.search(r'<(?:script|link|img)[^>]+(?:src|href)="https?://', page.read_text()), page


@tools
def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    with (tmp_path / "docs" / "tutorial.md").open("a") as page:
        page.write("\n[lost](lost.md)\n")
    done = in_docs("from mkdocs.__main__ import cli; cli(['build', '--strict'])", cwd=tmp_path)
    assert done.returncode != 0 and "lost.md" in done.stdout + done.stderr
