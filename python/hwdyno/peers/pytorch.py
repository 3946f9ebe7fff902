"""PyTorch's DataLoader, whose readers are processes that each load a whole batch ahead."""

from __future__ import annotations

from hwdyno.peers.loaders import Loader

PEER = Loader("pytorch")
