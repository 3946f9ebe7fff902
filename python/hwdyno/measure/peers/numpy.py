"""The loader in plain NumPy: threads that each load a whole batch ahead."""

from __future__ import annotations

from hwdyno.measure.peers.loaders import LoaderPeer

PEER = LoaderPeer("numpy")
