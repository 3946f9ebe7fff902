"""The promises of ``docs/promises.md`` and the cases of the tests that each names.

``PYTHONPATH=tests:python python -m promises --write`` counts the cases and writes them, with the day, into the page.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
CRATE = ROOT / "crates" / "engine"
PAGE = ROOT / "docs" / "promises.md"
TEST = re.compile(r"`([\w/]+\.(?:py|rs))(?:::(\w+))?`")
RUST_TEST = re.compile(r"#\[test\]\s+(?:#\[[^\n]*\]\s+)*fn \$?(\w+)")
_CASES = re.compile(r"(?<=^- Cases: )\d+(?:,\d{3})*", re.MULTILINE)
_DAY = re.compile(r"(?<=counted them on )\d{4}-\d\d-\d\d")


def promises() -> dict[str, str]:
    """The text of each promise by its heading."""
    listed = PAGE.read_text().partition("## What is promised")[2].partition("\n## ")[0]
    parts = re.split(r"^### (.+)$", listed, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def named_tests(text: str) -> list[tuple[str, str]]:
    """The files, with a test's name or an empty one for all of them, that a promise's text names."""
    return TEST.findall(text.partition("\n- Tests:")[2].partition("\n- Cases:")[0])


def stated(text: str) -> int:
    """How many cases a promise's text says that there are."""
    found = _CASES.search(text)
    assert found, "it counts no cases"
    return int(found[0].replace(",", ""))


def collected() -> Counter[tuple[str, str]]:
    """Cases of Python's tests that promises name, by file and test, as pytest collects them."""
    files = sorted({file for text in promises().values() for file, _ in named_tests(text) if file.endswith(".py")})
    words = ["-m", "pytest", "--collect-only", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, *words, *(f"tests/{file}" for file in files)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"^tests/([\w/]+\.py)::(\w+)", done.stdout, flags=re.MULTILINE)
    return Counter(found)


def cases(text: str, python: Counter[tuple[str, str]]) -> int:
    """How many cases the tests of one promise have; a test in Rust is one."""
    named = named_tests(text)
    whole = {file for file, name in named if not name}
    count = 0
    for file, name in named:
        if file.endswith(".rs"):
            count += len(RUST_TEST.findall((CRATE / file).read_text())) if not name else file not in whole
        elif not name:
            count += sum(cases for (of, _), cases in python.items() if of == file)
        elif file not in whole:
            count += python[file, name]
    return count


def write() -> None:
    """Write the cases of each promise into the page, and the day."""
    python = collected()
    page = PAGE.read_text()
    for text in promises().values():
        page = page.replace(text, _CASES.sub(f"{cases(text, python):,}", text, count=1))
    PAGE.write_text(_DAY.sub(date.today().isoformat(), page))


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    write()
