"""Keeps the house's rules: which room may import which, one sentence a module, nothing dead or oversized."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1] / "python" / "hwdyno"
# Rooms that are walked: a file in them is found by being there.
WALKED = {"experiments", "studies"}
MODULES = sorted(HOUSE.rglob("*.py"))

# What each room may import of the house, besides itself. A room is a module or package below hwdyno.
ALLOWED: dict[str, set[str]] = {
    "machine": set(),
    "words": {"machine"},
    "units": {"words"},
    "_engine": set(),
    "printable": set(),
    # left of the wall
    "statistics": {"words"},
    "engine": {"_engine"},
    "topology": {"machine"},
    "sweep": {"words", "units", "topology"},
    "experiments": {"words", "units", "sweep", "topology"},
    "plan": {"words", "units", "sweep", "topology", "experiments", "formats"},
    "workloads": {"words", "units", "statistics"},
    "hosts": {"words", "machine", "topology", "units", "statistics", "engine", "workloads", "workspace"},
    "peers": {"words", "units", "statistics", "formats"},
    "measurement": {"words", "units", "statistics"},
    "workspace": {"words", "units"},
    "runner": {
        *("words", "machine", "units", "statistics", "measurement", "workspace", "sweep", "plan", "experiments"),
        # curves are pure: one more point is measured where a curve bends
        *("hosts", "peers", "store", "ceilings", "curves"),
    },
    "scenarios": {
        *("words", "units", "statistics", "sweep", "plan", "experiments", "formats", "studies"),
        *("hosts", "runner", "workspace"),
        "peers",  # as a type
    },
    # at the wall and right of it: a Run file is all they need
    "store": {"words", "machine", "units", "statistics", "printable"},
    "ceilings": {"words", "machine", "units"},
    "curves": {"words", "units", "statistics"},
    "formats": {"words", "machine", "units", "statistics", "printable"},
    "comparison": {"words", "machine", "statistics"},
    "repeatability": {"words", "units", "statistics"},
    "findings": {"words", "machine", "units", "statistics", "curves", "ceilings", "repeatability"},
    "report": {
        *("words", "machine", "units", "statistics", "curves", "findings", "store", "ceilings", "formats", "studies"),
        "printable",
    },
    # published studies are data: their questions are plain axes, and their tables come from any Run
    "studies": {"words", "units", "statistics"},
}


def room_of(path: Path) -> str:
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


def house_imports(path: Path) -> set[str]:
    """The rooms that a module imports, at its top or inside a function."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write hwdyno.…"
            names = [node.module or ""]
            if node.module == "hwdyno":
                names = [f"hwdyno.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("hwdyno.")}
    return rooms - {"__version__"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(HOUSE)))
def test_imports_point_downward_only(path: Path) -> None:
    room = room_of(path)
    if room in {"__init__", "__main__", "cli"}:
        return
    assert room in ALLOWED, f"{room} is a new room: say in ALLOWED what it may import"
    extra = house_imports(path) - ALLOWED[room] - {room}
    assert not extra, f"{path.relative_to(HOUSE)} must not import {sorted(extra)}"


def test_only_hosts_open_the_engine_and_the_workloads() -> None:
    for path in MODULES:
        if room_of(path) not in {"hosts", "engine", "cli", "workloads"}:
            assert not house_imports(path) & {"engine", "_engine", "workloads"}, path


def test_nothing_right_of_the_wall_imports_anything_left_of_it() -> None:
    left = {"engine", "_engine", "sweep", "experiments", "topology", "plan", "workloads", "hosts", "peers", "runner"}
    left |= {"measurement", "workspace"}
    for room in (
        "store",
        "ceilings",
        "curves",
        "formats",
        "comparison",
        "repeatability",
        "findings",
        "report",
        "studies",
    ):
        assert not ALLOWED[room] & left


def test_imports_make_no_circle() -> None:
    done: set[str] = set()
    while len(done) < len(ALLOWED):
        ready = {room for room, needs in ALLOWED.items() if room not in done and needs <= done}
        assert ready, f"a circle among {sorted(set(ALLOWED) - done)}"
        done |= ready


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(HOUSE)))
def test_a_module_opens_with_one_sentence_and_is_one_thing(path: Path) -> None:
    text = path.read_text()
    opening = ast.get_docstring(ast.parse(text)) or ""
    first = opening.split("\n\n")[0]
    assert first.endswith((".", "?")), f"{path}: open with one sentence: what it is for"
    assert len(text.splitlines()) <= 600, f"{path}: over 600 lines; does it hold one thing?"


def test_no_module_is_dead() -> None:
    """Every module is imported somewhere, or found by its folder (a plug-in room's table walks it)."""
    mentioned = "\n".join(path.read_text() for path in MODULES)
    for path in MODULES:
        if path.name in {"__init__.py", "__main__.py", "main.py"} or path.parent.name in WALKED:
            continue
        assert path.stem in mentioned.replace(path.read_text(), ""), f"{path}: nothing imports it"


def test_no_test_skips_by_itself() -> None:
    """A skip goes through tests/here.py, so that where everything is required nothing is left out unseen."""
    for path in Path(__file__).parent.glob("*.py"):
        # DLIO is a package of no distribution, and asks for other versions of ours: its test is for who has it.
        # PyTorch and TensorFlow are gigabytes beside our megabytes: theirs likewise. MLPerf Storage's KV cache is
        # no package, and netperf comes as source only.
        optional = {f"test_peers_{name}.py" for name in ("dlio", "tensorflow", "mlperf_kv", "netperf")}
        if path.name in {"here.py", *optional, Path(__file__).name}:
            continue
        for word in ("pytest.skip(", "mark.skip", "importorskip"):
            assert word not in path.read_text(), f"{path.name} has {word}; use needs() or missing() of tests/here.py"
