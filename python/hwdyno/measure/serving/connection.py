"""A connection with the request on it, and the word for what ended it."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass

from hwdyno.measure.serving.client_result import Sent


@dataclass(slots=True)
class Connection:
    """One connection with the request on it."""

    sock: socket.socket
    sent: Sent | None
    out: memoryview
    deadline_ns: int
    is_new: bool = True
    """Whether no answer came over it yet."""
    is_connecting: bool = True
    interest: int = 0
    is_followed: bool = False
    """Whether the engine receives its answer."""


def name_failure(error: OSError) -> str:
    """A failure in a word or two."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "certificate refused"
    if isinstance(error, ssl.SSLError):
        return "no TLS"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionError):
        return "reset"
    from os import strerror

    return (strerror(error.errno) if error.errno else "cannot connect").lower()
