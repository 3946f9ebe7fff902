"""What a server answers beside the load: the models that it lists."""

from __future__ import annotations

import contextlib
import json
import socket
import time

from hwdyno.measure.serving.server_address import ServerAddress
from hwdyno.measure.serving.wire import Exchange, WireError, join_body
from hwdyno.system import signals

PATH = "/v1/models"
MAX_S = 5.0
"""A server that does not list its models by then may still serve one."""
LOOK_S = 0.1
"""How often the wait for it looks whether a signal asks for an early end."""
MAX_BYTES = 4 << 20
_LONGEST = 200


def first_model(server: ServerAddress) -> str:
    """The name of the first model of a server's list; empty where it has none."""
    try:
        listed = json.loads(fetch_body(server, PATH))["data"][0]["id"]
    except (OSError, WireError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    return listed if isinstance(listed, str) and 0 < len(listed) <= _LONGEST and listed.isprintable() else ""


def fetch_body(server: ServerAddress, path: str, *, max_s: float = MAX_S, max_bytes: int = MAX_BYTES) -> bytes:
    """The body of what a server has at a path; empty where it has nothing, or too much of it.

    Raises ``OSError`` and ``WireError``; ``TimeoutError`` too where a signal asks for an early end.
    """
    deadline = time.monotonic() + max_s
    exchange = Exchange()
    with contextlib.closing(socket.socket(server.family, socket.SOCK_STREAM)) as plain:
        plain.settimeout(max_s)
        plain.connect(server.address)
        sock = plain if server.tls is None else server.tls.wrap_socket(plain, server_hostname=server.host)
        with contextlib.closing(sock):
            sock.sendall(server.question(path))
            sock.settimeout(LOOK_S)
            is_over = False
            while not is_over:
                if time.monotonic() > deadline or signals.is_end_requested():
                    raise TimeoutError
                with contextlib.suppress(TimeoutError):
                    data = sock.recv(1 << 16)
                    is_over = not data or exchange.add(data, [len(data)], [0]) or exchange.size > max_bytes
    is_whole = exchange.head is not None and exchange.head.status == 200 and exchange.size <= max_bytes
    return join_body(exchange) if is_whole else b""
