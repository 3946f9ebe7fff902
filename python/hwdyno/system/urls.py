"""URLs that may have a password: how they are shown."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"([a-z][a-z0-9+.-]*://(?!\[)[^/\s:@]*):.*@", re.IGNORECASE | re.DOTALL)
_WEB_PORT = re.compile(r"https?://[^/\s:@]*:\d{1,5}(?=[/?#\s]|$)", re.IGNORECASE)
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
