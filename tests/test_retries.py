"""Only a test of timing is tried again, alone and once; every other failure is red at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import os, signal, time
from pathlib import Path
import pytest

def first(name):
    path = Path(name)
    there = path.exists()
    path.touch()
    return not there
"""
FAILS_ONCE = "@pytest.mark.timing\ndef test_late{n}():\n    assert not first('late{n}')\n"
PASSES = "def test_fine():\n    pass\n"

SITUATIONS = {
    "all pass": (PASSES, 0, ""),
    "timing fails once": (PASSES + FAILS_ONCE.format(n=1), 0, "test_it.py::test_late1: passed\n"),
    "timing fails twice": (
        "@pytest.mark.timing\ndef test_late():\n    assert False\n",
        1,
        "test_it.py::test_late: failed again\n",
    ),
    "four of timing fail": ("".join(FAILS_ONCE.format(n=n) for n in range(4)), 1, ""),
    "another fails once": ("def test_odd():\n    assert not first('odd')\n" + FAILS_ONCE.format(n=1), 1, ""),
    "timing crashes once": (
        "@pytest.mark.timing\ndef test_crash():\n    if first('c'):\n        os.kill(os.getpid(), signal.SIGSEGV)\n",
        1,
        "",
    ),
    "timing times out once": (
        "@pytest.mark.timing\n@pytest.mark.timeout(1)\ndef test_slow():\n    if first('s'):\n        time.sleep(60)\n",
        1,
        "",
    ),
    "a fixture of timing fails once": (
        "@pytest.fixture\ndef place():\n    assert not first('f')\n\n"
        "@pytest.mark.timing\ndef test_with(place):\n    pass\n",
        1,
        "",
    ),
    "a file cannot be collected": (PASSES + "import no_such_module\n", 2, ""),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_is_tried_again(situation: str, tmp_path: Path) -> None:
    body, status, retried = SITUATIONS[situation]
    (tmp_path / "test_it.py").write_text(HEAD + body)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    timing: it is\n")
    # Only the plugins that it needs: loading the others would take most of its time.
    plugins = ["-p", "pytest_timeout", *(["-p", "xdist.plugin", "-n", "1"] if "crash" in situation else [])]
    line = [sys.executable, "-m", "retries", "-q", *plugins]
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    assert (tmp_path / "target" / "retried.txt").read_text() == retried
