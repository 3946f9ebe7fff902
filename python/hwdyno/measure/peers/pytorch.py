"""The loader with PyTorch's DataLoader: worker processes that each load a whole batch ahead."""

from __future__ import annotations

from hwdyno.measure.peers.loaders import LoaderPeer

PEER = LoaderPeer("pytorch")
