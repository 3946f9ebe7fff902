"""Help of a command on one screen: its experiments, its common options and examples; all options on request."""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

MAX_COLUMNS = 100
MAX_LINES = 40
"""The size of a screen; a test keeps every ``--help`` within it."""
BOUNDS = re.compile(r" \([^()]*(?: to | or more)[^()]*\)")
"""The least and the most value at the end of an option's text, which a screen leaves out."""
Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Help:
    """What a command's screen shows beside its summary."""

    examples: tuple[str, ...]
    """Command lines that run as they are."""
    options: tuple[str, ...] = ()
    """The common options, without dashes; all of them if none are named."""
    usage: str = ""
    """The arguments in the line of usage, before the options."""
    title: str = ""
    """The heading above ``rows``."""
    rows: Callable[[], Rows] | None = None
    """What the command measures or shows, by name: each name completes the command line."""


def list_experiments(resource: str) -> Rows:
    """The experiments of a resource that its command takes, with their titles."""
    from hwdyno.measure import experiments

    names = (
        (experiment.name.partition(".")[2], experiment.asks)
        for experiment in experiments.all()
        if experiment.resource == resource
    )
    return tuple((name, title) for name, title in names if not name.startswith("snia-"))


def screen(parser: argparse.ArgumentParser, guide: Help) -> str:
    """The help of a command on one screen."""
    width = min(MAX_COLUMNS, shutil.get_terminal_size((MAX_COLUMNS, MAX_LINES)).columns)
    lines = [usage(parser, guide), "", parser.description or "", ""]
    if guide.rows is not None:
        lines += [f"{guide.title}:", *_columns(guide.rows(), width), ""]
    options = list_options(parser)
    by_name = {name.removeprefix("--"): option for option in options for name in option.option_strings}
    shown = [by_name[name] for name in guide.options] if guide.options else options
    if shown:
        rows = tuple((invocation(text), BOUNDS.sub("", help_text(text))) for text in shown)
        lines += ["options:", *_columns(rows, width), ""]
    lines += ["examples:", *(f"  {example}" for example in guide.examples)]
    if len(shown) < len(options):
        lines += ["", f"all {len(options)} options: {parser.prog} --help-all"]
    return "\n".join(lines) + "\n"


def whole(parser: argparse.ArgumentParser, guide: Help) -> str:
    """Every option of a command, in groups."""
    lines = [usage(parser, guide), "", parser.description or "", ""]
    if guide.rows is not None:
        lines += [f"{guide.title}:", *_columns(guide.rows(), MAX_COLUMNS), ""]
    for title, note, actions in list_groups(parser):
        lines += [f"{title}:" if not note else f"{title} ({note}):"]
        lines += _columns(tuple((invocation(action), help_text(action)) for action in actions), MAX_COLUMNS, wrap=True)
        lines += [""]
    return "\n".join([*lines, "examples:", *(f"  {example}" for example in guide.examples)]) + "\n"


def usage(parser: argparse.ArgumentParser, guide: Help) -> str:
    """The line of usage."""
    return " ".join(filter(None, [f"usage: {parser.prog}", guide.usage, "[options]" if list_options(parser) else ""]))


def list_groups(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, list[argparse.Action]]]:
    """The groups of options with their titles and notes, without empty ones."""
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.option_strings and not _is_help(action)]
        if actions:
            yield group.title or "options", group.description or "", actions


def list_options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """All options of a command, without those for help."""
    return [action for action in parser._actions if action.option_strings and not _is_help(action)]


def invocation(option: argparse.Action) -> str:
    """An option as it is typed: ``--bs VALUES``."""
    return " ".join([spelling(option), *([value_placeholder(option)] if option.nargs != 0 else [])])


def spelling(option: argparse.Action) -> str:
    """The option's name, with dashes between its words."""
    return next((name for name in option.option_strings if "_" not in name), option.option_strings[0])


def value_placeholder(option: argparse.Action) -> str:
    """The placeholder of an option's value."""
    if option.metavar is None:
        return "|".join(map(str, option.choices or ())) or option.dest.upper()
    return option.metavar if isinstance(option.metavar, str) else " ".join(option.metavar)


def help_text(option: argparse.Action) -> str:
    """What an option does, as plain text."""
    return (option.help or "").replace("%%", "%")


def _is_help(option: argparse.Action) -> bool:
    return option.dest in {"help", "help_all"}


def _columns(rows: Iterable[tuple[str, str]], width: int, *, wrap: bool = False) -> list[str]:
    """Rows of a name and a text: one line each, or as many as the text needs."""
    rows = list(rows)
    left = min(30, max((len(name) for name, _ in rows), default=0))
    room = width - left - 4
    lines = []
    for name, text in rows:
        parts = _wrap_text(text, room) if wrap else [brief(text, room - max(0, len(name) - left))]
        lines.append(f"  {name:{left}}  {parts[0]}".rstrip())
        lines += [" " * (left + 4) + part for part in parts[1:]]
    return lines


def _wrap_text(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def brief(text: str, width: int) -> str:
    """The text, or as many of its clauses as fit the width."""
    if len(text) <= width:
        return text
    cuts = (text.rfind(mark, 0, width + 1) for mark in ("; ", " (", ": ", ", ", " "))
    return text[: next((cut for cut in cuts if cut > 0), width)]
