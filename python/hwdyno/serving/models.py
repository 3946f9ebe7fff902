"""The models that a server lists, asked once before the load."""

from __future__ import annotations

import contextlib
import json
import socket
import time

from hwdyno.serving.server import Server
from hwdyno.serving.wire import Exchange, WireError, body_of

PATH = "/v1/models"
MOST_S = 5.0
"""A server that does not list its models by then may still serve one."""
_LONGEST = 200


def first_model(server: Server) -> str:
    """The name of the first model of a server's list; empty where it has none."""
    try:
        listed = json.loads(_got(server))["data"][0]["id"]
    except (OSError, WireError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    return listed if isinstance(listed, str) and 0 < len(listed) <= _LONGEST and listed.isprintable() else ""


def _got(server: Server) -> bytes:
    """The body of the list's response."""
    deadline = time.monotonic() + MOST_S
    exchange = Exchange()
    with contextlib.closing(socket.socket(server.family, socket.SOCK_STREAM)) as plain:
        plain.settimeout(MOST_S)
        plain.connect(server.address)
        sock = plain if server.tls is None else server.tls.wrap_socket(plain, server_hostname=server.host)
        with contextlib.closing(sock):
            sock.sendall(server.question(PATH))
            while time.monotonic() < deadline and (data := sock.recv(1 << 16)):
                if exchange.add(data, 0):
                    break
    return body_of(exchange) if exchange.head is not None and exchange.head.status == 200 else b""
