"""Finds this machine's loopback address, which is IPv6's where it has no IPv4."""

from __future__ import annotations

import contextlib
import errno
import functools
import ipaddress
import socket

IPV4, IPV6 = "127.0.0.1", "::1"


@functools.cache
def address() -> str:
    """``127.0.0.1``, or ``::1`` where only that one can be reached."""
    return next((place for place in (IPV4, IPV6) if _is_routed(place)), IPV4)


def in_url() -> str:
    """The address as the host of a URL: IPv6's is in brackets (RFC 3986, 3.2.2)."""
    return f"[{address()}]" if address() == IPV6 else address()


def free_port(at: str = "") -> int:
    """A TCP port of it, or of another address of this machine, that nothing listens on now."""
    at = at or address()
    with socket.socket(family(at), socket.SOCK_STREAM) as probe:
        probe.bind((at, 0))
        return int(probe.getsockname()[1])


def family(at: str) -> socket.AddressFamily:
    """The family of an address."""
    return socket.AF_INET6 if ":" in at else socket.AF_INET


def is_one(host: str) -> bool:
    """Whether a host's name or address, as tools print it, is a loopback's."""
    name = host.strip("[]").partition("%")[0]
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name.lower() in {"localhost", "ip6-localhost"}


def is_foreign(error: BaseException) -> bool:
    """Whether nothing could listen on an address because it is no address of this machine."""
    return isinstance(error, socket.gaierror) or getattr(error, "errno", 0) == errno.EADDRNOTAVAIL


def _is_routed(place: str) -> bool:
    # A datagram socket sends nothing when it is connected: only the route is looked up.
    with contextlib.suppress(OSError), socket.socket(family(place), socket.SOCK_DGRAM) as probe:
        probe.connect((place, 9))
        return True
    return False
