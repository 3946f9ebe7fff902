"""A loader in plain NumPy, as people write it: threads that each load a whole batch ahead."""

from __future__ import annotations

from hwdyno.peers.loaders import Loader

PEER = Loader("numpy")
