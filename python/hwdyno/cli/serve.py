"""``hwdyno serve``: show runs, also while they are measured, trends, comparisons and the fleet in a browser."""

from __future__ import annotations

import argparse
import sys
import threading

from hwdyno.cli.help import Help
from hwdyno.cli.options import add_names, add_store
from hwdyno.model.words import UserError
from hwdyno.system import loopback, signals

PORT = 8451

HELP = Help(
    examples=(
        "hwdyno serve",
        "hwdyno serve --metrics --port 9000",
        "hwdyno serve --store postgresql://bench@db.example/hwdyno",
    )
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno serve``."""
    parser.add_argument("--port", type=_port, default=PORT, metavar="PORT", help=f"0 for any free one (default {PORT})")
    parser.add_argument(
        "--listen", metavar="ADDRESS", help=f"address to listen on: others may read (default {loopback.IPV4})"
    )
    parser.add_argument("--metrics", action="store_true", help="also answer /metrics in OpenMetrics, for Prometheus")
    add_names(parser)
    add_store(parser)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"'{text}' must be a port from 0 to 65535")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from hwdyno.report.serve.http_server import PageServer
    from hwdyno.report.serve.routes import Pages
    from hwdyno.system.store import open_store

    listen = args.listen or loopback.address()
    pages = Pages(open_store(args.store), with_names=args.with_names, has_metrics=args.metrics)
    try:
        server = PageServer(listen, args.port, pages.answer)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        remedy = "name an address of this machine by --listen" if loopback.is_foreign(error) else "name another --port"
        raise UserError(f"cannot listen on {listen} port {args.port}: {why.lower()}; {remedy}") from None
    sys.stderr.write(f"serving {server.url}; stop with Ctrl-C\n")
    if not loopback.is_one(listen):
        sys.stderr.write(f"whoever reaches {listen} can read these runs: there is no password\n")
    sys.stderr.flush()
    with signals.keeping(), signals.halting(lambda: threading.Thread(target=server.shutdown).start()):
        server.serve_forever(poll_interval=0.2)
    server.server_close()
    return 0
