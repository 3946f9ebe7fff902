"""The entry of the command line: finds the subcommand in a table, and turns every error into one line."""

from __future__ import annotations

import importlib
import io
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from hwdyno import __version__, session
from hwdyno.cli.parser import Parser
from hwdyno.cli.statuses import ERROR, INTERRUPTED, OK
from hwdyno.system import memory_limits, processes, signals
from hwdyno.system.failures import TRACEBACK, collecting, describe_bug, is_bug
from hwdyno.system.printable import escaping
from hwdyno.system.suggestions import hint


class Command(NamedTuple):
    """A subcommand, of the file ``cli/<name>.py`` or of the resource of this name (``cli.swept``); its help."""

    name: str
    help: str


# A module is imported only when its subcommand is used, so that help needs none of them.
COMMANDS = (
    Command("run", "characterize this machine and write a report (the main job)"),
    Command("machine", "show this machine and what its parts could deliver"),
    Command("storage", "measure disks and file systems, with fio's option names"),
    Command("memory", "measure memory bandwidth and latency"),
    Command("compute", "measure CPU arithmetic and LINPACK"),
    Command("gpu", "measure a GPU: arithmetic, memory, copies, launches"),
    Command("network", "measure the network, or be the other end of a measurement"),
    Command("object", "measure an object store (S3)"),
    Command("training", "measure storage for AI training"),
    Command("inference", "measure what serves a model: its start, its speed, its KV cache, vector search"),
    Command("together", "measure what resources cost each other when they run together"),
    Command("slurm", "write a batch script that measures the nodes of a Slurm job"),
    Command("kubernetes", "measure in pods of a cluster"),
    Command("study", "reproduce a published study on this machine"),
    Command("report", "show a run again; write its page, images and tables"),
    Command("audit", "check another tool's results for impossible values"),
    Command("import", "keep results that hwdyno-engine or another tool measured elsewhere"),
    Command("compare", "compare results with each other or with a maker's figures; find regressions"),
    Command("scaling", "show how throughput grows with the number of clients, and what limits it"),
    Command("project", "estimate what more load than was measured would give"),
    Command("history", "list stored runs, find when a figure changed, remove old runs"),
    Command("watch", "measure again and again, and report what changed on this machine"),
    Command("fleet", "find the slow machine of many, and what is different about it"),
    Command("serve", "show runs, trends and comparisons in a browser, and a run while it is measured"),
    Command("export", "write runs as CSV, Parquet or OpenMetrics"),
    Command("explain", "explain a finding: what it means, an example, its limits"),
    Command("schema", "print the JSON Schema of the Run document"),
    Command("completion", "print shell completion for bash, zsh or fish"),
    Command("man", "print the manual page"),
)

GROUPS = {
    "measure": (
        *("run", "storage", "memory", "compute", "gpu", "network", "object", "training", "inference", "together"),
        *("study", "slurm", "kubernetes"),
    ),
    "look at results": ("report", "explain", "history", "serve", "machine", "scaling", "project"),
    "compare and check": ("compare", "watch", "fleet", "audit"),
    "share and automate": ("export", "import", "schema", "completion", "man"),
}
"""What a user wants, with the commands for it, as the overview shows them."""


def commands() -> dict[str, Command]:
    """The subcommands by name."""
    return {command.name: command for command in COMMANDS}


def overview() -> str:
    """What ``hwdyno --help`` prints."""
    known = commands()
    width = max(map(len, known), default=0)
    lines = []
    for wanted, names in GROUPS.items():
        lines += [f"{wanted}:", *(f"  {name:{width}}  {known[name].help}" for name in names)]
    return "\n".join(
        [
            "usage: hwdyno COMMAND [options]        help: hwdyno COMMAND --help",
            "",
            "Measures what a machine delivers and could deliver, and explains the difference.",
            *lines,
            "",
            "start with:  hwdyno run      (safe: writes one file, removes it, and ends within 3 minutes)",
            "exit:  0 sound   1 below --fail-under, a change or a slow node   2 usage or error",
            "       3 use with care, or not to be trusted   130 interrupted (143 SIGTERM, 129 SIGHUP), saved",
            "",
        ]
    )


def load_subcommand(name: str) -> Any:
    """The subcommand's module, or what ``cli.swept`` makes of the resource of this name; imported when it is used."""
    if find_spec(f"hwdyno.cli.{name}") is None:
        return importlib.import_module("hwdyno.cli.swept").SweptCommand(name)
    return importlib.import_module(f"hwdyno.cli.{name}")


def make_parser(name: str) -> Parser:
    """The parser of a subcommand."""
    module = load_subcommand(name)
    summary = commands()[name].help
    parser = Parser(module.HELP, prog=f"hwdyno {name}", description=f"{summary[0].upper()}{summary[1:]}.")
    module.add(parser)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and give its exit status; without ``arguments``, the process is ours, with its signals."""
    words = sys.argv[1:] if arguments is None else arguments
    began_s = time.monotonic()
    if arguments is None:
        began_s -= processes.age_s()
    _write_any_letter()
    os.umask(os.umask(0o077) | 0o002)  # No other user may change Runs or data files, no matter what the shell allows.
    with escaping(), collecting() as missing:
        status = _run_command_line(words, began_s)
        for sentence in missing:
            _complain(sentence)
        return signals.status(status)


def _run_command_line(words: list[str], began_s: float) -> int:
    """The exit status of a command line; every error is one line."""
    try:
        status = _run_words(words, began_s)
        sys.stdout.flush()
        return status
    except SystemExit as stop:  # argparse's way out
        return stop.code if isinstance(stop.code, int) else ERROR
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # The reader closed the pipe (hwdyno … | head): no error.
        return OK
    except Exception as error:
        return _explain(error)


def _run_words(words: list[str], began_s: float) -> int:
    if not words or words[0] in {"-h", "--help", "help"}:
        sys.stdout.write(overview())
        return OK
    if words[0] in {"-V", "--version", "version"}:
        sys.stdout.write(f"hwdyno {__version__}\n")
        return OK
    return _run_command(_find_command(*words), words[1:], began_s)


def _run_command(name: str, words: list[str], began_s: float) -> int:
    """Read a command's options and run it, unless this process only serves as one of several ranks."""
    if name not in commands():
        _complain(f"unknown command '{name}'; {hint(name, commands())}")
        return ERROR
    if session.only_serves(name):
        return OK
    args = make_parser(name).read(words)
    args.began_s = began_s
    status: int = load_subcommand(name).run(args)
    return status


def _write_any_letter() -> None:
    """Where the locale lacks letters (µ, ±), a terminal shows replacements, and data are UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and (stream.encoding or "").lower().replace("-", "") != "utf8":
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8")


MOVED = {"training": {"--kv-cache": "inference", "--vector-search": "inference"}}
"""Options that another command has now, by their former command. The old spelling works until the next release."""


def _find_command(name: str, *words: str) -> str:
    """The command that has these options now; a line on stderr names it where it is another one."""
    spelled = {word.partition("=")[0].replace("_", "-") for word in words if word.startswith("--")}
    for option, command in MOVED.get(name, {}).items():
        if option in spelled:
            _complain(f"{name} {option} is now `{command} {option}`; the old spelling goes with the next release")
            return command
    return name


def _explain(error: Exception) -> int:
    """One line for an error of the user or the machine; for a bug of hwdyno, how to report it."""
    from hwdyno.model.words import UserError

    if os.environ.get(TRACEBACK) and (is_bug(error) or isinstance(error, OSError)):
        raise error
    if not isinstance(error, UserError) and (refusal := memory_limits.explain_refusal(error)):
        _complain(refusal)
    elif is_bug(error):
        _complain(describe_bug(error))
    elif isinstance(error, OSError):
        where = error.filename or ("" if _is_somewhere() else "the current directory was removed, change to another")
        _complain(f"{where}{': ' if where else ''}{error.strerror or error}")
    else:
        _complain(" ".join(str(error).split()))
    return ERROR


def _is_somewhere() -> bool:
    try:
        return Path.cwd().is_dir()
    except OSError:
        return False


def _complain(says: str) -> None:
    from hwdyno.system.program_name import as_called
    from hwdyno.system.urls import without_password

    sys.stderr.write(f"hwdyno: {as_called(without_password(' '.join(says.split())))}\n")
