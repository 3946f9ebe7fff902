"""``hwdyno report``: shows a Run again, or writes its page, pictures and tables."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hwdyno.cli.help import Help
from hwdyno.cli.options import add_limits, add_map, add_names, add_store, named_by
from hwdyno.model.words import UserError

DEGRADED = 3
LATEST = "-"

HELP = Help(
    usage="[RUN]",
    examples=("hwdyno report", "hwdyno report --verbose", "hwdyno report last --html report.html"),
)


def add(parser: argparse.ArgumentParser) -> None:
    """The options of ``hwdyno report``."""
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        default=LATEST,
        help="a run's id, a file, a report or its folder, or - for the latest",
    )
    from hwdyno.report.texts import all_texts

    parser.add_argument("--html", metavar="FILE", type=Path, help="write the page: one self-contained file")
    parser.add_argument(
        "--full-data", action="store_true", help="keep the whole run in the page, however large it gets"
    )
    for kind in ("png", "svg", "pdf"):
        parser.add_argument(f"--{kind}", metavar="DIR", type=Path, help=f"write every chart as {kind.upper()} into DIR")
    parser.add_argument("--verbose", action="store_true", help="print every table and finding below the scorecard")
    parser.add_argument("--overwrite", action="store_true", help="replace files that hwdyno did not write")
    tables = parser.add_mutually_exclusive_group()
    for name, text in all_texts().items():
        option = f"--{name.replace('_', '-')}"
        tables.add_argument(option, action="store_const", const=text, dest="text", help=f"print {text.shows}")
    add_names(parser)
    add_limits(parser)
    add_map(parser)
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Make the files that the options name, or else print the terminal's report."""
    from hwdyno.report.overview import make_overview
    from hwdyno.report.sources import ceilings_given, load_run, parse_maps

    if args.full_data and args.html is None:
        raise UserError("--full-data is for the page: add --html FILE")
    given = ceilings_given(args.ceiling, args.link, args.device)
    document = load_run("last" if args.run == LATEST else args.run, args.store, given, parse_maps(args.map))
    if not args.with_names:
        from hwdyno.report.redaction import without_names

        document = without_names(document)
    made: list[Path] = []
    if args.html is not None:
        from hwdyno.report import page

        page.write(document, args.html, overwrite=args.overwrite, full_data=args.full_data)
        made.append(args.html)
    for kind in ("png", "svg", "pdf"):
        directory = getattr(args, kind)
        if directory is not None:
            from hwdyno.report import chart_files

            made += chart_files.write(document, directory, kind, overwrite=args.overwrite)
    if args.text is not None:
        sys.stdout.write(args.text.of(document))
        for path in made:
            sys.stderr.write(f"report  {path}\n")
    else:
        from hwdyno.report.terminal import print_run

        # A file that is in no store is found by its name alone.
        named = (args.run,) if Path(args.run).exists() else named_by(document, args.store)
        print_run(document, made, verbose=args.verbose, named=named)
    return 0 if make_overview(document).status in {"valid", "unverified"} else DEGRADED
