"""The server that is driven: its address from a URL, loopback unless other hosts are allowed, and its key."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from hwdyno.model.words import UserError

KEY = "HWDYNO_API_KEY"
"""The environment variable with the server's key, sent as ``Authorization: Bearer …`` and kept nowhere."""
PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where requests go."""

    family: int
    address: tuple[Any, ...]
    host: str
    """The host as the URL names it, for ``Host`` and for TLS."""
    port: int
    path: str
    """The path before ``/v1``; mostly empty."""
    tls: ssl.SSLContext | None

    def request(self, endpoint: str, body: bytes) -> bytes:
        """A whole HTTP request that posts a body."""
        return self._head("POST", self.path + PATHS[endpoint], len(body)) + body

    def question(self, path: str) -> bytes:
        """A whole HTTP request that gets a path below the server's, such as ``/v1/models``."""
        return self._head("GET", self.path + path, 0)

    def _head(self, verb: str, path: str, length: int) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        lines = [
            f"{verb} {path} HTTP/1.1",
            f"Host: {host}:{self.port}",
            "Accept: text/event-stream, application/json",
            "Content-Type: application/json",
            f"Content-Length: {length}",
        ]
        if key := _key():
            lines.append(f"Authorization: Bearer {key}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _key() -> str:
    key = os.environ.get(KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise UserError(f"{KEY} has characters that no HTTP header takes; set it to the server's key alone")
    return key


def resolve_server(url: str, *, allow_remote: bool) -> ServerAddress:
    """The server of a URL such as ``http://127.0.0.1:8000``.

    Raises ``UserError`` for what is no such URL, for a name that is unknown, and for another host that was not allowed.
    """
    parts, port = _parts(url)
    host = parts.hostname or ""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UserError(
            f"--server {url}: no host is called '{host}'; name one, such as http://127.0.0.1:8000"
        ) from None
    if not allow_remote and not all(_is_loopback(str(answer[4][0])) for answer in found):
        raise UserError(f"--server {url} is another host; add --allow-remote to load it, with its owner's consent")
    family, _, _, _, address = found[0]
    path = parts.path.rstrip("/").removesuffix("/v1")
    context = ssl.create_default_context() if parts.scheme == "https" else None
    return ServerAddress(family, address, host, port, path, context)


def _parts(url: str) -> tuple[SplitResult, int]:
    wrong = UserError(f"--server {url}: use a URL with a host and a port, such as http://127.0.0.1:8000")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong from None
    plain = url.isascii() and url.isprintable() and " " not in url and not (parts.query or parts.fragment)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain:
        raise wrong
    if parts.username or parts.password:
        raise UserError(f"--server takes no name or password within the URL; put the server's key into {KEY}")
    return parts, port or (443 if parts.scheme == "https" else 80)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
