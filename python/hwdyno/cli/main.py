"""The entry of the command line: finds the subcommand in a table, and turns every error into one line."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from typing import Any, NamedTuple

from hwdyno import __version__
from hwdyno.printable import escaping

OK, BELOW, ERROR, DEGRADED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit statuses: valid; below ``--fail-under`` or a regression; usage or error; degraded or partial; interrupted."""


class Command(NamedTuple):
    """A subcommand: the file ``cli/<name>.py`` with ``add(parser)`` and ``run(args) -> int``, and its line of help."""

    name: str
    help: str


# A module is imported only when its subcommand is used, so that help needs none of them.
COMMANDS = (
    Command("run", "characterize this machine and write a report (the main job)"),
    Command("machine", "what this machine is, and the ceilings of its parts"),
    Command("storage", "measure storage over any sweep: --rw --bs --iodepth --numjobs …"),
    Command("memory", "measure memory over any sweep"),
    Command("compute", "measure the processor's arithmetic over any sweep"),
    Command("network", "measure the network over any sweep, or serve a measurement"),
    Command("training", "feed emulated accelerators from this storage"),
    Command("study", "reproduce a published study on this machine"),
    Command("report", "show a run again, or write its page, pictures and tables"),
    Command("compare", "set two runs beside each other"),
    Command("history", "list the runs that were saved"),
    Command("export", "write runs as CSV or Parquet"),
    Command("schema", "print the JSON Schema of the Run document"),
)


def commands() -> dict[str, Command]:
    """The subcommands by name."""
    return {command.name: command for command in COMMANDS}


def overview() -> str:
    """What ``hwdyno --help`` prints."""
    known = commands()
    width = max(map(len, known), default=0)
    lines = [f"  {name:{width}}  {command.help}" for name, command in known.items()]
    return "\n".join(
        [
            "usage: hwdyno COMMAND [options]        hwdyno COMMAND --help says more",
            "",
            "Puts a machine on the dyno: what it delivers, what it could deliver, and why they differ.",
            "",
            *lines,
            "",
            "start with:  hwdyno run      (safe: one file of its own, removed after; ends within 3 minutes)",
            "exit:  0 valid   1 below --fail-under or a regression   2 usage or error",
            "       3 degraded or partial   130 interrupted, with what was measured saved",
            "",
        ]
    )


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.color = False  # Python 3.14 would colour the help.

    def error(self, message: str) -> None:  # type: ignore[override]
        """Report the error and where to find help, and exit with status 2."""
        self.exit(ERROR, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and give its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    _write_any_letter()
    with escaping():
        return _main(given)


def _main(given: list[str]) -> int:
    if not given or given[0] in {"-h", "--help", "help"}:
        sys.stdout.write(overview())
        return OK
    if given[0] in {"-V", "--version", "version"}:
        sys.stdout.write(f"hwdyno {__version__}\n")
        return OK
    try:
        return _dispatch(given[0], given[1:])
    except SystemExit as stop:  # argparse's way out
        return stop.code if isinstance(stop.code, int) else ERROR
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe (hwdyno … | head): no error, and nothing may be written to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if os.environ.get("HWDYNO_TRACEBACK"):
            raise
        return _explain(error)


def _write_any_letter() -> None:
    """Where the locale lacks letters (µ, ±), a terminal shows replacements, and data are UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and (stream.encoding or "").lower().replace("-", "") != "utf8":
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8")


def _dispatch(name: str, rest: list[str]) -> int:
    known = commands()
    if name not in known:
        import difflib

        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known)}"
        _complain(f"no command is called '{name}'; {hint}")
        return ERROR
    module = importlib.import_module(f"hwdyno.cli.{name}")
    parser = Parser(prog=f"hwdyno {name}", description=f"{known[name].help[0].upper()}{known[name].help[1:]}.")
    module.add(parser)
    status: int = module.run(parser.parse_args(rest))
    return status


def _explain(error: Exception) -> int:
    """One line for an error of the user or the machine; for a bug of hwdyno, how to report it."""
    from hwdyno.words import UserError

    says = " ".join(str(error).split())
    if isinstance(error, UserError) or type(error).__name__ in {"UsageError", "StoreError"}:
        _complain(says)
    elif isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or says}")
    else:
        _complain(
            f"a fault of hwdyno itself: {type(error).__name__}: {says}; "
            "please report it with what HWDYNO_TRACEBACK=1 prints"
        )
    return ERROR


def _complain(says: str) -> None:
    sys.stderr.write(f"hwdyno: {says}\n")
