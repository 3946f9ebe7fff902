"""The options that commands share, and the request that those of a measuring command make."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hwdyno.measure.plan import Limits
    from hwdyno.measure.scenarios import Kind, Request
    from hwdyno.model.words import Run

AXIS_PREFIX = "axis_"
"""Prefix of an axis option's name among the parsed arguments."""


def add_ceiling(parser: argparse._ActionsContainer) -> None:
    """The option ``--ceiling``, of all commands that judge results."""
    parser.add_argument(
        "--ceiling", action="append", default=[], metavar="TEXT", help='a limit that you know: "rated read 400 MB/s"'
    )


def add_link(parser: argparse._ActionsContainer) -> None:
    """The option ``--link``."""
    parser.add_argument(
        "--link",
        action="append",
        default=[],
        metavar="LINK",
        help="the link: 'PCIe 3 x4', 'SATA 3', 'USB 3.1 Gen 1', '10GbE'",
    )


def add_limits(parser: argparse._ActionsContainer) -> None:
    """The options that give ceilings: ``--ceiling``, ``--link`` and ``--device``."""
    add_ceiling(parser)
    add_link(parser)
    parser.add_argument(
        "--device", action="append", default=[], metavar="NAME", help="the device: its maker's figures and its link"
    )


def add_map(parser: argparse._ActionsContainer) -> None:
    """The option ``--map``, of all commands that read tables."""
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="COL=UNIT",
        help="what a column is: 'bw=MB/s', 'delay=lat us'; '-' leaves it out",
    )


def add_store(parser: argparse._ActionsContainer) -> None:
    """The option ``--store``, of all commands that read or keep Runs."""
    parser.add_argument(
        "--store", metavar="WHERE", help="the Runs: a folder or postgresql://… (default $HWDYNO_STORE, $HWDYNO_HOME)"
    )


def named_by(run: Run, where: str | None) -> tuple[str, ...]:
    """The words by which a command finds a stored Run again, in the store that ``--store`` names if it does."""
    if not where:
        return (run.id,)
    from hwdyno.system.urls import without_password

    return (run.id, "--store", without_password(where))


def add_names(parser: argparse._ActionsContainer) -> None:
    """The option ``--with-names``, of all commands that write what others will see."""
    parser.add_argument(
        "--with-names", action="store_true", help="also show host names, serial numbers and users' folders"
    )


def add_options(parser: argparse.ArgumentParser, *, many_paths: bool = False) -> None:
    """The options for how to measure and how to report; ``--path`` may be repeated, as text."""
    add_measurement(parser, many_paths=many_paths)
    add_dry_run(add_output(parser))


def add_measurement(parser: argparse.ArgumentParser, *, many_paths: bool = False) -> None:
    """The options for how to measure; ``--path`` may be repeated, as text."""
    how = parser.add_argument_group("measurement")
    how.add_argument("--profile", type=_parse_profile, metavar="NAME", help="quick, standard or full (default quick)")
    if many_paths:
        help_text = "storage to measure (default: here); repeat it to compare several"
        how.add_argument("--path", action="append", default=[], metavar="[NAME=]DIR", help=help_text)
    else:
        how.add_argument("--path", type=Path, metavar="DIR", help="directory or device to measure (default: here)")
    how.add_argument(
        "--peers", action="store_true", default=None, help="also run the reference tools (fio, STREAM, iperf3 …)"
    )
    how.add_argument("--seed", type=_seed, metavar="N", help="seed of the order of points and of random offsets")
    how.add_argument("--budget", metavar="TIME", help="finish within this time, e.g. 10m")
    add_limits(how)


def add_dry_run(output: argparse._ActionsContainer) -> None:
    """The option ``--dry-run``."""
    output.add_argument(
        "--dry-run", action="store_true", help="list the points with their time and bytes; measure nothing"
    )


def add_output(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The options for how to report and to keep a Run."""
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print the Run as JSON instead of the report")
    output.add_argument("--verbose", action="store_true", help="print every table and finding below the scorecard")
    output.add_argument("--out", type=_folder, metavar="DIR", help="folder of the report (default ./hwdyno-runs/ID)")
    output.add_argument("--overwrite", action="store_true", help="replace files that hwdyno did not write, but no link")
    add_store(output)
    add_names(output)
    output.add_argument("--no-page", action="store_true", help="write no HTML page")
    output.add_argument("--quiet", action="store_true", help="no progress on stderr")
    output.add_argument(
        "--fail-under",
        type=share,
        metavar="PERCENT",
        help="exit with 1 below this share of a ceiling",
    )
    return output


def given_axes(args: argparse.Namespace) -> dict[str, str]:
    """The axes given on the command line, as typed."""
    given = {
        name.removeprefix(AXIS_PREFIX): value
        for name, value in vars(args).items()
        if name.startswith(AXIS_PREFIX) and value is not None
    }
    return given | {"overwrite": "true"} if args.overwrite and "write_iolog" in given else given


def make_request(args: argparse.Namespace, name: str, kinds: Iterable[Kind] = (), **more: Any) -> Request:
    """The request of a command by its options and those of its scenarios; ``more`` has fields that no option sets."""
    from hwdyno.measure.scenarios import Request, parse_place
    from hwdyno.model.units import parse_duration

    if isinstance(args.path, list):
        places = tuple(parse_place(text) for text in args.path or ["."])
    else:
        path = args.path or Path()
        places = ((path.name, path.absolute()),)
    options = (option.name for kind in kinds for option in kind.options)
    settings: dict[str, Any] = {
        "name": name,
        "places": places,
        "command": command_line(f"hwdyno {name.partition(' ')[0]}", getattr(args, "typed", ())),
        "experiments": tuple(getattr(args, "question", ())),
        "profile": args.profile or "quick",
        "axes": given_axes(args),
        "load": getattr(args, "load", None),
        "peers": bool(args.peers),
        "seed": args.seed,
        "budget_s": parse_duration(args.budget) if args.budget else None,
        "limits": read_limits(args),
        "destroy": getattr(args, "destroy", ""),
        "serial": getattr(args, "serial", ""),
        "dry_run": args.dry_run,
        "options": {option: getattr(args, option) for option in options},
    }
    return Request(**{**settings, **more})


def read_limits(args: argparse.Namespace) -> Limits:
    """The limits that ``--ceiling``, ``--link`` and ``--device`` give."""
    from hwdyno.measure.plan import Limits

    return Limits(tuple(args.ceiling), tuple(args.link), tuple(args.device))


def _parse_profile(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("name a profile: quick, standard or full")
    return text


def _folder(text: str) -> Path:
    """A folder that can be written or created: the report must not fail after the measurement."""
    path = Path(text)
    try:
        there = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
        writable = os.access(there, os.W_OK)
    except OSError as error:  # Such as a name that is too long.
        raise argparse.ArgumentTypeError(f"{text[:60]}: {error.strerror}") from None
    if not there.is_dir():
        raise argparse.ArgumentTypeError(f"{there} is not a directory")
    if not writable:
        raise argparse.ArgumentTypeError(f"{there} is not writable")
    return path


def _seed(text: str) -> int:
    from hwdyno.measure.plan import MAX_SEED

    if not text.isdecimal() or int(text[:20]) > MAX_SEED:
        raise argparse.ArgumentTypeError(f"'{text[:30]}' must be a whole number from 0 to {MAX_SEED}")
    return int(text)


def share(text: str) -> float:
    """A percentage from 0 to 100 as a share of one, of a command line. Raises ``argparse.ArgumentTypeError``."""
    try:
        percent = float(text.rstrip("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise argparse.ArgumentTypeError(f"'{text}' must be a percentage from 0 to 100")
    return percent / 100


def command_line(command: str, words: Sequence[str]) -> str:
    """The command line, quoted for a shell, without a database's password."""
    from hwdyno.system.urls import without_password

    # A name that is not UTF-8 fits no document, so it is escaped.
    return os.fsencode(shlex.join([*command.split(), *map(without_password, words)])).decode(errors="backslashreplace")
