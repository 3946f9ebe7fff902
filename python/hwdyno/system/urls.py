"""URLs: how those with a password are shown, and places in an object store, ``s3://bucket/prefix``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

_PASSWORD = re.compile(r"([a-z][a-z0-9+.-]*://(?!\[)[^/\s:@]*):.*@", re.IGNORECASE | re.DOTALL)
_WEB_PORT = re.compile(r"https?://[^/\s:@]*:\d{1,5}(?=[/?#\s]|$)", re.IGNORECASE)
OBJECT_STORE = "s3://"
"""How a ``--path`` begins that is a place in an object store."""
_PARAMETER = re.compile(r"(?<!\w)(password|passfile|sslpassword)=[^&\s]*", re.IGNORECASE)


def without_password(text: str) -> str:
    """A text, such as a word of a command line, without the password that a URL in it may have.

    A password may have any character, so what is between a user's name and the last ``@`` goes: rather too much than a
    part too little. A web address with a port (``http://host:8000/a@b``) has no password there.
    """
    if "://" not in text and "password" not in text.lower():
        return text
    hidden = text if _WEB_PORT.search(text) and text.count("://") == 1 else _PASSWORD.sub(r"\1@", text)
    return _PARAMETER.sub(r"\1=…", hidden)


def in_object_store(path: PurePath) -> bool:
    """Whether a path is ``s3://bucket/prefix``, whose first part is ``s3:``; a folder of that name is absolute."""
    return not path.is_absolute() and path.parts[:1] == (OBJECT_STORE.rstrip("/"),)


def format_place(path: PurePath) -> str:
    """A path as ``--path`` and the engine take it."""
    return OBJECT_STORE + "/".join(path.parts[1:]) if in_object_store(path) else str(path)


def split_place(path: PurePath) -> tuple[str, str]:
    """The bucket of a place in an object store, and what keys in it begin with: empty, or with a slash at its end."""
    bucket, *folders = path.parts[1:] or ("",)
    return bucket, "".join(f"{folder}/" for folder in folders)


def reach_below(path: PurePath, reached: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the kernels of an object store for a place there, which take bucket and prefix apart.

    ``reached`` has the endpoint, and how it is reached.
    """
    bucket, prefix = split_place(path)
    return {**reached, "bucket": bucket, "prefix": prefix, "tls": str(reached["endpoint"]).startswith("https://")}
