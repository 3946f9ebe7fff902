"""What an installation has: a small core, extras that are requested by name, and files of the shell."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path

import made_run as made
import pytest
from hwdyno.cli.main import main
from hwdyno.system.foreign import parse_toml
from hwdyno.system.optional import EXTRAS
from hwdyno.system.store import Store

ROOT = Path(__file__).parents[1]
PROJECT = parse_toml((ROOT / "pyproject.toml").read_text(), "pyproject.toml")["project"]

MAX_CORE_BYTES = 215e6
MAX_INFERENCE_BYTES = 160e6
"""Largest install with NumPy, which the core has too."""
ENGINE_BYTES = 8e6
"""Size of the stripped engine and hwdyno's Python files, by `make wheel`; an editable engine is not stripped."""
NAME = re.compile(r"[\w.-]+")


def needs(requirements: list[str]) -> set[str]:
    """The distributions that these requirements install on this Python, their own requirements included."""
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        line = waiting.pop()
        marker = line.partition(";")[2]
        name = re.sub(r"[-_.]+", "-", NAME.findall(line)[0]).lower()
        if name in found or "extra ==" in marker:
            continue
        try:
            waiting += importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            assert marker, f"{name} is required and not installed"  # for another Python or system
            continue
        found.add(name)
    return found


def installed_bytes(name: str) -> int:
    """The bytes of a distribution's files, without the bytecode that pip adds."""
    files = importlib.metadata.files(name) or []
    paths = (Path(str(file.locate())) for file in files if file.suffix != ".pyc")
    return sum(path.stat().st_size for path in paths if path.exists())


def test_core_needs_at_most_215_mb() -> None:
    core = needs(PROJECT["dependencies"])
    assert {"numpy", "scipy", "rich"} <= core
    assert not core & {"pyarrow", "vl-convert-python"}
    sizes = {name: installed_bytes(name) for name in core}
    assert sum(sizes.values()) + ENGINE_BYTES <= MAX_CORE_BYTES, sizes


def test_the_extra_of_inference_needs_less_than_160_mb() -> None:
    extra = needs(PROJECT["optional-dependencies"]["inference"])
    assert {"onnxruntime", "pillow", "numpy"} <= extra
    sizes = {name: installed_bytes(name) for name in extra}
    assert sum(sizes.values()) < MAX_INFERENCE_BYTES, sizes


PERMISSIVE = re.compile(r"MIT|BSD|Apache|PSF|Zlib|CC0|0BSD|Enthought")
"""Words of the licences that may come with hwdyno; SciPy's metadata has the whole text, which is BSD."""
COPYLEFT = {"psycopg": "postgres"}
"""Packages with another licence, each with the extra that alone installs it."""


def licence(name: str) -> str:
    """What a distribution's metadata says of its licence."""
    metadata = importlib.metadata.metadata(name)
    declared = metadata.get("License-Expression") or metadata.get("License") or ""
    return declared or " ".join(word for word in metadata.get_all("Classifier") or [] if word.startswith("License"))


def test_licence_of_each_dependency_is_permissive() -> None:
    extras = PROJECT["optional-dependencies"]
    every = needs([*PROJECT["dependencies"], *(line for lines in extras.values() for line in lines)])
    assert {name for name in every if not PERMISSIVE.search(licence(name))} == COPYLEFT.keys()
    for name, extra in COPYLEFT.items():
        others = [line for other, lines in extras.items() if other != extra for line in lines]
        assert name not in needs([*PROJECT["dependencies"], *others]) and name in (ROOT / "docs/install.md").read_text()


def test_project_says_where_it_is_and_which_pythons_run_it() -> None:
    urls = PROJECT["urls"]
    assert {"Source", "Documentation", "Issues", "Changelog"} <= urls.keys()
    assert PROJECT["authors"] and len(PROJECT["keywords"]) >= 10
    found = {word.rpartition(" :: ")[2] for word in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", word)}
    assert found == {f"3.{minor}" for minor in range(10, 15)}


def test_every_extra_is_named_by_command() -> None:
    declared = PROJECT["optional-dependencies"]
    assert declared.keys() == EXTRAS.keys()
    for extra, library in EXTRAS.items():
        assert any(line.startswith(library) for line in declared[extra])


@pytest.mark.parametrize(
    ("library", "words", "says"),
    [
        (
            "vl_convert",
            ["report", "last", "--png", "."],
            'a chart as png needs vl-convert: pip install "hwdyno[images]"; --svg needs nothing',
        ),
        (
            "pyarrow",
            ["export", "last", "--parquet", "x.parquet"],
            'a Parquet file needs pyarrow: pip install "hwdyno[parquet]"; --csv needs nothing',
        ),
    ],
)
def test_missing_extra_is_one_line(
    library: str,
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Store(tmp_path / "store").save(made.whole_run())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, library, None)
    assert main([*words, "--store", "store"]) == 2
    assert capsys.readouterr().err == f"hwdyno: {says}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
