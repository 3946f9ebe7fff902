"""``hwdyno study``: reproduce a published study on this machine."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno import studies
from hwdyno.cli.axes import add_scenario
from hwdyno.cli.help import Help, Rows
from hwdyno.cli.options import add_options, make_request
from hwdyno.cli.perform import perform
from hwdyno.cli.statuses import OK
from hwdyno.cli.training import write_summaries
from hwdyno.measure import scenarios
from hwdyno.model.words import Run, UserError

if TYPE_CHECKING:
    from hwdyno.measure.scenarios import Request

COMMAND = "study"


def _studies() -> Rows:
    return tuple((study.name, study.title) for study in studies.all())


HELP = Help(
    usage="[STUDY]",
    title="studies (default: list them)",
    rows=_studies,
    options=("path", "only", "server", "profile", "peers", "budget", "link", "device", "dry-run", "out"),
    examples=(
        "hwdyno study",
        "hwdyno study sata-ssd-queue --path .",
        "hwdyno study cloud-vm-suite --only memory --peers",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno study``."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="name of the study (default: list them)")
    for kind in scenarios.of_command(COMMAND):
        add_scenario(parser, kind)
    output = parser.add_argument_group("kubernetes-ai-storage, afterwards")
    output.add_argument("--summary", type=Path, metavar="DIR", help="write DLIO's summary.json of each point to DIR")
    output.add_argument(
        "--merge",
        action="append",
        default=[],
        metavar="RUN",
        help="one table of several stored Runs or documents; measures nothing",
    )
    add_options(parser, many_paths=True)


def request(args: argparse.Namespace) -> Request:
    """The study that the options name."""
    return make_request(args, COMMAND, scenarios.of_command(COMMAND), study=studies.find(args.name).name)


def run(args: argparse.Namespace) -> int:
    """List the studies, print the manifests of one, or perform it."""
    from hwdyno.measure.scenarios import storage_classes

    if args.name is None:
        width = max(len(study.name) for study in studies.all())
        for study in studies.all():
            sys.stdout.write(f"{study.name:{width}}  {study.title}: {study.asks}\n")
        return OK
    if args.manifests:
        name = studies.find(args.name).name
        sys.stdout.write(storage_classes.make_manifests(name, vars(args), args.profile))
        return OK
    if args.merge:
        from hwdyno.report.study import text

        sys.stdout.write(text(merge_runs(args.merge, args.store, studies.find(args.name).name)))
        return OK
    return perform(request(args), args, also=write_summaries if args.summary else None)


def merge_runs(names: list[str], where: str | None, study: str) -> Run:
    """The experiments of several Runs of a study as one Run. Raises ``UserError`` for a Run of another."""
    runs = [_load_run(name, where) for name in names]
    for name, run in zip(names, runs, strict=True):
        if run.study != study:
            raise UserError(f"{name} is a Run of {run.study or 'no study'}, not of {study}; leave it out")
    return replace(runs[0], experiments=tuple(experiment for run in runs for experiment in run.experiments))


def _load_run(name: str, where: str | None) -> Run:
    from hwdyno.system.store import open_store

    return open_store(where).load(name)
