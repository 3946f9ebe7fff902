"""A command's parser: help on one screen, errors in one line that name the most similar option or value."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from hwdyno.cli.statuses import ERROR, OK
from hwdyno.system.suggestions import hint, similar

if TYPE_CHECKING:
    from hwdyno.cli.help import Help

OF_OTHER_TOOLS = {
    "--filename": "--path",
    "--directory": "--path",
    "-c": "--server",
    "-t": "--runtime",
    "-P": "--streams",
}
"""Our name of an option, by its name in fio or iperf3."""


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
        args, unknown = self.parse_known_args(arguments[:at])
        args.command, args.typed, args.pasted = self.prog.removeprefix("hwdyno "), arguments, arguments[at + 1 :]
        for word in unknown[:1]:
            name = word.partition("=")[0]
            known = [
                spelling
                for spelling in self._option_string_actions
                if spelling.startswith("--") and "_" not in spelling
            ]
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
                name = next(spelling for spelling in action.option_strings if "_" not in spelling)
                one_list = f"list its values once: {name} {','.join(given)}"
                remedy = one_list if action.metavar == "VALUES" else "give it once"
                self.error(f"{name} is given twice; {remedy}")
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"'{value}' is unknown; {hint(str(value), map(str, action.choices))}")

    def error(self, message: str) -> None:  # type: ignore[override]
        """Report the error and where to find help, in one line, and exit with status 2."""
        message = " ".join(message.split())
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
