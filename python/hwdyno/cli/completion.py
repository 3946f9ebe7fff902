"""``hwdyno completion SHELL``: completion for bash, zsh or fish, made from the parsers of all commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from hwdyno.cli.help import Help, help_text, list_groups, spelling, value_placeholder
from hwdyno.cli.main import COMMANDS, Command, make_parser
from hwdyno.cli.parser import Parser
from hwdyno.cli.statuses import OK

HELP = Help(
    usage="SHELL",
    examples=(
        "hwdyno completion bash > ~/.local/share/bash-completion/completions/hwdyno",
        "hwdyno completion zsh > ~/.zfunc/_hwdyno",
        "hwdyno completion fish > ~/.config/fish/completions/hwdyno.fish",
    ),
)


class CompletionOption(NamedTuple):
    """An option as a shell completes it."""

    name: str
    text: str
    value: str
    """The placeholder of its value; empty if it takes none."""
    words: tuple[str, ...]
    """The values to offer; file names if there are none."""


class Completed(NamedTuple):
    """A command as a shell completes it."""

    command: Command
    options: tuple[CompletionOption, ...]
    words: tuple[str, ...]
    """What may come before its options."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the argument of ``hwdyno completion``."""
    parser.add_argument("shell", metavar="SHELL", choices=tuple(SCRIPTS), help="bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    sys.stdout.write(script(args.shell))
    return OK


def script(shell: str) -> str:
    """The completion script of a shell."""
    first, *lines = SCRIPTS[shell](tuple(list_completions()))
    return "\n".join([first, f"# Printed by: hwdyno completion {shell}", *lines]) + "\n"


def list_completions() -> Iterator[Completed]:
    """Every command with its options and words."""
    for command in COMMANDS:
        parser = make_parser(command.name)
        options = tuple(_option(parser, action) for _, _, group in list_groups(parser) for action in group)
        yield Completed(
            command, (*options, CompletionOption("--help", "show this help", "", ())), _words(command.name, parser)
        )


def _option(parser: Parser, option: argparse.Action) -> CompletionOption:
    words = parser.words.get(option.dest) or tuple(map(str, option.choices or ()))
    if option.dest == "profile":
        words = ("quick", "standard", "full")
    text = help_text(option).partition("; ")[0].partition(" (")[0].partition(" [")[0]
    return CompletionOption(spelling(option), text, "" if option.nargs == 0 else value_placeholder(option), words)


def _words(name: str, parser: Parser) -> tuple[str, ...]:
    if name == "explain":
        from hwdyno.cli import explain

        return tuple(rule for rule, _ in explain.topics())
    if name == "completion":
        return tuple(SCRIPTS)
    if parser.guide.rows is None or not parser.guide.usage or name == "run":
        return ()
    return tuple(row.partition(" ")[0] for row, _ in parser.guide.rows())


def _bash(commands: tuple[Completed, ...]) -> list[str]:
    names = " ".join(completion.command.name for completion in commands)
    lines = [
        "# bash completion of hwdyno",
        "_hwdyno() {",
        '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words="" first=""',
        '    local command="${COMP_WORDS[1]}"',
        "    COMPREPLY=()",
        "    if ((COMP_CWORD == 1)); then",
        f'        mapfile -t COMPREPLY < <(compgen -W "{names} --help --version" -- "$word")',
        "        return",
        "    fi",
        '    case "$command $before" in',
    ]
    lines += [
        f'    "{completion.command.name} {option.name}") words="{" ".join(option.words)}" ;;'
        for completion in commands
        for option in completion.options
        if option.value
    ]
    lines += ['    *) case "$command" in']
    for completion in commands:
        options = " ".join(option.name for option in completion.options)
        lines += [
            f'        {completion.command.name}) words="{" ".join(completion.words)}"',
            f'            [[ $word == -* ]] && words="{options}" ;;',
        ]
    return [
        *lines,
        "    esac ;;",
        "    esac",
        # Values are lists: the part before the last comma is kept.
        '    [[ $word == *,* ]] && first="${word%,*}," && word="${word##*,}"',
        '    [[ -n $words ]] && mapfile -t COMPREPLY < <(compgen -P "$first" -W "$words" -- "$word")',
        "    return 0",
        "}",
        "complete -o default -F _hwdyno hwdyno",
    ]


def _zsh(commands: tuple[Completed, ...]) -> list[str]:
    lines = ["#compdef hwdyno", "_hwdyno() {", "    local -a commands", "    commands=("]
    lines += [
        f"        {_quote_text(completion.command.name + ':' + completion.command.help.replace(':', ''))}"
        for completion in commands
    ]
    lines += [
        "    )",
        "    if (( CURRENT == 2 )); then",
        "        _describe command commands",
        "        return",
        "    fi",
        '    local command="$words[2]"',
        "    shift words",
        "    (( CURRENT-- ))",
        '    case "$command" in',
    ]
    for completion in commands:
        lines += [f"    {completion.command.name})", "        _arguments \\"]
        lines += [f"            {_quote_text(_zsh_option(option))} \\" for option in completion.options]
        words = f"*:name:({' '.join(completion.words)})" if completion.words else "*:file:_files"
        lines += [f"            {_quote_text(words)}", "        ;;"]
    lines += ["    esac", "}", 'if [[ "$funcstack[1]" == _hwdyno ]]; then']
    return [*lines, '    _hwdyno "$@"', "else", "    compdef _hwdyno hwdyno", "fi"]


def _zsh_option(option: CompletionOption) -> str:
    """An option in the language of ``_arguments``, where brackets and colons have a meaning."""
    marks = str.maketrans("[]:\\", "    ")
    values = " ".join(word.replace(":", "\\:") for word in option.words)
    value = f":{option.value.translate(marks).strip()}:{f'({values})' if values else '_files'}" if option.value else ""
    return f"*{option.name}[{option.text.translate(marks)}]{value}"


def _fish(commands: tuple[Completed, ...]) -> list[str]:
    lines = ["# fish completion of hwdyno"]
    for completion in commands:
        name, text = completion.command.name, _quote_text(completion.command.help)
        lines += [f"complete -c hwdyno -f -n __fish_use_subcommand -a {name} -d {text}"]
        here = f"complete -c hwdyno -n '__fish_seen_subcommand_from {name}'"
        lines += [f"{here} -f -a '{' '.join(completion.words)}'"] if completion.words else []
        for option in completion.options:
            value = f" -x -a '{' '.join(option.words)}'" if option.words else " -r" if option.value else ""
            lines += [f"{here} -l {option.name.removeprefix('--')} -d {_quote_text(option.text)}{value}"]
    return lines


def _quote_text(text: str) -> str:
    """A text in single quotes, which all three shells leave as it is."""
    return "'" + text.replace("'", "’") + "'"


SCRIPTS: dict[str, Callable[[tuple[Completed, ...]], list[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
