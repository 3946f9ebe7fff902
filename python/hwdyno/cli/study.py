"""``hwdyno study``: reproduce a published study on this machine."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from hwdyno import scenarios, studies
from hwdyno.cli import common
from hwdyno.cli.help import Help, Rows
from hwdyno.cli.main import OK

if TYPE_CHECKING:
    from hwdyno.hosts import Host
    from hwdyno.scenarios import Scenario

COMMAND = "study"


def _studies() -> Rows:
    return tuple((one.name, one.title) for one in studies.all())


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
        common.add_scenario(parser, kind)
    common.add_options(parser, many_paths=True)


def planned(args: argparse.Namespace, host: Host) -> Scenario:
    """The study that the options name."""
    from hwdyno.scenarios import study

    return study.KIND.make(common.request_of(args, "hwdyno study", study=studies.find(args.name).name), host)


def run(args: argparse.Namespace) -> int:
    """List the studies, print the manifests of one, or perform it."""
    from hwdyno.scenarios import storage_classes

    if args.name is None:
        width = max(len(one.name) for one in studies.all())
        for one in studies.all():
            sys.stdout.write(f"{one.name:{width}}  {one.title}: {one.asks}\n")
        return OK
    if args.manifests:
        name = studies.find(args.name).name
        sys.stdout.write(storage_classes.manifests_of(name, vars(args), args.profile))
        return OK
    host = common.this_machine()
    return common.perform(planned(args, host), args, host)
