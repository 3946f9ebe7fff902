"""``hwdyno man``: the manual page, made from the parsers of all commands; and all files that the wheel installs so."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hwdyno import __version__
from hwdyno.cli.help import Help, help_text, invocation, list_groups, usage
from hwdyno.cli.main import COMMANDS, make_parser
from hwdyno.cli.statuses import OK
from hwdyno.system import output_files

HELP = Help(examples=("hwdyno man", "hwdyno man > hwdyno.1", "hwdyno man | man -l -"))

STATUSES = (
    ("0", "The Run is sound."),
    ("1", "A figure is below --fail-under, compare found a regression, or watch a change."),
    ("2", "Wrong usage, or an error."),
    ("3", "The Run is to be used with care, or not to be trusted; its verdict says why."),
    ("130", "Interrupted; the results so far are saved."),
)
VARIABLES = (
    ("HWDYNO_HOME", "Folder of the stored Runs."),
    ("HWDYNO_AGENTS", "Commands that start the agents of several hosts, separated by semicolons."),
    ("HWDYNO_RENDEZVOUS", "HOST:PORT where rank 0 of several ranks listens; mpirun needs none."),
    ("HWDYNO_SECRET", "What the ranks of one start know each other by, 16 characters or more."),
    ("HWDYNO_RANK, HWDYNO_RANKS", "Which of how many ranks this process is; mpirun and srun say it themselves."),
    ("HWDYNO_TRACEBACK", "If set, an internal error shows its traceback."),
    ("HWDYNO_FIO, HWDYNO_STREAM, HWDYNO_DLIO …", "Paths of reference tools that are not in PATH."),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno man``."""
    parser.add_argument("--write", type=Path, metavar="DIR", help="write page and completions below DIR instead")
    parser.add_argument("--overwrite", action="store_true", help="replace files that hwdyno did not write")


def run(args: argparse.Namespace) -> int:
    """Print the page, or write all files that are made from the parsers."""
    if args.write is None:
        sys.stdout.write(page())
        return OK
    for path, text in make_share_files().items():
        target = args.write / path
        output_files.output_folder(target.parent)
        output_files.write_output(target, text.encode(), overwrite=args.overwrite)
    return OK


def make_share_files() -> dict[str, str]:
    """The files of the wheel's ``share`` that are made from the parsers and from the Run's words, by path."""
    from hwdyno.cli import schema
    from hwdyno.cli.completion import script

    return {
        "share/hwdyno/hwdyno.run-2.schema.json": schema.text(),
        "share/man/man1/hwdyno.1": page(),
        "share/bash-completion/completions/hwdyno": script("bash"),
        "share/zsh/site-functions/_hwdyno": script("zsh"),
        "share/fish/vendor_completions.d/hwdyno.fish": script("fish"),
    }


def page() -> str:
    """The manual page in the macros of man(7)."""
    lines = [
        f'.TH HWDYNO 1 "" "hwdyno {__version__}" "User Commands"',
        ".SH NAME",
        "hwdyno \\- measure what a machine delivers, and explain what limits it",
        ".SH SYNOPSIS",
        ".B hwdyno",
        ".I COMMAND",
        "[options]",
        ".SH DESCRIPTION",
        "hwdyno measures storage, memory, CPU, network and storage for AI. It compares each result with a ceiling and,",
        "with \\-\\-peers, with a reference tool, and explains the difference.",
        ".SH COMMANDS",
    ]
    for command in COMMANDS:
        parser = make_parser(command.name)
        lines += [f".SS {command.name}", _plain(parser.description or ""), ".PP", _plain(usage(parser, parser.guide))]
        if parser.guide.rows is not None:
            lines += [".PP", _plain(parser.guide.title) + ":"]
            lines += [line for name, text in parser.guide.rows() for line in _item(name, text)]
        for title, note, options in list_groups(parser):
            lines += [".PP", _plain(f"{title} ({note}):" if note else f"{title}:")]
            lines += [line for option in options for line in _item(invocation(option), help_text(option))]
        lines += [".PP", "Examples:", ".nf", *(_plain(example) for example in parser.guide.examples), ".fi"]
    lines += [".SH EXIT STATUS", *(line for name, text in STATUSES for line in _item(name, text))]
    lines += [".SH ENVIRONMENT", *(line for name, text in VARIABLES for line in _item(name, text))]
    return "\n".join(lines) + "\n"


def _item(name: str, text: str) -> list[str]:
    return [".TP", f".B {_plain(name)}", _plain(text)]


def _plain(text: str) -> str:
    """A text without meaning for troff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
