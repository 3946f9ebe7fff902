"""``hwdyno report``: shows a Run again, or writes its page, pictures and tables."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DEGRADED = 3
LATEST = "-"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of ``hwdyno report``."""
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        default=LATEST,
        help="a run's id, the path of a run's file, or - for the latest",
    )
    from hwdyno.report.texts import all_texts

    parser.add_argument("--html", metavar="FILE", type=Path, help="write the page: one file that needs nothing else")
    for kind in ("png", "svg", "pdf"):
        parser.add_argument(f"--{kind}", metavar="DIR", type=Path, help=f"write every chart as {kind.upper()} into DIR")
    tables = parser.add_mutually_exclusive_group()
    for name, text in all_texts().items():
        option = f"--{name.replace('_', '-')}"
        tables.add_argument(option, action="store_const", const=text, dest="text", help=f"print {text.shows}")
    parser.add_argument(
        "--store", metavar="DIR", type=Path, help="where runs are kept (default: $HWDYNO_HOME, or your data directory)"
    )


def run(args: argparse.Namespace) -> int:
    """Make the files that the options name, or else print the terminal's report."""
    from hwdyno.cli.runs import loaded
    from hwdyno.report.overview import overview_of

    document = loaded("last" if args.run == LATEST else args.run, args.store)
    made: list[Path] = []
    if args.html is not None:
        from hwdyno.report.page import html

        args.html.write_text(html(document), encoding="utf-8")
        made.append(args.html)
    for kind in ("png", "svg", "pdf"):
        directory = getattr(args, kind)
        if directory is not None:
            from hwdyno.report import images

            made += images.write(document, directory, kind)
    if args.text is not None:
        sys.stdout.write(args.text.of(document))
        for path in made:
            sys.stderr.write(f"report  {path}\n")
    else:
        from hwdyno.report.terminal import print_run

        print_run(document, made)
    return 0 if overview_of(document).status == "valid" else DEGRADED
