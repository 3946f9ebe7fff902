"""A small HTTP server that only reads: few at once, each with a deadline, for addresses that it is known by."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

MAX_AT_ONCE = 16
"""Requests that are answered at one time; more are turned away in one line."""
MAX_SILENT = 64
"""Connections whose request has not arrived; with more, the one that has been silent for longest is cut."""
READ_S, REQUEST_S = 5.0, 10.0
"""How long one read of a request may take, and all of it; an answer has as long as it is read."""
MAX_FIELDS = 8
"""Fields of a query."""
HTML = "text/html; charset=utf-8"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
NOTHING_LOADED = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A page with its status and headers."""

    body: str
    policy: str = NOTHING_LOADED
    """The Content-Security-Policy of its header."""
    kind: str = HTML
    status: HTTPStatus = HTTPStatus.OK
    tag: str = ""
    """What identifies its content (RFC 9110, 8.8.3): who has it already is answered 304; empty for none."""


Application = Callable[[str, dict[str, str]], HttpResponse]
"""Answers a path with its query."""


class PageServer(ThreadingHTTPServer):
    """Serves an application on one address until it is shut down."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, host: str, port: int, application: Application) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.application = application
        self.places = threading.BoundedSemaphore(MAX_AT_ONCE)
        self._silent: dict[int, socket.socket] = {}
        self._listed = threading.Lock()
        super().__init__((host, port), _Handler)
        self.host, self.port = host, int(self.server_address[1])

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/"

    def knows(self, host: str) -> bool:
        """Whether a request's ``Host`` is an address of this server, and not a name that was rebound to it."""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        known = {"127.0.0.1", "localhost", "[::1]", self.host, f"[{self.host}]"}
        return self.host in {"0.0.0.0", "::"} or name.lower() in known

    def process_request(self, request: Any, client_address: Any) -> None:
        """Read and answer in a separate thread; a silent client keeps no one out."""
        with self._listed:
            self._silent[id(request)] = request
            longest = next(iter(self._silent)) if len(self._silent) > MAX_SILENT else None
            cut = None if longest is None else self._silent.pop(longest)
        if cut is not None:
            with contextlib.suppress(OSError):
                cut.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.has_arrived(request)

    def has_arrived(self, request: Any) -> None:
        """A request has arrived, or its client is gone."""
        with self._listed:
            self._silent.pop(id(request), None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the midst of an answer is no error."""


class _Handler(BaseHTTPRequestHandler):
    server_version, sys_version = "hwdyno", ""
    timeout = READ_S
    server: PageServer

    def handle(self) -> None:
        """Read and answer one request; a client that trickles is cut off."""
        cut = threading.Timer(REQUEST_S, self._cut)
        cut.daemon = True
        cut.start()
        self._deadline = cut
        try:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.handle_one_request()
        finally:
            cut.cancel()

    def _cut(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        """Answer with a page."""
        self._deadline.cancel()
        self.server.has_arrived(self.connection)
        if not self.server.places.acquire(blocking=False):
            busy = _plain(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are being made; try again")
            self._send(busy)
            return
        try:
            answer = self._answer()
        finally:
            self.server.places.release()
        self._send(answer)

    def do_HEAD(self) -> None:
        """Answer with a page's header."""
        self.do_GET()

    def _answer(self) -> HttpResponse:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not self.server.knows(hosts[0].strip()):
            return _plain(HTTPStatus.MISDIRECTED_REQUEST, f"this server is {self.server.url}")
        try:
            parts = urlsplit(self.path)
            fields = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="replace")
        except ValueError:
            return _plain(HTTPStatus.BAD_REQUEST, "the address is malformed")
        try:
            return self.server.application(parts.path, dict(fields))
        except Exception as error:  # A stored document that no page can be made of is reported; the server goes on.
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR, f"this page cannot be made: {type(error).__name__}")

    def _send(self, answer: HttpResponse) -> None:
        is_known = bool(answer.tag) and self.headers.get("If-None-Match") == f'"{answer.tag}"'
        body = b"" if is_known else answer.body.encode("utf-8", "replace")
        self.send_response(HTTPStatus.NOT_MODIFIED if is_known else answer.status)
        if answer.tag:
            self.send_header("ETag", f'"{answer.tag}"')
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", answer.policy)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.connection.settimeout(REQUEST_S)
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a malformed request in one plain line."""
        with contextlib.suppress(OSError, ValueError):
            self._send(_plain(HTTPStatus(code), HTTPStatus(code).phrase))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: what a client sends is not shown on the terminal."""


def _plain(status: HTTPStatus, says: str) -> HttpResponse:
    return HttpResponse(f"{says}\n", kind="text/plain; charset=utf-8", status=status)
