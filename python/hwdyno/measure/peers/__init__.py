"""Reference tools, one file each, found by walking this folder: find the tool, run it on a point, read its output."""

from __future__ import annotations

from hwdyno.measure.peers.catalogue import find, find_installed, names
from hwdyno.measure.peers.peer import Peer, PeerReading

__all__ = [
    "Peer",
    "PeerReading",
    "find",
    "find_installed",
    "names",
]
