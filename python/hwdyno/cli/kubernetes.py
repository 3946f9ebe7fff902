"""``hwdyno kubernetes``: manifests of a measurement in pods, and the whole way from them to the stored Runs."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from hwdyno import __version__
from hwdyno.cli.help import Help
from hwdyno.cli.options import add_store, named_by
from hwdyno.cli.parser import Parser
from hwdyno.cli.perform import keep, status
from hwdyno.cli.statuses import OK
from hwdyno.model.units import parse_size
from hwdyno.model.words import UserError

if TYPE_CHECKING:
    from hwdyno.measure.kubernetes.manifest import Form, Wanted
    from hwdyno.measure.kubernetes.volumes import Document

HELP = Help(
    usage="manifest|run|clean [-- COMMAND …]",
    title="what it does",
    rows=lambda: (
        ("manifest", "Print the documents of a Job, an Indexed Job or an MPIJob"),
        ("run", "Apply them by kubectl, follow, store the Runs, remove everything"),
        ("clean", "Remove what a run that was killed has left"),
    ),
    options=("storage", "clients", "access", "mode", "spread", "on", "cpu", "memory", "image", "name"),
    examples=(
        "hwdyno kubernetes manifest --storage class:ceph -- storage iodepth",
        "hwdyno kubernetes run --storage class:cephfs --access RWX --clients 4 --spread -- storage scaling",
        "hwdyno kubernetes clean --name hwdyno",
    ),
)
FORMS: tuple[Form, ...] = ("job", "indexed", "mpi")
MAX_CLIENTS = 100_000


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno kubernetes``."""
    from hwdyno.measure.kubernetes.manifest import IMAGE

    parser.add_argument("what", choices=("manifest", "run", "clean"), metavar="WHAT", help="manifest, run or clean")
    parser.add_argument(
        "--storage",
        default="emptyDir",
        metavar="STORAGE",
        help="claim:NAME, class:NAME, ephemeral:CLASS, csi:DRIVER;KEY=VALUE or emptyDir; for a study several, "
        "NAME=class:A,NAME=emptyDir [emptyDir]",
    )
    parser.add_argument("--volume-size", metavar="SIZE", help="size of volumes that are made (default: by the data)")
    parser.add_argument("--access", choices=("RWO", "RWX", "RWOP"), default="RWO", help="access mode of claims [RWO]")
    parser.add_argument(
        "--mode", choices=("filesystem", "block"), default="filesystem", help="filesystem or raw device [filesystem]"
    )
    parser.add_argument("--form", choices=FORMS, metavar="FORM", help="job, indexed or mpi (default: by --clients)")
    parser.add_argument("--clients", type=int, default=1, metavar="N", help="pods that measure together, as ranks [1]")
    parser.add_argument("--spread", action="store_true", help="each pod on a node of its own")
    parser.add_argument(
        "--on", action="append", default=[], metavar="LABEL=VALUE", help="nodes with this label, such as a host's name"
    )
    parser.add_argument("--cpu", default="4", metavar="N", help="processors of a pod, requested and at most [4]")
    parser.add_argument("--memory", default="8Gi", metavar="SIZE", help="memory of a pod, requested and at most [8Gi]")
    parser.add_argument("--image", default=IMAGE, metavar="IMAGE", help=f"container image with hwdyno [{IMAGE}]")
    parser.add_argument("--name", default="hwdyno", metavar="NAME", help="name of all that is made [hwdyno]")
    parser.add_argument("--time", metavar="TIME", help="end the pods after this time")
    parser.add_argument("--namespace", metavar="NAME", help="namespace (default: kubectl's)")
    parser.add_argument("--keep", action="store_true", help="run: leave everything in the cluster")
    add_store(parser)
    if isinstance(parser, Parser):
        parser.takes_pasted = True


def run(args: argparse.Namespace) -> int:
    """Print the documents, perform them, or remove what they left."""
    if args.what == "clean":
        return _clean(args)
    documents = _documents(args)
    if args.what == "manifest":
        sys.stdout.write(format_documents(documents, args.name))
        return OK
    return _run_documents(documents, args)


def format_documents(documents: list[Document], name: str) -> str:
    """The documents as YAML, with the way to their Run."""
    from hwdyno.measure.kubernetes.volumes import as_yaml

    kind = "mpijob" if documents[-1]["kind"] == "MPIJob" else "job"
    pod = f"job/{name}-launcher" if kind == "mpijob" else f"job/{name}"
    return as_yaml(
        documents,
        f"Made by hwdyno {__version__}: kubectl create -f THIS; `hwdyno kubernetes run` does all of it.",
        f"The Run is a line of the log: kubectl logs {pod} | grep '^{{' > run.json; hwdyno import run.json",
    )


def _documents(args: argparse.Namespace) -> list[Document]:
    from hwdyno.measure.kubernetes.manifest import make_documents

    return make_documents(read_wanted(args))


def read_wanted(args: argparse.Namespace) -> Wanted:
    """What the options ask for; raises ``UserError``."""
    from hwdyno.cli.main import commands
    from hwdyno.measure.kubernetes.manifest import Wanted
    from hwdyno.measure.kubernetes.volumes import ACCESS, parse_volumes
    from hwdyno.model.units import parse_duration

    if not args.pasted:
        raise UserError("name a command after --, such as: hwdyno kubernetes manifest --storage class:ceph -- storage")
    if args.pasted[0] not in commands():
        raise UserError(f"'{args.pasted[0]}' is no command of hwdyno; write it without hwdyno: -- storage iodepth")
    if not 1 <= args.clients <= MAX_CLIENTS:
        raise UserError(f"--clients {args.clients} must be from 1 to {MAX_CLIENTS}")
    wrong = next((text for text in args.on if "=" not in text), None)
    if wrong is not None:
        raise UserError(f"--on '{wrong}' must be LABEL=VALUE, such as kubernetes.io/hostname=node7")
    return Wanted(
        words=tuple(args.pasted),
        name=args.name,
        form=args.form or ("job" if args.clients == 1 else "indexed"),
        clients=args.clients,
        volumes=parse_volumes(args.storage),
        size_bytes=parse_size(args.volume_size) if args.volume_size else None,
        access=ACCESS[args.access],
        block=args.mode == "block",
        image=args.image,
        cpu=args.cpu,
        memory=args.memory,
        spread=args.spread,
        on=dict(text.partition("=")[::2] for text in args.on),
        limit_s=max(1, round(parse_duration(args.time))) if args.time else None,
    )


def _says(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _run_documents(documents: list[Document], args: argparse.Namespace) -> int:
    from hwdyno.measure.kubernetes.follow import Cluster, run_measurement
    from hwdyno.system.store import open_store

    found = run_measurement(Cluster(args.namespace), documents, _says, keep=args.keep)
    for finished_run in found.runs:
        keep(finished_run, open_store(args.store))
        sys.stdout.write(f"run {finished_run.id}: hwdyno report {' '.join(named_by(finished_run, args.store))}\n")
    if found.failed or not found.runs:
        why = found.failed or "no pod has printed a Run"
        more = f"; its log ends: {' | '.join(found.last_lines)}" if found.last_lines else ""
        raise UserError(f"the measurement failed: {why}{more}")
    return max((status(run, None) for run in found.runs), default=OK)


def _clean(args: argparse.Namespace) -> int:
    from hwdyno.measure.kubernetes.follow import Cluster, documents_named, list_claims

    cluster = Cluster(args.namespace)
    cluster.delete([*documents_named(args.name), *list_claims(cluster, args.name)])
    sys.stdout.write(f"all that is called {args.name} is removed\n")
    return OK
