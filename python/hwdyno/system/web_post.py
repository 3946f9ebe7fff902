"""Posts a small JSON document to the address that a user named, within a deadline, and follows no redirection."""

from __future__ import annotations

import base64
import json
import threading
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.parse import unquote, urlsplit

from hwdyno import __version__
from hwdyno.model.words import UserError

LIMIT_S = 10.0
"""Longest time from the start of a post to its answer."""


def check_address(url: str) -> str:
    """The host of a web address; raises ``UserError``, which never shows the rest: it may be a secret."""
    try:
        parts = urlsplit(url)
        if parts.scheme.lower() in {"http", "https"} and parts.hostname and parts.port != 0:
            return parts.hostname
    except ValueError:
        pass
    raise UserError("--post takes a web address, such as https://alerts.example/hook")


def post_json(url: str, document: dict[str, Any], limit_s: float = LIMIT_S) -> str:
    """Post a document; why it was not taken in a few words, or empty."""
    answer = ["no answer"]

    def send() -> None:
        answer[0] = _send(url, json.dumps(document).encode(), limit_s)

    # A server that trickles its answer outlives the time of any single wait.
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    sender.join(limit_s)
    return _too_late(limit_s) if sender.is_alive() else answer[0]


def _too_late(limit_s: float) -> str:
    return f"no answer within {limit_s:g} s"


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Refuse: a post that is led elsewhere would arrive there as a request without its document."""


def _send(url: str, body: bytes, limit_s: float) -> str:
    parts = urlsplit(url)
    headers = {"Content-Type": "application/json", "User-Agent": f"hwdyno/{__version__}"}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    try:
        request = urllib.request.Request(url, body, headers)
        with urllib.request.build_opener(_NoRedirection).open(request, timeout=limit_s):
            return ""
    except urllib.error.HTTPError as error:
        error.close()
        return f"it answered {error.code} {error.reason}".strip()
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            return _too_late(limit_s)
        return getattr(error.reason, "strerror", None) or str(error.reason)
    except TimeoutError:
        return _too_late(limit_s)
    except (OSError, HTTPException, ValueError) as error:
        return getattr(error, "strerror", None) or type(error).__name__
