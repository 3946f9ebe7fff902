"""``hwdyno network``: any sweep of the path to a server, loopback's by default; ``network server`` is that server."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from hwdyno import session
from hwdyno.cli.axes import add_resource_axes
from hwdyno.cli.help import Help, Rows, list_experiments
from hwdyno.cli.options import add_options, make_request
from hwdyno.cli.perform import choose_host, measure_with_progress, perform, status
from hwdyno.cli.statuses import INTERRUPTED, OK
from hwdyno.measure.scenarios import make_scenario, two_nodes
from hwdyno.model.words import UserError
from hwdyno.system import loopback

if TYPE_CHECKING:
    from hwdyno.measure.scenarios import Request


def _topics() -> Rows:
    return (*list_experiments("network"), ("server", "Serve hwdyno and iperf3 clients"))


HELP = Help(
    usage="[EXPERIMENT ...]",
    title="experiments (default: the common ones)",
    rows=_topics,
    options=("server", "protocol", "direction", "streams", "block", "message", "bind", "runtime", "profile", "peers"),
    examples=(
        "hwdyno network",
        "hwdyno network server --bind 127.0.0.1 --once",
        "hwdyno network --server 127.0.0.1 --protocol tcp --streams 1,2,4",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno network``."""
    add_resource_axes(parser, "network")
    serving = parser.add_argument_group("hwdyno network server")
    serving.add_argument("--bind", metavar="ADDR", help="address to listen on [127.0.0.1]; 0.0.0.0 for all")
    serving.add_argument("--once", action="store_true", help="exit after one test")
    serving.add_argument("--parallel-clients", action="store_true", help="serve several clients at once")
    add_options(parser)
    parser.add_argument(
        "--output-format",
        choices=("iperf3-json",),
        help="print the last point (a server: each test) as iperf3 -J does",
    )


def request(args: argparse.Namespace) -> Request:
    """What the options request, where they start no server."""
    return make_request(args, "network")


def run(args: argparse.Namespace) -> int:
    """Serve, or measure what the options request."""
    if args.question == ["server"]:
        return _serve(args)
    if args.output_format is None or args.dry_run:
        return perform(request(args), args)
    from hwdyno.formats.iperf3 import write

    host = choose_host(args)
    run = measure_with_progress(make_scenario(request(args), host), args, host)
    sys.stdout.write(write(run) + "\n")
    return status(run, args.fail_under)


def _serve(args: argparse.Namespace) -> int:
    bind, port = args.bind or loopback.address(), _port(args.axis_port or "5201")
    parameters = {"bind": bind, "port": port, "once": args.once, "parallel_clients": args.parallel_clients}
    if args.output_format:
        parameters["log"] = "/dev/stdout"
    if args.axis_runtime:
        from hwdyno.model.units import parse_duration

        parameters["runtime"] = parse_duration(args.axis_runtime)
    two_nodes.check_listens(bind, port)
    sys.stderr.write(f"serving iperf3 and hwdyno clients on {bind} port {port}; stop with Ctrl-C\n")
    sys.stderr.flush()
    reading = session.take_reading("network_server", parameters)
    served = reading["details"]
    sys.stderr.write(
        f"served {served['tests']} tests; {served['tests_failed']} failed; {served['clients_refused']} refused while "
        "busy\n"
    )
    return INTERRUPTED if reading.get("interrupted") else OK


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 16):
        raise UserError(f"--port {text}: name one port from 1 to 65535")
    return int(text)
