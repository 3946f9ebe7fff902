"""The entry of the command line: finds the subcommand in a table, and turns every error into one line."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from hwdyno import __version__
from hwdyno.system import processes, signals
from hwdyno.system.printable import escaping
from hwdyno.system.suggestions import hint, similar

if TYPE_CHECKING:
    from hwdyno.cli.help import Help

OK, BELOW, ERROR, DEGRADED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit statuses: sound; below ``--fail-under`` or a regression; usage or error; any other verdict; interrupted.

That is by Ctrl-C; SIGTERM gives 143 and SIGHUP 129, as a shell counts.
"""


class Command(NamedTuple):
    """A subcommand: the file ``cli/<name>.py`` with ``HELP``, ``add(parser)`` and ``run(args) -> int``; its help."""

    name: str
    help: str


# A module is imported only when its subcommand is used, so that help needs none of them.
COMMANDS = (
    Command("run", "characterize this machine and write a report (the main job)"),
    Command("machine", "show this machine and the ceilings of its parts"),
    Command("storage", "measure storage: --rw --bs --iodepth --numjobs …"),
    Command("memory", "measure memory bandwidth and latency"),
    Command("compute", "measure CPU arithmetic, and LINPACK"),
    Command("gpu", "measure a GPU: arithmetic, memory, copies, launches"),
    Command("network", "measure the network, or serve a measurement"),
    Command("training", "measure storage for AI training"),
    Command("inference", "measure a model's start from storage, its decoding, KV cache and vector search"),
    Command("together", "measure what resources cost each other when they run together"),
    Command("slurm", "write a batch script that measures on the nodes of a Slurm job"),
    Command("kubernetes", "measure in pods of a cluster: manifests, a run, its clean-up"),
    Command("study", "reproduce a published study on this machine"),
    Command("report", "show a run again; write its page, images and tables"),
    Command("audit", "check another tool's results for impossible values"),
    Command("import", "store what hwdyno-engine or another tool has measured elsewhere"),
    Command("compare", "compare runs, machines, tables, makers' figures"),
    Command("scaling", "throughput, fairness and limit by the number of clients"),
    Command("project", "project a run's curves to loads far past the measured ones"),
    Command("history", "list stored runs and find regressions"),
    Command("fleet", "find the slow machine of many, and what is different about it"),
    Command("serve", "show runs, trends, comparisons and the fleet in a browser"),
    Command("export", "write runs as CSV or Parquet"),
    Command("explain", "explain a finding: law, drawing, example, limits"),
    Command("schema", "print the JSON Schema of the Run document"),
    Command("completion", "print shell completion for bash, zsh or fish"),
    Command("man", "print the manual page"),
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
            "usage: hwdyno COMMAND [options]        help: hwdyno COMMAND --help",
            "",
            "Measures what a machine delivers and could deliver, and explains the difference.",
            "",
            *lines,
            "",
            "start with:  hwdyno run      (safe: writes one file, removes it, and ends within 3 minutes)",
            "exit:  0 sound   1 below --fail-under, a regression or a slow node   2 usage or error",
            "       3 use with care, or not to be trusted   130 interrupted (143 SIGTERM, 129 SIGHUP), saved",
            "",
        ]
    )


class Parser(argparse.ArgumentParser):
    """A command's parser: help on one screen, errors in one line that name the most similar option or value."""

    def __init__(self, guide: Help, **options: Any) -> None:
        super().__init__(add_help=False, **options)
        self.color = False  # Python 3.14 would colour the help.
        self.guide = guide
        self.raises = False
        """Whether an error is a ``UserError`` and not the end of the program."""
        self.words: dict[str, tuple[str, ...]] = {}
        """Words that the values of an option may have, by its ``dest``, where argparse does not check them."""
        self.seen: dict[str, list[str]] = {}
        """The values of each option so far, by its ``dest``."""
        self.takes_pasted = False
        """Whether a command line of another tool may follow ``--``."""
        self.add_argument("-h", "--help", action=_Show, nargs=0, help="show this help")
        self.add_argument("--help-all", action=_Show, nargs=0, help="show every option")

    def read(self, arguments: list[str]) -> argparse.Namespace:
        """The parsed arguments; an unknown option, or one given twice, ends the program with status 2."""
        self.seen = {}
        at = arguments.index("--") if self.takes_pasted and "--" in arguments else len(arguments)
        args, rest = self.parse_known_args(arguments[:at])
        args.typed, args.pasted = arguments, arguments[at + 1 :]
        for word in rest[:1]:
            name = word.partition("=")[0]
            known = [one for one in self._option_string_actions if one.startswith("--") and "_" not in one]
            # As other tools spell it: with one dash, or by another name.
            meant = OF_OTHER_TOOLS.get(name, f"-{name}")
            if name.startswith("-") and meant in known:
                self.error(f"unknown option {name}; use {meant}")
            if not word.startswith("--"):
                self.error(f"unexpected argument '{word}'")
            self.error(f"unknown option {name}{similar(name, known)}")
        return args

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """The values of one occurrence of an option, which is the only one unless it is a list."""
        if action.option_strings and not isinstance(action, argparse._AppendAction):
            given = self.seen.setdefault(action.dest, [])
            given.append(" ".join(arg_strings))
            if len(given) > 1:
                name = next(one for one in action.option_strings if "_" not in one)
                one_list = f"list its values once: {name} {','.join(given)}"
                remedy = one_list if action.metavar == "VALUES" else "give it once"
                self.error(f"{name} is given twice; {remedy}")
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"'{value}' is unknown; {hint(str(value), map(str, action.choices))}")

    def error(self, message: str) -> None:  # type: ignore[override]
        """Report the error and where to find help, and exit with status 2."""
        if self.raises:
            from hwdyno.model.words import UserError

            raise UserError(message)
        self.exit(ERROR, f"{self.prog}: {message}; see {self.prog} --help\n")


class _Show(argparse.Action):
    """Prints the help and ends the program."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from hwdyno.cli import help

        assert isinstance(parser, Parser)
        show = help.screen if self.dest == "help" else help.whole
        sys.stdout.write(show(parser, parser.guide))
        parser.exit(OK)


def parser_of(name: str) -> Parser:
    """The parser of a subcommand."""
    module = importlib.import_module(f"hwdyno.cli.{name}")
    summary = commands()[name].help
    parser = Parser(module.HELP, prog=f"hwdyno {name}", description=f"{summary[0].upper()}{summary[1:]}.")
    module.add(parser)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and give its exit status; without ``arguments``, the process and its signals are ours."""
    if arguments is None:
        from hwdyno._engine import Guard

        signals.take_over("hwdyno", Guard)
    given = sys.argv[1:] if arguments is None else arguments
    BEGAN[:] = [time.monotonic() - (processes.age_s() if arguments is None else 0.0)]
    _write_any_letter()
    os.umask(os.umask(0o077) | 0o002)  # No other user may change Runs or data files, no matter what the shell allows.
    with escaping():
        return signals.status(_main(given))


OF_OTHER_TOOLS = {
    "--filename": "--path",
    "--directory": "--path",
    "-c": "--server",
    "-t": "--runtime",
    "-P": "--streams",
}
"""By an option of fio or iperf3: ours."""
GIVEN: list[str] = []
"""The words of the command line that runs, which a Run keeps."""
BEGAN: list[float] = []
"""When the command began, by the monotonic clock: with its process, where that has only one command."""


def _main(given: list[str]) -> int:
    GIVEN[:] = given
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


MOVED = {"training": {"--kv-cache": "inference", "--vector-search": "inference"}}
"""By command: options that another command has now. The old spelling works until the next release."""


def _moved(name: str, rest: list[str]) -> str:
    """The command that has these options now, which is said in a line where it is another one."""
    spelled = {word.partition("=")[0].replace("_", "-") for word in rest if word.startswith("--")}
    for option, command in MOVED.get(name, {}).items():
        if option in spelled:
            _complain(f"{name} {option} is now `{command} {option}`; the old spelling goes with the next release")
            return command
    return name


def _dispatch(name: str, rest: list[str]) -> int:
    known = commands()
    name = _moved(name, rest)
    if name not in known:
        _complain(f"unknown command '{name}'; {hint(name, known)}")
        return ERROR
    if (ranked := _as_rank(name)) is not None:
        return ranked
    args = parser_of(name).read(rest)
    status: int = importlib.import_module(f"hwdyno.cli.{name}").run(args)
    return status


_MEASURES = {"run", "storage", "memory", "compute", "network", "training", "inference", "together", "study"}
"""Commands that measure on every rank of a start by ``mpirun``; any other runs on rank 0 alone."""


def _as_rank(name: str) -> int | None:
    """The status of a process that only serves as one of several ranks; none where it has the command to run."""
    if not _LAUNCHERS & os.environ.keys():
        return None
    from hwdyno.measure.hosts.launch import launch_of

    launch = launch_of()
    if launch is None:
        return None
    if name in _MEASURES:
        from hwdyno.measure.hosts import ranks

        serves = name == "network"
        if launch.rank:
            ranks.serve(launch, serves=serves)
        else:
            ranks.join(launch, serves=serves)
    return OK if launch.rank else None


_LAUNCHERS = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "HWDYNO_RENDEZVOUS"}


def _explain(error: Exception) -> int:
    """One line for an error of the user or the machine; for a bug of hwdyno, how to report it."""
    from hwdyno.model.words import UserError

    says = " ".join(str(error).split())
    if isinstance(error, UserError) or type(error).__name__ in {"UsageError", "StoreError"}:
        _complain(says)
    elif isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or says}")
    else:
        _complain(
            f"internal error: {type(error).__name__}: {says}; please report it with the output of HWDYNO_TRACEBACK=1"
        )
    return ERROR


def _complain(says: str) -> None:
    from hwdyno.system.program_name import as_called

    sys.stderr.write(f"hwdyno: {as_called(says)}\n")
