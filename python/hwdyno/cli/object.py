"""``hwdyno object``: an object store (S3) by operation, object size and requests in flight, or a null server for it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from hwdyno import session
from hwdyno.cli.axes import add_scenario, add_scenario_axes
from hwdyno.cli.help import Help
from hwdyno.cli.options import add_options, make_request
from hwdyno.cli.perform import perform
from hwdyno.cli.statuses import INTERRUPTED, OK
from hwdyno.measure import scenarios
from hwdyno.model.units import parse_size, plural
from hwdyno.model.words import UserError
from hwdyno.system import loopback

if TYPE_CHECKING:
    from hwdyno.measure.scenarios import Request

COMMAND = "object"

HELP = Help(
    usage="[server]",
    title="tests (default: reads and writes of 8 MiB, reads of 4 KiB, head, list and delete)",
    rows=lambda: (
        ("--operation NAMES", "One kind: get, range, put, multipart, head, list, delete"),
        ("--mix SHARES", "Several kinds at once: get=45,head=30,put=15,delete=10"),
        ("--rate RATES", "Latency at offered rates (open loop)"),
        ("server", "Serve a store in memory: what a client costs without one"),
    ),
    options=(
        *(
            "endpoint",
            "bucket",
            "prefix",
            "create-bucket",
            "ca-file",
            "price",
            "operation",
            "object_size",
            "concurrency",
        ),
        "checksum",
    ),
    examples=(
        "hwdyno object --endpoint http://127.0.0.1:9000 --bucket bench --create-bucket",
        "hwdyno object --endpoint http://127.0.0.1:9000 --bucket bench --operation get --concurrency 1..64",
        "hwdyno object server --port 9000",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno object``: those of its scenario, and the axes of its kernel."""
    parser.add_argument("question", nargs="*", metavar="server", help="serve a store in memory instead of measuring")
    kinds = scenarios.of_command(COMMAND)
    for kind in kinds:
        add_scenario(parser, kind)
    add_scenario_axes(parser, kinds)
    serving = parser.add_argument_group("hwdyno object server")
    serving.add_argument("--bind", metavar="ADDR", help="address to listen on [127.0.0.1]; 0.0.0.0 for all")
    serving.add_argument("--port", type=int, default=9000, metavar="N", help="port to listen on [9000]")
    add_options(parser)


def request(args: argparse.Namespace) -> Request:
    """What the options request, where they start no server."""
    if args.question:
        raise UserError(f"hwdyno object takes no test called '{args.question[0]}'; use --operation, or server")
    return make_request(args, COMMAND, scenarios.of_command(COMMAND), experiments=())


def run(args: argparse.Namespace) -> int:
    """Serve, or measure what the options request."""
    if args.question != ["server"]:
        return perform(request(args), args)
    bind, port = args.bind or loopback.address(), args.port
    if not 0 < port < 1 << 16:
        raise UserError(f"--port {port}: name one port from 1 to 65535")
    parameters = {"bind": bind, "port": port}
    if args.axis_object_size:
        parameters["every_key"] = parse_size(args.axis_object_size)
    sys.stderr.write(f"serving a store in memory at http://{bind}:{port}; stop with Ctrl-C\n")
    sys.stderr.flush()
    reading = session.take_reading("object_server", parameters)
    sys.stderr.write(f"answered {plural(int(reading['streams'][0]['operations']), 'request')}\n")
    return INTERRUPTED if reading.get("interrupted") else OK
