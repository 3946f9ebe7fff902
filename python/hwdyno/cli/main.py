"""The entry of the command line."""

from __future__ import annotations


def main() -> int:
    """Run the command line and give its exit status."""
    return 0
