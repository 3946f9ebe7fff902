"""The tests notice single-line changes: a small sample of what ``make mutants`` tries."""

from __future__ import annotations

import ast
import os
import random
import subprocess
import sys

import pytest
from mutants import covered
from mutants.changes import ROOT, _edits, _of_thresholds, changes, files, thresholds
from mutants.covered import Covered
from mutants.equal import EQUAL, why_equal

SAMPLE = 10
"""Changes that are tried of a file whose own tests notice them, in about a second each."""
TRY = """
import sys
from mutants.changes import changes
from mutants.trial import killed, warm

warm()
path, tests = sys.argv[1], sys.argv[2]
assert not killed(None, [tests], 60), "the tests fail without any change"
for number in map(int, sys.argv[3:]):
    if not killed(changes(path)[number], [tests], 60):
        print(changes(path)[number])
"""


def alive(path: str, tests: str, numbers: list[int]) -> str:
    """The changes of a file that its tests do not notice, a line each."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/tests:{ROOT}/python"}
    command = [sys.executable, "-c", TRY, path, tests, *map(str, numbers)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow  # each change is a run of the tests of its file
@pytest.mark.parametrize("name", ["statistics", "samples"])
def test_changes_of_the_statistics_are_noticed(name: str) -> None:
    (path,) = (one for one in files() if one in {f"python/hwdyno/{name}.py", f"python/hwdyno/{name}/__init__.py"})
    every = [one for one in changes(path) if not why_equal(one)]
    sample = random.Random(12).sample(every, SAMPLE)
    assert not alive(path, f"tests/test_{name}.py", [one.number for one in sample])


def test_a_change_is_one_line_and_another_program() -> None:
    path = "python/hwdyno/samples.py"
    unchanged = compile((ROOT / path).read_text(), path, "exec")
    for change in changes(path):
        assert compile(change.code(), path, "exec") != unchanged, change
        assert change.module == "hwdyno.samples" and change.line > 0 and change.text


def test_what_nobody_could_see_is_no_change() -> None:
    """Lengths that are equal anyway, and constants that keep a division from failing."""
    source = "def f(a, b):\n    return [x / max(y, 1e-12) + 0.5 for x, y in zip(a, b, strict=True)]\n"
    found = [edit.what for edit in _edits(ast.parse(source))]
    assert sorted(found) == ["0.5 to 0.625", "Add to Sub", "Div to Mult"]
    assert [edit.what for edit in _edits(ast.parse("A = 2e-9\n"))] == ["2e-09 to 2.5e-09"]


def test_each_excuse_is_of_a_change_that_exists() -> None:
    every = [one for path in files() for one in (*changes(path), *thresholds(path))]
    known = {(one.path.removeprefix("python/hwdyno/"), one.text, one.what) for one in every}
    assert not set(EQUAL) - known
    assert all(len(why) > 10 for why in EQUAL.values())


def test_a_threshold_is_moved_a_tenth_up_and_down() -> None:
    """Alone, in a row of them, and as a part of a size; a name that is no number stays."""
    source = 'A = 0.5\nB: float = 10\nC, D = 2.0, "x"\nE = 128 << 20\nF = True\ndef f():\n    g = 7\n'
    found = [edit.what for edit in _of_thresholds(ast.parse(source))]
    assert found == ["0.5 to 0.55", "0.5 to 0.45", "10 to 11", "10 to 9", "2.0 to 2.2", "2.0 to 1.8",
                     "128 to 141", "128 to 115"]  # fmt: skip
    (first, *_) = thresholds("python/hwdyno/findings/laws.py")
    assert first.of_threshold and first.code() is not None


@pytest.mark.parametrize(("seconds", "first"), [(0.1, "whole"), (1.0, "quick")])
def test_a_change_is_tried_by_what_runs_its_function_unless_that_takes_long(
    monkeypatch: pytest.MonkeyPatch, seconds: float, first: str
) -> None:
    made = ast.parse("def f(x):\n    if x:\n        return 1\n    return 2\n")
    monkeypatch.setattr(covered, "_tree", lambda _path: made)
    known = Covered({"f.py": {2: ["quick", "whole"], 3: ["whole"], 4: ["whole"]}}, {"quick": 0.01, "whole": seconds})
    assert known.of("f.py", 2)[0] == first
    assert known.of("f.py", 3) == ["whole"]
    # A default runs at import alone, and shows where its function does; a line that nothing runs shows nowhere.
    assert set(known.of("f.py", 1)) == {"quick", "whole"}
    assert Covered({"f.py": {2: ["quick"]}}, {"quick": 0.01}).of("f.py", 4) == []
