"""The base of hwdyno's errors, by which a program catches all of them."""

from __future__ import annotations


class HwdynoError(Exception):
    """The base of every error that hwdyno raises on purpose; its text is one line."""
