"""How this program was called, so that a command works where it is printed."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path


@cache
def program() -> str:
    """``hwdyno`` where a shell finds it, else the words that started this process: ``.venv/bin/hwdyno``."""
    started = Path(sys.argv[0])
    if shutil.which("hwdyno"):
        return "hwdyno"
    if started.name == "hwdyno":
        return shlex.quote(sys.argv[0])
    return f"{shlex.quote(sys.executable)} -m hwdyno" if started.parts[-2:] == ("hwdyno", "__main__.py") else "hwdyno"


# Where a text names a command: at its beginning, between backticks, and after these words.
_COMMAND = re.compile(r"(?:^|(?<=`)|(?<=: )|(?<=see )|(?<=then ))hwdyno (?=[a-z-])")


def as_called(text: str) -> str:
    """A text whose commands begin as this process was called."""
    return text if program() == "hwdyno" else _COMMAND.sub(f"{program()} ", text)
