"""Commands that a text advises: found in it, and taken by the command line as a shell would pass them on."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path

from hwdyno.cli.help import list_options, spelling
from hwdyno.cli.main import commands, main, make_parser
from hwdyno.cli.parser import Parser
from hwdyno.measure.scenarios import all_kinds

MEASURING = {name for name in commands() if "--dry-run" in map(spelling, list_options(make_parser(name)))}
"""Commands that can list what they would do."""
PLACEHOLDERS = re.compile(
    r"\b(?:ADDR|FILE|RUN|BEFORE|AFTER|RULE|DIR|JOURNAL|CLASS|PLAN|NAME|TEST|EXPERIMENT)\b|…|\.\.\."
)
"""Words for what only the user knows."""
_COMMAND = re.compile(rf"(?<![\w./-])hwdyno (?:{'|'.join(commands())})(?![\w/])")


def commands_in(text: str) -> list[str]:
    """The commands of a text: between backticks or in ``$()``, or to the end of its line."""
    found = []
    text = text.replace("\\\n", " ")
    for match in _COMMAND.finditer(text):
        line = text[match.start() :].splitlines()[0]
        before = text[: match.start()]
        end = "`" if before.count("`") % 2 == 1 else ")" if before.endswith("$(") else "\n"
        found.append(line.partition(end)[0])
    return found


def split_words(line: str) -> list[str]:
    """The words that a shell passes on: without comments, redirections and pipes."""
    words = shlex.split(line, comments=True)
    ends = (at for at, word in enumerate(words) if word in {">", "|", "&&", "||", ";", "<"})
    return words[1 : next(ends, len(words))]


def capture_outcome(command: Callable[[], int]) -> tuple[int, str]:
    """The exit status of what a command does, and what it wrote to stderr."""
    error = io.StringIO()
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
        try:
            status = command()
        except SystemExit as stop:
            status = int(stop.code or 0)
    return status, error.getvalue()


@cache
def _parser(name: str, kinds: tuple[str, ...]) -> Parser:
    return make_parser(name)


def parser_of(name: str) -> Parser:
    """The parser of a command with the present scenarios; making one takes longer than reading a line with it."""
    return _parser(name, tuple(kind.name for kind in all_kinds()))


@lru_cache(maxsize=8192)
def refused(line: str) -> str:
    """Why the parser refuses a command; empty where it takes it."""
    try:
        name, *words = split_words(line)
    except ValueError as error:
        return str(error)

    def parse() -> int:
        parser_of(name).read(words)
        return 0

    status, error = capture_outcome(parse)
    return error if status else ""


def not_taken(line: str, place: Path) -> str:
    """Why a dry run of a command fails, with ``place`` for the storage that it names; empty where it is taken."""
    name, *words = split_words(line)
    at = next((at for at, word in enumerate(words) if word == "--path"), None)
    if at is not None:
        storage, equals, path = words[at + 1].rpartition("=")
        words[at + 1] = f"{storage}{equals}{place}" if not path.startswith("/dev/") else path
    elif name in {"run", "storage", "training", "inference", "study"}:
        words += ["--path", str(place)]
    status, error = capture_outcome(lambda: main([name, *words, *(["--dry-run"] if name in MEASURING else [])]))
    return "" if status == 0 else error


def shape(line: str) -> tuple[str, ...]:
    """A command without the values of its options."""
    return tuple(re.findall(r"^hwdyno [\w-]+|--[\w-]+", line))


def is_dry_run(line: str) -> bool:
    """Whether a command measures, and names nothing that only the user has: a dry run lists what it would do."""
    name, *words = split_words(line)
    # A job file may name files that a test has removed by now; test_advice.py makes the ones that it uses.
    return name in MEASURING and words[:1] != ["job"] and not PLACEHOLDERS.search(line)
